"""``eqrm recalibrate``: predictions of any model, corrected for a level without retraining."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from eqrm.checks import Problems
from eqrm.cli.commands import option, refuse_places, say
from eqrm.cli.options import read_settings, with_settings
from eqrm.errors import Setting, SettingError
from eqrm.tabular.recalibrating.plan import CORRECTION, OUTPUT, RecalibrationPlan

APPLIED = ("prediction", "threads", "memory")
"""Settings that a saved correction is applied with."""


def recalibrate(
    files: Annotated[
        list[str],
        typer.Argument(
            help="CSV or Parquet files, folders, or patterns such as 'parts/*.parquet'."
        ),
    ],
    *,
    correction: Annotated[
        Path | None,
        option("Apply this saved correction instead of fitting one.", CORRECTION, metavar="FILE"),
    ] = None,
    save: Annotated[
        Path | None, option("File to write the correction to, as JSON.", OUTPUT, metavar="FILE")
    ] = None,
    output: Annotated[
        Path | None,
        option(
            "File to write all rows with corrected predictions to, ending in .csv or .parquet.",
            OUTPUT,
            metavar="FILE",
        ),
    ] = None,
    **given: Any,
) -> None:
    """Correct predictions so that the quantile of risk over domains is smallest.

    A shift and a scale are fitted on some domains and evaluated on the others,
    without retraining. With --correction, a saved correction is applied to new
    predictions; labels and domains are not needed then.
    """
    from eqrm.files.writing import whole_file
    from eqrm.tabular.predictions import check_output
    from eqrm.tabular.recalibrating.correction_files import SavedCorrection, apply_to_files
    from eqrm.tabular.recalibrating.recalibration import recalibrate_files
    from eqrm.tabular.recalibrating.recalibration_words import recalibration_in_words

    if correction is None:
        problems = Problems()
        chosen = read_settings(RecalibrationPlan, given, problems)
        with problems.noted():
            plan = RecalibrationPlan.of(**chosen, progress=sys.stderr.isatty())
        problems.refuse("The command", alone=True)
    else:
        _refuse_fitting({**given, "save": save}, correction)
    if output is not None:
        check_output(output)
    refuse_places({"--save": save, "--output": output}, files)
    if correction is None:
        found = recalibrate_files(files, plan)
        say(recalibration_in_words(found))
        saved = found.saved
    elif output is None:
        raise SettingError("--output FILE is required with --correction.")
    else:
        saved = SavedCorrection.read(correction)
    told = []
    with ExitStack() as outputs:  # both are written, or none
        if save is not None:
            saved.write(outputs.enter_context(whole_file(save)))
            told.append(f"\nCorrection: {save} (for eqrm recalibrate --correction)")
        if output is not None:
            applied = {name: given[name] for name in APPLIED if given[name] is not None}
            told.append(apply_to_files(files, saved, output, **applied))
    for line in told:
        say(line)


recalibrate.__dict__["__signature__"] = with_settings(recalibrate, RecalibrationPlan, unset=True)


def _refuse_fitting(given: dict[str, Any], correction: Path) -> None:
    """Refuse options of a fit where a saved correction is applied."""
    problems = Problems()
    useless = [n for n, value in given.items() if n not in APPLIED and value is not None]
    if useless:
        problems.note(
            f"{', '.join(str(Setting(name)) for name in useless)} cannot be combined with "
            "--correction, which is applied as it is."
        )
    if not correction.is_file():
        problems.note(f"The file {str(correction)!r} does not exist.")
    problems.refuse("The command", alone=True)
