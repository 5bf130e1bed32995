"""Which reproductions exist; each is imported when it is asked for."""

from __future__ import annotations

from typing import Any

from eqrm.registry import Registry
from eqrm.reproductions.base import Reproduction

REPRODUCTIONS = Registry[type[Reproduction]](
    "reproduction",
    {
        "linear-regression": "eqrm.reproductions.linear_regression.run:LinearRegression",
        "causal-recovery": "eqrm.reproductions.causal_recovery.run:CausalRecovery",
        "linear-sem": "eqrm.reproductions.linear_sem.run:LinearSEM",
        "frontiers": "eqrm.reproductions.frontiers.run:Frontiers",
        "colored-mnist": "eqrm.reproductions.colored_mnist.run:ColoredMnist",
        "quantile-selection": "eqrm.reproductions.quantile_selection.run:QuantileSelectionStudy",
        "domains-in-time": "eqrm.reproductions.domains_in_time.run:DomainsInTime",
        "flights-backtest": "eqrm.reproductions.flights_backtest.run:FlightsBacktest",
        "nested-domains": "eqrm.reproductions.nested_domains.run:NestedDomains",
        "domainbed": "eqrm.reproductions.domainbed.run:DomainBed",
        "wilds": "eqrm.reproductions.wilds.run:Wilds",
        "pacs": "eqrm.reproductions.pacs.run:Pacs",
        "molecules": "eqrm.reproductions.molecules.run:Molecules",
        "intervals": "eqrm.reproductions.interval_coverage.run:IntervalCoverage",
    },
)


def reproduction_names() -> tuple[str, ...]:
    """The names that :func:`reproduction` knows.

    >>> reproduction_names()[:4]
    ('linear-regression', 'causal-recovery', 'linear-sem', 'frontiers')
    """
    return tuple(REPRODUCTIONS)


def reproduction(name: str, **settings: Any) -> Reproduction:
    """The reproduction of that name, with settings of its own where it has any.

    >>> reproduction("causal-recovery").reproduces
    'Appendix G.1.2: the table and the seven cases of changing σ'
    """
    made: Reproduction = REPRODUCTIONS.make(name, given=settings)
    return made
