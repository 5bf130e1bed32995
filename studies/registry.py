"""Which studies exist; each is imported when it is asked for."""

from __future__ import annotations

from typing import Any

from eqrm.registry import Registry
from studies.base import Study

STUDIES = Registry[type[Study]](
    "study",
    {
        "linear-regression": "studies.linear_regression.run:LinearRegression",
        "causal-recovery": "studies.causal_recovery.run:CausalRecovery",
        "linear-sem": "studies.linear_sem.run:LinearSEM",
        "frontiers": "studies.frontiers.run:Frontiers",
        "colored-mnist": "studies.colored_mnist.run:ColoredMnist",
        "quantile-selection": "studies.quantile_selection.run:QuantileSelectionStudy",
        "domains-in-time": "studies.domains_in_time.run:DomainsInTime",
        "flights-backtest": "studies.flights_backtest.run:FlightsBacktest",
        "nested-domains": "studies.nested_domains.run:NestedDomains",
        "domainbed": "studies.domainbed.run:DomainBed",
        "wilds": "studies.wilds.run:Wilds",
        "pacs": "studies.pacs.run:Pacs",
        "molecules": "studies.molecules.run:Molecules",
        "control-coverage": "studies.control_coverage.run:ControlCoverage",
        "intervals": "studies.interval_coverage.run:IntervalCoverage",
        "policy": "studies.policy.run:Policy",
        "requirements": "studies.requirements.run:Requirements",
    },
)


def study_names() -> tuple[str, ...]:
    """The names that :func:`new_study` knows."""
    return tuple(STUDIES)


def new_study(name: str, **settings: Any) -> Study:
    """The study of that name, with settings of its own where it has any."""
    made: Study = STUDIES.make(name, given=settings)
    return made
