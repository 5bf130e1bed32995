"""Choosing levels and models over whole domains."""
