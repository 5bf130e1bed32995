"""The study of selection rules: its design, and what of it was set after something was seen.

**Question.** Hyperparameters and checkpoints are selected on validation days. Does it pay to
select by the α-quantile of the risk over these days instead of its mean?

**Data.** Flights by day, without weather. 10 random splits of the days: 40% train, 20% validate,
40% are unseen until all has been selected.

**Runs.** In each split 20 draws of an MLP's hyperparameters (draw 0: the defaults) for ERM, and 20
for EQRM at 0.9 (a third of the steps ERM, then EQRM with a memory of every day's risk). Splits have
draws of their own, so that intervals over splits count the luck of the draws too. A split is one
sweep (:mod:`eqrm.sweeps`). Drawn are learning rate, width, depth, dropout, weight decay and batch
size; the learning rate falls to 0 along a cosine. Checkpoints are measured at equal distances.

**Selection** among all draws and checkpoints by the mean, and by the 0.5-, 0.9- and 0.95-quantile
of the risk over validation days: among runs of ERM; among runs of EQRM, checkpoints of their ERM
phase included or not; and among the runs of both objectives, where the rule chooses the objective
as well.

**Set later.** The rest was fixed before any result was seen. Seven runs of another seed were
trained to find the number of steps, which was then lowered to what the time allows. They also led
to the group in which checkpoints of EQRM's ERM phase are left out: the mean risk is lower in that
phase, so that selection by the mean can take ERM by another name. The row of equal odds, and the
advice that rests on it, were added after the results of the full study; no comparison or check was
changed then.

**Measured** on unseen days: the mean and the three quantiles of the selected. Differences to
selection by the mean are paired by split, and relative. References: the best candidate in
hindsight, by the unseen days themselves (for each measure its own); a random draw (the mean over
draws, last checkpoint); the defaults (draw 0, last checkpoint); and linear ERM.

**What must hold.** Every run is finished; networks have converged; no selection beats hindsight;
the selected MLP is no worse than linear ERM, selection no worse than a random draw, and selection
by a quantile no worse at its own level than selection by the mean, each up to a tolerance on the
mean over splits. Whether one rule is better than the other is a result, not a check.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

LEVELS = (0.5, 0.9, 0.95)
MAIN_LEVEL = 0.9
"""The level of EQRM, and of the answer."""
ERM, EQRM, LINEAR = "ERM", f"EQRM at {MAIN_LEVEL:g}", "linear ERM"
OBJECTIVES = (ERM, EQRM)
WITH_ERM_PHASE, EITHER = f"{EQRM}, ERM phase included", f"ERM and {EQRM}"
GROUPS = (*OBJECTIVES, WITH_ERM_PHASE, EITHER)
"""What is selected among: the checkpoints of an objective's runs (those of EQRM without its ERM
phase unless it is named), or of the runs of both."""

RATE, WIDTH, DEPTH = "learning_rate", "predictor.settings.width", "predictor.settings.depth"
DROPOUT, DECAY = "predictor.settings.dropout", "training.optimizer.weight_decay"
EXAMPLES = "batches.examples"
SEARCH: dict[str, Any] = {
    RATE: {"log-uniform": [3e-4, 3e-2]},
    WIDTH: [8, 16, 32, 64],
    DEPTH: [1, 2, 3],
    DROPOUT: [0.0, 0.1, 0.3],
    DECAY: {"log-uniform": [1e-6, 1e-2]},
}


def split_seed(seed: int, split: int) -> int:
    """The seed of a split's sweep, which has draws of its own."""
    digest = hashlib.sha256(json.dumps([seed, "split", split]).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


@dataclass(frozen=True)
class SelectionSettings:
    """How large the study is.

    A batch holds ``batch_domains`` days and of each so many flights as is drawn from
    ``batch_examples``, by default the most. ``checkpoints`` is the number of evaluations of a run.
    A run has converged when its mean validation risk changed by at most ``largest_drift`` from the
    last checkpoint but one to the last, as a share; ``tolerance`` is that of comparisons.
    """

    dataset: str = "flights"
    splits: int = 10
    draws: int = 20
    test: float = 0.4
    validation: float = 0.2
    steps: int = 360
    checkpoints: int = 6
    batch_domains: int = 32
    batch_examples: tuple[int, ...] = (16, 32, 64)
    largest_drift: float = 0.01
    tolerance: float = 0.01

    @property
    def erm_steps(self) -> int:
        """The steps of ERM that a run of EQRM begins with."""
        return self.steps // 3

    @property
    def test_to_train(self) -> float:
        """Unseen days per day that was trained or selected on."""
        return self.test / (1.0 - self.test)

    @property
    def search(self) -> dict[str, Any]:
        """What is drawn, and from what."""
        return {**SEARCH, EXAMPLES: list(self.batch_examples)}

    def plan(self, seed: int, split: int) -> dict[str, Any]:
        """The sweep of a split, as YAML would hold it (docs/sweeps.md)."""
        eqrm = {
            "name": "eqrm",
            "label": EQRM,
            "hyperparameters": {"alpha": MAIN_LEVEL},
            "memory": {"averaging": 0.3},
            "phases": [{"objective": "erm", "steps": self.erm_steps}, {}],
        }
        return {
            **self._shared(seed, split, "mlp", {"width": 32, "depth": 2}),
            "objectives": [{"name": "erm", "label": ERM}, eqrm],
            "draws": self.draws,
            "search": self.search,
        }

    def linear_plan(self, seed: int, split: int) -> dict[str, Any]:
        """The sweep of linear ERM: one run, on the same days."""
        return {
            **self._shared(seed, split, "linear", {}),
            "objectives": [{"name": "erm", "label": LINEAR}],
        }

    def _shared(
        self, seed: int, split: int, predictor: str, settings: dict[str, Any]
    ) -> dict[str, Any]:
        every = self.steps // self.checkpoints
        return {
            "seed": split_seed(seed, split),
            "datasets": [
                {"name": self.dataset, "held_out": {"share": self.test, "splits": 1}},
            ],
            "run": {
                "data": {"validation": self.validation, "measure_training": False},
                "batches": {"domains": self.batch_domains, "examples": max(self.batch_examples)},
                "predictor": {"name": predictor, "settings": settings},
                "steps": self.steps,
                "learning_rate": 5e-3,
                "schedule": "cosine",
                "phases": "single",
                "training": {
                    "device": "cpu",
                    "evaluate_every": every,
                    "evaluation_batch": 8192,
                    "checkpoint_every": None,
                    "log_every": every,
                },
            },
        }


SIZES = {
    "full": SelectionSettings(),
    "quick": SelectionSettings(
        splits=2, draws=2, steps=90, checkpoints=3, largest_drift=0.05, tolerance=0.05
    ),
}
