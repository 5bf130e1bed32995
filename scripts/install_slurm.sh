#!/bin/sh
# Installs SLURM and munge from Debian's packages, for the tests of the SLURM engine.
# Without root or apt it says so and changes nothing: those tests are then skipped.
set -eu

for name in slurmctld slurmd sbatch munged; do
    if ! command -v "$name" >/dev/null 2>&1 && [ ! -x "/usr/sbin/$name" ]; then
        missing=$name
    fi
done
if [ -z "${missing:-}" ]; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "==> no $missing, and no root with apt-get to install it: the SLURM tests will be skipped"
    exit 0
fi
echo "==> installing SLURM for its tests"
export DEBIAN_FRONTEND=noninteractive
if apt-get update -qq >/dev/null 2>&1 && apt-get install -y -qq --no-install-recommends slurm-wlm munge >/dev/null 2>&1; then
    exit 0
fi
echo "==> SLURM could not be installed: its tests will be skipped"
