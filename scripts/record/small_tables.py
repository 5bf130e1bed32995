"""Small tables that recorded commands read, the same on every machine.

Numbers come from Python's own generator, whose stream no version of a library changes, and are
written with a few digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from random import Random

Row = list[object]


def _written(path: Path, head: list[str], rows: Iterator[Row]) -> None:
    lines = [",".join(head), *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _probability(score: float) -> float:
    return 1.0 / (1.0 + math.exp(-score))


def patients(path: Path) -> None:
    """40 hospitals with two wards each: what was measured, and who is ill."""
    draw = Random(1)

    def rows() -> Iterator[Row]:
        for hospital in range(40):
            shift, slope = draw.gauss(0.0, 0.6), draw.gauss(0.0, 0.8)
            for patient in range(24):
                age, pressure = draw.randint(20, 90), draw.gauss(0.0, 1.0)
                smokes = draw.random() < 0.3
                score = 0.04 * (age - 55) + slope * pressure + 0.7 * smokes + shift
                ill = int(draw.random() < _probability(score))
                ward = "east" if patient % 2 else "west"
                smoker = "yes" if smokes else "no"
                yield [f"H{hospital:02d}", ward, age, f"{pressure:.2f}", smoker, ill]

    _written(path, ["hospital", "ward", "age", "pressure", "smoker", "ill"], rows())


def new_patients(path: Path) -> None:
    """Patients of three hospitals that no model has seen, without a diagnosis."""
    draw = Random(2)

    def rows() -> Iterator[Row]:
        for number in range(18):
            smoker = "yes" if draw.random() < 0.3 else "no"
            pressure = f"{draw.gauss(0.0, 1.0):.2f}"
            yield [f"N{number % 3}", "east", draw.randint(20, 90), pressure, smoker]

    _written(path, ["hospital", "ward", "age", "pressure", "smoker"], rows())


def _predicted(hospitals: int, seed: int) -> Iterator[tuple[str, str, int, float, float]]:
    """Hospital, ward, what happened, and the probabilities of a usual and a careful predictor."""
    draw = Random(seed)
    for hospital in range(hospitals):
        shift = draw.gauss(0.0, 0.7)
        for patient in range(20):
            score = draw.gauss(0.0, 1.2)
            died = int(draw.random() < _probability(score + shift))
            usual, careful = (round(_probability(by * score), 4) for by in (1.3, 0.6))
            yield f"H{hospital:02d}", "east" if patient % 2 else "west", died, usual, careful


def predictions(path: Path) -> None:
    """40 hospitals: two predictors of a probability, and the losses of the first."""

    def rows() -> Iterator[Row]:
        for hospital, ward, died, usual, careful in _predicted(40, 3):
            loss = -math.log(usual if died else 1.0 - usual)
            yield [hospital, ward, died, usual, careful, f"{loss:.4f}"]

    _written(path, ["hospital", "ward", "died", "usual", "careful", "loss"], rows())


def new_predictions(path: Path) -> None:
    """The first of them for another hospital, without what happened."""
    rows = ([hospital, usual] for hospital, _, _, usual, _ in _predicted(1, 10))
    _written(path, ["hospital", "usual"], rows)


def of_usual(path: Path) -> None:
    """The predictions of the first in a file of their own."""
    _written(path, ["hospital", "died", "p"], ([h, d, p] for h, _, d, p, _ in _predicted(40, 3)))


def of_careful(path: Path) -> None:
    """The predictions of the second in a file of their own."""
    _written(path, ["hospital", "died", "p"], ([h, d, p] for h, _, d, _, p in _predicted(40, 3)))


def predicted_classes(path: Path) -> None:
    """30 cameras: three species, and a probability of each."""
    draw = Random(4)
    species = ["deer", "fox", "hare"]

    def rows() -> Iterator[Row]:
        for camera in range(30):
            shown = [math.exp(draw.gauss(0.0, 0.5)) for _ in species]
            for _ in range(15):
                truth = draw.choices(range(3), shown)[0]
                scores = [
                    math.exp(draw.gauss(0.0, 0.8) + 1.5 * (which == truth)) for which in range(3)
                ]
                first, second = (round(each / sum(scores), 3) for each in scores[:2])
                guess = species[scores.index(max(scores))]
                third = round(1.0 - first - second, 3)
                yield [f"C{camera:02d}", species[truth], guess, first, second, third]

    _written(path, ["camera", "species", "guess", "p_deer", "p_fox", "p_hare"], rows())


def aggregated(path: Path) -> None:
    """50 shops: how many examples, and the mean and variance of their losses."""
    draw = Random(5)

    def rows() -> Iterator[Row]:
        for shop in range(50):
            mean = math.exp(draw.gauss(-1.0, 0.3))
            yield [f"S{shop:02d}", draw.randint(20, 200), f"{mean:.4f}", f"{0.4 * mean:.4f}"]

    _written(path, ["shop", "n", "mean", "variance"], rows())


def sales(path: Path) -> None:
    """70 weeks of a shop: numbers to predict, with an order of time."""
    draw = Random(6)

    def rows() -> Iterator[Row]:
        slope = 2.0
        for week in range(70):
            slope = 0.8 * slope + 0.2 * 2.0 + draw.gauss(0.0, 0.3)
            begin = date(2024, 1, 1) + timedelta(weeks=week)
            for number in range(14):
                warmth, price = draw.gauss(15.0, 6.0), draw.uniform(1.0, 3.0)
                sold = 40.0 + slope * (warmth - 15.0) - 8.0 * price + draw.gauss(0.0, 4.0)
                day = begin + timedelta(days=number % 7)
                yield [f"W{week:02d}", day, f"{warmth:.1f}", f"{price:.2f}", f"{sold:.1f}"]

    _written(path, ["week", "date", "warmth", "price", "sold"], rows())


def _days(path: Path, first: date, days: int, slope: float, seed: int) -> None:
    draw = Random(seed)

    def rows() -> Iterator[Row]:
        for number in range(days):
            day, weather = first + timedelta(days=number), draw.gauss(0.0, 0.4)
            for _ in range(12):
                score = draw.gauss(0.0, 1.0)
                late = int(draw.random() < _probability(slope * score + weather))
                yield [day, late, f"{_probability(score):.4f}"]

    _written(path, ["day", "late", "p"], rows())


def past_days(path: Path) -> None:
    """200 days: whether something was late, and the probability that was predicted."""
    _days(path, date(2024, 1, 1), 200, 1.0, 7)


def next_days(path: Path) -> None:
    """20 days that follow, like those before."""
    _days(path, date(2024, 7, 19), 20, 1.0, 8)


def worse_days(path: Path) -> None:
    """40 days after these, on which what was predicted is wrong."""
    _days(path, date(2024, 8, 8), 40, -2.0, 9)


TABLES: dict[str, Callable[[Path], None]] = {
    "patients.csv": patients,
    "new-patients.csv": new_patients,
    "predictions.csv": predictions,
    "new-predictions.csv": new_predictions,
    "usual.csv": of_usual,
    "careful.csv": of_careful,
    "animals.csv": predicted_classes,
    "shops.csv": aggregated,
    "sales.csv": sales,
    "past.csv": past_days,
    "next.csv": next_days,
    "worse.csv": worse_days,
}
"""Every table by the name of its file."""
