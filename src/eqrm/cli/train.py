"""``eqrm train``: a table in; models for several levels, a risk table and a report out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from eqrm.checks import CONFIDENCE, Problems
from eqrm.cli.commands import inner_level, option, say, separated, typed_command
from eqrm.cli.options import (
    HELD_OUT,
    SEVERAL,
    Categories,
    ClassWeights,
    DomainColumns,
    Dropped,
    Features,
    MaxMissing,
    MissingValues,
    ModelSettings,
    RowWeight,
    SkipIncomplete,
    TestAfter,
    TestLast,
    TrainedLevels,
    Weather,
    Within,
)
from eqrm.errors import SettingError
from eqrm.files.yaml_text import parse_settings

DATA, WHAT, HOW = "Data", "Training", "Output"
LARGEST = "To minimise the largest risk, use --measure worst and leave out --alpha."


def train(
    data: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="CSV or Parquet file, pattern or folder; or 'flights' or 'coloured-digits', which "
            "ship with eqrm.",
        ),
    ],
    target: Annotated[str | None, option("Column to predict.", DATA)] = None,
    domain: DomainColumns = None,
    feature: Features = None,
    drop: Dropped = None,
    category: Categories = None,
    missing_value: MissingValues = None,
    max_missing: MaxMissing = 0.1,
    skip_incomplete: SkipIncomplete = False,
    row_weight: RowWeight = None,
    certify: Annotated[
        list[str] | None,
        option(
            "Keep domains aside for a proven certificate: a share of them, such as 0.3 (with "
            "--order the latest), or their names. By default all domains are trained on, and what "
            f"to expect of a new one is cross-fitted. {SEVERAL}",
            HELD_OUT,
            metavar="SHARE|DOMAINS",
        ),
    ] = None,
    test: Annotated[str | None, option("Table of other domains to certify on.", HELD_OUT)] = None,
    within: Within = None,
    weather: Weather = False,
    order: Annotated[
        str | None,
        option(
            "Column with the time of each row, a date or a number (the domain column, if domains "
            "are dates): models are judged on later domains than those that they were fitted to. "
            "Not a feature unless --feature lists it.",
            HELD_OUT,
            metavar="COLUMN",
        ),
    ] = None,
    test_after: TestAfter = None,
    test_last: TestLast = None,
    measure: Annotated[
        str,
        option(
            "What to minimise over the training domains: quantile, superquantile (the mean risk "
            "of the worst share 1−α), worst (the largest risk; no --alpha) or mean (ERM alone).",
            WHAT,
        ),
    ] = "quantile",
    alpha: TrainedLevels = None,
    surrogate: Annotated[
        str,
        option(
            "What is minimised to get a low quantile: auto (chosen by cross-fitting) or eqrm (the "
            "quantile itself, at its level; none means the same).",
            WHAT,
        ),
    ] = "auto",
    model: Annotated[
        str,
        option(
            "auto (linear models and boosted trees compete), linear, lightgbm, xgboost, histogram "
            "(trees of scikit-learn) or mlp.",
            WHAT,
        ),
    ] = "auto",
    mean_budget: Annotated[
        float,
        option(
            "By how much the average risk of the chosen model may be above that of plain training, "
            "as a share.",
            WHAT,
        ),
    ] = 0.1,
    task: Annotated[str, option("classification, regression or auto.", WHAT)] = "auto",
    settings: ModelSettings = None,
    class_weight: ClassWeights = None,
    unseen: Annotated[
        str,
        option(
            "What to do about categories that only domains kept aside have: warn or error.", WHAT
        ),
    ] = "warn",
    seed: Annotated[
        int | None, option("Random seed of the split and of the model (default: 0).", WHAT)
    ] = None,
    verbose: Annotated[
        bool, option("Print all details, which summary.txt holds too.", HOW, "--verbose")
    ] = False,
    output: Annotated[Path, option("Folder to write everything to.", HOW)] = Path("train-output"),
    confidence: Annotated[
        float,
        option(f"Confidence level of intervals and certificates, {CONFIDENCE.words}.", HOW),
    ] = 0.95,
) -> None:
    """Find the model of a table to use on new domains, and say how well it will do there.

    Linear models and boosted trees, trained plainly, recalibrated and trained for a level, are
    compared on domains that they have not seen; the chosen one is fitted to all domains.

    Put a name that contains a comma in double quotes: --drop '"height, cm",age'.
    """
    from eqrm.data.tables.reading import TableColumns
    from eqrm.tabular.entry import STEPS, run_training
    from eqrm.tabular.output_folder import check_folder
    from eqrm.tabular.plan import TrainingPlan
    from eqrm.tabular.request import TrainingRequest

    problems, plan = Problems(), TrainingPlan.of()
    with problems.noted():
        CONFIDENCE.check(confidence, "--confidence")
    with problems.noted():
        check_folder(output)
    columns = TableColumns(
        target or "",
        domain or (),
        within,
        separated(feature) if feature else None,
        separated(drop or []),
        separated(category or []),
        order,
        row_weight,
        separated(missing_value or []),
        skip_incomplete,
    )
    aside = _share_or_names(separated(certify or []))
    request = TrainingRequest(data, columns, test, aside, test_after, test_last, weather)
    if request.is_in_time and seed is not None and model == "linear":
        problems.note("--seed has no effect on a split in time and a linear model: leave it out.")
    with problems.noted():
        plan = TrainingPlan.of(
            [inner_level(each, LARGEST) for each in separated(alpha)] if alpha else None,
            measure=measure,
            surrogate=surrogate,
            model=model,
            task=task,
            seed=seed or 0,
            settings=parse_settings(settings or []),
            unseen=unseen,
            max_missing=max_missing,
            class_weight=_class_weights(class_weight or []),
            mean_budget=mean_budget,
        )

    with steps_shown(STEPS, partial(_kept, output)) as tell:
        found = run_training(request, plan, confidence, problems, tell, typed_command())
        found.save(output)
    say(found.printed(output))
    if verbose:
        say(f"\n{found.summary}")


def _share_or_names(given: list[str]) -> float | list[str] | None:
    """Domains to keep aside: a share of them, or names.

    >>> _share_or_names(["0.3"]), _share_or_names(["Rome", "Oslo"]), _share_or_names([])
    (0.3, ['Rome', 'Oslo'], None)
    """
    if len(given) == 1:
        with suppress(ValueError):
            share = float(given[0])
            if 0.0 < share < 1.0:
                return share
    return given or None


def _kept(output: Path, step: str) -> str:
    """What is left of the work when a step is interrupted."""
    from eqrm.tabular.entry import WRITING

    if step == WRITING:
        return f"The files in {output} may be incomplete. Run the command again."
    return f"Nothing was saved to {output}. Run the command again."


def _class_weights(given: list[str]) -> str | dict[str, float] | None:
    """``balanced``, or the weights of classes (CLASS=WEIGHT).

    >>> _class_weights(["balanced"]), _class_weights(["yes=5,no=1"])
    ('balanced', {'yes': 5.0, 'no': 1.0})
    """
    values = separated(given)
    if len(values) < 2 and not any("=" in value for value in values):
        return values[0] if values else None
    found = {}
    for value in values:
        name, _, number = value.rpartition("=")
        try:
            found[name] = float(number)
        except ValueError:
            name = ""
        if not name:
            raise SettingError(
                f"--class-weight takes 'balanced' or CLASS=WEIGHT, such as yes=5, got {value!r}."
            )
    return found


@contextmanager
def steps_shown(total: int, kept: Callable[[str], str]) -> Iterator[Callable[[str], None]]:
    """A bar on a terminal, on standard error; on Ctrl-C, the step that was stopped.

    ``kept`` says what is left of the work when a step is interrupted, and what to do.
    """
    from eqrm.tabular import steps

    try:
        with steps.steps_shown(total) as tell:
            yield tell
    except steps.StepInterrupted as stopped:
        say(f"eqrm: Interrupted while {stopped.step}. {kept(stopped.step)}", err=True)
        raise typer.Exit(130) from None
