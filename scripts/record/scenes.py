"""What is recorded of each command: what is typed in an empty folder, on which small tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NETWORK = """\
data:
  dataset: table
  settings: {file: patients.csv, target: ill, domain: hospital}
  test: 0.25
  validation: 0.15
predictor: {name: mlp, settings: {width: 8, depth: 1}}
objective: {name: eqrm, hyperparameters: {alpha: 0.9}}
steps: 30
learning_rate: 1e-2
phases: [{objective: erm, steps: 15}, {schedule: cosine}]
training: {evaluate_every: 15, device: cpu}
"""
SWEEP = """\
seed: 0
datasets: [{name: coloured-digits, held_out: {share: 0.25, splits: 1}}]
objectives: [erm, {name: eqrm, label: eqrm .9, hyperparameters: {alpha: 0.9}}]
models: [linear]
draws: 1
trials: 2
run:
  predictor: {name: mlp, settings: {width: 8, depth: 1}}
  learning_rate: 0.03
  steps: 20
  phases: single
  training: {device: cpu, evaluate_every: 20}
"""
TRAIN_PATIENTS = "eqrm train patients.csv --target ill --domain hospital"
PREDICTIONS = "predictions.csv --domain hospital --target died"
DAYS = "--domain day --target late --prediction p"


@dataclass(frozen=True)
class Scene:
    """Commands that run one after the other in a folder of their own.

    ``prepare`` runs first and is not recorded. ``files`` are patterns of the files whose content is
    recorded, except those of ``without``; the names of all files are. A command that should end
    with another exit code than 0 has it in ``codes``, by its place. A pattern in braces stands for
    the name of the first file that it matches.
    """

    commands: tuple[str, ...]
    tables: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    prepare: tuple[str, ...] = ()
    files: tuple[str, ...] = ("*",)
    without: tuple[str, ...] = ()
    codes: Mapping[int, int] = field(default_factory=dict)


SCENES = {
    "train": Scene(
        (
            "eqrm train coloured-digits --output digits",
            "eqrm train coloured-digits --model linear --certify 0.5 --output half",
            f"{TRAIN_PATIENTS} --drop ward --alpha .5,.9 --certify .5 --verbose --output patients",
            "eqrm train patients.csv --target il --domain hospital",
            "eqrm train patients.csv --target ill --domain clinic --alpha 1.5",
        ),
        tables=("patients.csv",),
        without=("patients/report.html", "half/*"),
        codes={3: 2, 4: 2},
    ),
    "train-in-time": Scene(
        (
            "eqrm train flights --weather --order day --output flights",
            "eqrm train sales.csv --target sold --domain week --order date --test-last .5 "
            "--output sales",
        ),
        tables=("sales.csv",),
        without=("flights/report.html", "flights/*.json"),
    ),
    "train-trees": Scene(
        (
            "eqrm train coloured-digits --model xgboost --set n_estimators=20 --output trees",
            f"{TRAIN_PATIENTS} --within ward --model lightgbm --set n_estimators=20 --output wards",
        ),
        tables=("patients.csv",),
        without=("*/report.html", "*/evaluation.json"),
    ),
    "predict": Scene(
        (
            "eqrm predict patients new-patients.csv --output predicted.csv --keep hospital",
            "eqrm predict patients patients.csv --output known.parquet",
            "eqrm predict sales new-patients.csv --output wrong.csv",
        ),
        tables=("patients.csv", "new-patients.csv", "sales.csv"),
        prepare=(
            f"{TRAIN_PATIENTS} --drop ward --model linear --output patients",
            "eqrm train sales.csv --target sold --domain week --drop date --model linear "
            "--output sales",
        ),
        codes={2: 2},
    ),
    "evaluate": Scene(
        (
            f"eqrm evaluate {PREDICTIONS} --prediction Usual=usual --prediction Careful=careful "
            "--report report.html",
            f"eqrm evaluate {PREDICTIONS} --prediction usual --within ward --alpha .75",
            "eqrm evaluate predictions.csv --domain hospital --loss loss --format json "
            "--output losses.json",
            f"eqrm evaluate {PREDICTIONS} --prediction usual --prediction careful --metric brier "
            "--format markdown",
            f"eqrm evaluate {PREDICTIONS} --prediction usual --no-references --format latex",
            f"eqrm evaluate {PREDICTIONS} --prediction usual --no-references --format csv",
            f"eqrm evaluate {PREDICTIONS} --prediction usul",
        ),
        tables=("predictions.csv",),
        codes={6: 2},
    ),
    "evaluate-other-inputs": Scene(
        (
            "eqrm evaluate animals.csv --domain camera --target species --prediction 'p_{class}'",
            "eqrm evaluate animals.csv --domain camera --target species --prediction guess "
            "--metric macro-f1",
            "eqrm evaluate shops.csv --domain shop --aggregated --report shops.html",
            f"eqrm evaluate past.csv {DAYS} --spells --recent 30 --dependence 2",
            f"eqrm evaluate next.csv {DAYS} --partial part-1.json",
            f"eqrm evaluate worse.csv {DAYS} --partial part-2.json",
            "eqrm evaluate --merge part-1.json part-2.json --no-intervals",
        ),
        tables=("animals.csv", "shops.csv", "past.csv", "next.csv", "worse.csv"),
    ),
    "compare": Scene(
        (
            "eqrm compare linear=linear trees=trees",
            "eqrm compare linear=linear trees=trees --format json --output ranks.json",
            "eqrm compare usual=usual.csv careful=careful.csv --domain hospital --target died "
            "--prediction p --format markdown",
        ),
        tables=("patients.csv", "usual.csv", "careful.csv"),
        prepare=(
            f"{TRAIN_PATIENTS} --drop ward --model linear --output linear",
            f"{TRAIN_PATIENTS} --drop ward --model lightgbm --set n_estimators=10 --output trees",
        ),
    ),
    "backtest": Scene(
        (
            "eqrm backtest past.csv --target late --domain day --prediction p --certify 60 "
            "--judge 30 --spells --online --output given",
            "eqrm backtest sales.csv --target sold --domain week --order date --train 20 "
            "--certify 20 --judge 10 --quantiles .5,.75 --measure quantile --output fitted",
        ),
        tables=("past.csv", "sales.csv"),
    ),
    "recalibrate": Scene(
        (
            f"eqrm recalibrate {PREDICTIONS} --prediction usual --save correction.json "
            "--output corrected.csv",
            "eqrm recalibrate new-predictions.csv --correction correction.json --output new.csv",
            f"eqrm recalibrate {PREDICTIONS} --prediction usual --no-scale --alpha .5 "
            "--test-share .8",
        ),
        tables=("predictions.csv", "new-predictions.csv"),
        files=("correction.json", "new.csv"),
    ),
    "control": Scene(
        (
            f"eqrm control {PREDICTIONS} --prediction Usual=usual --prediction Careful=careful "
            "--require 'wrong <= 30%' --alpha .75",
            f"eqrm control past.csv {DAYS} --require 'missed <= 60%' --save point.json",
            f"eqrm watch control.watch --start point.json {DAYS} --new next.csv",
            f"eqrm control {PREDICTIONS} --prediction usual --require 'wrong < 5' --alpha .75",
        ),
        tables=("predictions.csv", "past.csv", "next.csv"),
        files=("point.json",),
        without=("control.watch",),
        codes={3: 2},
    ),
    "watch": Scene(
        (
            f"eqrm watch late.watch --start past.json {DAYS}",
            "eqrm watch late.watch --new next.csv",
            "eqrm watch late.watch --new worse.csv",
            "eqrm watch late.watch --restart since.json --delta .01",
        ),
        tables=("past.csv", "next.csv", "worse.csv"),
        prepare=(
            f"eqrm evaluate past.csv {DAYS} --format json --output past.json",
            f"eqrm evaluate worse.csv {DAYS} --format json --output since.json",
        ),
        without=("late.watch", "late.watch.previous"),  # they hold where files were
        codes={2: 4},
    ),
    "plan": Scene(
        (
            "eqrm plan",
            "eqrm plan --alpha .75 --confidence .9 --domains 40 --models 3",
            "eqrm plan --alpha .99 --json",
        )
    ),
    "figure": Scene(
        (
            "eqrm figure risk-distribution --alpha 0.9 --output risk-distribution.svg",
            'eqrm figure risk-cdf --risks "0.2 0.3 0.35 0.5 0.9" --alpha .5 --output cdf.pdf',
            'eqrm figure risk-cdf --risks "0.2 nothing"',
        ),
        codes={2: 2},
    ),
    "train-network": Scene(
        (
            "eqrm train-network network.yaml --check",
            "eqrm train-network network.yaml --output runs",
            "eqrm train-network network.yaml --set steps=none",
        ),
        tables=("patients.csv",),
        texts={"network.yaml": NETWORK},
        codes={2: 2},
    ),
    "sweep-and-table": Scene(
        (
            "eqrm sweep sweep.yaml --check",
            "eqrm sweep sweep.yaml --workers 1 --output sweep",
            "eqrm sweep status sweep",
            "eqrm sweep run sweep {sweep/runs/*}",
            "eqrm table sweep",
            "eqrm table sweep --rule training-domain --quantiles .9 --format markdown --selected",
            "eqrm table sweep --rule oracle --metric risk --format latex",
            "eqrm table sweep --rule quantile --output sweep.csv",
            "eqrm table sweep --rule training-domain --output sweep.md",
        ),
        texts={"sweep.yaml": SWEEP},
        files=("sweep/sweep.json", "sweep/runs/*/record.json", "sweep.csv", "sweep.md"),
    ),
    "data": Scene(
        (
            "eqrm data list",
            "eqrm data info flights",
            "eqrm data info table",
            "eqrm data info pacs",
            "eqrm data get pacs",
            "eqrm data info flihgts",
        ),
        codes={4: 2, 5: 2},
    ),
    "help": Scene(
        ("eqrm --help", "eqrm trian"),
        codes={1: 2},
    ),
}
"""What is recorded of commands, by the name of the file."""
