"""Which domains the report lists, so that it stays under 1 MB whatever they are called."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqrm.domains import Name
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.presenting.report.safe_json import bytes_of
from eqrm.evaluation.presenting.report.shapes import digits_of, shorts

MOST_BYTES = 900_000
"""What all data of the page may take: with style and script it stays under 1 MB."""
FEWEST_BYTES = 50_000
LONGEST_NAMES = (20_000, 1000, 200, 60)
MOST_POINTS = 2000


def rows_of(evaluation: Evaluation, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """The domains in columns: names, examples, and per predictor risks and sampling errors.

    All of them where they fit into ``most_bytes``; else long names are shortened; else only
    the worst and the best of each predictor are kept, as many as fit.

    >>> import eqrm
    >>> found = eqrm.evaluate(domains=["a", "a", "b", "b"], losses=[0.1, 0.3, 0.5, 0.9])
    >>> rows = rows_of(found)
    >>> rows["names"], rows["risks"], rows["all"]
    (['a', 'b'], [[0.2, 0.7]], True)
    """
    everything = np.arange(len(evaluation.domains))
    for longest in LONGEST_NAMES:
        rows = _columns(evaluation, everything, longest)
        if bytes_of(rows) <= most_bytes:
            return {**rows, "all": True}
    kept = everything.size
    while True:
        kept = max(1, int(kept * min(0.8, most_bytes / bytes_of(rows))))
        rows = _columns(evaluation, _ends(evaluation, kept), LONGEST_NAMES[-1])
        if bytes_of(rows) <= most_bytes or kept == 1:
            return {**rows, "all": False}


def sampled_points(evaluation: Evaluation) -> dict[str, Any] | None:
    """An even sample of examples and risks for risk against size; None where all are listed.

    >>> import eqrm
    >>> found = eqrm.evaluate(domains=["a", "a", "b", "b"], losses=[0.1, 0.3, 0.5, 0.9])
    >>> sampled_points(found) is None
    True
    """
    domains = len(evaluation.domains)
    if domains <= 5 * MOST_POINTS:
        return None
    chosen = np.linspace(0, domains - 1, MOST_POINTS).astype(np.int64)
    rows = _columns(evaluation, chosen, LONGEST_NAMES[-1])
    return {"counts": rows["counts"], "risks": rows["risks"]}


def shortened(name: Name, longest: int = 200) -> str:
    """A name with its middle left out if it is too long.

    >>> shortened("abcdefghij", longest=6), shortened(7)
    ('abc…ij', '7')
    """
    text = str(name)
    if len(text) <= longest:
        return text
    end = (longest - 1) // 2
    return f"{text[: longest - 1 - end]}…{text[-end:]}"


def _columns(evaluation: Evaluation, chosen: Any, longest: int) -> dict[str, Any]:
    measured = list(evaluation.predictors.values())
    counts = [risks.counts[chosen].tolist() for risks in measured]
    same = all(column == counts[0] for column in counts)
    return {
        "names": [shortened(evaluation.domains[i], longest) for i in chosen],
        "counts": counts[:1] if same else counts,
        "risks": [shorts(risks.risks[chosen], digits_of(risks.risks)) for risks in measured],
        "errors": [
            [None if error != error else error for error in shorts(errors[chosen], 2)]
            for errors in (risks.standard_errors for risks in measured)
        ],
    }


def _ends(evaluation: Evaluation, kept: int) -> Any:
    """The domains of lowest and highest risk of each predictor, about ``kept`` in all."""
    each = max(1, kept // (2 * len(evaluation)))
    chosen = []
    for risks in evaluation.predictors.values():
        order = np.argsort(risks.risks, kind="stable")
        chosen += [order[:each], order[-each:]]
    return np.unique(np.concatenate(chosen))
