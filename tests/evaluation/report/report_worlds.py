"""Evaluations to make reports of."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import eqrm
from eqrm import Evaluation
from eqrm.risks import MeasuredRisks

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    '"><img src=x onerror=alert(3)>',
    "x'; DROP TABLE domains;--",
    "{{data}}",
    "__proto__",
    "😀🎉",
    "中文 é",
    "a" * 10_000,
]
MODELS = ("ERM", "EQRM", "third")
TWELVE = (
    "ERM",
    "EQRM alpha 0.9",
    "gradient boosting, depth 6",
    "random forest",
    "GroupDRO",
    "mixture-of-experts_large_v2",
    "VREx",
    "IRM penalty 1000",
    "logistic regression",
    "CORAL",
    "neural network",
    "isotonic_calibrated_trees",
)
"""Names as people give them: long, with blanks, hyphens and underscores."""


def measured(
    domains: int = 60,
    models: Sequence[str] = MODELS[:2],
    names: Sequence[str] | None = None,
    seed: int = 0,
    bounds: tuple[float, float] | None = None,
) -> Evaluation:
    """Domains of 20 to 900 examples; the second model has half the spread of the first."""
    generator = np.random.default_rng(seed)
    counts = generator.integers(20, 900, domains)
    hardness = generator.gamma(8.0, 0.06, domains)
    called = list(names or ()) + [f"domain {i:05d}" for i in range(domains - len(names or ()))]
    found = {}
    for i, name in enumerate(models):
        noise = generator.normal(0.0, 0.3, domains) / np.sqrt(counts)
        risks = 0.5 + (hardness - 0.48) / (1 + i) + 0.02 * i + noise
        found[name] = MeasuredRisks.of(called, counts, risks, np.full(domains, 0.09))
    return Evaluation(found, "log-loss", bounds)


def with_references(domains: int = 40, models: Sequence[str] = ("sure",)) -> Evaluation:
    """Predicted probabilities that are too sure, beside constants and recalibrations."""
    rng = np.random.default_rng(0)
    day, logits = np.repeat(np.arange(domains), 50), rng.normal(size=50 * domains)
    label = (rng.random(logits.size) < 1.0 / (1.0 + np.exp(-logits))).astype(int)
    given = {name: 1.0 / (1.0 + np.exp(-(4.0 - i / 4) * logits)) for i, name in enumerate(models)}
    return eqrm.evaluate(domains=day, target=label, predictions=given, references=True)


def sentence_of(evaluation: Evaluation, model: str, alpha: float) -> str:
    """What the certificate says, up to its assumption, which the page states once."""
    return f"{eqrm.evaluation.quantile_bound(evaluation[model].risks, alpha).statement}."


def unpacked(column: dict[str, Any]) -> NDArray[np.float64]:
    """The numbers of a packed column, as the page's script reads them."""
    kept = np.frombuffer(base64.b64decode(column["text"]), np.uint8).reshape(-1, column["bytes"])
    whole = np.zeros((len(kept), 4), np.uint8)
    whole[:, : column["bytes"]] = kept
    shares = whole.view(">f4")[:, 0].astype(np.float64)
    return np.asarray(column["offset"] + column["unit"] * shares)
