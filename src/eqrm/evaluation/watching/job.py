"""The job of ``eqrm watch``: start or restart a watch, take new rows, judge, keep the state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eqrm.checks import CONFIDENCE, NON_NEGATIVE_INTEGER, OPEN_FRACTION, check_all, optional
from eqrm.errors import DomainDataError, SettingError
from eqrm.evaluation.inference.risk_checks import LevelLike
from eqrm.evaluation.rounding import rounded_up
from eqrm.evaluation.watching.arrivals import read_arrivals
from eqrm.evaluation.watching.claim import (
    DELTA,
    WatchedCertificate,
    WatchedColumns,
    certificate_to_watch,
)
from eqrm.evaluation.watching.state import ALL, Record, WatchState
from eqrm.evaluation.watching.state_file import locked, read_state, write_state


@dataclass(frozen=True)
class WatchOptions:
    """What to watch; None where nothing was said.

    With ``--start`` that means the usual, with ``--restart`` and otherwise what the watch has.
    """

    columns: WatchedColumns
    predictor: str | None = None
    alpha: LevelLike | None = None
    confidence: float | None = None
    delta: float | None = None
    dependence: int | None = None

    def claim(self, evaluation: Path, usual: str | None = None) -> WatchedCertificate:
        """The certificate to watch; ``usual`` is the predictor where none is named."""
        return certificate_to_watch(
            evaluation,
            self.columns,
            predictor=self.predictor,
            usual=usual,
            alpha=self.alpha,
            confidence=self.confidence,
            delta=DELTA if self.delta is None else self.delta,
            dependence=self.dependence or 0,
        )

    def after(self, earlier: WatchedCertificate) -> WatchOptions:
        """The same, with what an earlier watch had where nothing was said."""
        old = earlier.certificate
        known = {"alpha": old.alpha, "confidence": old.confidence, "delta": earlier.delta}
        known["dependence"] = old.dependence
        unsaid = {name: value for name, value in known.items() if getattr(self, name) is None}
        columns = replace(earlier.columns.updated(self.columns), clip=self.columns.clip)
        return replace(self, columns=columns, **unsaid)  # type: ignore[arg-type]

    def refuse_differing(self, claim: WatchedCertificate) -> None:
        """Raise if something was said that only a start or a restart can say."""
        settled = ("alpha", "confidence", "delta", "dependence")
        said = [f"--{name}" for name in settled if getattr(self, name) is not None]
        problems = claim.columns.differing(self.columns)
        if said:
            problems.append(f"{', '.join(said)} can only be given with --start or --restart.")
        if self.predictor not in (None, claim.predictor):
            problems.append(
                f"--predictor is {self.predictor!r}, but the certificate that is watched is about "
                f"{claim.predictor!r}."
            )
        if problems:
            advice = "Leave it out, or watch a new certificate (--restart)."
            raise SettingError(" ".join([*problems, advice]))


@dataclass(frozen=True, eq=False)
class WatchOutcome:
    """The state after a command, the domains that it judged, and whether the watch is new."""

    state: WatchState
    judged: tuple[Record, ...]
    begun: bool
    notes: tuple[str, ...]


def run_watch(
    path: Path,
    options: WatchOptions,
    *,
    start: Path | None = None,
    restart: Path | None = None,
    new: Sequence[str] = (),
    complete: Sequence[str] = (),
) -> WatchOutcome:
    """Do what a command asks for; the file changes at its end, once, or not at all.

    The same command again changes nothing. Domains are complete unless ``complete`` says
    otherwise (see :meth:`WatchState.with_rows`).
    """
    check_all(
        lambda: _refuse_both(start, restart),
        lambda: optional(OPEN_FRACTION).check(options.delta, "--delta"),
        lambda: optional(CONFIDENCE).check(options.confidence, "--confidence"),
        lambda: optional(NON_NEGATIVE_INTEGER).check(options.dependence, "--dependence"),
    )
    with locked(path):
        known = None if start is not None and not path.exists() else read_state(path)
        state, notes = _begun(path, known, options, start, restart)
        begun = state is not known
        before = len(state.history)
        if new or complete:
            claim = state.claim
            arrivals = read_arrivals(new, claim.columns, claim.predictor) if new else []
            state = state.with_rows(arrivals, complete or [ALL])
        if known is None or state.entries() != known.entries():
            write_state(path, state)
    return WatchOutcome(state, state.history[before:], begun, (*notes, *state.notes))


def _begun(
    path: Path,
    known: WatchState | None,
    options: WatchOptions,
    start: Path | None,
    restart: Path | None,
) -> tuple[WatchState, list[str]]:
    """The state to go on with: that of the file, or one with a new certificate."""
    if known is None and start is not None:
        return WatchState.begin(options.claim(start)), []
    known = known or read_state(path)
    evaluation = start or restart
    if evaluation is None:
        options.refuse_differing(known.claim)
        return known, []
    given = options if start is not None else options.after(known.claim)
    claim = given.claim(evaluation, None if restart is None else known.claim.predictor)
    if claim.to_dict() == known.claim.to_dict():
        return known, [f"{path} watches this certificate already: nothing to start."]
    if start is not None:
        raise DomainDataError(
            f"{path} watches another certificate, that of {known.claim.predictor!r}. Choose "
            "another file, or use --restart to go on with a new certificate in the same file."
        )
    _refuse_repeated(claim, known)
    return known.restarted(claim), _about_restart(known)


def _refuse_repeated(claim: WatchedCertificate, known: WatchState) -> None:
    """Refuse what was watched before with other options: that would only reset the evidence."""
    asked = _statement(claim.to_dict())
    for entry, after in zip(known.history, known.history[1:], strict=False):
        watched = "certificate" in entry and "domain" in after
        if watched and _statement(entry["certificate"]) == asked:
            raise SettingError(
                f"A certificate on the same domains with the same bound, "
                f"{rounded_up(claim.certificate.bound)}, was watched in this file before. Its "
                "evidence cannot be reset by watching it anew: evaluate domains since the change, "
                "or start a watch with other options in another file."
            )


def _statement(claim: Mapping[str, Any]) -> list[Any]:
    """What a certificate is about, whatever the options of its watch."""
    kept = ("predictor", "domains", "risks")
    return [claim["certificate"]["bound"], *(claim[key] for key in kept)]


def _about_restart(before: WatchState) -> list[str]:
    if before.report.alarm is not None or not before.report.domains:
        return []
    return [
        "The watch before was restarted without an alarm. Every watch has a false-alarm "
        "probability of its own, and a certificate that is replaced whenever evidence grows is "
        "never found to be broken."
    ]


def _refuse_both(start: Path | None, restart: Path | None) -> None:
    if start is not None and restart is not None:
        raise SettingError(
            "--start and --restart cannot be combined. Use --start for a new file, and --restart "
            "to go on with a new certificate."
        )
