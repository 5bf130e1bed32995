"""What a watch has found, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from eqrm.evaluation.inference.in_time.false_alarms import false_alarms_in_words
from eqrm.evaluation.inference.in_time.watch import BROKEN, HOLDS, SUSPICIOUS
from eqrm.evaluation.rounding import as_percent, rounded_up
from eqrm.evaluation.watching.job import WatchOutcome
from eqrm.evaluation.watching.state import LEFT_OUT, Record, WatchState
from eqrm.text import aligned, counted, listed, one_line, wrapped

EXIT_CODES = {HOLDS: 0, SUSPICIOUS: 3, BROKEN: 4}
MOST_MISSES, MOST_OPEN = 10, 5
"""Domains above the bound that are listed, the latest ones, and open ones, the earliest."""


def watch_in_words(found: WatchOutcome) -> str:
    """What the command did, then the verdict with its numbers, then what else to know."""
    state = found.state
    parts = []
    if found.begun:
        parts = [wrapped(*about_certificate(state), false_alarms_in_words(state.watch))]
    if found.judged:
        parts.append(wrapped(_new_domains(found.judged)))
        missed = [record for record in found.judged if record["missed"]]
        if missed:
            parts.append(_misses(missed, state.watch.bound))
    parts.append(wrapped(*verdict_in_words(state)))
    notes = [*found.notes, *_about_small_domains(found), *_about_open_domains(state)]
    if notes:
        parts.append(wrapped(*(f"Note: {note}" for note in notes)))
    return "\n\n".join(parts)


def about_certificate(state: WatchState) -> list[str]:
    """What is watched, what that assumes, and what speaks against it."""
    claim = state.claim
    told = [
        f"Watching the certificate of '{one_line(claim.predictor)}'. {claim.certificate.sentence}",
        state.watch.assumption,
        "The certificate itself fails with a probability of at most "
        f"{as_percent(round(1.0 - claim.certificate.confidence, 10))}, which adds to that of a "
        "false alarm.",
    ]
    return told + [f"Warning: {warning}" for warning in claim.warnings]


def verdict_in_words(state: WatchState) -> list[str]:
    """The verdict, what to do after an alarm, and whether the risk's distribution changed."""
    report, judged = state.report, state.judged
    told = [report.sentence]
    if report.alarm is not None:
        first = judged[report.alarm - 1]
        told[0] = told[0].replace(
            f"rang at domain {report.alarm:,}.",
            f"rang at '{first['domain']}', domain number {report.alarm:,} of the watch.",
        )
        told.append(
            "Find the cause. To go on, compute a new certificate on domains after the change, and "
            "restart the watch with it: eqrm watch STATE --restart evaluation.json."
        )
    if report.drift_evidence is not None and report.domains:
        now, most = report.drift_evidence, report.largest_drift_evidence or 0.0
        largest = f", largest {most:.3g}" if most > now else ""
        numbers = f"evidence {now:.3g}{largest}; the alarm rings at {report.alarm_at:.3g}"
        if report.drift_alarm is None:
            told.append(f"No sign that the distribution of the risk has changed ({numbers}).")
        else:
            when = judged[report.drift_alarm - 1]["domain"]
            told.append(
                f"The distribution of the risk has changed, for better or worse: that alarm rang "
                f"at '{when}' ({numbers})."
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


def _misses(missed: Sequence[Record], bound: float) -> str:
    shown = missed[-MOST_MISSES:]
    which = "" if len(shown) == len(missed) else f", the last {len(shown)}"
    rows = [
        [
            str(record["domain"]),
            f"{record['examples']:,}",
            f"{record['risk']:.4f}",
            "" if record["evidence"] is None else f"{record['evidence']:.3g}",
        ]
        for record in shown
    ]
    head = f"Above the bound of {rounded_up(bound)}: {counted(len(missed), 'domain')}{which}"
    return f"{head}\n{aligned([['domain', 'examples', 'risk', 'evidence'], *rows])}"


def _about_small_domains(found: WatchOutcome) -> list[str]:
    least = found.state.claim.sizes[0]
    small = [record for record in found.judged if 2 * record["examples"] < least]
    if not small:
        return []
    names = [record["domain"] for record in small]
    return [
        f"{counted(len(small), 'domain')} with fewer than half the examples of any certified "
        f"domain ({least:,}), so that the measured risk varies more than the certificate allows "
        f"for: {listed(names)}. If more rows come, use --complete."
    ]


def _about_open_domains(state: WatchState) -> list[str]:
    told = []
    waiting = [record for record in state.open_domains if not record["complete"]]
    if waiting:
        rows = [sum(part[1] for part in record["parts"]) for record in waiting]
        names = [
            f"'{one_line(str(record['domain']))}' with {counted(number, 'row')}"
            for record, number in zip(waiting, rows, strict=True)
        ]
        more = f", and {counted(len(names) - MOST_OPEN, 'more')}" if len(names) > MOST_OPEN else ""
        told.append(
            f"{counted(len(names), 'domain')} open, not judged yet: "
            f"{', '.join(names[:MOST_OPEN])}{more}. More rows may come; --complete says when all "
            "have."
        )
    done = [record["domain"] for record in state.open_domains if record["complete"]]
    if done:
        told.append(f"Complete, and waiting for an earlier domain that is open: {listed(done)}.")
    return told
