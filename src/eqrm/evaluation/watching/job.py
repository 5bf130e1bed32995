"""The job of ``eqrm watch``: start or restart a watch, take new rows, judge them, keep and tell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from eqrm.checks import Problems, one_of
from eqrm.data.tables.files import find_files
from eqrm.data.times import as_times
from eqrm.errors import DomainDataError, Setting, SettingError
from eqrm.evaluation.evaluate import measured_models
from eqrm.evaluation.inference.in_time.watch import BROKEN, HOLDS, SUSPICIOUS, assumed
from eqrm.evaluation.measuring.measurement_spec import MeasurementSpec
from eqrm.evaluation.parts import fingerprint
from eqrm.evaluation.presenting.report.page import assembled_page
from eqrm.evaluation.rounding import as_percent, rounded_up, significant
from eqrm.evaluation.watching.claim import (
    Arrival,
    WatchedCertificate,
    WatchSettings,
    certificate_to_watch,
    plain_times,
)
from eqrm.evaluation.watching.state import ALL, EARLIER, LEFT_OUT, Record, WatchState
from eqrm.evaluation.watching.state_file import locked, read_state, write_state
from eqrm.files.writing import write_text
from eqrm.text import aligned, counted, listed, one_line, wrapped

EXIT_CODES = {HOLDS: 0, SUSPICIOUS: 3, BROKEN: 4}
MOST_MISSES = 10
"""Domains above the bound that are listed, the latest ones."""
MOST_DRAWN, MOST_LISTED = 2000, 500
"""New domains in the pictures and in the table of the page; certified ones count extra."""
SHORT = 16
"""Digits of a file's fingerprint that the state keeps for every domain in it."""


@dataclass(frozen=True, eq=False)
class WatchOutcome:
    """The state after a command, the domains that it judged, and whether the watch is new."""

    state: WatchState
    judged: tuple[Record, ...]
    begun: bool
    notes: tuple[str, ...]


def run_watch(
    path: Path,
    settings: WatchSettings,
    *,
    start: Path | None = None,
    restart: Path | None = None,
    new: Sequence[str] = (),
    complete: str = ALL,
) -> WatchOutcome:
    """Do what a command asks for; the file changes at its end, once, or not at all.

    The same command again changes nothing. ``complete`` is that of :meth:`WatchState.with_rows`.
    """
    settings.check()
    one_of(complete, (ALL, EARLIER), str(Setting("complete")))
    if start is not None and restart is not None:
        raise SettingError(
            f"{Setting('start')} and {Setting('restart')} cannot be combined. Use "
            f"{Setting('start')} for a new file, and {Setting('restart')} to go on with a new "
            "certificate."
        )
    with locked(path):
        known, notes = None, list[str]()
        if start is not None and not path.exists():
            state = WatchState.begin(certificate_to_watch(start, settings))
        else:
            known = read_state(path)
            state, notes = _gone_on(path, known, settings, start, restart)
        begun, before = state is not known, len(state.history)
        if new:
            state = state.with_rows(read_arrivals(new, state.claim.settings), complete)
        if known is None or state.entries() != known.entries():
            write_state(path, state)
    return WatchOutcome(state, state.history[before:], begun, (*notes, *state.notes))


def _gone_on(
    path: Path,
    known: WatchState,
    given: WatchSettings,
    start: Path | None,
    restart: Path | None,
) -> tuple[WatchState, list[str]]:
    """The state to go on with: that of the file, or one with a new certificate."""
    old = known.claim
    if start is not None:
        claim = certificate_to_watch(start, given)
    elif restart is not None:
        # What is not said stays as it was; the clip is that of the new evaluation.
        kept = replace(old.settings, model=None, clip=None)
        claim = certificate_to_watch(restart, replace(kept, **given.said), usual=old.model)
    else:
        old.settings.refuse_differing(given)
        return known, []
    if claim == old:
        return known, [f"{path} watches this certificate already: nothing to start."]
    if start is not None:
        raise DomainDataError(
            f"{path} watches another certificate, that of {old.model!r}. Choose another file, "
            f"or use {Setting('restart')} to go on with a new certificate in the same file."
        )
    # What was watched before is not watched anew: that would only reset the evidence.
    if any(domains and claim.statement == past.statement for past, domains in known.watches):
        raise SettingError(
            f"A certificate on the same domains with the same bound, "
            f"{rounded_up(claim.certificate.bound)}, was watched in this file before. Its "
            "evidence cannot be reset by watching it anew: evaluate domains since the change, "
            "or start a watch with other options in another file."
        )
    told = []
    if known.report.alarm is None and known.report.domains:
        told.append(
            "The watch before was restarted without an alarm. Every watch has a false-alarm "
            "probability of its own, and a certificate that is replaced whenever evidence grows "
            "is never found to be broken."
        )
    return WatchState.begin(claim, known.history), told


def watch_in_words(found: WatchOutcome) -> str:
    """What the command did, then the verdict with its numbers, then what else to know."""
    state = found.state
    parts = []
    if found.begun:
        warnings = [f"Warning: {text}" for text in state.claim.warnings]
        parts = [wrapped(*_about_certificate(state), *warnings)]
    if found.judged:
        parts.append(wrapped(_new_domains(found.judged)))
        missed = [record for record in found.judged if record["missed"]]
        if missed:
            parts.append(_misses(missed, state))
    parts.append(wrapped(*_verdict(state)))
    notes = [*found.notes, *_about_small_domains(found)]
    if notes:
        parts.append(wrapped(*(f"Note: {note}" for note in notes)))
    return "\n\n".join(parts)


def _about_certificate(state: WatchState) -> list[str]:
    """What is watched, and what that assumes."""
    claim = state.claim
    watched = f"Watching the certificate of '{one_line(claim.model)}'. {claim.certificate.sentence}"
    required, told = claim.requirement, state.watch.assumption
    if required is not None:
        told = assumed(state.watch, "meet the requirement")
        watched = (
            f"Watching whether new domains have {required.sentence} by '{one_line(claim.model)}' "
            f"at the setting {required.shown(claim.certificate.bound)}, as at least "
            f"{as_percent(claim.certificate.alpha or 0.0)} of them must."
        )
    return [
        watched,
        told,
        "The certificate itself fails with a probability of at most "
        f"{as_percent(round(1.0 - claim.certificate.confidence, 10))}, which adds to that of a "
        "false alarm.",
    ]


def _verdict(state: WatchState) -> list[str]:
    """The verdict, what to do after an alarm, and whether the risk's distribution changed."""
    report, judged = state.report, state.judged
    what = "risk" if state.claim.requirement is None else "setting that domains need"
    if report.alarm is None:
        told = [report.sentence]
    else:
        told = [
            report.told(judged[report.alarm - 1]["domain"]),
            "Find the cause. To go on, compute a new certificate on domains after the change, and "
            "restart the watch with it: eqrm watch STATE --restart evaluation.json.",
        ]
    if report.drift_evidence is not None and report.domains:
        now, most = report.drift_evidence, report.largest_drift_evidence or 0.0
        largest = f", largest {most:.3g}" if most > now else ""
        numbers = f"evidence {now:.3g}{largest}; the alarm rings at {report.alarm_at:.3g}"
        if report.drift_alarm is None:
            told.append(f"No sign that the distribution of the {what} has changed ({numbers}).")
        else:
            when = judged[report.drift_alarm - 1]["domain"]
            told.append(
                f"The distribution of the {what} has changed, for better or worse: that alarm "
                f"rang at '{when}' ({numbers})."
            )
    return told


def _new_domains(judged: Sequence[Record]) -> str:
    first, last = judged[0]["domain"], judged[-1]["domain"]
    examples = sum(record["examples"] for record in judged)
    which = f"'{first}'" if len(judged) == 1 else f"'{first}' to '{last}'"
    told = f"{counted(len(judged), 'new domain')}, {which}, with {counted(examples, 'example')}."
    left_out = [record["domain"] for record in judged if record["verdict"] == LEFT_OUT]
    if left_out:
        told += (
            f" Not judged, because they depend on the domains of the certificate: "
            f"{listed(left_out)}."
        )
    return told


def _misses(missed: Sequence[Record], state: WatchState) -> str:
    shown, required, bound = missed[-MOST_MISSES:], state.claim.requirement, state.watch.bound
    which = "" if len(shown) == len(missed) else f", the last {len(shown)}"
    rows = [
        [
            str(record["domain"]),
            f"{record['examples']:,}",
            f"{record['risk']:.4f}" if required is None else required.shown(record["risk"]),
            "" if record["evidence"] is None else f"{record['evidence']:.3g}",
        ]
        for record in shown
    ]
    head, column = f"Above the bound of {rounded_up(bound)}", "risk"
    if required is not None:
        head, column = f"Requirement not met at {required.shown(bound)}", "setting needed"
    table = aligned([["domain", "examples", column, "evidence"], *rows])
    return f"{head}: {counted(len(missed), 'domain')}{which}\n{table}"


def _about_small_domains(found: WatchOutcome) -> Iterator[str]:
    least = found.state.claim.sizes[0]
    small = [record["domain"] for record in found.judged if 2 * record["examples"] < least]
    if small:
        yield (
            f"{counted(len(small), 'domain')} with fewer than half the examples of any certified "
            f"domain ({least:,}), so that the measured risk varies more than the certificate "
            f"allows for: {listed(small)}. Leave a domain whose rows are not all there yet for "
            f"later: {Setting('complete', EARLIER)}."
        )


def read_arrivals(patterns: Sequence[str], settings: WatchSettings) -> list[Arrival]:
    """The domains in CSV and Parquet files, patterns or folders; all problems are one error."""
    problems, found = Problems(), list[Arrival]()
    paths: dict[Path, None] = {}
    for pattern in patterns:
        with problems.noted():
            paths |= dict.fromkeys(find_files([pattern]))
    for path in paths:
        with problems.noted(path.name):
            found += _of_file(path, settings)
    if problems:
        raise DomainDataError(" ".join(problems))
    return found


def _of_file(path: Path, settings: WatchSettings) -> list[Arrival]:
    model, names = str(settings.model), settings.domain or ()
    measured: dict[str, Any] = {"losses": {model: settings.loss}}
    if settings.loss is None:
        measured = {"target": settings.target, "predictions": {model: settings.prediction}}
        measured |= {"metric": settings.metric, "clip": settings.clip}
    order = None if names == (settings.order,) else settings.order
    # One thread, so that sums are added up in the same order every time.
    spec = MeasurementSpec(list(names), **measured, order=order, part=True, threads=1)
    found = measured_models([path], spec)[model]
    if spec.requirement is not None:
        found = found.by_requirement(spec.requirement)
    risks, facts = found.risks, found.facts
    if facts.began is None:
        times = as_times(
            list(risks.domains), "The domains", f"Name the column of time ({Setting('order')})."
        )
    else:
        times = np.array([facts.began[str(name)] for name in risks.domains])
    seen, source = facts.seen or (), fingerprint(path)[:SHORT]
    return [
        Arrival(name, time, n, risk, source, path.name, str(name) in seen)
        for name, time, n, risk in zip(
            risks.domains,
            plain_times(times),
            risks.counts.tolist(),
            risks.risks.tolist(),
            strict=True,
        )
    ]


def write_watch_page(state: WatchState, path: Path, command: str) -> None:
    """Write the page of a watch to a file that needs nothing else to be opened."""
    scripts = ("numbers.js", "charts.js", "watch.js")
    write_text(path, assembled_page("watch.html", scripts, _content(state), command=command))


def _content(state: WatchState) -> dict[str, Any]:
    """Everything on the page, ready for JSON."""
    claim, report, domains = state.claim, state.report, state.domains
    return {
        "models": [one_line(claim.model)],
        "verdict": _verdict(state),
        "claim": _about_certificate(state),
        "warnings": claim.warnings,
        "bound": claim.certificate.bound,
        "boundText": rounded_up(claim.certificate.bound),
        "alarmAt": report.alarm_at,
        "suspiciousAt": math.sqrt(report.alarm_at),
        "certified": {
            "names": [one_line(str(name)) for name in claim.domains[-MOST_DRAWN:]],
            "risks": significant(claim.risks[-MOST_DRAWN:]),
        },
        "domains": [
            {
                "name": one_line(str(record["domain"])),
                "risk": significant(record["risk"]),
                "evidence": None if record["evidence"] is None else significant(record["evidence"]),
                **{key: record[key] for key in ("examples", "missed", "verdict")},
            }
            for record in domains[-MOST_DRAWN:]
        ],
        "watched": len(domains),
        "listed": MOST_LISTED,
        "earlier": [_earlier(*each) for each in state.watches[:-1]],
    }


def _earlier(claim: WatchedCertificate, domains: Sequence[Record]) -> str:
    last = domains[-1]["verdict"] if domains else "none judged"
    return (
        f"{one_line(claim.model)}, bound {claim.certificate.bound:.4g}: "
        f"{counted(len(domains), 'domain')}, {last}."
    )
