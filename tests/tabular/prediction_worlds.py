"""Predictions of models that are wrong in another way in each domain."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import expit, softmax


def two_classes(domains: int = 60, each: int = 80, seed: int = 0) -> pd.DataFrame:
    """Too sure by half, and one shift for all."""
    rng = np.random.default_rng(seed)
    day = np.repeat(np.arange(domains), each)
    logits = rng.normal(size=len(day)) * 2.0
    truth = logits + rng.normal(size=domains)[day] - 1.0
    label = (rng.random(len(day)) < expit(truth)).astype(int)
    return pd.DataFrame({"day": day, "label": label, "p": expit(1.5 * logits)}).sample(
        frac=1.0, random_state=seed
    )


def three_classes(domains: int = 40, each: int = 60, seed: int = 0) -> pd.DataFrame:
    """Columns p_cat, p_dog and p_owl."""
    rng = np.random.default_rng(seed)
    day = np.repeat(np.arange(domains), each)
    scores = rng.normal(size=(len(day), 3)) * 2.0
    tilt = np.array([1.0, 0.3, -0.5]) * rng.normal(size=domains)[day][:, None]
    label = (scores + tilt + rng.gumbel(size=scores.shape)).argmax(axis=1)
    frame = pd.DataFrame({"day": day, "label": np.array(["cat", "dog", "owl"])[label]})
    frame[["p_cat", "p_dog", "p_owl"]] = softmax(1.7 * scores, axis=1)
    return frame


def numbers(domains: int = 40, each: int = 50, seed: int = 0) -> pd.DataFrame:
    """Predicted numbers with a wrong slope, far from 0."""
    rng = np.random.default_rng(seed)
    day = np.repeat(np.arange(domains), each)
    p = rng.normal(size=len(day)) * 3.0
    own = rng.normal(size=domains)[day]
    label = 1e4 + 1.5 * p + own + rng.normal(size=len(day)) * np.exp(0.5 * own)
    return pd.DataFrame({"day": day, "label": label, "p": p})
