"""A backtest in words, as a page and as a picture: tables of shares, and what to think of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eqrm.evaluation.backtesting.plan import NEVER, ONLINE, PLAIN, RECENT, SPELLS
from eqrm.evaluation.backtesting.results import (
    JudgedWindows,
    PooledShare,
    ShareWithin,
    WindowRisks,
)
from eqrm.evaluation.measuring.metrics import loss_in_words
from eqrm.evaluation.presenting.plots import INK, QUIET, new_figure, plain_label, shades
from eqrm.evaluation.presenting.report.page import assembled_page
from eqrm.evaluation.rounding import as_percent, significant
from eqrm.files.writing import write_text
from eqrm.level import Level
from eqrm.text import aligned, counted, one_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARK = " !"
MOST_POINTS = 20_000
"""Risks that are drawn one by one; with more, the page has no picture of them."""
NO_INTERVAL = (
    "No interval is given for pooled shares: windows share domains to certify on, and domains that "
    "follow each other resemble each other, so their shares are not independent. Compare the "
    "windows instead."
)
NOT_CERTIFICATES = {
    SPELLS: "spells: approximate, because the length of spells is estimated",
    RECENT: "recent: not a certificate; it is about the next domain only",
    ONLINE: "online: adapted after every judged domain; it promises a miss rate in the long run",
}


def backtest_text(found: JudgedWindows) -> str:
    """Everything for a terminal."""
    parts = [in_sentences(found)]
    for certify in found.plan.certify:
        parts += [f"{title}\n{aligned(rows)}" for title, rows in tables(found, certify)]
    parts.append("\n".join([*warnings_of(found), *conclusions(found)]))
    return "\n\n".join(parts)


def in_sentences(found: JudgedWindows) -> str:
    """What was done, on which domains."""
    plan, domains = found.plan, found.domains
    first, last = domains.period(domains.spans.order)
    sizes = ", ".join(map(str, plan.certify))
    if plan.train is None:
        done = f"Bounds from {sizes} domains"
    else:
        fitted = "trained once, on the first" if plan.refit == NEVER else "refitted on"
        number = f"at least {plan.train}" if plan.expanding else str(plan.train)
        done = f"Models {fitted} {number} domains, bounds from the next {sizes}"
    gap = f", with {counted(plan.gap, 'domain')} between the parts" if plan.gap else ""
    return (
        f"Backtest on {counted(len(domains.names), 'domain')} in the order of {domains.order!r}, "
        f"{first} to {last}. {done}, judged on the {plan.judge} after them{gap}; each window "
        f"begins {counted(plan.step, 'domain')} after the one before. Risks are the mean "
        f"{loss_in_words(found.loss)} of a domain."
    )


def tables(found: JudgedWindows, certify: int) -> list[tuple[str, list[list[str]]]]:
    """All tables for one length of ``certify``, with their titles."""
    plan, level = found.plan, found.plan.headline
    on = f"certified on {certify} domains"
    stated = f"level {level:g}, {as_percent(plan.confidence)} confidence"
    made = [
        (f"Share of judged domains within the bound ({stated}), {on}:", by_window(found, certify)),
        (f"Share within the bound over all windows, by level, {on}:", by_level(found, certify)),
    ]
    if len(plan.rules) > 1:
        title = f"Share within each kind of bound, over windows with one (level {level:g}), {on}:"
        made.append((title, by_kind(found, certify)))
    made.append((f"Risk on the judged domains, {on}:", by_risk(found, certify)))
    return made


def by_window(found: JudgedWindows, certify: int) -> list[list[str]]:
    """A line per window at the headline level and for the first bound, then all together."""
    kind, level = found.plan.kinds[0], found.plan.headline
    names = found.models
    rows = [r for r in found.shares if (r.certify, r.kind, r.level) == (certify, kind, level)]
    lines = [["window", "judged", *map(one_line, names)]]
    for each in found.windows(certify):
        number, judge = each.window.number, each.window.judge
        own = {row.model: row for row in rows if row.window == number}
        cells = [_cell(own.get(name)) for name in names]
        period = " to ".join(found.domains.period(judge))
        lines.append([f"{number}: {period}", str(len(judge)), *cells])
    pooled = [found.find(certify, name, kind, level) for name in names]

    def line(title: str, told: Callable[[PooledShare], str], judged: str = "") -> None:
        lines.append([title, judged, *("" if p is None else told(p) for p in pooled)])

    line("all windows", _cell, str(max(p.judged for p in pooled if p is not None)))
    line("lowest", lambda p: _share(p.lowest))
    line("windows below the level", lambda p: str(p.windows_below))
    if kind == PLAIN:
        line("expected if exchangeable", lambda p: _share(p.expected))
        line("windows below, expected", lambda p: f"{p.expected_below or 0.0:.1f}")
    line("mean bound", lambda p: "" if math.isnan(p.mean_bound) else f"{p.mean_bound:.3g}")
    return lines


def by_level(found: JudgedWindows, certify: int) -> list[list[str]]:
    """A line per level: pooled shares within the first bound."""
    kind = found.plan.kinds[0]
    lines = [["level", "expected", *map(one_line, found.models)]]
    for level in found.plan.quantiles:
        pooled = [found.find(certify, name, kind, level) for name in found.models]
        expected = next((p.expected for p in pooled if p and p.expected is not None), None)
        lines.append([f"{level:g}", _share(expected), *map(_cell, pooled)])
    return lines


def by_kind(found: JudgedWindows, certify: int) -> list[list[str]]:
    """A line per bound: pooled shares at the headline level, and how many windows lack it."""
    lines = [["bound", "refused", *map(one_line, found.models)]]
    for kind in found.plan.kinds:
        pooled = [found.find(certify, name, kind, found.plan.headline) for name in found.models]
        held = [p for p in pooled if p is not None]
        refused, of = sum(p.refused for p in held), sum(p.refused + p.windows for p in held)
        lines.append([kind, f"{refused} of {of}" if refused else "0", *map(_cell, pooled)])
    return lines


def by_risk(found: JudgedWindows, certify: int) -> list[list[str]]:
    """A line per model: mean, quantile and the worst window."""
    quantile = Level(found.plan.headline).quantile_in_words
    lines = [["model", "average", quantile, "worst window", "its number"]]
    for row in found.risks:
        if row.certify == certify:
            numbers = [f"{x:.4g}" for x in (row.mean, row.quantile, row.worst)]
            lines.append([one_line(row.model), *numbers, str(row.worst_window)])
    return lines


def warnings_of(found: JudgedWindows) -> Iterator[str]:
    """A sentence on shares over all windows that are below their level, if there are any."""
    level = found.plan.headline
    for kind in found.plan.kinds:
        short = [
            f"{one_line(p.model)} {_share(p.share)} (certified on {p.certify}"
            + (f"; {counted(p.refused, 'window')} without a bound)" if p.refused else ")")
            for p in found.pooled
            if (p.kind, p.level) == (kind, level) and p.below
        ]
        by = "" if kind == found.plan.kinds[0] else f", bound {kind!r}"
        if short:
            yield f"Below the level {level:g} over all windows{by}: {'; '.join(short)}."


def conclusions(found: JudgedWindows) -> Iterator[str]:
    """What else the shares say, and what they do not say."""
    level = found.plan.headline
    told = [p for p in found.pooled if (p.kind, p.level) == (found.plan.kinds[0], level)]
    if told and all(p.judged and not p.below for p in told):
        yield (
            f"Over all windows, every model had at least {as_percent(level)} of the judged "
            f"domains within its {found.plan.kinds[0]} bound."
        )
    if any(p.windows_below for p in told):
        yield (
            f"Windows marked with{MARK} are below the level. The certificate is about all new "
            f"domains, so that single windows of {found.plan.judge} may be below by chance; the "
            "last lines of the table say how many are expected if domains are exchangeable."
        )
    yield from (f"{text}." for kind, text in NOT_CERTIFICATES.items() if kind in found.plan.kinds)
    online = [p for p in found.pooled if (p.kind, p.level) == (ONLINE, level)]
    if judged := sum(p.judged for p in online):
        share = _share(sum(p.infinite for p in online) / judged)
        yield f"online: {share} of the bounds allow every risk."
    yield from (*_overlap(found), NO_INTERVAL, *found.notes)


def _overlap(found: JudgedWindows) -> Iterator[str]:
    """How many windows there are, and how many of them share nothing."""
    for certify in found.plan.certify:
        windows = [each.window for each in found.windows(certify)]
        apart, end = 0, -1
        places = np.argsort(found.domains.spans.order)
        for window in windows:
            if places[window.certify].min() > end:
                apart, end = apart + 1, int(places[window.judge].max())
        judged = [number for window in windows for number in window.judge.tolist()]
        twice = len(judged) - len(set(judged))
        again = (
            f", and {counted(twice, 'judgement')} are of a domain judged before" if twice else ""
        )
        yield (
            f"Of {counted(len(windows), 'window')} certified on {certify} domains, at most {apart} "
            f"share no domain to certify or judge on{again}."
        )


def _share(share: float | None) -> str:
    return "" if share is None or math.isnan(share) else f"{100.0 * share:.1f}%"


def _cell(row: ShareWithin | None) -> str:
    if row is None:
        return ""
    if not row.judged:
        return "no bound"
    return f"{_share(row.share)}{MARK if row.below else ''}"


def write_backtest_page(found: JudgedWindows, path: Path, command: str | None = None) -> None:
    """Write the page to ``path``: whole, or not at all."""
    made = command or "eqrm.evaluation.backtest(…) and write_report(…), called from Python"
    scripts = ("numbers.js", "charts.js", "backtest.js")
    write_text(
        path, assembled_page("backtest.html", scripts, backtest_content(found), command=made)
    )


def backtest_content(found: JudgedWindows) -> dict[str, Any]:
    """Everything on the page, ready for JSON."""
    trained = [name for name in found.models if name not in found.references]
    first = found.models.index(trained[0]) if trained else 0
    return {
        "models": [one_line(name) for name in found.models],
        "first": first,
        "sentence": in_sentences(found),
        "loss": found.loss,
        "order": found.domains.order,
        "level": found.plan.headline,
        "kind": found.plan.kinds[0],
        "warnings": list(warnings_of(found)),
        "conclusions": list(conclusions(found)),
        "sizes": [_of_size(found, certify) for certify in found.plan.certify],
    }


def _of_size(found: JudgedWindows, certify: int) -> dict[str, Any]:
    windows = found.windows(certify)
    places = np.argsort(found.domains.spans.order)
    points = sum(len(each.window.judge) for each in windows) * len(found.models)
    few = points <= MOST_POINTS
    return {
        "certify": certify,
        "windows": [
            {
                "places": (places[each.window.judge] + 1).tolist() if few else [],
                "names": [one_line(str(found.domains.names[i])) for i in each.window.judge]
                if few
                else [],
            }
            for each in windows
        ],
        "shares": [_shares(found, certify, name) for name in found.models],
        "later": [[_later(found, each, name) for each in windows] for name in found.models]
        if few
        else None,
        "tables": [{"title": title, "rows": rows} for title, rows in tables(found, certify)],
    }


def _shares(found: JudgedWindows, certify: int, model: str) -> list[float | None]:
    kind, level = found.plan.kinds[0], found.plan.headline
    wanted = (certify, model, kind, level)
    own = {row.window: row.share for row in found.shares if row.about == wanted and not row.refusal}
    return [own.get(each.window.number) for each in found.windows(certify)]


def _later(found: JudgedWindows, each: WindowRisks, model: str) -> dict[str, Any] | None:
    if model not in each.later:
        return None
    judged = found.judged(each, model, found.plan.kinds[0], found.plan.headline)
    bounds = [b if math.isfinite(b) else None for b in judged.bounds.tolist()]
    return {
        "risks": significant(judged.risks),
        "bounds": [None if b is None else significant(b) for b in bounds],
    }


def drawn_backtest(found: JudgedWindows) -> Figure:
    """A row of two panels per length of ``certify``; constants are dotted. Draws, computes nothing.

    On the left the share of judged domains within the first bound at the headline level, window by
    window; on the right shares over all windows against the level.
    """
    sizes = found.plan.certify
    figure = new_figure(width=8.6, height=0.5 + 2.9 * len(sizes))
    kind, level = found.plan.kinds[0], found.plan.headline
    names = found.models
    trained = [name for name in names if name not in found.references]
    colours = dict(zip(trained, [INK, *shades(max(len(trained) - 1, 1))], strict=False))
    rows = figure.subplots(len(sizes), 2, squeeze=False, sharey=True)
    for (by_window, by_level), certify in zip(rows, sizes, strict=True):
        for number, name in enumerate(names):
            here = [row for row in found.shares if row.about == (certify, name, kind, level)]
            pooled = [found.find(certify, name, kind, each) for each in found.plan.quantiles]
            style = {
                "color": colours.get(name, QUIET),
                "linestyle": "-" if name in colours else ":",
                "marker": "ox^sDv"[number % 6],
                "markersize": 4,
            }
            label = plain_label(name)
            by_window.plot([r.window for r in here], [r.share for r in here], label=label, **style)
            by_level.plot(found.plan.quantiles, [p.share if p else None for p in pooled], **style)
        by_window.axhline(level, color=QUIET, linewidth=0.8)
        by_level.plot(found.plan.quantiles, found.plan.quantiles, color=QUIET, linewidth=0.8)
        by_window.set_xlabel(f"window (certified on {certify} domains)")
        by_window.set_ylabel("share within the bound")
        by_window.xaxis.get_major_locator().set_params(integer=True)
        by_level.set_xlabel("level")
        by_level.set_ylim(top=1.03)
    handles, labels = rows[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside upper center", ncols=3)
    return figure
