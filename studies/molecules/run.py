"""The reproduction ``molecules``: sweeps that are run or continued, tables, and what they say."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import torch

from eqrm import KDE
from eqrm.evaluation.presenting.plots import new_figure
from eqrm.sweeps.sweep_folder import SweepFolder
from studies.molecules.baselines import baselines, constants
from studies.molecules.findings import DatasetFindings
from studies.molecules.settings import ERM, JUDGED, SIZES, MoleculesSettings, eqrm_label
from studies.molecules.tables import molecules_answer, molecules_checks, tables_of
from studies.outcome import Check, Outcome, Picture, Progress, ResultTable
from studies.swept import (
    FIRST_STAGE,
    SWEEP,
    FinishedSweep,
    SweptStudy,
    absent_data,
    run_stages,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN_UP_TO = 0.995
"""The quantile of ERM's risks at which the picture ends."""


@dataclass
class Molecules(SweptStudy):
    """Quantiles of the risk over unseen scaffolds of HIV and MUV: ERM, and EQRM at five levels.

    Args:
        device, workers: see :class:`~studies.swept.SweptStudy`.

    The sweeps are in ``sweep/DATASET/erm`` and ``sweep/DATASET/eqrm-0``, … of the output folder.
    Give that as a relative path to go on with on another machine: runs name the runs of ERM that
    they begin from by their paths.
    """

    name = "molecules"
    title = "Molecules by scaffold: quantiles of the risk over unseen scaffolds"
    reproduces = "Section 6.2, OGB-MolPCBA's protocol, on the molecules of HIV and MUV"
    sources = (
        "Probable Domain Generalization via Quantile Risk Minimization (NeurIPS 2022), section 6.2 "
        "and appendix",
        "Wu et al., MoleculeNet (2018): HIV and MUV",
        "Hu et al., Open Graph Benchmark (2020): features of atoms and bonds, the network",
    )

    def missing(self, size: str = "full") -> list[str]:
        """What has to be there first: the tables of molecules."""
        return [line for name in SIZES[size].datasets for line in absent_data(name)]

    def compute(self, size: str, seed: int, progress: Progress) -> Outcome:
        """Train what is missing, and tabulate."""
        settings = SIZES[size]
        device = self.device_of_runs(f"{settings.datasets[0]}/{FIRST_STAGE}")
        sweeps, found = [], []
        for number, dataset in enumerate(settings.datasets):
            done, findings = self._dataset(
                dataset, size, seed, device, _part(progress, number, len(settings.datasets))
            )
            sweeps.append(done)
            found.append(findings)
        return _outcome(settings, device, sweeps, found)

    def _dataset(
        self, dataset: str, size: str, seed: int, device: str, progress: Progress
    ) -> tuple[FinishedSweep, DatasetFindings]:
        folder, settings = self.output / SWEEP / dataset, SIZES[size]
        done = run_stages(
            settings.erm_plan(dataset, seed, device),
            lambda start: settings.later_plan(dataset, seed, device, start),
            folder,
            self.workers,
            progress,
            lambda: self.missing(size),
        )
        erm = SweepFolder(folder / FIRST_STAGE)
        runs = {each.trial: erm.of_run(each.run) for each in done.records if each.objective == ERM}
        beside = {
            trial: {
                **constants(run, folder / "constants.json"),
                **baselines(run, folder / f"baselines-{trial}.json", device),
            }
            for trial, run in runs.items()
        }
        return done, DatasetFindings(dataset, settings, done.records, folder, beside)


def _part(progress: Progress, number: int, of: int) -> Progress:
    """The progress of one of several parts."""
    return lambda share, line: progress((number + share) / of, line)


def _outcome(
    settings: MoleculesSettings,
    device: str,
    sweeps: list[FinishedSweep],
    found: list[DatasetFindings],
) -> Outcome:
    every = FinishedSweep.of_several(sweeps)
    checks: list[Check] = [every.check()]
    complete = checks[0].holds
    tables: list[ResultTable] = []
    pictures = []
    for findings in found if complete else []:
        checks += molecules_checks(findings)
        tables += tables_of(findings)
        pictures.append(_picture(findings))
    return Outcome(
        settings={
            **asdict(settings),
            "network": "GIN with a virtual node",
            "device of the runs": device,
            **every.cost,
        },
        checks=checks,
        tables=tables,
        pictures=pictures,
        remarks=[
            "± is the standard error over trials, which have other seeds and the same scaffolds. "
            "Risks of unseen scaffolds are means over their molecules; those of training pool all "
            "labels that are present in a scaffold, as in OGB's code.",
            "Rows of shifted ERM and of constant rates are what could give the same as EQRM: one "
            "number added to all logits of ERM, and each task's rate for every molecule, with and "
            "without such a number. It is sought between −6 and 6; where most scaffolds have no "
            "active molecule, the best may be at that end, and a lower one take the quantile "
            "further towards 0: a prediction that nothing is active has no risk in such scaffolds. "
            "Shifted constants, and what is said of the lowest quantiles and of mean risks, were "
            "added after the first results were seen.",
            "The paper's protocol for OGB-MolPCBA tries 7 learning rates and 7 batch sizes and "
            f"has OGB's split; here {len(settings.rates)} rates and one size, and scaffolds drawn "
            "at random.",
            "Without sampling noise means: shrunk towards the mean as far as the noise allows, "
            "after the variance of true risks was raised by three standard errors. Therefore such "
            "quantiles differ also where the best estimate of that variance is 0 and all may be "
            "noise (100%); small differences between them then say little about true risks.",
            *every.failures,
        ],
        answer="\n\n".join(molecules_answer(each) for each in found) if complete else "",
    )


def _picture(findings: DatasetFindings) -> Picture:
    return Picture(
        f"densities-{findings.dataset}",
        f"{findings.dataset}: densities of the measured risk over unseen scaffolds (kernel density "
        f"estimates, first trial), up to ERM's {SHOWN_UP_TO:g}-quantile; vertical lines are the "
        f"quantiles at {JUDGED[0]:g} (dashed) and {JUDGED[1]:g} (dotted), where they are in sight.",
        lambda: _draw(findings),
    )


def _draw(findings: DatasetFindings) -> Figure:
    figure = new_figure(width=8.0, height=4.0)
    axes = figure.subplots()
    shown = [ERM, *(eqrm_label(level) for level in (0.5, *JUDGED))]
    last = findings.quantiles(ERM, SHOWN_UP_TO)[0]
    grid = torch.linspace(0.0, last, 600, dtype=torch.float64)
    for number, method in enumerate(shown):
        law = KDE(torch.from_numpy(findings.trials(method)[0].risks))
        axes.plot(grid, law.log_prob(grid).exp(), color=f"C{number}", label=method)
        for level, dashes in zip(JUDGED, ("--", ":"), strict=True):
            axes.axvline(
                findings.quantiles(method, level)[0], color=f"C{number}", linestyle=dashes, lw=0.8
            )
    axes.set_yscale("log")
    axes.set_xlim(0.0, last)
    axes.set_xlabel("risk of an unseen scaffold")
    axes.set_ylabel("density")
    axes.legend(frameon=False)
    return figure
