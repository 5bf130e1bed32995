"""``eqrm recalibrate``: predictions of any model, corrected for a level without retraining."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from eqrm.checks import CONFIDENCE
from eqrm.cli.commands import inner_level, option, say, separated
from eqrm.cli.options import (
    HELD_OUT,
    SHARE,
    DomainColumns,
    LabelColumn,
    NotWithin,
    PredictionColumn,
    ReadingThreads,
    TestAfter,
    TestDomains,
    TestLast,
    TestShare,
)
from eqrm.errors import SettingError

DATA, WHAT, HOW = "Data", "Correction", "Output"


def recalibrate(
    files: Annotated[
        list[str],
        typer.Argument(
            help="CSV or Parquet files, folders, or patterns such as 'parts/*.parquet'."
        ),
    ],
    domain: DomainColumns = None,
    within: NotWithin = None,
    label: LabelColumn = None,
    prediction: PredictionColumn = None,
    metric: Annotated[
        str | None,
        option("log-loss of probabilities (default), or squared for predicted numbers.", DATA),
    ] = None,
    clip: Annotated[
        float | None,
        option(
            "Least distance of probabilities from 0 and 1, where logits are infinite "
            "(default: 1e-7).",
            DATA,
        ),
    ] = None,
    threads: ReadingThreads = None,
    memory: Annotated[str, option("Memory limit for reading files, such as 2GB.", DATA)] = "600MB",
    alpha: Annotated[str | None, option("Level of the quantile (default: 0.9).", WHAT)] = None,
    scale: Annotated[
        bool | None,
        option("Fit a scale besides the shift (default: yes).", WHAT, "--scale/--no-scale"),
    ] = None,
    correction: Annotated[
        Path | None,
        option("Apply this saved correction instead of fitting one.", WHAT, metavar="FILE"),
    ] = None,
    test_domains: TestDomains = None,
    test_share: TestShare = None,
    order: Annotated[
        str | None,
        option(
            "Column with the time of each row, a date or a number, to fit on the past and "
            f"evaluate on later domains (the last {SHARE} of them unless --test-after or "
            "--test-last says otherwise). Default with these two: the domain.",
            HELD_OUT,
            metavar="COLUMN",
        ),
    ] = None,
    test_after: TestAfter = None,
    test_last: TestLast = None,
    seed: Annotated[int | None, option("Random seed of the split (default: 0).", HELD_OUT)] = None,
    confidence: Annotated[
        float | None,
        option(
            f"Confidence level of intervals and certificates, {CONFIDENCE.words} (default: 0.95).",
            HOW,
        ),
    ] = None,
    save: Annotated[
        Path | None, option("File to write the correction to, as JSON.", HOW, metavar="FILE")
    ] = None,
    output: Annotated[
        Path | None,
        option(
            "File to write all rows with corrected predictions to, ending in .csv or .parquet.",
            HOW,
            metavar="FILE",
        ),
    ] = None,
) -> None:
    """Correct predictions so that the quantile of risk over domains is smallest.

    A shift and a scale are fitted on some domains and evaluated on the others,
    without retraining. With --correction, a saved correction is applied to new
    predictions; labels and domains are not needed then.
    """
    del within  # refused while it is read
    from eqrm.files.writing import whole_file
    from eqrm.tabular.recalibrating.correction_files import SavedCorrection, apply_to_files

    fitting = {
        "--domain": domain,
        "--label": label,
        "--metric": metric,
        "--clip": clip,
        "--alpha": alpha,
        "--scale": scale,
        "--test-domains": separated(test_domains or []) or None,
        "--test-share": test_share,
        "--order": order,
        "--test-after": test_after,
        "--test-last": test_last,
        "--seed": seed,
        "--confidence": confidence,
        "--save": save,
    }
    _refuse(fitting, prediction, correction)
    _refuse_places(files, save, output)
    if correction is None:
        saved = _fit(files, fitting, prediction, threads, memory)
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
            told.append(apply_to_files(files, saved, output, prediction, threads, memory))
    for line in told:
        say(line)


def _fit(
    files: list[str],
    given: dict[str, Any],
    prediction: str | None,
    threads: int | None,
    memory: str,
) -> Any:
    """Fit, and print what was found."""
    from eqrm.tabular.recalibrating.recalibration import RecalibrationPlan, recalibrate_files
    from eqrm.tabular.recalibrating.recalibration_words import recalibration_in_words

    names = {
        "--metric": "metric",
        "--clip": "clip",
        "--scale": "scale",
        "--test-domains": "test_domains",
        "--test-share": "test_share",
        "--order": "order",
        "--test-after": "test_after",
        "--test-last": "test_last",
        "--seed": "seed",
        "--confidence": "confidence",
    }
    chosen = {name: given[key] for key, name in names.items() if given[key] is not None}
    plan = RecalibrationPlan(
        given["--domain"],
        given["--label"],
        str(prediction),
        inner_level(given["--alpha"] or "0.9"),
        threads=threads,
        memory=memory,
        progress=sys.stderr.isatty(),
        **chosen,
    )
    found = recalibrate_files(files, plan)
    say(recalibration_in_words(found))
    return found.saved


def _refuse(fitting: dict[str, Any], prediction: str | None, correction: Path | None) -> None:
    """Refuse options that do not go together, all of them at once."""
    from eqrm.data.splits import IN_TIME, conflicting_splits

    problems = []
    if correction is None:
        needed = {**fitting, "--prediction": prediction}
        missing = [n for n in ("--domain", "--label", "--prediction") if not needed[n]]
        if missing:
            problems.append(f"{', '.join(missing)} must be given to fit a correction.")
        ways = {
            name: fitting[f"--{name.replace('_', '-')}"]
            for name in ("test_domains", "test_share", *IN_TIME)
        }
        problems += conflicting_splits(ways)
        if fitting["--seed"] is not None and any(ways[name] is not None for name in IN_TIME):
            problems.append("--seed has no effect on a split in time: leave it out.")
    else:
        useless = [name for name, value in fitting.items() if value is not None]
        if useless:
            problems.append(
                f"{', '.join(useless)} cannot be combined with --correction, which is applied as "
                "it is."
            )
        if not correction.is_file():
            problems.append(f"The file {str(correction)!r} does not exist.")
    if problems:
        raise SettingError(" ".join(problems))


def _refuse_places(files: list[str], save: Path | None, output: Path | None) -> None:
    """Refuse files to write to that are the data, each other, or cannot be written."""
    from eqrm.data.tables.files import find_files
    from eqrm.files.writing import refuse_unwritable
    from eqrm.tabular.predictions import check_output

    inputs = {path.resolve() for path in find_files(files)}
    for path in (save, output):
        if path is not None and path.resolve() in inputs:
            raise SettingError(f"{path} holds the data. Choose another file to write to.")
    if save is not None:
        refuse_unwritable(save)
    if output is not None:
        check_output(output)
        if save is not None and save.resolve() == output.resolve():
            raise SettingError("--save and --output are the same file. Choose two.")
