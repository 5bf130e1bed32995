"""What is required of new domains, by which models, of which worlds and tables."""

from __future__ import annotations

from dataclasses import dataclass

ALPHA, CONFIDENCE = 0.9, 0.95
"""The requirement is met on this share of new domains, with this confidence."""
ERM, RECALIBRATED, EQRM = "ERM", "ERM recalibrated", "EQRM at 0.9"
SUPERQUANTILE, TREES = "superquantile 0.75", "boosted trees"
MODELS = (ERM, RECALIBRATED, EQRM, SUPERQUANTILE, TREES)
CHOSEN = "chosen of all"
"""What ``eqrm.control`` takes when it is given all models; it counts the choice."""
ROUNDS = 60
"""Of the trees, as in the study ``frontiers``."""
AMONG = "wrong among answered <= 20%"
COVERAGE = "coverage >= 90%"
OF_WORLDS = ("wrong among answered <= 15%", AMONG, "wrong <= 5%", "wrong <= 10%", "wrong <= 20%")
OF_CLASSES = ("wrong <= 5%", "wrong <= 10%")
LEAST_ANSWERED = 20
"""Of fewer answers the share that is wrong is not asked for, as in ``eqrm.control``."""
STABLE, REVERSED = 3.0, 0.15
WORLDS = {"half as steep": 1.5, "as steep": 3.0}
"""The slope that is reversed in 15% of the domains, beside a stable slope of 3.

Slopes and rows were set after a look at four draws of other seeds, with slopes of 2 to 4 and 60 or
200 rows: of 60 rows 20 answers are a third, which 'wrong among answered' does not ask about.
"""
DIGITS, FLIGHTS = "coloured digits", "flights"
TABLES = (FLIGHTS, DIGITS, "Chem97", "InstEval", "Hsb82")
TEST_TO_TRAIN = 0.5
"""Of random thirds of the domains."""


@dataclass(frozen=True)
class RequirementsSettings:
    """``seeds`` of each world and random ``splits`` of each of the ``tables``.

    A world has as many domains to train as to calibrate, ``fresh`` ones to judge, and ``rows`` of
    each; of tables at most ``most_rows`` of a domain are used.
    """

    seeds: int = 20
    splits: int = 20
    tables: tuple[str, ...] = TABLES
    domains: int = 60
    fresh: int = 300
    rows: int = 300
    most_rows: int = 200


SIZES = {
    "full": RequirementsSettings(),
    "quick": RequirementsSettings(
        seeds=2, splits=2, tables=(DIGITS, "Hsb82"), fresh=100, rows=200, most_rows=60
    ),
}
