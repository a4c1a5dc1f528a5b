"""The report: sections put into one page, and the page put on disk all at once."""

import os
from importlib.resources import files
from pathlib import Path
from string import Template

from sklearn.utils.validation import check_is_fitted

from thali import storage
from thali.estimators.base import LatentModel
from thali.plots.reading import image_shape_of
from thali.plots.style import plain
from thali.structures.base import AnyStructure
from thali.structures.features import FEATURES
from thali.structures.grouped_partitions import GROUPED_PARTITIONS
from thali.structures.partitions import PARTITIONS

from . import clusters, features, sections, topics
from .markup import Markup, esc, join, section, tag
from .pictures import drawing
from .story import Story, plain_story

OF_EVERY = {
    "summary": ("Summary", sections.summary),
    "convergence": ("Convergence", sections.convergence),
}
STORIES: dict[AnyStructure, Story] = {
    FEATURES: features.STORY,
    PARTITIONS: clusters.STORY,
    GROUPED_PARTITIONS: topics.STORY,
}


def write_report(
    model: LatentModel,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    image_shape: tuple[int, int] | None = None,
) -> Path:
    """Write what `model` found to `path`: one HTML file that needs nothing else, online or off.

    `image_shape=(height, width)` draws rows as images. An existing file is replaced only when the
    new one is complete.

    Examples
    --------
    >>> import numpy as np, tempfile, thali
    >>> X = np.random.default_rng(0).normal(size=(8, 3))
    >>> engine = thali.CollapsedGibbs(sweeps=20, chains=2)
    >>> model = thali.LatentFeatures(engine=engine, random_state=0, progress=False).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_report(model, f"{folder}/report.html", title="Noise")
    ...     "<h1>Noise</h1>" in path.read_text(encoding="utf-8")
    True
    """
    check_is_fitted(model)
    path = Path(path)
    with storage.replacing(path) as beside:
        text = page(model, title, image_shape)
        beside.write_text(text, encoding="utf-8", errors="replace", newline="\n")
    return path


def page(
    model: LatentModel, title: str | None = None, image_shape: tuple[int, int] | None = None
) -> str:
    """The whole page as text."""
    story = STORIES.get(model.structure) or plain_story(model.structure)
    parts = {**OF_EVERY, **story.sections}
    shape = image_shape_of(model, image_shape) if story.draws_rows else None
    with drawing():
        written = {id_: (heading, write(model, shape)) for id_, (heading, write) in parts.items()}
    told = {id_: (heading, own) for id_, (heading, own) in written.items() if own}
    body = join(section(id_, heading, *own) for id_, (heading, own) in told.items())
    template = Template(_shipped("template.html"))
    return template.substitute(
        title=esc(plain(title, 200) if title else story.title),
        style=Markup(_shipped("style.css")),
        lede=esc(story.lede(model)),
        nav=join(tag("a", heading, href=f"#{id_}") for id_, (heading, _) in told.items()),
        sections=body,
        footer=sections.footer(),
    )


def _shipped(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
