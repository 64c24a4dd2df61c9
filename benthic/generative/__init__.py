"""Models that generate: autoencoders and what follows."""
