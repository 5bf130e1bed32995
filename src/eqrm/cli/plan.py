"""``eqrm plan``: how many domains must be collected."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from eqrm.errors import SettingError

if TYPE_CHECKING:
    from eqrm.evaluation.inference.planning import DomainPlan


def plan(
    alpha: Annotated[str, typer.Option(help="The share of new domains to speak for.")] = "0.9",
    confidence: Annotated[float, typer.Option(help="How sure the statement must be.")] = 0.95,
    domains: Annotated[
        int | None, typer.Option(help="Domains in hand: also say what so many can carry.")
    ] = None,
    slack: Annotated[
        float | None,
        typer.Option(help="How far above alpha the bound may read; (1 - alpha)/2 by default."),
    ] = None,
    predictors: Annotated[
        int, typer.Option(help="How many predictors the statement must hold for at once.")
    ] = 1,
    covering_number: Annotated[
        float | None,
        typer.Option(help="Of the paper's bound; the number of predictors by default."),
    ] = None,
    lipschitz: Annotated[
        float, typer.Option(help="The paper's L: 1 for the empirical CDF and for a KDE.")
    ] = 1.0,
    bandwidth: Annotated[
        float | None, typer.Option(help="Of a Gaussian KDE, for its bias in the paper's bound.")
    ] = None,
    holder_constant: Annotated[
        float, typer.Option(help="Of the true CDF of risk; with --bandwidth.")
    ] = 1.0,
    holder_exponent: Annotated[
        float, typer.Option(help="Of the true CDF of risk, up to 2; with --bandwidth.")
    ] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Say how many held-out domains it takes to certify a level of risk."""
    from eqrm.evaluation.inference.paper_bound import smoothing_bias
    from eqrm.evaluation.inference.planning import domain_plan

    if domains is not None and domains < 2:
        raise SettingError(f"--domains must be at least 2, but it is {domains}.")
    bias = 0.0
    if bandwidth is not None:
        bias = smoothing_bias(bandwidth, holder_constant, holder_exponent)
    found = domain_plan(
        alpha,
        confidence,
        slack=slack,
        domains=domains,
        predictors=predictors,
        covering_number=covering_number,
        lipschitz=lipschitz,
        bias=bias,
    )
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2, ensure_ascii=False))
    else:
        _print_table(found)


def _print_table(found: DomainPlan) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(found.sentence, markup=False, highlight=False)
    table = Table(title=f"Domains needed at {100 * found.confidence:.6g}% confidence")
    table.add_column("to bound")
    table.add_column("domains", justify="right")
    table.add_column("the bound is")
    for row in found.rows:
        number = "none suffices" if row.domains is None else f"{row.domains:,}"
        table.add_row(row.statement, number, row.bound)
    console.print(table)
    for line in (found.in_hand, found.paper.sentence):
        if line is not None:
            console.print(line, markup=False, highlight=False)
    console.print(
        "All of it assumes that new domains are drawn like those collected, and that these were "
        "kept out of training and of choosing the predictor.",
        markup=False,
        highlight=False,
    )
