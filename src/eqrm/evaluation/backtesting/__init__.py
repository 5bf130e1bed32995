"""Bounds computed on past domains, compared with the risks of later ones."""
