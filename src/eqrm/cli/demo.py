"""``eqrm demo``: predictors trained for several levels, compared on domains never seen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from eqrm.errors import MissingExtraError
from eqrm.level import Level

if TYPE_CHECKING:
    from torch import Tensor

LEVELS = ["0.5", "0.75", "0.9", "0.95", "0.99"]
TRAIN_HOSPITALS, UNSEEN_HOSPITALS, PATIENTS = 300, 2000, 400


@dataclass(frozen=True)
class Outcome:
    """One predictor: what it was trained for, its weights, its risks on both sides.

    ``level`` is None for ERM. ``promise`` is the α-quantile estimated from the training risks.
    """

    level: Level | None
    weights: Tensor
    promise: float | None
    unseen_risks: Tensor

    @property
    def name(self) -> str:
        """The row's name in tables and figures."""
        return "ERM" if self.level is None else f"α = {self.level}"


def demo(
    alpha: Annotated[
        list[str] | None, typer.Option(help="A level to train for; repeat it for several.")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=2**63 - 1, help="The seed of the simulated hospitals.")
    ] = 0,
    output: Annotated[
        Path | None, typer.Option(help="A folder for the figure; without it none is drawn.")
    ] = None,
) -> None:
    """Train for the mean and for several levels, then judge all on 2000 unseen domains."""
    levels = sorted({Level.parse(text).interior("A KDE") for text in alpha or LEVELS})
    console = Console()
    console.print(
        f"{TRAIN_HOSPITALS} hospitals to train on and {UNSEEN_HOSPITALS} unseen ones, "
        f"{PATIENTS} patients each, simulated (seed {seed}).\n"
        "One measurement means the same everywhere. The other helps in most hospitals "
        "and misleads in about one of twenty.\n"
    )
    with _one_thread():
        outcomes = _train_all(levels, seed, console)
    console.print(_risk_table(outcomes, levels))
    console.print(_promise_table(outcomes))
    console.print(_in_plain_words(outcomes, levels))
    if output is not None:
        _save_picture(outcomes, output / "demo-risks.svg", console)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Batches this small gain nothing from threads, and lose much where cores are shared."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _train_all(levels: list[Level], seed: int, console: Console) -> list[Outcome]:
    import torch

    from eqrm.cli import demo_world
    from eqrm.distributions import KDE

    generator = torch.Generator().manual_seed(seed)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("drawing hospitals", total=2 + len(levels))
        seen = demo_world.draw_hospitals(TRAIN_HOSPITALS, PATIENTS, generator)
        unseen = demo_world.draw_hospitals(UNSEEN_HOSPITALS, PATIENTS, generator)
        progress.update(task, advance=1, description="training for the mean")
        weights = demo_world.train_for_mean(seen)
        outcomes = [Outcome(None, weights, None, unseen.risks(weights))]
        for level in levels:
            progress.update(task, advance=1, description=f"training for α = {level}")
            weights = demo_world.train_for_level(seen, level, start=weights)
            promise = float(KDE(seen.risks(weights)).quantile(level))
            outcomes.append(Outcome(level, weights, promise, unseen.risks(weights)))
    return outcomes


def _quantile(outcome: Outcome, level: Level) -> float:
    from eqrm.distributions import Empirical

    return float(Empirical(outcome.unseen_risks).quantile(level))


def _risk_table(outcomes: list[Outcome], levels: list[Level]) -> Table:
    """Rows: trained for. Columns: mean and quantiles of the risk over unseen domains."""
    table = Table(title="Risk (log-loss) on unseen hospitals: mean and quantiles (* = best)")
    table.add_column("trained for")
    columns = [[float(outcome.unseen_risks.mean()) for outcome in outcomes]]
    for level in [*levels, Level(1.0)]:
        columns.append([_quantile(outcome, level) for outcome in outcomes])
    for heading in ["mean", *map(str, levels), "1"]:
        table.add_column(heading, justify="right")
    for row, outcome in enumerate(outcomes):
        cells = [_cell(column[row], best=column[row] == min(column)) for column in columns]
        table.add_row(outcome.name, *cells)
    return table


def _cell(risk: float, best: bool) -> str:
    return f"[bold green]{risk:.3f}*[/]" if best else f"{risk:.3f} "


def _promise_table(outcomes: list[Outcome]) -> Table:
    """What each predictor relies on, and whether its promise held on unseen domains."""
    table = Table(title="What was learned, and what was promised")
    table.add_column("trained for")
    for heading in ("stable weight", "shifting weight", "promised risk", "kept in"):
        table.add_column(heading, justify="right")
    for outcome in outcomes:
        stable, shifting = float(outcome.weights[0]), float(outcome.weights[1])
        promise, kept = "", ""
        if outcome.promise is not None:
            promise = f"{outcome.promise:.3f}"
            share = (outcome.unseen_risks <= outcome.promise).double().mean()
            kept = f"{100 * float(share):.1f}%"
        table.add_row(outcome.name, f"{stable:.2f}", f"{shifting:.2f}", promise, kept)
    return table


def _in_plain_words(outcomes: list[Outcome], levels: list[Level]) -> str:
    erm, trained = outcomes[0], outcomes[1:]
    wins = sum(
        _quantile(own, level) == min(_quantile(other, level) for other in outcomes)
        for own, level in zip(trained, levels, strict=True)
    )
    chosen = min(trained, key=lambda outcome: abs((outcome.level or Level(0.5)).alpha - 0.9))
    level = chosen.level or Level(0.5)
    before, after = _quantile(erm, level), _quantile(chosen, level)
    share = 100 * level.tail
    return (
        f"\n{wins} of {len(levels)} levels win their own column. In the worst {share:.3g}% of "
        f"unseen hospitals, the predictor trained for the mean has a risk above {before:.3f}; "
        f"the one trained for α = {level} above {after:.3f} ({100 * (after / before - 1):+.0f}%). "
        f"It relies less on the measurement that misleads somewhere (weight "
        f"{float(erm.weights[1]):.2f} → {float(chosen.weights[1]):.2f}), and pays for that with a "
        f"mean risk of {float(chosen.unseen_risks.mean()):.3f} instead of "
        f"{float(erm.unseen_risks.mean()):.3f}. α says how often the bound should hold: "
        "'promised risk' was computed from training hospitals alone, 'kept in' is the share of "
        "unseen hospitals that stayed below it.\n"
    )


def _save_picture(outcomes: list[Outcome], path: Path, console: Console) -> None:
    import torch

    from eqrm.distributions import Empirical
    from eqrm.evaluation import plots, risk_curves

    largest = max(float(outcome.unseen_risks.max()) for outcome in outcomes)
    grid = torch.linspace(0, largest, 600, dtype=torch.float64)
    curves = [
        risk_curves.cdf_curve(Empirical(outcome.unseen_risks), outcome.name, grid)
        for outcome in outcomes
    ]
    try:
        plots.save_figure(plots.draw_risk_cdfs(curves[0], curves[1:]), path)
    except MissingExtraError as error:
        console.print(f"No figure: {error}", markup=False)
        return
    console.print(f"Figure: {path}", markup=False)
