"""``eqrm figure``: the paper's figures of a risk distribution, for any set of risks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from eqrm.checks import one_of
from eqrm.cli.commands import inner_level, option, say
from eqrm.errors import DomainDataError
from eqrm.text import is_numeral

TEN_RISKS = "0.22 0.27 0.30 0.34 0.36 0.41 0.47 0.52 0.63 0.80"
KINDS = ("risk-distribution", "risk-cdf")


def figure(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="FIGURE",
            help="risk-distribution (Figure 1c): PDF and CDF of the risk of a new domain. risk-cdf "
            "(Figure 2): the CDF of the KDE and the empirical CDF, which ends at the largest risk.",
        ),
    ],
    risks: Annotated[
        str, option("Risks of the domains, separated by commas or spaces, or a text file of them.")
    ] = TEN_RISKS,
    alpha: Annotated[
        str, option("Level to mark, such as 0.9, or 1-e^-50 far in the tail.")
    ] = "0.9",
    bandwidth: Annotated[
        str, option("Bandwidth of the KDE: a rule (docs/bandwidths.md) or a number above 0.")
    ] = "silverman",
    output: Annotated[
        Path | None, option("File to write: .svg, .pdf or .png (default: FIGURE.svg).")
    ] = None,
) -> None:
    """Draw a figure of the paper for your own risks, with the α-quantile marked."""
    from eqrm.distributions.kernel import KDE
    from eqrm.evaluation.presenting import plots

    level = inner_level(alpha)
    output = output or Path(f"{one_of(kind, KINDS, 'figure')}.svg")
    plots.figure_format(output)
    values = read_risks(risks)
    kde = KDE(values, bandwidth=float(bandwidth) if is_numeral(bandwidth) else bandwidth)
    draw = plots.draw_risk_cdf if kind == "risk-cdf" else plots.draw_risk_distribution
    plots.save_figure(draw(kde, level), output)
    say(
        f"Wrote {output}. The largest of {len(values)} measured risks is "
        f"{max(values):.4g}. The kernel density estimate puts the {level}-quantile of the "
        f"risk of a new domain at {float(kde.quantile(level)):.4g}: an estimate, not a bound "
        "(eqrm plan says how many domains a bound takes)."
    )


def read_risks(text: str) -> list[float]:
    """Read risks from a list of numbers or from a file of them."""
    words = text.replace(",", " ").split()
    if not all(map(is_numeral, words)) and Path(text).is_file():
        try:
            words = Path(text).read_text(encoding="utf-8").replace(",", " ").split()
        except UnicodeDecodeError:
            raise DomainDataError(f"{text} is not a text file of numbers.") from None
    wrong = next((word for word in words if not is_numeral(word)), None)
    if wrong is not None or not words:
        raise DomainDataError(
            "--risks must be numbers separated by commas or spaces, or a file of them, got "
            f"{wrong or text!r}."
        )
    risks = [float(word) for word in words]
    if all(map(math.isfinite, risks)) and not max(risks) / 2.0 - min(risks) / 2.0 < 0.5e300:
        raise DomainDataError("The risks differ by too many orders of magnitude to be drawn.")
    return risks
