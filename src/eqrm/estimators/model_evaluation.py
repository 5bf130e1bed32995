"""``eqrm.evaluate_model``: a model and data in, an evaluation over domains out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from eqrm.checks import refuse_unknown
from eqrm.data.seen_domains import SeenDomains
from eqrm.domains import NumberedDomains, number_domains
from eqrm.errors import DomainDataError, SettingError
from eqrm.estimators.fit_inputs import is_fitted, target_values
from eqrm.estimators.groups import as_groups
from eqrm.estimators.selection.splitters import WHOLE, domain_folds
from eqrm.evaluation.controlling.control import OPTIONS, control
from eqrm.evaluation.controlling.operating_point import OperatingPoint
from eqrm.evaluation.evaluate import evaluate
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.measuring.requirement import Requirement
from eqrm.text import listed

MADE = ("data", "domains", "losses", "predictions", "target")
"""Keywords of :func:`eqrm.evaluate` that a model and its rows take the place of."""
BY_ROW = ("within", "order", "seen")
"""Options of an evaluation that have a value for each row."""


def evaluate_model(
    model: Any,
    X: Any,
    y: Any = None,
    groups: Any = None,
    *,
    name: str = "model",
    cv: Any = None,
    metric: str | Callable[[Any, Any], Any] | None = None,
    **options: Any,
) -> Evaluation:
    """How a model does on domains, as a basis for statements about unseen ones.

    Args:
        model: an estimator of scikit-learn (a pipeline or a search too), with ``X``, ``y`` and
            ``groups``, fitted to other domains or, with ``cv``, to be fitted; or a torch module,
            with a loader of batches (x, y, domain) as ``X``.
        X: the features of rows, or the loader.
        y: the target of each row.
        groups: the domain of each row.
        name: what the model is called in tables.
        cv: the number of folds of whole domains, such as 10, or a splitter: clones of the estimator
            are fitted to the other folds, and each domain is judged by one that has not seen it.
            With ``DomainTimeSplit`` it is one of earlier domains, and the first are not judged.
        metric: as in :func:`eqrm.evaluate`; of a torch module a function of outputs (n, …) and
            targets that gives one loss per example. By default the log-loss of classes (for a
            module: where targets are integers or booleans), the squared error of numbers.
        options: of an estimator, those of :func:`eqrm.evaluate`: ``references``, ``alpha``,
            ``order`` and others.

    Domains that a fitted estimator of eqrm was trained on are left out. A torch module is in
    evaluation mode meanwhile. What is cross-fitted tells how a model of all domains will do on new
    ones; its bounds are checked by simulation, not proven.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        if y is not None or groups is not None or cv is not None or options:
            raise SettingError(
                "A torch module is evaluated on a loader of batches (x, y, domain): "
                "evaluate_model(module, loader). Leave out y, groups, cv and other options."
            )
        from eqrm.estimators.module_evaluation import of_module

        if isinstance(metric, str):
            raise SettingError(
                "The metric of a torch module must be a function of outputs and targets that gives "
                f"one loss per example, got {metric!r}."
            )
        return of_module(model, X, metric, name)
    known = {**signature(evaluate_model).parameters, **signature(evaluate).parameters}
    taken = [each for each in known if each not in (*MADE, "options", "unknown")]
    refuse_unknown(options, taken, "eqrm.evaluate_model", "option")
    if metric is not None:
        options["metric"] = metric
    if y is None or groups is None:
        raise DomainDataError("An estimator needs X, y and groups, the domain of each row.")
    rows = _rows_of(model, X, target_values(y), groups, cv, options)
    options.setdefault("metric", rows.metric)
    given = {"domains": rows.named(options), "target": rows.labels}
    found = evaluate(**given, predictions={name: rows.predictions}, **options)
    return replace(found, cross_fitted=cv is not None)


def control_model(
    models: Any,
    X: Any,
    y: Any,
    groups: Any,
    *,
    require: str,
    cv: Any = None,
    **options: Any,
) -> OperatingPoint:
    """The setting of a scikit-learn model at which new domains meet a requirement.

    Args:
        models: an estimator, or several by name, of which the one that keeps most is chosen.
        X, y, groups: features, target and domain of each row.
        require: as in :func:`eqrm.control`, such as "wrong <= 5%".
        cv: the number of folds of whole domains, or a splitter, where no domains were kept for
            calibration: each is judged by clones fitted to the others, and the guarantee is
            checked by simulation and not proven. Without it the models are fitted to other domains.
        options: those of :func:`eqrm.control`.

    Apply the point to ``model.predict_proba(X_new)``, or to ``predict`` for intervals.
    """
    known = [*signature(control_model).parameters, *signature(control).parameters, *OPTIONS]
    taken = [each for each in dict.fromkeys(known) if each not in (*MADE, "options")]
    refuse_unknown(options, taken, "control_model", "option")
    named = models if isinstance(models, Mapping) else {"model": models}
    found = {}
    for name, model in named.items():
        own = dict(options)
        found[name] = _rows_of(model, X, target_values(y), groups, cv, own), own
    rows, own = next(iter(found.values()))
    if any(each.classes != rows.classes for each, _ in found.values()):
        raise SettingError("Models that are compared must know the same classes: fit them anew.")
    if rows.classes:
        Requirement.of(require, "lac").refuse_other_task(rows.classes)
    seen = [each["seen"] for _, each in found.values() if each.get("seen") is not None]
    if seen:
        own["seen"] = np.any(seen, axis=0)
    own.setdefault("score", "intervals" if rows.metric == "squared" else "lac")
    point = control(
        domains=rows.named(own),
        target=rows.labels,
        predictions={name: each.predictions for name, (each, _) in found.items()},
        require=require,
        **own,
    )
    needed = replace(point.needed, cross_fitted=cv is not None)
    return replace(point, needed=needed, classes=rows.classes or point.classes)


@dataclass(frozen=True, eq=False)
class _Rows:
    """What a model predicts for rows of domains that it has not seen."""

    domains: NumberedDomains
    labels: NDArray[Any]
    predictions: NDArray[Any]
    metric: str
    classes: tuple[Any, ...] = ()

    def named(self, options: Mapping[str, Any]) -> Any:
        """The domains; with members of groups by name, which are joined row by row."""
        if options.get("within") is None:
            return self.domains
        return np.asarray(self.domains.names, dtype=object)[self.domains.ids]


def _rows_of(
    model: Any, X: Any, y: NDArray[Any], groups: Any, cv: Any, options: dict[str, Any]
) -> _Rows:
    """Predictions of a fitted model, or with ``cv`` of clones; ``options`` are of these rows."""
    if not hasattr(model, "predict"):
        raise SettingError(
            f"A {type(model).__name__} has no predict: pass a fitted estimator or a torch module."
        )
    if cv is not None:
        return _cross_fitted(model, X, y, groups, cv, options)
    _refuse_unfitted(model)
    domains = number_domains(groups, what="groups")
    trained = getattr(model, "domains_", None)
    if trained is not None and "seen" not in options:
        options["seen"] = SeenDomains.of(trained).rows(domains)
    classes = tuple(np.asarray(model.classes_).tolist()) if is_classifier(model) else ()
    return _Rows(domains, *_predicted(model, X, y), classes)


def _refuse_unfitted(model: Any) -> None:
    try:
        if isinstance(model, BaseEstimator):
            check_is_fitted(model)
    except NotFittedError:
        raise SettingError(
            f"The {type(model).__name__} is not fitted. With cv=10 it is fitted to nine tenths of "
            "the domains at a time and judged on the others; or fit it to other domains first."
        ) from None


def _cross_fitted(
    model: Any, X: Any, y: NDArray[Any], groups: Any, cv: Any, options: dict[str, Any]
) -> _Rows:
    """Each domain by a clone of the model that was fitted without it."""
    if not hasattr(model, "fit"):
        raise SettingError(f"A {type(model).__name__} has no fit: leave out cv.")
    domains = as_groups(groups, len(y))
    if len(domains) < 2:
        raise DomainDataError("There is 1 domain: with cv, at least 2 are needed, and dozens help.")
    known, judged = np.unique(y) if is_classifier(model) else None, np.full(len(y), False)
    parts = []
    for train, test in domain_folds(cv, X, y, domains, groups, options.get("order")):
        if judged[test].any():
            raise SettingError(f"Every domain must be tested on once: {WHOLE}")
        gone = [] if known is None else known[~np.isin(known, y[train])].tolist()
        if gone:
            raise DomainDataError(
                f"The class {listed(gone)} occurs in too few domains: models of the other domains "
                "cannot know it. Join it with another class, or leave its rows out."
            )
        fitted = _fitted_clone(model, _safe_indexing(X, train), y[train], domains.ids[train])
        labels, predicted, metric = _predicted(fitted, _safe_indexing(X, test), y[test])
        parts.append((np.arange(len(y))[test], labels, predicted))
        judged[test] = True
    kept = np.flatnonzero(judged)
    for each in BY_ROW:
        if options.get(each) is not None:
            options[each] = _safe_indexing(options[each], kept)
    rows, labels, predictions = (np.concatenate(each) for each in zip(*parts, strict=True))
    labels, predictions = labels[np.argsort(rows)], predictions[np.argsort(rows)]
    inside = domains.only(kept)
    classes = () if known is None else tuple(known.tolist())
    given = NumberedDomains(inside.ids, inside.names), labels, predictions, metric
    return _Rows(*given, classes)


def _fitted_clone(model: Any, X: Any, y: NDArray[Any], groups: NDArray[np.int64]) -> Any:
    """Fitted to rows, with their domains where it takes them or, in a pipeline, requests them."""
    if is_fitted(clone(model)):
        raise SettingError(
            f"A {type(model).__name__} stays fitted when it is cloned, so that no domain would be "
            "new to it. Pass the estimator inside, or evaluate it without cv on other domains."
        )
    takes = has_fit_parameter(model, "groups")
    if get_config()["enable_metadata_routing"]:
        takes = bool(get_routing_for_object(model).consumes("fit", ["groups"]))
    return clone(model).fit(X, y, **({"groups": groups} if takes else {}))


def _predicted(model: Any, X: Any, target: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], str]:
    """Labels, predictions and the metric for them."""
    if not is_classifier(model):
        return target, np.asarray(model.predict(X)), "squared"
    if not hasattr(model, "predict_proba"):
        return target, np.asarray(model.predict(X)), "0-1"
    classes = np.asarray(model.classes_)
    from pandas import Index  # slow to import

    labels = Index(classes).get_indexer(target)
    if (labels < 0).any():
        raise DomainDataError(
            f"y has the class {target[labels < 0][0]!r}, which the model was not trained on. Leave "
            "such rows out."
        )
    found = np.asarray(model.predict_proba(X))
    return labels, found[:, 1] if len(classes) == 2 else found, "log-loss"
