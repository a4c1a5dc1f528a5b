"""Blocks of rows of X, and the local steps on them: where X lies, only these files know."""
