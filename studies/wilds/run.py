"""The reproduction ``wilds``: ERM, then EQRM from its weights, and quantiles of test risks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eqrm.checks import POSITIVE_INTEGER, one_of
from eqrm.errors import SettingError
from eqrm.sweeps import sweep_tables
from eqrm.sweeps.records import RunRecord
from eqrm.sweeps.selection import TrainingDomainValidation
from eqrm.sweeps.tables.cells import ERROR_NOTE, SweepTables
from eqrm.sweeps.tables.tabulating import TableSettings
from studies.outcome import Outcome, Progress
from studies.swept import (
    FIRST_STAGE,
    SWEEP,
    SweptStudy,
    absent_data,
    absent_weights,
    result_tables,
    run_stages,
)

LEVELS = (0.25, 0.5, 0.75, 0.9, 0.99)
RATES = tuple(10.0**-power for power in range(2, 9))
ERM, RISK = "ERM", "risk"
BY_RISK, BY_METRIC = "validation", "validation-metric"


@dataclass(frozen=True)
class WildsProtocol:
    """What WILDS and the paper's appendix say about a dataset.

    ``erm`` is the batch of ERM, drawn evenly from all examples; ``batches`` are those of EQRM that
    are tried, in examples, a quarter of them domains. ``evaluate_every`` is in epochs. WILDS
    selects by the ``metric`` of all validation examples.
    """

    predictor: dict[str, Any]
    loss: str
    metric: str
    epochs: int
    rate: float
    erm: int
    batches: tuple[int, ...]
    evaluate_every: int
    pretrained: bool = False


PROTOCOLS = {
    "iwildcam": WildsProtocol(
        {"name": "resnet50"}, "cross-entropy", "macro-f1", 12, 3e-5, 16, (32,), 1, pretrained=True
    ),
    "ogb-molpcba": WildsProtocol(
        {"name": "gin", "settings": {"width": 300, "depth": 5, "dropout": 0.5}},
        "binary-cross-entropy",
        "average-precision",
        100,
        1e-3,
        32,
        (32, 64, 128, 256, 512, 1024, 2048),
        10,
    ),
}


@dataclass
class Wilds(SweptStudy):
    """Test-domain risks of ERM and of EQRM at five levels, begun from ERM's weights.

    Args:
        dataset: iwildcam or ogb-molpcba.
        pretrained: for iWildCam, the file with the ImageNet weights of ResNet-50; False for random
            weights.
        predictor: another network, as the field of a configuration.
        epochs, eqrm_epochs: of ERM, in place of WILDS's; and of EQRM, which the paper does not
            say: as many as of ERM unless given.
        rates, batches: learning rates and batch sizes of EQRM, in place of the paper's.
        examples: of each domain in a batch of EQRM.
        trials: repetitions with other seeds.
        settings: of the dataset, such as the size of images.
        device, workers: see :class:`~studies.swept.SweptStudy`.

    The sweeps are in ``sweep/erm`` and ``sweep/eqrm-0``, ``sweep/eqrm-1``, … of the output folder.
    Give that as a relative path to go on with on another machine: the runs of EQRM name those of
    ERM by their paths.
    """

    dataset: str = "iwildcam"
    pretrained: str | bool | None = None
    predictor: dict[str, Any] | None = None
    epochs: int | None = None
    eqrm_epochs: int | None = None
    rates: list[float] | None = None
    batches: list[int] | None = None
    examples: int = 4
    trials: int = 3
    settings: dict[str, Any] | None = None

    name = "wilds"
    title = "WILDS: quantiles of the risk over test domains"
    reproduces = "Section 6.2: quantile tables of iWildCam and OGB-MolPCBA (needs their data)"
    sources = (
        "Probable Domain Generalization via Quantile Risk Minimization (NeurIPS 2022), section 6.2 "
        "and appendix",
        "Koh et al., WILDS: A Benchmark of in-the-Wild Distribution Shifts (2021)",
    )

    def __post_init__(self) -> None:
        one_of(self.dataset, PROTOCOLS, "dataset of WILDS")
        self.protocol = PROTOCOLS[self.dataset]

    def missing(self, size: str = "full") -> list[str]:
        """What has to be there first: the data, and the weights to start from."""
        found = absent_data(self.dataset)
        if self.protocol.pretrained and self.predictor is None:
            found += absent_weights(self.pretrained, "resnet50")
        return found

    def erm_plan(self, seed: int) -> dict[str, Any]:
        """The sweep of ERM, as YAML would hold it (docs/sweeps.md)."""
        batches = {"domains": self.protocol.erm, "examples": 1, "over": "examples"}
        batches |= {"repeat_domains": True, "repeat_examples": True}
        own = {"steps": self.epochs or self.protocol.epochs, "batches": batches}
        return {
            **self._shared(seed, {**own, "learning_rate": self.protocol.rate}),
            "trials": POSITIVE_INTEGER.check(self.trials, "trials"),
            "objectives": [{"name": "erm", "label": ERM}],
        }

    def eqrm_plan(self, seed: int, start: Path) -> dict[str, Any]:
        """The sweep of EQRM from the weights of a run of ERM."""
        steps = self.eqrm_epochs or self.epochs or self.protocol.epochs
        sizes = self.batches or list(self.protocol.batches)
        return {
            **self._shared(seed, {"steps": steps, "batches": {"examples": self.examples}}, start),
            "trials": 1,
            "objectives": [
                {"name": "eqrm", "label": f"EQRM α={level:g}", "hyperparameters": {"alpha": level}}
                for level in LEVELS
            ],
            "grid": {
                "learning_rate": self.rates or list(RATES),
                "batches.domains": [max(2, size // self.examples) for size in sizes],
            },
        }

    def _shared(self, seed: int, run: dict[str, Any], start: Path | None = None) -> dict[str, Any]:
        predictor = {"loss": self.protocol.loss, **(self.predictor or self.protocol.predictor)}
        if isinstance(self.pretrained, str):
            own = {**predictor.get("settings", {}), "pretrained": self.pretrained}
            predictor = {**predictor, "settings": own}
        if start is not None:
            predictor["start_from"] = start.as_posix()
        return {
            "seed": seed,
            "datasets": [
                {"name": self.dataset, "settings": self.settings or {}, "held_out": [["test"]]}
            ],
            "run": {
                "data": {"validation": ["val"]},
                "predictor": predictor,
                "phases": "single",
                "unit": "epochs",
                "training": {
                    "device": self.device_of_runs(FIRST_STAGE),
                    "evaluate_every": self.protocol.evaluate_every,
                    "checkpoint_every": 1,
                    "domains_listed": None,
                    "metrics": [self.protocol.metric],
                },
                **run,
            },
        }

    def compute(self, size: str, seed: int, progress: Progress) -> Outcome:
        """Train what is missing, and tabulate beside the paper's numbers."""
        if size == "quick":
            raise SettingError(
                "wilds has no quick size. Choose a smaller one yourself, for example with --set "
                "epochs=1 --set eqrm_epochs=1 --set trials=1."
            )
        whole = run_stages(
            self.erm_plan(seed),
            lambda start: self.eqrm_plan(seed, start),
            self.output / SWEEP,
            self.workers,
            progress,
            self.missing,
        )
        tables = wilds_tables(whole.records, self.protocol.metric)
        return Outcome(
            settings={"dataset": self.dataset, **self.given, **whole.cost},
            checks=[whole.check()],
            tables=result_tables(tables),
            pictures=[],
            remarks=[
                ERROR_NOTE,
                "Runs and checkpoints are selected by the mean risk over validation domains (rule "
                f"{BY_RISK}), and by the {self.protocol.metric} of all validation examples (rule "
                f"{BY_METRIC}), as WILDS does.",
                *tables.unjudged,
                *whole.failures,
            ],
        )


def wilds_tables(records: Sequence[RunRecord], metric: str) -> SweepTables:
    """Risks with their quantiles, and the metric of WILDS: of what each of two rules selects.

    The rules are the mean risk over validation domains, and the metric of all validation examples.
    """
    rules = {
        BY_RISK: TrainingDomainValidation(metric=RISK),
        BY_METRIC: TrainingDomainValidation(metric=metric, pooled=True),
    }
    risks = sweep_tables(records, rules, TableSettings(metric=RISK))
    metrics = sweep_tables(records, rules, TableSettings(metric=metric, pooled=True))
    others = [table for table in metrics.tables if table.kind != "quantiles"]
    unjudged = dict.fromkeys((*risks.unjudged, *metrics.unjudged))
    return replace(risks, tables=(*risks.tables, *others), unjudged=tuple(unjudged))
