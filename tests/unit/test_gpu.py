"""Rows on a GPU: what is refused is told anywhere; where there is a device, it agrees with here."""

import pickle
import re
import sys

import numpy as np
import pytest
import scipy.sparse

import thali
from thali.backends import device, device_rounds, device_steps, gpu
from thali.backends.base import Globals, Moments
from thali.backends.block import Block
from thali.backends.choosing import choose_backend
from thali.backends.local import Local
from thali.backends.rows import Rows
from thali.data import Data
from thali.data.elsewhere import FarData, opened
from thali.engines.ascent.point_state import SOLVERS
from thali.engines.ascent.state import iterate
from thali.kernels import expected_rows
from thali.kernels.row_solvers import combined, local_search
from thali.model import Model
from thali.starts import Start

EXACT = {"float64": 1e-9, "float32": 1e-4, "tf32": 1e-2}  # shares by which numbers may differ


@pytest.fixture
def cupy():
    pytest.importorskip("cupy", reason="CuPy is not installed: pip install 'thali[gpu]'")
    try:
        return device.cupy()
    except ValueError as none:
        pytest.skip(str(none))


def planted(n, d, k, noise=1.0, seed=0):
    rng = np.random.default_rng(seed)
    A, Z = rng.standard_normal((k, d)), rng.random((n, k)) < 0.3
    return Z @ A + noise * rng.standard_normal((n, d)), Z ^ (rng.random(Z.shape) < 0.1)


def fitted(X, random_state=0, **settings):
    engine = thali.Variational(**{"truncation": 12, "max_iter": 40} | settings)
    likelihood = thali.LinearGaussian()
    return thali.LatentFeatures("ibp", likelihood, engine, random_state=random_state).fit(X)


# ---- anywhere -----------------------------------------------------------------------------------
def test_what_is_not_a_backend_is_refused():
    with pytest.raises(ValueError, match="backend must be one of 'auto', 'local', 'dask', 'gpu'"):
        thali.Variational(backend="cuda")
    assert thali.Variational().backend == "auto"


def test_without_cupy_one_sentence_tells_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    device.cupy.cache_clear()
    X, _ = planted(20, 4, 2)
    with pytest.raises(ValueError, match=re.escape("pip install 'thali[gpu]', or use backend=")):
        fitted(X, backend="gpu")
    device.cupy.cache_clear()


def test_data_that_lie_here_stay_here():
    data = Data.of(planted(20, 4, 2)[0])
    for name in ("auto", "local"):
        assert choose_backend(name, "float64", data, "", 3) == Local(3)


GAPS = np.where(np.arange(80).reshape(20, 4) == 7, np.nan, planted(20, 4, 2)[0])


@pytest.mark.parametrize(
    ("X", "likelihood", "why"),
    [
        (scipy.sparse.eye_array(20, format="csr"), "linear_gaussian", "X is sparse"),
        (planted(20, 4, 2)[0], "sparse_factor", "rows of SparseFactor have amounts"),
        (planted(20, 4, 2)[0], "mixed", "what rows of MixedColumns show are latents"),
    ],
)
def test_what_a_gpu_cannot_take_is_refused_with_the_reason(X, likelihood, why):
    engine = thali.Variational(backend="gpu", init="prior")
    model = thali.LatentFeatures("ibp", likelihood, engine, random_state=0)
    with pytest.raises(ValueError, match=f"but {why}; use backend='local'"):
        model.fit(X)


@pytest.mark.parametrize("dtype", ["float64", "tf32"])
def test_rows_that_are_read_by_blocks_are_refused(dtype, tmp_path):
    X, Z = planted(20, 4, 2)
    np.save(tmp_path / "X.npy", X)
    for far in (tmp_path / "X.npy", thali.RowBlocks([X], n_rows=20)):
        with pytest.raises(ValueError, match="but X is read by blocks of rows; use backend='local"):
            fitted(far, backend="gpu", dtype=dtype, init=Z)
    data = FarData.of_source(opened(tmp_path / "X.npy"))
    with pytest.raises(ValueError, match=r"is for X in memory, but .* is read by blocks of rows"):
        gpu.Gpu(dtype).hold(data, Rows.hard(Z), dtype)


@pytest.mark.parametrize("solver", ["exact", "randomized_double_greedy"])
def test_solvers_that_a_gpu_lacks_are_refused(solver):
    engine = thali.MaximizationExpectation(backend="gpu", solver=solver, init="prior")
    with pytest.raises(ValueError, match=f"but solver='{solver}' is not there; use backend='local"):
        thali.LatentFeatures("ibp", "linear_gaussian", engine).fit(planted(20, 4, 2)[0])


def test_partitions_have_no_use_for_it():
    X, _ = planted(20, 4, 2)
    with pytest.raises(ValueError, match="backend is for features"):
        thali.LatentPartition(engine=thali.Variational(backend="gpu"), random_state=0).fit(X)
    with pytest.raises(ValueError, match="dtype='tf32' is a precision of GPUs"):
        thali.LatentPartition(engine=thali.Variational(dtype="tf32"), random_state=0).fit(X)


def test_a_precision_of_gpus_is_refused_here():
    with pytest.raises(ValueError, match="dtype='tf32' is a precision of GPUs"):
        fitted(planted(20, 4, 2)[0], dtype="tf32")


def test_there_is_no_use_for_data_with_gaps_on_a_device():
    there = object()
    assert Data.of(GAPS).beside(there).device is None
    data = Data.of(np.eye(3)).beside(there)
    assert data.device is there
    assert pickle.loads(pickle.dumps(data)).device is None  # read where there may be no device


def test_the_device_does_what_is_done_here():
    """What both must have in common is the same number in both."""
    soft, hard = (path.read_text("utf-8") for path in (device.SOFT, device.HARD))
    assert int(re.search(r"#define TILE (\d+)", soft)[1]) == device.TILE
    assert float(re.search(r"#define STILL REAL\((.*?)\)", soft)[1]) == expected_rows.STILL
    assert int(re.search(r"#define THREADS (\d+)", hard)[1]) == device_rounds.THREADS
    assert (device_rounds.SAME, device_rounds.LEAST) == (combined.SAME, local_search.LEAST)
    assert device_rounds.SOLVERS == SOLVERS[: len(device_rounds.SOLVERS)]
    for number, solver in enumerate(device_rounds.SOLVERS[:2]):
        assert f"#define {solver.upper()} {number}" in hard
    kernels = re.findall(r'extern "C" __global__ void (\w+)', soft + hard)
    assert sorted(kernels) == sorted(device.KERNELS)


@pytest.mark.parametrize("slab", [None, "gaussian"])
def test_a_feature_put_into_another_is_as_likely_as_either(slab, rng):
    rows = Rows.of(rng.random((7, 4)), slab)
    found = rows.joined(1, 3)
    assert np.array_equal(found.nu, np.column_stack([
        rows.nu[:, 0], np.maximum(rows.nu[:, 1], rows.nu[:, 3]), rows.nu[:, 2]
    ]))  # fmt: skip
    assert found.k == 3 == len(rows.nu.T) - 1
    assert rows.used == 4 or (rows.nu <= 0.5).all(axis=0).any()


# ---- where there is a device --------------------------------------------------------------------
def problem(n, d, k, noise):
    """Rows, and features near those that made them."""
    X, Z = planted(n, d, k, noise)
    rng = np.random.default_rng(1)
    phi = np.linalg.lstsq(Z.astype(float), X, rcond=None)[0]
    gram = (phi @ phi.T + 0.01 * d * np.eye(k))[None]
    nu = np.clip(0.8 * Z + 0.2 * rng.random(Z.shape), 0.0, 1.0)
    return X, nu, Globals(Moments(phi, gram, None), rng.standard_normal(k), noise)


def holed(X, share=0.2, seed=5):
    """The same with entries missing, no row among them."""
    found = np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)
    found[:, 0] = X[:, 0]
    return found


@pytest.mark.parametrize("dtype", EXACT)
@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("k", [1, 13, 50, 70, 1000])
def test_a_local_step_is_that_of_the_local_backend(k, gaps, sent, dtype, cupy, monkeypatch):
    if gaps and k > 100:
        pytest.skip("a matrix of so many features for each column")
    X, nu, given = problem(4133 if k < 100 else 133, 60, k, noise=4.0)
    if gaps:
        X, phi, rng = holed(X), given.features.phi, np.random.default_rng(2)
        own = phi.T[:, :, None] * phi.T[:, None, :] + np.diag(0.01 + 0.01 * rng.random(k))
        moments = Moments(phi, own.sum(axis=0)[None], own.reshape(len(own), -1))
        given = given._replace(features=moments)
    if sent:
        monkeypatch.setattr(gpu, "SENT", 2048 * X[0].nbytes)
    data, here = Data.of(X), Rows.of(nu)
    backend = gpu.Gpu(dtype, room=0 if sent else None)
    block, rows = backend.hold(data, Rows.of(nu), dtype)
    assert isinstance(block.X, np.ndarray) == sent
    found = backend.local_step(block, rows, given)
    other = Local().local_step(Block.of(data, "float64"), here, given)
    close(found, other, EXACT[dtype])
    assert np.abs(rows.nu - here.nu).max() < EXACT[dtype]
    assert rows.used == here.used
    close(backend.tally(block, rows), Local().tally(Block.of(data, "float64"), here), EXACT[dtype])


def close(found, other, share):
    """Sums, each beside the size of all."""
    for name, value in other.arrays().items():
        apart = np.linalg.norm(found.arrays()[name] - value)
        assert apart <= share * np.linalg.norm(value), name


def near(X, Z, backend, engine=None):
    """A state near the truth, its rows where the backend wants them."""
    data = Data.of(X)
    model = Model(thali.IBP(), thali.LinearGaussian()).resolve(data)
    engine, start = engine or thali.Variational(), Start("near", Z, model.start(data))
    state = engine.begin(np.random.default_rng(0), model, data, start)
    state.data, state.rows = backend.hold(data, state.rows, getattr(backend, "dtype", "float64"))
    state.backend = backend
    return state


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize(("dtype", "share"), [("float64", 1e-9), ("float32", 1e-4), ("tf32", 1e-3)])
def test_the_bound_is_the_same_after_each_of_twenty_iterations(dtype, share, gaps, cupy):
    X, Z = planted(2000, 50, 10)
    X = holed(X) if gaps else X
    states = near(X, Z, Local()), near(X, Z, gpu.Gpu(dtype))
    for _ in range(20):
        here, there = (iterate(state) for state in states)
        assert there == pytest.approx(here, rel=share)


@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("solver", device_rounds.SOLVERS)
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize(("n", "k"), [(200, 6), (20_001, 6), (3001, 70)])
def test_rounds_of_rows_that_are_points_are_those_of_the_local_backend(
    n, k, gaps, solver, sent, cupy, monkeypatch
):
    X, Z = planted(n, 20 if k < 20 else 90, k)
    X = holed(X) if gaps else X
    Z[:, -1] = np.arange(n) == 7  # a feature that one row owns
    if sent:
        monkeypatch.setattr(gpu, "SENT", 2048 * X[0].nbytes)
    engine = thali.MaximizationExpectation(n_init=1, solver=solver)
    backends = Local(), gpu.Gpu(room=0 if sent else None)
    here, there = (near(X, Z, backend, engine) for backend in backends)
    for _ in range(4):
        assert iterate(there) == pytest.approx(iterate(here), rel=1e-9)
        assert there.reported == pytest.approx(here.reported, rel=1e-9)
    assert np.array_equal(there.rows.nu, here.rows.nu)


@pytest.mark.parametrize("lies", ["here", "there"])
def test_a_fit_finds_the_same(lies, cupy):
    X, _ = planted(300, 30, 5, 0.4)
    here = fitted(X)
    there = fitted(X, backend="gpu") if lies == "here" else fitted(cupy.asarray(X))
    assert np.array_equal(there.Z_, here.Z_)
    assert there.elbo_ == pytest.approx(here.elbo_, rel=1e-9)
    assert np.allclose(there.predict_proba(X[:9]), here.predict_proba(X[:9]), atol=1e-9)
    assert pickle.loads(pickle.dumps(there)).elbo_ == there.elbo_
    new = cupy.asarray(X[:9])
    assert np.array_equal(there.transform(new), here.transform(X[:9]))


def test_a_fit_to_data_with_gaps_finds_the_same(cupy):
    X = holed(planted(300, 30, 5, 0.4)[0], 0.1)
    for engine in (
        thali.Variational(truncation=12, max_iter=40),
        thali.MaximizationExpectation(n_init=1),
    ):
        here, there = (
            thali.LatentFeatures(
                "ibp", thali.LinearGaussian(), engine.replace(backend=backend), random_state=0
            ).fit(X)
            for backend in ("local", "gpu")
        )
        assert np.array_equal(there.Z_, here.Z_)
        assert there.elbo_ == pytest.approx(here.elbo_, rel=1e-9)
        assert np.allclose(there.impute(), here.impute(), atol=0.1)  # means of other draws


def test_columns_are_put_into_units_there_too(cupy):
    X, _ = planted(200, 20, 4, 0.4)
    given = cupy.asarray(3.0 * X + 5.0)
    engine = thali.Variational(truncation=8, max_iter=20)
    model = thali.LatentFeatures(
        "ibp", thali.LinearGaussian(), engine, center=True, scale=True, random_state=0
    )
    elbo = model.fit(given).elbo_
    assert elbo == pytest.approx(model.fit(3.0 * X + 5.0).elbo_, rel=1e-9)
    assert np.array_equal(given.get(), 3.0 * X + 5.0)  # as it was


def test_gaps_of_an_array_there_are_missing_entries(cupy):
    data = Data.of(cupy.asarray(GAPS))
    assert data.missing == 1
    assert data.device is None


def test_restarts_share_one_copy_of_the_data(cupy):
    X, Z = planted(50, 5, 2)
    data, backend = Data.of(X), gpu.Gpu()
    first, second = (backend.hold(data, Rows.of(Z), "float64")[0].X for _ in range(2))
    assert first is second


def test_rows_there_change_as_rows_here_do(cupy, rng):
    nu = rng.random((77, 4))
    here, there = Rows.of(nu), gpu.DeviceRows.sent(nu, "float64")
    column, scores = nu[:, 0] > 0.5, rng.standard_normal(77)
    for change in (
        lambda rows: rows.joined(0, 2),
        lambda rows: rows.taken(np.array([3, 1])),
        lambda rows: rows.with_column(column, scores),
        lambda rows: rows.copied(),
    ):
        a, b = change(here), change(there)
        assert (b.n, b.k, b.used) == (a.n, a.k, a.used)
        assert np.array_equal(b.nu, a.nu)
        assert np.allclose(b.products(), a.products(), rtol=1e-12)
    assert np.array_equal(there.nu, nu)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("beside", [(), (3,)])
def test_what_is_left_points_the_same_way(beside, gaps, cupy, rng):
    X, nu, given = problem(500, 40, 6, 1.0)
    v, data = rng.standard_normal((40, *beside)), Data.of(holed(X) if gaps else X)
    backend = gpu.Gpu("float64")
    found = backend.residual_scores(*backend.hold(data, Rows.of(nu), ""), given.features.phi, v)
    here = Block.of(data, "float64"), Rows.of(nu)
    for ours, other in zip(
        found, Local().residual_scores(*here, given.features.phi, v), strict=True
    ):
        assert np.allclose(ours, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())


def test_sums_in_single_precision_lose_nothing_by_many_rows(cupy):
    """Added one after the other, a million equal numbers would be off by more than 0.5%."""
    n, kind = 2**20 + 7, device.KINDS["float32"]
    X, rows = (
        cupy.full((n, 2), 1.1, "float32"),
        gpu.DeviceRows.sent(np.full((n, 1), 0.3), "float32"),
    )
    sums = device_steps.Sums(kind, 1, 2)
    sums.add(X, None, rows.W)
    found, likely = sums.statistics(Block(X, None, np.ones(n)))
    nu, x = (float(np.float32(value)) for value in (0.3, 1.1))
    assert found.counts[0] == pytest.approx(n * nu, rel=1e-9)
    assert found.T[0] == pytest.approx(n * nu * x, rel=3e-5)
    assert likely[0] == 0.0
