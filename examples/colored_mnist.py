"""ColoredMNIST: ERM learns the colour, EQRM recovers the shape.

    python examples/colored_mnist.py [--seeds 0 1 2] [--stand-in] [--quick] [--json FILE]

Trains what ``examples/colored_mnist.yaml`` describes, for each seed three times: ERM (the burn-in
alone), ERM with as many steps as EQRM, and EQRM at 1−e^−1000. Seeds decide the digits, the
colours, the weights and the batches. Prints accuracies on the two training domains and on the
test domain, where the colour misleads, and how long each run took. MNIST is read from the data
root (EQRM_DATA); ``--stand-in`` takes generated digits instead.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from eqrm.errors import EqrmWarning
from eqrm.training.held_out_risks import measure
from eqrm.training.runs.config import RunConfig
from eqrm.training.runs.run import trainer_of

CONFIG = Path(__file__).with_name("colored_mnist.yaml")

AS_ERM = ["objective.name=erm", "objective.hyperparameters={}"]
METHODS = {
    "ERM": [*AS_ERM, "steps=150", "phases=[{steps: 150, learning_rate: 1e-3}]"],
    "ERM, as many steps": AS_ERM,
    "EQRM": [],
}

QUICK = {  # a smaller network and fewer steps, for generated digits: seconds
    "ERM": [*AS_ERM, "steps=100", "phases=[{steps: 100, learning_rate: 2e-3}]"],
    "ERM, as many steps": [*AS_ERM, "steps=180"],
    "EQRM": ["steps=180"],
}
QUICK_CHANGES = [
    "predictor.settings={width: 64, depth: 2, initialisation: xavier}",
    "phases=[{objective: erm, steps: 100, learning_rate: 2e-3}, "
    "{steps: 80, learning_rate: 1e-3, schedule: cosine}]",
]


@dataclass(frozen=True)
class Row:
    """One run: accuracies per training domain and on the test domain, and its time."""

    method: str
    seed: int
    train: dict[str, float]
    test: float
    seconds: float
    processor_seconds: float


def config_of(method: str, seed: int, stand_in: bool, quick: bool) -> RunConfig:
    """The configuration of a run."""
    changes = [f"training.seed={seed}", f"data.settings.seed={seed}"]
    changes += [f"data.settings.stand_in={str(stand_in).lower()}"]
    if quick:
        changes += [*QUICK_CHANGES, *QUICK[method]]
    else:
        changes += METHODS[method]
    return RunConfig.from_file(CONFIG, changes)


def trained_row(method: str, seed: int, stand_in: bool, quick: bool) -> Row:
    """Read the data, train, and measure on all domains."""
    start, busy = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", EqrmWarning)  # that the stand-in is no MNIST is known
        trainer = trainer_of(config_of(method, seed, stand_in, quick), folder)
        trained = trainer.fit()
    train = measure("train", trained.predictor, trainer.data, 5000, nullcontext)
    test = trained.risks["test"]
    if train.accuracies is None or test.accuracy is None:
        raise TypeError("a classifier has accuracies")
    return Row(
        method,
        seed,
        dict(zip(train.domains, train.accuracies.tolist(), strict=True)),
        test.accuracy,
        time.perf_counter() - start,
        time.process_time() - busy,
    )


def shown(row: Row) -> str:
    """A line of the table."""
    train = "".join(f"{accuracy:>10.1%}" for accuracy in row.train.values())
    return f"{row.method:<20}{row.seed:>4}{train}{row.test:>11.1%}{row.seconds:>10.1f}"


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--stand-in", action="store_true", help="generated digits, not MNIST")
    parser.add_argument("--quick", action="store_true", help="a smaller network, fewer steps")
    parser.add_argument("--json", type=Path, help="write every number to this file")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    """Train every method with every seed."""
    given = parse(arguments)
    print(f"{'':<20}{'seed':>4}{'train 0.1':>10}{'train 0.2':>10}{'test 0.9':>11}{'seconds':>10}")
    rows = []
    for method in METHODS:
        for seed in given.seeds:
            rows.append(trained_row(method, seed, given.stand_in, given.quick))
            print(shown(rows[-1]), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
