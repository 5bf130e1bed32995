"""Cross-validation that keeps domains whole: a domain is in training or in testing, never in both.

scikit-learn's GroupKFold deals rows evenly, so its folds may hold very different numbers of
domains. Quantiles over domains need folds with equally many domains, which these have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from eqrm.errors import DomainDataError, SettingError
from eqrm.estimators.groups import Groups, as_groups
from eqrm.linear.settings import check_whole

Split = tuple[NDArray[np.int64], NDArray[np.int64]]


class WholeDomains(BaseCrossValidator):  # type: ignore[misc]
    """Splits of domains, as splits of rows."""

    # Routed without being asked for, as for scikit-learn's own group splitters.
    __metadata_request__split = {"groups": True}  # noqa: RUF012

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[Split]:
        """Rows of training and rows of testing, split by split."""
        for out in self._test_domains(self._domains(X, groups)):
            yield np.flatnonzero(~out), np.flatnonzero(out)

    def _domains(self, X: Any, groups: Any) -> Groups:
        if groups is None:
            raise DomainDataError(
                f"{type(self).__name__} keeps domains whole and needs groups=, the domain of each "
                "row."
            )
        rows = X.shape[0] if hasattr(X, "shape") else len(X)
        return as_groups(groups, rows)

    def _test_domains(self, groups: Groups) -> Iterator[NDArray[np.bool_]]:
        """Whether each row is tested on, split by split."""
        raise NotImplementedError


class DomainKFold(WholeDomains):
    """K folds of whole domains, dealt at random, with equally many domains in each (±1).

    >>> X, hospital = np.zeros((6, 1)), ["a", "a", "b", "c", "c", "d"]
    >>> for train, test in DomainKFold(2, random_state=0).split(X, groups=hospital):
    ...     print(sorted({hospital[i] for i in test}))
    ['a', 'd']
    ['b', 'c']
    """

    def __init__(self, n_splits: int = 5, *, random_state: Any = 0) -> None:
        self.n_splits = check_whole(n_splits, "n_splits", 2)
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """K."""
        return self.n_splits

    def _test_domains(self, groups: Groups) -> Iterator[NDArray[np.bool_]]:
        if self.n_splits > len(groups):
            raise SettingError(
                f"n_splits={self.n_splits} is more than the number of domains, {len(groups)}: "
                "every fold needs one at least."
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
        self.n_splits = check_whole(n_splits, "n_splits", 1)
        self.test_size = test_size
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """How many splits there are."""
        return self.n_splits

    def _test_domains(self, groups: Groups) -> Iterator[NDArray[np.bool_]]:
        number = self._number(len(groups))
        random = check_random_state(self.random_state)
        for _ in range(self.n_splits):
            out = np.zeros(len(groups), dtype=bool)
            out[random.permutation(len(groups))[:number]] = True
            yield out[groups.ids]

    def _number(self, domains: int) -> int:
        size = self.test_size
        whole = isinstance(size, (int, np.integer)) and not isinstance(size, bool)
        number = int(size) if whole else round(float(size) * domains)
        if not 0 < number < domains or not (whole or 0.0 < float(size) < 1.0):
            raise SettingError(
                f"test_size={size!r} of {domains} domains leaves none to train or none to test. "
                "Give a share such as 0.5, or a number of domains."
            )
        return number
