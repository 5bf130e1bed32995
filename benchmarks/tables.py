"""Tables, options and the description of the machine, as all benchmarks print them."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from eqrm.distributions.kde import native
from eqrm.markup import markdown_table
from eqrm.text import aligned as in_columns


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in plain text, the first column to the left and the rest to the right."""
    return in_columns([header, *rows])


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same table in Markdown."""
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


def measured_on(device: str = "cpu") -> str:
    """A sentence about the machine and the device that was measured."""
    here = machine() if device != "cpu" else {**machine(), "device": "cpu"}
    return f"Measured on: {', '.join(f'{key} {value}' for key, value in here.items())}."


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


def begun(arguments: Sequence[str], description: str | None, quick: str) -> bool:
    """Read the command line of most benchmarks, print where it runs; whether ``--quick`` is given.

    >>> begun([], None, "less")
    Measured on: ...
    False
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=quick)
    given = parser.parse_args(arguments)
    print("\n".join(filter(None, [measured_on(), busy_warning()])))
    return bool(given.quick)


def gpu_device(arguments: Sequence[str], description: str | None) -> torch.device | None:
    """The command line of benchmarks of a GPU: ``--device``.

    None, with a line that says so, where there is no such device.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    device: str = parser.parse_args(arguments).device
    if device != "cpu" and not torch.cuda.is_available():
        print("no CUDA device is available; --device cpu tries the script without one")
        return None
    return torch.device(device)


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


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
