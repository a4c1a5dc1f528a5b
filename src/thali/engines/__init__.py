"""Engines: how a model's state is walked or optimised (one file an engine)."""

from thali.engines.collapsed_gibbs import CollapsedGibbs

__all__ = ["CollapsedGibbs"]
