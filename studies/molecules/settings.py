"""The study of molecules: its design, fixed before any of its results was seen.

**Question.** The paper's question on OGB-MolPCBA: does EQRM at the level α have a lower α-quantile
of the risk over unseen scaffolds than the ERM that it begins from?

**Data.** HIV (41,120 molecules, 19,082 scaffolds, one task) and MUV (93,127 molecules, 42,595
scaffolds, 17 tasks of which a molecule has 2.7 on average). A fifth of the scaffolds, drawn at
random, is unseen, a tenth is for validation. OGB's own split puts the largest scaffolds into
training and scaffolds of one molecule into the test data; then training and test domains are not
draws from one distribution, and sampling noise cannot be told from differences.

**Runs.** The paper's protocol. ERM first: a GIN with a virtual node, 100 epochs of Adam with a
learning rate of 1e-3, in batches of 512 molecules drawn evenly from all, stopped early by the mean
risk over validation scaffolds. From its weights: EQRM at five levels, 10 epochs in batches of 256
scaffolds with up to 4 molecules each (the paper's B = 1,024). Every method has two settings, the
learning rates 1e-4 and 1e-5, of which the validation scaffolds choose by what the method minimises:
the α-quantile, or the mean. The risk of a training scaffold pools all labels that are present in
it; the risk of an unseen one averages over its molecules. Each with 3 seeds.

**Beside it** stands what could give the same: ERM, continued in the same batches for as many
epochs; the superquantile at 0.9; ERM with one number added to all of its logits, which minimises
the α-quantile over validation scaffolds; and the constant prediction of each task's rate.

**What must hold.** Every run is finished. At α = 0.9 and 0.99 EQRM's α-quantile of the risk without
sampling noise is below that of ERM in every trial; or, where it is not, the noise split says why it
cannot be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LEVELS = (0.25, 0.5, 0.75, 0.9, 0.99)
QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
JUDGED = (0.9, 0.99)
"""The levels at which EQRM is compared with ERM."""
SUPERQUANTILE_LEVEL = 0.9
ERM, CONTINUED = "ERM", "ERM, continued"
SUPERQUANTILE = f"superquantile {SUPERQUANTILE_LEVEL:g}"
VALIDATION, TEST = "val", "test"


def eqrm_label(level: float) -> str:
    """The name of EQRM at a level."""
    return f"EQRM α={level:g}"


@dataclass(frozen=True)
class MoleculesSettings:
    """How large the study is.

    ``batch`` is the number of molecules in a batch of ERM; ``scaffolds`` and ``examples`` are what
    the other batches hold. ``evaluate_every`` and ``patience`` are of ERM, in epochs and in
    evaluations without a gain.
    """

    datasets: tuple[str, ...] = ("hiv", "muv")
    test_share: float = 0.2
    validation_share: float = 0.1
    epochs: int = 100
    batch: int = 512
    rate: float = 1e-3
    evaluate_every: int = 5
    patience: int = 4
    later_epochs: int = 10
    scaffolds: int = 256
    examples: int = 4
    rates: tuple[float, ...] = (1e-4, 1e-5)
    width: int = 300
    depth: int = 5
    trials: int = 3

    def erm_plan(self, dataset: str, seed: int, device: str) -> dict[str, Any]:
        """The sweep of ERM, as YAML would hold it (docs/sweeps.md)."""
        batches = {"domains": self.batch, "examples": 1, "over": "examples"}
        batches |= {"repeat_domains": True, "repeat_examples": True}
        stopping = {"alpha": None, "patience": self.patience}
        return self._plan(
            dataset,
            seed,
            self.trials,
            [{"name": "erm", "label": ERM}],
            {"steps": self.epochs, "batches": batches, "learning_rate": self.rate},
            {"device": device, "evaluate_every": self.evaluate_every, "early_stopping": stopping},
        )

    def later_plan(self, dataset: str, seed: int, device: str, start: Path) -> dict[str, Any]:
        """The sweep of what begins with the weights of a run of ERM."""
        batches = {"domains": self.scaffolds, "examples": self.examples}
        run = {"steps": self.later_epochs, "batches": batches}
        plan = self._plan(dataset, seed, 1, self.later_methods(), run, {"device": device}, start)
        return {**plan, "grid": {"learning_rate": list(self.rates)}}

    def later_methods(self) -> list[dict[str, Any]]:
        """What begins with ERM's weights."""
        return [
            {"name": "erm", "label": CONTINUED},
            *(
                {"name": "eqrm", "label": eqrm_label(each), "hyperparameters": {"alpha": each}}
                for each in LEVELS
            ),
            {
                "name": "superquantile",
                "label": SUPERQUANTILE,
                "hyperparameters": {"alpha": SUPERQUANTILE_LEVEL},
            },
        ]

    def _plan(
        self,
        dataset: str,
        seed: int,
        trials: int,
        methods: Sequence[dict[str, Any]],
        run: dict[str, Any],
        training: dict[str, Any],
        start: Path | None = None,
    ) -> dict[str, Any]:
        parts = {VALIDATION: self.validation_share, TEST: self.test_share}
        predictor: dict[str, Any] = {
            "name": "gin",
            "loss": "binary-cross-entropy",
            "settings": {"width": self.width, "depth": self.depth, "dropout": 0.5},
        }
        if start is not None:
            predictor["start_from"] = start.as_posix()
        return {
            "seed": seed,
            "trials": trials,
            "datasets": [
                {"name": dataset, "settings": {"parts": parts}, "held_out": [[TEST]]},
            ],
            "objectives": list(methods),
            "run": {
                "data": {"validation": [VALIDATION], "measure_training": False},
                "predictor": predictor,
                "phases": "single",
                "unit": "epochs",
                **run,
                "training": {
                    "domain_risk": "labels",
                    "metrics": ["average-precision", "roc-auc"],
                    "checkpoint_every": None,
                    "evaluation_batch": 2048,
                    "log_every": 100,
                    "domains_listed": None,
                    "tensorboard": False,
                    **training,
                },
            },
        }


SIZES = {
    "full": MoleculesSettings(),
    "quick": MoleculesSettings(
        datasets=("tox21",),
        epochs=1,
        later_epochs=1,
        evaluate_every=1,
        scaffolds=16,
        rates=(1e-4,),
        width=8,
        depth=2,
        trials=2,
    ),
}
