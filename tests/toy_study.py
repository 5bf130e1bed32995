"""A reproduction that takes no time, for tests of the frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from studies.base import Study
from studies.outcome import Check, Outcome, Picture, Progress, ResultTable

from eqrm.evaluation.presenting.plots import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw() -> Figure:
    figure = new_figure(2.0, 2.0)
    figure.subplots().plot([0, 1], [0, 1])
    return figure


class Toy(Study):
    """Two checks, of which the second holds for even seeds."""

    name = "toy"
    title = "A toy"
    reproduces = "Figure 0"
    sources = ("nowhere",)

    def compute(self, size: str, seed: int, progress: Progress) -> Outcome:
        progress(0.5, "half way")
        return Outcome(
            settings={"size": size, "deepest": float("-inf")},
            checks=[
                Check("one is one", True, "1", "1", "arithmetic"),
                Check("even | odd", seed % 2 == 0, str(seed), "an even seed", "arithmetic"),
            ],
            tables=[ResultTable("numbers", "Numbers", ["name", "value"], [["a", 0.5], ["b", 2.0]])],
            pictures=[Picture("line", "A line", draw)],
            remarks=["nothing to remark"],
            timings={"thinking": 0.25},
        )
