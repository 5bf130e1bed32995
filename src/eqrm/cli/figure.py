"""``eqrm figure``: the paper's pictures of a risk distribution, for any set of risks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eqrm.errors import DomainDataError

if TYPE_CHECKING:
    from torch import Tensor

TEN_RISKS = "0.22 0.27 0.30 0.34 0.36 0.41 0.47 0.52 0.63 0.80"

app = typer.Typer(help="Draw the paper's figures for your risks.", no_args_is_help=True)

Risks = Annotated[
    str,
    typer.Option(
        help="A risk per domain, separated by commas or spaces, or a text file that holds them."
    ),
]
Alpha = Annotated[str, typer.Option(help="The level to mark: 0.9, or 1-e^-50 deep in the tail.")]
Bandwidth = Annotated[str, typer.Option(help="The rule for the KDE's bandwidth, or a number.")]
Output = Annotated[Path, typer.Option(help="The file to write: .svg, .pdf or .png.")]


@app.command("risk-distribution")
def risk_distribution(
    risks: Risks = TEN_RISKS,
    alpha: Alpha = "0.9",
    bandwidth: Bandwidth = "silverman",
    output: Output = Path("risk-distribution.svg"),
) -> None:
    """Figure 1c: PDF and CDF of the risk of a new domain, with the α-quantile marked."""
    from eqrm.distributions.kernel import KDE
    from eqrm.evaluation.presenting import plots, risk_curves
    from eqrm.level import Level

    plots.figure_format(output)
    kde = KDE(read_risks(risks), bandwidth=_rule_or_number(bandwidth))
    curve = risk_curves.smooth_curve(kde, "KDE", risk_curves.shared_grid(kde), Level.parse(alpha))
    plots.save_figure(plots.draw_risk_distribution(curve), output)
    typer.echo(
        f"wrote {output}: with probability {alpha}, the risk is at most {curve.quantile:.4g}"
    )


@app.command("risk-cdf")
def risk_cdf(
    risks: Risks = TEN_RISKS,
    alpha: Alpha = "0.9",
    bandwidth: Bandwidth = "silverman",
    output: Output = Path("risk-cdf.svg"),
) -> None:
    """Figure 2: the KDE's CDF against the step CDF, which ends at the largest risk seen."""
    from eqrm.distributions.empirical import Empirical
    from eqrm.distributions.kernel import KDE
    from eqrm.evaluation.presenting import plots, risk_curves
    from eqrm.level import Level

    plots.figure_format(output)
    values = read_risks(risks)
    kde = KDE(values, bandwidth=_rule_or_number(bandwidth))
    grid = risk_curves.shared_grid(kde)
    smooth = risk_curves.smooth_curve(kde, "KDE-smoothed", grid, Level.parse(alpha))
    steps = risk_curves.step_curve(Empirical(values), "empirical", grid)
    plots.save_figure(plots.draw_risk_cdf(smooth, steps), output)
    typer.echo(
        f"wrote {output}: the largest risk seen is {float(values.max()):.4g}, "
        f"the KDE's {alpha}-quantile is {smooth.quantile:.4g}"
    )


def read_risks(text: str) -> Tensor:
    """Read risks from a list of numbers or from a file of them: shape (m,), float64.

    >>> read_risks("0.1, 0.2 0.4").tolist()
    [0.1, 0.2, 0.4]
    """
    import torch

    words = text.replace(",", " ").split()
    if not _are_numbers(words) and Path(text).is_file():
        try:
            words = Path(text).read_text(encoding="utf-8").replace(",", " ").split()
        except UnicodeDecodeError:
            raise DomainDataError(f"{text} is not a text file of numbers.") from None
    if not words or not _are_numbers(words):
        wrong = next((word for word in words if not _are_numbers([word])), text)
        raise DomainDataError(
            f"Risks are numbers separated by commas or spaces, or a file of them, "
            f"but {wrong!r} is neither."
        )
    risks = torch.tensor([float(word) for word in words], dtype=torch.float64)
    if bool(risks.isfinite().all()) and not bool((risks.max() - risks.min()) < 1e300):
        raise DomainDataError("The risks lie too far apart to be drawn.")
    return risks


def _are_numbers(words: list[str]) -> bool:
    try:
        [float(word) for word in words]
    except ValueError:
        return False
    return bool(words)


def _rule_or_number(bandwidth: str) -> str | float:
    return float(bandwidth) if _are_numbers([bandwidth]) else bandwidth
