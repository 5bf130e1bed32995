"""What ``eqrm train`` is asked for: each setting is declared once, and checked before any reading.

The options of the command, the keywords of :func:`eqrm.train` and their checks all follow from the
fields of :class:`TrainingPlan`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Real
from typing import TYPE_CHECKING, Any

from eqrm.checks import (
    FRACTION,
    NON_NEGATIVE,
    SEED,
    Problems,
    checked_settings,
    number,
    refuse_unknown,
    setting,
)
from eqrm.errors import Setting, SettingError
from eqrm.level import MEASURES, WITHOUT_LEVEL, Level

if TYPE_CHECKING:
    from eqrm.data.tables.reading import TableColumns

QRM = ("QRMClassifier", "QRMRegressor")
AUTO = "auto"
TREES = ("lightgbm", "xgboost")
"""Libraries of boosted trees, the one to prefer first."""
MODELS: dict[str, tuple[str, str]] = {
    "linear": QRM,
    "mlp": QRM,
    "xgboost": ("XGBQRMClassifier", "XGBQRMRegressor"),
    "lightgbm": ("LGBMQRMClassifier", "LGBMQRMRegressor"),
}
"""Name → its classifier and its regressor."""
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
}
"""What ``settings`` takes: parameters of the estimators, which are not imported to check names."""
BALANCED = "balanced"
CLASS_WEIGHT = number(1e-6, 1_000_000)
OWN_FAMILIES = ("linear", "logistic", "boosted trees", "network")
MOST_IN_A_STEP, ROWS_OF_A_BATCH, MOST_DOMAINS = 10_000, 2048, 64
"""A network takes all rows in each step up to the first number; beyond it, batches of these."""
DATA, HELD_OUT, TRAINING = "Data", "Held-out domains", "Training"
SEVERAL = "Separate several by commas, or repeat the option."
PREDICTION = "Column of predictions, or 'p_{class}' for a column of probabilities per class."
THREADS = "Threads for reading files, from 1 to 1,024 (default: all cores)."


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """Which columns are what, which domains are kept aside, and what is trained.

    By default no domains are kept aside: every one is judged by models of the others. With an
    order, domains are judged by models of earlier ones. The measure "worst" has the level 1 alone,
    and "mean" is ERM alone.
    """

    target: str | None = setting(None, DATA, "Column to predict.")
    domain: str | Sequence[str] = setting(
        (),
        DATA,
        "Column with the domain of each row. Repeat the option to join several columns; "
        "'filename' makes each file a domain.",
        kind="columns",
        metavar="COLUMN",
    )
    features: Sequence[str] | None = setting(
        None, DATA, f"Columns to predict from (default: all others). {SEVERAL}", kind="names"
    )
    drop: Sequence[str] = setting((), DATA, f"Columns to leave out. {SEVERAL}", kind="names")
    categories: Sequence[str] = setting(
        (), DATA, f"Columns of numbers to read as categories. {SEVERAL}", kind="names"
    )
    missing_values: Sequence[str] = setting(
        (),
        DATA,
        "Values that mean a missing one in every column, such as '?' or -999, besides empty cells "
        f"and NA. {SEVERAL}",
        kind="values",
    )
    max_missing: float = setting(
        0.1,
        DATA,
        "Largest share of missing values in a column of numbers or dates, from 0 to 1. Boosted "
        "trees take any share.",
        kind="number",
        rule=FRACTION,
    )
    skip_incomplete: bool = setting(
        False,
        DATA,
        "Leave out rows whose target, domain, order or weight is missing (default: an error).",
        kind="flag",
    )
    weight: str | None = setting(
        None,
        DATA,
        "Column with the weight of each row within its domain, a number of at least 0.",
        metavar="COLUMN",
    )
    certify: float | Sequence[str] | None = setting(
        None,
        HELD_OUT,
        "Keep domains aside for a proven certificate: a share of them, such as 0.3 (with "
        "--order the latest), or their names. By default all domains are trained on, and what "
        f"to expect of a new one is cross-fitted. {SEVERAL}",
        kind="share or names",
        metavar="SHARE|DOMAINS",
    )
    test: object = setting(None, HELD_OUT, "Table of other domains to certify on.")
    within: str | Sequence[str] | None = setting(
        None,
        DATA,
        "Column with the member inside the group that --domain names, such as the ward of a "
        "hospital. The members are the domains; certificates are about members of new groups.",
        kind="columns",
        metavar="COLUMN",
    )
    weather: bool = setting(
        False, DATA, "For 'flights': add the weather at departure.", kind="flag"
    )
    order: str | None = setting(
        None,
        HELD_OUT,
        "Column with the time of each row, a date or a number (the domain column, if domains are "
        "dates): models are judged on later domains than those that they were fitted to. Not a "
        "feature unless --feature lists it.",
        metavar="COLUMN",
    )
    test_after: object = setting(
        None,
        HELD_OUT,
        "Hold out the domains that begin strictly after this day, month, moment or number.",
        metavar="DATE",
    )
    test_last: float | None = setting(
        None,
        HELD_OUT,
        "Share of the domains to hold out, the latest.",
        kind="number",
        metavar="SHARE",
    )
    measure: str = setting(
        "quantile",
        TRAINING,
        "What to minimise over the training domains: quantile, superquantile (the mean risk of the "
        "worst share 1−α), worst (the largest risk; no --alpha) or mean (ERM alone).",
        choices=tuple(MEASURES),
    )
    alpha: tuple[Level, ...] = setting(
        (), TRAINING, f"Levels to train for, besides ERM (default: 0.9). {SEVERAL}", kind="levels"
    )
    surrogate: str = setting(
        "auto",
        TRAINING,
        "What is minimised to get a low quantile: auto (chosen by cross-fitting) or eqrm (the "
        "quantile itself, at its level; none means the same).",
        choices=("auto", "eqrm", "none"),
    )
    require: str | None = setting(
        None,
        TRAINING,
        "What decisions must achieve in a share alpha of new domains, such as 'wrong <= 5%' (see "
        "eqrm control): the model that keeps most is chosen, with its operating point.",
        metavar="REQUIREMENT",
    )
    model: str = setting(
        AUTO,
        TRAINING,
        "auto (linear models and boosted trees compete), linear, lightgbm, xgboost "
        "or mlp (networks, which need torch).",
        choices=(AUTO, *MODELS),
    )
    mean_budget: float = setting(
        0.1,
        TRAINING,
        "By how much the average risk of the chosen model may be above that of plain training, as "
        "a share.",
        kind="number",
        rule=NON_NEGATIVE,
    )
    task: str = setting(
        "auto",
        TRAINING,
        "classification, regression or auto.",
        choices=("auto", "classification", "regression"),
    )
    settings: Mapping[str, Any] | None = setting(
        None,
        TRAINING,
        "Setting of the model, as in docs/train.md; repeat the option for several.",
        kind="settings",
        metavar="NAME=VALUE",
    )
    class_weight: str | Mapping[str, float] | None = setting(
        None,
        TRAINING,
        "Weights of classes: 'balanced' (all classes count the same over the training rows), or "
        f"CLASS=WEIGHT, from 1e-6 to 1,000,000. {SEVERAL}",
        kind="weights",
    )
    unseen: str = setting(
        "warn",
        TRAINING,
        "What to do about categories that only domains kept aside have: warn or error.",
        choices=("warn", "error"),
    )
    seed: int = setting(
        0,
        TRAINING,
        "Random seed of the split and of the model (default: 0).",
        kind="integer",
        rule=SEED,
    )
    refit: str = setting(
        "chosen",
        None,
        'Which models that are shown are fitted to all domains: "chosen" or "all".',
        choices=("chosen", "all"),
    )
    candidates: Mapping[str, Any] | None = setting(
        None, None, "Estimators of scikit-learn by name, which compete with ours."
    )

    @classmethod
    def of(cls, alpha: Any = None, problems: Problems | None = None, **given: Any) -> TrainingPlan:
        """From what a user gave; what is wrong is noted as problems, or raised without them.

        Levels are in any form, each once, in order; None is 0.9.

        >>> TrainingPlan.of(["0.9", 0.5, 0.9]).alpha
        (Level(0.5), Level(0.9))
        """
        noted = Problems() if problems is None else problems
        refuse_unknown(given, [each.name for each in fields(cls)], "eqrm.train", "option")
        found = checked_settings(cls, given, noted)
        plan = cls(**found)
        checks = [plan._check_candidates, plan._check_class_weight, plan._check_require]
        # Where the model was refused, the plan has the default, which the settings are not for.
        if given.get("model", AUTO) == plan.model:
            checks.insert(0, plan._check_settings)
        for check in checks:
            with noted.noted():
                check()
        with noted.noted():
            found["alpha"] = _levels_of(plan.measure, alpha)
        if problems is None:
            noted.refuse("The plan", alone=True)
        return cls(**found)

    @property
    def columns(self) -> TableColumns:
        """Which column of the table is what."""
        from eqrm.data.tables.reading import TableColumns

        own = [each.name for each in fields(TableColumns)]
        return TableColumns(**{name: getattr(self, name) for name in own})

    @property
    def in_time(self) -> bool:
        """Whether domains are judged by models of earlier ones."""
        given = (self.order, self.test_after, self.test_last)
        return any(value is not None for value in given)

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

    def _check_require(self) -> None:
        if self.require is None:
            return
        from eqrm.evaluation.measuring.requirement import INTERVALS, Requirement

        Requirement.of(self.require, INTERVALS)
        if self.measure != "quantile" or self.weight is not None or self.class_weight is not None:
            raise SettingError(
                f"{Setting('require')} chooses by what is kept, and counts rows: leave out "
                f"{Setting('measure')}, {Setting('weight')} and {Setting('class_weight')}."
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
        """Settings of a network that is trained on many rows: mini-batches, unless they are set."""
        asked = {"domains_per_batch", "examples_per_domain"} & {*(self.settings or {})}
        if self.model != "mlp" or asked or rows <= MOST_IN_A_STEP:
            return {}
        some = min(MOST_DOMAINS, domains)
        return {"domains_per_batch": some, "examples_per_domain": ROWS_OF_A_BATCH // some}

    @property
    def takes_missing(self) -> bool:
        """Whether the model takes missing values as they are."""
        return self.model in TREES


def _levels_of(measure: str, alpha: Any) -> tuple[Level, ...]:
    if measure in WITHOUT_LEVEL:
        if alpha not in (None, 0.9):
            raise SettingError(
                f"The measure {measure!r} has no level: leave out {Setting('alpha')}."
            )
        return () if measure == "mean" else (Level(1.0),)
    alpha = 0.9 if alpha is None else alpha
    given: Any = [alpha] if isinstance(alpha, (Real, str, Level)) else alpha
    found = {Level.of(level).interior("A quantile of risks") for level in given}
    if not found:
        raise SettingError("At least one level to train for is required, such as 0.9.")
    if len({level.share_in_words for level in found}) < len(found):
        raise SettingError(
            f"The levels {', '.join(map(str, sorted(found)))} have the same name in tables: choose "
            "some that differ more."
        )
    return tuple(sorted(found))
