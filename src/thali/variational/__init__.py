"""Mean-field laws of rows, features and frequencies, and the bound they make (one file a part)."""
