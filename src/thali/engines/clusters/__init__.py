"""How engines deal with partitions: what ``CollapsedGibbs`` and others do where rows have labels."""
