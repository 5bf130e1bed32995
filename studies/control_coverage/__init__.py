"""Simulated guarantees of operating points."""
