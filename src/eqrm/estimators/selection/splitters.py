"""Cross-validation that keeps domains whole: a domain is in training or in testing, never in both.

scikit-learn's GroupKFold balances rows, so its folds may hold very different numbers of domains.
Quantiles over domains need folds with equally many domains, which these have.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import BaseCrossValidator, check_cv
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.metadata_routing import _routing_enabled, process_routing
from sklearn.utils.validation import _num_samples, has_fit_parameter

from eqrm.checks import (
    FLAG,
    NON_NEGATIVE_INTEGER,
    OPEN_FRACTION,
    POSITIVE_INTEGER,
    Rule,
    integer,
    is_integer,
    optional,
)
from eqrm.data.times import DomainSpans, domain_spans
from eqrm.data.windows import refuse_longer, rolling_windows
from eqrm.errors import DomainDataError, EqrmWarning, SettingError
from eqrm.estimators.fit_inputs import TrainingRows
from eqrm.estimators.groups import Groups, required_groups
from eqrm.linear.linear_model import RANDOM_STATE
from eqrm.text import listed

TEST_SIZE = Rule(
    "a share of the domains strictly between 0 and 1, or a positive integer",
    lambda v: OPEN_FRACTION.holds(v) or POSITIVE_INTEGER.holds(v),
)
WHOLE = "use DomainKFold or GroupKFold as cv, which keep domains whole."
Split = tuple[NDArray[np.int64], NDArray[np.int64]]


class DomainKFold(BaseCrossValidator):  # type: ignore[misc]
    """K folds of whole domains, assigned at random, with equally many domains in each (±1).

    >>> X, hospital = np.zeros((6, 1)), ["a", "a", "b", "c", "c", "d"]
    >>> for train, test in DomainKFold(2, random_state=0).split(X, groups=hospital):
    ...     print(sorted({hospital[i] for i in test}))
    ['a', 'd']
    ['b', 'c']
    """

    # Groups are routed without being requested, as for scikit-learn's own group splitters.
    __metadata_request__split = {"groups": True}  # noqa: RUF012

    def __init__(self, n_splits: int = 5, *, random_state: Any = 0) -> None:
        self.n_splits = integer(2).check(n_splits, "n_splits")
        self.random_state = RANDOM_STATE.check(random_state, "random_state")

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """The number of folds."""
        return self.n_splits

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[Split]:
        """The training rows and the test rows of each fold."""
        domains = required_groups(groups, _num_samples(X), type(self).__name__)
        if self.n_splits > len(domains):
            raise SettingError(
                f"n_splits={self.n_splits} is more than the number of domains, {len(domains)}: "
                "each fold needs at least one."
            )
        random = check_random_state(self.random_state)
        fold = (random.permutation(len(domains)) % self.n_splits)[domains.ids]
        for number in range(self.n_splits):
            yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)


class DomainTimeSplit(BaseCrossValidator):  # type: ignore[misc]
    """Train on the past, test on later domains: scikit-learn's TimeSeriesSplit of whole domains.

    Domains are ordered by time and each split tests on the next ones. Its training domains are
    those whose rows are all earlier than every row tested on: a domain that lasts beyond that
    moment is in neither part of the split, so that nothing is learned from the future. Domains
    that begin at the same time are tested together, so parts may differ in size by them.

    Times are given row by row as ``times=``, dates or numbers (with metadata routing:
    ``params={"groups": …, "times": …}``); without them the domains themselves are the times.

    Args:
        n_splits: number of splits, at least 2.
        max_train_size: train on at most so many domains, the latest: a sliding window.
        test_size: number or share of the domains that each split tests on; by default
            one part of ``n_splits + 1``.
        gap: domains to leave out between training and testing.

    >>> day = ["2013-05", "2013-05", "2013-06", "2013-07", "2013-07", "2013-08"]
    >>> for train, test in DomainTimeSplit(2, test_size=1).split(day, groups=day):
    ...     print(train, test)
    [0 1 2] [3 4]
    [0 1 2 3 4] [5]
    """

    __metadata_request__split = {"groups": True, "times": True}  # noqa: RUF012

    def __init__(
        self,
        n_splits: int = 5,
        *,
        max_train_size: int | None = None,
        test_size: float | None = None,
        gap: int = 0,
    ) -> None:
        self.n_splits = integer(2).check(n_splits, "n_splits")
        self.max_train_size = optional(POSITIVE_INTEGER).check(max_train_size, "max_train_size")
        self.test_size = optional(TEST_SIZE).check(test_size, "test_size")
        self.gap = NON_NEGATIVE_INTEGER.check(gap, "gap")

    def get_n_splits(
        self, X: Any = None, y: Any = None, groups: Any = None, times: Any = None
    ) -> int:
        """The number of splits."""
        return self.n_splits

    def split(
        self, X: Any, y: Any = None, groups: Any = None, times: Any = None
    ) -> Iterator[Split]:
        """The training rows and the test rows of each split, in the order of time."""
        domains, spans = _in_time(X, groups, times, type(self).__name__)
        order = spans.order
        starts = spans.starts(self._wanted_starts(len(domains)))
        if len(set(starts)) < self.n_splits:
            raise SettingError(
                f"n_splits={self.n_splits} needs domains that begin at more different times: "
                f"{len(np.unique(spans.first))} times of {len(domains)} domains are too few."
            )
        for number, (start, end) in enumerate(pairwise([*starts, None]), start=1):
            kept = spans.latest_before(spans.first[order[start]], self.gap, self.max_train_size)
            if not kept.size:
                raise SettingError(
                    f"Split {number} of {self.n_splits} has no domain to train on: too few end "
                    f"before the test domains begin, with gap={self.gap}. Use fewer splits, a "
                    "smaller test_size or a smaller gap."
                )
            yield _rows_of(domains, kept), _rows_of(domains, order[start:end])

    def _wanted_starts(self, domains: int) -> list[int]:
        """Where the test domains of each split would begin if no two were of the same time."""
        size = domains // (self.n_splits + 1)
        if self.test_size is not None:
            given = self.test_size
            size = int(given) if is_integer(given) else round(given * domains)
        if size < 1 or domains - self.n_splits * size < 1:
            raise SettingError(
                f"{domains} domains are too few for n_splits={self.n_splits} and test_size="
                f"{self.test_size}: every split needs domains to test on, and the first one "
                "earlier domains to train on."
            )
        return list(range(domains - self.n_splits * size, domains, size))


class DomainRollingSplit(BaseCrossValidator):  # type: ignore[misc]
    """Train on a window of domains, test on the next ones, move on: a rolling origin.

    As :class:`DomainTimeSplit`, with windows of a stated length, as many as fit: ``train_size``
    domains to train on, ``gap`` domains that belong to neither part, ``test_size`` domains to test
    on. The next window begins ``step`` domains later, by default ``test_size``, so that no domain
    is tested on twice. With ``expanding`` every window is trained on all domains from the first
    on (``train_size`` in the first window). Times are given as for :class:`DomainTimeSplit`.

    >>> X = np.zeros((7, 1))
    >>> for train, test in DomainRollingSplit(3, 2, expanding=True).split(X, groups=range(7)):
    ...     print(train, test)
    [0 1 2] [3 4]
    [0 1 2 3 4] [5 6]
    """

    __metadata_request__split = {"groups": True, "times": True}  # noqa: RUF012

    def __init__(
        self,
        train_size: int = 60,
        test_size: int = 30,
        *,
        gap: int = 0,
        step: int | None = None,
        expanding: bool = False,
    ) -> None:
        self.train_size = POSITIVE_INTEGER.check(train_size, "train_size")
        self.test_size = POSITIVE_INTEGER.check(test_size, "test_size")
        self.gap = NON_NEGATIVE_INTEGER.check(gap, "gap")
        self.step = optional(POSITIVE_INTEGER).check(step, "step")
        self.expanding = FLAG.check(expanding, "expanding")

    def get_n_splits(
        self, X: Any = None, y: Any = None, groups: Any = None, times: Any = None
    ) -> int:
        """How many windows fit, which the domains decide."""
        return sum(1 for _ in self.split(groups if X is None else X, y, groups, times))

    def split(
        self, X: Any, y: Any = None, groups: Any = None, times: Any = None
    ) -> Iterator[Split]:
        """The training rows and the test rows of each window, in the order of time."""
        domains, spans = _in_time(X, groups, times, type(self).__name__)
        sizes = {"train_size": self.train_size, "test_size": self.test_size}
        refuse_longer(len(domains), sizes, self.gap)
        windows = rolling_windows(
            spans, tuple(sizes.values()), gap=self.gap, step=self.step, expanding=self.expanding
        )
        for number, window in enumerate(windows, start=1):
            if not len(window.parts[0]):
                raise SettingError(
                    f"Window {number} has no domain to train on: all of them last into the next "
                    "part. Use longer windows."
                )
            train, test = window.parts
            yield _rows_of(domains, train), _rows_of(domains, test)


def _in_time(X: Any, groups: Any, times: Any, owner: str) -> tuple[Groups, DomainSpans]:
    """The domains, and from when to when each lasts."""
    domains = required_groups(groups, _num_samples(X), owner)
    what = "groups" if times is None else "times"
    remedy = "Pass the time of each row as times=."
    return domains, domain_spans(domains.ids, domains.names, times, what, remedy)


def _rows_of(domains: Groups, part: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.flatnonzero(np.isin(domains.ids, part))


def domain_folds(
    cv: Any, X: Any, y: NDArray[Any], domains: Groups, groups: Any, times: Any = None
) -> Iterator[Split]:
    """The rows to fit to and to judge on, without a domain in both.

    ``cv`` is how many folds of whole domains there are, or a splitter.
    """
    if is_integer(cv):
        cv = DomainKFold(min(integer(2).check(cv, "cv"), len(domains)))
    if isinstance(cv, (DomainTimeSplit, DomainRollingSplit)):
        splits = cv.split(X, y, groups, times)
    else:
        splits = check_cv(cv).split(X, y, domains.ids)
    for train, test in splits:
        both = np.intersect1d(domains.ids[train], domains.ids[test])
        if both.size:  # it would be judged by a model that has seen it
            raise DomainDataError(
                "A fold trains and tests on the same domains: "
                f"{listed([domains.names[place] for place in both.tolist()])}. To fix this, {WHOLE}"
            )
        yield train, test


def fitted_clone(owner: Any, rows: TrainingRows, chosen: NDArray[np.int64] | None = None) -> Any:
    """A clone of ``owner.estimator``, fitted on rows, or on some of them.

    It is given the domains and weights that it takes or, with metadata routing, requests.
    """
    X, y, weights, groups = rows.X, rows.y, rows.sample_weight, None
    if len(rows.groups) > 1:
        groups = np.asarray(rows.groups.names, dtype=object)[rows.groups.ids]
    if chosen is not None:
        X, y = _safe_indexing(X, chosen), y[chosen]
        weights = None if weights is None else weights[chosen]
        groups = None if groups is None else groups[chosen]
    given = {"groups": groups, "sample_weight": weights}
    given = {name: value for name, value in given.items() if value is not None}
    if _routing_enabled():
        given = dict(process_routing(owner, "fit", **given).estimator.fit)
    else:
        taken = {n: v for n, v in given.items() if has_fit_parameter(owner.estimator, n)}
        if "sample_weight" in given and "sample_weight" not in taken and chosen is None:
            warnings.warn(
                f"{type(owner.estimator).__name__}.fit does not take sample_weight: the weights "
                "are used for the correction only.",
                EqrmWarning,
                stacklevel=3,
            )
        given = taken
    return clone(owner.estimator).fit(X, y, **given)
