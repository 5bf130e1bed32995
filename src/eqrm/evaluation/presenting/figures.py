"""The figures of an evaluation, as files for a paper."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from eqrm.distributions.empirical import Empirical
from eqrm.distributions.kernel import KDE
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.presenting import plots, risk_curves
from eqrm.files.writing import whole_file
from eqrm.level import Level

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("svg", "pdf")


def write_figures(evaluation: Evaluation, folder: Path, level: Level | None = None) -> list[Path]:
    """The CDFs of all predictors, and PDF with CDF of each (the paper's Figures 4 and 1c).

    Files are numbered in the order of the predictors, for names are not to be trusted in
    paths. Returns what was written.
    """
    level = level or Level(0.9)
    figures = {"risk-cdfs": draw_cdfs(evaluation)}
    for number, (name, risks) in enumerate(evaluation.predictors.items(), start=1):
        law = KDE(torch.from_numpy(risks.risks))
        curve = risk_curves.smooth_curve(law, _plain(name), risk_curves.shared_grid(law), level)
        figures[f"risk-distribution-{number}"] = plots.draw_risk_distribution(curve)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with ExitStack() as outputs:
        for stem, figure in figures.items():
            for kind in KINDS:
                written.append(folder / f"{stem}.{kind}")
                plots.save_figure(figure, outputs.enter_context(whole_file(written[-1])))
    return written


def draw_cdfs(evaluation: Evaluation) -> Figure:
    """The CDFs of all predictors and their upper tails, the first predictor dashed."""
    return plots.draw_risk_cdfs(*_steps(evaluation))


def _steps(evaluation: Evaluation) -> tuple[risk_curves.RiskCurve, list[risk_curves.RiskCurve]]:
    everything = torch.from_numpy(evaluation.all_risks)
    grid = torch.linspace(float(everything.min()), float(everything.max()), 400).double()
    curves = [
        risk_curves.step_curve(Empirical(torch.from_numpy(risks.risks)), _plain(name), grid)
        for name, risks in evaluation.predictors.items()
    ]
    return curves[0], curves[1:]


def _plain(name: str, longest: int = 40) -> str:
    """A name as matplotlib shows it unchanged: no formulas, and no underscore that hides it.

    >>> _plain("$x$"), _plain("_a") == "\N{NO-BREAK SPACE}_a"
    ('\\\\$x\\\\$', True)
    """
    shown = name if len(name) <= longest else f"{name[: longest - 1]}…"
    shown = shown.replace("$", r"\$")
    return f"\N{NO-BREAK SPACE}{shown}" if shown.startswith("_") else shown
