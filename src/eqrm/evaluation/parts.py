"""Evaluations of more rows than one machine reads: parts are measured anywhere, then merged.

A part is what :func:`evaluate_part` found in some of the files: examples, mean and variance of the
losses per domain and model, and the labels per domain that constants are computed from. It is
small, whatever the number of rows. :func:`merge_parts` gives the evaluation of all rows: counts are
exact, means and variances are merged by :func:`eqrm.risks.merged_moments`. A domain may be split
over parts in any way.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from eqrm.checks import Problems
from eqrm.data.tables.files import find_files
from eqrm.domains import DomainKey, named_domains
from eqrm.errors import DataFileError, DomainDataError, EqrmError, Setting, SettingError
from eqrm.evaluation.evaluate import evaluation_of, is_files, measured_models
from eqrm.evaluation.evaluated_domains import Period
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.risk_checks import LevelLike, checked_alpha
from eqrm.evaluation.measuring.measured import DomainFacts, LabelStatistics, Measured
from eqrm.evaluation.measuring.measurement_spec import AGGREGATED, MeasurementSpec, nested_domains
from eqrm.evaluation.measuring.rows import Expected, refuse_if_never_right
from eqrm.files.checked_json import read_checked_json, write_checked_json
from eqrm.level import Level
from eqrm.risks import MeasuredRisks
from eqrm.text import listed, shortened

PART, FORMAT = "a part of an evaluation", "eqrm part of an evaluation 2"
ENDS = 65_536
"""Bytes at the beginning and the end of a file that, with its size, tell files apart."""
FORGED = (LookupError, TypeError, AttributeError, ValueError, OverflowError)
"""What a file raises that holds other things than a part."""


@dataclass(frozen=True, eq=False)
class EvaluatedPart:
    """What was measured on a part of the rows.

    ``measures`` says by which loss and metric, over which domain columns; ``sources`` are the
    files, by a fingerprint of each; ``name`` is what errors call the part. ``seen`` are the domains
    that training has seen, None where no column says so.
    """

    measures: Mapping[str, Any]
    sources: Mapping[str, str]
    models: Mapping[str, MeasuredRisks]
    labels: LabelStatistics | None = None
    name: str = "a part"
    seen: frozenset[str] | None = None

    @property
    def examples(self) -> int:
        return int(next(iter(self.models.values())).counts.sum())

    def write(self, path: str | Path) -> None:
        labels = None
        if self.labels is not None:
            arrays = (self.labels.counts, self.labels.means, self.labels.variances)
            plain = (None if each is None else each.tolist() for each in arrays)
            labels = [list(self.labels.domains), *plain]
        content = {
            "measures": dict(self.measures),
            "sources": dict(self.sources),
            "models": {name: risks.to_dict() for name, risks in self.models.items()},
            "labels": labels,
            "seen": None if self.seen is None else sorted(self.seen),
        }
        write_checked_json(Path(path), FORMAT, content)

    @classmethod
    def read(cls, path: str | Path) -> EvaluatedPart:
        content = read_checked_json(Path(path), FORMAT, PART)
        try:
            labels, seen = content["labels"], content.get("seen")
            if labels is not None:
                domains, *arrays = labels
                counts, *others = (a and np.array(a, dtype=np.float64) for a in arrays)
                shapes = {counts.shape[:-1], *(a.shape for a in others if a is not None)}
                if shapes != {(len(domains),)}:
                    raise ValueError("labels have other numbers than domains")
                labels = LabelStatistics(tuple(map(str, domains)), counts, *others)
            models = {
                name: MeasuredRisks.from_dict(each, part=True)
                for name, each in content["models"].items()
            }
            first = next(iter(models.values())).domains
            if labels is not None and not {*map(str, first)} <= {*labels.domains}:
                raise ValueError("labels are of other domains")
            _spec_of(content["measures"], None)
            return cls(
                {"several": content["measures"]["several"], **content["measures"]},
                dict(content["sources"]),
                models,
                labels,
                Path(path).name,
                None if seen is None else frozenset(map(str, seen)),
            )
        except (EqrmError, *FORGED) as error:
            wrong = shortened(repr(error), 200)
            raise DataFileError(f"{path} is damaged: {wrong}.") from None


def evaluate_part(data: Any, **columns: Any) -> EvaluatedPart:
    """Measure models on a part of the files of an evaluation.

    ``data`` is a file, a pattern, a folder, a list of them, or a mapping of models to them;
    the rest is as in :func:`eqrm.evaluate`: ``domains``, ``within``, ``losses``, ``target``,
    ``predictions``, ``metric``, ``clip``, ``aggregated``, ``columns``, ``model``, ``seen``,
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
    files = []
    for group in data.values() if isinstance(data, Mapping) else [data]:
        if not is_files(group):
            raise SettingError(
                f"A part is measured on files, got {type(group).__name__}. In memory, gather "
                "losses with eqrm.evaluation.RiskAccumulator, which merges too."
            )
        files += find_files([group] if isinstance(group, (str, Path)) else group)
    found = measured_models(data, spec)
    first = next(iter(found.values()))
    seen = [each.facts.seen for each in found.values() if each.facts.seen is not None]
    measures = {
        "domains": [spec.domains] if isinstance(spec.domains, str) else list(spec.domains),
        "kind": "aggregates" if spec.aggregated else "predictions" if spec.target else "losses",
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
        frozenset[str]().union(*seen) if seen else None,
    )


def merge_parts(
    parts: Iterable[EvaluatedPart | str | Path],
    *,
    common_domains: bool = False,
    references: bool | None = None,
    alpha: LevelLike = 0.9,
    test_after: Any = None,
    test_last: float | None = None,
) -> Evaluation:
    """The evaluation of all rows of which the parts, or the files of parts, were measured.

    Damaged parts, parts that measure different things, that lack a model, or that measured a
    file which another part measured too are refused, all problems at once. ``references=False``
    leaves out the constants. Domains seen in training are left out; ``test_after`` and
    ``test_last`` are as in :func:`eqrm.evaluate`, for domains that are dates.
    """
    checked_alpha(alpha)
    period, problems, read = Period(test_after, test_last), Problems(), list[EvaluatedPart]()
    for part in parts:
        try:
            read.append(EvaluatedPart.read(part) if isinstance(part, (str, Path)) else part)
        except DataFileError as error:
            problems.note(f"{error} Measure it again with {Setting('partial')}.")
    if not read and not problems:
        raise SettingError(f"No part was given. Give the files that {Setting('partial')} wrote.")
    _note_differences(read, problems)
    if problems:
        raise DomainDataError(" ".join(problems))
    spec = _spec_of(read[0].measures, references)
    facts = DomainFacts(frozenset[str]().union(*(part.seen or () for part in read)))
    labels = LabelStatistics.merged([part.labels for part in read])
    measured = {}
    for name in read[0].models:
        risks = _merged_risks([part.models[name] for part in read])
        if spec.known_metric is not None and spec.known_metric.name == "0-1":
            expected = Expected(spec.known_metric, as_classes=labels is None)
            refuse_if_never_right(name, risks, expected)
        several = bool(read[0].measures["several"])
        measured[name] = Measured(risks, several, labels, facts=facts)
    return evaluation_of(measured, spec, Level.of(alpha), common_domains, period=period)


def _note_differences(parts: Sequence[EvaluatedPart], problems: Problems) -> None:
    """Note parts that measure other things than the first, and files that two parts measured."""
    sources, known = dict[str, str](), dict[str, bool | None]()
    for part in parts:
        first = parts[0]
        for key in {**first.measures, **part.measures}:
            here, there = part.measures.get(key), first.measures.get(key)
            if here != there:
                problems.note(
                    f"{part.name} measures {key} {here!r}, but {first.name} {there!r}. Merge parts "
                    "of one evaluation."
                )
        for one, other in ((part, first), (first, part)):
            lacking = [name for name in other.models if name not in one.models]
            if lacking:
                problems.note(
                    f"{one.name} has no model {listed(lacking)}, which {other.name} has. "
                    "Measure the same models in every part."
                )
        names = {str(name) for risks in part.models.values() for name in risks.domains}
        seen = {name: None if part.seen is None else name in part.seen for name in names}
        unlike = sorted(name for name in names if known.get(name, seen[name]) is not seen[name])
        if unlike:
            problems.note(
                f"{part.name} and the parts before disagree about whether training has seen "
                f"{named_domains(unlike)}. Let one model write the column 'seen' of all files."
            )
        for fingerprint, source in part.sources.items():
            if fingerprint in sources:
                problems.note(
                    f"The file {source!r} was measured in two parts, {sources[fingerprint]} and "
                    f"{part.name}. Give every file once."
                )
        known |= seen
        sources |= dict.fromkeys(part.sources, part.name)


def _merged_risks(parts: Sequence[MeasuredRisks]) -> MeasuredRisks:
    """Names as strings: another part may have some that are not integers."""
    names = [str(name) for part in parts for name in part.domains]
    numbers = (
        np.concatenate([getattr(part, key) for part in parts])
        for key in ("counts", "risks", "variances")
    )
    return MeasuredRisks.merged(names, *numbers)


def _spec_of(measures: Mapping[str, Any], references: bool | None) -> MeasurementSpec:
    """What the parts measured; the names of columns do not matter any more."""
    kind, within = measures["kind"], measures.get("within")
    predicts = kind == "predictions"
    return MeasurementSpec(
        domains=measures["domains"],
        losses="loss" if kind == "losses" else None,
        target="label" if predicts else None,
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


def fingerprint(path: Path) -> str:
    """What tells a file from others, also where it was copied: its size and both its ends."""
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        digest.update(file.read(ENDS))
        file.seek(max(0, size - ENDS), os.SEEK_SET)
        digest.update(file.read(ENDS))
    return digest.hexdigest()


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
