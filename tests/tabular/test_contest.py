"""The rule that chooses a model, on risks that were made by hand."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats.mstats import hdquantiles

from eqrm.estimators.selection.surrogates import ERM, RECALIBRATED, Surrogate
from eqrm.level import Level
from eqrm.tabular.choosing.candidates import Candidate
from eqrm.tabular.choosing.contest import Contest, decide

Array = NDArray[np.float64]
LEVEL = Level(0.9)
SHIFT, SHIFT_AND_SCALE = RECALIBRATED
TRAINED, OTHER = Surrogate("quantile", LEVEL), Surrogate("superquantile", Level(0.75))
DOMAINS = 100


def base(domains: int = DOMAINS) -> Array:
    """Risks of plain training, of which one in five is high."""
    risks = np.random.default_rng(0).uniform(0.4, 0.6, domains)
    risks[::5] += 0.5
    return risks


def contest(
    ways: Mapping[Candidate, Array],
    rankings: Mapping[Candidate, float] | None = None,
    spreads: Mapping[Candidate, float] | None = None,
    **settings: object,
) -> Contest:
    own = tuple(ways)
    ranks = np.array([(rankings or {}).get(each, 0.3) for each in own])
    spans = np.array([(spreads or {}).get(each, 1.0) for each in own])
    given = {"level": LEVEL, **settings}
    return Contest(
        candidates=own, risks=np.stack(list(ways.values())), rankings=ranks, spreads=spans, **given
    )  # type: ignore[arg-type]


def linear(way: Surrogate, level: Level = LEVEL) -> Candidate:
    return Candidate("logistic", way, None if way == ERM else level)


def trees(way: Surrogate) -> Candidate:
    return Candidate("boosted trees", way, None if way == ERM else LEVEL)


def hedged(risks: Array, mean: float) -> Array:
    """A quarter of the way to one value for all, with this mean risk relative to the first."""
    found = 0.25 * risks + 0.75 * np.median(risks)
    return found * (mean * risks.mean() / found.mean())


def test_the_lowest_quantile_wins_where_it_is_lower_beyond_doubt() -> None:
    plain = base()
    found = contest(
        {
            linear(ERM): plain,
            linear(SHIFT): 0.99 * plain,
            linear(TRAINED): hedged(plain, 1.05),
            trees(ERM): 1.1 * plain,
        }
    )
    assert found.candidates[found.place()] == linear(TRAINED)
    decision, shown = decide(found)
    assert decision.chosen == "logistic, trained for 9 in 10"
    assert (decision.plain, decision.sureness.value) == ("logistic, plain", "clear")
    assert decision.price == pytest.approx(0.05)
    expected = hdquantiles(plain, [0.9])[0]
    assert decision.plain_quantile == pytest.approx(expected)
    assert decision.quantile == pytest.approx(expected * (1.0 + decision.change))
    assert {found.candidates[each] for each in shown} == set(found.candidates)


@pytest.mark.parametrize(("mean", "chosen"), [(1.09, TRAINED), (1.11, ERM)])
def test_the_average_may_be_above_that_of_plain_training_by_the_budget_alone(
    mean: float, chosen: Surrogate
) -> None:
    plain = base()
    found = contest({linear(ERM): plain, linear(TRAINED): hedged(plain, mean)})
    assert found.candidates[found.place()].way == chosen
    if chosen == ERM:
        assert found.refusal(1) == "average 11% higher"
    wider = contest({linear(ERM): plain, linear(TRAINED): hedged(plain, mean)}, budget=0.2)
    assert wider.candidates[wider.place()].way == TRAINED


@pytest.mark.parametrize(
    ("what", "why"),
    [("rankings", "orders rows much worse"), ("spreads", "predictions hardly vary")],
)
def test_predictions_that_hardly_vary_are_never_chosen_over_those_that_do(
    what: str, why: str
) -> None:
    plain = base()
    coin = np.full(DOMAINS, plain.mean())  # the lowest quantile by far, and no dearer
    ways = {linear(ERM): plain, linear(TRAINED): coin}
    assert contest(ways).place() == 1
    low = {"rankings": {linear(TRAINED): 0.01}, "spreads": {linear(TRAINED): 0.001}}
    found = contest(ways, **{what: low[what]})
    assert found.place() == 0
    assert found.refusal(1) == why


def test_where_plain_training_ranks_no_better_than_chance_nothing_has_to() -> None:
    plain = base()
    ways = {linear(ERM): plain, linear(TRAINED): hedged(plain, 1.0)}
    found = contest(ways, rankings={linear(ERM): -0.02, linear(TRAINED): 0.0})
    assert found.place() == 1


def test_of_candidates_that_cannot_be_told_apart_the_lowest_average_is_taken() -> None:
    plain = base()
    lower = hedged(plain, 1.04)
    bad = lower > np.median(lower)
    swing = np.where(np.arange(DOMAINS) % 2, 0.05, -0.05)  # here one is lower, there the other
    one = np.where(bad, lower * (1.0 + swing), lower)
    two = np.where(bad, lower * (1.0005 - swing), 0.95 * lower)
    assert hdquantiles(one, [0.9])[0] < hdquantiles(two, [0.9])[0]
    found = contest({linear(ERM): plain, linear(SHIFT): one, linear(TRAINED): two})
    assert found.candidates[found.place()] == linear(TRAINED)  # the dearer way to train
    turned = contest({linear(ERM): plain, linear(SHIFT): two, linear(TRAINED): one})
    assert turned.candidates[turned.place()] == linear(SHIFT)
    even = np.full(DOMAINS, 1.01 * two.mean())  # lower beyond doubt, though dearer on average
    found = contest({linear(ERM): plain, linear(SHIFT): two, linear(OTHER): even})
    assert found.candidates[found.place()] == linear(OTHER)


def test_of_equal_ones_plain_comes_before_recalibrated_before_trained_and_linear_before_trees() -> (
    None
):
    plain = base()
    order = [linear(ERM), trees(ERM), linear(SHIFT), trees(SHIFT), linear(SHIFT_AND_SCALE)]
    order += [linear(TRAINED), trees(TRAINED)]
    for number in range(len(order) - 1):
        ways = dict.fromkeys([linear(ERM), trees(ERM)], 2.0 * plain) | dict.fromkeys(
            order[number:], plain
        )
        found = contest(ways, budget=5.0)
        assert found.candidates[found.place()] == order[number]


def test_plain_training_is_the_reference_of_the_family_with_the_lowest_average() -> None:
    plain = base()
    found = contest({linear(ERM): plain, linear(SHIFT): 0.999 * plain, trees(ERM): 0.7 * plain})
    assert found.candidates[found.plain] == trees(ERM)
    decision, _ = decide(found)
    assert (decision.chosen, decision.plain, decision.is_plain) == (
        *("boosted trees, plain",) * 2,
        True,
    )
    assert decision.rival is None  # the others are out of the budget
    assert "new domains below" in decision.evidence


def test_where_plain_training_is_chosen_the_best_of_the_others_is_named() -> None:
    plain = base()
    found = contest(
        {linear(ERM): plain, linear(SHIFT): 1.04 * plain, linear(TRAINED): 1.08 * plain}
    )
    decision, _ = decide(found)
    assert (decision.chosen, decision.rival) == (
        "logistic, plain",
        "logistic, recalibrated for 9 in 10",
    )
    assert decision.sentence == "Use: logistic, plain  (nothing else is likely better)"
    assert (
        "logistic, recalibrated for 9 in 10 is lower with a probability of 0%" in decision.evidence
    )


def test_with_fewer_than_one_domain_beyond_the_level_nothing_is_trained_for_it() -> None:
    plain = base(20)
    level = Level(0.99)
    ways = {
        linear(ERM): plain,
        linear(SHIFT, level): hedged(plain, 1.0),
        linear(TRAINED, level): 0.5 * hedged(plain, 1.0),
    }
    found = contest(ways, level=level)
    assert found.allowed().tolist() == [True, True, False]
    assert found.refusal(2) == "too few domains to train for it"
    assert found.candidates[found.place()].way == SHIFT
    many = contest({each: np.tile(risks, 10) for each, risks in ways.items()}, level=level)
    assert many.candidates[many.place()].way == TRAINED


def test_what_was_asked_for_is_not_decided_on() -> None:
    plain = base()
    dear = Surrogate("worst", Level(1.0))
    ways = {linear(ERM): plain, linear(dear, Level(1.0)): 3.0 * plain}
    found = contest(ways, level=Level(1.0), measure="worst")
    assert found.place() == 1
    decision, _ = decide(found)
    assert decision.sentence == "Use: logistic, trained for the worst  (as asked for)"
    assert (decision.asked, decision.sureness, decision.probability) == ("worst", None, None)
    calm = np.full(DOMAINS, 1.01 * plain.mean())  # a lower quantile for a higher mean
    decision, _ = decide(contest({linear(ERM): plain, trees(ERM): calm}, measure="mean"))
    assert (decision.sentence, decision.rival) == ("Use: logistic, plain  (as asked for)", None)
    assert (decision.asked, decision.sureness, decision.probability) == ("mean", None, None)
