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
