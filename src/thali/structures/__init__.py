"""The latent object that a model speaks of: its shape, canonical form, counts and estimate."""
