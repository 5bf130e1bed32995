"""``eqrm plan``: how many domains must be collected."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

from eqrm.checks import integer, optional
from eqrm.cli.commands import inner_level, option, say
from eqrm.cli.options import confidence_of

if TYPE_CHECKING:
    from eqrm.evaluation.inference.planning import DomainPlan


def plan(
    alpha: Annotated[str, option("Share of new domains that the bound must cover.")] = "0.9",
    confidence: Annotated[float, confidence_of("the bound")] = 0.95,
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
    models: Annotated[
        int, option("Number of models that the bound must hold for at once, at most 1,000,000.")
    ] = 1,
    verbose: Annotated[
        bool, option("Add a table of bounds, the paper's among them.", None, "--verbose")
    ] = False,
    as_json: Annotated[bool, option("Print JSON instead of text.", None, "--json")] = False,
) -> None:
    """Compute how many domains are needed to bound the risk of new domains."""
    from eqrm.evaluation.inference.planning import domain_plan

    optional(integer(2)).check(domains, "--domains")
    found = domain_plan(inner_level(alpha), confidence, slack=slack, domains=domains, models=models)
    if as_json:
        say(json.dumps(found.to_dict(), indent=2, ensure_ascii=False))
        return
    for line in filter(None, (found.sentence, found.in_hand, found.tighter)):
        say(line)
    say("This holds if new domains are drawn independently from the same distribution as these.")
    if verbose:
        _print_table(found)
        say(f"The paper's bound: {found.paper.sentence}")
    say(
        "Next: eqrm evaluate predictions.csv --domain DOMAIN --target TARGET --prediction "
        "PREDICTION on these domains, or eqrm train TABLE --target TARGET --domain DOMAIN "
        "--certify SHARE."
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
        table.add_row(row.statement, f"{row.domains:,}", row.bound)
    Console(highlight=False, markup=False).print(table)
