"""Columns of probabilities per class, suggested where an evaluation lacks them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from eqrm.errors import DomainDataError, SettingError
from eqrm.text import listed

Found = TypeVar("Found")

WITHOUT_PROBABILITIES = (
    "the label is missing or not a number",
    "--prediction is missing",
)
"""In errors about labels that come without the probabilities of their classes."""
FEWEST_CLASSES = 2


def suggesting_classes(
    evaluated: Callable[[], Found],
    files: Sequence[str],
    label: str | None,
    predictions: Sequence[str] | None,
) -> Found:
    """What an evaluation gives; its error names columns of probabilities that were not asked for.

    They are meant where labels are text, or no predictions are given.
    """
    from eqrm.data.tables.files import opened
    from eqrm.data.tables.sources import MEMORY

    try:
        return evaluated()
    except (DomainDataError, SettingError) as error:
        told = str(error)
        if label is None or not any(each in told for each in WITHOUT_PROBABILITIES):
            raise
        if any("{class}" in name for name in predictions or []):
            raise
        with opened(list(files), None, MEMORY) as table:
            found = [name for name in table.types if name.startswith("p_")]
        if len(found) >= FEWEST_CLASSES:
            error.args = (
                f"{told} The columns {listed(found)} look like probabilities of classes, as 'eqrm "
                "predict' writes them: use --prediction 'p_{class}'.",
            )
        raise
