"""Evaluations of more rows than one machine reads: parts are measured anywhere, then merged.

A part is what :func:`evaluate_part` found in some of the files: examples, mean and variance of the
losses per domain and predictor, and the labels per domain that constants are computed from. It is
small, whatever the number of rows. :func:`merge_parts` gives the evaluation of all rows: counts are
exact, means and variances are merged by :func:`eqrm.risks.merged_moments`. A domain may be split
over parts in any way.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from eqrm.data.tables.files import find_files
from eqrm.domains import DomainKey, named_domains
from eqrm.errors import DataFileError, DomainDataError, EqrmError, Setting, SettingError
from eqrm.evaluation.evaluate import evaluation_of, measured_predictors
from eqrm.evaluation.evaluated_domains import Period
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.risk_checks import LevelLike, checked_alpha
from eqrm.evaluation.measuring.accumulator import RiskAccumulator
from eqrm.evaluation.measuring.constants import LabelStatistics
from eqrm.evaluation.measuring.domain_columns import DomainFacts
from eqrm.evaluation.measuring.measurement_spec import AGGREGATED, MeasurementSpec, nested_domains
from eqrm.evaluation.measuring.prediction_rows import Measured
from eqrm.evaluation.measuring.unusable_rows import Expected, refuse_if_never_right
from eqrm.files.checked_json import read_checked_json, write_checked_json
from eqrm.level import Level
from eqrm.risks import MeasuredRisks, Numbers, merged_moments
from eqrm.text import counted, listed, shortened

PART, FORMAT = "a part of an evaluation", "eqrm part of an evaluation 1"
ENDS = 65_536
"""Bytes at the beginning and the end of a file that, with its size, tell files apart."""
PROBLEMS_SHOWN, LONGEST_REASON = 10, 200


@dataclass(frozen=True, eq=False)
class EvaluatedPart:
    """What was measured on a part of the rows.

    ``measures`` says by which loss and metric, over which domain columns; ``sources`` are the
    files, by a fingerprint of each; ``name`` is what errors call the part. ``seen`` are the domains
    that training has seen, None where no column says so.
    """

    measures: Mapping[str, Any]
    sources: Mapping[str, str]
    predictors: Mapping[str, MeasuredRisks]
    labels: LabelStatistics | None = None
    name: str = "a part"
    seen: frozenset[str] | None = None

    @property
    def examples(self) -> int:
        """The number of examples of the first predictor."""
        return int(next(iter(self.predictors.values())).counts.sum())

    def write(self, path: str | Path) -> None:
        """Write the part to a JSON file."""
        labels = None
        if self.labels is not None:
            arrays = (self.labels.counts, self.labels.means, self.labels.variances)
            labels = [list(self.labels.domains), *(_plain(array) for array in arrays)]
        content = {
            "measures": dict(self.measures),
            "sources": dict(self.sources),
            "predictors": {name: risks.to_dict() for name, risks in self.predictors.items()},
            "labels": labels,
            "seen": None if self.seen is None else sorted(self.seen),
        }
        write_checked_json(Path(path), FORMAT, content)

    @classmethod
    def read(cls, path: str | Path) -> EvaluatedPart:
        """Read what :meth:`write` wrote."""
        content = read_checked_json(Path(path), FORMAT, PART)
        try:
            return cls._of(content, Path(path).name)
        except EqrmError as error:
            raise DataFileError(f"{path} is damaged. {error}") from None
        except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
            wrong = shortened(repr(error), LONGEST_REASON)
            raise DataFileError(f"{path} is damaged: {wrong} is missing or wrong.") from None

    @classmethod
    def _of(cls, content: Mapping[str, Any], name: str) -> EvaluatedPart:
        labels = None
        if content["labels"] is not None:
            domains, *arrays = content["labels"]
            numbers = [None if a is None else np.array(a, dtype=np.float64) for a in arrays]
            labels = LabelStatistics(tuple(map(str, domains)), *numbers)  # type: ignore[arg-type]
        predictors = {
            predictor: MeasuredRisks.from_dict(each, part=True)
            for predictor, each in content["predictors"].items()
        }
        seen = content.get("seen")
        seen = None if seen is None else frozenset(map(str, seen))
        if not all(np.isfinite(risks.risks).all() for risks in predictors.values()):
            raise ValueError("a risk that is not finite")
        _check_labels(labels, predictors)
        _spec_of(content["measures"], None)
        dict(content["sources"]), content["measures"]["several"]
        return cls(content["measures"], content["sources"], predictors, labels, name, seen)


def evaluate_part(data: Any, **columns: Any) -> EvaluatedPart:
    """Measure predictors on a part of the files of an evaluation.

    ``data`` is a file, a pattern, a folder, a list of them, or a mapping of predictors to them;
    the rest is as in :func:`eqrm.evaluate`: ``domains``, ``within``, ``losses``, ``labels``,
    ``predictions``, ``metric``, ``clip``, ``aggregated``, ``columns``, ``predictor``, ``seen``,
    ``threads``, ``memory``.
    """
    domains, nesting = nested_domains(data, columns.get("domains"), columns.pop("within", None))
    given = {**columns, "columns": {**AGGREGATED, **(columns.get("columns") or {})}}
    given |= {"domains": domains, "nesting": nesting}
    spec = replace(MeasurementSpec(**given), part=True, references=True)
    if not isinstance(spec.metric, str) or spec.set_metric is not None:
        raise SettingError(
            "The metric of a part must be the name of a loss, such as 'log-loss', so that parts "
            "can be merged."
        )
    if spec.order is not None:
        raise SettingError(
            f"A part does not hold the times of its rows: leave out {Setting('order')}. Merged "
            "domains are in the order of time where their names are dates."
        )
    groups = list(data.values()) if isinstance(data, Mapping) else [data]
    files = [path for group in groups for path in find_files(_as_list(group))]
    found = measured_predictors(data, spec)
    first = next(iter(found.values()))
    measures = {
        "domains": [spec.domains] if isinstance(spec.domains, str) else list(spec.domains),
        "kind": "aggregates" if spec.aggregated else "predictions" if spec.labels else "losses",
        "metric": spec.metric if spec.takes_predictions else None,
        "clip": spec.clip if spec.takes_predictions else None,
        "several": first.several,
        **({} if nesting is None else {"within": list(nesting.members)}),
    }
    return EvaluatedPart(
        measures,
        {fingerprint(path): path.name for path in files},
        {name: each.risks for name, each in found.items()},
        first.labels,
        files[0].name + (f" and {len(files) - 1:,} more" if len(files) > 1 else ""),
        _seen_by_any(found.values()),
    )


def merge_parts(
    parts: Iterable[EvaluatedPart | str | Path],
    *,
    common_domains: bool = False,
    references: bool | None = None,
    alpha: LevelLike = 0.9,
    after: Any = None,
    last: float | None = None,
) -> Evaluation:
    """The evaluation of all rows of which the parts, or the files of parts, were measured.

    Damaged parts, parts that measure different things, that lack a predictor, or that measured a
    file which another part measured too are refused, all problems at once. ``references=False``
    leaves out the constants. Domains seen in training are left out; ``after`` and ``last`` are as
    in :func:`eqrm.evaluate`, for domains that are dates.
    """
    checked_alpha(alpha)
    period = Period(after, last)
    whole = _Whole()
    for part in parts:
        try:
            whole.add(EvaluatedPart.read(part) if isinstance(part, (str, Path)) else part)
        except DataFileError as error:
            whole.problems.append(f"{error} Measure it again with {Setting('partial')}.")
    if whole.first is None and not whole.problems:
        raise SettingError(f"No part was given. Give the files that {Setting('partial')} wrote.")
    if whole.first is None or whole.problems:
        shown = " ".join(whole.problems[:PROBLEMS_SHOWN])
        more = len(whole.problems) - PROBLEMS_SHOWN
        raise DomainDataError(
            shown + (f" And {counted(more, 'problem')} more." if more > 0 else "")
        )
    spec = _spec_of(whole.first.measures, references)
    return evaluation_of(whole.measured(spec), spec, Level.of(alpha), common_domains, period=period)


@dataclass
class _Whole:
    """Parts, merged one after the other."""

    first: EvaluatedPart | None = None
    problems: list[str] = field(default_factory=list)
    _risks: dict[str, RiskAccumulator] = field(default_factory=dict)
    _sources: dict[str, str] = field(default_factory=dict)
    _labels: list[LabelStatistics | None] = field(default_factory=list)
    _seen: dict[str, bool | None] = field(default_factory=dict)

    def add(self, part: EvaluatedPart) -> None:
        """Add a part, or note what is wrong with it."""
        self.first = self.first or part
        found = self._problems_of(part)
        self.problems += found
        self._sources |= dict.fromkeys(part.sources, part.name)
        if found:
            return
        self._labels.append(part.labels)
        self._seen |= _seen_in(part)
        for name, risks in part.predictors.items():
            n = risks.counts.astype(np.float64)
            one = RiskAccumulator(across_processes=False)
            squares = np.where(n > 1, risks.variances, 0.0) * (n - 1.0)
            one.load_state_dict(
                # As strings: another part may have names that are not integers.
                {
                    "domains": [str(domain) for domain in risks.domains],
                    "count": n,
                    "mean": risks.risks,
                    "squares": squares,
                }
            )
            self._risks.setdefault(name, RiskAccumulator(across_processes=False)).merge(one)

    def _problems_of(self, part: EvaluatedPart) -> list[str]:
        first = self.first or part
        found = [
            f"{part.name} measures {key} {part.measures.get(key)!r}, but {first.name} "
            f"{first.measures.get(key)!r}. Merge parts of one evaluation."
            for key in {**first.measures, **part.measures}
            if part.measures.get(key) != first.measures.get(key)
        ]
        lacking = [name for name in first.predictors if name not in part.predictors]
        unknown = [name for name in part.predictors if name not in first.predictors]
        for one, other, names in ((part, first, lacking), (first, part, unknown)):
            if names:
                found.append(
                    f"{one.name} has no predictor {listed(names)}, which {other.name} has. Measure "
                    "the same predictors in every part."
                )
        unlike = [k for k, v in _seen_in(part).items() if self._seen.get(k, v) is not v]
        if unlike:
            found.append(
                f"{part.name} and the parts before disagree about whether training has seen "
                f"{named_domains(unlike)}. Let one model write the column 'seen' of all files."
            )
        for fingerprint, source in part.sources.items():
            if fingerprint in self._sources:
                found.append(
                    f"The file {source!r} was measured in two parts, "
                    f"{self._sources[fingerprint]} and {part.name}. Give every file once."
                )
        return found

    def measured(self, spec: MeasurementSpec) -> dict[str, Measured]:
        """Every predictor on all rows."""
        labels = _merged_labels(self._labels)
        found = {}
        for name, gathered in self._risks.items():
            risks = gathered.compute()
            classes = Expected(spec.known_metric, as_classes=labels is None)
            if spec.known_metric is not None and spec.known_metric.name == "0-1":
                refuse_if_never_right(name, risks, classes)
            several = self.first is not None and bool(self.first.measures["several"])
            seen = frozenset(domain for domain, known in self._seen.items() if known)
            found[name] = Measured(risks, several, labels, facts=DomainFacts(seen))
        return found


def _check_labels(labels: LabelStatistics | None, measured: Mapping[str, MeasuredRisks]) -> None:
    """Raise if the labels in a file are not about the domains that were measured."""
    if labels is None:
        return
    of = {str(domain) for risks in measured.values() for domain in risks.domains}
    rows = len(labels.domains)
    if {*labels.domains} != of or len(of) != rows or labels.counts.shape[:1] != (rows,):
        raise ValueError("its labels are of other domains")
    if labels.counts.ndim != 2 or not (np.isfinite(labels.counts) & (labels.counts >= 0)).all():
        raise ValueError("its labels are not counted")
    for found in (labels.means, labels.variances):
        if found is not None and (found.shape != (rows,) or np.isinf(found).any()):
            raise ValueError("its labels have other numbers than domains")
    if (labels.means is None) != (labels.variances is None):
        raise ValueError("its labels have no mean or no variance")


def _seen_by_any(measured: Iterable[Measured]) -> frozenset[str] | None:
    """The domains that a predictor has seen in training; None where no column says so."""
    known = [each.facts.seen for each in measured if each.facts.seen is not None]
    return frozenset[str]().union(*known) if known else None


def _seen_in(part: EvaluatedPart) -> dict[str, bool | None]:
    """Whether training has seen each domain of a part; None where no column says so."""
    names = {str(name) for risks in part.predictors.values() for name in risks.domains}
    return {name: None if part.seen is None else name in part.seen for name in names}


def _merged_labels(parts: Sequence[LabelStatistics | None]) -> LabelStatistics | None:
    """The labels of all rows per domain; None where a part does not know them."""
    known = [part for part in parts if part is not None]
    widths = {part.counts.shape[1] for part in known}
    if len(known) < len(parts) or len(widths) != 1:
        return None
    place: dict[str, int] = {}
    ids = np.array(
        [place.setdefault(str(name), len(place)) for part in known for name in part.domains]
    )
    counts = np.zeros((len(place), widths.pop()))
    np.add.at(counts, ids, np.concatenate([part.counts for part in known]))
    if known[0].means is None:
        return LabelStatistics(tuple(place), counts)
    n = np.concatenate([part.counts[:, 0] for part in known])
    means, s2 = (
        np.concatenate([np.asarray(getattr(part, key)) for part in known])
        for key in ("means", "variances")
    )
    _, means, squares = merged_moments(ids, n, means, s2 * n)
    return LabelStatistics(tuple(place), counts, means, squares / counts[:, 0])


def _spec_of(measures: Mapping[str, Any], references: bool | None) -> MeasurementSpec:
    """What the parts measured; the names of columns do not matter any more."""
    kind, within = measures["kind"], measures.get("within")
    predicts = kind == "predictions"
    return MeasurementSpec(
        domains=measures["domains"],
        losses="loss" if kind == "losses" else None,
        labels="label" if predicts else None,
        predictions="prediction" if predicts else None,
        metric=measures["metric"] or "log-loss",
        clip=measures["clip"] or 0.0,
        aggregated=kind == "aggregates",
        references=references,
        part=True,
        nesting=None
        if within is None
        else DomainKey.of(measures["domains"][: -len(within)], within),
    )


def _as_list(group: Any) -> list[str | Path]:
    if isinstance(group, (str, Path)):
        return [group]
    if isinstance(group, (list, tuple)) and all(isinstance(p, (str, Path)) for p in group):
        return list(group)
    raise SettingError(
        f"A part is measured on files, got {type(group).__name__}. In memory, gather losses with "
        "eqrm.evaluation.RiskAccumulator, which merges too."
    )


def fingerprint(path: Path) -> str:
    """What tells a file from others, also where it was copied: its size and both its ends."""
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        digest.update(file.read(ENDS))
        file.seek(max(0, size - ENDS), os.SEEK_SET)
        digest.update(file.read(ENDS))
    return digest.hexdigest()


def _plain(array: Numbers | None) -> Any:
    """Nested lists for JSON, None for NaN."""
    if array is None:
        return None
    return np.where(np.isnan(array), None, array).tolist()  # type: ignore[call-overload]


def find_parts(patterns: Sequence[str]) -> list[Path]:
    """The files of parts that names, patterns and folders refer to, by name."""
    found: list[str] = []
    problems = []
    for pattern in patterns:
        inside = os.path.join(glob.escape(pattern), "*.json")
        matches = [pattern] if os.path.isfile(pattern) else glob.glob(pattern, recursive=True)
        matches = glob.glob(inside) if os.path.isdir(pattern) else matches
        if not matches and os.path.isdir(pattern):
            problems.append(f"The folder {pattern!r} has no part: no file in it ends in .json.")
        elif not matches:
            problems.append(f"There is no part {pattern!r}.")
        found += matches
    if problems:
        raise DataFileError(" ".join([*problems, f"Give files that {Setting('partial')} wrote."]))
    return sorted(map(Path, found))
