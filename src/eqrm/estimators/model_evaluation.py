"""``eqrm.evaluate_model``: a fitted model and data in, an evaluation over domains out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import is_classifier
from torch import Tensor, nn
from torch.nn import functional

from eqrm.data.seen_domains import SeenDomains
from eqrm.domains import number_domains
from eqrm.errors import DomainDataError, SettingError
from eqrm.estimators.fit_inputs import target_values
from eqrm.evaluation.evaluate import evaluate
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.measuring.accumulator import RiskAccumulator

LOG_LOSS, SQUARED = "log-loss", "squared"
BatchLoss = Callable[[Tensor, Tensor], Tensor]


def evaluate_model(
    model: Any,
    X: Any,
    y: Any = None,
    groups: Any = None,
    *,
    name: str = "model",
    loss: BatchLoss | None = None,
    **options: Any,
) -> Evaluation:
    """How a fitted model does on domains, as a basis for statements about unseen ones.

    Args:
        model: a fitted estimator of scikit-learn (a pipeline or a search too), with ``X``, ``y``
            and ``groups``; or a torch module, with a loader of batches (x, y, domain) as ``X``.
        X: the features of rows, or the loader.
        y: the target of each row.
        groups: the domain of each row.
        name: what the model is called in tables.
        loss: of a torch module: a function of outputs (n, …) and targets that gives one loss per
            example. By default the log-loss of logits where targets are integers or booleans, else
            the squared error.
        options: of an estimator, those of :func:`eqrm.evaluate`: ``metric`` (by default the
            log-loss of classes, the squared error of numbers), ``references``, ``alpha``, ``order``
            and others.

    Domains that an estimator of eqrm was trained on are left out. A torch module is in evaluation
    mode meanwhile.

    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X, day = rng.normal(size=(200, 2)), np.repeat(np.arange(20), 10)
    >>> y = X[:, 0] + rng.normal(size=200) > 0
    >>> fitted = LogisticRegression().fit(X[:100], y[:100])
    >>> found = evaluate_model(fitted, X[100:], y[100:], day[100:])
    >>> found.loss, len(found.domains)
    ('log-loss', 10)
    """
    if isinstance(model, nn.Module):
        if y is not None or groups is not None or options:
            raise SettingError(
                "A torch module is evaluated on a loader of batches (x, y, domain): "
                "evaluate_model(module, loader). Leave out y, groups and other options."
            )
        return _of_module(model, X, loss, name)
    if loss is not None:
        raise SettingError("loss= is for torch modules; for estimators, use metric=.")
    if y is None or groups is None:
        raise DomainDataError("An estimator needs X, y and groups, the domain of each row.")
    if not hasattr(model, "predict"):
        raise SettingError(
            f"A {type(model).__name__} has no predict: pass a fitted estimator or a torch module."
        )
    target, predicted, metric = _predicted(model, X, target_values(y))
    options.setdefault("metric", metric)
    domains = number_domains(groups, what="groups")
    trained = getattr(model, "domains_", None)
    if trained is not None and "seen" not in options:
        options["seen"] = SeenDomains.of(trained).rows(domains)
    return evaluate(domains=domains, labels=target, predictions={name: predicted}, **options)


def _predicted(model: Any, X: Any, target: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], str]:
    """Labels, predictions and the metric for them."""
    if not is_classifier(model):
        return target, np.asarray(model.predict(X)), SQUARED
    if not hasattr(model, "predict_proba"):
        return target, np.asarray(model.predict(X)), "0-1"
    classes = np.asarray(model.classes_)
    unknown = np.setdiff1d(target, classes)
    if unknown.size:
        raise DomainDataError(
            f"y has the class {unknown[0]!r}, which the model was not trained on. Leave such rows "
            "out."
        )
    labels = np.searchsorted(classes, target) if (classes == np.sort(classes)).all() else None
    if labels is None:
        places = {label: place for place, label in enumerate(classes.tolist())}
        labels = np.array([places[label] for label in target.tolist()])
    found = np.asarray(model.predict_proba(X))
    return labels, found[:, 1] if len(classes) == 2 else found, LOG_LOSS


@torch.no_grad()
def _of_module(
    model: nn.Module, loader: Iterable[Any], loss: BatchLoss | None, name: str
) -> Evaluation:
    gathered, training = RiskAccumulator(across_processes=False), model.training
    kinds = set()
    model.eval()
    try:
        for batch in loader:
            if not isinstance(batch, (tuple, list)) or len(batch) != 3:
                raise DomainDataError("The loader must give batches of three: x, y and domain.")
            x, y, domain = batch
            device = next((p.device for p in model.parameters()), torch.device("cpu"))
            outputs = model(x.to(device) if isinstance(x, Tensor) else x)
            target = torch.as_tensor(y).to(outputs.device)
            losses, kind = (loss(outputs, target), "loss") if loss else _losses(outputs, target)
            kinds.add(kind)
            if losses.shape != (len(target),):
                raise DomainDataError(
                    f"The loss must give one number per example, got the shape "
                    f"{tuple(losses.shape)} for {len(target)} examples (reduction='none')."
                )
            gathered.update(losses, domain)
    finally:
        model.train(training)
    return Evaluation({name: gathered.compute()}, kinds.pop() if len(kinds) == 1 else "loss", None)


def _losses(outputs: Tensor, target: Tensor) -> tuple[Tensor, str]:
    """The log-loss of logits (n, K), (n, 1) or (n,), or the squared error of numbers."""
    flat = outputs[:, 0] if outputs.ndim == 2 and outputs.shape[1] == 1 else outputs
    if target.is_floating_point():
        squares = (flat - target.reshape(flat.shape)).square()
        return squares.reshape(len(squares), -1).mean(dim=1), SQUARED
    if flat.ndim == 1:
        return functional.softplus((1.0 - 2.0 * target.to(flat.dtype)) * flat), LOG_LOSS
    return functional.cross_entropy(flat, target.long(), reduction="none"), LOG_LOSS
