"""Tables, checks and the answer of the study of molecules."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from eqrm.text import counted
from studies.molecules.baselines import CONSTANT, shifted_label
from studies.molecules.findings import DatasetFindings
from studies.molecules.settings import (
    CONTINUED,
    ERM,
    JUDGED,
    QUANTILES,
    SUPERQUANTILE,
    eqrm_label,
)
from studies.outcome import Check, ResultTable

METRICS = ("average-precision", "roc-auc")
MUCH = 0.5
"""The share of noise from which it is most of the spread."""
REQUIREMENTS = "the requirements of this reproduction"


def mean_and_error(values: Sequence[float]) -> str:
    """The mean over trials with its standard error.

    >>> mean_and_error([1.0, 3.0]), mean_and_error([0.5])
    ('2 ± 1', '0.5')
    """
    if len(values) < 2:
        return f"{values[0]:.4g}"
    return f"{fmean(values):.4g} ± {stdev(values) / len(values) ** 0.5:.2g}"


def tables_of(findings: DatasetFindings) -> list[ResultTable]:
    """Quantiles with and without noise, EQRM beside the others at its own level, and the noise."""
    tables = _noise, _own_levels, _quantiles, _true_quantiles, _learned
    return [table(findings) for table in tables]


def _quantiles(findings: DatasetFindings) -> ResultTable:
    rows = [
        [
            name,
            mean_and_error([float(each.risks.mean()) for each in findings.trials(name)]),
            *(mean_and_error(findings.quantiles(name, level)) for level in QUANTILES),
        ]
        for name in findings.all_names()
    ]
    title = f"{findings.dataset}: quantiles of the measured risk over unseen scaffolds"
    columns = ["method", "mean", *(f"{level:g}" for level in QUANTILES)]
    return ResultTable(f"{findings.dataset}-quantiles", title, columns, rows, leading=True)


def _true_quantiles(findings: DatasetFindings) -> ResultTable:
    inner = [level for level in QUANTILES if 0.0 < level < 1.0]
    rows = [
        [name, *(mean_and_error(findings.true_quantiles(name, level)) for level in inner)]
        for name in findings.all_names()
    ]
    title = f"{findings.dataset}: quantiles of the risk without sampling noise"
    columns = ["method", *(f"{level:g}" for level in inner)]
    return ResultTable(f"{findings.dataset}-true-quantiles", title, columns, rows)


def _own_levels(findings: DatasetFindings) -> ResultTable:
    known, rows = findings.all_names(), []
    for level in JUDGED:
        shifted = (shifted_label(level), CONSTANT, shifted_label(level, CONSTANT))
        others = (ERM, CONTINUED, SUPERQUANTILE, *shifted)
        for other in (each for each in others if each in known):
            cells = []
            for measured in (False, True):
                found = findings.differences(level, other, measured)
                cells += [_by_trial(found), _direction(found)]
            rows.append([eqrm_label(level), other, f"{level:g}", *cells])
    title = (
        f"{findings.dataset}: quantile of EQRM at its own level less that of another method, "
        "without sampling noise and as measured"
    )
    columns = ["method", "compared with", "quantile", "without noise, by trial", "EQRM's is"]
    columns += ["as measured, by trial", "EQRM's is"]
    return ResultTable(f"{findings.dataset}-own-levels", title, columns, rows, leading=True)


def _by_trial(differences: Sequence[float]) -> str:
    return ", ".join(f"{each:+.3g}" for each in differences)


def _direction(differences: Sequence[float]) -> str:
    """In which direction all trials agree."""
    return f"lower in {_number_lower(differences)}"


def _number_lower(differences: Sequence[float]) -> str:
    lower, trials = sum(each < 0.0 for each in differences), len(differences)
    return "every trial" if lower == trials else f"{lower} of {counted(trials, 'trial')}"


def _noise(findings: DatasetFindings) -> ResultTable:
    rows = []
    for name in findings.all_names():
        splits = findings.noise(name)
        spreads = mean_and_error([each.spread_variance**0.5 for each in splits])
        shares = (
            fmean(getattr(each, part) for each in splits)
            for part in ("noise_share", "median_noise_share", "tail_noise_share")
        )
        rows.append([name, *(f"{100.0 * share:.0f}%" for share in shares), spreads])
    counts = findings.counts()
    title = (
        f"{findings.dataset}: how much of the spread over {len(counts):,} unseen scaffolds, "
        f"{int((counts == 1).sum()):,} of them with one molecule, is sampling noise"
    )
    columns = ["method", "of the variance", "in the median scaffold", "above the 0.9-quantile"]
    columns.append("standard deviation of true risks, best estimate")
    return ResultTable(f"{findings.dataset}-noise", title, columns, rows, leading=True)


def _learned(findings: DatasetFindings) -> ResultTable:
    rows = []
    for method in findings.methods:
        own = [findings.chosen.get((method, t)) for t in range(findings.settings.trials)]
        cells = []
        for metric in METRICS:
            values = [each.metric(metric) for each in own if each is not None]
            known = [value for value in values if value is not None]
            cells.append(mean_and_error(known) if len(known) == len(own) else "")
        first = findings.settings.rate
        rates = [each.record.settings.get("learning_rate", first) for each in own if each]
        rows.append([method, *cells, ", ".join(f"{rate:g}" for rate in rates)])
    title = f"{findings.dataset}: what was learned, of all molecules of unseen scaffolds together"
    columns = ["method", *METRICS, "learning rate chosen, by trial"]
    return ResultTable(f"{findings.dataset}-learned", title, columns, rows)


def molecules_checks(findings: DatasetFindings) -> list[Check]:
    """EQRM is below ERM at its own level, or noise is the reason that it cannot be shown."""
    found = []
    for level in JUDGED:
        differences = findings.differences(level)
        tail = fmean(each.tail_noise_share for each in findings.noise(ERM, level))
        lower = all(each < 0.0 for each in differences)
        found.append(
            Check(
                f"{findings.dataset}: {eqrm_label(level)} lowers the {level:g}-quantile of the "
                "risk without sampling noise, or noise is most of what EQRM was given",
                lower or tail > MUCH,
                f"{_direction(differences)} ({_by_trial(differences)}); {100.0 * tail:.0f}% of "
                f"ERM's spread above the {level:g}-quantile is noise",
                f"below 0 in every trial, or more than {100.0 * MUCH:.0f}% noise",
                REQUIREMENTS,
            )
        )
    return found


def molecules_answer(findings: DatasetFindings) -> str:
    """What EQRM did to its own quantiles, what did better, and how much of it all was noise."""
    share = fmean(each.noise_share for each in findings.noise(ERM))
    lines = [
        f"**{findings.dataset}**: sampling noise is {100.0 * share:.0f}% of the variance of ERM's "
        "measured risks."
    ]
    for level in JUDGED:
        own = eqrm_label(level)
        means = [
            fmean(float(each.risks.mean()) for each in findings.trials(name)) for name in (own, ERM)
        ]
        told = [
            f"{kind}, its {level:g}-quantile is lower than ERM's in "
            f"{_number_lower(findings.differences(level, measured=measured))}; "
            f"{_lowest(findings, level, measured)}."
            for kind, measured in (("Without noise", False), ("As measured", True))
        ]
        price = f"Its mean risk is {means[0]:.3g}, ERM's {means[1]:.3g}."
        lines.append(f"- {own}: {' '.join([*told, price])}")
    return "\n".join(lines)


def _lowest(findings: DatasetFindings, level: float, measured: bool) -> str:
    """Which method or baseline has the lowest quantile, averaged over trials."""
    quantiles = findings.quantiles if measured else findings.true_quantiles
    means = {name: fmean(quantiles(name, level)) for name in findings.all_names()}
    best, own = min(means, key=lambda name: means[name]), eqrm_label(level)
    if best == own:
        return f"it is the lowest of all ({means[best]:.3g})"
    return f"it is {means[own]:.3g}, and the lowest is {means[best]:.3g}, of {best}"
