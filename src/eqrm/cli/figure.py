"""``eqrm figure``: the paper's figures of a risk distribution, for any set of risks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eqrm.cli.options import option
from eqrm.errors import DomainDataError

if TYPE_CHECKING:
    from torch import Tensor

    from eqrm.evaluation.presenting.risk_curves import RiskCurve

TEN_RISKS = "0.22 0.27 0.30 0.34 0.36 0.41 0.47 0.52 0.63 0.80"

app = typer.Typer(help="Draw the paper's figures for your own risks.", no_args_is_help=True)

Risks = Annotated[
    str, option("Risks of the domains, separated by commas or spaces, or a text file of them.")
]
Alpha = Annotated[str, option("Level to mark, such as 0.9, or 1-e^-50 far in the tail.")]
Bandwidth = Annotated[
    str, option("Bandwidth of the KDE: a rule (docs/bandwidths.md) or a number above 0.")
]
Output = Annotated[Path, option("File to write: .svg, .pdf or .png.")]


@app.command("risk-distribution")
def risk_distribution(
    risks: Risks = TEN_RISKS,
    alpha: Alpha = "0.9",
    bandwidth: Bandwidth = "silverman",
    output: Output = Path("risk-distribution.svg"),
) -> None:
    """Draw Figure 1c: PDF and CDF of the risk of a new domain, with the α-quantile marked."""
    from eqrm.evaluation.presenting import plots

    plots.figure_format(output)
    curve = _smoothed(read_risks(risks), alpha, bandwidth)
    plots.save_figure(plots.draw_risk_distribution(curve), output)
    typer.echo(
        f"Wrote {output}. With probability {alpha}, the risk is at most {curve.quantile:.4g}."
    )


@app.command("risk-cdf")
def risk_cdf(
    risks: Risks = TEN_RISKS,
    alpha: Alpha = "0.9",
    bandwidth: Bandwidth = "silverman",
    output: Output = Path("risk-cdf.svg"),
) -> None:
    """Draw Figure 2: the CDF of the KDE and the empirical CDF, which ends at the largest risk."""
    from eqrm.distributions.empirical import Empirical
    from eqrm.evaluation.presenting import plots
    from eqrm.evaluation.presenting.risk_curves import step_curve

    plots.figure_format(output)
    values = read_risks(risks)
    smooth = _smoothed(values, alpha, bandwidth)
    steps = step_curve(Empirical(values), "empirical", smooth.grid)
    plots.save_figure(plots.draw_risk_cdf(smooth, steps), output)
    typer.echo(
        f"Wrote {output}. The largest measured risk is {float(values.max()):.4g}, the "
        f"{alpha}-quantile of the KDE is {smooth.quantile:.4g}."
    )


def _smoothed(risks: Tensor, alpha: str, bandwidth: str) -> RiskCurve:
    from eqrm.distributions.kernel import KDE
    from eqrm.evaluation.presenting.risk_curves import shared_grid, smooth_curve
    from eqrm.level import Level

    kde = KDE(risks, bandwidth=float(bandwidth) if _are_numbers([bandwidth]) else bandwidth)
    return smooth_curve(kde, "KDE-smoothed", shared_grid(kde), Level.parse(alpha))


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
            "--risks must be numbers separated by commas or spaces, or a file of them, got "
            f"{wrong!r}."
        )
    risks = torch.tensor([float(word) for word in words], dtype=torch.float64)
    if bool(risks.isfinite().all()) and not bool((risks.max() - risks.min()) < 1e300):
        raise DomainDataError("The risks are too far apart to be drawn.")
    return risks


def _are_numbers(words: list[str]) -> bool:
    try:
        [float(word) for word in words]
    except ValueError:
        return False
    return bool(words)
