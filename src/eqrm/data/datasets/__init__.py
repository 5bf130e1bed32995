"""Datasets by name, one file each."""
