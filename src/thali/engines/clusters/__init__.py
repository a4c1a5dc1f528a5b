"""What engines do where the latent structure is a partition: rows have labels."""
