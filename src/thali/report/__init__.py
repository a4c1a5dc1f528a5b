"""One self-contained HTML file that tells what a fitted model found."""

from .convergence import Verdict, verdict
from .page import write_report

__all__ = ["Verdict", "verdict", "write_report"]
