"""Tables and figures of papers, and simulations of our own: a folder each, beside the package.

``python -m studies`` lists them, and ``python -m studies NAME`` runs one. A folder holds the
settings, what is expected and where that comes from, the computation, and functions that only draw.
"""
