"""The state of a watch: certificates and judged domains in the order of time, and open domains.

Nothing here reads or writes files. A state is never changed: new rows make a new one, or an error
that lists everything that is wrong with them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from eqrm.data.times import as_times
from eqrm.domains import name_order
from eqrm.errors import DataFileError, DomainDataError, SettingError
from eqrm.evaluation.inference.in_time.watch import BROKEN, HOLDS, SUSPICIOUS, Watch, WatchReport
from eqrm.evaluation.watching.arrivals import Arrival
from eqrm.evaluation.watching.claim import WatchedCertificate, plain_times
from eqrm.text import counted, listed, shortened

Record = dict[str, Any]
"""A domain, ready for JSON: its name, its time, its parts (source, examples, mean, and since
version 0.2 the place of the file), and more."""
ALL, NONE, EARLIER = "all", "none", "earlier"
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
    they came; ``open_domains`` are waiting for more rows, or for an earlier domain. ``watch`` is
    about the last certificate.
    """

    history: tuple[Record, ...]
    open_domains: tuple[Record, ...]
    watch: Watch
    notes: tuple[str, ...] = field(default=())

    @classmethod
    def begin(cls, claim: WatchedCertificate) -> WatchState:
        """The state of a watch that has seen nothing yet."""
        return cls(({"certificate": claim.to_dict()},), (), claim.watch())

    @property
    def claim(self) -> WatchedCertificate:
        """The certificate that is watched now."""
        return WatchedCertificate.from_dict(self.history[self._begun]["certificate"])

    @property
    def _begun(self) -> int:
        """The place of the last certificate in the history."""
        places = [i for i, entry in enumerate(self.history) if "certificate" in entry]
        return places[-1]

    @property
    def domains(self) -> list[Record]:
        """The domains since the last certificate, those left out included."""
        return list(self.history[self._begun + 1 :])

    @property
    def judged(self) -> list[Record]:
        """The domains since the last certificate that were judged, in the watch's numbering."""
        return [record for record in self.domains if record["verdict"] != LEFT_OUT]

    @property
    def report(self) -> WatchReport:
        """What the watch says now."""
        return self.watch.report

    def restarted(self, claim: WatchedCertificate) -> WatchState:
        """The same history, and a new watch over another certificate."""
        entry = {"certificate": claim.to_dict()}
        if self.open_domains:
            names = [record["domain"] for record in self.open_domains]
            raise SettingError(
                f"A watch cannot be restarted while domains are open: {listed(names)}. Complete "
                "them first (--complete all)."
            )
        return WatchState((*self.history, entry), (), claim.watch())

    def with_rows(
        self, arrivals: Sequence[Arrival], complete: Sequence[str], now: datetime | None = None
    ) -> WatchState:
        """The state after new rows, with the complete domains judged in the order of time.

        ``complete`` is "all", "earlier" (all but the latest), "none", or names of domains. What
        was judged before with the same result is skipped, with a note.
        """
        sorting = _Sorting(self, now or datetime.now(timezone.utc))
        for arrival in arrivals:
            sorting.add(arrival)
        sorting.complete(complete)
        if sorting.problems:
            raise DomainDataError(_first_problems(sorting.problems))
        return self._with_judged(sorting.open, sorting.notes)

    def _with_judged(self, waiting: Mapping[str, Record], notes: Sequence[str]) -> WatchState:
        """Judge open domains in the order of time, up to the first that is not complete."""
        ordered = sorted(waiting.values(), key=lambda r: (r["time"], name_order(r["domain"])))
        ready = next((i for i, r in enumerate(ordered) if not r["complete"]), len(ordered))
        left_out = max(0, min(ready, self.watch.dependence - len(self.domains)))
        records = [_judged(record) for record in ordered[:ready]]
        watch = Watch.from_dict(self.watch.to_dict())
        path = watch.update_many([record["risk"] for record in records[left_out:]]).tolist()
        alarm, alarm_at = self.report.alarm is not None, self.report.alarm_at
        for record, evidence in zip(records, [None] * left_out + path, strict=True):
            alarm = alarm or (evidence is not None and evidence >= alarm_at)
            record["missed"], record["evidence"] = record["risk"] > watch.bound, evidence
            record["verdict"] = _verdict(evidence, alarm, alarm_at)
        return WatchState(
            (*self.history, *records), tuple(ordered[ready:]), watch, notes=tuple(notes)
        )

    def entries(self) -> list[Record]:
        """What the lines of the state file hold."""
        waiting = [{"open": record} for record in self.open_domains]
        return [*self.history, *waiting, {"watch": self.watch.to_dict()}]

    @classmethod
    def of(cls, entries: Sequence[Record], name: str) -> WatchState:
        """The state that :meth:`entries` described; ``name`` is that of the file, for errors."""
        try:
            *others, last = entries
            history = tuple(entry for entry in others if "open" not in entry)
            waiting = tuple(entry["open"] for entry in others if "open" in entry)
            found = cls(history, waiting, Watch.from_dict(last["watch"]))
            _ = found.claim
            if len(found.judged) != found.report.domains:
                raise ValueError(f"{len(found.judged)} domains, of {found.report.domains}")
        except (AttributeError, LookupError, TypeError, ArithmeticError, ValueError) as error:
            reason = shortened(repr(error), 200)
            raise DataFileError(f"{name} is not the state of a watch: {reason}.") from None
        return found


class _Sorting:
    """New rows, one after the other: to which open domain they belong, or why to none."""

    def __init__(self, state: WatchState, now: datetime) -> None:
        self.claim = state.claim
        self.certified = set(map(str, self.claim.domains))
        past = [record for record in state.history if "domain" in record]
        self.judged = {str(record["domain"]): record for record in past}
        self.open = {str(record["domain"]): _copied(record) for record in state.open_domains}
        self.problems: list[str] = []
        self._skipped: dict[str, int] = {}
        self._certified: dict[str, int] = {}
        restarts = sum("certificate" in entry for entry in state.history) - 1
        known = dict(zip(map(str, self.claim.domains), self.claim.risks, strict=True))
        self._passed = known if restarts else {}
        self._repeats: dict[str, str] = {}
        ends = [self.claim.through, *(record["time"] for record in past[-1:])]
        times = [time for time in ends if time is not None]
        alike = [time for time in times if isinstance(time, str) == isinstance(times[0], str)]
        self.last = max(alike, default=None)
        times += [record["time"] for record in state.open_domains]
        self.dated = isinstance(times[0], str) if times else None
        # A name that is a time, to compare others with: with a time zone, or without.
        timed = self.claim.domains[:1] if self.claim.through is not None else ()
        since = (*state.domains, *state.open_domains)
        self.named = [*timed, *(record["domain"] for record in since)][:1]
        # Domains are one after the other where their names are times, or neighbours depend.
        dependent = self.claim.certificate.dependence > 0
        self.successive = dependent or self.claim.columns.order is None
        self.remedy = (
            "Bounds for dependent domains need domains that begin one after the other."
            if self.claim.columns.order is not None
            else "Name domains as before."
        )
        self._at = {record["time"]: record["domain"] for record in state.open_domains}
        ahead = (now + AHEAD).replace(tzinfo=None)
        self.latest = plain_times(as_times([ahead], "now"))[0]

    @property
    def notes(self) -> list[str]:
        """What was skipped, in words."""
        return [
            f"{file}: {counted(number, 'domain')} watched before, with the same risk: skipped."
            for file, number in self._skipped.items()
        ] + [
            f"{file}: {counted(number, 'domain')} that the certificate was computed on, with the "
            "same risk: skipped."
            for file, number in self._certified.items()
        ]

    def add(self, arrival: Arrival) -> None:
        """Put rows where they belong, skip them if they are known, or note what is wrong."""
        key = str(arrival.domain)
        known = self.judged.get(key) or self.open.get(key)
        if known is not None and _is_known(known, arrival, key in self.judged):
            self._skipped[arrival.file] = self._skipped.get(arrival.file, 0) + 1
            if all(part[0] != arrival.source for part in known["parts"]):
                self._repeats[arrival.source] = key
            return
        passed = self._passed.get(key)
        if known is None and passed is not None and _same(passed, arrival.risk):
            self._certified[arrival.file] = self._certified.get(arrival.file, 0) + 1
            return
        problem = self._problem(arrival, known)
        if problem is not None:
            self.problems.append(f"{arrival.file}: domain {arrival.domain!r} {problem}")
            return
        fresh: Record = {"domain": arrival.domain, "time": arrival.time, "complete": False}
        self.dated = isinstance(arrival.time, str)
        self.named = self.named or [arrival.domain]
        record = self.open.setdefault(key, {**fresh, "parts": []})
        record["time"] = min(record["time"], arrival.time)
        record["parts"].append([arrival.source, arrival.examples, arrival.risk, arrival.place])

    def _problem(self, arrival: Arrival, known: Record | None) -> str | None:
        """What is wrong with these rows, completing a sentence about their domain."""
        key = str(arrival.domain)
        if key in self.judged and known is not None:
            before = f"{counted(_examples(known), 'example')} with a risk of {known['risk']:.6g}"
            return (
                f"was watched before: {before}, and the file has "
                f"{counted(arrival.examples, 'example')} with {arrival.risk:.6g}. A domain is "
                "judged once: leave it out, or give it another name if it is another one."
            )
        if known is not None and known["complete"]:
            return "is complete, and has more rows in the file. Leave them out."
        if any(part[0] == arrival.source for part in (known or {"parts": []})["parts"]):
            return "has other rows than when the same file was read before. Restore the file."
        if any(_has_grown(part, arrival) for part in (known or {"parts": []})["parts"]):
            return (
                "is open, and rows of it were read from the same file when that was shorter: they "
                "would count twice. Give new rows only, in a file with a name of its own."
            )
        if known is not None and arrival.source in self._repeats:
            return (
                "is open and has rows already, and the file repeats rows of other domains "
                f"({self._repeats[arrival.source]!r}), so these may be repeated too. Give files "
                "with new rows only."
            )
        if arrival.seen:
            return (
                "was seen in training, and the certificate is about domains that were not. Leave "
                "it out."
            )
        if key in self.certified:
            return "is one of those that the certificate was computed on. Leave it out."
        problem = self._problem_of_time(arrival.time)
        if problem is None and self.claim.columns.order is None:
            problem = self._problem_of_name(arrival)
        if problem is None and self.successive:
            other = self._at.setdefault(arrival.time, arrival.domain)
            same = f"is at the same time as {other!r}, {_short(arrival.time)}"
            problem = None if str(other) == key else f"{same}, under another name. {self.remedy}"
        return problem

    def _problem_of_name(self, arrival: Arrival) -> str | None:
        """What is wrong with the name of a domain that is also its time."""
        try:
            as_times([*self.named, arrival.domain], "domains")
        except DomainDataError:
            return (
                f"is not written like {self.named[0]!r}: one of them has a time zone. Name domains "
                "as before."
            )
        return None

    def _problem_of_time(self, time: Any) -> str | None:
        """What is wrong with when a domain was."""
        if self.dated not in (None, isinstance(time, str)):
            kinds = ("a number", "dates") if self.dated else ("a date", "numbers")
            return f"has {kinds[0]} as its time ({_short(time)}), where others have {kinds[1]}."
        if self.last is not None and time < self.last:
            return (
                f"is earlier than {_short(self.last)}, when the last domain of the watch or of its "
                "certificate was. Domains are judged in the order of time: leave it out."
            )
        if time == self.last and self.successive:
            return (
                f"is at the same time as the last domain of the watch or of its certificate, "
                f"{_short(time)}, under another name. {self.remedy}"
            )
        if isinstance(time, str) and time > str(self.latest):
            return "begins in the future. Check its date, and the clock of this machine."
        return None

    def complete(self, which: Sequence[str]) -> None:
        """Mark the domains that no more rows are expected of."""
        if list(which) in ([ALL], [EARLIER]):
            latest = max((record["time"] for record in self.open.values()), default=None)
            for record in self.open.values():
                record["complete"] |= which[0] == ALL or record["time"] < latest
            return
        for name in which if list(which) != [NONE] else ():
            if name in self.open:
                self.open[name]["complete"] = True
            elif name not in self.judged:
                self.problems.append(
                    f"--complete {name}: no open domain has this name. Give {ALL}, {EARLIER}, "
                    f"{NONE}, or names of domains whose rows have come."
                )


def _first_problems(problems: Sequence[str]) -> str:
    """Problems as sentences, no more than a reader takes in.

    >>> _first_problems(["No."] * 12)
    'No. No. No. No. No. No. No. No. No. No. There are 2 more problems of this kind.'
    """
    more = len(problems) - MOST_PROBLEMS
    rest = [f"There are {counted(more, 'more problem')} of this kind."] if more > 0 else []
    return " ".join([*problems[:MOST_PROBLEMS], *rest])


def _copied(record: Record) -> Record:
    """A record whose parts can be added to without changing the other."""
    return {**record, "parts": list(record["parts"])}


def _is_known(record: Record, arrival: Arrival, judged: bool) -> bool:
    """Whether exactly these rows were counted: from the same file, or as a whole domain."""
    same = [part for part in record["parts"] if _equal(part, arrival)]
    if judged:
        whole = [None, _examples(record), _judged(record)["risk"]]
        return bool(same) or _equal(whole, arrival)
    return any(part[0] == arrival.source for part in same)


def _has_grown(part: Sequence[Any], arrival: Arrival) -> bool:
    """Whether a part is from the same path as new rows that are at least as many."""
    return part[3:] == [arrival.place] != [""] and arrival.examples >= part[1]


def _equal(part: Sequence[Any], arrival: Arrival) -> bool:
    return bool(part[1] == arrival.examples) and _same(part[2], arrival.risk)


def _same(risk: float, other: float) -> bool:
    return math.isclose(risk, other, rel_tol=1e-9, abs_tol=1e-12)


def _examples(record: Record) -> int:
    return sum(part[1] for part in record["parts"])


def _judged(record: Record) -> Record:
    """A complete domain with its risk: the mean over all its rows."""
    examples = _examples(record)
    risk = math.fsum(part[1] * part[2] for part in record["parts"]) / examples
    if len(record["parts"]) == 1:
        risk = record["parts"][0][2]
    own = {key: record[key] for key in ("domain", "time")}
    return {**own, "examples": examples, "risk": risk, "parts": record["parts"]}


def _verdict(evidence: float | None, alarm: bool, alarm_at: float) -> str:
    if evidence is None:
        return LEFT_OUT
    if alarm:
        return BROKEN
    return SUSPICIOUS if evidence >= math.sqrt(alarm_at) else HOLDS


def _short(time: Any) -> str:
    """A time in words.

    >>> _short("2013-07-02T00:00:00.000000"), _short(7)
    ('2013-07-02', '7')
    """
    return str(time).removesuffix("T00:00:00.000000") if isinstance(time, str) else f"{time:.15g}"
