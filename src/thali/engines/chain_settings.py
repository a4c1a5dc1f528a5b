"""What every engine of chains can be told: how long, how many, what is kept, where to begin."""

from dataclasses import dataclass
from typing import Any, Self

from thali.data import Data
from thali.model import Model
from thali.settings import Settings, check_settings, setting
from thali.starts import blind_names, check_init

WORK = 1e11  # multiply-adds a chain may cost when the number of sweeps is left open: minutes
FEWEST, MOST = 100, 1000  # sweeps of such a chain
LITTLE_WORK, MOST_OF_ALL = 2e9, 3000  # the same where starts disagreed: seconds more
LONGEST = 10**14  # burn-in, so that sweeps may follow it
MOST_CHAINS = 10**4  # each of them is kept in memory


def annealing() -> Any:
    """The setting ``anneal``: how many steps under falling noise lead a blind start along."""
    return setting(0, help="Steps under falling noise before the first", minimum=0, maximum=10**7)


def refuse_to_melt(engine: Any) -> None:
    """Say so where an engine is to anneal a start that knows something of the data."""
    named = isinstance(engine.init, str) and engine.init in blind_names()
    if getattr(engine, "anneal", 0) and not named:
        raise ValueError(
            f"{type(engine).__name__}: anneal melts whatever it begins from, so init must be "
            f"{', '.join(map(repr, blind_names()))}; leave anneal at 0 for another start."
        )


@dataclass(frozen=True)
class ChainSettings(Settings):
    """``sweeps`` a chain, the first ``burn_in`` not kept, then every ``thin``-th; and ``init``."""

    sweeps: int | None = setting(
        None,
        help="Sweeps of each chain; 1000, fewer where the data are large, up to 3000 where they "
        "are small and starts disagree",
        minimum=1,
    )
    burn_in: int | None = setting(
        None, help="First sweeps that are not kept; half of them", minimum=0, maximum=LONGEST
    )
    thin: int = setting(1, help="Keep one of so many sweeps", minimum=1)
    chains: int = setting(4, help="Chains, run side by side", minimum=1, maximum=MOST_CHAINS)
    init: object = setting("race", help="Where to begin")

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_settings(self)
        if self.burn_in is not None and self.sweeps is not None and self.burn_in >= self.sweeps:
            raise ValueError(
                f"{owner}: burn_in={self.burn_in} leaves nothing of {self.sweeps} "
                "sweeps; use fewer, or more sweeps."
            )
        object.__setattr__(self, "init", check_init(type(self), self.init))
        refuse_to_melt(self)

    def planned(self, model: Model, data: Data, n_components: int, disagreed: bool = False) -> Self:
        """This engine with a number of sweeps: as given, or as many as suit the data.

        Where starts ``disagreed``, small data get more of them: there are several modes.
        """
        if self.sweeps is not None:
            return self
        k = max(1, n_components)
        sweep = model.likelihood.work(data, k)
        sweeps = int(min(MOST, max(FEWEST, WORK / sweep)))
        if disagreed:
            sweeps = max(sweeps, int(min(MOST_OF_ALL, LITTLE_WORK / sweep)))
        return self.replace(sweeps=max(sweeps, (self.burn_in or 0) + FEWEST // 2))

    def steps(self, data: Data) -> int:
        return self._known()

    def plans(self) -> bool:
        return self.sweeps is None

    def keeps(self, step: int) -> bool:
        return step % self.thin == 0

    @property
    def burned(self) -> int:
        """Sweeps not kept at the beginning, once their number is known."""
        return self._known() // 2 if self.burn_in is None else self.burn_in

    @property
    def kept(self) -> int:
        """Draws kept of each chain, once the number of sweeps is known."""
        return -(-(self._known() - self.burned) // self.thin)

    def _known(self) -> int:
        if self.sweeps is None:
            raise ValueError("The number of sweeps is chosen in the run; give sweeps to fix it.")
        return self.sweeps
