"""Copies in loops: ``into[:k] = values`` compiles, for seconds, the words of an error as well."""

from thali.kernels.compiling import helper


@helper
def put(into, values):
    """Copy a vector to the beginning of another."""
    for i in range(values.shape[0]):
        into[i] = values[i]


@helper
def put_matrix(into, values):
    """Copy a matrix to the top left of another."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            into[i, j] = values[i, j]
