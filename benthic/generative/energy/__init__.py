"""Models known up to a constant: energies, and the restricted Boltzmann machine."""
