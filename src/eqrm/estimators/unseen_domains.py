"""What every estimator here can say about domains: risks, and certificates for unseen ones."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from eqrm.domains import named_domains
from eqrm.errors import DomainDataError, SettingError
from eqrm.estimators.groups import ONE_DOMAIN
from eqrm.evaluation.inference.certificates import Certificate, quantile_bound
from eqrm.evaluation.measuring.from_arrays import risks_of_losses
from eqrm.level import Level
from eqrm.linear.solving.risk_functions import Array
from eqrm.risks import MeasuredRisks


class JudgedByDomain:
    """An estimator with losses per row and the names of the domains it was fitted to.

    Needs ``losses(X, y)``, and ``domains_`` and ``level_`` after ``fit``. Domains that training
    was stopped by are ``validation_domains_``: they took part in choosing the predictor.
    """

    domains_: tuple[Any, ...]
    validation_domains_: tuple[Any, ...] = ()
    level_: Level | None

    def losses(self, X: Any, y: Any) -> Array:
        """The loss of every row (n,)."""
        raise NotImplementedError

    def measured_risks(self, X: Any, y: Any, groups: Any) -> MeasuredRisks:
        """The risk of each domain of these rows: name, count, mean and variance of its losses."""
        check_is_fitted(self)
        losses = self.losses(X, y)
        if groups is None:
            raise DomainDataError(
                "Risks by domain need groups: pass the domain of each row as groups=."
            )
        return risks_of_losses(type(self).__name__, losses, groups)

    def certificate(
        self,
        X: Any,
        y: Any,
        groups: Any,
        alpha: Level | float | str | None = None,
        confidence: float = 0.95,
    ) -> Certificate:
        """What holds for new domains with this confidence, from domains not seen in training.

        ``alpha`` is the level trained for unless another is given. A domain that ``fit`` has seen,
        be it to stop early, is refused: its risk is no measure of what new domains will have.
        """
        check_is_fitted(self)
        asked = self.level_ if alpha is None else alpha
        if asked is None:
            raise SettingError(
                "This predictor was trained for no level (alpha=None): say for which alpha the "
                "certificate should be."
            )
        measured = self.measured_risks(X, y, groups)
        refuse_seen(measured.domains, self.domains_)
        refuse_seen(measured.domains, self.validation_domains_, "was stopped early by")
        return quantile_bound(measured.risks, asked, confidence)


def refuse_seen(domains: Any, seen: Any, part: str = "was trained on") -> None:
    """Refuse domains that had a part in training, by name.

    >>> refuse_seen(("a", "b"), ("b", "c"))
    Traceback (most recent call last):
    ...
    eqrm.errors.DomainDataError: What holds for unseen domains cannot be measured on domain 'b', ...
    """
    known = {str(name) for name in seen}
    if known == {ONE_DOMAIN}:
        return
    both = [name for name in domains if str(name) in known]
    if both:
        raise DomainDataError(
            f"What holds for unseen domains cannot be measured on {named_domains(both)}, which the "
            f"predictor {part}. Give domains that fit has not seen."
        )
