"""What engines share that raise a lower bound of the evidence by coordinate ascent."""
