"""One loop for every engine: progress, checkpoints, stopping and Ctrl-C live here."""

from thali.run.loop import run

__all__ = ["run"]
