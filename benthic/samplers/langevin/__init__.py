"""Langevin samplers: with and without correction, underdamped, annealed, on minibatches."""
