"""Aligned tables and the description of the machine that the benchmarks print and store."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from eqrm.distributions.kde import native
from eqrm.markup import markdown_table
from eqrm.text import aligned as in_columns


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in plain text, the first column to the left and the rest to the right.

    >>> print(aligned(["m", "ms"], [["2", "0.1"], ["1000", "12.5"]]))
    m       ms
    2      0.1
    1000  12.5
    """
    return in_columns([header, *rows])


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same table in Markdown.

    >>> print(markdown(["m", "ms"], [["2", "0.1"]]))
    | m | ms |
    |---|---:|
    | 2 | 0.1 |
    """
    return markdown_table([header, *rows], escaped=False)


def machine() -> dict[str, str]:
    """The processor, the number of threads and the versions a measurement belongs to."""
    return {
        "processor": _processor(),
        "threads": str(torch.get_num_threads()),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "C part": "no" if native.LIBRARY is None else "yes",
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    }


def busy_warning() -> str:
    """A warning when other programs use the processor; empty when the machine is quiet."""
    if not hasattr(os, "getloadavg"):
        return ""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load < 0.5 * cores:
        return ""
    return (
        f"warning: the load is {load:.1f} on {cores} cores; timings are unreliable, above all "
        "those of many risks, which use all threads"
    )


def quick_and_json(
    arguments: Sequence[str], description: str | None, name: str, quick: str
) -> argparse.Namespace:
    """The command line of most benchmarks: ``--quick`` and ``--json FILE``.

    >>> quick_and_json(["--quick"], None, "demo", "less").json.name
    'demo.json'
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--json", type=Path, default=Path(f"bench-output/{name}.json"))
    return parser.parse_args(arguments)


def gpu_options(arguments: Sequence[str], description: str | None) -> argparse.Namespace | None:
    """The command line of benchmarks of a GPU: ``--output`` and ``--device``.

    None, with a line that says so, where there is no such device.

    >>> gpu_options(["--device", "cpu"], None).output.name
    'bench-output'
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("bench-output"), help="folder")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args(arguments)
    if options.device != "cpu" and not torch.cuda.is_available():
        print("no CUDA device is available; --device cpu tries the script without one")
        return None
    return options


def captured(action: Callable[[], object]) -> Callable[[], None]:
    """The kernels that an action launches, as one CUDA graph; its tensors are overwritten."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            action()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        action()
    replay: Callable[[], None] = graph.replay
    return replay


def measured_on(device: str) -> str:
    """A sentence about the machine and the device that was measured."""
    here = machine() if device != "cpu" else {**machine(), "device": "cpu"}
    return f"Measured on: {', '.join(f'{key} {value}' for key, value in here.items())}."


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def write_json(path: Path, content: object) -> None:
    """Write indented JSON, making the folder when needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")
