"""The KDE quantile on a CUDA device: checks, then times. Needs torch, numpy and scipy only.

    PYTHONPATH=src python3 benchmarks/cuda_quantile.py --output DIR

Prints Markdown with the name of the device and writes it to DIR/cuda_quantile.md, with
DIR/cuda_quantile.json beside it. ``--device cpu`` runs the parts that need no CUDA.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import cuda_checks as checks
import cuda_edges as edges
import torch
from cuda_checks import CapturedQuantile, Outcome
from published import published_quantile
from tables import machine, markdown, write_json
from timing import Budget, Timing, interleaved
from torch import Tensor

import eqrm

COUNTS = (2, 3, 10, 100, 1000, 44_930, 1_000_000)
QUICK_COUNTS = (2, 10, 1000)
TIMED_LEVELS = ("0.75", "1-e^-1000")
TIMED_COUNTS = (2, 100, 1000, 44_930, 1_000_000, 10_000_000)
LARGEST_FOR_BISECTION = 1_000_000
LARGEST_COMPILED = 1000
CHECKS = ("synchronisation", "graphs", "agreement", "double", "bad", "compile")


def outcomes(device: torch.device, counts: list[int], wanted: list[str]) -> Iterator[Outcome]:
    """The wanted checks, as far as this device allows them."""
    if device.type == "cuda":
        if "synchronisation" in wanted:
            yield from checks.check_no_synchronisation(device, counts)
        if "graphs" in wanted:
            yield from checks.check_graphs(device, counts)
    if "agreement" in wanted:
        yield from checks.check_agreement(device, counts)
    if "double" in wanted:
        yield from edges.check_double_precision(device, counts)
    if "bad" in wanted:
        yield from edges.check_bad_risks(device)
    if "compile" in wanted:
        yield from checks.check_compile(device, [m for m in counts if m in (100, 44_930)])


def timed_actions(device: torch.device, m: int, text: str) -> dict[str, Callable[[], object]]:
    """Forward and backward of the quantile in each mode, and of what it is compared with."""
    level = eqrm.Level.parse(text)
    risks = checks.draw("lognormal", m, device).requires_grad_()

    def quantile(r: Tensor) -> Tensor:
        return eqrm.KDE(r).quantile(level)

    def forward_backward(objective: Callable[[Tensor], Tensor]) -> Callable[[], None]:
        def action() -> None:
            risks.grad = None
            objective(risks).backward()

        return action

    actions: dict[str, Callable[[], object]] = {
        "eager": forward_backward(quantile),
        "mean": forward_backward(lambda r: r.mean()),
    }
    if m <= LARGEST_COMPILED:
        torch.compiler.reset()
        compiled = torch.compile(quantile, fullgraph=True, dynamic=False)
        actions["compiled"] = forward_backward(compiled)
    if device.type == "cuda":
        actions["graph"] = CapturedQuantile(quantile, risks.detach()).graph.replay
        actions["mean graph"] = CapturedQuantile(lambda r: r.mean(), risks.detach()).graph.replay
    if m <= LARGEST_FOR_BISECTION and text != "1-e^-1000":
        actions["published"] = forward_backward(lambda r: published_quantile(r, level.alpha))
    return actions


MODES = ("eager", "compiled", "graph", "mean", "mean graph", "published")


def time_row(device: torch.device, m: int, text: str) -> dict[str, Timing]:
    """Medians of all modes at one size and level; modes that fail are left out."""
    synchronise = torch.cuda.synchronize if device.type == "cuda" else None
    budget = Budget(rounds=9, burst=0.01, longest=3.0)
    return interleaved(timed_actions(device, m, text), budget, synchronise)


def timing_table(rows: dict[tuple[int, str], dict[str, Timing]]) -> str:
    """Microseconds of each mode and the ratios that matter."""
    header = ["m", "level", *(f"{mode} µs" for mode in MODES)]
    header += ["eager / mean", "graph / mean graph", "published / eager", "published / graph"]
    cells = []
    for (m, text), timings in rows.items():
        times = [f"{1e6 * timings[x].median:.1f}" if x in timings else "-" for x in MODES]
        pairs = [("eager", "mean"), ("graph", "mean graph")]
        pairs += [("published", "eager"), ("published", "graph")]
        cells.append([f"{m:,}", text, *times, *(_ratio(timings, *pair) for pair in pairs)])
    return markdown(header, cells)


def _ratio(timings: dict[str, Timing], above: str, below: str) -> str:
    if above not in timings or below not in timings:
        return "-"
    return f"{timings[above].times(timings[below]):.1f}"


def outcome_table(found: list[Outcome]) -> str:
    """A line per check."""
    cells = [
        [
            o.name,
            "PASS" if o.passed else "FAIL",
            str(o.cases),
            "-" if math.isnan(o.worst) else f"{o.worst:.1e}",
            o.note.replace("|", "/") or "-",
        ]
        for o in found
    ]
    return markdown(["check", "result", "cases", "worst relative error", "note"], cells)


def _finite(value: float) -> float | str | None:
    """A number that JSON can hold."""
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else "infinite"


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("bench-output"), help="folder")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--checks", nargs="*", default=CHECKS, choices=CHECKS, help="default: all")
    parser.add_argument("--no-times", action="store_true", help="check only")
    parser.add_argument("--quick", action="store_true", help="few sizes, for trying the script")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Check, time, print, store; 1 when a check fails."""
    options = parse(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("no CUDA device is available; --device cpu runs the parts that need none")
        return 2
    device = torch.device(options.device)
    counts = list(QUICK_COUNTS if options.quick else COUNTS)
    here = machine() if device.type == "cuda" else {**machine(), "device": "cpu"}
    found: list[Outcome] = []
    for outcome in outcomes(device, counts, options.checks):
        found.append(outcome)
        verdict = "PASS" if outcome.passed else "FAIL"
        print(f"{verdict} {outcome.name} {outcome.note}", file=sys.stderr, flush=True)
    rows = {
        (m, text): time_row(device, m, text)
        for m in (() if options.no_times else QUICK_COUNTS if options.quick else TIMED_COUNTS)
        for text in TIMED_LEVELS
    }
    about = ", ".join(f"{key} {value}" for key, value in here.items())
    tables = [outcome_table(found)] if found else []
    tables += [timing_table(rows)] if rows else []
    page = "\n\n".join([f"Measured on: {about}.", *tables])
    print(page)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "cuda_quantile.md").write_text(page + "\n")
    content = {
        "machine": here,
        "checks": [{**asdict(o), "worst": _finite(o.worst)} for o in found],
        "timings": [
            {"m": m, "level": text, **{name: t.as_dict() for name, t in timings.items()}}
            for (m, text), timings in rows.items()
        ],
    }
    write_json(options.output / "cuda_quantile.json", content)
    return 0 if all(o.passed for o in found) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
