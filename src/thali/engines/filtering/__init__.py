"""What a particle filter keeps: weighted particles and their ancestors."""
