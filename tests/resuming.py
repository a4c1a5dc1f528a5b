"""A run that Ctrl-C stops and a second one resumes, beside one that is never stopped."""

from __future__ import annotations

import signal

import numpy as np

import thali.run.loop as run_module


def check_resuming(make, X, path, monkeypatch, at):
    """``make()`` is a model of an optimizer; Ctrl-C comes at step ``at``, counted over restarts."""
    whole = make().fit(X)
    engine = type(whole.engine_)
    step, seen = engine.step, []

    def count(*arguments):
        seen.append(1)
        if len(seen) == at:
            signal.raise_signal(signal.SIGINT)
        return step(*arguments)

    monkeypatch.setattr(run_module, "cores", lambda: 1)
    monkeypatch.setattr(run_module, "SLICE", 0.0)
    monkeypatch.setattr(engine, "step", count)
    part = make().fit(X, checkpoint=path)
    assert part.stopped_ == "interrupted"
    assert part.history_["elbo"].shape[1] < whole.history_["elbo"].shape[1]
    monkeypatch.setattr(engine, "step", step)
    rest = make().fit(X, checkpoint=path, resume=True)
    for name, values in whole.history_.items():
        assert np.array_equal(values, rest.history_[name]), name
    assert rest.elbo_ == whole.elbo_
    assert all(
        np.array_equal(whole.variational_params_[name], rest.variational_params_[name])
        for name in whole.variational_params_
    )


def check_resuming_of_chains(make, X, path, monkeypatch):
    """``make()`` is a model of a sampler; it is stopped at its first checkpoint. What it comes to
    without a stop."""
    whole = make().fit(X)
    write = run_module.storage.write

    def stop(*arguments):
        write(*arguments)
        monkeypatch.setattr(run_module.storage, "write", write)
        raise KeyboardInterrupt

    monkeypatch.setattr(run_module, "CHECKPOINT_EVERY", 0.02)
    monkeypatch.setattr(run_module.storage, "write", stop)
    part = make().fit(X, checkpoint=path)
    assert part.stopped_ == "interrupted"
    assert part.history_["log_joint"].shape[1] < whole.history_["log_joint"].shape[1]
    rest = make().fit(X, checkpoint=path, resume=True)
    assert rest.stopped_ == "finished"
    assert_same_draws(whole, rest)


def assert_same_draws(one, other):
    """To the last bit."""
    for name, values in one.history_.items():
        assert np.array_equal(values, other.history_[name]), name
    for a, b in zip(one.draws(), other.draws(), strict=True):
        assert np.array_equal(a.Z, b.Z)
        assert np.array_equal(a.A, b.A)
        assert a.parameters.keys() == b.parameters.keys()
        for name, values in a.parameters.items():
            assert np.array_equal(values, b.parameters[name]), name
