"""The measured risks of one predictor: what every route into an evaluation ends in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.domains import Name, domain_names, name_order, named_domains
from eqrm.errors import DomainDataError
from eqrm.text import counted

Numbers = NDArray[np.float64]
FEWEST_DOMAINS = 2


@dataclass(frozen=True, eq=False)
class MeasuredRisks:
    """Per domain: its name, the number of examples, the mean of their losses, their variance.

    Four arrays of one length m, in the order of the names (numbers before texts). ``risks`` are
    the means; ``variances`` are the unbiased variances of the losses (divisor n − 1), NaN for
    a domain with one example.

    >>> risks = MeasuredRisks.of(["b", "a"], [4, 9], [0.5, 0.2], [0.04, 0.09])
    >>> risks.domains, risks.risks.tolist(), risks.standard_errors.tolist()
    (('a', 'b'), [0.2, 0.5], [0.1, 0.1])
    """

    domains: tuple[Name, ...]
    counts: NDArray[np.int64]
    risks: Numbers
    variances: Numbers

    @classmethod
    def of(cls, domains: Sequence[Any], counts: Any, risks: Any, variances: Any) -> MeasuredRisks:
        """Put the domains in order; refuse repeated domains, and fewer than two of them."""
        names = domain_names(domains)
        order = np.array(sorted(range(len(names)), key=lambda i: name_order(names[i])), dtype=int)
        ordered = tuple(names[i] for i in order)
        repeated = [a for a, b in pairwise(ordered) if a == b]
        if repeated:
            raise DomainDataError(_about_repeated(domains, repeated))
        if len(ordered) < FEWEST_DOMAINS:
            found = f"only {named_domains(ordered)}" if ordered else "none"
            raise DomainDataError(
                f"How risk varies over domains needs at least two domains, but there is {found}. "
                "Give the data of more domains, or another column as the domain."
            )
        return cls(
            domains=ordered,
            counts=np.asarray(counts, dtype=np.int64)[order],
            risks=np.asarray(risks, dtype=np.float64)[order],
            variances=_finite_variances(variances, names)[order],
        )

    def __len__(self) -> int:
        return len(self.domains)

    @property
    def standard_errors(self) -> Numbers:
        """The sampling error s/√n of each risk; NaN for a domain with one example."""
        errors: Numbers = np.sqrt(self.variances / self.counts)
        return errors

    def only(self, domains: Sequence[Name]) -> MeasuredRisks:
        """The same measurements of these domains alone.

        >>> MeasuredRisks.of([1, 2, 3], [5, 5, 5], [0.1, 0.2, 0.3], [1, 1, 1]).only([1, 3]).domains
        (1, 3)
        """
        position = {name: i for i, name in enumerate(self.domains)}
        rows = [position[name] for name in domains]
        return MeasuredRisks.of(domains, self.counts[rows], self.risks[rows], self.variances[rows])

    def to_dict(self) -> dict[str, list[Any]]:
        """Plain lists, for JSON; the variance of a domain with one example is None."""
        return {
            "domains": list(self.domains),
            "counts": self.counts.tolist(),
            "risks": self.risks.tolist(),
            "variances": [None if np.isnan(v) else v for v in self.variances.tolist()],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Sequence[Any]]) -> MeasuredRisks:
        """What :meth:`to_dict` gave.

        >>> risks = MeasuredRisks.of(["a", "b"], [1, 2], [0.5, 0.25], [float("nan"), 0.5])
        >>> MeasuredRisks.from_dict(risks.to_dict()).to_dict() == risks.to_dict()
        True
        """
        variances = [np.nan if v is None else v for v in content["variances"]]
        return cls.of(content["domains"], content["counts"], content["risks"], variances)


def paired(
    predictors: Mapping[str, MeasuredRisks], common_domains: bool = False
) -> dict[str, MeasuredRisks]:
    """The predictors on the same domains; a domain that one of them lacks is refused.

    With ``common_domains``, such domains are left out instead.

    >>> a = MeasuredRisks.of([1, 2, 3], [5, 5, 5], [0.1, 0.2, 0.3], [1, 1, 1])
    >>> b = MeasuredRisks.of([1, 2], [5, 5], [0.3, 0.1], [1, 1])
    >>> paired({"a": a, "b": b}, common_domains=True)["a"].domains
    (1, 2)
    """
    predictors = _named_alike(predictors)
    everywhere = set.intersection(*(set(p.domains) for p in predictors.values()))
    everything = set.union(*(set(p.domains) for p in predictors.values()))
    if everywhere == everything:
        return dict(predictors)
    if not common_domains:
        lacking = {name: everything - set(p.domains) for name, p in predictors.items()}
        name, missing = next((n, m) for n, m in lacking.items() if m)
        raise DomainDataError(
            f"Predictors are compared on the same domains, but {name!r} has no examples of "
            f"{named_domains(sorted(missing, key=name_order))}. Add these examples, or compare on "
            f"the {counted(len(everywhere), 'domain')} that all predictors share "
            "(common_domains=True, --common-domains)."
        )
    kept = sorted(everywhere, key=name_order)
    if len(kept) < FEWEST_DOMAINS:
        raise DomainDataError(
            f"The predictors have {counted(len(kept), 'domain')} in common, and at least two are "
            "needed. Check that the domains are named alike in all files."
        )
    return {name: p.only(kept) for name, p in predictors.items()}


def _named_alike(predictors: Mapping[str, MeasuredRisks]) -> Mapping[str, MeasuredRisks]:
    """Domains that are numbers for one predictor are texts if they are so for another."""
    as_numbers = [all(isinstance(d, int) for d in p.domains) for p in predictors.values()]
    if all(as_numbers) or not any(as_numbers):
        return predictors
    return {name: _by_texts(p) for name, p in predictors.items()}


def _by_texts(measured: MeasuredRisks) -> MeasuredRisks:
    texts = [str(name) for name in measured.domains]
    order = sorted(range(len(texts)), key=texts.__getitem__)
    return MeasuredRisks(
        domains=tuple(texts[i] for i in order),
        counts=measured.counts[order],
        risks=measured.risks[order],
        variances=measured.variances[order],
    )


def _about_repeated(domains: Sequence[Any], repeated: Sequence[Name]) -> str:
    if len(set(domains)) == len(domains):
        return (
            f"{named_domains(repeated).capitalize()} appears both as a number and as a text. Use "
            "numbers for all domains, or texts for all."
        )
    return (
        f"There is more than one row for {named_domains(repeated)}. A table per domain must have "
        "one row for each domain; with several predictors in it, name the column that tells them "
        "apart (predictor=, --predictor)."
    )


def _finite_variances(variances: Any, names: Sequence[Name]) -> Numbers:
    values = np.asarray(variances, dtype=np.float64)
    if np.isinf(values).any():
        large = [names[int(i)] for i in np.flatnonzero(np.isinf(values))]
        raise DomainDataError(
            f"The losses of {named_domains(large)} are so large that their variance overflows. "
            "Rescale or bound the losses."
        )
    return values
