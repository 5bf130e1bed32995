"""The peak memory of one forward and backward pass of the KDE quantile, in a process of its own.

Run as a program it measures itself and prints JSON; :func:`extra_memory` starts that program.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from tables import aligned

import eqrm


@dataclass(frozen=True)
class Memory:
    """Bytes beyond the risks themselves at the peak, and the bytes of the risks."""

    m: int
    dtype: str
    log_tail: float
    extra: int
    risks: int

    @property
    def ratio(self) -> float:
        """Extra memory as a multiple of the risks."""
        return self.extra / self.risks


def extra_memory(m: int, dtype: str, log_tail: float) -> Memory:
    """Measure in a fresh process, so that no earlier peak hides this one."""
    command = [sys.executable, str(Path(__file__).resolve()), str(m), dtype, str(log_tail)]
    finished = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(finished.stdout.strip().splitlines()[-1])
    return Memory(m, dtype, log_tail, found["extra"], found["risks"])


def measure_memory(quick: bool) -> list[Memory]:
    """Extra memory at the largest sizes, in float32 and float64, in the bulk and in the tail."""
    sizes = (1_000_000,) if quick else (1_000_000, 10_000_000)
    levels = (math.log(0.5), math.log(0.01), -1000.0)
    return [
        extra_memory(m, dtype, log_tail)
        for m in sizes
        for dtype in ("float32", "float64")
        for log_tail in levels
    ]


def print_memory(measured: list[Memory]) -> None:
    """Extra memory as a multiple of the risks."""
    cells = [
        [
            f"{x.m}",
            x.dtype,
            f"{x.log_tail:.4g}",
            f"{x.extra / 2**20:.1f}",
            f"{x.risks / 2**20:.1f}",
            f"{x.ratio:.2f}",
        ]
        for x in measured
    ]
    print(aligned(["m", "dtype", "log tail", "extra MiB", "risks MiB", "ratio"], cells))


def _status(field: str) -> int:
    """A line of /proc/self/status in bytes: VmRSS is what is held now, VmHWM the peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return 1024 * int(line.split()[1])
    raise OSError(f"/proc/self/status has no {field}")


def _pass(risks: torch.Tensor, level: eqrm.Level) -> None:
    risks.grad = None
    eqrm.KDE(risks).quantile(level).backward()


def measure(m: int, dtype: str, log_tail: float) -> dict[str, int]:
    """Peak minus what was held before, after a warm-up on few risks."""
    level = eqrm.Level(log_tail=log_tail)
    generator = torch.Generator().manual_seed(0)
    kind: torch.dtype = getattr(torch, dtype)
    for size in (100, 100_000):
        _pass(torch.rand(size, dtype=kind, generator=generator).requires_grad_(), level)
    risks = torch.empty(m, dtype=kind).log_normal_(generator=generator).requires_grad_()
    before = _status("VmRSS")
    # "5" resets the peak to what is held now (proc(5)), so that the warm-up does not count.
    Path("/proc/self/clear_refs").write_text("5")
    _pass(risks, level)
    return {"extra": _status("VmHWM") - before, "risks": risks.numel() * risks.element_size()}


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))))
