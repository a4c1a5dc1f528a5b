"""One fit of the command line: read what was asked for, choose, fit, write, and say so."""

import os
import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import thali
from thali.cli import console, parts
from thali.cli.outputs import CHECKPOINT, IMPUTED, claim_folder, write_outputs
from thali.cli.rows import Asked, Rows, in_whole_numbers
from thali.data.matrix import Table
from thali.estimators.base import LatentModel
from thali.estimators.tables import n_missing
from thali.estimators.validation import seed_from
from thali.likelihoods.table import TableLikelihood
from thali.model import Model
from thali.registry import estimator_of
from thali.run.choices import AUTO
from thali.run.likelihoods import choose_likelihood
from thali.run.trials import left_of

Say = Callable[[str], None]
Read = Callable[[Asked, tuple[int, int] | None], Rows]


def fit_rows(
    given: parts.Given,
    asked: Asked,
    read: Read,
    settings: Mapping[str, object] | None = None,
    of_fit: Mapping[str, object] | None = None,
    of_likelihood: Mapping[str, object] | None = None,
) -> int:
    """Fit a model to what is read, write what it found, say so, and return the exit code.

    ``settings`` are those of the estimator that not all have, ``of_fit`` those of its ``fit``, and
    ``of_likelihood`` those of the likelihood that are no option of it.
    """
    say: Say = (lambda message: None) if asked.quiet else print
    name = given.likelihood_name()
    likelihood = given.part("likelihood", parts.STANDARD if name == AUTO else name)
    if of_likelihood and name != AUTO:
        likelihood = likelihood.replace(**of_likelihood)
    chosen = Model(given.part("prior"), likelihood)
    by_data = given.values["engine"] == AUTO
    # refuses bad settings before the data are read
    engine = AUTO if by_data and name == AUTO else given.engine(chosen)
    seconds = parts.read_time_budget(asked.time_budget)
    shape = parts.read_image_shape(asked.image_shape)
    rows = read(asked, shape)
    say(rows.said)
    told, spent = given.likelihood_told(), 0.0
    X = rows.X
    if name == AUTO:
        given_settings = settings or {}
        types = (of_likelihood or {}).get("types", AUTO)
        with _better_words(rows):
            choice = choose_likelihood(
                *(X, chosen.prior, engine),
                center=bool(given_settings.get("center")),
                scale=bool(given_settings.get("scale")),
                types=types,
                time_budget=seconds,
                progress=False if asked.quiet else "auto",
                resumed=asked.out / CHECKPOINT if asked.resume else None,
            )
        told.append(choice.sentence())
        likelihood = choice.likelihood
        spent = choice.seconds
        chosen = Model(chosen.prior, likelihood)
        if isinstance(likelihood, TableLikelihood):
            X = in_whole_numbers(X)
        elif of_likelihood:
            raise ValueError(f"--types is of no use here: {told[-1]} Name one by --likelihood.")
    if by_data:
        engine, _ = found = given.engine_for(chosen, rows.values, seconds)
        told.append(found.sentence())
    for sentence in told:
        say(f"Chosen: {sentence}")
    out, resume = asked.out, asked.resume
    model = estimator_of(chosen.structure)(
        prior=chosen.prior,
        likelihood=likelihood,
        engine=engine,
        random_state=_seed(asked.seed, out / CHECKPOINT if resume else None, say),
        progress=False if asked.quiet else "auto",
        **(settings or {}),
    )
    model._told, model._named = tuple(told), name != AUTO
    with claim_folder(out), _better_words(rows):
        code = fit_and_write(
            *(model, X, out, shape, say),
            resume=resume,
            time_budget=left_of(seconds, spent),
            of_fit={**(of_fit or {}), **rows.of_fit},
            names=rows.names,
        )
    say(console.describe_answer(model))
    if (out / IMPUTED).exists():
        say(f"{n_missing(model)} missing entries were filled in: {out / IMPUTED}.")
    say(f"Written to {out}: open {out / 'report.html'} in a browser.")
    return code


@contextmanager
def _better_words(rows: Rows) -> Iterator[None]:
    """An error about the data in the words of the file, where these are known."""
    try:
        yield
    except ValueError as error:
        raise ValueError(rows.why() or str(error)) from error


def fit_and_write(
    model: LatentModel,
    X: Table,
    out: Path,
    image_shape: tuple[int, int] | None,
    say: Say,
    *,
    resumable: bool = True,
    resume: bool = False,
    time_budget: float | None = None,
    of_fit: Mapping[str, Any] | None = None,
    names: list[str] | None = None,
) -> int:
    """Fit, write the outputs, and return the exit code; a stopped run can be resumed later.

    ``names`` are those of rows that X does not tell.
    """
    checkpoint, earlier = out / CHECKPOINT, out / "checkpoint.previous.thali"
    if resume and not checkpoint.exists():
        say(f"There is no unfinished run in {out}; starting afresh.")
        resume = False
    replaces = checkpoint.exists() and not resume
    if replaces:
        os.replace(checkpoint, earlier)
        say(f"Starting afresh; the unfinished run that lay there is kept as {earlier}.")
    try:
        path = checkpoint if resumable else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", thali.DegenerateFit)  # the verdict tells it,
            warnings.simplefilter("ignore", thali.DiscreteData)  # and this
            model.fit(X, checkpoint=path, resume=resume, time_budget=time_budget, **(of_fit or {}))
    except BaseException:
        if not resume:
            checkpoint.unlink(missing_ok=True)
        if replaces:
            os.replace(earlier, checkpoint)
        raise
    if names is not None:
        model.row_names_ = names
    try:
        write_outputs(model, out, image_shape)
    except OSError as error:
        hint = f"; --resume continues from {checkpoint}" if checkpoint.exists() else ""
        raise OSError(f"the results could not be written to {out} ({error}){hint}") from error
    if model.stopped_ == "finished":
        checkpoint.unlink(missing_ok=True)
        return 0
    why = "Stopped by Ctrl-C" if model.stopped_ == "interrupted" else "The time budget is spent"
    hint = "; --resume continues this run" if resumable and checkpoint.exists() else ""
    say(f"{why}: what was computed is kept{hint}.")
    return 130 if model.stopped_ == "interrupted" else 0


def _seed(seed: int | None, checkpoint: Path | None, say: Say) -> int:
    """The given seed, or that of the run to be resumed, or a new one."""
    if seed is None and (checkpoint is None or not checkpoint.exists()):
        seed = secrets.randbelow(2**31)
        say(f"seed: {seed} (drawn; --seed {seed} repeats this run)")
    return seed_from(seed, checkpoint)
