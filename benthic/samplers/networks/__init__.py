"""Bayesian networks: graphs, conditionals, exact inference, learning."""
