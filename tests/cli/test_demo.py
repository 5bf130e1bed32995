"""``eqrm demo``: the effect is there, on domains that no predictor saw."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from eqrm.cli import demo_world
from eqrm.cli.demo import LEVELS, demo
from eqrm.level import Level


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    import contextlib
    import io

    folder = tmp_path_factory.mktemp("demo")
    text = io.StringIO()
    with contextlib.redirect_stdout(text), pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "120")
        demo(alpha=None, seed=0, output=folder)
    return text.getvalue(), folder


def rows(text: str, number: int) -> dict[str, list[float]]:
    """The rows of the first or second table by their name, numbers as printed."""
    table = text.split("trained for")[number].split("└")[0]
    found = {}
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("│ ").split("│")]
        if cells[0] == "ERM" or cells[0].startswith("α"):
            found[cells[0]] = [float(cell.rstrip("%* ")) for cell in cells[1:] if cell]
    return found


def test_every_level_wins_its_own_column(printed: tuple[str, Path]) -> None:
    table = rows(printed[0], 1)
    for column, level in enumerate(LEVELS, start=1):
        best = min(table, key=lambda name: table[name][column])
        assert best == f"α = {level}"
    assert min(table, key=lambda name: table[name][0]) == "ERM"


def test_promises_are_kept_about_as_often_as_promised(printed: tuple[str, Path]) -> None:
    # 300 training domains: the share has a standard error of √(α(1−α)/300), at most 2.9 points.
    for name, (*_, kept) in rows(printed[0], 2).items():
        if name != "ERM":
            alpha = float(name.removeprefix("α = "))
            error = 100 * (alpha * (1 - alpha) / 300) ** 0.5
            assert abs(kept - 100 * alpha) < 3 * error


def test_the_figure_is_written(printed: tuple[str, Path]) -> None:
    assert (printed[1] / "demo-risks.svg").read_bytes().startswith(b"<?xml")


def test_the_classifier_of_the_mean_is_scikit_learns() -> None:
    from sklearn.linear_model import LogisticRegression

    hospitals = demo_world.draw_hospitals(20, 100, torch.Generator().manual_seed(1))
    ours = demo_world.train_for_mean(hospitals)
    reference = LogisticRegression(C=1e9, fit_intercept=False, tol=1e-10).fit(
        hospitals.features.numpy(), hospitals.labels.numpy()
    )
    assert torch.allclose(ours, torch.from_numpy(reference.coef_[0]), atol=1e-3)


def test_training_for_a_level_lowers_its_quantile() -> None:
    from eqrm.distributions import KDE

    hospitals = demo_world.draw_hospitals(50, 100, torch.Generator().manual_seed(2))
    mean = demo_world.train_for_mean(hospitals)
    level = Level(0.9)
    tail = demo_world.train_for_level(hospitals, level, start=mean)
    before = KDE(hospitals.risks(mean)).quantile(level)
    assert KDE(hospitals.risks(tail)).quantile(level) < before
