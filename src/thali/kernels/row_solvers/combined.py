"""The solver that a setting names, compared with the row as it is: no row gets worse.

"best" climbs by exchanges from where the row is and, if that moves it, also from what local search
finds; it takes the better one.
"""

from thali.kernels.compiling import helper
from thali.kernels.copying import put
from thali.kernels.row_solvers.double_greedy import double_greedy
from thali.kernels.row_solvers.enumeration import enumerate_sets
from thali.kernels.row_solvers.exchange import climb_by_exchanges
from thali.kernels.row_solvers.local_search import complement_worth, local_search
from thali.kernels.row_solvers.row import begin, worth

BEST, LOCAL_SEARCH, DOUBLE_GREEDY, RANDOMIZED, EXACT = range(5)
SAME = 1e-11  # of the value: a gain below it is rounding


@helper
def solve(rng, row, solver, z, slack, trial, trial_slack, upper):
    """Improve z in place if the solver can; its slack, and j, come along."""
    j = begin(row, z, slack)
    value = worth(row, z, slack, j)
    if solver == BEST:
        put(trial, z)
        put(trial_slack, slack)
        at = climb_by_exchanges(row, trial, trial_slack, j, upper)
        last, was = value, j
        value, j = _keep(row, value, j, z, slack, trial, trial_slack, at)
        if value == last and complement_worth(row, z, slack, was) <= value:
            return j  # nothing moves: what is there is at least a third of the best
        at = local_search(rng, row, trial, trial_slack, upper)
        at = climb_by_exchanges(row, trial, trial_slack, at, upper)
    elif solver == LOCAL_SEARCH:
        at = local_search(rng, row, trial, trial_slack, upper)
    elif solver == EXACT:
        at = enumerate_sets(rng, row, trial, trial_slack, upper)
    else:
        at = double_greedy(rng, row, trial, trial_slack, upper, solver == RANDOMIZED)
    return _keep(row, value, j, z, slack, trial, trial_slack, at)[1]


@helper
def _keep(row, value, j, z, slack, trial, trial_slack, at):
    """Take the trial in the place of z if it is worth more; the value and j of what is kept."""
    found = worth(row, trial, trial_slack, at)
    if found > value + SAME * (1.0 + abs(value)):
        put(z, trial)
        put(slack, trial_slack)
        return found, at
    return value, j
