"""The evaluation of one or several predictors: measured risks, and what follows from them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eqrm.errors import DomainDataError, SettingError, did_you_mean
from eqrm.evaluation.measured_risks import MeasuredRisks, Name
from eqrm.level import Level

if TYPE_CHECKING:
    pass

if TYPE_CHECKING:
    from eqrm.evaluation.risk_table import RiskTable

LevelLike = Level | float | str
LEVELS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
SUPERQUANTILES = (0.9, 0.95, 0.99)
FORMAT = "eqrm evaluation 1"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Predictors by name, each with its risks on the same domains.

    ``evaluation["ERM"]`` is a ``MeasuredRisks``: names of domains, counts, risks and variances.
    ``loss`` names the loss, ``bounds`` are the least and the largest loss possible (None where
    it has no bound). Made by :func:`eqrm.evaluate`.

    >>> import eqrm
    >>> found = eqrm.evaluate(domains=["a", "a", "b", "b"], losses=[0.1, 0.3, 0.5, 0.9])
    >>> found.domains, found["predictor"].risks.tolist(), found["predictor"].counts.tolist()
    (('a', 'b'), [0.2, 0.7], [2, 2])
    """

    predictors: Mapping[str, MeasuredRisks]
    loss: str
    bounds: tuple[float, float] | None

    @property
    def domains(self) -> tuple[Name, ...]:
        """The names of the domains, the same for all predictors."""
        return next(iter(self.predictors.values())).domains

    @property
    def examples(self) -> int:
        """The number of examples of the first predictor over all domains."""
        return int(next(iter(self.predictors.values())).counts.sum())

    @property
    def all_risks(self) -> NDArray[np.float64]:
        """The risks of all predictors on all domains, one after the other."""
        return np.concatenate([risks.risks for risks in self.predictors.values()])

    def __len__(self) -> int:
        return len(self.predictors)

    def __getitem__(self, predictor: str) -> MeasuredRisks:
        return self.predictors[self._known(predictor)]

    def risk_table(
        self,
        levels: Sequence[LevelLike] = LEVELS,
        superquantiles: Sequence[LevelLike] = SUPERQUANTILES,
        *,
        confidence: float = 0.95,
        worst: int = 5,
        interpolation: str = "step",
        resamples: int = 2000,
        seed: int = 0,
    ) -> RiskTable:
        """Mean, quantiles and superquantiles of risk per predictor, with intervals (§6.2).

        ``worst`` domains are listed for each predictor. ``interpolation`` is "step", the
        paper's quantile, or "linear", numpy's. ``resamples`` and ``seed`` are those of the
        bootstrap over domains behind the intervals of means and superquantiles.
        """
        from eqrm.evaluation.risk_table import risk_table

        return risk_table(
            self.predictors,
            [Level.of(level) for level in levels],
            [Level.of(level) for level in superquantiles],
            confidence=confidence,
            worst=worst,
            interpolation=interpolation,
            resamples=resamples,
            seed=seed,
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything measured, in plain types; :meth:`from_dict` reads it back."""
        return {
            "format": FORMAT,
            "loss": self.loss,
            "bounds": None if self.bounds is None else list(self.bounds),
            "predictors": {name: risks.to_dict() for name, risks in self.predictors.items()},
        }

    def to_json(self) -> str:
        """:meth:`to_dict` as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Evaluation:
        """The evaluation that :meth:`to_dict` described.

        >>> import eqrm
        >>> found = eqrm.evaluate(domains=["a", "a", "b", "b"], losses=[0.1, 0.3, 0.5, 0.9])
        >>> Evaluation.from_dict(found.to_dict()).to_dict() == found.to_dict()
        True
        """
        if not isinstance(content, Mapping) or content.get("format") != FORMAT:
            raise DomainDataError(f"This is no evaluation: its format should be {FORMAT!r}.")
        bounds = content["bounds"]
        return cls(
            {name: MeasuredRisks.from_dict(c) for name, c in content["predictors"].items()},
            content["loss"],
            None if bounds is None else (float(bounds[0]), float(bounds[1])),
        )

    def _known(self, predictor: str | None) -> str:
        """A predictor's name; None means the only one, or the first."""
        if predictor is None:
            return next(iter(self.predictors))
        if predictor not in self.predictors:
            raise SettingError(
                f"There is no predictor {predictor!r}. {did_you_mean(predictor, self.predictors)}"
            )
        return predictor
