"""The state of a watch: certificates and judged domains in the order of time, and open domains.

Nothing here reads or writes files. A state is never changed: new rows make a new one, or an error
that lists everything that is wrong with them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from eqrm.data.times import as_times
from eqrm.domains import name_order
from eqrm.errors import DataFileError, DomainDataError, Setting, SettingError
from eqrm.evaluation.inference.in_time.watch import Watch, WatchReport, verdict_of
from eqrm.evaluation.watching.claim import Arrival, WatchedCertificate, plain_times
from eqrm.text import counted, listed, shortened

Record = dict[str, Any]
"""A domain, ready for JSON: its name, its time, its parts (source, examples, mean, place of the
file), and more."""
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
    notes: tuple[str, ...] = ()

    @classmethod
    def begin(cls, claim: WatchedCertificate, history: tuple[Record, ...] = ()) -> WatchState:
        """The state of a watch that has seen nothing yet, after what was watched before."""
        return cls((*history, {"certificate": asdict(claim)}), (), claim.watch())

    @property
    def claim(self) -> WatchedCertificate:
        """The certificate that is watched now."""
        return self.watches[-1][0]

    @property
    def watches(self) -> list[tuple[WatchedCertificate, list[Record]]]:
        """Every certificate, with the domains that came while it was watched."""
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
        """What the watch says now."""
        return self.watch.report

    def restarted(self, claim: WatchedCertificate) -> WatchState:
        """The same history, and a new watch over another certificate."""
        if self.open_domains:
            names = [record["domain"] for record in self.open_domains]
            raise SettingError(
                f"A watch cannot be restarted while domains are open: {listed(names)}. Complete "
                f"them first ({Setting('complete', 'all')})."
            )
        return WatchState.begin(claim, self.history)

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
            more = len(sorting.problems) - MOST_PROBLEMS
            rest = [f"There are {counted(more, 'more problem')} of this kind."] if more > 0 else []
            raise DomainDataError(" ".join([*sorting.problems[:MOST_PROBLEMS], *rest]))
        return self._with_judged(sorting.open, sorting.notes)

    def _with_judged(self, waiting: Mapping[str, Record], notes: Sequence[str]) -> WatchState:
        """Judge open domains in the order of time, up to the first that is not complete."""
        ordered = sorted(waiting.values(), key=lambda r: (r["time"], name_order(r["domain"])))
        ready = next((i for i, r in enumerate(ordered) if not r["complete"]), len(ordered))
        left_out = max(0, min(ready, self.watch.dependence - len(self.domains)))
        records = [_whole(record) for record in ordered[:ready]]
        watch = Watch.from_dict(self.watch.to_dict())
        path = watch.update_many([record["risk"] for record in records[left_out:]]).tolist()
        rang, alarm_at = self.report.alarm is not None, self.report.alarm_at
        for record, evidence in zip(records, [None] * left_out + path, strict=True):
            rang = rang or (evidence is not None and evidence >= alarm_at)
            record["missed"], record["evidence"] = record["risk"] > watch.bound, evidence
            judged = evidence is not None
            record["verdict"] = verdict_of(evidence, alarm_at, rang) if judged else LEFT_OUT
        return WatchState((*self.history, *records), tuple(ordered[ready:]), watch, tuple(notes))

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
            if len(found.judged) != found.report.domains:
                raise ValueError(f"{len(found.judged)} domains, of {found.report.domains}")
        except (AttributeError, LookupError, TypeError, ArithmeticError, ValueError) as error:
            reason = shortened(repr(error), 200)
            raise DataFileError(f"{name} is not the state of a watch: {reason}.") from None
        return found


class _Sorting:
    """New rows, one after the other: to which open domain they belong, or why to none."""

    def __init__(self, state: WatchState, now: datetime) -> None:
        self.claim = claim = state.claim
        self.certified = dict(zip(map(str, claim.domains), claim.risks, strict=True))
        self.restarted = len(state.watches) > 1
        past = [record for record in state.history if "domain" in record]
        self.judged = {str(record["domain"]): record for record in past}
        self.open = {
            str(record["domain"]): {**record, "parts": list(record["parts"])}
            for record in state.open_domains
        }
        self.problems: list[str] = []
        self._skipped = Counter[str]()
        self._passed = Counter[str]()
        self._repeats: dict[str, str] = {}
        ends = [] if claim.through is None else [claim.through]
        ends += [record["time"] for record in past[-1:]]
        alike = [time for time in ends if isinstance(time, str) == isinstance(ends[0], str)]
        self.last = max(alike, default=None)
        known = [*ends, *(record["time"] for record in state.open_domains)]
        self.dated = isinstance(known[0], str) if known else None
        # A name that is a time, to compare others with: with a time zone, or without.
        since = [record["domain"] for record in (*state.domains, *state.open_domains)]
        self.named = [*(claim.domains[:1] if claim.through is not None else ()), *since][:1]
        # Domains are one after the other where their names are times, or neighbours depend.
        self.by_name = claim.settings.order is None
        self.successive = self.by_name or claim.certificate.dependence > 0
        self.remedy = (
            "Name domains as before."
            if self.by_name
            else "Bounds for dependent domains need domains that begin one after the other."
        )
        self._at = {record["time"]: record["domain"] for record in state.open_domains}
        ahead = (now + AHEAD).replace(tzinfo=None)
        self.latest = str(plain_times(as_times([ahead], "now"))[0])

    @property
    def notes(self) -> list[str]:
        """What was skipped, in words."""
        both = (
            (self._skipped, "watched before, with the same risk"),
            (self._passed, "that the certificate was computed on, with the same risk"),
        )
        return [
            f"{file}: {counted(number, 'domain')} {what}: skipped."
            for files, what in both
            for file, number in files.items()
        ]

    def add(self, arrival: Arrival) -> None:
        """Put rows where they belong, skip them if they are known, or note what is wrong."""
        key = str(arrival.domain)
        known = self.judged.get(key) or self.open.get(key)
        if known is not None and _is_known(known, arrival, key in self.judged):
            self._skipped[arrival.file] += 1
            if all(part[0] != arrival.source for part in known["parts"]):
                self._repeats[arrival.source] = key
            return
        if known is None and self.restarted and _same(self.certified.get(key), arrival.risk):
            self._passed[arrival.file] += 1
            return
        problem = next(self._problems(arrival, known), None)
        if problem is not None:
            self.problems.append(f"{arrival.file}: domain {arrival.domain!r} {problem}")
            return
        fresh: Record = {"domain": arrival.domain, "time": arrival.time, "complete": False}
        self.dated = isinstance(arrival.time, str)
        self.named = self.named or [arrival.domain]
        record = self.open.setdefault(key, {**fresh, "parts": []})
        record["time"] = min(record["time"], arrival.time)
        record["parts"].append([arrival.source, arrival.examples, arrival.risk, arrival.place])

    def _problems(self, arrival: Arrival, known: Record | None) -> Iterator[str]:
        """What is wrong with these rows, completing a sentence about their domain."""
        key = str(arrival.domain)
        if key in self.judged and known is not None:
            before = f"{counted(_examples(known), 'example')} with a risk of {known['risk']:.6g}"
            yield (
                f"was watched before: {before}, and the file has "
                f"{counted(arrival.examples, 'example')} with {arrival.risk:.6g}. A domain is "
                "judged once: leave it out, or give it another name if it is another one."
            )
        if known is not None and known["complete"]:
            yield "is complete, and has more rows in the file. Leave them out."
        for source, examples, _, place in known["parts"] if known else ():
            if source == arrival.source:
                yield "has other rows than when the same file was read before. Restore the file."
            if place == arrival.place != "" and arrival.examples >= examples:
                yield (
                    "is open, and rows of it were read from the same file when that was shorter: "
                    "they would count twice. Give new rows only, in a file with a name of its own."
                )
        if known is not None and arrival.source in self._repeats:
            yield (
                "is open and has rows already, and the file repeats rows of other domains "
                f"({self._repeats[arrival.source]!r}), so these may be repeated too. Give files "
                "with new rows only."
            )
        if arrival.seen:
            yield (
                "was seen in training, and the certificate is about domains that were not. Leave "
                "it out."
            )
        if key in self.certified:
            yield "is one of those that the certificate was computed on. Leave it out."
        yield from self._problems_of_time(arrival)

    def _problems_of_time(self, arrival: Arrival) -> Iterator[str]:
        """What is wrong with when a domain was."""
        time: Any = arrival.time
        same = None
        if self.dated not in (None, isinstance(time, str)):
            kinds = ("a number", "dates") if self.dated else ("a date", "numbers")
            yield f"has {kinds[0]} as its time ({_short(time)}), where others have {kinds[1]}."
        elif self.last is not None and time < self.last:
            yield (
                f"is earlier than {_short(self.last)}, when the last domain of the watch or of its "
                "certificate was. Domains are judged in the order of time: leave it out."
            )
        if time == self.last and self.successive:
            same = "the last domain of the watch or of its certificate"
        if self.successive:
            other = self._at.setdefault(time, arrival.domain)
            same = same or (repr(other) if str(other) != str(arrival.domain) else None)
        if same:
            at = f"{same}, {_short(time)}, under another name"
            yield f"is at the same time as {at}. {self.remedy}"
        if isinstance(time, str) and time > self.latest:
            yield "begins in the future. Check its date, and the clock of this machine."
        if self.by_name:
            try:
                as_times([*self.named, arrival.domain], "domains")
            except DomainDataError:
                yield (
                    f"is not written like {self.named[0]!r}: one of them has a time zone. Name "
                    "domains as before."
                )

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
                    f"{Setting('complete')} {name}: no open domain has this name. Give {ALL}, "
                    f"{EARLIER}, "
                    f"{NONE}, or names of domains whose rows have come."
                )


def _is_known(record: Record, arrival: Arrival, judged: bool) -> bool:
    """Whether exactly these rows were counted: from the same file, or as a whole domain."""
    if judged:
        parts = [*record["parts"], [None, record["examples"], record["risk"], ""]]
    else:
        parts = [part for part in record["parts"] if part[0] == arrival.source]
    return any(n == arrival.examples and _same(risk, arrival.risk) for _, n, risk, _ in parts)


def _same(risk: float | None, other: float) -> bool:
    return risk is not None and math.isclose(risk, other, rel_tol=1e-9, abs_tol=1e-12)


def _examples(record: Record) -> int:
    return sum(part[1] for part in record["parts"])


def _whole(record: Record) -> Record:
    """A complete domain with its risk: the mean over all its rows."""
    examples, parts = _examples(record), record["parts"]
    risk = parts[0][2]
    if len(parts) > 1:
        risk = math.fsum(part[1] * part[2] for part in parts) / examples
    own = {key: record[key] for key in ("domain", "time")}
    return {**own, "examples": examples, "risk": risk, "parts": parts}


def _short(time: Any) -> str:
    """A time in words.

    >>> _short("2013-07-02T00:00:00.000000"), _short(7)
    ('2013-07-02', '7')
    """
    return str(time).removesuffix("T00:00:00.000000") if isinstance(time, str) else f"{time:.15g}"
