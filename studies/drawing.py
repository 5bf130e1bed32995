"""What all figures of studies share: colours, size, and files that come out the same again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from eqrm.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, QUIET, ACCENT = "#1b1b1b", "#9a9a9a", "#c2410c"


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, sizes in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plots", "Drawing a figure") from error
    return Figure(figsize=(width, height), layout="constrained")


def shades(number: int) -> list[str]:
    """From yellow to dark purple, safe for colour-blind readers and in greyscale."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    scale = colormaps["plasma_r"]
    if number == 1:  # yellow alone is too pale for paper
        return [to_hex(scale(0.55))]
    return [to_hex(scale(0.12 + 0.88 * index / (number - 1))) for index in range(number)]


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as SVG or PDF, by its file extension, without the time of writing."""
    import matplotlib

    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    stamp = {".svg": "Date", ".pdf": "CreationDate"}[path.suffix]
    with matplotlib.rc_context({"svg.hashsalt": "eqrm", "svg.fonttype": "none"}):
        figure.savefig(path, dpi=160, metadata={stamp: None})
