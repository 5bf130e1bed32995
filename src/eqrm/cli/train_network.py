"""``eqrm train-network``: train a network from a configuration file, with resumable runs."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eqrm.cli.commands import say
from eqrm.cli.options import DataRoot
from eqrm.text import counted

if TYPE_CHECKING:
    from eqrm.training.held_out_risks import HeldOutRisks
    from eqrm.training.runs.config import RunConfig
    from eqrm.training.trainer import Trained


LEVEL = 0.9
"""Of the references, where the objective has no level of its own."""


def train_network(
    config: Annotated[
        Path, typer.Argument(help="YAML file that describes the run (fields: docs/training.md).")
    ],
    output: Annotated[
        Path,
        typer.Option(help="Folder for all runs; each is written to a subfolder named by a hash."),
    ] = Path("runs"),
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="Change a field of the configuration, such as training.seed=1 (can be repeated).",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(help="Continue from the latest checkpoint of the run, or start over."),
    ] = True,
    data_root: DataRoot = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Check the configuration and the data, but do not train."),
    ] = False,
) -> None:
    """Train a network from a configuration file, and report its risk on held-out domains.

    Run the same command again to continue a run that was stopped or killed.

    With several processes: torchrun --nproc-per-node 2 -m eqrm.cli train-network CONFIG
    """
    from eqrm.training.processes import TrainingInterrupted, process_group, rank
    from eqrm.training.runs.config import RunConfig
    from eqrm.training.runs.run import run_folder, train_run, trainer_of

    chosen = RunConfig.from_file(config, set_ or [])
    folder = run_folder(chosen, output)
    with process_group():
        if check:
            _note(*trainer_of(chosen, output, data_root=data_root).data.notes)
            say(f"{config} is valid. The run would be written to {folder}")
            return
        try:
            shown = True if sys.stderr.isatty() else partial(say, err=True)
            trained = train_run(
                chosen, output, resume=resume, progress=shown, data_root=data_root, tell=_note
            )
        except TrainingInterrupted as stopped:
            if rank() == 0:
                say(f"eqrm: {stopped}", err=True)
            raise typer.Exit(130) from None
        if rank() == 0:
            _print_result(chosen, trained, folder)


def _print_result(config: RunConfig, trained: Trained, folder: Path) -> None:
    if trained.began_at == trained.steps:
        _note("this run was finished already, so nothing was trained; --no-resume starts it again.")
    early = " (stopped early)" if trained.stopped_early else ""
    say(f"{config.objective.name} on {config.data.dataset}: {trained.steps} steps{early}")
    for name, risks in trained.risks.items():
        accuracy = "" if risks.accuracy is None else f" and mean accuracy {risks.accuracy:.1%}"
        domains = counted(len(risks), "domain")
        say(f"\n{name}: mean risk {risks.mean:.4g}{accuracy} over {domains}")
        if len(risks) > 1:
            _print_beside_references(config, risks)
    if config.objective.name != "erm":
        say(
            "\nERM and its recalibration are references too, which this run does not compute: "
            "train ERM with --set 'objective={name: erm}' --set phases=single, and compare the "
            "tables."
        )
    say(f"\nThe run is in {folder}")


def _print_beside_references(config: RunConfig, risks: HeldOutRisks) -> None:
    """The risks of a split as a table, with constants and the network's own recalibration."""
    from eqrm.evaluation.inference.comparison import SMOOTH
    from eqrm.evaluation.presenting.summary import summarised
    from eqrm.level import Level

    name = config.objective.name
    level = Level.of(getattr(config.objective.make(num_domains=2), "alpha", LEVEL))
    if not 0.0 < level.alpha < 1.0:  # too close to 1 to compare quantiles there
        level = Level(LEVEL)
    found = risks.evaluation(name, level)
    say(found.risk_table(interpolation=SMOOTH).to_text())
    all_together = "" if risks.accuracy is None else "; the accuracy is that of all examples"
    say(f"\nQuantiles are Harrell–Davis estimates{all_together}.")
    summary = summarised(found, level)
    for beside in summary.references.values():
        say(f"\n{beside.sentence}")
    for note in summary.notes:
        say(f"\nNote: {note}")


def _note(*notes: str) -> None:
    for note in notes:
        say(f"Note: {note}", err=True)
