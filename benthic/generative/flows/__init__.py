"""Densities as invertible maps of a standard normal."""
