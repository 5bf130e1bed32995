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


def main() -> None:
    """Train, and say what the headline's model achieves."""
    data = np.load(sys.argv[1])

    def columns(start: str) -> dict[str, Any]:
        X, names = data[f"{start}X"], data[f"{start}domain"]
        found = {f"x{j + 1}": X[:, j] for j in range(X.shape[1])}
        return {**found, "y": data[f"{start}y"], "site": np.char.add("d", names.astype(str))}

    found = eqrm.train(columns(""), target="y", domain="site", levels=0.9)
    headline = found.summary.split("\n\n")[1]
    fresh, y, domain = columns("fresh_"), data["fresh_y"], data["fresh_domain"]
    names = {"ERM": "ERM", "last line": found.recommended}
    names["headline"] = "ERM"
    if "helps: the" in headline and headline.startswith("Training for"):
        names["headline"] = "α = 0.9"
    elif headline.startswith("Recalibration is enough"):
        names["headline"] = "ERM recalibrated for 0.9"
    told: dict[str, Any] = {"says": headline[:60]}
    for role, name in names.items():
        risks = risks_of(found.models[name].predict(fresh), y, domain)
        told[role] = {"quantile": float(np.quantile(risks, 0.9)), "mean": float(risks.mean())}
    if headline.startswith("Nothing helps"):
        constant = found.evaluation["equal odds" if "equal odds" in headline else "base rate"]
        if "equal odds" in headline:
            told["headline"] = {"quantile": float(np.log(2)), "mean": float(np.log(2))}
        else:
            told["headline"] = {
                "quantile": float(np.quantile(constant.risks, 0.9)),
                "mean": float(constant.risks.mean()),
            }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
