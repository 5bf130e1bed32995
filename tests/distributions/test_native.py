"""The C part: built, refused or left out, it never changes a result."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType
from unittest import mock

import numpy as np
import pytest
import torch

import eqrm
from eqrm.distributions.bandwidths import BANDWIDTHS
from eqrm.distributions.kde import native, root

ROOT = Path(__file__).parents[2]
needs_native = pytest.mark.skipif(
    native.LIBRARY is None, reason="the C part was not built here (see hatch_build.py)"
)


def _build_script() -> ModuleType:
    specification = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def _risks(m: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(m).lognormal(size=m))


def _quantile_and_gradient(
    risks: torch.Tensor,
    alpha: float,
    weights: torch.Tensor | None = None,
    bandwidth: str | float = "gaussian-optimal",
) -> tuple[float, torch.Tensor]:
    leaf = risks.clone().requires_grad_()
    value = eqrm.KDE(leaf, bandwidth, weights=weights).quantile(alpha)
    value.backward()
    assert leaf.grad is not None
    return value.item(), leaf.grad


def test_without_a_compiler_the_build_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    source = ROOT / "src/eqrm/distributions/kde/native.c"
    refused = _build_script().build(source, tmp_path / "libeqrm.so")
    assert refused == "no C compiler 'no-such-compiler' was found"
    assert not list(tmp_path.iterdir())


def test_a_wheel_serves_every_python_on_its_platform() -> None:
    tag = _build_script().wheel_tag
    assert tag("linux-x86_64") == "py3-none-linux_x86_64"
    assert tag("macosx-11.0-arm64") == "py3-none-macosx_11_0_arm64"


def test_the_c_part_can_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EQRM_PURE", "1")
    assert not _build_script().build_in_place(tmp_path)
    assert "EQRM_PURE is 1" in capsys.readouterr().err


@needs_native
def test_the_library_needs_nothing_of_python_and_no_vector_functions() -> None:
    content = (Path(native.__file__).with_name("libeqrm.so")).read_bytes()
    assert b"_ZGV" not in content
    assert b"PyObject" not in content


@needs_native
def test_a_source_that_does_not_compile_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "broken.c"
    source.write_text("int broken(void) { return }")
    refused = _build_script().build(source, tmp_path / "libeqrm.so")
    assert "error" in refused
    assert [path.name for path in tmp_path.iterdir()] == ["broken.c"]


@pytest.mark.unmeasured
def test_an_environment_variable_switches_it_off() -> None:
    program = (
        "import torch, eqrm; from eqrm.distributions.kde import native; "
        "print(native.LIBRARY, eqrm.KDE(torch.tensor([1.0, 2.0, 4.0])).quantile(0.5).item())"
    )
    environment = {**os.environ, "EQRM_NATIVE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    library, value = done.stdout.split()
    assert library == "None"
    assert float(value) == eqrm.KDE(torch.tensor([1.0, 2.0, 4.0])).quantile(0.5).item()


@needs_native
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [0.01, 0.5, 0.99])
def test_long_rows_in_threads_agree_with_blocks_of_torch(alpha: float, weighted: bool) -> None:
    risks = _risks(native.WORTH_THREADS + 17)
    weights = 0.1 + _risks(len(risks)).flip(0) if weighted else None
    with mock.patch.object(torch, "get_num_threads", return_value=3):
        value, gradient = _quantile_and_gradient(risks, alpha, weights)
    with mock.patch.object(native, "LIBRARY", None):
        expected, expected_gradient = _quantile_and_gradient(risks, alpha, weights)
    assert value == pytest.approx(expected, rel=1e-13)
    error = (gradient - expected_gradient).abs().max() / expected_gradient.abs().max()
    assert error < 1e-11


ODD_ROWS = {
    "the first one far away": lambda x: np.concatenate([[1e9], x[1:]]),
    "nearly equal": lambda x: 1.0 + 1e-9 * x,
    "a few values": lambda x: np.round(x),
    "every 16th another": lambda x: np.where(np.arange(x.size) % 16, x, x - 3.0),
    "two clusters": lambda x: np.where(x < 1.0, x, x + 50.0),
    "a large mean": lambda x: x + 1e6,
    "large": lambda x: 1e80 * x,
}


@needs_native
@pytest.mark.parametrize("bandwidth", ["gaussian-optimal", "silverman", 0.3])
@pytest.mark.parametrize("alpha", [0.02, 0.5, 0.98, 0.9999])
@pytest.mark.parametrize("kind", ODD_ROWS)
def test_odd_long_rows_agree_with_numpy(kind: str, alpha: float, bandwidth: str | float) -> None:
    risks = torch.from_numpy(ODD_ROWS[kind](_risks(20_011).numpy()))
    value, gradient = _quantile_and_gradient(risks, alpha, bandwidth=bandwidth)
    with mock.patch.object(native, "LIBRARY", None):
        expected, expected_gradient = _quantile_and_gradient(risks, alpha, bandwidth=bandwidth)
    spread = float(risks.std())
    assert value == pytest.approx(expected, rel=1e-14, abs=1e-10 * spread)
    error = (gradient - expected_gradient).abs().max() / expected_gradient.abs().max()
    assert error < 1e-8


@needs_native
@pytest.mark.parametrize("alpha", [0.02, 0.5, 0.75, 0.99])
def test_a_long_row_of_few_values_is_that_of_the_values_weighted(alpha: float) -> None:
    values = torch.tensor([0.0, 0.3, 1.0, 1.1, 2.5, 4.0, 4.25], dtype=torch.float64)
    chosen = torch.from_numpy(np.random.default_rng(3).integers(0, len(values), 200_000))
    counts = torch.bincount(chosen, minlength=len(values)).double()
    value, gradient = _quantile_and_gradient(values[chosen], alpha, bandwidth=0.8)
    expected, shares = _quantile_and_gradient(values, alpha, counts, 0.8)
    assert value == pytest.approx(expected, abs=3e-14)
    summed = torch.zeros_like(shares).index_add_(0, chosen, gradient)
    torch.testing.assert_close(summed, shares, rtol=0.0, atol=1e-12)


THREADS = {"of torch": lambda: native._openmp_of_torch(), "of a pool": lambda: None}


@pytest.mark.parametrize("kind", THREADS)
def test_work_is_shared_among_threads_and_its_errors_are_raised(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "of torch" and native._openmp_of_torch() is None:
        pytest.skip("torch's OpenMP library was not found here")
    library = THREADS[kind]()
    monkeypatch.setattr(native, "_openmp_of_torch", lambda: library)
    done: list[int] = []
    native.in_threads(done.append, 5)
    assert sorted(done) == [0, 1, 2, 3, 4]

    def fail(part: int) -> None:
        if part == 1:
            raise KeyboardInterrupt("stopped here")

    with pytest.raises(KeyboardInterrupt, match="stopped here"):
        native.in_threads(fail, 2)


@needs_native
@pytest.mark.parametrize("bandwidth", [*BANDWIDTHS, 0.2, 2.0])
def test_the_usual_row_needs_one_call_only(
    bandwidth: str | float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("fell back")

    monkeypatch.setattr(root, "kernel_sums", refuse)
    for m in (2, 10, 100, 1000):
        for alpha in (0.5, 0.75, 0.99):
            _quantile_and_gradient(_risks(m), alpha, bandwidth=bandwidth)


def _quantile_of_long_row() -> float:
    risks = _risks(native.WORTH_THREADS)
    risks[::24] += 1000.0  # a start from some of them is far away, and the ends are asked for
    return float(eqrm.KDE(risks, 2.0).quantile(0.9))


def _quantile_in_a_forked_process() -> float:
    # OpenMP, and so torch itself, must not use threads after a fork; ours may.
    torch.set_num_threads(1)
    return _quantile_of_long_row()


@needs_native
@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_forked_process_does_not_wait_for_the_threads_of_its_parent() -> None:
    with mock.patch.object(torch, "get_num_threads", return_value=2):
        expected = _quantile_of_long_row()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            with multiprocessing.get_context("fork").Pool(1) as pool:
                found = pool.apply_async(_quantile_in_a_forked_process).get(timeout=60)
    assert found == expected


def test_backward_twice_gives_the_same_gradient_twice() -> None:
    leaf = _risks(10).requires_grad_()
    value = eqrm.KDE(leaf).quantile(0.9)
    (first,) = torch.autograd.grad(value, leaf, retain_graph=True)
    (second,) = torch.autograd.grad(3.0 * value, leaf)
    torch.testing.assert_close(3.0 * first, second, rtol=1e-14, atol=0.0)


@pytest.mark.parametrize("m", [2, 7, 100, 2048, 2049])
def test_single_precision_rounds_once(m: int) -> None:
    single = _risks(m).float().requires_grad_()
    double = single.detach().double().requires_grad_()
    values = [eqrm.KDE(risks).quantile(0.9) for risks in (single, double)]
    for value in values:
        value.backward()
    assert values[0].item() == values[1].float().item()
    assert torch.equal(single.grad, double.grad.float())
