"""The verdict of the report, and what could be wrong."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import eqrm
from eqrm import Evaluation, Level
from eqrm.evaluation.inference.gains import fewest_to_compare
from eqrm.evaluation.presenting.report import report_html
from eqrm.evaluation.presenting.report.answer import Answer, answer_of, shown_models
from eqrm.evaluation.presenting.report.content import packed
from eqrm.evaluation.presenting.summary import summarised
from eqrm.evaluation.references import References
from eqrm.risks import MeasuredRisks
from evaluation.report.report_worlds import TWELVE, measured, unpacked


def risks_of(constant: np.ndarray | None = None, **models: np.ndarray) -> Evaluation:
    """Models measured on the same domains with 100 examples each, beside a constant."""
    known = models if constant is None else {**models, "constant": constant}
    found = {
        name: MeasuredRisks.of(
            range(risks.size), np.full(risks.size, 100), risks, np.ones(risks.size)
        )
        for name, risks in known.items()
    }
    beside = {name: found.pop(name) for name in known if name not in models}
    references = References(Level(0.9), beside) if beside else None
    return Evaluation(found, "log-loss", None, references)


def answered(evaluation: Evaluation) -> Answer:
    return answer_of(evaluation, summarised(evaluation), evaluation.risk_table())


RISKS = np.random.default_rng(0).gamma(8.0, 0.1, 400)


class TestVerdict:
    def test_a_clearly_lower_quantile_is_said_with_its_interval(self) -> None:
        answer = answered(risks_of(A=RISKS, B=0.8 * RISKS, C=0.9 * RISKS))
        assert answer.sentence == "'B' has the lowest 0.9-quantile of risk."
        assert answer.chosen == "B"
        quantiles = np.quantile(RISKS, 0.9, method="inverted_cdf") * np.array([0.8, 0.9])
        assert "the next best model" in answer.evidence[0]
        assert f"of 'B' is {quantiles[0]:.3f}" in answer.evidence[0]
        assert f"{quantiles[1]:.3f} (difference -0." in answer.evidence[0]

    def test_a_clear_but_tiny_difference_is_no_gain(self) -> None:
        many = np.random.default_rng(0).gamma(8.0, 0.1, 20_000)
        answer = answered(risks_of(A=many, B=0.985 * many))
        assert answer.sentence == "'B' and 'A' hardly differ at level 0.9."

    def test_noise_is_not_a_gain(self) -> None:
        other = np.random.default_rng(1).gamma(8.0, 0.1, 400)
        answer = answered(risks_of(A=RISKS, B=other))
        assert answer.sentence == "These data cannot tell which model is best at level 0.9."

    def test_too_few_domains_say_how_many_are_needed(self) -> None:
        answer = answered(risks_of(A=RISKS[:12], B=RISKS[12:24]))
        needed = fewest_to_compare(Level(0.9), 0.95)
        assert answer.sentence == (
            f"12 domains are too few to compare models at level 0.9: {needed:g} are needed."
        )

    def test_one_model_without_references_is_answered_by_its_certificate(self) -> None:
        answer = answered(risks_of(A=RISKS))
        bound = eqrm.evaluation.quantile_bound(RISKS, 0.9)
        assert answer.sentence == f"{bound.statement}."
        assert not answer.picked

    @pytest.mark.parametrize(
        ("factor", "sentence"),
        [
            (0.7, "'model' has a lower 0.9-quantile of risk than every reference."),
            (1.3, "'model' does not beat the references at level 0.9."),
            (0.99, "'model' is not clearly better than the references at level 0.9."),
        ],
    )
    def test_a_model_is_compared_with_references(self, factor: float, sentence: str) -> None:
        evaluation = risks_of(constant=RISKS, model=factor * RISKS)
        answer = answered(evaluation)
        assert answer.sentence == sentence
        assert answer.chosen == "model"
        rows = shown_models(evaluation, answer)
        assert [(row.name, row.sign, row.reference) for row in rows] == [
            ("model", "1", False),
            ("constant", "a", True),
        ]


class TestDoubts:
    def lines(self, evaluation: Evaluation, **changes: object) -> str:
        answer = replace(answered(evaluation), **changes)  # type: ignore[arg-type]
        page = report_html(evaluation, answer=answer)
        return page.partition('id="doubts-title"')[2].partition("</section>")[0]

    def test_a_fact_about_several_models_is_one_line(self) -> None:
        rng = np.random.default_rng(0)
        counts = np.full(60, 4)
        noisy = {
            name: MeasuredRisks.of(range(60), counts, rng.normal(1.0, 0.5, 60), np.ones(60))
            for name in ("a", "b", "c")
        }
        calm = MeasuredRisks.of(range(60), counts, rng.normal(1.0, 0.5, 60), np.full(60, 1e-4))
        found = self.lines(Evaluation({**noisy, "calm": calm}, "loss", None))
        assert found.count("of the spread of the measured risks is sampling noise") == 1
        assert found.count("Concerns:") == found.count("<li>")
        alike = self.lines(Evaluation(noisy, "loss", None))
        assert "all models" in alike
        # The one model that is no reference is named too: the references are not concerned.
        one = Evaluation({"a": noisy["a"], "calm": calm}, "loss", None)
        found = self.lines(one, references=("calm",))
        noise = next(line for line in found.split("<li>") if "sampling noise" in line)
        concerned = re.sub(r"<[^>]*>", "", noise.partition("Concerns: ")[2])
        assert concerned.strip() == "a"

    def test_risks_that_depend_on_size_are_one_line_with_the_span_of_correlations(self) -> None:
        counts = np.arange(20, 80)
        noise = np.random.default_rng(0).normal(0.0, 0.05, 60)
        found = {
            name: MeasuredRisks.of(
                range(60), counts, power * counts / 80 + noise, np.full(60, 0.01)
            )
            for name, power in (("a", 1.0), ("b", 0.3))
        }
        lines = self.lines(Evaluation(found, "loss", None))
        assert lines.count("Risk grows with domain size (rank correlation +0.") == 1
        assert "p at most 0.00" in lines

    def test_a_constant_that_is_better_on_average_is_said(self) -> None:
        evaluation = risks_of(constant=0.9 * RISKS, model=RISKS)
        found = self.lines(evaluation)
        assert "on average the constant predicts better" in found

    def test_too_few_domains_for_a_certificate_are_the_first_line(self) -> None:
        first = self.lines(measured(12)).split("<li>")[1]
        assert first.startswith("No certificate: 12 domains are too few")


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e-6, 1.0, 1e150])
def test_packed_columns_keep_five_digits_of_the_spread(scale: float) -> None:
    values = scale * np.array([1.0, 2.0, 3.0, 11.0, np.nan])
    again = unpacked(packed(values))
    assert np.isnan(again[-1])
    assert again[:-1] == pytest.approx(values[:-1], abs=1e-4 * scale + 5e-324)


def test_references_get_letters_and_models_numbers() -> None:
    evaluation = measured(20, TWELVE)
    rows = shown_models(evaluation, replace(answered(evaluation), references=TWELVE[4:]))
    assert [row.sign for row in rows] == [*"1234", *"abcdefgh"]
