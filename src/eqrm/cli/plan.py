"""``eqrm plan``: how many domains must be collected."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from eqrm.checks import CONFIDENCE, integer, optional
from eqrm.cli.commands import inner_level, option, say

if TYPE_CHECKING:
    from eqrm.evaluation.inference.planning import DomainPlan

PAPER = "Constants of the paper's bound (Theorem D.1)"


def plan(
    alpha: Annotated[str, option("Share of new domains that the bound must cover.")] = "0.9",
    confidence: Annotated[
        float, option(f"Confidence level of the bound, {CONFIDENCE.words}.")
    ] = 0.95,
    domains: Annotated[
        int | None, option("Number of domains available: also print what they can bound.")
    ] = None,
    slack: Annotated[
        float | None,
        option(
            "How far above --alpha the bounding quantile may be, from (1 - alpha)/1000 to "
            "1 - alpha (default: (1 - alpha)/2)."
        ),
    ] = None,
    predictors: Annotated[
        int, option("Number of predictors that the bound must hold for at once, at most 1,000,000.")
    ] = 1,
    covering_number: Annotated[
        float | None,
        option("Covering number of the class of predictors (default: --predictors).", PAPER),
    ] = None,
    lipschitz: Annotated[
        float,
        option("Lipschitz constant of the estimate: 1 for the empirical CDF and a KDE.", PAPER),
    ] = 1.0,
    bandwidth: Annotated[
        float | None, option("Bandwidth of a Gaussian KDE, to include its bias.", PAPER)
    ] = None,
    holder_constant: Annotated[
        float, option("With --bandwidth: Hölder constant of the true CDF of risk.", PAPER)
    ] = 1.0,
    holder_exponent: Annotated[
        float, option("With --bandwidth: Hölder exponent of the true CDF, at most 2.", PAPER)
    ] = 1.0,
    verbose: Annotated[
        bool, option("Add a table of bounds, the paper's among them.", None, "--verbose")
    ] = False,
    as_json: Annotated[bool, option("Print JSON instead of text.", None, "--json")] = False,
) -> None:
    """Compute how many domains are needed to bound the risk of new domains."""
    from eqrm.evaluation.inference.planning import domain_plan, smoothing_bias

    optional(integer(2)).check(domains, "--domains")
    paper: dict[str, Any] = {"covering_number": covering_number, "lipschitz": lipschitz}
    if bandwidth is not None:
        paper["bias"] = smoothing_bias(bandwidth, holder_constant, holder_exponent)
    asked: dict[str, Any] = {"slack": slack, "domains": domains, "predictors": predictors}
    found = domain_plan(inner_level(alpha), confidence, **asked, **paper)
    if as_json:
        say(json.dumps(found.to_dict(), indent=2, ensure_ascii=False))
        return
    for line in filter(None, (found.sentence, found.in_hand, found.tighter)):
        say(line)
    say("This holds if new domains are drawn independently from the same distribution as these.")
    if verbose:
        _print_table(found)
    if verbose or covering_number or bandwidth or lipschitz != 1.0:
        say(f"The paper's bound: {found.paper.sentence}")
    say(
        "Next: eqrm evaluate predictions.csv --domain DOMAIN --label LABEL --prediction PREDICTION "
        "on these domains, or eqrm train TABLE --target TARGET --domain DOMAIN --certify SHARE."
    )


def _print_table(found: DomainPlan) -> None:
    from rich.console import Console
    from rich.table import Table

    from eqrm.evaluation.rounding import as_percent

    table = Table(title=f"Domains needed at {as_percent(found.confidence)} confidence")
    table.add_column("to bound")
    table.add_column("domains", justify="right")
    table.add_column("the bound is")
    for row in found.rows:
        number = "not possible" if row.domains is None else f"{row.domains:,}"
        table.add_row(row.statement, number, row.bound)
    Console(highlight=False, markup=False).print(table)
