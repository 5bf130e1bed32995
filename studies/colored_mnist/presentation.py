"""Tables and figures of ColoredMNIST; drawing computes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import torch

from eqrm.evaluation.presenting.plots import new_figure, shades
from studies.colored_mnist.digits_by_seed import TEST, VALIDATION
from studies.colored_mnist.findings import (
    BY_TEST_DOMAIN,
    BY_TEST_SET,
    MnistCell,
    MnistFindings,
    accuracy_law,
    over_flips,
    redrawn,
)
from studies.colored_mnist.settings import (
    ALL_FLIPS,
    FLIPS,
    INITIALISATIONS,
    NAMES,
    PAPER,
    RANDOM,
    WITH_STEPS,
)
from studies.outcome import Cell, Check, ResultTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = (
    "algorithm",
    "initialisation",
    "accuracy",
    "std",
    "seeds",
    "hyperparameter",
    "paper_accuracy",
    "paper_std",
    "selection",
    "grid",
)


def mnist_tables(findings: MnistFindings) -> list[ResultTable]:
    """Table 1, all values, candidates, draws of the test domain, the figure and times."""
    head, *lines = table_lines(findings)
    title = f"Table 1: test accuracy in per cent, hyperparameters by {BY_TEST_DOMAIN}"
    some = bool(findings.rows())
    tables = [
        ResultTable("table_1_in_short", title, head, lines if some else [], leading=True),
        table_one(findings),
        _values_table(findings),
        _candidates_table(findings),
        _draws_table(findings),
        _figure_table(findings),
        _blocks_table(findings),
    ]
    return [table for table in tables if table.rows]


def table_one(findings: MnistFindings) -> ResultTable:
    """Every cell by every rule and grid."""
    title = "Test accuracy in per cent, mean and standard deviation over seeds"
    return ResultTable("table_1", title, COLUMNS, [_cells(row) for row in findings.rows()])


def _cells(row: MnistCell) -> list[Cell]:
    method, start = row.key
    return [
        NAMES[method],
        "" if method in WITH_STEPS else start,
        round(row.mean, 2),
        round(row.std, 2),
        str(len(row.accuracies)),
        row.chosen.setting.printed(),
        *row.paper,
        row.selection,
        row.grid,
    ]


def table_lines(findings: MnistFindings) -> list[list[str]]:
    """Table 1 as the paper prints it, ours by each grid beside the paper's."""
    grids = list(findings.settings.grids)
    heads = [f"{start}, {grid} grid" for start in INITIALISATIONS for grid in grids]
    lines = [["Algorithm", *heads, "random, paper", "erm, paper"]]
    for method in NAMES:
        cells = []
        for start in INITIALISATIONS:
            wanted = RANDOM if method in WITH_STEPS else start
            for grid in grids:
                row = findings.row(grid, BY_TEST_DOMAIN, method, wanted)
                cells.append("" if row is None else f"{row.mean:.1f} ± {row.std:.1f}")
        for start in INITIALISATIONS:
            mean, std = PAPER[method, RANDOM if method in WITH_STEPS else start]
            cells.append(f"{mean} ± {std}")
        lines.append([NAMES[method], *cells])
    return lines


def _values_table(findings: MnistFindings) -> ResultTable:
    """Every value of every hyperparameter."""
    order = {name: place for place, name in enumerate(NAMES)}
    settings = sorted(
        findings.standard, key=lambda s: (order[s.method], s.initialisation, abs(s.value))
    )
    rows: list[list[Cell]] = []
    for setting in settings:
        result = findings.standard[setting]
        test = result.on(TEST)
        rows.append(
            [
                NAMES[setting.method],
                "" if setting.method in WITH_STEPS else setting.initialisation,
                setting.printed(),
                round(float(test.mean()), 2),
                round(float(test.std(ddof=1)), 2),
                *(round(float(result.on(name).mean()), 2) for name in VALIDATION),
            ]
        )
    columns = ["algorithm", "initialisation", "hyperparameter", "test 0.9", "std", *VALIDATION]
    return ResultTable("values", "All values, accuracy in per cent", columns, rows)


def _candidates_table(findings: MnistFindings) -> ResultTable:
    """One change of the recipe at a time."""
    rows: list[list[Cell]] = []
    used = dict.fromkeys(setting for changed in findings.changed.values() for setting in changed)
    for name, results in {"as in Table 1": findings.standard, **findings.changed}.items():
        cells: list[Cell] = [name]
        for setting in used:
            result = results.get(setting)
            if result is None:
                cells.append("")
            else:
                test = result.on(TEST)
                cells.append(f"{test.mean():.1f} ± {test.std(ddof=1):.1f}")
        rows.append(cells)
    heads = [f"{NAMES[setting.method]}, {setting.printed()}" for setting in used]
    if rows and used:
        paper = [PAPER[setting.method, setting.initialisation] for setting in used]
        rows.append(["the paper", *(f"{mean} ± {std}" for mean, std in paper)])
    title = "What may explain the difference: one change at a time, test accuracy in per cent"
    return ResultTable("candidates", title, ["recipe", *heads], rows if used else [])


def _draws_table(findings: MnistFindings) -> ResultTable:
    """The test domain drawn again, and on other digits, for the chosen settings."""
    rows: list[list[Cell]] = []
    for row in findings.rows():
        if row.selection == BY_TEST_DOMAIN and row.grid == "paper":
            another, validation = redrawn(row.chosen)
            method, start = row.key
            shown = "" if method in WITH_STEPS else start
            numbers = (row.mean, another, validation)
            rows.append([NAMES[method], shown, *(round(number, 2) for number in numbers)])
    columns = ["algorithm", "initialisation", "test", "another draw of test", "validation digits"]
    return ResultTable("draws", "The test domain in other draws, in per cent", columns, rows)


def _figure_table(findings: MnistFindings) -> ResultTable:
    """E by number, and the training risks."""
    rows: list[list[Cell]] = [
        [
            curve.setting.printed(),
            *(round(float(value), 2) for value in over_flips(curve)),
            *(round(float(risk), 4) for risk in curve.risks.mean(axis=0)),
        ]
        for curve in findings.figure()
    ]
    columns = ["level", *(f"flip {flip:g}" for flip in ALL_FLIPS)]
    columns += [f"training risk {flip:g}" for flip in FLIPS]
    return ResultTable(
        "figure_3e", "Figure 3 E: accuracy at colour flips, in per cent", columns, rows
    )


def _blocks_table(findings: MnistFindings) -> ResultTable:
    """Time and rate of every block."""
    rows: list[list[Cell]] = [
        [
            cost.title,
            str(cost.runs),
            f"{cost.run_steps:,}",
            round(cost.seconds, 1),
            round(cost.operations / cost.seconds / 1e12, 3),
            round(cost.rate / 1e12, 3),
            round(100.0 * cost.operations / cost.seconds / cost.rate, 1),
            cost.device,
        ]
        for cost in findings.costs
    ]
    columns = ["block", "runs", "run-steps", "seconds", "TFLOP/s", "of a large product", "share %"]
    title = "Time of blocks, and their rate beside that of a large matrix product on the device"
    return ResultTable("blocks", title, [*columns, "device"], rows)


def draw_figure(findings: MnistFindings) -> Figure:
    """E and F of the paper's Figure 3."""
    curves = findings.figure()
    figure = new_figure(width=8.6, height=3.4)
    flat, law = figure.subplots(1, 2)
    grid = torch.linspace(0.0, 100.0, 401, dtype=torch.float64)
    for curve, colour in zip(curves, shades(len(curves)), strict=True):
        label = curve.setting.printed()
        flat.plot(ALL_FLIPS, over_flips(curve), color=colour, label=label)
        flat.plot(FLIPS, [curve.on(name).mean() for name in VALIDATION[:-1]], "o", color=colour)
        law.plot(grid, accuracy_law(curve).cdf(grid.unsqueeze(1)).flatten(), color=colour)
    flat.set_xlabel("probability of a colour flip in the test domain")
    flat.set_ylabel("accuracy (%)")
    law.set_xlabel("accuracy (%)")
    law.set_ylabel("probability of a lower accuracy")
    for letter, axes in zip("EF", (flat, law), strict=True):
        axes.set_title(letter, loc="left", fontweight="bold")
    figure.legend(frameon=False, loc="outside lower center", ncols=3)
    return figure


def mnist_answer(findings: MnistFindings, checks: Sequence[Check]) -> str:
    """Which checks fail, and what is missing."""
    failed = [check.claim for check in checks if not check.holds]
    found = [f"Checks that do not hold: {'; '.join(failed)}."] if failed else []
    if findings.unfinished:
        missing = "; ".join(dict.fromkeys(findings.unfinished))
        found.append(f"Not computed yet, and missing in the tables: {missing}.")
    return "\n\n".join(found)


def mnist_remarks(findings: MnistFindings) -> list[str]:
    """How the choice of hyperparameters matters."""
    found = []
    gains = findings.flattery()
    if gains:
        found.append(
            f"Choosing hyperparameters on the test set ({BY_TEST_SET}, as the published code does) "
            f"instead of validation digits of the test domain raises test accuracies by "
            f"{fmean(gains):.2f} points on average and by {max(gains):.2f} at most."
        )
    found.append(
        "Training-domain validation looks at no test domain, and prefers predictors that use the "
        "colour: where its accuracy is far below the others', no choice without a look at the "
        "test domain reaches the paper's number."
    )
    found.append(
        "Accuracies are those after the last step. Every seed draws its own digits, labels and "
        "colours; the figure's test domains hold all of MNIST's test digits each."
    )
    return found
