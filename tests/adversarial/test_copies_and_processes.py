"""Public objects copied, pickled, and used in threads, forks and new processes.

Transforms of ``torch.func`` and ``torch.compile``: tests/distributions/test_transforms.py.
"""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

import eqrm
from eqrm.errors import TooFewDomainsError

RISKS = torch.tensor([0.3, 0.1, 0.7, 0.2, 0.45, 0.9], dtype=torch.float64)
DOMAINS = np.repeat(np.arange(12), 10)
X = np.random.default_rng(0).normal(size=(120, 3))
Y = (X[:, 0] + 0.5 * X[:, 1] * (DOMAINS - 6) / 6 > 0).astype(int)
LOSSES = torch.from_numpy(np.abs(X[:, 0]))


def _numbers(values: Any) -> list[float]:
    return np.asarray(values, dtype=np.float64).ravel().tolist()


def of_law(law: Any) -> list[float]:
    return [law.quantile(eqrm.Level(log_tail=tail)).item() for tail in (-0.5, -3.0, -1000.0)]


def of_objective(objective: Any) -> list[float]:
    losses = LOSSES.clone().requires_grad_()
    value = objective(losses, torch.from_numpy(DOMAINS))
    (gradient,) = torch.autograd.grad(value, losses)
    return [value.item(), *gradient.tolist()]


def of_estimator(fitted: Any) -> list[float]:
    predict = getattr(fitted, "predict_proba", fitted.predict)
    return _numbers(predict(X))


def of_evaluation(found: Any) -> list[float]:
    certificate = found.certificate(0.5)
    return [certificate.bound, certificate.confidence, *found.risk_table().to_csv().encode()]


def of_watch(watch: Any) -> list[float]:
    return [watch.update(risk) for risk in (0.4, 1.2, 0.9)]


def of_level(level: Any) -> list[float]:
    return [level.log_tail, level.alpha]


def _evaluation() -> Any:
    return eqrm.evaluate(domains=DOMAINS, losses=LOSSES.numpy())


def _fitted(estimator: Any) -> Any:
    return estimator.fit(X, Y, groups=DOMAINS)


def _watch() -> Any:
    return eqrm.Watch(_evaluation().certificate(0.5, confidence=0.5), 0.05)


Pair = tuple[Callable[[], Any], Callable[[Any], list[float]]]
OBJECTS: dict[str, Pair] = {
    "Level": (lambda: eqrm.Level.parse("1-e^-1000"), of_level),
    "KDE": (lambda: eqrm.KDE(RISKS, "silverman"), of_law),
    "weighted KDE": (lambda: eqrm.KDE(RISKS, weights=RISKS), of_law),
    "Gaussian": (lambda: eqrm.Gaussian(RISKS), of_law),
    "Empirical": (lambda: eqrm.Empirical(RISKS), of_law),
    "EQRM": (lambda: eqrm.EQRM(0.9), of_objective),
    "EQRM with a memory": (lambda: eqrm.EQRM(0.9, memory=eqrm.RiskMemory(12)), of_objective),
    "Superquantile": (lambda: eqrm.Superquantile(0.5), of_objective),
    "QRMClassifier": (lambda: _fitted(eqrm.QRMClassifier(alpha=0.9)), of_estimator),
    "QRMRegressor": (lambda: _fitted(eqrm.QRMRegressor(alpha=0.9)), of_estimator),
    "Evaluation": (_evaluation, of_evaluation),
    "Watch": (_watch, of_watch),
}


def used(name: str) -> list[float]:
    """The numbers that an object gives which was made here."""
    make, numbers = OBJECTS[name]
    return numbers(make())


def used_pickled(name: str, pickled: bytes) -> list[float]:
    """The numbers that a pickled object gives."""
    return OBJECTS[name][1](pickle.loads(pickled))


@pytest.mark.parametrize("name", OBJECTS)
def test_a_copy_gives_the_numbers_of_the_original(name: str) -> None:
    make, numbers = OBJECTS[name]
    original = make()
    copies = [copy.deepcopy(original), copy.copy(make()), pickle.loads(pickle.dumps(original))]
    expected = numbers(original)
    assert np.isfinite(expected).all()
    for each in copies:
        assert numbers(each) == expected


def _fails(number: int) -> None:
    raise TooFewDomainsError("Too few domains.", number, 3)


@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.full)])
@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="needs processes that fork"
)
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
def test_other_processes_give_the_numbers_of_this_one(start: str) -> None:
    expected = {name: used(name) for name in OBJECTS}
    pickled = {name: pickle.dumps(make()) for name, (make, _) in OBJECTS.items()}
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(start)) as pool:
        made = dict(zip(OBJECTS, pool.map(used, OBJECTS, timeout=300), strict=True))
        sent = pool.map(used_pickled, pickled, pickled.values(), timeout=300)
        assert dict(zip(OBJECTS, sent, strict=True)) == expected
        with pytest.raises(TooFewDomainsError) as caught:
            pool.submit(_fails, 1).result(timeout=300)
    assert (caught.value.domains, caught.value.needed) == (1, 3)
    assert made == expected
