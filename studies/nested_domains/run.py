"""The reproduction ``nested-domains``: the class, its checks, its tables and its remarks."""

from __future__ import annotations

import math
from dataclasses import asdict

from eqrm.evaluation import outer_domains_needed
from studies.base import Study
from studies.nested_domains import settings as promised
from studies.nested_domains.coverage import (
    NestedCovered,
    NestedWorlds,
    asked_for,
    known_coverage,
    nested_coverage,
    tightness,
)
from studies.nested_domains.worlds import BAD_GROUPS, SIZES
from studies.outcome import Cell, Check, Outcome, Progress, ResultTable, percent


class NestedDomains(Study):
    """Simulations behind the certificates for members of groups."""

    name = "nested-domains"
    title = "Nested domains: how often bounds for new members of groups hold"
    reproduces = (
        "The promises of this package for domains inside groups, such as wards of hospitals, in "
        "simulated worlds with a known truth"
    )
    sources = (
        "Subsampling one member per group: Distribution-free prediction sets for two-layer "
        "hierarchical models (Dunn, Wasserman & Ramdas 2023)",
        "The mean of e-values is an e-value: E-values: calibration, combination and applications "
        "(Vovk & Wang 2021)",
        "Twice the mean of p-values is a p-value (Rüschendorf 1982; Vovk & Wang 2020)",
        "The pooled form: confidence intervals for proportions with small expected number of "
        "positive counts estimated from survey data (Korn & Graubard 1998)",
    )

    def compute(self, size: str, seed: int, progress: Progress) -> Outcome:
        """Simulate every world and count."""
        settings = promised.RUNS[size]
        found = simulated(settings, seed, progress)
        levels = {
            "confidence": promised.CONFIDENCE,
            "groups": "10 to 200",
            "members per group": "1 to 50",
        }
        return Outcome(
            settings=asdict(settings) | levels | {"seed": seed},
            checks=checks_of(found, settings.worlds),
            tables=[coverage_table(found), laws_table(found), known_table(found), _tight(found)],
            pictures=[],
            remarks=_remarks(),
        )


def simulated(settings: promised.NestedSettings, seed: int, progress: Progress) -> NestedWorlds:
    """Every case, each with seeds of its own."""
    tried = list(promised.cases())
    covered: list[NestedCovered] = []
    for number, case in enumerate(tried):
        progress(0.95 * number / len(tried), f"{case.groups} groups, {case.world.sizes}")
        covered += nested_coverage(case, settings.worlds, seed)
    progress(0.95, "known groups and tightness")
    pairs = [(m, c) for m in promised.KNOWN_MEMBERS for c in promised.CORRELATIONS]
    sizes = [(groups, c) for groups in (50, 200) for c in promised.CORRELATIONS]
    return NestedWorlds(
        needed={
            name: outer_domains_needed(promised.COMPARED, promised.CONFIDENCE, name)
            for name in promised.NEEDED
        },
        asked={name: asked_for(least - 1, name) for name, least in promised.NEEDED.items()},
        covered=covered,
        known=[known_coverage(m, c, settings.worlds, seed) for m, c in pairs],
        tightness=[tightness(m, c, settings.compared, seed) for m, c in sizes],
    )


def checks_of(found: NestedWorlds, worlds: int) -> list[Check]:
    """What the simulations must show, up to 4 standard errors: there are many cases."""
    error = 4.0 * math.sqrt(promised.CONFIDENCE * (1.0 - promised.CONFIDENCE) / worlds)
    once = min(found.covered, key=lambda each: each.once)
    repeated = min(found.covered, key=lambda each: each.repeated)
    known = min(found.known, key=lambda each: each.held)
    stated = f"{100 * promised.CONFIDENCE:g}% less the error of the simulation"
    checks = [
        Check(
            "groups needed at α = 0.9 and 95%: one draw, all draws",
            found.needed == found.asked == promised.NEEDED,
            ", ".join(map(str, found.needed.values())),
            f"{', '.join(map(str, promised.NEEDED.values()))}, and one fewer refused",
            "new groups",
        )
    ]
    for what, worst, held in (
        ("one draw", once, once.once),
        ("all draws", repeated, repeated.repeated),
    ):
        checks.append(
            Check(
                f"bounds for a new member of a new group hold as often as stated: {what}",
                held >= promised.CONFIDENCE - error,
                f"in {percent(held)} of worlds at worst ({_place(worst)})",
                stated,
                "new groups",
            )
        )
    given = [e for e in found.covered if e.pooled is not None and e.law != BAD_GROUPS]
    worst = min(given, key=lambda each: each.pooled or 0.0)
    slack = error if worlds < 1000 else 0.0
    checks += [
        Check(
            f"the pooled form with at least {promised.FEWEST_POOLED} groups holds nearly as often, "
            f"unless {BAD_GROUPS}",
            (worst.pooled or 0.0) >= promised.POOLED_COVERAGE - slack,
            f"in {percent(worst.pooled)} of worlds at worst ({_place(worst)})",
            f"{100 * promised.POOLED_COVERAGE:g}%",
            "pooled, approximate",
        ),
        Check(
            "bounds for a new member of a known group hold as often as stated",
            known.held >= promised.CONFIDENCE - error,
            f"in {percent(known.held)} of worlds at worst ({known.members} members, intraclass "
            f"correlation {known.correlation:g})",
            stated,
            "known groups",
        ),
    ]
    return checks


def _place(each: NestedCovered) -> str:
    return (
        f"{each.groups} groups, {each.sizes}, intraclass correlation {each.correlation:g}, level "
        f"{each.alpha:g}, {each.law}"
    )


BOUNDS = ["one draw", "all draws", "pooled", "pooled refused", "plain, all members"]


def coverage_table(found: NestedWorlds) -> ResultTable:
    """A row per number of groups, level and kind of sizes; the worst of three correlations."""
    rows: list[list[Cell]] = []
    keys = dict.fromkeys((e.groups, e.alpha, e.sizes) for e in found.covered)
    for key in keys:
        same = [e for e in found.covered if (e.groups, e.alpha, e.sizes) == key]
        rows.append([str(key[0]), f"{key[1]:g}", key[2], *_worst(same)])
    columns = ["groups", "level", "members per group", *BOUNDS]
    title = "How often bounds at 95% hold, at worst over intraclass correlations and laws"
    return ResultTable("coverage", title, columns, rows, leading=True)


def laws_table(found: NestedWorlds) -> ResultTable:
    """A row per law; the worst of all other settings."""
    rows: list[list[Cell]] = []
    for law in dict.fromkeys(each.law for each in found.covered):
        rows.append([law, *_worst([each for each in found.covered if each.law == law])])
    title = "The same by law of the risk, at worst over everything else"
    return ResultTable("laws", title, ["law", *BOUNDS], rows)


def _worst(same: list[NestedCovered]) -> list[Cell]:
    pooled = [each.pooled for each in same if each.pooled is not None]
    refused = [each.refused for each in same if each.refused is not None]
    return [
        percent(min(each.once for each in same)),
        percent(min(each.repeated for each in same)),
        percent(min(pooled, default=None)),
        percent(max(refused, default=None)),
        percent(min(each.plain for each in same)),
    ]


def known_table(found: NestedWorlds) -> ResultTable:
    """A row per number of members, a column per correlation."""
    rows: list[list[Cell]] = [
        [str(m), *(percent(each.held) for each in found.known if each.members == m)]
        for m in dict.fromkeys(each.members for each in found.known)
    ]
    columns = ["members", *(f"correlation {c:g}" for c in promised.CORRELATIONS)]
    return ResultTable("known", "A new member of a known group: how often it holds", columns, rows)


def _tight(found: NestedWorlds) -> ResultTable:
    rows: list[list[Cell]] = [
        [
            str(each.groups),
            f"{each.correlation:g}",
            *(
                f"{low:.3f} to {high:.3f}"
                for low, high in (each.once, each.repeated, each.twice, each.pooled)
            ),
        ]
        for each in found.tightness
    ]
    title = (
        "How tight bounds of the 0.9-quantile are: the level that they reach, middle half of "
        "worlds (1 to 50 members)"
    )
    names = ["one draw", "all draws, e-values", "all draws, twice the mean p-value", "pooled"]
    return ResultTable("tightness", title, ["groups", "intraclass correlation", *names], rows)


def _remarks() -> list[str]:
    related = [name for name in SIZES if name.startswith("high risk")]
    return [
        "The plain certificate takes members for independent and lets every member count the same: "
        f"where sizes depend on the risk ({', '.join(related)}) it bounds another quantile, and "
        "where members of a group resemble each other it is too sure.",
        "One draw depends on its seed: other draws give other bounds, each of which holds with the "
        "stated confidence. All draws together do not depend on chance.",
        f"Where {BAD_GROUPS}, few groups may hold none of the bad ones. The certificates take that "
        "into account; the pooled form estimates how much groups differ and cannot: nothing is "
        "promised for it there.",
        "The mean of e-values gives tighter bounds than twice the mean of p-values, unless members "
        "of a group are nearly equal.",
    ]
