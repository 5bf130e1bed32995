"""Cross-validation that keeps domains whole: a domain is in training or in testing, never in both.

scikit-learn's GroupKFold balances rows, so its folds may hold very different numbers of domains.
Quantiles over domains need folds with equally many domains, which these have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples

from eqrm.checks import OPEN_FRACTION, POSITIVE_INTEGER, Rule, integer, is_integer
from eqrm.errors import SettingError
from eqrm.estimators.groups import Groups, required_groups
from eqrm.linear.linear_model import RANDOM_STATE

TEST_SIZE = Rule(
    "a share of the domains strictly between 0 and 1, or a positive integer",
    lambda v: OPEN_FRACTION.holds(v) or POSITIVE_INTEGER.holds(v),
)
Split = tuple[NDArray[np.int64], NDArray[np.int64]]


class WholeDomains(BaseCrossValidator):  # type: ignore[misc]
    """Splits of rows that keep domains whole. Not to be used by itself."""

    # Groups are routed without being requested, as for scikit-learn's own group splitters.
    __metadata_request__split = {"groups": True}  # noqa: RUF012

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[Split]:
        """The training rows and the test rows of each split."""
        domains = required_groups(groups, _num_samples(X), type(self).__name__)
        for out in self._test_domains(domains):
            yield np.flatnonzero(~out), np.flatnonzero(out)

    def _test_domains(self, groups: Groups) -> Iterator[NDArray[np.bool_]]:
        """Whether each row is tested on, for each split."""
        raise NotImplementedError


class DomainKFold(WholeDomains):
    """K folds of whole domains, assigned at random, with equally many domains in each (±1).

    >>> X, hospital = np.zeros((6, 1)), ["a", "a", "b", "c", "c", "d"]
    >>> for train, test in DomainKFold(2, random_state=0).split(X, groups=hospital):
    ...     print(sorted({hospital[i] for i in test}))
    ['a', 'd']
    ['b', 'c']
    """

    def __init__(self, n_splits: int = 5, *, random_state: Any = 0) -> None:
        self.n_splits = integer(2).check(n_splits, "n_splits")
        self.random_state = RANDOM_STATE.check(random_state, "random_state")

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """The number of folds."""
        return self.n_splits

    def _test_domains(self, groups: Groups) -> Iterator[NDArray[np.bool_]]:
        if self.n_splits > len(groups):
            raise SettingError(
                f"n_splits={self.n_splits} is more than the number of domains, {len(groups)}: each "
                "fold needs at least one."
            )
        fold = check_random_state(self.random_state).permutation(len(groups)) % self.n_splits
        for number in range(self.n_splits):
            yield (fold == number)[groups.ids]


class DomainShuffleSplit(WholeDomains):
    """Random splits in which a share ``test_size`` of the domains, each whole, is tested on.

    ``test_size`` is a share or a number of domains.

    >>> X, day = np.zeros((6, 1)), [1, 1, 2, 3, 3, 4]
    >>> ((train, test),) = DomainShuffleSplit(1, test_size=0.5, random_state=1).split(X, groups=day)
    >>> sorted({day[i] for i in test}), sorted({day[i] for i in train})
    ([3, 4], [1, 2])
    """

    def __init__(
        self, n_splits: int = 10, *, test_size: float = 0.5, random_state: Any = None
    ) -> None:
        self.n_splits = POSITIVE_INTEGER.check(n_splits, "n_splits")
        self.test_size = TEST_SIZE.check(test_size, "test_size")
        self.random_state = RANDOM_STATE.check(random_state, "random_state")

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """The number of splits."""
        return self.n_splits

    def _test_domains(self, groups: Groups) -> Iterator[NDArray[np.bool_]]:
        number = self._number(len(groups))
        random = check_random_state(self.random_state)
        for _ in range(self.n_splits):
            out = np.zeros(len(groups), dtype=bool)
            out[random.permutation(len(groups))[:number]] = True
            yield out[groups.ids]

    def _number(self, domains: int) -> int:
        number = self.test_size if is_integer(self.test_size) else round(self.test_size * domains)
        if not 0 < number < domains:
            raise SettingError(
                f"test_size={self.test_size!r} of {domains} domains leaves none to train on or "
                "none to test on."
            )
        return int(number)
