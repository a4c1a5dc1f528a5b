"""One self-contained HTML file that tells what a fitted model found."""

from .page import write_report

__all__ = ["write_report"]
