"""Errors and warnings survive copies and pickles, with their fields."""

from __future__ import annotations

import copy
import importlib
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from eqrm import errors
from eqrm.errors import (
    DomainDataError,
    EqrmError,
    EqrmWarning,
    ListedProblemsError,
    MissingExtraError,
    TooFewDomainsError,
)

SOURCE = Path(errors.__file__).parent
DEFINED = re.compile(r"^class \w+\(\w*(Error|Warning)\b", re.MULTILINE)
MADE: dict[type[BaseException], tuple[Any, ...]] = {
    ListedProblemsError: ("Two problems.", ("one", "other")),
    DomainDataError: ("Risk 3 is NaN.", (3,)),
    TooFewDomainsError: ("29 domains are needed, got 10.", 10, 29),
    MissingExtraError: ("matplotlib", "plots", "Drawing a figure"),
}


def kinds(base: type[BaseException]) -> list[type[BaseException]]:
    """All errors or warnings of the package."""
    for path in sorted(SOURCE.rglob("*.py")):
        if DEFINED.search(path.read_text(encoding="utf-8")):
            parts = path.relative_to(SOURCE.parent).with_suffix("").parts
            importlib.import_module(".".join(parts))
    found, left = [], [base]
    while left:
        kind = left.pop()
        found.append(kind)
        left += kind.__subclasses__()
    return sorted(set(found), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("base", [EqrmError, EqrmWarning])
def test_every_error_and_warning_is_copied_and_pickled_with_its_fields(
    base: type[BaseException],
) -> None:
    assert len(kinds(base)) >= 3
    for kind in kinds(base):
        made = kind(*MADE.get(kind, ("What went wrong.",)))
        for again in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
            assert type(again) is kind
            assert (str(again), again.args, vars(again)) == (str(made), made.args, vars(made))
