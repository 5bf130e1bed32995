"""scikit-learn estimators on real data: which flights arrive late, on days that nobody has seen?

    python examples/estimators_tour.py

Fits ERM and five levels to half of the days of ``eqrm.data.load_flights()`` in a pipeline, prints
their risks on both halves, a certificate, and which level meets a requirement. About 20 seconds.
"""

from __future__ import annotations

from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import eqrm
from eqrm.data.datasets.tables import load_flights


def main() -> None:
    """Everything, from the flights to the answers."""
    train, unseen = load_flights().split(0.5, seed=0)
    X, y, days = train.X_y_groups()
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["hour", "carrier", "origin"]),
        remainder="passthrough",
    )
    pipeline = make_pipeline(encode, eqrm.QRMClassifier())
    path = eqrm.estimators.RiskRobustnessPath(pipeline)
    print(path.fit(X, y, days, held_out=unseen.X_y_groups()).frontier_)

    robust = path.frontier_.trained_for(0.9)
    X_new, y_new, new_days = unseen.X_y_groups()
    certificate = robust[-1].certificate(robust[:-1].transform(X_new), y_new, new_days)
    print(f"\n{certificate.sentence}\n")

    for risk in (0.65, 0.68):
        choice = eqrm.choose_level(pipeline, X, y, days, risk=risk, alpha=0.95)
        print(choice, end="\n\n")


if __name__ == "__main__":
    main()
