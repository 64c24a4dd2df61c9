"""Normalizers by annealing: from a law that can be drawn from to one that is known up to a constant."""
