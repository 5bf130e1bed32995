#!/bin/sh
# Runs the tests with the lowest versions that pyproject.toml allows, or with the newest:
#   sh scripts/test_versions.sh lowest-direct
#   sh scripts/test_versions.sh highest python3.13
# torch stays at the version of constraints.txt, and what only the tests use is as new as can be.
set -eu
resolution=$1
export PYTHON="${2:-python3}" VENV=".venv-$resolution"
rm -rf "$VENV"
UV_RESOLUTION="$resolution" EXTRAS=plots,boosting sh scripts/set_up.sh
"$VENV/bin/python" - <<'PROGRAM' >"$VENV/pinned.txt"
from importlib.metadata import distribution, version
from re import match

wanted = [each for each in distribution("eqrm").requires if "extra" not in each]
names = dict.fromkeys(match(r"[\w-]+", each)[0] for each in wanted)
print(*(f"{name}=={version(name)}" for name in [*names, "matplotlib", "xgboost-cpu"]), sep="\n")
PROGRAM
echo "==> $resolution:" $(cat "$VENV/pinned.txt")
# scikit-learn 1.6 needs these: a protocol of tables, and what its own tests use
[ "$resolution" = highest ] || "$VENV/bin/python" -m pip install --quiet polars==1.20.0 "pytest<9"
EXTRAS=dev,plots sh scripts/set_up.sh
"$VENV/bin/python" -m compileall -qq -j 2 "$VENV/lib" || true
OMP_NUM_THREADS=1 "$VENV/bin/python" -m pytest -n 2 --dist loadgroup --quiet
