"""Draws from a law itself: inversion, rejection, importance weights."""
