"""All simulations of one size."""

from __future__ import annotations

from dataclasses import dataclass

from eqrm.evaluation import domains_needed
from studies.domains_in_time import alarms, coverage
from studies.domains_in_time.limits import Told, spells_told_apart
from studies.domains_in_time.sequences import Missed, all_sequences
from studies.domains_in_time.settings import (
    ALPHA,
    CONFIDENCE,
    CORRELATIONS,
    DEPENDENCES,
    DRIFTS,
    HALF_LIVES,
    LARGEST,
    MISS_RATES,
    NEEDED,
    SPELL_DOMAINS,
    TimeSettings,
)
from studies.domains_in_time.worlds import risk_laws, spell_worlds
from studies.outcome import Progress


@dataclass(frozen=True)
class TimeFindings:
    """What the simulations found."""

    needed: dict[int, int]
    refused_below: dict[int, bool]
    dependent: list[coverage.Covered]
    spells: list[coverage.SpellCovered]
    told: list[Told]
    recent: list[coverage.RecentCovered]
    online: list[Missed]
    false_alarms: list[alarms.Alarms]
    correlated: list[alarms.Alarms]
    delays: list[alarms.Delay]


def run_simulations(settings: TimeSettings, seed: int, progress: Progress) -> TimeFindings:
    """Every simulation, with seeds of their own."""
    worlds = settings.worlds
    progress(0.0, "k-dependent domains")
    dependent = [
        coverage.dependent_coverage(sequence, law, k, domains, worlds, seed)
        for sequence in coverage.SEQUENCES
        for law in risk_laws()
        for k in DEPENDENCES
        for domains in (NEEDED[k], LARGEST)
    ]
    progress(0.25, "spells")
    spells = [
        coverage.spell_coverage(world, SPELL_DOMAINS, settings.spell_worlds, seed)
        for world in spell_worlds()
    ]
    told = spells_told_apart(SPELL_DOMAINS, max(4, settings.spell_worlds // 4), seed)
    progress(0.5, "recent domains and online bounds")
    recent = [
        coverage.recent_coverage(drift, half_life, worlds, seed)
        for half_life in HALF_LIVES
        for drift in DRIFTS
    ]
    online = all_sequences(settings.sequences, settings.sequence_domains, seed)
    progress(0.6, "false alarms")
    watched = settings.watched
    found = [
        alarms.independent_alarms(worlds, watched, seed),
        alarms.certified_alarms(worlds, watched, seed),
        *(
            each
            for k in DEPENDENCES[1:]
            for each in alarms.dependent_alarms(k, worlds, watched, seed)
        ),
        alarms.drift_alarms(worlds, watched // 5, seed),
        alarms.interval_misses(worlds, watched, seed),
    ]
    progress(0.85, "serial correlation and delays")
    return TimeFindings(
        needed={k: domains_needed(ALPHA, CONFIDENCE, dependence=k) for k in DEPENDENCES},
        told=told,
        refused_below={k: coverage.refused_below(k) for k in DEPENDENCES},
        dependent=dependent,
        spells=spells,
        recent=recent,
        online=online,
        false_alarms=found,
        correlated=[alarms.correlated_alarms(r, worlds, watched, seed) for r in CORRELATIONS],
        delays=[
            alarms.detection_delay(rate, before, worlds, seed)
            for rate in MISS_RATES
            for before in (0, 200)
        ],
    )
