"""``eqrm train``: a table in; models for several levels, a risk table and a report out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from eqrm.checks import CONFIDENCE, Problems
from eqrm.cli.commands import inner_level, option, say, separated, typed_command
from eqrm.cli.options import declared_option
from eqrm.errors import SettingError
from eqrm.files.yaml_text import parse_settings
from eqrm.tabular.plan import TrainingPlan

HOW = "Output"
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
    *,
    verbose: Annotated[
        bool, option("Print all details, which summary.txt holds too.", HOW, "--verbose")
    ] = False,
    output: Annotated[Path, option("Folder to write everything to.", HOW)] = Path("train-output"),
    confidence: Annotated[
        float,
        option(f"Confidence level of intervals and certificates, {CONFIDENCE.words}.", HOW),
    ] = 0.95,
    **given: Any,
) -> None:
    """Find the model of a table to use on new domains, and say how well it will do there.

    Linear models and boosted trees, trained plainly, recalibrated and trained for a level, are
    compared on domains that they have not seen; the chosen one is fitted to all domains.

    Put a name that contains a comma in double quotes: --drop '"height, cm",age'.
    """
    from eqrm.tabular.entry import STEPS, run_training
    from eqrm.tabular.output_folder import check_folder

    problems, chosen = Problems(), dict[str, Any]()
    with problems.noted():
        CONFIDENCE.check(confidence, "--confidence")
    with problems.noted():
        check_folder(output)
    for each in SETTINGS:
        value = given[each.name]
        if value is not None:
            with problems.noted():
                read = READ.get(each.metadata["kind"])
                chosen[each.name] = value if read is None else read(value)
    plan = TrainingPlan.of(problems=problems, **chosen)

    with steps_shown(STEPS, partial(_kept, output)) as tell:
        found = run_training(data, plan, confidence, problems, tell, typed_command())
        found.save(output)
    say(found.printed(output))
    if verbose:
        say(f"\n{found.summary}")


def _share_or_names(values: list[str]) -> float | list[str]:
    """Domains to keep aside: a share of them, or names.

    >>> _share_or_names(["0.3"]), _share_or_names(["Rome,Oslo"])
    (0.3, ['Rome', 'Oslo'])
    """
    given = separated(values)
    if len(given) == 1:
        with suppress(ValueError):
            share = float(given[0])
            if 0.0 < share < 1.0:
                return share
    return given


def _kept(output: Path, step: str) -> str:
    """What is left of the work when a step is interrupted."""
    from eqrm.tabular.entry import WRITING

    if step == WRITING:
        return f"The files in {output} may be incomplete. Run the command again."
    return f"Nothing was saved to {output}. Run the command again."


def _class_weights(given: list[str]) -> str | dict[str, float]:
    """``balanced``, or the weights of classes (CLASS=WEIGHT).

    >>> _class_weights(["balanced"]), _class_weights(["yes=5,no=1"])
    ('balanced', {'yes': 5.0, 'no': 1.0})
    """
    values = separated(given)
    if len(values) < 2 and not any("=" in value for value in values):
        return values[0]
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


READ: dict[str, Callable[[list[str]], Any]] = {
    "names": separated,
    "values": separated,
    "share or names": _share_or_names,
    "levels": lambda given: [inner_level(each, LARGEST) for each in separated(given)],
    "settings": parse_settings,
    "weights": _class_weights,
}
"""What becomes of the texts of options, by the kind of setting."""
SETTINGS = [each for each in fields(TrainingPlan) if each.metadata["panel"]]


def _with_settings(command: Callable[..., None]) -> inspect.Signature:
    """The signature of a command that also has every setting of a plan as an option."""
    own = inspect.signature(command, eval_str=True)
    first, *rest = [each for each in own.parameters.values() if each.name != "given"]
    return own.replace(parameters=[first, *map(declared_option, SETTINGS), *rest])


train.__dict__["__signature__"] = _with_settings(train)
