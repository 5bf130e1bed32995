"""Moments of the domains: all that squared error needs of the data."""
