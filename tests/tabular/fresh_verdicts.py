"""Verdicts in runs that had no part in the choice of their rule.

``PYTHONPATH=tests python -m tabular.fresh_verdicts`` prints them: the twenty worlds with seeds 5
to 9, the truth from 20,000 new domains. About three minutes of one core.
"""

from __future__ import annotations

from eqrm.tabular.verdict import HELPS, UNKNOWN
from tabular import verdict_worlds
from tabular.test_verdict import result, trained_on, truths

DOMAINS = 20_000
SEEDS = range(5, 10)


def main() -> None:
    """Print a line per world, and the counts."""
    verdict_worlds.FRESH_DOMAINS = DOMAINS
    pairs: list[tuple[str, str]] = []
    for world in verdict_worlds.WORLDS:
        trainings = {seed: trained_on(world, seed) for seed in SEEDS}
        verdicts = [result(training).verdict for training in trainings.values()]
        kinds = [verdict.kind for verdict in verdicts if verdict is not None]
        own = list(zip(kinds, truths(world, trainings), strict=True))
        told = ", ".join(t if t == known else f"{t} (true: {known})" for t, known in own)
        print(f"{world.name}: {told}", flush=True)
        pairs += own
    right = sum(told == known for told, known in pairs)
    false = sum(told == HELPS != known for told, known in pairs)
    unknown = sum(told == UNKNOWN for told, _ in pairs)
    print(f"right {right} of {len(pairs)}, false 'helps' {false}, cannot tell {unknown}")


if __name__ == "__main__":
    main()
