"""Probability distributions: families, densities and what can be computed with them."""
