"""Who keeps most, how often requirements are met, and what sets of pooled rows give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eqrm.text import counted
from studies.outcome import Cell, Check, ResultTable, percent
from studies.requirements import settings as asked
from studies.requirements.conformal import FORMULA
from studies.requirements.experiment import Judged
from studies.requirements.settings import ALPHA, CHOSEN, COVERAGE, EQRM, ERM, MODELS, WORLDS
from studies.requirements.splits import Array
from studies.split_interval import SplitInterval

SOURCE = "the promise of eqrm.control"
ALL = (*MODELS, CHOSEN)


@dataclass(frozen=True)
class Findings:
    """Everything that was judged."""

    every: Sequence[Judged]

    @property
    def cells(self) -> list[tuple[str, str]]:
        """Sources with their requirements, in order."""
        return list(dict.fromkeys((each.source, each.require) for each in self.every))

    def values(
        self, what: str, source: str, require: str, model: str, pooled: bool = False
    ) -> Array:
        """A number of each split (S,)."""
        wanted = source, require, model
        own = [e for e in self.every if (e.source, e.require, e.model) == wanted]
        return np.array([getattr(e, what) for e in own if bool(e.how) == pooled])

    def interval(self, values: Array, source: str) -> SplitInterval:
        """Of the mean over splits; seeds of worlds are independent of each other."""
        return SplitInterval.of(values, 0.0 if source in WORLDS else asked.TEST_TO_TRAIN)

    def against(self, source: str, require: str, model: str, other: str) -> SplitInterval:
        """What a model keeps minus what another one keeps, paired by split."""
        one, two = (self.values("kept", source, require, name) for name in (model, other))
        return self.interval(one - two, source)

    def winners(self, source: str, require: str) -> list[str]:
        """The model that keeps most, and those that differ from it by no more than chance."""
        sign = -1.0 if require == COVERAGE else 1.0
        kept = {n: sign * float(self.values("kept", source, require, n).mean()) for n in MODELS}
        kept = {name: value for name, value in kept.items() if not math.isnan(value)}
        if not kept or max(kept.values()) == 0.0:
            return []
        best = max(kept, key=kept.__getitem__)
        others = [name for name in kept if name != best]
        return [best] + [
            name for name in others if self.against(source, require, name, best).word == "tie"
        ]

    def keeps_most(self, source: str, require: str) -> str:
        """The same in words."""
        names = self.winners(source, require)
        return f"a tie of {', '.join(names)}" if len(names) > 1 else "".join(names) or "none"


def kept_table(found: Findings) -> ResultTable:
    """What every model keeps, and who keeps most."""
    rows: list[list[Cell]] = []
    for cell in found.cells:
        means = [float(found.values("kept", *cell, name).mean()) for name in ALL]
        texts = [f"{kept:.3g}" if cell[1] == COVERAGE else percent(kept) for kept in means]
        rows.append([*cell, *texts, found.keeps_most(*cell)])
    columns = ["domains", "required of 9 in 10", *ALL, "keeps most"]
    title = "Kept on new domains: share of rows answered, classes per set or width (mean of splits)"
    return ResultTable("kept", title, columns, rows, leading=True)


def differences_table(found: Findings) -> ResultTable:
    """Against ERM."""
    others = [name for name in MODELS if name != ERM]
    rows: list[list[Cell]] = []
    for cell in found.cells:
        pairs = [found.against(*cell, name, ERM) for name in others]
        shares = [f"{each.mean:+.3f} ± {each.half:.3f}" for each in pairs]
        rows.append([*cell, *(shares if cell[1] == COVERAGE else map(str, pairs))])
    title = "Kept, against ERM: the mean over splits, with ± of 95%"
    return ResultTable("differences", title, ["domains", "required", *others], rows)


def met_table(found: Findings) -> ResultTable:
    """How many new domains meet the requirement, and in how many splits 9 in 10 did."""
    rows: list[list[Cell]] = []
    for cell in found.cells:
        row: list[Cell] = [*cell]
        for name in ALL:
            met, excused = (found.values(what, *cell, name) for what in ("met", "excused"))
            held = f"{percent(float(met.mean()))} ({(met >= ALPHA).sum()} of {len(met)})"
            few = f", {percent(float(excused.mean()))} excused" if "among" in cell[1] else ""
            row.append(held + few)
        rows.append(row)
    title = "New domains that meet the requirement (splits in which at least 90% of them do)"
    return ResultTable("met", title, ["domains", "required", *ALL], rows)


def conformal_table(found: Findings) -> ResultTable:
    """Coverage of rows and of domains, by rows drawn alike and by domains."""
    how = {(each.source, each.model): each.how for each in reversed(found.every) if each.how}
    rows: list[list[Cell]] = []
    for source in dict.fromkeys(each.source for each in found.every):
        for name in [name for name in MODELS if (source, name) in how]:
            for pooled, way in ((True, f"rows ({how[source, name]})"), (False, "domains (ours)")):
                covered, met, kept = (
                    float(found.values(what, source, COVERAGE, name, pooled).mean())
                    for what in ("covered", "met", "kept")
                )
                rows.append([source, name, way, percent(covered), percent(met), f"{kept:.3g}"])
    columns = ["domains", "model", "calibrated by", "rows covered"]
    columns += ["new domains with at least 90%", "classes per set or width"]
    title = "Sets and intervals for 90%: rows taken as drawn alike, beside 9 in 10 new domains"
    return ResultTable("conformal", title, columns, rows, leading=True)


def checks_of(found: Findings) -> list[Check]:
    """The guarantee, the prototype's finding, and that packages and formula agree."""
    points = [(*cell, name) for cell in found.cells for name in ALL]
    of_worlds = [found.values("met", *each) for each in points if each[0] in WORLDS]
    held, seeds = float(np.mean(np.array(of_worlds) >= ALPHA)), len(of_worlds[0])
    confidence = asked.CONFIDENCE
    needed = confidence - 2.0 * math.sqrt(confidence * (1.0 - confidence) / seeds)
    met = {
        each: found.interval(found.values("met", *each), each[0])
        for each in points
        if each[0] not in WORLDS
    }
    worst = min(met, key=lambda each: met[each].mean)
    least = f"{percent(met[worst].mean)} ± {100.0 * met[worst].half:.1f} ({', '.join(worst)})"
    gains = {name: found.against(name, asked.AMONG, EQRM, ERM) for name in WORLDS}
    least_gain = min(gains, key=lambda name: gains[name].mean)
    checks = [
        Check(
            "worlds: points at which 90% of fresh domains meet the requirement",
            held >= needed,
            f"{percent(held)} of {len(of_worlds) * seeds}",
            f"95%, less two standard errors of {seeds} seeds ({percent(needed)})",
            SOURCE,
        ),
        Check(
            "tables: mean share of new domains that meet the requirement, at worst",
            all(not each.mean + each.half < ALPHA for each in met.values()),
            least,
            "at least 90%, within its interval",
            SOURCE,
        ),
        Check(
            f"{asked.AMONG}: EQRM answers more than ERM in every world",
            gains[least_gain].mean > 0.0,
            f"{gains[least_gain]} ({least_gain})",
            "above 0",
            "a prototype (65% against 3.4%, slopes of its own)",
        ),
    ]
    pooled = [each for each in found.every if each.how]
    if pooled[0].how != FORMULA:
        claim = f"{pooled[0].how}: coverage and mean sizes are those of the formula"
        apart = max(each.apart for each in pooled)
        texts = f"at most {apart:.1g} apart", "below 1e-6", "split conformal prediction"
        checks.append(Check(claim, apart < 1e-6, *texts))
    return checks


def answer_of(found: Findings) -> str:
    """Who keeps most, how often."""
    told = []
    for what, inside in (("Simulated worlds", True), ("Real tables", False)):
        best = [found.winners(*cell) for cell in found.cells if (cell[0] in WORLDS) == inside]
        parts = [
            f"{name} {sum(own == [name] for own in best)} alone and "
            f"{sum(name in own and len(own) > 1 for own in best)} tied"
            for name in MODELS
        ]
        told.append(f"{what}, {counted(len(best), 'requirement')}: {'; '.join(parts)}.")
    return "Who keeps most. " + " ".join(told)
