"""The command line: ``commands`` (what one can say), ``parts`` (words to parts), ``outputs`` (the
files, all or nothing) and ``console`` (what is printed)."""

from thali.cli.commands import main, run

__all__ = ["main", "run"]
