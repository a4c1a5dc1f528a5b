"""Which features should a row have? One file a solver, all behind one interface.

    solver(rng, row, z, slack, upper) → j

``row`` is the problem (``row.py``); z (K,) and its slack are filled in, whatever they held; upper
(K,) is room to work in; j is how many of the row's own features z has. Double greedy also takes
whether it goes by coins.
"""
