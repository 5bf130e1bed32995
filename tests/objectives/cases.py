"""The conformance list. One row brings an objective all shared tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eqrm.objectives import Objective, objective

ALL_TASKS = ("classes", "binary", "regression")
CLASSIFICATION = ("classes", "binary")


@dataclass(frozen=True)
class Case:
    """An objective and what is true of it.

    ``settings`` differ from the defaults where 50 steps with the defaults would not learn the
    toy problem; ``tasks`` are those it works for; ``random`` says whether a loss depends on
    random draws; ``ordered`` whether it depends on the order of the examples;
    ``counts_absent`` whether domains absent from a batch count in its loss.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    tasks: tuple[str, ...] = ALL_TASKS
    random: bool = False
    ordered: bool = False
    counts_absent: bool = False
    label: str = ""

    def make(self) -> Objective:
        return objective(self.name, **self.settings)

    def __str__(self) -> str:
        return self.label or self.name


CASES = (
    Case("erm"),
    Case("eqrm", {"alpha": 0.9}),
    Case("eqrm", {"alpha": 0.9, "distribution": "gaussian"}, label="eqrm-gaussian"),
    Case("eqrm", {"alpha": 0.75, "distribution": "lognormal"}, label="eqrm-lognormal"),
    Case("superquantile", {"alpha": 0.75}),
    Case("superquantile", {"alpha": 0.75, "distribution": "kde"}, label="superquantile-kde"),
    Case("groupdro", {"step_size": 0.1}, counts_absent=True),
    Case("vrex", {"penalty_weight": 1.0}),
    Case("irm", {"penalty_weight": 1.0}),
    Case("irm", {"penalty_weight": 0.01, "unbiased": True}, ordered=True, label="irm-unbiased"),
    Case("iga", {"penalty_weight": 0.1}),
    Case("sd"),
    Case("coral"),
    Case("coral", {"match_means": True}, label="coral-means"),
    Case("mmd", {"penalty_weight": 0.1}),
    Case("dann", {"width": 16}),
    Case("dann", {"width": 16, "gradient_penalty": 1.0, "discriminator_steps": 3}, label="dann-gp"),
    Case("cdann", {"width": 16, "gradient_penalty": 1.0}, tasks=CLASSIFICATION),
    Case("mixup", random=True),
    Case("rsc", tasks=CLASSIFICATION),
    Case("sagnet", tasks=CLASSIFICATION, random=True),
    Case("mldg", {"inner_learning_rate": 0.05}),
    Case("mldg", {"num_splits": 1, "first_order": True}, random=True, label="mldg-one-split"),
    Case("arm", {"context_size": 2, "context_width": 8}),
    Case("mtl"),
    Case("mtl", {"update_rate": 0.5}, label="mtl-slow"),
)
