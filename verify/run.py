"""Every promise of the package checked at full size: a line per check, and JSON.

    python verify/run.py [--list] [--only data linear.speed] [--json FILE] [--clean-clone]

Each module beside this file registers the checks of one capability with
``@check("capability.promise", "title")``; ``marked_tests.py`` adds one per folder of tests.
The exit code is 0 if all checks passed or were skipped, 1 if any failed and 2 for unknown names.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# A module of the same name here would hide a folder of tests.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != ROOT / "verify"]
for folder in (ROOT / "benchmarks", ROOT / "tests", ROOT / "src", ROOT):
    sys.path.insert(0, str(folder))

from verify.registry import CHECKS, Check, Options, Result  # noqa: E402

from eqrm.text import did_you_mean  # noqa: E402

NOT_CHECKS = {"run", "registry", "__init__"}


def load_checks() -> None:
    """Import every module beside this file, each of which registers its checks."""
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.stem not in NOT_CHECKS:
            importlib.import_module(f"verify.{path.stem}")
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


def run_check(check: Check, options: Options) -> dict[str, object]:
    """Run one check, print its line and return its record."""
    start = time.perf_counter()
    try:
        result = check.run(options)
    except Exception as error:  # noqa: BLE001 - one broken check must not hide the others
        details: dict[str, object] = {"trace": traceback.format_exc()}
        result = Result("FAIL", f"{type(error).__name__}: {error}", details)
    seconds = time.perf_counter() - start
    print(
        f"{result.status} {check.name} {check.title}: {result.summary} ({seconds:.0f} s)",
        flush=True,
    )
    return {
        "check": check.name,
        "title": check.title,
        "status": result.status,
        "summary": result.summary,
        "seconds": seconds,
        "details": result.details,
    }


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="NAME",
        help="checks or capabilities to run, such as data or linear.speed (default: all)",
    )
    parser.add_argument(
        "--workers", type=int, default=2, help="processes for tests and large grids (default: 2)"
    )
    parser.add_argument(
        "--json", type=Path, help="file for the results (default: verify-output/verify.json)"
    )
    parser.add_argument("--list", action="store_true", help="list the checks and stop")
    parser.add_argument(
        "--clean-clone",
        action="store_true",
        help="also run `make test` and `make demo` in a fresh clone (many minutes)",
    )
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    given = parse(arguments)
    load_checks()
    chosen = choose(given.only)
    if given.list:
        width = max(len(check.name) for check in chosen)
        for check in chosen:
            print(f"{check.name:{width}}  {check.title}")
        return 0
    options = Options(workers=given.workers, clean_clone=given.clean_clone)
    options.output.mkdir(exist_ok=True)
    records = [run_check(check, options) for check in chosen]
    path = given.json or options.output / "verify.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(records, indent=2, default=str) + "\n")
    counts = {s: sum(r["status"] == s for r in records) for s in ("PASS", "FAIL", "SKIP")}
    print(f"{counts['PASS']} passed, {counts['FAIL']} failed, {counts['SKIP']} skipped; {path}")
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
