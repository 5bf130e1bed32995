"""Phases: whole steps, ends that are reached by >=, recommendations by name."""

from __future__ import annotations

import pytest

from eqrm.errors import SettingError
from eqrm.objectives import EQRM, OBJECTIVES, objective
from eqrm.training import Phase, Phases, recommended_phases


def test_a_phase_begins_when_the_steps_before_it_are_reached() -> None:
    phases = Phases([Phase("erm", 2), Phase("vrex", 1), Phase("eqrm", 3)])
    places = [(phases.place(step).phase, phases.place(step).step) for step in range(8)]
    assert places == [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (2, 2), (2, 3), (2, 4)]


def test_eqrm_recommends_what_domainbed_does_and_no_scaling() -> None:
    minimised = EQRM(0.8)
    burn_in, main = recommended_phases(minimised, steps=5001, learning_rate=5e-5)
    assert (burn_in.minimised.name, burn_in.steps, burn_in.learning_rate) == ("erm", 2500, 5e-5)
    assert main.objective is minimised
    assert (main.steps, main.learning_rate, main.fresh_optimizer) == (2501, 1e-6, True)
    assert burn_in.loss_scaling == main.loss_scaling == "none"


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_the_recommended_phases_of_every_objective_fill_the_steps(name: str) -> None:
    phases = Phases(recommended_phases(objective(name), 6000, 1e-3))
    assert phases.steps == 6000
    assert phases[len(phases) - 1].minimised.name == name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 2.0}, "None or an integer from 1 to 1,000,000,000, got 2.0"),
        ({"steps": 0}, "None or an integer from 1 to 1,000,000,000, got 0"),
        ({"learning_rate": -1e-3}, "learning_rate .*must be None or a number above 0"),
        ({"schedule": "cosin"}, "Did you mean 'cosine'"),
        ({"loss_scaling": "ratio"}, "Unknown loss scaling 'ratio'"),
        ({"objective": "emr"}, "Did you mean 'erm'"),
        ({"objective": 3}, "must be an Objective or its name"),
    ],
)
def test_a_phase_that_makes_no_sense_is_refused(change, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SettingError, match=message):
        Phase(**{"objective": "erm", "steps": 3, **change})
