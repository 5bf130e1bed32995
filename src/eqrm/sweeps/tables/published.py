"""Numbers that the paper prints for DomainBed and WILDS, to stand beside those of a sweep.

``published.csv`` holds them as printed: appendix G.2's tables per dataset and averages (accuracies
in percent, two selection rules), and the quantile tables of section 6.2. Left out are the rows IRM,
GroupDRO and CORAL of OGB-MolPCBA's quantiles: the first two repeat those of iWildCam, and the
third contradicts its own mean.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import resources
from typing import NamedTuple

AVERAGE = "average"
REMARKS = {
    ("averages", "training-domain", "mmd"): "The paper prints an average of 63.3 for MMD; the mean "
    "of its row is 58.8.",
    ("averages", "training-domain", "groupdro"): "The paper prints an average of 60.9 for "
    "GroupDRO; the mean of its row is 60.7.",
}
"""Where the paper's own numbers do not agree, by table, selection rule and objective."""


class PublishedNumber(NamedTuple):
    """A number as printed, and its standard error where there is one."""

    value: str
    standard_error: str


def published_rows(
    table: str, selection: str, dataset: str, objectives: Iterable[str]
) -> dict[str, dict[str, PublishedNumber]]:
    """The paper's rows for these objectives: label → column → number; none where it has none.

    ``table`` is "accuracy" or "averages" (for which ``dataset`` is empty) or "quantiles" (for
    which ``selection`` does not matter). Upper and lower case, - and _ do not matter, nor does
    what follows the first word of an objective.

    >>> published_rows("accuracy", "oracle", "pacs", ["eqrm"])["EQRM"]["A"]
    PublishedNumber(value='88.3', standard_error='0.6')
    """
    asked = set(map(objective_of, objectives))
    known = _tables().get((table, "" if table == "quantiles" else selection, folded_name(dataset)))
    found = {} if known is None else known
    return {row: dict(numbers) for row, numbers in found.items() if objective_of(row) in asked}


def matching_column(domain: str, columns: Iterable[str]) -> str | None:
    """The paper's short name of a domain.

    >>> matching_column("art_painting", "ACPS"), matching_column("location_38", ["L100", "L38"])
    ('A', 'L38')
    """
    name = folded_name(domain).replace("location", "l")
    known = list(columns)
    exact = [column for column in known if column.lower() == name]
    near = [column for column in known if name.startswith(column.lower()) and column.isalpha()]
    return next(iter(exact or near), None)


def folded_name(name: str) -> str:
    """A name without case, - and _.

    >>> folded_name("Office-Home")
    'officehome'
    """
    return name.lower().replace("-", "").replace("_", "")


def objective_of(label: str) -> str:
    """The objective in the label of a row.

    >>> objective_of("EQRM α=0.9"), objective_of("eqrm .9")
    ('eqrm', 'eqrm')
    """
    return folded_name(label.split(" ")[0])


@lru_cache
def _tables() -> Mapping[tuple[str, str, str], Mapping[str, Mapping[str, PublishedNumber]]]:
    found: dict[tuple[str, str, str], dict[str, dict[str, PublishedNumber]]] = defaultdict(dict)
    text = (resources.files("eqrm.sweeps.tables") / "published.csv").read_text(encoding="utf-8")
    for line in csv.DictReader(text.splitlines()):
        rows = found[line["table"], line["selection"], folded_name(line["dataset"])]
        number = PublishedNumber(line["value"], line["standard_error"])
        rows.setdefault(line["row"], {})[line["column"]] = number
    return dict(found)
