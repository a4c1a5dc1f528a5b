"""Compiled kernels: arrays in, arrays out; no classes, no files, no Python in the loops."""
