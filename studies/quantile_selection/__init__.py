"""Quantile selection against mean selection: which runs they take, and what these give."""
