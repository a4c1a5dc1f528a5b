"""Which backend a setting means, for these data: "auto" takes Dask for its own collections, and a
GPU where X lies on one."""

from thali.backends.base import Backend
from thali.backends.local import Local
from thali.data import Data
from thali.data.elsewhere.collections import DaskRows

BACKENDS = ("auto", "local", "dask", "gpu")
DTYPES = ("float64", "float32", "tf32")


def choose_backend(name: str, dtype: str, data: Data, lacks: str, threads: int) -> Backend:
    """The backend of this name; ``lacks`` says why rows of the model cannot be on a GPU, if so."""
    if name == "dask" or (name == "auto" and isinstance(data.X, DaskRows)):
        from thali.backends.dask import Dask

        refuse_tf32(dtype)
        return Dask()
    if data.sparse:
        lacks = "X is sparse"
    if data.far:
        lacks = "X is read by blocks of rows"
    if name == "gpu" and lacks:
        raise ValueError(
            f"backend='gpu' is for dense data in memory and features without amounts, but {lacks}; "
            "use backend='local'."
        )
    if name == "local" or lacks or (name == "auto" and data.device is None):
        refuse_tf32(dtype)
        return Local(threads)
    from thali.backends.device import cupy
    from thali.backends.gpu import Gpu

    cupy()
    return Gpu(dtype)


def refuse_tf32(dtype: str) -> None:
    """Refuse a precision that only GPUs have."""
    if dtype == "tf32":
        raise ValueError(
            "dtype='tf32' is a precision of GPUs, and the work is done here; use dtype='float32', "
            "or backend='gpu' where there is one."
        )
