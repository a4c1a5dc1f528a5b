"""A run killed with SIGKILL at a random moment and resumed ends with the draws of one never killed.

Bitwise: every scalar of every sweep and every kept Z.  The run is killed several times, so that it
is also resumed from the checkpoint of a resumed run, and whatever a kill leaves half-written beside
the checkpoint must not matter.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

SWEEPS = 4000
PROGRAM = f"""
import sys
import numpy as np
import thali
import thali.run.loop

thali.run.loop.CHECKPOINT_EVERY = 0.2  # many checkpoints, so that kills fall between and into them
seed, checkpoint, answer = int(sys.argv[1]), sys.argv[2], sys.argv[3]
rng = np.random.default_rng(seed)
Z = rng.random((30, 3)) < 0.4
X = Z @ rng.normal(size=(3, 5)) + 0.4 * rng.normal(size=(30, 5))
engine = thali.CollapsedGibbs(sweeps={SWEEPS}, burn_in=1000, thin=3, chains=3, init="prior")
model = thali.LatentFeatures(engine=engine, random_state=seed, progress=False)
if checkpoint == "none":
    model.fit(X)
else:
    model.fit(X, checkpoint=checkpoint, resume=True)
draws = list(model.draws())
np.savez(
    answer,
    Z=np.concatenate([d.Z for d in draws], axis=1),
    K=np.array([d.Z.shape[1] for d in draws]),
    A=np.concatenate([d.A for d in draws]),
    scalars=np.array([[d.alpha, d.sigma_x, d.sigma_a, d.log_joint] for d in draws]),
    **{{f"history_{{name}}": values for name, values in model.history_.items()}},
)
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("resume") / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def start(program, seed, checkpoint, answer):
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    arguments = [sys.executable, str(program), str(seed), str(checkpoint), str(answer)]
    return subprocess.Popen(arguments, env=environment, stderr=subprocess.PIPE)


def finish(process):
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors.decode()


def kill_after_checkpoint(process, checkpoint, before, delay):
    """Wait until the checkpoint is newer than ``before``, then a random while, then SIGKILL."""
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if checkpoint.exists() and checkpoint.stat().st_mtime_ns != before:
            break
        time.sleep(0.005)
    time.sleep(delay)
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    return process.returncode


def killed_and_resumed(program, seed, folder, kills):
    rng = np.random.default_rng(seed)
    checkpoint, answer = folder / "run.checkpoint", folder / "resumed.npz"
    died = 0
    for _ in range(kills):
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else None
        process = start(program, seed, checkpoint, answer)
        delay = rng.uniform(0.0, 0.5)
        died += kill_after_checkpoint(process, checkpoint, before, delay) == -signal.SIGKILL
    finish(start(program, seed, checkpoint, answer))
    return answer, died


@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, 8])
def test_killed_and_resumed_is_never_killed(program, kills, tmp_path, seed):
    if not hasattr(signal, "SIGKILL"):
        pytest.skip("this system has no SIGKILL")
    whole = tmp_path / "whole.npz"
    finish(start(program, seed, "none", whole))
    resumed, died = killed_and_resumed(program, seed, tmp_path, kills)
    assert died >= 1, "no kill came before the end; the test compared nothing"
    with np.load(whole) as a, np.load(resumed) as b:
        assert sorted(a.files) == sorted(b.files)
        assert a["history_n_components"].shape == (3, SWEEPS)
        assert len(a["K"]) == 3 * 1000
        for name in a.files:
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)
