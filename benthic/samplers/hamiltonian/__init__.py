"""Hamiltonian samplers: HMC, NUTS, many short chains, and their adaptation."""
