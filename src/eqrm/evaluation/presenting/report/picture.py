"""The picture of the first screen as it stands without scripts: mean risk and quantile of risk."""

from __future__ import annotations

import math
from typing import Any

from eqrm.markup import Markup, element, joined

WIDTH, HEIGHT = 360, 280
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 30, 44
NEAR = 8.0
"""Points closer than this share a label."""


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers between two ends.

    >>> ticks(0.03, 0.97, 4)
    [0.25, 0.5, 0.75]
    """
    if not high > low or not math.isfinite(high - low):
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 1e-300 else rough
    step = next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def static_picture(content: dict[str, Any]) -> Markup:
    """Models as dots and references as circles, at the level that the slider starts at."""
    levels = content["levels"]
    start, label = levels["start"], levels["labels"][levels["start"]]
    if len(content["predictors"]) == 1:
        return _one_model(content, levels["alphas"], levels["quantiles"][0], start)
    heights = [quantiles[start] for quantiles in levels["quantiles"]]
    unit = f"risk ({content['unit']})"
    plot = _Plot(content["means"], heights, f"mean {unit}", f"{label}-quantile of {unit}")
    points = [(plot.x(x), plot.y(y)) for x, y in zip(content["means"], heights, strict=True)]
    marks = []
    for i, (x, y) in enumerate(points):
        chosen, reference = i == content["chosen"], content["references"][i]
        kind = "chosen" if chosen else "ref" if reference else "model"
        radius = 7 if chosen else 5
        marks.append(
            element("circle", class_=f"dot {kind}", cx=f"{x:.1f}", cy=f"{y:.1f}", r=radius)
        )
        near = [j for j, (u, v) in enumerate(points) if abs(u - x) < NEAR and abs(v - y) < NEAR]
        if i == near[0]:
            signs = ", ".join(content["signs"][j] for j in near)
            marks.append(element("text", signs, x=f"{x + 9:.1f}", y=f"{y + 4:.1f}"))
    return plot.drawn(
        f"Mean risk and {label}-quantile of risk of each model and reference; the table below "
        "holds the same numbers, and its first column the signs.",
        *marks,
    )


def _one_model(
    content: dict[str, Any], alphas: list[float], quantiles: list[float], start: int
) -> Markup:
    plot = _Plot(alphas, quantiles, "level", "quantile of risk")
    points = " ".join(
        f"{plot.x(a):.1f},{plot.y(q):.1f}" for a, q in zip(alphas, quantiles, strict=True)
    )
    return plot.drawn(
        "Quantile of risk against the level.",
        element("polyline", class_="line", points=points),
        element(
            "circle",
            class_="dot chosen",
            cx=f"{plot.x(alphas[start]):.1f}",
            cy=f"{plot.y(quantiles[start]):.1f}",
            r=6,
        ),
    )


class _Plot:
    """Scales and axes."""

    def __init__(self, xs: list[float], ys: list[float], across: str, up: str) -> None:
        self.xs, self.ys, self.across, self.up = _span(xs), _span(ys), across, up

    def x(self, value: float) -> float:
        low, high = self.xs
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / (high - low)

    def y(self, value: float) -> float:
        low, high = self.ys
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low)

    def drawn(self, title: str, *marks: Markup) -> Markup:
        bottom, axes = HEIGHT - BOTTOM, []
        for tick in ticks(*self.xs, 4):
            at = f"{self.x(tick):.1f}"
            axes += [
                element("path", class_="grid", d=f"M{at} {TOP}V{bottom}"),
                element("text", f"{tick:.6g}", x=at, y=bottom + 17, text_anchor="middle"),
            ]
        for tick in ticks(*self.ys):
            down = self.y(tick)
            axes += [
                element("path", class_="grid", d=f"M{LEFT} {down:.1f}H{WIDTH - RIGHT}"),
                element("text", f"{tick:.6g}", x=LEFT - 7, y=f"{down + 4:.1f}", text_anchor="end"),
            ]
        middle = (LEFT + WIDTH - RIGHT) / 2
        names = [
            element("text", self.across, x=middle, y=HEIGHT - 6, text_anchor="middle"),
            element("text", f"↑ {self.up}", x=4, y=14),
        ]
        return element(
            "svg",
            joined(*axes, *names, *marks),
            class_="still",
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            role="img",
            aria_label=title,
        )


def _span(values: list[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = 0.12 * (high - low) or 0.5 * abs(low) or 0.5
    return low - room, high + room
