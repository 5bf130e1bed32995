"""Every promise of the package checked at full size: a line per check, one per promise, and JSON.

    python verify/run.py [--list] [--only data linear.speed] [--clean-clone] [--resume]

Each module beside this file registers the checks of one capability with
``@check("capability.promise", "title")``; ``marked_tests.py`` adds one per folder of tests;
``promises.py`` says which checks hold which promise. Each check runs in a process of its own, two
side by side; those that measure time run alone, at the end, and need a quiet machine: where others
are running, their lines say so.
Results are written after every check, so that ``--resume`` goes on with a run that was
interrupted, at the same commit and without other changes: what passed is not run again, and its
time is counted.
The exit code is 0 if all checks passed or were skipped, 1 if any failed and 2 for unknown names.
"""

from __future__ import annotations

import argparse
import importlib
import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# A module of the same name here would hide a folder of tests.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != ROOT / "verify"]
for folder in (ROOT / "tests/studies", ROOT / "benchmarks", ROOT / "tests", ROOT / "src", ROOT):
    sys.path.insert(0, str(folder))

from verify.promises import PROMISES, last_run, record_run, verdict  # noqa: E402
from verify.registry import CHECKS, Check, Options  # noqa: E402
from verify.running import Record, run_all, run_here  # noqa: E402

from eqrm.text import did_you_mean  # noqa: E402

NOT_CHECKS = {"run", "running", "registry", "promises", "__init__"}


def load_checks(module: str | None = None) -> None:
    """Import every module beside this file, each of which registers its checks; or only one."""
    found = {f"verify.{path.stem}" for path in Path(__file__).parent.glob("*.py")}
    for name in [module] if module else sorted(found - {f"verify.{each}" for each in NOT_CHECKS}):
        importlib.import_module(name)
    CHECKS.sort(key=lambda check: check.name)


def choose(only: list[str]) -> list[Check]:
    """The checks that ``--only`` names, one by one or by capability; all if it names none."""
    chosen: dict[str, list[Check]] = {}
    for check in CHECKS:
        for name in (check.name.split(".")[0], check.name):
            chosen.setdefault(name, []).append(check)
    unknown = [name for name in only if name not in chosen]
    if unknown:
        names = sorted(chosen, key=lambda name: "." in name)  # capabilities first
        most = len({check.name.split(".")[0] for check in CHECKS})
        for name in unknown:
            print(f"Unknown check {name!r}. {did_you_mean(name, names, most)}", file=sys.stderr)
        raise SystemExit(2)
    wanted = {check.name for name in only for check in chosen[name]}
    return [check for check in CHECKS if not only or check.name in wanted]


def without_long(chosen: list[Check], only: list[str]) -> list[Check]:
    """The chosen checks without those of hours, which must be named one by one."""
    return [check for check in chosen if not check.long or check.name in only]


def tell(record: Record) -> None:
    """Print the line of a check that has ended."""
    print(
        f"{record['status']} {record['check']} {record['title']}: {record['summary']} "
        f"({record['seconds']:.0f} s, {record['processor_seconds']:.0f} s of processors)",
        flush=True,
    )


def tell_promises(records: list[Record]) -> None:
    """Print a line for each promise that any of these checks holds."""
    by_name = {record["check"]: record["status"] for record in records}
    for promise in PROMISES:
        found = [by_name[name] for name in promise.checks if name in by_name]
        if found:
            count = f"{found.count('PASS')} of {len(promise.checks)} checks passed"
            left = len(promise.checks) - found.count("PASS") - found.count("FAIL")
            count += f", {left} did not run" if left else ""
            print(f"{verdict(promise, by_name):9} {promise.title}: {count}")


def list_checks(chosen: list[Check]) -> None:
    """Print the chosen checks with the cost of their last recorded run."""
    width = max(len(check.name) for check in chosen)
    recorded = last_run()
    for check in chosen:
        known = recorded.get(check.name)
        kind = "long" if check.long else "alone" if check.alone else ""
        cost = f"{known['processor_seconds']:6.0f} s" if known else "       -"
        print(f"{check.name:{width}}  {cost}  {kind:5}  {check.title}")
    long = sum(check.long for check in chosen)
    chosen = [check for check in chosen if not check.long]
    known = [(check, recorded[check.name]) for check in chosen if check.name in recorded]
    together = sum(each["processor_seconds"] for check, each in known if not check.alone)
    # Where other programs were running, a check took longer than it works.
    alone = sum(
        min(each["seconds"], each["processor_seconds"]) for check, each in known if check.alone
    )
    print(
        f"{len(known)} of {len(chosen)} checks are recorded: about {together / 120.0:.0f} minutes "
        f"side by side on 2 cores, then {alone / 60.0:.0f} minutes of those that run alone; "
        f"{long} long ones, which run only by name, are not counted"
    )


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="NAME",
        help="checks or capabilities to run, such as data or linear.speed (default: all but those "
        "that --list calls long, which must be named)",
    )
    parser.add_argument(
        "--workers", type=int, default=2, help="processes for tests and large grids (default: 2)"
    )
    parser.add_argument(
        "--json", type=Path, help="file for the results (default: verify-output/verify.json)"
    )
    parser.add_argument("--list", action="store_true", help="list the checks and stop")
    parser.add_argument(
        "--record",
        action="store_true",
        help="also keep the results in verify/last_run.json, from which docs/promises.md is "
        "written (make pages)",
    )
    parser.add_argument(
        "--clean-clone",
        action="store_true",
        help="also run `make test` and `make demo` in a fresh clone (many minutes)",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with an interrupted run of this commit, whose results the JSON file has",
    )
    parser.add_argument("--here", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--module", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def commit() -> str:
    """The commit of this checkout, with a mark where files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip()


def passed_before(path: Path) -> list[Record]:
    """What passed in the run whose results the file has, if it was of this commit."""
    if not path.exists() or commit().endswith("-dirty"):
        return []
    earlier = json.loads(path.read_text(encoding="utf-8"))
    return [each for each in earlier if each["status"] == "PASS" and each["commit"] == commit()]


def main(arguments: list[str]) -> int:
    given = parse(arguments)
    load_checks(given.module)
    chosen = choose([given.here] if given.here else given.only)
    if given.list:
        list_checks(chosen)
        return 0
    chosen = without_long(chosen, [*given.only, given.here])
    options = Options(workers=given.workers, clean_clone=given.clean_clone)
    options.output.mkdir(exist_ok=True)
    path = given.json or options.output / "verify.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    if given.here:  # the process of one check
        path.write_text(json.dumps([run_here(chosen[0], options)], default=str) + "\n")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that checks are ended too
    # In the background of a script, or under nohup, SIGINT is ignored, and so it would be in the
    # programs that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    costs = {name: each["processor_seconds"] for name, each in last_run().items()}
    records = passed_before(path) if given.resume else []
    done = {record["check"] for record in records}
    before = max((record["ended_after"] for record in records), default=0.0)
    start, own, one_at_a_time = time.perf_counter(), commit(), threading.Lock()

    def keep(record: Record) -> None:
        after = before + time.perf_counter() - start
        with one_at_a_time:
            records.append({**record, "commit": own, "ended_after": after})
            path.write_text(json.dumps(records, indent=2) + "\n", encoding="utf-8")
            tell(record)

    for record in records:
        tell(record)
    try:
        run_all([check for check in chosen if check.name not in done], options, costs, keep)
    except KeyboardInterrupt:
        print(
            f"Stopped after {len(records)} of {len(chosen)} checks. --resume (make verify "
            "RESUME=1) goes on with the others.",
            file=sys.stderr,
        )
        return 130
    records.sort(key=lambda record: record["check"])
    minutes = (before + time.perf_counter() - start) / 60.0
    if given.record:
        record_run(records)
    tell_promises(records)
    counts = {s: sum(r["status"] == s for r in records) for s in ("PASS", "FAIL", "SKIP")}
    processors = sum(record["processor_seconds"] for record in records) / 60.0
    print(
        f"{counts['PASS']} passed, {counts['FAIL']} failed, {counts['SKIP']} skipped in "
        f"{minutes:.1f} minutes ({processors:.1f} minutes of processors); {path}"
    )
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
