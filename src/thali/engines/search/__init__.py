"""Search for the matrix of highest posterior probability, row by row.

``candidates`` are matrices of the rows so far, scored by what they are and a guess of what they can
become: ``prior_bounds`` says what their prior can be at most, ``heuristics`` what the rows to come
may add. ``best_first`` holds the queue, ``orders`` the order of the rows, ``forms`` what is done
once all rows are in. All this has two forms: features integrated out (``candidates``, ``polish``),
and binary parameters kept at their best (``kept_candidates``, ``kept_polish``).
"""
