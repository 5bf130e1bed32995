"""The state of a watch: certificates and judged domains in the order of time.

Nothing here reads or writes files. A state is never changed: new rows make a new one, or an error
that lists everything that is wrong with them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from eqrm.domains import name_order
from eqrm.errors import DataFileError, DomainDataError, Setting
from eqrm.evaluation.inference.in_time.watch import Watch, WatchReport, verdict_of
from eqrm.evaluation.watching.claim import Arrival, Time, WatchedCertificate
from eqrm.text import counted, listed, shortened

Record = dict[str, Any]
"""A domain, ready for JSON: its name, its time, its parts (source, examples, mean), and more."""
ALL, EARLIER = "all", "earlier"
"""Which of the domains in new files have all their rows: all, or all but the latest."""
LEFT_OUT = "left out"
"""The verdict on the k domains after those of a certificate for k-dependent domains."""
MOST_PROBLEMS = 10
"""Problems of new rows that an error lists."""
AHEAD = timedelta(hours=14)
"""Somewhere on earth it is that much later than in UTC."""


@dataclass(frozen=True, eq=False)
class WatchState:
    """What a state file holds.

    ``history`` has an entry per certificate (``{"certificate": …}``) and per judged domain, as
    they came. ``watch`` is about the last certificate. ``waiting`` has the number of examples and
    the risk of domains that were left for later.
    """

    history: tuple[Record, ...]
    watch: Watch
    notes: tuple[str, ...] = ()
    waiting: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @classmethod
    def begin(cls, claim: WatchedCertificate, history: tuple[Record, ...] = ()) -> WatchState:
        """The state of a watch that has seen nothing yet, after what was watched before."""
        return cls((*history, {"certificate": asdict(claim)}), claim.watch())

    @property
    def claim(self) -> WatchedCertificate:
        """The certificate that is watched now."""
        return self.watches[-1][0]

    @property
    def watches(self) -> list[tuple[WatchedCertificate, list[Record]]]:
        """The certificates in order, each with the domains judged by it."""
        found: list[tuple[WatchedCertificate, list[Record]]] = []
        for entry in self.history:
            if "certificate" in entry:
                found.append((WatchedCertificate.from_dict(entry["certificate"]), []))
            else:
                found[-1][1].append(entry)
        return found

    @property
    def domains(self) -> list[Record]:
        """The domains since the last certificate, those left out included."""
        return self.watches[-1][1]

    @property
    def judged(self) -> list[Record]:
        """The domains since the last certificate that were judged, in the watch's numbering."""
        return [record for record in self.domains if record["verdict"] != LEFT_OUT]

    @property
    def report(self) -> WatchReport:
        return self.watch.report

    def with_rows(
        self, arrivals: Sequence[Arrival], complete: str = ALL, now: datetime | None = None
    ) -> WatchState:
        """The state after new rows, with their domains judged in the order of time.

        ``complete`` is "all", or "earlier" to leave the latest domain for later. What was judged
        before with the same result is skipped, with a note.
        """
        by_domain: dict[str, dict[str, Arrival]] = {}
        for arrival in arrivals:
            by_domain.setdefault(str(arrival.domain), {}).setdefault(arrival.source, arrival)
        sorting = _Sorting(self, arrivals, now or datetime.now(timezone.utc))
        fresh, problems = list[Record](), list[str]()
        for by_source in by_domain.values():
            rows = list(by_source.values())
            if sorting.knows(rows):
                continue
            problem = sorting.problem_of(rows)
            if problem is None:
                fresh.append(_record(rows))
            else:
                problems.append(f"{rows[0].file}: domain {rows[0].domain!r} {problem}")
        problems += [
            f"The domain {name!r} was left for later, and the files have no row of it. Give all "
            "its rows again."
            for name in self.waiting.keys() - by_domain.keys()
        ]
        if problems:
            more = len(problems) - MOST_PROBLEMS
            rest = [f"There are {counted(more, 'more problem')} of this kind."] if more > 0 else []
            raise DomainDataError(" ".join([*problems[:MOST_PROBLEMS], *rest]))
        fresh.sort(key=lambda record: (record["time"], name_order(record["domain"])))
        notes = sorting.notes
        waiting: dict[str, Sequence[float]] = {}
        if complete == EARLIER and fresh:
            latest = [record for record in fresh if record["time"] == fresh[-1]["time"]]
            del fresh[-len(latest) :]
            names = listed([record["domain"] for record in latest])
            waiting = {str(each["domain"]): [each["examples"], each["risk"]] for each in latest}
            notes.append(
                f"Not judged, because more rows may come: {names}. Give all its rows again "
                f"together with those of a later domain, or with {Setting('complete', ALL)}."
            )
        return replace(self._with_judged(fresh, notes), waiting=waiting)

    def _with_judged(self, records: Sequence[Record], notes: Sequence[str]) -> WatchState:
        left_out = max(0, min(len(records), self.watch.dependence - len(self.domains)))
        watch = Watch.from_dict(self.watch.to_dict())
        path = watch.update_many([record["risk"] for record in records[left_out:]]).tolist()
        rang, alarm_at = self.report.alarm is not None, self.report.alarm_at
        for record, evidence in zip(records, [None] * left_out + path, strict=True):
            rang = rang or (evidence is not None and evidence >= alarm_at)
            record["missed"], record["evidence"] = record["risk"] > watch.bound, evidence
            judged = evidence is not None
            record["verdict"] = verdict_of(evidence, alarm_at, rang) if judged else LEFT_OUT
        return WatchState((*self.history, *records), watch, tuple(notes))

    def entries(self) -> list[Record]:
        """What the lines of the state file hold."""
        return [*self.history, {"watch": self.watch.to_dict(), "waiting": dict(self.waiting)}]

    @classmethod
    def of(cls, entries: Sequence[Record], name: str) -> WatchState:
        """The state that :meth:`entries` described; ``name`` is that of the file, for errors."""
        try:
            *history, last = entries
            watch, waiting = Watch.from_dict(last["watch"]), dict(last["waiting"])
            found = cls(tuple(history), watch, waiting=waiting)
            if len(found.judged) != found.report.domains:
                raise ValueError(f"{len(found.judged)} domains, of {found.report.domains}")
        except (AttributeError, LookupError, TypeError, ArithmeticError, ValueError) as error:
            reason = shortened(repr(error), 200)
            raise DataFileError(f"{name} is not the state of a watch: {reason}.") from None
        return found


class _Sorting:
    """The rows of domains in new files, one domain after the other: known, wrong or new."""

    def __init__(self, state: WatchState, arrivals: Sequence[Arrival], now: datetime) -> None:
        self.claim = claim = state.claim
        self.certified = dict(zip(map(str, claim.domains), claim.risks, strict=True))
        self.restarted = len(state.watches) > 1
        past = [record for record in state.history if "domain" in record]
        self.judged = {str(record["domain"]): record for record in past}
        self.waiting, self.grown = state.waiting, dict[str, str]()
        self.notes_of = Counter[tuple[str, str]]()
        ends = [] if claim.through is None else [claim.through]
        ends += [record["time"] for record in past[-1:]]
        first = [*ends, *(arrival.time for arrival in arrivals)][:1]
        self.dated = isinstance(first[0], str) if first else False
        self.last = max((t for t in ends if isinstance(t, str) == self.dated), default=None)
        # Domains are one after the other where their names are times, or neighbours depend.
        by_name = claim.settings.order is None
        self.successive = by_name or claim.certificate.dependence > 0
        self.remedy = (
            "Name domains as before."
            if by_name
            else "Bounds for dependent domains need domains that begin one after the other."
        )
        self._taken: dict[Time, str] = {}
        ahead = (now + AHEAD).replace(tzinfo=None)
        self.latest = ahead.isoformat(timespec="microseconds")

    @property
    def notes(self) -> list[str]:
        """What was skipped, in words."""
        return [
            f"{file}: {counted(number, 'domain')} {what}, with the same risk: skipped."
            for (what, file), number in self.notes_of.items()
        ] + [
            f"{domain} has {told} that were left for later." for domain, told in self.grown.items()
        ]

    def knows(self, rows: Sequence[Arrival]) -> bool:
        """Whether exactly these rows of a domain counted before, which is noted."""
        key = str(rows[0].domain)
        examples, risk = _measured(rows)
        old = self.judged.get(key)
        if old is not None:
            what = "watched before"
            parts = [part[1:3] for part in old["parts"]]
            known = _same([old["examples"], old["risk"]], examples, risk) or all(
                any(_same(part, row.examples, row.risk) for part in parts) for row in rows
            )
        else:
            what = "that the certificate was computed on"
            passed = self.certified.get(key) if self.restarted else None
            known = passed is not None and _close(passed, risk)
        if known:
            self.notes_of.update((what, row.file) for row in rows)
        return known

    def problem_of(self, rows: Sequence[Arrival]) -> str | None:
        """What is first found wrong with a domain's rows, completing a sentence about it."""
        name = rows[0].domain
        key = str(name)
        if key in self.judged:
            known = self.judged[key]
            examples, risk = _measured(rows)
            before = f"{counted(known['examples'], 'example')} with a risk of {known['risk']:.6g}"
            return (
                f"was watched before: {before}, and the file has {counted(examples, 'example')} "
                f"with {risk:.6g}. A domain is judged once: leave it out, or give it another name "
                "if it is another one."
            )
        if any(row.seen for row in rows):
            return (
                "was seen in training, and the certificate is about domains that were not. Leave "
                "it out."
            )
        if key in self.certified:
            return "is one of those that the certificate was computed on. Leave it out."
        for row in rows:
            if isinstance(row.time, str) != self.dated:
                kinds = ("a number", "dates") if self.dated else ("a date", "numbers")
                time = _short(row.time)
                return f"has {kinds[0]} as its time ({time}), where others have {kinds[1]}."
        if len(rows) > 1 and self.claim.requirement is not None:
            return "has rows in several files. Give all its rows in one: what it needs is no mean."
        return self._problem_of_waiting(rows) or self._problem_of_time(
            name, min(row.time for row in rows)
        )

    def _problem_of_waiting(self, rows: Sequence[Arrival]) -> str | None:
        """What is wrong with rows of a domain that was left for later: all must come again."""
        key = str(rows[0].domain)
        if key not in self.waiting:
            return None
        (before, mean), (examples, risk) = self.waiting[key], _measured(rows)
        if examples < before or (examples == before and not _close(risk, mean)):
            return (
                f"was left for later with {counted(int(before), 'example')} and a risk of "
                f"{mean:.6g}, and has {counted(examples, 'example')} with {risk:.6g} now. Give all "
                "its rows again, those of earlier files too."
            )
        if examples > before:
            self.grown[key] = f"{examples:,} examples, which must include {int(before):,}"
        return None

    def _problem_of_time(self, name: Any, time: Any) -> str | None:
        """What is wrong with when a domain was; the first one at a time takes it."""
        if self.last is not None and time < self.last:
            return (
                f"is earlier than {_short(self.last)}, when the last domain of the watch or of its "
                "certificate was. Domains are judged in the order of time: leave it out."
            )
        if self.successive:
            other = self._taken.setdefault(time, name)
            same = None if other == name else repr(other)
            if time == self.last:
                same = "the last domain of the watch or of its certificate"
            if same:
                at = f"{same}, {_short(time)}, under another name"
                return f"is at the same time as {at}. {self.remedy}"
        if isinstance(time, str) and time > self.latest:
            return "begins in the future. Check its date, and the clock of this machine."
        return None


def _same(part: Sequence[Any], examples: int, risk: float) -> bool:
    return bool(part[0] == examples and _close(part[1], risk))


def _close(risk: float, other: float) -> bool:
    return math.isclose(risk, other, rel_tol=1e-9, abs_tol=1e-12)


def _measured(rows: Sequence[Arrival]) -> tuple[int, float]:
    """The number of rows of a domain, and their mean."""
    if len(rows) == 1:
        return rows[0].examples, rows[0].risk
    examples = sum(row.examples for row in rows)
    return examples, math.fsum(row.examples * row.risk for row in rows) / examples


def _record(rows: Sequence[Arrival]) -> Record:
    examples, risk = _measured(rows)
    return {
        "domain": rows[0].domain,
        "time": min(row.time for row in rows),
        "examples": examples,
        "risk": risk,
        "parts": [[row.source, row.examples, row.risk] for row in rows],
    }


def _short(time: Any) -> str:
    """A time in words: midnight is a date."""
    return str(time).removesuffix("T00:00:00.000000") if isinstance(time, str) else f"{time:.15g}"
