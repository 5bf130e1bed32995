"""What ``eqrm train`` is asked for: levels, model, settings; checked before anything is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eqrm.checks import FRACTION, NON_NEGATIVE, SEED, Problems, number, one_of, refuse_unknown
from eqrm.data.tables.encoder import LARGEST_MISSING_SHARE, UNSEEN
from eqrm.data.tables.preprocessor import TASKS
from eqrm.errors import Setting, SettingError
from eqrm.level import MEASURES, WITHOUT_LEVEL, Level

QRM = ("QRMClassifier", "QRMRegressor")
AUTO = "auto"
TREES = ("lightgbm", "xgboost")
"""Libraries of boosted trees, the one to prefer first."""
MODELS: dict[str, tuple[str, str]] = {
    "linear": QRM,
    "mlp": QRM,
    "xgboost": ("XGBQRMClassifier", "XGBQRMRegressor"),
    "lightgbm": ("LGBMQRMClassifier", "LGBMQRMRegressor"),
    "histogram": ("HistogramClassifier", "HistogramRegressor"),
}
"""Name → its classifier and its regressor."""
CHOICES = (AUTO, *MODELS)
TAKES_MISSING = ("xgboost", "lightgbm", "histogram")
"""Models that take missing values as they are."""
DECIDED = ("alpha", "measure", "model", "random_state")
"""Settings that have an option of their own."""
_ANY = ("distribution", "bandwidth", "surrogate", "learning_rate")
_QRM = (
    *("l2", "fit_intercept", "max_steps", "hidden", "erm_steps", "steps"),
    *("domains_per_batch", "examples_per_domain"),
)
_TREES = (
    *("n_estimators", "max_depth", "min_child_weight", "subsample", "colsample_bytree"),
    *("reg_alpha", "reg_lambda", "erm_rounds", "early_stopping_rounds", "validation_fraction"),
    *("booster_params", "callbacks", "n_jobs", "verbose"),
)
MODEL_SETTINGS: dict[str, tuple[str, ...]] = {
    "linear": (*_ANY, *_QRM),
    "mlp": (*_ANY, *_QRM),
    "xgboost": (*_ANY, *_TREES, "gamma"),
    "lightgbm": (*_ANY, *_TREES, "num_leaves", "min_child_samples", "subsample_freq"),
    "histogram": (*_ANY, "max_iter", "max_leaf_nodes", "min_samples_leaf"),
}
"""What ``settings`` takes: parameters of the estimators, which are not imported to check names."""
SURROGATES = ("auto", "eqrm", "none")
"""The last two are the same: the quantile itself, at its level."""
LEVELS = (0.9,)
REFITS = ("chosen", "all")
OWN_FAMILIES = ("linear", "logistic", "boosted trees", "network")
BALANCED = "balanced"
CLASS_WEIGHT = number(1e-6, 1_000_000)
MOST_IN_A_STEP, ROWS_OF_A_BATCH, MOST_DOMAINS = 10_000, 2048, 64
"""A network takes all rows in each step up to the first number; beyond it, batches of these."""


@dataclass(frozen=True)
class TrainingPlan:
    """What to train: plain training and a measure at every level, by kinds of models.

    ``model`` is "auto" (linear and boosted trees), or one kind. ``mean_budget`` is by how much the
    mean risk of a chosen model may be above that of plain training, as a share. ``refit`` is
    "chosen", or "all" to fit every model that is shown to all domains. ``candidates`` are
    estimators of scikit-learn by name, which compete with ours.

    The measure "worst" has the level 1 alone, and "mean" is ERM alone. For the quantile,
    ``surrogate`` is "auto", which chooses by cross-fitting what is minimised for a level, or
    "eqrm" (also "none"), which minimises the level's own quantile. ``settings`` go to the
    estimator as they are; ``unseen`` says what to do about categories that only test domains have.
    ``max_missing`` is the largest share of missing values in a column. ``class_weight`` is
    "balanced", or the weight of each class by name, from 1e-6 to 1,000,000; it multiplies the
    weights of rows.
    """

    levels: tuple[Level, ...]
    model: str = AUTO
    task: str = "auto"
    seed: int = 0
    settings: Mapping[str, Any] | None = None
    unseen: str = "warn"
    measure: str = "quantile"
    surrogate: str = "auto"
    max_missing: float = LARGEST_MISSING_SHARE
    class_weight: str | Mapping[str, float] | None = None
    mean_budget: float = 0.1
    refit: str = "chosen"
    candidates: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, levels: Sequence[Level | float | str] | None = None, **rest: Any) -> TrainingPlan:
        """Levels in any form, each once, in order; None is :data:`LEVELS`.

        >>> TrainingPlan.of(["0.9", 0.5, 0.9]).levels
        (Level(0.5), Level(0.9))
        >>> TrainingPlan.of(measure="worst").levels
        (Level(1.0),)
        """
        problems, found = Problems(), tuple[Level, ...]()
        plan = cls((), **rest)
        for check in (
            lambda: SEED.check(plan.seed, "seed"),
            lambda: one_of(plan.model, CHOICES, "model"),
            lambda: NON_NEGATIVE.check(plan.mean_budget, "mean_budget"),
            lambda: one_of(plan.refit, REFITS, "value of refit"),
            plan._check_candidates,
            lambda: one_of(plan.surrogate, SURROGATES, "surrogate"),
            lambda: one_of(plan.measure, MEASURES, "measure"),
            lambda: one_of(plan.task, TASKS, "task"),
            lambda: one_of(plan.unseen, UNSEEN, "value of unseen"),
            lambda: FRACTION.check(plan.max_missing, "max_missing"),
            plan._check_settings,
            plan._check_class_weight,
        ):
            with problems.noted():
                check()
        with problems.noted():
            found = _levels_of(plan.measure, levels)
        problems.refuse("The plan", alone=True)
        return cls(found, **rest)

    def _check_settings(self) -> None:
        if self.model == AUTO and self.settings:
            raise SettingError(
                f"Settings ({', '.join(self.settings)}) belong to one kind of model: name it with "
                f"{Setting('model')} ({', '.join(MODELS)})."
            )
        if self.model in MODELS:
            known = MODEL_SETTINGS[self.model]
            refuse_unknown(self.settings or {}, known, f"Model {self.model!r}")

    def _check_candidates(self) -> None:
        given = self.candidates
        if not isinstance(given, Mapping | None):
            raise SettingError(
                "candidates must be a mapping of names to estimators, such as {'forest': "
                f"RandomForestClassifier()}}, got {type(given).__name__}."
            )
        for name, each in (given or {}).items():
            good = isinstance(name, str) and name.strip() and name.isprintable()
            if not good or name in OWN_FAMILIES:
                raise SettingError(
                    f"A candidate cannot be called {name!r}: choose a text of one line that is not "
                    f"the name of one of eqrm's models ({', '.join(OWN_FAMILIES)})."
                )
            if isinstance(each, type) or not (hasattr(each, "fit") and hasattr(each, "predict")):
                raise SettingError(
                    f"The candidate {name!r} must be an estimator of scikit-learn that is not "
                    f"fitted (with fit and predict), got {each!r}."
                )

    def _check_class_weight(self) -> None:
        given = self.class_weight
        if given is None or given == BALANCED:
            return
        if isinstance(given, str):
            raise SettingError(
                f"class_weight must be {BALANCED!r} or a weight for each class (CLASS=WEIGHT), got "
                f"{given!r}."
            )
        for name, weight in given.items():
            CLASS_WEIGHT.check(weight, f"The weight of class {name!r}")

    def batches(self, rows: int, domains: int) -> dict[str, int]:
        """Settings of a network that is trained on many rows: mini-batches, unless they are set.

        >>> TrainingPlan.of(model="mlp").batches(160_000, 180)
        {'domains_per_batch': 64, 'examples_per_domain': 32}
        >>> TrainingPlan.of(model="mlp").batches(5_000, 180)
        {}
        """
        asked = {"domains_per_batch", "examples_per_domain"} & {*(self.settings or {})}
        if self.model != "mlp" or asked or rows <= MOST_IN_A_STEP:
            return {}
        some = min(MOST_DOMAINS, domains)
        return {"domains_per_batch": some, "examples_per_domain": ROWS_OF_A_BATCH // some}

    @property
    def takes_missing(self) -> bool:
        """Whether the model takes missing values as they are."""
        return self.model in TAKES_MISSING


def _levels_of(measure: str, levels: Sequence[Level | float | str] | None) -> tuple[Level, ...]:
    if measure in WITHOUT_LEVEL:
        if levels is not None:
            raise SettingError(f"The measure {measure!r} has no level: leave out alpha.")
        return () if measure == "mean" else (Level(1.0),)
    given = LEVELS if levels is None else levels
    found = {Level.of(level).interior("A quantile of risks") for level in given}
    if not found:
        raise SettingError("At least one level to train for is required, such as 0.9.")
    if len({level.share_in_words for level in found}) < len(found):
        raise SettingError(
            f"The levels {', '.join(map(str, sorted(found)))} have the same name in tables: choose "
            "some that differ more."
        )
    return tuple(sorted(found))
