"""The reproduction ``colored-mnist``: blocks that are trained or kept, and put together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from eqrm.checks import FLAG, NON_NEGATIVE, POSITIVE_INTEGER, one_of
from eqrm.files.writing import write_text
from eqrm.markup import latex_table, markdown_table
from eqrm.training import TrainingSettings
from studies.base import Study
from studies.choices import names
from studies.colored_mnist.checks import check_mnist
from studies.colored_mnist.experiment import (
    STANDARD_NAME,
    Block,
    MnistStudy,
    SettingResult,
)
from studies.colored_mnist.findings import MnistFindings
from studies.colored_mnist.presentation import (
    draw_figure,
    mnist_answer,
    mnist_remarks,
    mnist_tables,
    table_lines,
)
from studies.colored_mnist.settings import (
    INITIALISATIONS,
    NAMES,
    PRETRAINED,
    RANDOM,
    SIZES,
    WITH_STEPS,
    MnistSettings,
    TableSetting,
)
from studies.outcome import Outcome, Picture, Progress
from studies.swept import absent_data

PARTS = "parts"
PRODUCTS = ("float16", "tf32", "float32")
ORDER = ("eqrm", "vrex", "irm", "groupdro", "sd", "erm", "oracle", "iga")
"""What is trained first: the paper's claims, and IGA, whose steps are the longest, at the end."""


@dataclass
class ColoredMnist(Study):
    """Table 1 and Figure 3 E and F.

    Args:
        methods: some of erm, irm, groupdro, sd, iga, vrex, eqrm, oracle, as a list or separated
            by commas; all unless given.
        initialisations: the same of random, erm.
        grids: the same of paper, published.
        candidates: whether to train what may explain differences from the paper.
        seeds: how many, if not those of the size.
        products: factors of matrix products on a GPU: float16, tf32 or float32.
        device: cpu, cuda or cuda:NUMBER; cuda where there is one, unless given.
        minutes: begin no further block after so many; 0 puts together what is there.

    Results of each setting are kept in ``parts`` in the output folder, and are not computed again.
    """

    methods: Sequence[str] | str | None = None
    initialisations: Sequence[str] | str | None = None
    grids: Sequence[str] | str | None = None
    candidates: bool = True
    seeds: int | None = None
    products: str | None = None
    device: str | None = None
    minutes: float | None = None

    beside = ("device", "minutes")
    name = "colored-mnist"
    title = "ColoredMNIST: all methods, with and without ERM pretraining"
    reproduces = "Table 1 and Figure 3 E and F"
    sources = (
        "Numbers and claims: Probable Domain Generalization via Quantile Risk Minimization "
        "(NeurIPS 2022), §6.1, Table 1, the caption of Figure 3, appendix E",
        "Settings: the same, and the published code where the paper is silent (three hidden "
        "layers, steps and constant rate of ERM and the oracle, loss scalings, its own grid)",
        "MNIST: LeCun, Cortes & Burges; see docs/data.md",
    )

    def missing(self, size: str = "full") -> list[str]:
        """What has to be there first: the digits."""
        return absent_data("mnist")

    def compute(self, size: str, seed: int, progress: Progress) -> Outcome:
        """Train what is missing, and put all results together; Table 1 is kept in print."""
        settings = self._settings(size)
        device = TrainingSettings(device=self.device or "auto").torch_device()
        parts = self.output / PARTS
        parts.mkdir(parents=True, exist_ok=True)
        study = MnistStudy(settings, parts, seed * settings.seeds, device)
        blocks = self._blocks(settings)
        unfinished = self._train(study, blocks, progress)
        findings = _put_together(study, blocks, unfinished)
        lines = table_lines(findings)
        write_text(self.output / "table_1.md", f"{markdown_table(lines, escaped=False)}\n")
        write_text(self.output / "table_1.tex", f"{latex_table(lines)}\n")
        timings = {"training and measuring": sum(cost.seconds for cost in findings.costs)}
        checks = check_mnist(findings, size)
        return Outcome(
            settings=_shown(findings),
            checks=checks,
            tables=mnist_tables(findings),
            pictures=_pictures(findings),
            remarks=mnist_remarks(findings),
            timings=timings,
            answer=mnist_answer(findings, checks),
        )

    def _settings(self, size: str) -> MnistSettings:
        found = SIZES[size]
        FLAG.check(self.candidates, "candidates")
        if self.minutes is not None:
            NON_NEGATIVE.check(self.minutes, "minutes")
        if self.seeds is not None:
            found = replace(found, seeds=POSITIVE_INTEGER.check(self.seeds, "seeds"))
        if self.products is not None:
            products = one_of(self.products, PRODUCTS, "products")
            found = replace(found, recipe=replace(found.recipe, products=products))
        wanted = names(self.grids, list(found.grids), "grid")
        return replace(found, grids={name: found.grids[name] for name in wanted})

    def _blocks(self, settings: MnistSettings) -> list[Block]:
        """The paper's grid, the figure, the published grid from ERM's weights, candidates, rest."""
        methods = names(self.methods, list(NAMES), "method")
        starts = list(settings.initialisations)
        if self.initialisations is not None:
            starts = names(self.initialisations, list(INITIALISATIONS), "initialisation")

        def of(grid: str, start: str) -> list[Block]:
            found = []
            for method in (name for name in ORDER if name in methods):
                if (start == RANDOM) if method in WITH_STEPS else (start in starts):
                    values = settings.grids.get(grid, {}).get(method, ())
                    chosen = tuple(TableSetting(method, start, value) for value in values)
                    found.append(Block(STANDARD_NAME, settings.recipe, chosen))
            return found

        blocks = of("paper", PRETRAINED)
        if "eqrm" in methods and PRETRAINED in starts:
            figure = tuple(settings.figure_settings())
            blocks.append(Block(STANDARD_NAME, settings.recipe, figure))
        blocks += of("paper", RANDOM) + of("published", PRETRAINED)
        if self.candidates:
            for name, candidate in settings.candidates.items():
                chosen = tuple(s for s in candidate.settings if s.method in methods)
                blocks.append(Block(name, candidate.recipe, chosen))
        blocks += of("published", RANDOM)
        return [block for block in blocks if block.settings]

    def _train(self, study: MnistStudy, blocks: list[Block], progress: Progress) -> list[str]:
        """Train what is missing; the titles of blocks that there was no time for."""
        begin, unfinished = time.monotonic(), []
        for block in blocks:
            study.missing(block)  # results of another study are refused before hours of training
        for number, block in enumerate(blocks):
            left = study.missing(block)
            if not left.settings:
                continue
            if self.minutes is not None and time.monotonic() - begin >= 60.0 * self.minutes:
                unfinished.append(left.title)
                continue

            def show(done: int, total: int, at: int = number, title: str = left.title) -> None:
                progress((at + done / total) / len(blocks), title)

            study.on_step = show
            study.train(left)
        return unfinished


def _put_together(study: MnistStudy, blocks: list[Block], unfinished: list[str]) -> MnistFindings:
    standard: dict[TableSetting, SettingResult] = {}
    changed: dict[str, dict[TableSetting, SettingResult]] = {}
    for block in blocks:
        own = standard
        if block.recipe_name != STANDARD_NAME:
            own = changed.setdefault(block.recipe_name, {})
        for setting in block.settings:
            result = study.load(block.recipe_name, block.recipe, setting)
            if result is not None:
                own[setting] = result
    return MnistFindings(study.settings, standard, changed, unfinished)


def _shown(findings: MnistFindings) -> dict[str, Any]:
    """The settings for the page, and where the blocks were trained."""
    settings, costs = findings.settings, findings.costs
    return {
        "seeds": settings.seeds,
        **asdict(settings.recipe),
        "grids": {name: dict(grid) for name, grid in settings.grids.items()},
        "devices": ", ".join(dict.fromkeys(cost.device for cost in costs)),
        "versions": "; ".join(dict.fromkeys(cost.versions for cost in costs)),
    }


def _pictures(findings: MnistFindings) -> list[Picture]:
    if len(findings.figure()) < 2:
        return []
    return [
        Picture(
            "figure-3-e-f",
            "E: accuracy over increasingly different test domains, by the level α that EQRM was "
            "trained for; dots are validation digits in the training domains. F: the estimated "
            "law of the accuracy over the test domains of E.",
            lambda: draw_figure(findings),
        )
    ]
