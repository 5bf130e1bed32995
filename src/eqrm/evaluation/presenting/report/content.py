"""What the scripts of the report draw and move, as plain data: everything is computed here.

The risks of all domains take few characters: 10,000 domains of 12 models fit into a page. A column
of numbers becomes base64 text of its deviations from an offset, in units of the largest: the first
three bytes of a 32-bit float, which keep five digits, or the first two, which keep two.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from eqrm.errors import TooFewDomainsError
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.cdf_bands import CdfBand, spaced_ranks
from eqrm.evaluation.inference.certificates import (
    MEASURED,
    TRUE,
    domains_needed,
    highest_level,
    new_domains,
)
from eqrm.evaluation.inference.comparison import SMOOTH
from eqrm.evaluation.inference.nested.bounds import new_members
from eqrm.evaluation.inference.noise import NoiseSplit, denoised_risks
from eqrm.evaluation.inference.risk_checks import Vector
from eqrm.evaluation.measuring.metrics import loss_in_words
from eqrm.evaluation.presenting.report.answer import HIGHEST, Answer, ShownModel, level_label
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.evaluation.presenting.summary import Summary
from eqrm.evaluation.presenting.table_cells import quantiles_at
from eqrm.evaluation.rounding import EQUAL, decimals, digits_of_spread, rounded_up, significant
from eqrm.text import printable, shortened

MOST_BYTES = 860_000
"""What all data of the page may take: with markup, style and script it stays under 1 MB."""
FEWEST_BYTES = 50_000
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")
MOST_POINTS = 2000
MOST_STEPS = 500
"""With more domains, the CDF is drawn at this many of its steps, dense near both ends."""
LOWEST = 0.001
"""The slider's first level: below it, quantiles of up to 1,000 domains are the lowest risk."""
LONGEST_NAMES = (20_000, 1000, 200, 60)
"""Characters of a name: the first of these is taken with which all domains fit into the page."""


def report_content(
    evaluation: Evaluation,
    table: RiskTable,
    summary: Summary,
    answer: Answer,
    rows: list[ShownModel],
) -> dict[str, Any]:
    """Everything that scripts need, ready for JSON."""
    models = [row for row in rows if row.name in evaluation.models]
    steps = min(MOST_STEPS, 3 * MOST_STEPS // len(rows))
    start = min(max(summary.alpha.alpha, LOWEST), HIGHEST)  # the ends of the slider
    # The mean of the 0-1 loss is the error rate.
    unit = "error rate" if evaluation.loss == "0-1" else loss_in_words(evaluation.loss)
    all_risks = [row.risks.risks for row in rows]
    means = {row.name: table.all_cells[row.name][0] for row in rows}
    content: dict[str, Any] = {
        "models": [shortened(row.name, LONGEST_NAMES[2]) for row in rows],
        "signs": [row.sign for row in rows],
        "trained": [row.trained_for and level_label(row.trained_for) for row in rows],
        "references": [int(row.reference) for row in rows],
        "chosen": next(i for i, row in enumerate(rows) if row.chosen),
        "role": answer.role,
        "baseline": next(i for i, row in enumerate(rows) if row.name == summary.baseline),
        "unit": unit,
        "risk": unit if evaluation.loss == "0-1" else f"mean {unit}",
        "confidence": table.confidence,
        "smooth": table.interpolation == SMOOTH,
        "domains": len(evaluation.domains),
        "view": view_of(all_risks),
        "means": [significant(r.mean(), digits_of_spread(r, 6)) for r in all_risks],
        # Quantiles deserve as many decimals as the mean has in the table.
        "decimals": [decimals(cell.value, cell.error) for cell in means.values()],
        "shapes": [curve_shape(risks, steps) for risks in all_risks],
        "band": None
        if evaluation.nesting is not None
        else band_shape(evaluation.cdf_band(table.confidence, model=answer.chosen), steps),
        "levels": about_levels(evaluation, rows, table, start, answer.picked),
        "verdicts": dict(answer.at_levels),
        "noise": [_noise(summary.noise[row.name]) for row in models],
        "sampled": sampled_points(models),
    }
    left = max(MOST_BYTES - bytes_of(content), FEWEST_BYTES)
    return {**content, "rows": listed_domains(evaluation, models, left)}


def _noise(split: NoiseSplit | None) -> list[float] | None:
    """The centre of the funnel, and the standard deviation of losses within domains."""
    if split is None:
        return None
    return [significant(split.mean, 9), significant(split.loss_variance**0.5)]


def sampled_points(rows: list[ShownModel]) -> dict[str, Any] | None:
    """An even sample of examples and risks for the funnel; None where all domains are listed."""
    domains = len(rows[0].risks)
    if domains <= 5 * MOST_POINTS:
        return None
    chosen = np.linspace(0, domains - 1, MOST_POINTS).astype(np.int64)
    return {
        "counts": [row.risks.counts[chosen].tolist() for row in rows],
        "risks": [
            significant(row.risks.risks[chosen], digits_of_spread(row.risks.risks)) for row in rows
        ],
    }


def stops_of(table: RiskTable, start: float = 0.9) -> list[float]:
    """The levels that the slider stops at: an even scale, finer at the end, the table's own,
    and where it starts.
    """
    even = [i / 100 for i in range(5, 100)] + [0.985, *(i / 1000 for i in range(991, 1000))]
    own = [round(s.level.alpha, 12) for s in table.statistics if s.level is not None]
    return sorted(
        {*even, *(alpha for alpha in own if LOWEST <= alpha <= HIGHEST), round(start, 12)}
    )


def about_levels(
    evaluation: Evaluation, rows: list[ShownModel], table: RiskTable, start: float, picked: bool
) -> dict[str, Any]:
    """For every stop: quantiles, certificates, or how many domains those would need.

    ``picked`` says that the chosen model was picked among all on these domains: its certificate is
    then computed for all of them at once, too.
    """
    stops, groups, confidence = stops_of(table, start), evaluation.outer_domains, table.confidence
    nesting = evaluation.nesting
    units = len(evaluation.domains if groups is None else set(groups))
    reach = highest_level(units, confidence)
    models = [row for row in rows if row.name in evaluation.models]
    chosen = next(row for row in rows if row.chosen)
    compared = sum(not row.reference for row in rows)
    return {
        "alphas": stops,
        "labels": [f"{alpha:g}" for alpha in stops],
        "start": stops.index(round(start, 12)),
        "needed": [domains_needed(a, confidence) if a > reach else None for a in stops],
        "withinReach": significant(np.floor(1000 * reach) / 1000),
        "units": [units, "domains" if groups is None else "groups"],
        "about": {
            kind: new_domains(kind) if nesting is None else new_members(kind, nesting.labels)
            for kind in (MEASURED, TRUE)
        },
        "quantiles": [_quantiles(row.risks.risks, stops, table.interpolation) for row in rows],
        "bounds": [_stated(evaluation, stops, confidence, row.name) for row in models],
        "compared": compared if picked and compared > 1 else None,
        "chosen": _of_chosen(evaluation, chosen, stops, confidence, compared if picked else 1),
    }


def _of_chosen(
    evaluation: Evaluation, row: ShownModel, stops: list[float], confidence: float, compared: int
) -> dict[str, Any]:
    """More about the one model that the page certifies."""
    band, own = evaluation.cdf_band(confidence, model=row.name), row.risks
    together, denoised = 1.0 - (1.0 - confidence) / compared, None
    if (own.counts > 1).any():
        denoised = _quantiles(denoised_risks(own.risks, own.counts, own.variances), stops)
    limits = [band.quantile_limits(alpha)[1] for alpha in stops]
    return {
        "denoised": denoised,
        "atOnce": [rounded_up(limit) if np.isfinite(limit) else None for limit in limits],
        "picked": _stated(evaluation, stops, together, row.name) if compared > 1 else None,
        "true": None
        if evaluation.bounds is None
        else _stated(evaluation, stops, confidence, row.name, true_risk=True),
    }


def _quantiles(risks: Vector, stops: list[float], interpolation: str = "step") -> Any:
    return significant(quantiles_at(risks, stops, interpolation), digits_of_spread(risks, 6))


def _stated(
    evaluation: Evaluation,
    stops: list[float],
    confidence: float,
    name: str,
    true_risk: bool = False,
) -> list[list[Any] | None]:
    """The bound of each certificate as text, and whether it is vacuous; None: too few domains."""
    found: list[list[Any] | None] = []
    for alpha in stops:
        try:
            made = evaluation.certificate(alpha, confidence, true_risk=true_risk, model=name)
            found.append([rounded_up(made.bound), int(made.vacuous)])
        except TooFewDomainsError:
            found.append(None)
    return found


def curve_shape(risks: Vector, steps: int = MOST_STEPS) -> dict[str, Any]:
    """The step CDF at some or all of its steps."""
    ranks = spaced_ranks(risks.size, steps)
    return {
        "risks": significant(np.sort(risks)[ranks - 1], digits_of_spread(risks)),
        "cdf": significant(ranks / risks.size),
    }


def band_shape(band: CdfBand, steps: int = MOST_STEPS) -> list[Any]:
    """The lower and the upper limits of a band at the same steps, and before the first."""
    ranks = [0, *spaced_ranks(band.risks.size, steps)]
    return [significant(limits[ranks]) for limits in (band.lower, band.upper)]


def view_of(all_risks: Sequence[Vector]) -> dict[str, Any]:
    """The risks that the axes span, and how many domains lie beyond their end.

    An axis that reached a far outlier would squeeze everything else: it ends at most twelve
    times as far beyond the median as the .95-quantile lies.
    """
    ends = []
    for risks in all_risks:
        middle, far = np.quantile(risks, [0.5, 0.95])
        ends.append(float(middle + 12.0 * (far - middle)) if far > middle else np.inf)
    low = min(float(risks.min()) for risks in all_risks)
    high = min(max(float(risks.max()) for risks in all_risks), max(ends))
    room = 0.04 * (high - low)
    low, high = (max(low - room, 0.0) if low >= 0.0 else low - room), high + room
    if high - low <= EQUAL * max(abs(low), abs(high)):
        half = 0.5 * abs(low) or 0.5
        low, high = low - half, low + half
    beyond = max(int((risks > high).sum()) for risks in all_risks)
    digits = digits_of_spread([low, high])
    return {"low": significant(low, digits), "high": significant(high, digits), "beyond": beyond}


def packed(values: Any, kept: int = 3) -> dict[str, Any]:
    """A column as text; NaN stays NaN."""
    numbers = np.asarray(values, dtype=np.float64)
    finite = numbers[np.isfinite(numbers)]
    # Up to the rounding of sums: the same risks give the same text.
    offset = significant(np.sort(finite)[finite.size // 2], 12) if finite.size else 0.0
    unit = significant(np.abs(finite - offset).max(initial=0.0), 6) or 1.0
    shares = np.round((numbers - offset) / unit, 9).astype(">f4")
    halves = shares.view(">u4")
    rounded = np.where(np.isnan(shares), halves, halves + (1 << (31 - 8 * kept)))
    cut = rounded.astype(">u4").view(np.uint8).reshape(-1, 4)[:, :kept]
    text = base64.b64encode(cut.tobytes()).decode()
    return {"offset": offset, "unit": unit, "bytes": kept, "text": text}


def listed_domains(
    evaluation: Evaluation, rows: list[ShownModel], most_bytes: int = MOST_BYTES
) -> dict[str, Any]:
    """The domains in columns: names, examples, and per model risks and sampling errors.

    All of them if they fit into ``most_bytes``; otherwise long names are shortened, then sampling
    errors are left out, and if that is not enough, only the worst and the best domains of each
    model are kept.
    """

    def columns(chosen: Any, longest: int, errors: bool) -> dict[str, Any]:
        counts = [row.risks.counts[chosen].tolist() for row in rows]
        same = all(column == counts[0] for column in counts)
        sampling = [packed(row.risks.standard_errors[chosen], 2) for row in rows]
        return {
            "names": [shortened(str(evaluation.domains[i]), longest) for i in chosen],
            "counts": counts[:1] if same else counts,
            "risks": [packed(row.risks.risks[chosen]) for row in rows],
            "errors": sampling if errors else None,
        }

    everything = np.arange(len(evaluation.domains))
    for errors in (True, False):
        for longest in LONGEST_NAMES:
            found = columns(everything, longest, errors)
            if bytes_of(found) <= most_bytes:
                return {**found, "all": True}
    kept = everything.size
    while True:
        kept = max(1, int(kept * min(0.8, most_bytes / bytes_of(found))))
        found = columns(_ends(rows, kept), LONGEST_NAMES[-1], True)
        if bytes_of(found) <= most_bytes or kept == 1:
            return {**found, "all": False}


def _ends(rows: list[ShownModel], kept: int) -> Any:
    """The domains of lowest and highest risk of each model, about ``kept`` in all."""
    each = max(1, kept // (2 * len(rows)))
    chosen = []
    for row in rows:
        order = np.argsort(row.risks.risks, kind="stable")
        chosen += [order[:each], order[-each:]]
    return np.unique(np.concatenate(chosen))


def as_safe_json(content: Any) -> str:
    """JSON for the inside of a ``script`` element: nothing in it can end the element."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return printable(_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text), lines=False)


def bytes_of(content: Any) -> int:
    """What it takes as JSON."""
    return len(as_safe_json(content).encode())
