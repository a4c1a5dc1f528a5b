"""What collapsed Gibbs sampling does where the latent structure is a feature matrix."""
