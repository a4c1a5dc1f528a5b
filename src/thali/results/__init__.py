"""What a run found, and functions of it: posterior, point estimate, prediction, imputation."""
