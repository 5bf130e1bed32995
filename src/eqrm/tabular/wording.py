"""The results of a training on a table, as text for readers without a background in statistics."""

from __future__ import annotations

import textwrap
from fractions import Fraction

from eqrm.data.splits import TimeSplit
from eqrm.evaluation.inference.certificates import Certificate
from eqrm.evaluation.inference.comparison import Difference
from eqrm.evaluation.inference.exchangeability import order_test
from eqrm.evaluation.inference.noise import MUCH, NoiseSplit
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.evaluation.rounding import as_percent, decimals, rounded, rounded_up
from eqrm.level import Level
from eqrm.tabular.comparison import ComparisonWithERM, LevelGain
from eqrm.tabular.training import ERM, TableTraining, predictor_name
from eqrm.text import aligned, listed

WIDTH = 96
NO_CHANGE = "0.0%"
MINIMISED = {
    "quantile": "",
    "superquantile": " Each level minimises the superquantile: the mean risk of the worst share "
    "1−α of the training domains.",
    "worst": " 'worst' minimises the largest risk of the training domains.",
    "mean": " Only ERM was trained, which minimises the mean risk.",
}
"""What a level minimises, where that is not its quantile."""
ONE_ROW = (
    "Every held-out domain has one row, so its risk is the loss of that row, and sampling noise "
    "cannot be separated from differences between domains. Is this the right domain column?"
)


def in_words(training: TableTraining, compared: ComparisonWithERM) -> str:
    """The risk table, what each level gains and costs, and what that means."""
    sure = as_percent(compared.confidence)
    last = [*_warnings(training, compared), *(f"Note: {note}" for note in training.notes)]
    told = [
        _wrapped(_opening(training) + MINIMISED[training.measure]),
        quantile_table(compared.table),
        _wrapped(
            "Mean and quantiles of the risk over held-out domains (0.9: nine of ten domains "
            f"have at most this risk; * lowest). {_own_columns(compared)}"
        ),
    ]
    if compared.gains:
        told += [
            f"What each level gains on held-out domains, and what it costs:\n"
            f"{gain_table(compared)}",
            _wrapped(
                f"Certified: with {sure} confidence, at least a share α of new domains drawn like "
                "these has at most this risk ('too few': not enough domains to say so)."
                f"{_about_the_future(training)}"
            ),
            _wrapped(gain_in_words(compared.first, _noise(compared.summary.noise[ERM]))),
        ]
    return "\n\n".join([*told, *([_wrapped(*last)] if last else [])])


def _opening(training: TableTraining) -> str:
    """Rows and domains on both sides, and what a risk is."""
    judged = training.evaluation
    name = next(iter(training.models.values())).preprocessor.domain_name
    loss = {"squared": "squared error"}.get(judged.loss, judged.loss)
    split, kind, trained, tested, ending = training.in_time, "held-out", ",", "", ""
    if split is not None:
        kind, trained, tested = (
            "later",
            f", {_period(split.trained)};",
            f", {_period(split.tested)}",
        )
        ending = f" Domains are ordered by {split.order!r}.{_left_out(split)}"
    return (
        f"Trained on {training.train_domains:,} domains ({training.train_rows:,} rows){trained} "
        f"evaluated on {len(judged.domains):,} {kind} domains ({judged.examples:,} rows){tested}. "
        f"A domain is a value of {name!r}; its risk is the mean {loss} of its rows.{ending}"
    )


def _period(ends: tuple[str, str]) -> str:
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def _left_out(split: TimeSplit) -> str:
    """The domains that belong to neither part, if there are any."""
    if not split.left_out:
        return ""
    have = "1 domain has" if len(split.left_out) == 1 else f"{len(split.left_out):,} domains have"
    return (
        f" {have} rows both before and after the cut and so took no part in training or "
        f"evaluation: {listed(split.left_out)}."
    )


def _about_the_future(training: TableTraining) -> str:
    """What a certificate does not cover where domains are ordered in time."""
    if training.in_time is None:
        return ""
    return (
        " This assumes that future domains are drawn like the evaluated ones, which an evaluation "
        "on later domains cannot prove: a trend, or a season that does not occur from "
        f"{' to '.join(training.in_time.tested)}, is not covered. Check the certificate as new "
        "domains arrive."
    )


def quantile_table(table: RiskTable) -> str:
    """Rows: trained for. Columns: mean and quantiles, all with the same number of decimals."""
    smallest = min(abs(cell.value) for cells in table.cells.values() for cell in cells)
    places = max(decimals(smallest, None), 0)
    lines = [
        [name, *(f"{rounded(cell.value, places)}{'*' if cell.best else ' '}" for cell in cells)]
        for name, cells in table.cells.items()
    ]
    labels = [f"{statistic.label} " for statistic in table.statistics]
    return aligned([["trained for", *labels], *lines])


def gain_table(compared: ComparisonWithERM) -> str:
    """A line per level: its quantile and its mean risk beside ERM's, and its certificate."""
    header = ["trained for", "quantile", "ERM's", "change", "mean", "ERM's", "change", "certified"]
    lines = []
    for gain in compared.gains:
        bound = gain.certificate
        refused = "none" if gain.level == Level(1.0) else "too few"
        certified = refused if isinstance(bound, str) else rounded_up(bound.bound)
        quantile = [*_same_digits(gain.quantile), _change(gain.quantile)]
        mean = [*_same_digits(gain.mean), _change(gain.mean)]
        lines.append([predictor_name(gain.level), *quantile, *mean, certified])
    return aligned([header, *lines])


def gain_in_words(gain: LevelGain, noise: str = "") -> str:
    """A paragraph on one level; ``noise`` says why the spread of ERM's risks is in doubt."""
    own, erm = _same_digits(gain.quantile)
    return (
        f"{predictor_name(gain.level)}: on {_share(gain.level)} held-out domains its risk was at "
        f"most {own}, and ERM's at most {erm}{_bracketed(gain.quantile)}. "
        f"{_verdict(gain.quantile, noise)} {_cost(gain.mean)} {_certified(gain)}"
    )


def _verdict(quantile: Difference, noise: str) -> str:
    """Whether training for the level lowered its quantile, as far as one can tell."""
    if quantile.value >= 0.0:
        return (
            "It did not help here: where domains hardly differ, or their risks differ mostly by "
            "sampling noise, no level does measurably better than ERM."
        )
    if noise:
        return (
            f"This is weak evidence: {noise}, and so few rows per domain cannot show whether the "
            "quantile of the true risks is lower. A model whose risks differ by noise alone may "
            "have made the domains equal."
        )
    if not (quantile.reliable and quantile.clear):
        return "It may have helped: too few domains lie beyond this level to be sure."
    places = decimals(quantile.value, (quantile.high - quantile.low) / 4.0)
    least, most = (rounded(-end, places) for end in (quantile.high, quantile.low))
    sure = as_percent(quantile.confidence)
    return f"It helped: lower by {least} to {most}, with {sure} confidence."


def _cost(mean: Difference) -> str:
    """What happened to the mean risk, if anything that the printed digits show."""
    own, erm = _same_digits(mean)
    if own == erm or _change(mean) == NO_CHANGE:
        return f"It cost nothing in mean risk, which is {own} either way."
    compared = f"{own} instead of {erm}{_bracketed(mean)}."
    if mean.value < 0.0:
        return f"It cost nothing: the mean risk is {compared}"
    return f"The cost is a mean risk of {compared}"


def _certified(gain: LevelGain) -> str:
    if isinstance(gain.certificate, str):
        return f"No certificate: {gain.certificate}"
    compared = ""
    if isinstance(gain.certificate_of_erm, Certificate):
        compared = f" For ERM the same holds with {rounded_up(gain.certificate_of_erm.bound)}."
    return f"Certificate: {gain.certificate.sentence}{compared}"


def _own_columns(compared: ComparisonWithERM) -> str:
    best, levels = compared.best_in_own_column, len(compared.gains)
    if not levels:
        return ""
    if levels == 1:
        return f"The level {'has' if best else 'does not have'} the lowest risk in its own column."
    return f"{best} of {levels} levels have the lowest risk in their own column."


def _noise(split: NoiseSplit | None) -> str:
    if split is None:
        return "with one row in every domain, their spread cannot be separated from sampling noise"
    return (
        "most of the spread of these risks is sampling noise" if split.noise_share >= MUCH else ""
    )


def _warnings(training: TableTraining, compared: ComparisonWithERM) -> list[str]:
    """What makes the numbers less certain than they seem."""
    summary = compared.summary
    name = predictor_name(compared.first.level if compared.gains else None)
    tests, split = list(summary.exchangeability[name]), training.in_time
    if tests and split is not None and not any("time" in test.what for test in tests):
        tests.append(order_test(training.evaluation[name].risks, split.test_times))
    splits = {each: summary.noise[each] for each in (ERM, name)}
    found = [(each, ONE_ROW if split is None else split.warning) for each, split in splits.items()]
    found += [(name, test.warning) for test in tests]
    return [f"Warning ({each}): {text}" for each, text in found if text]


def _wrapped(*paragraphs: str) -> str:
    return "\n".join(textwrap.fill(text, WIDTH, break_on_hyphens=False) for text in paragraphs)


def _same_digits(difference: Difference) -> tuple[str, str]:
    """The level's statistic and ERM's, with the same number of decimals."""
    own, erm = difference.second, difference.first
    places = max(decimals(min(abs(own), abs(erm)), None), 0)
    return rounded(own, places), rounded(erm, places)


def _change(difference: Difference) -> str:
    """In percent of ERM's, without a sign where it rounds to none; nothing where ERM's is 0."""
    if not difference.first:
        return ""
    text = f"{difference.value / difference.first:+.1%}"
    return NO_CHANGE if text[1:] == NO_CHANGE else text


def _bracketed(difference: Difference) -> str:
    change = _change(difference)
    return f" ({change})" if change not in ("", NO_CHANGE) else ""


def _share(level: Level) -> str:
    """A level as a simple fraction of domains.

    >>> _share(Level(0.9)), _share(Level(0.99)), _share(Level(0.123))
    ('9 of 10', '99 of 100', '12.3% of')
    """
    fraction = Fraction(level.alpha).limit_denominator(100)
    if abs(float(fraction) - level.alpha) < 1e-9 and fraction < 1:
        return f"{fraction.numerator} of {fraction.denominator}"
    return f"{as_percent(level.alpha)} of"
