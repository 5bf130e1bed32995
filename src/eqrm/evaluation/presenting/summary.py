"""What follows from an evaluation beyond the risk table, as sentences and as plain data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.certificates import Certificate
from eqrm.evaluation.inference.comparison import Difference
from eqrm.evaluation.inference.exchangeability import ExchangeabilityTest
from eqrm.evaluation.inference.gains import BesideReferences
from eqrm.evaluation.inference.in_time.ordered import TimeBound, TimeBounds
from eqrm.evaluation.inference.nested.findings import NestedFindings
from eqrm.evaluation.inference.noise import NoiseSplit
from eqrm.evaluation.inference.risk_checks import LevelLike, Refused, or_refused
from eqrm.evaluation.presenting.table_cells import Statistic, rounded_difference
from eqrm.level import Level
from eqrm.text import aligned, one_line


@dataclass(frozen=True)
class Summary:
    """Certificates, differences, noise and exchangeability of every model, computed once.

    ``references`` compares each model with the references, where there are any. ``nested`` has
    spread and certificates of groups and members, where domains are nested; ``certificates`` are
    then about a new member of a new group.
    Where there are too few domains for a certificate, it is replaced by a sentence that says so.
    ``in_time`` holds the bounds for domains in time that were asked for, by name.
    """

    alpha: Level
    certificates: dict[str, Certificate | Refused]
    differences: dict[str, list[Difference]]
    noise: dict[str, NoiseSplit | None]
    exchangeability: dict[str, list[ExchangeabilityTest]]
    baseline: str
    references: dict[str, BesideReferences] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    nested: dict[str, NestedFindings] = field(default_factory=dict)
    in_time: dict[str, dict[str, TimeBound]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "alpha": str(self.alpha),
            "baseline": self.baseline,
            "certificates": {name: each.to_dict() for name, each in self.certificates.items()},
            "in_time": {
                name: {way: bound.to_dict() for way, bound in bounds.items()}
                for name, bounds in self.in_time.items()
            },
            "differences": {n: [d.to_dict() for d in ds] for n, ds in self.differences.items()},
            "noise": {n: None if s is None else s.to_dict() for n, s in self.noise.items()},
            "exchangeability": {
                name: [test.to_dict() for test in tests]
                for name, tests in self.exchangeability.items()
            },
            "references": {name: found.to_dict() for name, found in self.references.items()},
            "notes": list(self.notes),
            **({"nested": {n: f.to_dict() for n, f in self.nested.items()}} if self.nested else {}),
        }

    def to_text(self) -> str:
        """A paragraph per model, then the differences between models."""
        parts = [f"{one_line(name)}\n{self._paragraph(name)}" for name in self.certificates]
        if self.differences:
            parts.append(self._comparison())
        parts += [f"Note: {note}" for note in self.notes]
        return "\n\n".join(parts)

    def _paragraph(self, name: str) -> str:
        certificate, split = self.certificates[name], self.noise[name]
        lines = [self.references[name].sentence] if name in self.references else []
        lines.append(str(certificate))
        lines += self.nested[name].sentences if name in self.nested else []
        lines += self.sentences_in_time(name)
        if split is not None:
            if name not in self.nested:  # there the spread per level has the share of noise
                lines.append(split.sentence)
            if split.warning:
                lines.append(f"Warning: {split.warning}")
        warnings = [test.warning for test in self.exchangeability[name] if test.warning]
        lines += [f"Warning: {warning}" for warning in warnings]
        return "\n".join(f"  {line}" for line in lines)

    def sentences_in_time(self, model: str) -> list[str]:
        """The bounds for domains in time as sentences."""
        return [f"In time ({way}): {b}" for way, b in self.in_time.get(model, {}).items()]

    def _comparison(self) -> str:
        """A line per statistic; a column per model."""
        header, *lines = [
            ["", *(part for name in self.differences for part in (one_line(name), ""))]
        ]
        for row in zip(*self.differences.values(), strict=True):
            if not all(each.refused for each in row):
                line = [Statistic.of(row[0]).label]
                for each in row:
                    value, low, high = rounded_difference(each)
                    line += [f"{value}{'!' if each.clear else ' '}", f"[{low}, {high}]"]
                lines.append(line)
        first = one_line(self.baseline)
        opening = f"Risk minus that of {first}, paired by domain (! if the interval excludes 0):"
        table = [opening, aligned([header, *lines])] if lines else []
        return "\n".join([*table, *self.refusals(), *self.shared_gains()])

    def refusals(self) -> Iterator[str]:
        """A sentence on the differences that there are too few domains for."""
        found = next(iter(self.differences.values()), [])
        few = [each for each in found if each.refused and each.domains < each.needed < math.inf]
        if few:
            told = ", ".join(f"{Statistic.of(d).label} ({d.needed:.6g} needed)" for d in few)
            yield f"{few[0].domains} domains are too few for differences of: {told}."

    def shared_gains(self) -> Iterator[str]:
        """A sentence per model whose lower quantile is no clear gain over the references."""
        for name in self.unclear_gains():
            best = self.references[name].rivals[0]
            yield (
                f"At level {self.alpha} the lower risk of {one_line(name)} is not a clear "
                f"gain: its quantile is {best.words} ({best.interval})."
            )

    def unclear_gains(self) -> list[str]:
        """Models with a lower quantile than the baseline, but no clear gain over references."""
        wanted = "quantile", self.alpha.alpha
        lower = {
            name
            for name, found in self.differences.items()
            if any(d.value < 0.0 and (d.statistic, d.level) == wanted for d in found)
        }
        return [n for n, found in self.references.items() if n in lower and not found.clear]


def summarised(
    evaluation: Evaluation,
    alpha: LevelLike = 0.9,
    confidence: float = 0.95,
    baseline: str | None = None,
    interpolation: str = "step",
    in_time: TimeBounds | None = None,
) -> Summary:
    """Compute certificates, differences, noise and exchangeability tests of an evaluation.

    ``interpolation`` is that of :meth:`eqrm.Evaluation.compare`, ``in_time`` says which bounds for
    domains in time to compute.
    """
    first = baseline or next(iter(evaluation.models))
    return Summary(
        alpha=Level.of(alpha),
        certificates={
            name: or_refused(evaluation.certificate, alpha, confidence, model=name)
            for name in evaluation.models
        },
        differences=evaluation.compare(
            baseline, confidence=confidence, interpolation=interpolation
        ),
        noise=evaluation.noise,
        exchangeability=evaluation.exchangeability,
        baseline=first,
        references=_beside_references(evaluation, Level.of(alpha), confidence, first),
        notes=() if evaluation.references is None else evaluation.references.notes,
        nested=evaluation.nested(alpha, confidence),
        in_time={
            name: evaluation.in_time(
                **vars(in_time), alpha=alpha, confidence=confidence, model=name
            )
            for name in (evaluation.models if in_time is not None and in_time.asked else ())
        },
    )


def _beside_references(
    evaluation: Evaluation, level: Level, confidence: float, baseline: str
) -> dict[str, BesideReferences]:
    """Each model beside constants, its own recalibration, and that of the baseline."""
    beside = evaluation.references
    if beside is None or not beside.risks:
        return {}
    source = beside.recalibrates
    return {
        name: BesideReferences.of(
            name,
            own.risks,
            {
                reference: risks.risks
                for reference, risks in beside.risks.items()
                if source.get(reference, name) in (name, baseline)
            },
            source,
            level,
            confidence,
        )
        for name, own in evaluation.models.items()
    }
