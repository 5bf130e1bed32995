"""Sweeps: many runs of one plan, their records, selection rules and tables."""
