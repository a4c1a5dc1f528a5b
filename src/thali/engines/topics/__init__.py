"""Topics of words: the state of a sampler, its steps, and what engines of topics share."""
