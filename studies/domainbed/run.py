"""The reproduction ``domainbed``: all methods of the paper's tables on a dataset of DomainBed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eqrm.errors import SettingError
from eqrm.objectives import OBJECTIVES
from eqrm.sweeps import sweep_tables
from eqrm.sweeps.selection import SELECTION_RULES
from eqrm.sweeps.tables.cells import ERROR_NOTE
from studies.outcome import Outcome, Progress
from studies.swept import (
    SweptStudy,
    absent_data,
    absent_weights,
    result_tables,
)

METHODS = (
    "erm", "irm", "groupdro", "mixup", "mldg", "coral", "mmd", "dann", "cdann", "mtl", "sagnet",
    "arm", "vrex", "rsc", "eqrm",
)  # fmt: skip
"""Those of the paper's tables."""
RULES = ("training-domain", "oracle")
"""Selection rules of the paper's tables."""
FOLDERS_OF_IMAGES = ("domainnet", "officehome", "pacs", "terraincognita", "vlcs")
KNOWN = ("colored-mnist", "rotated-mnist", *FOLDERS_OF_IMAGES)
NETWORK = "resnet50"


@dataclass
class DomainBed(SweptStudy):
    """DomainBed's protocol: leave one domain out, 20 draws of hyperparameters, 3 trials.

    Args:
        dataset: one of DomainBed's: pacs, vlcs, officehome, terraincognita, domainnet,
            colored-mnist or rotated-mnist.
        pretrained: the file with the ImageNet weights of ResNet-50 that networks of large images
            start from; False for random weights.
        predictor: a network in place of ResNet-50, such as resnet18.
        objectives: methods, in place of those of the paper's tables.
        draws, trials, steps: in place of those of the protocol.
        device, workers: see :class:`~studies.swept.SweptStudy`.
    """

    dataset: str = "pacs"
    pretrained: str | bool | None = None
    predictor: str | None = None
    objectives: list[str] | str | None = None
    draws: int | None = None
    trials: int | None = None
    steps: int | None = None

    name = "domainbed"
    title = "DomainBed's protocol"
    reproduces = "Section 6.3 and appendix: accuracies by DomainBed's protocol (needs its data)"
    sources = (
        "Probable Domain Generalization via Quantile Risk Minimization (NeurIPS 2022), section 6.3",
        "Gulrajani & Lopez-Paz, In Search of Lost Domain Generalization (2021); docs/domainbed.md",
    )

    def __post_init__(self) -> None:
        self.dataset = str(self.dataset).lower()
        if self.dataset not in KNOWN:
            raise SettingError(
                f"The protocol of DomainBed has no dataset {self.dataset!r}. Choose from: "
                f"{', '.join(KNOWN)}."
            )
        if self.objectives is not None:
            self.objectives = self.methods

    @property
    def methods(self) -> list[str]:
        """The methods that are compared."""
        chosen = self.objectives or METHODS
        parts = chosen.split(",") if isinstance(chosen, str) else chosen
        return [OBJECTIVES.name_of(each.strip()) for each in parts]

    def missing(self, size: str = "full") -> list[str]:
        """What has to be there first: the data, and the weights to start from."""
        found = absent_data(self.dataset)
        if self.dataset in FOLDERS_OF_IMAGES:
            found += absent_weights(self.pretrained, self.predictor or NETWORK)
        return found

    def plan(self, size: str, seed: int) -> dict[str, Any]:
        """The sweep, as YAML would hold it (docs/sweeps.md)."""
        quick = {"draws": 1, "trials": 1} if size == "quick" else {}
        numbers = {"draws": self.draws, "trials": self.trials}
        own = {name: value for name, value in numbers.items() if value is not None}
        training = {"device": self.device_of_runs(), "checkpoint_every": None}
        run: dict[str, Any] = {"training": training}
        if self.steps is not None:
            run["steps"] = self.steps
        network: dict[str, Any] = {} if self.predictor is None else {"name": self.predictor}
        if self.dataset in FOLDERS_OF_IMAGES and isinstance(self.pretrained, str):
            network["settings"] = {"pretrained": self.pretrained}
        if network:
            run["predictor"] = network
        return {
            "protocol": "domainbed",
            "seed": seed,
            "datasets": [self.dataset],
            "objectives": self.methods,
            "run": run,
            **quick,
            **own,
        }

    def compute(self, size: str, seed: int, progress: Progress) -> Outcome:
        """Train what is missing, and tabulate beside the paper's numbers."""
        done = self.swept(self.plan(size, seed), progress)
        rules = {name: SELECTION_RULES.load(name)() for name in RULES}
        tables = sweep_tables(done.records, rules)
        return Outcome(
            settings={
                "protocol": "DomainBed's",
                "dataset": self.dataset,
                **self.given,
                **done.cost,
            },
            checks=[done.check()],
            tables=result_tables(tables),
            pictures=[],
            remarks=[
                ERROR_NOTE,
                *tables.unjudged,
                *done.failures,
                *(f"Departs from the protocol: {note}." for note in done.notes),
            ],
        )
