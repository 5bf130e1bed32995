"""Bounds computed on the past, compared with what came."""
