"""Every must-hold check at full size: a line per item, and JSON.

    python verify/run.py [--only 2.2] [--json FILE] [--workers 2] [--clean-clone]

Each module beside this file registers the checks of one issue with ``@check("2.2", "title")``.
The exit code is 1 if anything fails.
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

NOT_CHECKS = {"run", "registry", "__init__"}


def load_checks() -> None:
    """Import every module beside this file, each of which registers its checks."""
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.stem not in NOT_CHECKS:
            importlib.import_module(f"verify.{path.stem}")
    CHECKS.sort(key=lambda check: [_sortable(part) for part in check.number.split(".")])


def _sortable(part: str) -> tuple[int, str]:
    return (int(part), "") if part.isdigit() else (10**6, part)


def wanted(check: Check, only: list[str]) -> bool:
    """Whether ``--only`` names this check, its item or its issue."""
    return not only or any(
        check.number == name or check.number.startswith(f"{name}.") for name in only
    )


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
        f"{result.status} {check.number} {check.title}: {result.summary} ({seconds:.0f} s)",
        flush=True,
    )
    return {
        "number": check.number,
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
    parser.add_argument("--only", nargs="+", default=[], help="items or issues, as in 2.2 or 2")
    parser.add_argument("--workers", type=int, default=2, help="processes for the large grids")
    parser.add_argument("--json", type=Path, help="default: verify-output/verify.json")
    parser.add_argument("--list", action="store_true", help="list the checks and stop")
    parser.add_argument(
        "--clean-clone", action="store_true", help="also run `make test` in a fresh clone (minutes)"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    given = parse(arguments)
    load_checks()
    chosen = [check for check in CHECKS if wanted(check, given.only)]
    if given.list or not chosen:
        for check in CHECKS:
            print(f"{check.number:8} {check.title}")
        return 0 if given.list else 2
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
