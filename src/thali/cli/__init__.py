"""The command line: ``commands`` and ``options`` (what one can say), ``parts`` (words to parts),
``rows`` and ``texts`` (what is read), ``fitting`` (a fit, from its rows to its files), ``outputs``
(the files, all or nothing) and ``console`` (what is printed)."""

from thali.cli.commands import main, run

__all__ = ["main", "run"]
