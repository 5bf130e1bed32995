"""The study of PACS: its design, fixed before any of its results was seen.

**Question.** DomainBed's question on the one of its datasets at hand: which accuracy does each
method reach on a domain that it was not trained on?

**Data.** PACS at 128 pixels, scaled to 176. A fifth of every domain is held out, of the test domain
too; the test domain's accuracy is that of the other four fifths.

**Runs.** EfficientNet-lite0 with ImageNet weights, batch norm frozen, 32 images of each of three
training domains in a batch, DomainBed's augmentation, Adam with a learning rate of 1e-4, 1,500
steps, bf16. Every method has the same network, data and number of steps, and one setting of its
own, listed in :meth:`PacsSettings.objectives`. EQRM spends half of its steps on ERM and then
continues with a tenth of the learning rate (in DomainBed: 1e-6 after 2,500 of 5,000 steps); IRM and
VREx have a penalty weight of 1 for 500 steps.
Each of the four domains is left out in turn, with 3 seeds.

**Selection** of the checkpoint, every 300 steps: by the mean accuracy on the held-out fifth of the
training domains, by the 0.75-quantile of the risk there, and the last checkpoint (the oracle has
one setting to choose from, so it selects nothing).

**What must hold.** Every run is finished, and ERM reaches 81.5% on average. Whether EQRM is better
than ERM is a result, not a check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ERM, EXACT, PUBLISHED = "ERM", "EQRM", "EQRM, published gradient"
ALPHA = 0.75


@dataclass(frozen=True)
class PacsSettings:
    """How large the study is.

    ``evaluate_every`` is the number of steps between two checkpoints, ``erm_steps`` how many steps
    of ERM a run of EQRM begins with, and ``annealing`` how many steps IRM and VREx have a penalty
    weight of 1.
    """

    held_out: tuple[str, ...] = ("art_painting", "cartoon", "photo", "sketch")
    pixels: int = 176
    steps: int = 1500
    erm_steps: int = 750
    annealing: int = 500
    evaluate_every: int = 300
    trials: int = 3
    examples: int = 32
    learning_rate: float = 1e-4
    eqrm_rate: float = 1e-5
    least_accuracy: float | None = 81.5

    def plan(self, seed: int, device: str, pretrained: bool | str) -> dict[str, Any]:
        """The sweep, as YAML would hold it (docs/sweeps.md)."""
        on_gpu = device != "cpu"
        return {
            "seed": seed,
            "trials": self.trials,
            "datasets": [
                {
                    "name": "pacs",
                    "settings": {"size": self.pixels},
                    "held_out": list(self.held_out),
                }
            ],
            "objectives": self.objectives(),
            "run": {
                "data": {
                    "validation_examples": 0.2,
                    "split_test_domains": True,
                    "measure_training": False,
                },
                "predictor": {
                    "name": "efficientnet-lite0",
                    "settings": {"pretrained": pretrained, "frozen_batch_norm": True},
                },
                "steps": self.steps,
                "learning_rate": self.learning_rate,
                "phases": "single",
                "batches": {"examples": self.examples},
                "training": {
                    "device": device,
                    "precision": "bf16" if on_gpu else "float32",
                    "cuda_graph": on_gpu,
                    "augment": {},
                    "evaluate_every": self.evaluate_every,
                    "evaluation_batch": 512,
                    "checkpoint_every": None,
                    "log_every": self.evaluate_every,
                    "tensorboard": False,
                },
            },
        }

    def objectives(self) -> list[dict[str, Any]]:
        """Every method with its one setting."""
        then = {"learning_rate": self.eqrm_rate}
        after_erm: list[dict[str, Any]] = [{"objective": "erm", "steps": self.erm_steps}, then]
        annealed: list[dict[str, Any]] = [
            {"steps": self.annealing, "hyperparameters": {"penalty_weight": 1.0}},
            {},
        ]
        published = {"bandwidth": "gaussian-optimal-1.06", "options": {"gradient": "bisection"}}
        return [
            {"name": "erm", "label": ERM},
            {
                "name": "eqrm",
                "label": EXACT,
                "hyperparameters": {"alpha": ALPHA},
                "phases": after_erm,
            },
            {
                "name": "eqrm",
                "label": PUBLISHED,
                "hyperparameters": {"alpha": ALPHA, **published},
                "phases": after_erm,
            },
            {
                "name": "vrex",
                "label": "VREx",
                "hyperparameters": {"penalty_weight": 10.0},
                "phases": annealed,
            },
            {"name": "groupdro", "label": "GroupDRO", "hyperparameters": {"step_size": 0.01}},
            {
                "name": "irm",
                "label": "IRM",
                "hyperparameters": {"penalty_weight": 100.0},
                "phases": annealed,
            },
            {
                "name": "coral",
                "label": "CORAL",
                "hyperparameters": {"penalty_weight": 4.0, "match_means": True},
            },
            {"name": "superquantile", "label": "CVaR", "hyperparameters": {"alpha": ALPHA}},
        ]


SIZES = {
    "full": PacsSettings(),
    "quick": PacsSettings(
        held_out=("photo",),
        pixels=32,
        steps=2,
        erm_steps=1,
        annealing=1,
        evaluate_every=2,
        trials=1,
        examples=2,
        least_accuracy=None,
    ),
}
