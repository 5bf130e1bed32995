"""Kernels launched again: what is compiled once, and what is compiled anew."""

from __future__ import annotations

from typing import Any

import torch

from eqrm.gpu.launching import Launcher


class Recorder:
    """Stands for a kernel, and for what it is compiled to."""

    def __init__(self, calls: list[tuple[Any, ...]], name: str) -> None:
        self.calls, self.name = calls, name

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launch(*arguments: Any, **options: Any) -> Recorder:
            self.calls.append((self.name, grid, arguments, options))
            return Recorder(self.calls, "compiled")

        return launch


def test_a_compiled_kernel_is_launched_again_with_the_same_arguments() -> None:
    calls: list[tuple[Any, ...]] = []
    launch = Launcher(Recorder(calls, "kernel"))
    first, second = torch.zeros(4), torch.zeros(4, dtype=torch.float64)
    for _ in range(2):
        launch(3, (first, second), (7, -1), (True, 32), 2, cooperative=True)
    places = (first.data_ptr(), second.data_ptr())
    assert calls[0][:3] == ("kernel", (3,), (first, second, 7, -1, True, 32))
    assert calls[0][3] == {"num_warps": 2, "cooperative": True}
    assert calls[1] == ("compiled", (3, 1, 1), (*places, 7, -1, True, 32), {})


def test_other_dtypes_alignments_widths_constants_and_warps_are_compiled_anew() -> None:
    calls: list[tuple[Any, ...]] = []
    launch = Launcher(Recorder(calls, "kernel"))
    values = torch.zeros(8)
    launch(1, (values,), (7,), (32,))
    launch(1, (values.double(),), (7,), (32,))
    launch(1, (values[1:],), (7,), (32,))
    launch(1, (values,), (1 << 40,), (32,))
    launch(1, (values,), (7,), (64,))
    launch(1, (values,), (7,), (32,), 8)
    assert [name for name, *_ in calls] == ["kernel"] * 6
    launch(1, (torch.ones(8),), (8,), (32,))
    assert calls[-1][0] == "compiled"
