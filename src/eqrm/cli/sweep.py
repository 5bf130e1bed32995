"""``eqrm sweep PLAN``: train all runs of a plan; ``eqrm sweep status FOLDER``: how far it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from eqrm.cli.options import DataRoot

RUN = "plan"


class _PlanOrCommand(TyperGroup):
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


@app.command(RUN)
def sweep(
    plan: Annotated[
        Path, typer.Argument(help="YAML file that describes the sweep (fields: docs/sweeps.md).")
    ],
    output: Annotated[
        Path | None,
        typer.Option(help="Folder of the sweep (default: sweeps/ and the name of the plan)."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Runs trained at the same time (default: one per processor)."),
    ] = None,
    threads: Annotated[
        int, typer.Option(min=1, help="Threads per run. They may change the last bits of results.")
    ] = 1,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Train failed runs again.")
    ] = False,
    data_root: DataRoot = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check the plan and its data, but do not train.")
    ] = False,
) -> None:
    """Train all runs of a plan that are not finished, on this machine.

    Run the same command again to continue a sweep that was stopped or killed, or to help one that
    is running.
    """
    from eqrm.files.yaml_text import read_yaml
    from eqrm.sweeps.engines.local import LocalEngine
    from eqrm.sweeps.planned_runs import planned_sweep
    from eqrm.sweeps.progress import sweep_shown
    from eqrm.sweeps.status import failures_in_words
    from eqrm.sweeps.sweep import run_sweep
    from eqrm.sweeps.sweep_folder import SweepFolder
    from eqrm.text import counted

    folder = SweepFolder(output or Path("sweeps") / plan.stem)
    planned = planned_sweep(read_yaml(plan), str(plan), data_root, folder)
    if check:
        runs = counted(planned.number_of_runs, "run")
        typer.echo(f"{plan} is valid: {runs}, which would be written to {folder.path}")
        if planned.notes:
            typer.echo(f"It departs from the protocol {planned.content['protocol']}:")
            typer.echo("\n".join(f"  - {note}" for note in planned.notes))
        return
    at_once = workers or max(1, (os.cpu_count() or 1) // threads)
    engine = LocalEngine(folder.path, at_once, threads, data_root)
    try:
        with sweep_shown(_line) as shown:
            result = run_sweep(planned, folder, engine, retry_failed=retry_failed, shown=shown)
    except KeyboardInterrupt:
        _line("eqrm: Stopped. Run the same command again to continue.")
        raise typer.Exit(130) from None
    pruned = f", {result.pruned:,} pruned" if result.pruned else ""
    typer.echo(f"{counted(result.finished, 'run')} finished{pruned}, in {folder.path}")
    if result.failures:
        typer.echo(failures_in_words(result.failures))
        raise typer.Exit(1)


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(help="Folder of a sweep.")],
) -> None:
    """Show how many runs of a sweep are finished, running, failed and waiting."""
    from eqrm.sweeps.status import sweep_status

    typer.echo(sweep_status(folder).to_text())


def _line(text: str) -> None:
    typer.echo(text, err=True)
