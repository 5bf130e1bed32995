"""Fuzzed inputs at full size."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch
from verify.registry import Options, Result, check, passed

from adversarial.risk_vectors import ROWS, Report, batch_of, judged

VECTORS = int(os.environ.get("EQRM_FUZZED_VECTORS", "1000000"))
BATCHES_AT_ONCE = 100


def _judged(first: int) -> Report:
    torch.set_num_threads(1)
    report = Report()
    for seed in range(first, first + BATCHES_AT_ONCE):
        report.add(judged(batch_of(seed)))
    return report


@check(
    "adversarial.risk-vectors",
    "fuzzed risk vectors: finite or refused, right dtype, monotone, the same on every code path",
)
def risk_vectors(options: Options) -> Result:
    report = Report()
    starts = range(0, -(-VECTORS // ROWS), BATCHES_AT_ONCE)
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        for found in pool.map(_judged, starts):
            report.add(found)
    enough = report.vectors >= VECTORS
    return passed(enough and not report.problems, str(report), problems=report.problems[:100])
