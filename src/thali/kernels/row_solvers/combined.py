"""The solver that a setting names; "best" is the best of the others that are not at random.

All of them are compared with the row as it is, so that a row never gets worse.
"""

from __future__ import annotations

from numba import njit

from thali.kernels.row_solvers.double_greedy import double_greedy, randomised_double_greedy
from thali.kernels.row_solvers.enumeration import enumerate_sets
from thali.kernels.row_solvers.local_search import climb, local_search
from thali.kernels.row_solvers.row import begin, worth

BEST, LOCAL_SEARCH, DOUBLE_GREEDY, RANDOMISED, EXACT = range(5)
SAME = 1e-11  # of the value: a gain below it is rounding


@njit(cache=True, nogil=True)
def solve(rng, row, solver, z, slack, trial, trial_slack, upper):
    """Improve z in place if the solver can; its slack, and j, come along."""
    j = begin(row, z, slack)
    value = worth(row, z, slack, j)
    if solver == BEST:  # up from where the row is, from both ends, and from the best single one
        trial[:] = z
        trial_slack[:] = slack
        at = climb(row, trial, trial_slack, j)
        value, j = _keep(row, value, j, z, slack, trial, trial_slack, at)
        at = double_greedy(rng, row, trial, trial_slack, upper)
        at = climb(row, trial, trial_slack, at)
        value, j = _keep(row, value, j, z, slack, trial, trial_slack, at)
        at = local_search(rng, row, trial, trial_slack, upper)
    elif solver == LOCAL_SEARCH:
        at = local_search(rng, row, trial, trial_slack, upper)
    elif solver == DOUBLE_GREEDY:
        at = double_greedy(rng, row, trial, trial_slack, upper)
    elif solver == RANDOMISED:
        at = randomised_double_greedy(rng, row, trial, trial_slack, upper)
    else:
        at = enumerate_sets(rng, row, trial, trial_slack, upper)
    return _keep(row, value, j, z, slack, trial, trial_slack, at)[1]


@njit(cache=True, nogil=True)
def _keep(row, value, j, z, slack, trial, trial_slack, at):
    """Take the trial in the place of z if it is worth more; the value and j of what is kept."""
    found = worth(row, trial, trial_slack, at)
    if found > value + SAME * (1.0 + abs(value)):
        z[:] = trial
        slack[:] = trial_slack
        return found, at
    return value, j
