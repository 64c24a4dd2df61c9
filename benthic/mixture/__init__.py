"""Mixtures: densities that are weighted sums of simple ones."""
