"""Where ``thali fit --cluster`` works: a cluster of Dask's, or one of this machine."""

from collections.abc import Iterator
from contextlib import contextmanager

from thali.machine import cores

LOCAL = "local"
PATIENCE = "10s"  # to reach a scheduler


@contextmanager
def at_work(address: str | None) -> Iterator[None]:
    """Let Dask's tasks go to a cluster meanwhile; to none, where there is no address."""
    if address is None:
        yield
        return
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise ModuleNotFoundError(
            "--cluster needs the packages dask and distributed: pip install thali[dask]."
        ) from None
    if address == LOCAL:
        workers = {"n_workers": cores(), "threads_per_worker": 1, "dashboard_address": ":0"}
        with LocalCluster(**workers) as own, Client(own):
            yield
        return
    try:
        client = Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"--cluster {address}: no scheduler of Dask answers there ({error}); give an address "
            "such as tcp://host:8786, or 'local'."
        ) from None
    with client:
        yield
