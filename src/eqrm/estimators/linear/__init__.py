"""Exact fits of the linear estimators."""
