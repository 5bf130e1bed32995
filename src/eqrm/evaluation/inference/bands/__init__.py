"""Confidence bands for the whole distribution of the risk of a new domain."""
