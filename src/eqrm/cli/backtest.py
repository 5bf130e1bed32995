"""``eqrm backtest``: would bounds computed on past domains have held on later ones?"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from eqrm.checks import Problems
from eqrm.cli.commands import inner_level, option, parsed_level, say, separated, typed_command
from eqrm.cli.options import (
    CLIP,
    LARGEST,
    PREDICTION,
    REPEAT,
    SEVERAL,
    TIME,
    Dependence,
    DomainColumns,
    Recent,
    Spells,
    confidence_of,
    declared,
)
from eqrm.cli.train import steps_shown
from eqrm.errors import Setting, SettingError
from eqrm.evaluation.measuring.metrics import METRICS_IN_HELP
from eqrm.files.yaml_text import parse_settings

DATA, WINDOWS, BOUNDS, HOW = "Data", "Windows, in numbers of domains", "Bounds", "Output"
GIVEN, FITTED = "Given predictions (nothing is fitted)", "Training"
TARGET = "Column to predict; with --prediction, the labels."
ORDER = "Column with the time of each row, a date or a number (default: the domain)."
WAYS, MEASURING = ("prediction", "loss"), ("metric", "clip")
FITTING = (
    *("train", "refit", "expanding", "alpha", "measure", "features", "drop", "categories"),
    *("weather", "model", "task", "settings", "seed"),
)
"""Options of given predictions, of how these are measured, and of a training."""


def backtest(
    context: typer.Context,
    data: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="CSV or Parquet file, pattern or folder; or 'flights', which ships with eqrm.",
        ),
    ],
    target: Annotated[str | None, option(TARGET, DATA)] = None,
    domain: DomainColumns = None,
    order: Annotated[str | None, option(ORDER, DATA, metavar="COLUMN")] = None,
    train: Annotated[
        int | None, option("Domains to train on in each window; required to fit.", WINDOWS)
    ] = None,
    features: Annotated[list[str] | None, declared("features")] = None,
    categories: Annotated[list[str] | None, declared("categories")] = None,
    certify: Annotated[
        list[str] | None, option(f"Domains to compute bounds on (default: 60). {SEVERAL}", WINDOWS)
    ] = None,
    judge: Annotated[int, option("Later domains to compare the bounds with.", WINDOWS)] = 30,
    gap: Annotated[int, option("Domains to leave out between two parts.", WINDOWS)] = 0,
    step: Annotated[
        int | None,
        option("Domains by which the next window is later (default: those judged).", WINDOWS),
    ] = None,
    expanding: Annotated[
        bool, option("Train on all domains from the first on.", WINDOWS, "--expanding")
    ] = False,
    refit: Annotated[
        str | None,
        option(
            "every-window (default): a stream of refitted models; never: models of the "
            "first window, certified and judged on all later ones.",
            WINDOWS,
        ),
    ] = None,
    weather: Annotated[bool, declared("weather")] = False,
    drop: Annotated[list[str] | None, declared("drop")] = None,
    prediction: Annotated[
        list[str] | None,
        option(f"{PREDICTION} {REPEAT}", GIVEN, metavar="[NAME=]COLUMN"),
    ] = None,
    loss: Annotated[
        list[str] | None, option(f"Column of losses. {REPEAT}", GIVEN, metavar="[NAME=]COLUMN")
    ] = None,
    metric: Annotated[
        str | None,
        option(
            f"Loss of predictions: {METRICS_IN_HELP.replace('log-loss', 'log-loss (default)')}.",
            GIVEN,
        ),
    ] = None,
    clip: Annotated[float | None, option(CLIP, GIVEN)] = None,
    alpha: Annotated[list[str] | None, declared("alpha")] = None,
    measure: Annotated[
        list[str] | None,
        option(
            "What to minimise for a level: auto (default; chosen by cross-fitting over training "
            "domains), quantile (EQRM), superquantile (the mean risk of the worst share 1−α) or "
            f"worst (the largest risk). {SEVERAL}",
            FITTED,
        ),
    ] = None,
    model: Annotated[
        str | None, option("linear (default), mlp, xgboost or lightgbm.", FITTED)
    ] = None,
    task: Annotated[
        str | None, option("classification, regression or auto (default).", FITTED)
    ] = None,
    settings: Annotated[list[str] | None, declared("settings")] = None,
    seed: Annotated[int | None, option("Random seed of the model (default: 0).", FITTED)] = None,
    quantiles: Annotated[
        list[str] | None,
        option(f"Levels of the bounds (default: 0.5, 0.75, 0.9). {SEVERAL}", BOUNDS),
    ] = None,
    confidence: Annotated[float, confidence_of("certificates", BOUNDS)] = 0.95,
    dependence: Dependence = None,
    spells: Spells = False,
    recent: Recent = None,
    online: Annotated[
        bool, option("Add a bound that is adapted after every judged domain.", TIME, "--online")
    ] = False,
    output: Annotated[Path, option("Folder to write everything to.", HOW)] = Path(
        "backtest-output"
    ),
) -> None:
    """Slide over domains in time: train, certify on the next ones, compare with what came.

    With --prediction or --loss, what is in the table is certified and nothing is fitted.
    Interrupted while fitting, the same command goes on with the next window.
    """
    said = context.params
    problems = Problems()
    for problem in _conflicts(said):
        problems.note(problem)
    also = {"spells": spells, "recent": recent is not None, "online": online}
    sliding: dict[str, Any] = {
        "certify": [int(n) if n.isdecimal() else n for n in separated(certify or ["60"])],
        **{name: said[name] for name in ("judge", "train", "gap", "step", "expanding")},
        "refit": refit or "every-window",
        "confidence": confidence,
        "bounds": ["plain", *(name for name, asked in also.items() if asked)],
        "dependence": [] if dependence is None else dependence,
        "half_life": recent,
    }
    if quantiles:
        sliding["quantiles"] = [parsed_level(each, "--quantiles") for each in separated(quantiles)]
    from eqrm.evaluation.backtesting.plan import BacktestPlan

    with problems.noted():
        plan = BacktestPlan.of(**sliding)
    if problems:
        raise SettingError(" ".join(problems))
    from eqrm.tabular.backtesting import FITS, WRITTEN, write_backtest
    from eqrm.tabular.output_folder import check_folder

    check_folder(output, (*WRITTEN, FITS))
    found = _measured(said, plan) if prediction or loss else _fitted(said, plan, output)
    written = write_backtest(found, output, command=typed_command())
    say(str(found))
    say(f"\nReport: {written[0]}")
    say(f"Also in {output}: {', '.join(path.name for path in written[1:])}")


def _measured(said: Mapping[str, Any], plan: Any) -> Any:
    """Measure what is given; nothing is fitted."""
    from eqrm.evaluation.backtesting.backtest import backtest_predictions
    from eqrm.evaluation.measuring.measurement_spec import MeasurementSpec

    spec = MeasurementSpec(
        said["domain"],
        losses=said["loss"] or None,
        target=said["target"],
        predictions=said["prediction"] or None,
        metric=said["metric"] or "log-loss",
        clip=said["clip"] or 0.0,
        progress=sys.stderr.isatty(),
    )
    return backtest_predictions([said["data"]], spec, plan, said["order"])


def _fitted(said: Mapping[str, Any], plan: Any, output: Path) -> Any:
    """Read the table, and fit in every window."""
    from eqrm.data.tables.reading import TableColumns
    from eqrm.tabular.backtesting import FitSettings, backtest_table, before_fitting, kept_in_words
    from eqrm.tabular.entry import read_any_table

    chosen = {name: said[name] for name in ("model", "task", "seed") if said[name] is not None}
    chosen["settings"] = parse_settings(said["settings"] or [])
    if said["alpha"]:
        levels = (inner_level(each, LARGEST) for each in separated(said["alpha"]))
        chosen["alpha"] = tuple(levels)
    if said["measure"]:
        chosen["minimised"] = tuple(separated(said["measure"]))
    fit = FitSettings(**chosen)
    fit.plans()  # checked before anything is read
    named = TableColumns(
        said["target"] or "",
        said["domain"] or (),
        features=separated(said["features"] or []) or None,
        drop=separated(said["drop"] or []),
        categories=separated(said["categories"] or []),
        order=said["order"],
    )
    table = read_any_table(said["data"], named, weather=said["weather"])
    fits, short = before_fitting(plan, table)
    for sentence in short:
        say(f"eqrm: {sentence}", err=True)
    with steps_shown(fits, lambda step: kept_in_words(output)) as tell:
        return backtest_table(table, plan, fit, folder=output, progress=tell)


def _conflicts(said: Mapping[str, Any]) -> list[str]:
    """Options that exclude each other, or that are missing."""
    from eqrm.data.datasets.registry import BUILT_IN
    from eqrm.tabular.entry import own_name

    problems, required, data = [], ["target", "domain"], said["data"]
    given = {name for name, value in said.items() if value not in ((), None) and value is not False}
    ways, measuring, training = (
        [str(Setting(name)) for name in names if name in given]
        for names in (WAYS, MEASURING, FITTING)
    )
    if ways and training:
        problems.append(
            f"With {' and '.join(ways)} nothing is fitted: leave out {', '.join(training)}."
        )
    if len(ways) == 2:
        problems.append("Use either --prediction (with --target) or --loss.")
    if ways == ["--loss"]:
        required.remove("target")
        unused = ["--target", *measuring] if said["target"] else measuring
        if unused:
            problems.append(f"--loss holds losses already: leave out {', '.join(unused)}.")
    if not ways and measuring:
        problems.append(f"{', '.join(measuring)} can only be used with --prediction.")
    if not ways and said["train"] is None:
        problems.append(
            "--train N is required, the number of domains to fit on in each window, or "
            "--prediction COLUMN for predictions of any model."
        )
    if not ways and data in BUILT_IN and not Path(data).exists():
        required = []
    absent = [Setting(name) for name in required if not said[name]]
    return problems + [f"{name} COLUMN is required for {own_name(data)}." for name in absent]
