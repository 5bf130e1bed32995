"""The frontier study: methods, their settings, goals, budgets and sizes.

A candidate is a method with one setting: a level, a penalty, or nothing. Every candidate is fitted
to the training half of the domains and measured on the other half; its cross-fitted risks on the
training half are what a choice may look at.
"""

from __future__ import annotations

from dataclasses import dataclass

from eqrm import Level
from eqrm.estimators.selection.surrogates import Surrogate, trained_candidates

GOALS = (0.5, 0.75, 0.9, 0.95, 0.99)
"""The levels whose quantile is wanted."""
MAIN_GOAL = 0.9
BUDGETS = (0.01, 0.02, 0.05, 0.1)
"""How much more mean risk than ERM's is allowed."""
LARGEST_MEAN_EXCESS, LARGEST_EXCESS, LARGEST_COST = 0.01, 0.03, 6.0
DOUBTFUL_EXCESS = 0.02
"""Above it, ``fresh_splits`` more are measured: splits of a small table say little."""
"""What ``surrogate="auto"`` may lose against the best fixed choice, and cost in path fits."""

CONSTANT, EQUAL_ODDS, ERM = "constant", "equal odds", "ERM"
SHIFT, SHIFT_AND_SCALE = "shift", "shift and scale"
ERM_SURROGATE = Surrogate("mean")
CORRECTIONS = (Surrogate(correction=SHIFT), Surrogate(correction=SHIFT_AND_SCALE))
FOLDS = 5
"""Of ``surrogate="auto"``, as these surrogates are."""
RECALIBRATED = {SHIFT: "ERM recalibrated (shift)", SHIFT_AND_SCALE: "ERM recalibrated"}
EQRM, PUBLISHED = "EQRM", "EQRM, published gradient"
GAUSSIAN, EMPIRICAL = "EQRM, Gaussian", "EQRM, empirical"
SUPERQUANTILE, GROUPDRO, VREX, AUTO = "superquantile", "GroupDRO", "VREx", "auto"
METHODS = (
    CONSTANT,
    EQUAL_ODDS,
    ERM,
    *RECALIBRATED.values(),
    EQRM,
    PUBLISHED,
    GAUSSIAN,
    EMPIRICAL,
    SUPERQUANTILE,
    GROUPDRO,
    VREX,
    AUTO,
)
LAWS = {EQRM: "kde", GAUSSIAN: "gaussian", EMPIRICAL: "empirical"}
"""The distribution of the methods that minimise a quantile."""
FEW_GOALS = (0.5, 0.9, 0.99)
"""Of the empirical quantile, which takes the longest, and of rivals in nonlinear models."""
PENALTIES = (0.3, 1.0, 3.0, 10.0, 100.0)
"""VREx's weights, times ERM's mean risk: the penalty then has no unit."""
FEW_PENALTIES = (1.0, 10.0, 100.0)

LINEAR, MLP, XGBOOST, LIGHTGBM = "linear", "mlp", "xgboost", "lightgbm"
MODELS = (LINEAR, MLP, XGBOOST, LIGHTGBM)
L2 = 1e-4


@dataclass(frozen=True)
class Candidate:
    """A method with a setting: a level, a penalty of VREx, or None."""

    method: str
    setting: float | None = None

    @classmethod
    def of(cls, surrogate: Surrogate, goal: float) -> Candidate:
        """What a surrogate of ``surrogate="auto"`` is called here."""
        if surrogate.correction is not None:
            return cls(RECALIBRATED[surrogate.correction], goal)
        if surrogate.level is None:
            return cls(ERM)
        method = EQRM if surrogate.measure == "quantile" else SUPERQUANTILE
        return cls(method, surrogate.level.alpha)

    def __str__(self) -> str:
        return self.method if self.setting is None else f"{self.method} at {self.setting:g}"


@dataclass(frozen=True)
class StudySettings:
    """How large the study is.

    A pair of table and model on which auto's excess is doubtful for some goal is measured on
    ``fresh_splits`` further splits, since the largest of many noisy numbers is large by luck too;
    there without ``rivals``, the methods that auto does not try.
    ``steps`` and ``rates`` are of Adam, which the published gradient needs; ``step_sizes`` are the
    domains per step of the gradient study (None: all), ``step_levels`` its levels. Linear models
    are fitted to at most ``linear_examples`` rows of a domain, others to ``examples``; unseen
    domains are measured on all their rows. ``hidden`` is the width of the MLP, ``rounds`` the
    number of boosted trees.
    """

    splits: int = 10
    fresh_splits: int = 60
    goals: tuple[float, ...] = GOALS
    steps: int = 150
    rates: tuple[float, ...] = (0.01, 0.05)
    step_sizes: tuple[int | None, ...] = (3, 10, 100, None)
    step_levels: tuple[float, ...] = (0.5, 0.75, 0.9)
    linear_examples: int = 300
    examples: int = 100
    hidden: int = 32
    rounds: int = 60
    rivals: bool = True

    def most_examples(self, model: str) -> int:
        """Rows of a training domain that a model gets."""
        return self.linear_examples if model == LINEAR else self.examples

    def surrogates(self, goal: float, model: str) -> tuple[Surrogate, ...]:
        """What ``surrogate="auto"`` trains for a goal."""
        return trained_candidates(Level(goal), few=model != LINEAR)

    def trained(self, model: str) -> list[Candidate]:
        """Everything that is trained, from the lowest level of each method to its highest."""
        tried = {Candidate.of(s, goal) for goal in self.goals for s in self.surrogates(goal, model)}
        tried |= {Candidate(ERM), *(Candidate(EQRM, goal) for goal in self.goals)}
        return self._in_order(tried | self._rivals_of_auto(model) if self.rivals else tried)

    def _rivals_of_auto(self, model: str) -> set[Candidate]:
        few = [goal for goal in self.goals if goal in FEW_GOALS]
        rivals = self.goals if model == LINEAR else few
        found = {Candidate(kind, goal) for kind in (GAUSSIAN, PUBLISHED) for goal in rivals}
        found |= {Candidate(GROUPDRO), *(Candidate(EMPIRICAL, goal) for goal in few)}
        if model in (LINEAR, MLP):
            weights = PENALTIES if model == LINEAR else FEW_PENALTIES
            found |= {Candidate(VREX, weight) for weight in weights}
        return found

    @staticmethod
    def _in_order(candidates: set[Candidate]) -> list[Candidate]:
        return sorted(candidates, key=lambda c: (METHODS.index(c.method), c.setting or 0.0))


SIZES = {
    "full": StudySettings(),
    "quick": StudySettings(
        splits=3,
        fresh_splits=0,
        goals=(0.75, 0.9),
        steps=60,
        rates=(0.03,),
        step_levels=(0.75,),
        rounds=10,
    ),
}
