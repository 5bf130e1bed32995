"""Draw the pictures of README.md and docs/concepts.md, from the coloured digits.

    python scripts/draw_concepts.py [--output docs/images]

All show the 30 held-out sources of ``eqrm train coloured-digits``: the risks of ERM, of ERM
recalibrated for 0.9 and of the predictor trained for 0.9; what each measure says of ERM's risks;
and what becomes of them when ERM is made less and less sure.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from eqrm import Empirical, Level, domain_risks
from eqrm.data import Table, coloured_digits
from eqrm.evaluation.inference.resampling import smooth_quantile
from eqrm.evaluation.presenting.plots import ACCENT, INK, QUIET, new_figure, save_figure, shades
from eqrm.evaluation.presenting.risk_curves import step_curves
from eqrm.tabular.plan import TrainingPlan
from eqrm.tabular.training import TableTraining, train_on_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = ("ERM", "ERM recalibrated for 0.9", "α = 0.9")
LEVEL, EVEN = Level(0.9), float(np.log(2.0))


def draw_risks(training: TableTraining) -> Figure:
    """The share of unseen sources below each risk; where a curve crosses 0.9 is its quantile.

    Quantiles are those that ``eqrm train`` prints: Harrell–Davis estimates.
    """
    figure = new_figure(width=6.8, height=3.6)
    axes = figure.subplots()
    curves = {curve.label: curve for curve in step_curves(training.evaluation.predictors)}
    styles = zip(SHOWN, ((INK, "--"), (shades(3)[0], "-"), (shades(3)[2], "-")), strict=True)
    for name, (colour, dashes) in styles:
        quantile = smooth_quantile(training.evaluation[name].risks, LEVEL)
        label = f"{name.replace('α = 0.9', 'trained for 0.9')}: {quantile:.3f}"
        axes.plot(curves[name].grid, curves[name].cdf, dashes, color=colour, label=label)
        axes.plot(quantile, LEVEL.alpha, "o", color=colour, markersize=5)
    axes.axhline(LEVEL.alpha, color=ACCENT, linewidth=0.8, linestyle=":")
    axes.axvline(EVEN, color=QUIET, linewidth=0.8)
    axes.annotate(
        "equal odds: ln 2", (EVEN, 0.6), xytext=(5, 0), textcoords="offset points", color=QUIET
    )
    axes.set_xlim(0.05, 0.95)
    axes.set_xlabel("risk of a source that no predictor has seen (log-loss)")
    axes.set_ylabel("share of sources below")
    axes.legend(title="0.9-quantile of risk", loc="lower right", framealpha=1.0, edgecolor="white")
    return figure


def draw_measures(training: TableTraining) -> Figure:
    """Mean, quantile, superquantile and worst of the same risks."""
    risks = torch.as_tensor(np.sort(training.evaluation["ERM"].risks))
    law = Empirical(risks)
    measures = {
        "mean": risks.mean().item(),
        "quantile (0.9)": smooth_quantile(risks.numpy(), LEVEL),
        "superquantile (0.9)": law.superquantile(LEVEL).item(),
        "worst": risks.max().item(),
    }
    figure = new_figure(width=6.8, height=2.6)
    axes = figure.subplots()
    axes.hist(risks.numpy(), bins=18, color=QUIET, alpha=0.5)
    axes.plot(risks, [0.0] * len(risks), "|", color=INK, markersize=10, clip_on=False)
    for colour, (name, value) in zip((INK, *shades(3)), measures.items(), strict=True):
        axes.axvline(value, color=colour, label=f"{name}: {value:.3f}")
    axes.set_xlabel("risk of ERM on an unseen source (log-loss)")
    axes.set_ylabel("sources")
    figure.legend(frameon=False, loc="outside right upper")
    return figure


def draw_less_sure(training: TableTraining, test: Table) -> Figure:
    """Mean and quantile of ERM's risks as its log-odds are multiplied by a factor below 1."""
    probability = training.models["ERM"].predict(test.columns)["p_1"]
    odds = torch.as_tensor(np.log(probability / (1.0 - probability)))
    label = torch.as_tensor(test.target)
    factors = np.linspace(0.0, 1.0, 101)
    means, quantiles = [], []
    for factor in factors:
        losses = torch.nn.functional.softplus((1.0 - 2.0 * label) * factor * odds)
        risks = domain_risks(losses, test.domains.tolist()).values
        means.append(risks.mean().item())
        quantiles.append(smooth_quantile(risks.numpy(), LEVEL))
    lowest = int(np.argmin(quantiles))
    figure = new_figure(width=6.8, height=3.0)
    axes = figure.subplots()
    axes.plot(factors, quantiles, color=ACCENT, label="0.9-quantile of risk")
    axes.plot(factors, means, color=INK, label="mean risk")
    axes.plot(factors[lowest], quantiles[lowest], "o", color=ACCENT, markersize=5)
    axes.annotate(
        f"lowest quantile: {quantiles[lowest]:.3f}\nmean there: {means[lowest]:.3f}",
        (factors[lowest], quantiles[lowest]),
        xytext=(-50, -34),
        textcoords="offset points",
        color=ACCENT,
    )
    axes.axhline(EVEN, color=QUIET, linewidth=0.8, label="equal odds (ln 2)")
    axes.set_xlabel("log-odds of ERM multiplied by (1: as trained; 0: equal odds)")
    axes.set_ylabel("log-loss")
    axes.set_xlim(1.0, 0.0)
    figure.legend(frameon=False, loc="outside right upper")
    return figure


def main() -> None:
    """Train once, draw three pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("docs/images"))
    folder = parser.parse_args().output
    train, test = coloured_digits().split(0.5, seed=0)
    training = train_on_table(train, test, TrainingPlan.of([LEVEL]))
    figures = {
        "coloured-digits-risks": draw_risks(training),
        "measures": draw_measures(training),
        "less-sure": draw_less_sure(training, test),
    }
    for name, figure in figures.items():
        save_figure(figure, folder / f"{name}.svg")
        print(folder / f"{name}.svg")


if __name__ == "__main__":
    main()
