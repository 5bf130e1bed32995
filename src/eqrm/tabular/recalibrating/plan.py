"""What ``eqrm recalibrate`` is asked for: each setting is declared once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from eqrm.checks import CONFIDENCE, FRACTION, SEED, Problems, checked_settings, number, setting
from eqrm.errors import Setting
from eqrm.level import Level
from eqrm.tabular.plan import DATA, HELD_OUT, PREDICTION, SEVERAL, THREADS, TrainingPlan

METRICS = ("log-loss", "squared")
CORRECTION, OUTPUT = "Correction", "Output"
TRAINING = TrainingPlan.__dataclass_fields__
SHARE = 0.5


@dataclass(frozen=True, kw_only=True)
class RecalibrationPlan:
    """What to fit, on which domains, and which others to judge it on.

    Held out are the domains that ``test_domains`` names, those later than ``test_after``, the
    share ``test_last`` of the latest, or a share ``test_share`` drawn with ``seed``.
    """

    domains: Sequence[str] = field(default=(), metadata=TRAINING["domain"].metadata)
    target: str = setting("", DATA, "Column of what is predicted.", metavar="COLUMN")
    prediction: str = setting("", DATA, PREDICTION, metavar="COLUMN")
    metric: str = setting(
        "log-loss",
        DATA,
        "log-loss of probabilities (default), or squared for predicted numbers.",
        choices=METRICS,
    )
    clip: float = setting(
        1e-7,
        DATA,
        "Least distance of probabilities from 0 and 1, where logits are infinite (default: 1e-7).",
        kind="number",
        rule=number(above=0, below=0.5),
    )
    threads: int | None = setting(None, DATA, THREADS, kind="integer")
    memory: str = setting(
        "600MB", DATA, "Memory limit for reading files, such as 2GB (default: 600MB)."
    )
    alpha: Level | float = setting(  # noqa: RUF009  (a field, as the others)
        0.9, CORRECTION, "Level of the quantile of risk (default: 0.9).", kind="level"
    )
    scale: bool = setting(
        True, CORRECTION, "Fit a scale besides the shift (default: yes).", kind="switch"
    )
    test_domains: Sequence[str] | None = setting(
        None, HELD_OUT, f"Domains to hold out, by name. {SEVERAL}", kind="names"
    )
    test_share: float | None = setting(
        None,
        HELD_OUT,
        f"Share of the domains to hold out, drawn with --seed (default: {SHARE}).",
        kind="number",
        rule=FRACTION,
    )
    order: str | None = setting(
        None,
        HELD_OUT,
        "Column with the time of each row, a date or a number, to fit on the past and evaluate on "
        f"later domains (the last {SHARE} of them unless --test-after or --test-last says "
        "otherwise). Default with these two: the domain.",
        metavar="COLUMN",
    )
    test_after: object = field(default=None, metadata=TRAINING["test_after"].metadata)
    test_last: float | None = field(default=None, metadata=TRAINING["test_last"].metadata)
    seed: int = setting(
        0, HELD_OUT, "Random seed of the split (default: 0).", kind="integer", rule=SEED
    )
    confidence: float = setting(
        0.95,
        OUTPUT,
        f"Confidence level of intervals and certificates, {CONFIDENCE.words} (default: 0.95).",
        kind="number",
        rule=CONFIDENCE,
    )
    progress: bool = False

    @property
    def level(self) -> Level:
        """The level of the quantile."""
        return Level.of(self.alpha)

    @classmethod
    def of(cls, **given: Any) -> RecalibrationPlan:
        """From what a user gave, None where nothing was said; all that is wrong is one error."""
        from eqrm.data.splits import conflicting_splits
        from eqrm.domains import DomainKey

        problems, said = Problems(), {n: v for n, v in given.items() if v not in (None, (), [])}
        missing = [name for name in ("domains", "target", "prediction") if name not in said]
        if missing:
            named = ", ".join(str(Setting(name)) for name in missing)
            problems.note(f"{named} must be given to fit a correction.")
        ways = ("test_domains", "test_share", "order", "test_after", "test_last")
        for conflict in conflicting_splits({name: said.get(name) for name in ways}):
            problems.note(conflict)
        if "seed" in said and {*ways[2:]} & {*said}:
            problems.note(f"{Setting('seed')} has no effect on a split in time: leave it out.")
        plan = cls(**checked_settings(cls, said, problems))
        with problems.noted():
            DomainKey.of(plan.domains)
        problems.refuse("The plan", alone=True)
        return plan
