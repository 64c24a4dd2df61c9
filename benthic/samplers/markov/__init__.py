"""Markov chains on countable states: structure, stationary laws, hitting times, convergence."""
