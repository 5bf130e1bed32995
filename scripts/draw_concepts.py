"""Draw the pictures of README.md and docs/concepts.md, from the coloured digits.

    python scripts/draw_concepts.py [--output docs/images]

All show the 60 sources of ``eqrm train coloured-digits``, each judged by models that had not seen
it: the risks of plain training, of its recalibration and of the model that was chosen for 9 in 10;
what each measure says of the risks of plain training; and what becomes of them when a plain
logistic regression is made less and less sure.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

import eqrm
from eqrm import DomainKFold, Empirical, Evaluation, Level, QRMClassifier, domain_risks
from eqrm.data import Table, coloured_digits
from eqrm.evaluation.inference.sureness import smooth_quantile
from eqrm.evaluation.presenting.plots import (
    ACCENT,
    INK,
    QUIET,
    new_figure,
    save_figure,
    shades,
    step_cdf,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVEL, EVEN = Level(0.9), float(np.log(2.0))
GUESS = "50/50 guess: ln 2"


def draw_risks(judged: Evaluation, shown: list[str]) -> Figure:
    """The share of sources below each risk; where a curve crosses 0.9 is its quantile."""
    figure = new_figure(width=6.8, height=3.6)
    axes = figure.subplots()
    every = np.concatenate([judged[name].risks for name in judged.models])
    styles = zip(shown, ((INK, "--"), (shades(3)[0], "-"), (shades(3)[2], "-")), strict=True)
    for name, (colour, dashes) in styles:
        quantile = smooth_quantile(judged[name].risks, LEVEL)
        steps = step_cdf(judged[name].risks, every.min(), every.max())
        axes.plot(*steps, dashes, drawstyle="steps-post", color=colour, label=name)
        axes.plot(quantile, LEVEL.alpha, "o", color=colour, markersize=5)
    axes.axhline(LEVEL.alpha, color=ACCENT, linewidth=0.8, linestyle=":")
    axes.axvline(EVEN, color=QUIET, linewidth=0.8)
    axes.text(EVEN + 0.01, 0.5, GUESS, color=QUIET)
    axes.set_xlim(0.25, 1.1)
    axes.set_xlabel("risk of a source that the model has not seen (log-loss)")
    axes.set_ylabel("share of sources below")
    axes.legend(loc="lower right", framealpha=1.0, edgecolor="white")
    return figure


def draw_measures(judged: Evaluation, plain: str) -> Figure:
    """Mean, quantile, superquantile and worst of the same risks."""
    risks = torch.as_tensor(np.sort(judged[plain].risks))
    measures = {
        "mean": risks.mean().item(),
        "quantile (0.9)": smooth_quantile(risks.numpy(), LEVEL),
        "superquantile (0.9)": Empirical(risks).superquantile(LEVEL).item(),
        "worst": risks.max().item(),
    }
    figure = new_figure(width=6.8, height=2.6)
    axes = figure.subplots()
    axes.hist(risks.numpy(), bins=24, color=QUIET, alpha=0.5)
    axes.plot(risks, [0.0] * len(risks), "|", color=INK, markersize=10, clip_on=False)
    for colour, (name, value) in zip((INK, *shades(3)), measures.items(), strict=True):
        axes.axvline(value, color=colour, label=f"{name}: {value:.3f}")
    axes.set_xlabel("risk of plain training on a source that it has not seen (log-loss)")
    axes.set_ylabel("sources")
    figure.legend(frameon=False, loc="outside right upper")
    return figure


def draw_less_sure(digits: Table) -> Figure:
    """Mean and quantile of a logistic regression as its log-odds are multiplied by less than 1."""
    X, y, sources = digits.X_y_groups()
    odds = torch.zeros(len(y), dtype=torch.float64)
    for train, test in DomainKFold(8).split(X, y, sources):
        model = QRMClassifier(alpha=None).fit(X.iloc[train], y[train], groups=sources[train])
        odds[test] = torch.as_tensor(model.decision_function(X.iloc[test]))
    factors = np.linspace(0.0, 1.0, 101)
    means, quantiles = [], []
    for factor in factors:
        losses = torch.nn.functional.softplus((1.0 - 2.0 * torch.as_tensor(y)) * factor * odds)
        risks = domain_risks(losses, sources.tolist()).values
        means.append(risks.mean().item())
        quantiles.append(smooth_quantile(risks.numpy(), LEVEL))
    figure = new_figure(width=6.8, height=3.0)
    axes = figure.subplots()
    axes.plot(factors, quantiles, color=ACCENT, label="9 in 10 below")
    axes.plot(factors, means, color=INK, label="average")
    axes.axhline(EVEN, color=QUIET, linewidth=0.8, label=GUESS)
    axes.set_xlabel("log-odds multiplied by (1: as trained; 0: a 50/50 guess)")
    axes.set_ylabel("log-loss")
    axes.set_xlim(1.0, 0.0)
    figure.legend(frameon=False, loc="outside right upper")
    return figure


def main() -> None:
    """Train once, draw three pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("docs/images"))
    folder = parser.parse_args().output
    found = eqrm.train("coloured-digits")
    decision, judged = found.decisions[0], found.evaluation
    recalibrated = decision.plain.replace(", plain", ", recalibrated for 9 in 10")
    figures = {
        "coloured-digits-risks": draw_risks(
            judged, [decision.plain, recalibrated, decision.chosen]
        ),
        "measures": draw_measures(judged, decision.plain),
        "less-sure": draw_less_sure(coloured_digits()),
    }
    for name, figure in figures.items():
        save_figure(figure, folder / f"{name}.svg")
        print(folder / f"{name}.svg")


if __name__ == "__main__":
    main()
