"""What the public names are for: the pages of the reference, and which names are on each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """A page of the reference: its names, one by one or by package."""

    page: str
    title: str
    says: str  # in the list of pages
    opening: str  # on the page itself
    names: str = ""
    packages: str = ""


TASKS = (
    Task(
        "tables",
        "Train on a table",
        "`eqrm.train`, and what gives back what it saved",
        "In words and with examples: [Training on a table](../train.md).",
        names="eqrm.train eqrm.load",
    ),
    Task(
        "estimators",
        "Estimators for scikit-learn",
        "linear models and boosting for a level, recalibration, splitters, scorers",
        "In words and with examples: [Estimators](../estimators.md), [gradient boosting]"
        "(../boosting.md), [recalibration](../recalibration.md).",
        names="eqrm.QRMClassifier eqrm.QRMRegressor eqrm.XGBQRMClassifier eqrm.XGBQRMRegressor "
        "eqrm.LGBMQRMClassifier eqrm.LGBMQRMRegressor eqrm.Recalibrated eqrm.choose_level "
        "eqrm.quantile_risk eqrm.DomainKFold eqrm.save_model eqrm.load_model",
        packages="eqrm.estimators",
    ),
    Task(
        "evaluation",
        "Evaluate models and predictions",
        "risks by domain, their quantiles with intervals, differences between models",
        "In words and with examples: [Evaluating any model](../evaluate.md).",
        names="eqrm.evaluate eqrm.evaluate_model eqrm.Evaluation",
        packages="eqrm.evaluation",
    ),
    Task(
        "certificates",
        "Certificates and plans",
        "bounds for unseen domains, and how many domains they take",
        "In words and with examples: [Certificates](../certificates.md), [nested domains]"
        "(../nested-domains.md).",
        names="eqrm.evaluation.Certificate eqrm.evaluation.domains_needed "
        "eqrm.evaluation.outer_domains_needed eqrm.evaluation.quantile_bound "
        "eqrm.evaluation.probability_bound eqrm.evaluation.cdf_band "
        "eqrm.evaluation.true_risk_bound eqrm.evaluation.true_probability_bound",
    ),
    Task(
        "control",
        "Act on a requirement",
        "the setting at which new domains meet a requirement",
        "In words and with examples: [Acting on a requirement](../control.md).",
        names="eqrm.control eqrm.estimators.control_model eqrm.evaluation.OperatingPoint",
    ),
    Task(
        "time",
        "Domains in time",
        "watching certificates, backtests, bounds for dependent and drifting domains",
        "In words and with examples: [Domains in time](../domains-in-time.md), [the watch]"
        "(../watch.md), [backtests](../backtest.md).",
        names="eqrm.Watch eqrm.OnlineBound eqrm.evaluation.Backtest eqrm.evaluation.backtest "
        "eqrm.evaluation.recent_bound eqrm.evaluation.spell_bound "
        "eqrm.evaluation.order_test",
    ),
    Task(
        "risks",
        "Risks, levels and distributions",
        "from losses to risks by domain, to quantiles with exact gradients",
        "In words: [Concepts](../concepts.md). Bandwidths are compared in "
        "[Which bandwidth rule?](../bandwidths.md).",
        names="eqrm.domain_risks eqrm.Level eqrm.KDE eqrm.Empirical eqrm.Gaussian eqrm.RiskMemory",
        packages="eqrm.risks eqrm.distributions",
    ),
    Task(
        "objectives",
        "Objectives for a training loop",
        "EQRM and everything that it is compared with",
        "In words and with examples: [Training with an objective](../objectives.md).",
        names="eqrm.objective eqrm.EQRM eqrm.ERM eqrm.Superquantile",
        packages="eqrm.objectives",
    ),
    Task(
        "networks",
        "Train networks",
        "the trainer, its phases, networks by name",
        "In words and with examples: [Training networks](../training.md).",
        names="eqrm.Trainer eqrm.Phase eqrm.predictor",
        packages="eqrm.training eqrm.predictors",
    ),
    Task(
        "data",
        "Data by domains",
        "datasets by name, tables, splits, batches",
        "In words and with examples: [Data by domains](../data.md).",
        names="eqrm.dataset",
        packages="eqrm.data",
    ),
    Task(
        "sweeps",
        "Sweeps",
        "many runs, their records, selection rules and tables",
        "In words and with examples: [Sweeps and their tables](../sweeps.md).",
        packages="eqrm.sweeps",
    ),
    Task(
        "linear",
        "Linear models",
        "exact solvers on the moments of domains",
        "How they solve, and when a quantile helps: "
        "[Estimators](../estimators.md#how-it-is-solved).",
        names="eqrm.LinearQRM",
        packages="eqrm.linear",
    ),
)


def task_of(name: str) -> Task:
    """The task that lists the name itself, or else its package."""
    package = name.rpartition(".")[0]
    for wanted, lists in ((name, "names"), (package, "packages")):
        found = [task for task in TASKS if wanted in getattr(task, lists).split()]
        if len(found) == 1:
            return found[0]
    raise SystemExit(f"{name} is public: name its task in scripts/reference_tasks.py")
