"""Run by :mod:`studies.policy.experiment` with version 0.2's first release on the path.

It trains as ``eqrm train`` did then, and follows its headline: the model that the verdict favours,
ERM where it cannot tell, a constant where nothing helps. Prints JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

import eqrm


def risks_of(predicted: dict[str, Any], y: Any, domain: Any) -> Any:
    """The risk of each fresh domain."""
    chances = [np.asarray(v) for name, v in predicted.items() if name.startswith("p_")]
    if not chances:
        losses = (np.asarray(predicted["prediction"]) - y) ** 2
    else:
        own = np.take_along_axis(np.column_stack(chances), y[:, None], axis=1)[:, 0]
        losses = -np.log(np.maximum(own, 1e-300))
    return np.bincount(domain, losses) / np.bincount(domain)


def truth(risks: Any) -> dict[str, float]:
    """The quantile and mean of the risks of fresh domains."""
    return {"quantile": float(np.quantile(risks, 0.9)), "mean": float(risks.mean())}


def constant(advised: str, y: Any, rows: int) -> dict[str, Any]:
    """The predictions of a constant."""
    if advised == "mean":
        return {"prediction": np.full(rows, y.mean())}
    shares = np.unique(y, return_counts=True)[1] / len(y)
    if advised == "equal odds":
        shares = np.full(len(shares), 1.0 / len(shares))
    return {f"p_{place}": np.full(rows, share) for place, share in enumerate(shares)}


def main() -> None:
    """Train, and say what the headline's model achieves."""
    data = np.load(sys.argv[1])

    def columns(start: str) -> dict[str, Any]:
        X, names = data[f"{start}X"], data[f"{start}domain"]
        found = {f"x{j + 1}": X[:, j] for j in range(X.shape[1])}
        y = data[f"{start}y"]
        if y.dtype.kind == "i":  # classes: names, so that three are no amounts
            y = np.char.add("class ", y.astype(str))
        return {**found, "y": y, "site": np.char.add("d", names.astype(str))}

    found = eqrm.train(columns(""), target="y", domain="site", levels=0.9)
    headline = " ".join(found.summary.split("\n\n")[1].split())
    fresh, y, domain = columns("fresh_"), data["fresh_y"], data["fresh_domain"]
    names = {"ERM": "ERM", "last line": found.recommended}
    names["headline"] = "ERM"
    if "helps: the" in headline and headline.startswith("Training for"):
        names["headline"] = "α = 0.9"
    elif headline.startswith("Recalibration is enough"):
        names["headline"] = "ERM recalibrated for 0.9"
    told: dict[str, Any] = {"says": headline[:60]}
    for role, name in names.items():
        told[role] = truth(risks_of(found.models[name].predict(fresh), y, domain))
    advised = headline.partition("Use the simplest, ")[2].partition(".")[0]
    if advised in ("mean", "base rate", "equal odds"):
        told["headline"] = truth(risks_of(constant(advised, columns("")["y"], len(y)), y, domain))
    print(json.dumps(told))


if __name__ == "__main__":
    main()
