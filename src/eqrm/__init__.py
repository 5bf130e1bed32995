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
    from eqrm import errors as errors
    from eqrm.causal import assumption_v as assumption_v
    from eqrm.causal import invariant_risk_predictors as invariant_risk_predictors
    from eqrm.causal import minimal_invariant_risk as minimal_invariant_risk
    from eqrm.causal import sufficient_interventions as sufficient_interventions
    from eqrm.distributions import KDE as KDE
    from eqrm.distributions import Empirical as Empirical
    from eqrm.distributions import Gaussian as Gaussian
    from eqrm.distributions import LogNormal as LogNormal
    from eqrm.distributions import RiskDistribution as RiskDistribution
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
    from eqrm.predictors import Predictor as Predictor
    from eqrm.risks import DomainRisks as DomainRisks
    from eqrm.risks import domain_risks as domain_risks

__version__ = "0.1.0"

_MODULE_OF = {
    "DomainMoments": "eqrm.linear",
    "DomainRisks": "eqrm.risks",
    "Empirical": "eqrm.distributions",
    "Evaluation": "eqrm.evaluation.evaluation",
    "Gaussian": "eqrm.distributions",
    "KDE": "eqrm.distributions",
    "Level": "eqrm.level",
    "LinearERM": "eqrm.linear",
    "LinearGroupDRO": "eqrm.linear",
    "LinearIRM": "eqrm.linear",
    "LinearQRM": "eqrm.linear",
    "LinearSCM": "eqrm.linear",
    "LinearVREx": "eqrm.linear",
    "LogNormal": "eqrm.distributions",
    "MeasuredRisks": "eqrm.evaluation.measured_risks",
    "RiskAccumulator": "eqrm.evaluation.accumulator",
    "RiskDistribution": "eqrm.distributions",
    "domain_risks": "eqrm.risks",
    "evaluate": "eqrm.evaluation.evaluate",
    "Predictor": "eqrm.predictors",
    "CdfBand": "eqrm.evaluation.cdf_bands",
    "Certificate": "eqrm.evaluation.certificates",
    "cdf_band": "eqrm.evaluation.cdf_bands",
    "bootstrap_intervals": "eqrm.evaluation.comparison",
    "denoised_quantile": "eqrm.evaluation.noise",
    "denoised_risks": "eqrm.evaluation.noise",
    "noise_split": "eqrm.evaluation.noise",
    "order_test": "eqrm.evaluation.exchangeability",
    "paired_differences": "eqrm.evaluation.comparison",
    "shift_test": "eqrm.evaluation.exchangeability",
    "domain_plan": "eqrm.evaluation.planning",
    "domains_needed": "eqrm.evaluation.binomial_ranks",
    "probability_bound": "eqrm.evaluation.certificates",
    "paper_bound": "eqrm.evaluation.bounds",
    "quantile_bound": "eqrm.evaluation.certificates",
    "true_probability_bound": "eqrm.evaluation.true_risk",
    "true_risk_bound": "eqrm.evaluation.true_risk",
    **dict.fromkeys(
        (
            "assumption_v",
            "invariant_risk_predictors",
            "minimal_invariant_risk",
            "sufficient_interventions",
        ),
        "eqrm.causal",
    ),
    **dict.fromkeys(
        (
            "ARM",
            "CDANN",
            "CORAL",
            "DANN",
            "EQRM",
            "ERM",
            "IGA",
            "IRM",
            "MLDG",
            "MMD",
            "MTL",
            "RSC",
            "SD",
            "Batch",
            "GroupDRO",
            "Mixup",
            "Objective",
            "RiskMemory",
            "RiskObjective",
            "SagNet",
            "Superquantile",
            "Update",
            "VREx",
            "objective",
        ),
        "eqrm.objectives",
    ),
}

__all__ = [
    "ARM",
    "CDANN",
    "CORAL",
    "DANN",
    "EQRM",
    "ERM",
    "IGA",
    "IRM",
    "KDE",
    "MLDG",
    "MMD",
    "MTL",
    "RSC",
    "SD",
    "Batch",
    "CdfBand",
    "Certificate",
    "DomainMoments",
    "DomainRisks",
    "Empirical",
    "Evaluation",
    "Gaussian",
    "GroupDRO",
    "Level",
    "LinearERM",
    "LinearGroupDRO",
    "LinearIRM",
    "LinearQRM",
    "LinearSCM",
    "LinearVREx",
    "LogNormal",
    "MeasuredRisks",
    "Mixup",
    "Objective",
    "Predictor",
    "RiskAccumulator",
    "RiskDistribution",
    "RiskMemory",
    "RiskObjective",
    "SagNet",
    "Superquantile",
    "Update",
    "VREx",
    "assumption_v",
    "bootstrap_intervals",
    "cdf_band",
    "denoised_quantile",
    "denoised_risks",
    "domain_plan",
    "domain_risks",
    "domains_needed",
    "errors",
    "evaluate",
    "invariant_risk_predictors",
    "minimal_invariant_risk",
    "noise_split",
    "objective",
    "order_test",
    "paired_differences",
    "paper_bound",
    "probability_bound",
    "quantile_bound",
    "shift_test",
    "sufficient_interventions",
    "true_probability_bound",
    "true_risk_bound",
]


def __getattr__(name: str) -> object:
    """Import the module behind a public name when the name is first used."""
    if name == "errors":
        return import_module("eqrm.errors")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'eqrm' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, loaded or not, for completion in an editor or a notebook."""
    return sorted({*globals(), *__all__})
