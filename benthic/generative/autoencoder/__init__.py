"""Autoencoders: codes from which examples can be rebuilt, plain, sparse, denoising or contractive."""
