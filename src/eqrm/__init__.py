"""eqrm: how a model will do on domains it has never seen, and how to train one that does well.

Public names load on first use (PEP 562), so that ``import eqrm`` costs next to nothing and a
command that needs no tensors never waits for torch.

>>> import eqrm
>>> eqrm.Level(0.9)
Level(0.9)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eqrm import data as data
    from eqrm import errors as errors
    from eqrm.causal import assumption_v as assumption_v
    from eqrm.causal import invariant_risk_predictors as invariant_risk_predictors
    from eqrm.causal import minimal_invariant_risk as minimal_invariant_risk
    from eqrm.causal import sufficient_interventions as sufficient_interventions
    from eqrm.data import DomainBatches as DomainBatches
    from eqrm.data import DomainData as DomainData
    from eqrm.data import Table as Table
    from eqrm.data import dataset as dataset
    from eqrm.data import load_flights as load_flights
    from eqrm.distributions import KDE as KDE
    from eqrm.distributions import Empirical as Empirical
    from eqrm.distributions import Gaussian as Gaussian
    from eqrm.distributions import LogNormal as LogNormal
    from eqrm.distributions import RiskDistribution as RiskDistribution
    from eqrm.estimators.classifier import QRMClassifier as QRMClassifier
    from eqrm.estimators.level_choice import LevelChoice as LevelChoice
    from eqrm.estimators.level_choice import choose_level as choose_level
    from eqrm.estimators.lightgbm_estimators import LGBMQRMClassifier as LGBMQRMClassifier
    from eqrm.estimators.lightgbm_estimators import LGBMQRMRegressor as LGBMQRMRegressor
    from eqrm.estimators.lightgbm_objective import lightgbm_objective as lightgbm_objective
    from eqrm.estimators.model_files import load_model as load_model
    from eqrm.estimators.model_files import save_model as save_model
    from eqrm.estimators.regressor import QRMRegressor as QRMRegressor
    from eqrm.estimators.robustness_path import RiskFrontier as RiskFrontier
    from eqrm.estimators.robustness_path import RiskRobustnessPath as RiskRobustnessPath
    from eqrm.estimators.scorers import quantile_risk as quantile_risk
    from eqrm.estimators.scorers import superquantile_risk as superquantile_risk
    from eqrm.estimators.splitters import DomainKFold as DomainKFold
    from eqrm.estimators.splitters import DomainShuffleSplit as DomainShuffleSplit
    from eqrm.estimators.xgboost_estimators import XGBQRMClassifier as XGBQRMClassifier
    from eqrm.estimators.xgboost_estimators import XGBQRMRegressor as XGBQRMRegressor
    from eqrm.estimators.xgboost_objective import xgboost_objective as xgboost_objective
    from eqrm.evaluation.accumulator import RiskAccumulator as RiskAccumulator
    from eqrm.evaluation.binomial_ranks import domains_needed as domains_needed
    from eqrm.evaluation.bounds import paper_bound as paper_bound
    from eqrm.evaluation.cdf_bands import CdfBand as CdfBand
    from eqrm.evaluation.cdf_bands import cdf_band as cdf_band
    from eqrm.evaluation.certificates import Certificate as Certificate
    from eqrm.evaluation.certificates import probability_bound as probability_bound
    from eqrm.evaluation.certificates import quantile_bound as quantile_bound
    from eqrm.evaluation.comparison import bootstrap_intervals as bootstrap_intervals
    from eqrm.evaluation.comparison import paired_differences as paired_differences
    from eqrm.evaluation.evaluate import evaluate as evaluate
    from eqrm.evaluation.evaluation import Evaluation as Evaluation
    from eqrm.evaluation.exchangeability import order_test as order_test
    from eqrm.evaluation.exchangeability import shift_test as shift_test
    from eqrm.evaluation.measured_risks import MeasuredRisks as MeasuredRisks
    from eqrm.evaluation.noise import denoised_quantile as denoised_quantile
    from eqrm.evaluation.noise import denoised_risks as denoised_risks
    from eqrm.evaluation.noise import noise_split as noise_split
    from eqrm.evaluation.planning import domain_plan as domain_plan
    from eqrm.evaluation.true_risk import true_probability_bound as true_probability_bound
    from eqrm.evaluation.true_risk import true_risk_bound as true_risk_bound
    from eqrm.level import Level as Level
    from eqrm.linear import DomainMoments as DomainMoments
    from eqrm.linear import LinearERM as LinearERM
    from eqrm.linear import LinearGroupDRO as LinearGroupDRO
    from eqrm.linear import LinearIRM as LinearIRM
    from eqrm.linear import LinearQRM as LinearQRM
    from eqrm.linear import LinearSCM as LinearSCM
    from eqrm.linear import LinearVREx as LinearVREx
    from eqrm.objectives import ARM as ARM
    from eqrm.objectives import CDANN as CDANN
    from eqrm.objectives import CORAL as CORAL
    from eqrm.objectives import DANN as DANN
    from eqrm.objectives import EQRM as EQRM
    from eqrm.objectives import ERM as ERM
    from eqrm.objectives import IGA as IGA
    from eqrm.objectives import IRM as IRM
    from eqrm.objectives import MLDG as MLDG
    from eqrm.objectives import MMD as MMD
    from eqrm.objectives import MTL as MTL
    from eqrm.objectives import RSC as RSC
    from eqrm.objectives import SD as SD
    from eqrm.objectives import Batch as Batch
    from eqrm.objectives import GroupDRO as GroupDRO
    from eqrm.objectives import Mixup as Mixup
    from eqrm.objectives import Objective as Objective
    from eqrm.objectives import RiskMemory as RiskMemory
    from eqrm.objectives import RiskObjective as RiskObjective
    from eqrm.objectives import SagNet as SagNet
    from eqrm.objectives import Superquantile as Superquantile
    from eqrm.objectives import Update as Update
    from eqrm.objectives import VREx as VREx
    from eqrm.objectives import objective as objective
    from eqrm.predictors import CNN as CNN
    from eqrm.predictors import GIN as GIN
    from eqrm.predictors import MLP as MLP
    from eqrm.predictors import EfficientNetLite as EfficientNetLite
    from eqrm.predictors import Predictor as Predictor
    from eqrm.predictors import ResNet as ResNet
    from eqrm.predictors import freeze_batch_norm as freeze_batch_norm
    from eqrm.predictors import predictor as predictor
    from eqrm.risks import DomainRisks as DomainRisks
    from eqrm.risks import domain_risks as domain_risks
    from eqrm.training import EarlyStopping as EarlyStopping
    from eqrm.training import OptimizerChoice as OptimizerChoice
    from eqrm.training import Phase as Phase
    from eqrm.training import Trained as Trained
    from eqrm.training import Trainer as Trainer
    from eqrm.training import TrainingSettings as TrainingSettings
    from eqrm.training import load_predictor as load_predictor
    from eqrm.training import recommended_phases as recommended_phases
    from eqrm.training.many_runs import Run as Run
    from eqrm.training.many_runs import TrainedRuns as TrainedRuns
    from eqrm.training.many_runs import runs_of as runs_of
    from eqrm.training.many_runs import train_many as train_many

__version__ = "0.1.0"

_NAMES_OF = {
    "eqrm.causal": (
        "assumption_v",
        "invariant_risk_predictors",
        "minimal_invariant_risk",
        "sufficient_interventions",
    ),
    "eqrm.data": (
        "dataset",
        "DomainBatches",
        "DomainData",
        "load_flights",
        "Table",
    ),
    "eqrm.distributions": (
        "Empirical",
        "Gaussian",
        "KDE",
        "LogNormal",
        "RiskDistribution",
    ),
    "eqrm.estimators.classifier": ("QRMClassifier",),
    "eqrm.estimators.model_files": (
        "load_model",
        "save_model",
    ),
    "eqrm.estimators.regressor": ("QRMRegressor",),
    "eqrm.estimators.lightgbm_estimators": ("LGBMQRMClassifier", "LGBMQRMRegressor"),
    "eqrm.estimators.lightgbm_objective": ("lightgbm_objective",),
    "eqrm.estimators.xgboost_estimators": ("XGBQRMClassifier", "XGBQRMRegressor"),
    "eqrm.estimators.xgboost_objective": ("xgboost_objective",),
    "eqrm.estimators.level_choice": (
        "LevelChoice",
        "choose_level",
    ),
    "eqrm.estimators.robustness_path": (
        "RiskFrontier",
        "RiskRobustnessPath",
    ),
    "eqrm.estimators.scorers": (
        "quantile_risk",
        "superquantile_risk",
    ),
    "eqrm.estimators.splitters": (
        "DomainKFold",
        "DomainShuffleSplit",
    ),
    "eqrm.evaluation.accumulator": ("RiskAccumulator",),
    "eqrm.evaluation.binomial_ranks": ("domains_needed",),
    "eqrm.evaluation.bounds": ("paper_bound",),
    "eqrm.evaluation.cdf_bands": (
        "cdf_band",
        "CdfBand",
    ),
    "eqrm.evaluation.certificates": (
        "Certificate",
        "probability_bound",
        "quantile_bound",
    ),
    "eqrm.evaluation.comparison": (
        "bootstrap_intervals",
        "paired_differences",
    ),
    "eqrm.evaluation.evaluate": ("evaluate",),
    "eqrm.evaluation.evaluation": ("Evaluation",),
    "eqrm.evaluation.exchangeability": (
        "order_test",
        "shift_test",
    ),
    "eqrm.evaluation.measured_risks": ("MeasuredRisks",),
    "eqrm.evaluation.noise": (
        "denoised_quantile",
        "denoised_risks",
        "noise_split",
    ),
    "eqrm.evaluation.planning": ("domain_plan",),
    "eqrm.evaluation.true_risk": (
        "true_probability_bound",
        "true_risk_bound",
    ),
    "eqrm.level": ("Level",),
    "eqrm.linear": (
        "DomainMoments",
        "LinearERM",
        "LinearGroupDRO",
        "LinearIRM",
        "LinearQRM",
        "LinearSCM",
        "LinearVREx",
    ),
    "eqrm.objectives": (
        "ARM",
        "Batch",
        "CDANN",
        "CORAL",
        "DANN",
        "EQRM",
        "ERM",
        "GroupDRO",
        "IGA",
        "IRM",
        "Mixup",
        "MLDG",
        "MMD",
        "MTL",
        "Objective",
        "objective",
        "RiskMemory",
        "RiskObjective",
        "RSC",
        "SagNet",
        "SD",
        "Superquantile",
        "Update",
        "VREx",
    ),
    "eqrm.predictors": (
        "CNN",
        "EfficientNetLite",
        "freeze_batch_norm",
        "GIN",
        "MLP",
        "Predictor",
        "predictor",
        "ResNet",
    ),
    "eqrm.risks": (
        "domain_risks",
        "DomainRisks",
    ),
    "eqrm.training": (
        "EarlyStopping",
        "load_predictor",
        "OptimizerChoice",
        "Phase",
        "recommended_phases",
        "Trained",
        "Trainer",
        "TrainingSettings",
    ),
    "eqrm.training.many_runs": (
        "Run",
        "runs_of",
        "train_many",
        "TrainedRuns",
    ),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}

__all__ = ["errors", *sorted(_MODULE_OF)]


def __getattr__(name: str) -> object:
    """Import the module behind a public name when the name is first used."""
    if name in ("data", "errors"):
        return import_module(f"eqrm.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'eqrm' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, loaded or not, for completion in an editor or a notebook."""
    return sorted({*globals(), *__all__})
