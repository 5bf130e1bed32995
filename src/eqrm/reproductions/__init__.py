"""Tables and figures of papers, computed again: a folder each, run by ``eqrm reproduce``.

A folder holds the settings, what is expected and where that comes from, the computation, and
functions that only draw.
"""

from eqrm.reproductions.base import Check, Outcome, Picture, Reproduction, Table
from eqrm.reproductions.registry import reproduction, reproduction_names
from eqrm.reproductions.report import Report

__all__ = [
    "Check",
    "Outcome",
    "Picture",
    "Report",
    "Reproduction",
    "Table",
    "reproduction",
    "reproduction_names",
]
