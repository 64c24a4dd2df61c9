"""Variational autoencoders: one network of encoder, prior and decoder, and the bounds it is trained by."""
