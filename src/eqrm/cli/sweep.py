"""``eqrm sweep PLAN``: train all runs of a plan; ``eqrm sweep status FOLDER``: how far it is.

``eqrm sweep run FOLDER RUN`` trains one of the runs: what jobs of a cluster call.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from eqrm.cli.commands import PlainCommand, PlainGroup, option, say
from eqrm.cli.options import DataRoot
from eqrm.errors import SettingError
from eqrm.text import counted, did_you_mean, typed

RUN = "plan"
IN_WORDS = {
    "finished": "finished.",
    "failed": "failed: ",
    "stopped": "stopped after saving its state. Run the same command again to continue.",
    "elsewhere": "another process trains it now.",
}


class _PlanOrCommand(PlainGroup):
    """``eqrm sweep plan.yaml`` runs a plan; only a name of a command is one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command in front where it was left out."""
        if args and args[0] not in (*self.commands, "--help"):
            args = [RUN, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_PlanOrCommand,
    no_args_is_help=True,
    help="Train all runs of a plan (eqrm sweep PLAN), or show how far it is.",
)


@app.command(RUN, cls=PlainCommand)
def sweep(
    plan: Annotated[
        Path, typer.Argument(help="YAML file that describes the sweep (fields: docs/sweeps.md).")
    ],
    output: Annotated[
        Path | None, option("Folder of the sweep (default: sweeps/ and the name of the plan).")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Runs trained at the same time (default: one per processor, or what the engine "
            "can take).",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, help="Threads per run (default: 1). They may change the last bits of results."
        ),
    ] = None,
    engine: Annotated[
        str, option("Where runs are trained: local, slurm or ray (docs/clusters.md).")
    ] = "local",
    engine_file: Annotated[
        Path | None, option("YAML file with settings of the engine, such as the partition.")
    ] = None,
    engine_set: Annotated[
        list[str] | None, option("Setting of the engine (can be repeated).", metavar="NAME=VALUE")
    ] = None,
    retry_failed: Annotated[
        bool, option("Train failed runs again.", None, "--retry-failed")
    ] = False,
    data_root: DataRoot = None,
    check: Annotated[
        bool, option("Check the plan and its data, but do not train.", None, "--check")
    ] = False,
) -> None:
    """Train all runs of a plan that are not finished, on this machine or a cluster.

    Run the same command again to continue a sweep that was stopped or killed, or to help one that
    is running.
    """
    from eqrm.files.writing import is_full_disk
    from eqrm.files.yaml_text import read_yaml
    from eqrm.sweeps.engines.base import make_engine
    from eqrm.sweeps.status import failures_in_words, sweep_shown
    from eqrm.sweeps.sweep_folder import SweepFolder

    folder = SweepFolder(output or Path("sweeps") / plan.stem)
    settings = _engine_settings(engine_file, engine_set or [], workers, threads)
    trains = make_engine(engine, folder.path, data_root, settings)
    with nullcontext() if check else trains.warming_up():
        from eqrm.sweeps.planned_runs import planned_sweep  # slow to import, as in workers
        from eqrm.sweeps.sweep import run_sweep

        planned = planned_sweep(read_yaml(plan), str(plan), data_root, folder)
    if check:
        runs = counted(len(planned.runs_listed()), "run")
        say(f"{plan} is valid: {runs}, which would be written to {folder.path}")
        if planned.notes:
            say(f"It departs from the protocol {planned.content['protocol']}:")
            say("\n".join(f"  - {note}" for note in planned.notes))
        return
    try:
        with sweep_shown(partial(say, err=True)) as shown:
            result = run_sweep(planned, folder, trains, retry_failed=retry_failed, shown=shown)
    except KeyboardInterrupt:
        say("eqrm: Stopped. Run the same command again to continue.", err=True)
        raise typer.Exit(130) from None
    except OSError as error:
        if not is_full_disk(error):
            raise
        raise SettingError(
            f"The disk is full: {error.filename or folder.path} cannot be written. No finished run "
            "is lost. Make room, and run the same command again with --retry-failed."
        ) from None
    say(f"{counted(result.finished, 'run')} finished, in {folder.path}")
    if result.finished:
        say(f"Table: eqrm table {typed(folder.path)}")
    if result.failures:
        say(failures_in_words(result.failures))
        raise typer.Exit(1)


@app.command(cls=PlainCommand)
def status(folder: Annotated[Path, typer.Argument(help="Folder of a sweep.")]) -> None:
    """Show how many runs of a sweep are finished, running, failed and waiting."""
    from eqrm.sweeps.status import sweep_status

    say(sweep_status(folder).to_text())


@app.command(cls=PlainCommand)
def run(
    folder: Annotated[Path, typer.Argument(help="Folder of a sweep.")],
    run: Annotated[str, typer.Argument(help="Run of the sweep, by its hash.")],
    threads: Annotated[int, typer.Option(min=1, help="Threads.")] = 1,
    data_root: DataRoot = None,
) -> None:
    """Train one run of a sweep, from its newest checkpoint: what jobs of a cluster call."""
    from eqrm.sweeps.execution import job_run
    from eqrm.sweeps.sweep_folder import SweepFolder

    files = SweepFolder(folder)
    known = [each["run"] for each in files.runs() if each["run"] is not None]
    if run not in known:
        raise SettingError(f"Unknown run {run!r} in {folder}. {did_you_mean(run, known, 3)}")
    outcome = job_run(files, run, data_root, threads)
    say(f"Run {run}: {IN_WORDS[outcome.ending]}{outcome.error}")
    raise typer.Exit({"failed": 1, "stopped": 130}.get(outcome.ending, 0))


def _engine_settings(
    file: Path | None, given: Sequence[str], workers: int | None, threads: int | None
) -> dict[str, Any]:
    """The settings of the engine: a file, then options, the more specific ones last."""
    from eqrm.files.yaml_text import parse_settings, read_yaml

    found: Any = {} if file is None else read_yaml(file)
    if not isinstance(found, dict):
        raise SettingError(f"{file} must hold settings of the engine, NAME: VALUE on each line.")
    named = {"workers": workers, "threads": threads}
    named = {name: value for name, value in named.items() if value is not None}
    return {**found, **parse_settings(given, "--engine-set"), **named}
