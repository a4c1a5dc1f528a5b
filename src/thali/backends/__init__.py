"""The local step on blocks of rows, and where it runs."""
