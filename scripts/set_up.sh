#!/bin/sh
# Makes $VENV and installs eqrm with $EXTRAS into it. Called by the Makefile.
#
# uv does this in seconds; it is taken from PATH or, failing that, from the package index.
# Without uv, pip does the same. Whatever was installed before an interruption is kept, so
# running this again goes on from there.
set -eu

VENV=${VENV:-.venv}
EXTRAS=${EXTRAS:-dev}
python="$VENV/bin/python"
log="$VENV/set-up.log"

say() { echo "==> $*"; }
fail() { echo "eqrm set-up: $*" >&2; exit 1; }

# The first Python that is new enough: the caller's choice, then the usual names.
find_python() {
    for name in ${PYTHON:-} python3 python python3.13 python3.12 python3.11 python3.10; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; then
            echo "$name"
            return
        fi
    done
    fail "Python 3.10 or newer is needed and none was found. Install one, or name it: make setup PYTHON=/path/to/python3"
}

make_environment() {
    if "$python" -c 'import pip' >/dev/null 2>&1; then
        return
    fi
    base=$(find_python)
    say "creating $VENV with $("$base" --version 2>&1)"
    rm -rf "$VENV"
    if ! "$base" -m venv "$VENV" >/dev/null 2>&1; then
        rm -rf "$VENV"
        command -v uv >/dev/null 2>&1 || fail "'$base -m venv' does not work here. On Debian and Ubuntu: apt install python3-venv"
        uv venv --quiet --seed --python "$base" "$VENV"
    fi
}

find_uv() {
    if [ -n "${EQRM_NO_UV:-}" ]; then
        return
    elif command -v uv >/dev/null 2>&1; then
        command -v uv
    elif [ -x "$VENV/bin/uv" ]; then
        echo "$VENV/bin/uv"
    elif "$python" -m pip install --quiet --disable-pip-version-check uv >>"$log" 2>&1; then
        echo "$VENV/bin/uv"
    fi
}

# What pip is told by its configuration or environment, on one line; empty when nothing.
pip_setting() {
    for place in ":env:.$1" "install.$1" "global.$1"; do
        if value=$("$python" -m pip config get "$place" 2>/dev/null) && [ -n "$value" ]; then
            echo $value
            return
        fi
    done
}

# uv does not read pip's configuration. Without its find-links, uv would miss a CPU build of
# torch kept there and fetch gigabytes of CUDA packages instead.
share_pip_settings_with_uv() {
    links=$(pip_setting find-links | tr ' ' ',')
    index=$(pip_setting index-url)
    more=$(pip_setting extra-index-url)
    certificate=$(pip_setting cert)
    if [ -n "$links" ] && [ -z "${UV_FIND_LINKS:-}" ]; then export UV_FIND_LINKS="$links"; fi
    if [ -n "$index" ] && [ -z "${UV_DEFAULT_INDEX:-}" ]; then export UV_DEFAULT_INDEX="$index"; fi
    if [ -n "$more" ] && [ -z "${UV_INDEX:-}" ]; then
        # pip takes the best version of all indexes; uv by default that of the first which has any.
        export UV_INDEX="$more" UV_INDEX_STRATEGY="${UV_INDEX_STRATEGY:-unsafe-best-match}"
    fi
    if [ -n "$certificate" ] && [ -z "${SSL_CERT_FILE:-}" ]; then export SSL_CERT_FILE="$certificate"; fi
}

install_with_uv() {
    say "installing eqrm[$EXTRAS] with uv (the first time takes a minute at most)"
    share_pip_settings_with_uv
    "$1" pip install --quiet --python "$python" -c constraints.txt -e ".[$EXTRAS]"
}

install_with_pip() {
    say "installing eqrm[$EXTRAS] with pip (the first time takes minutes)"
    "$python" -m pip install --quiet --quiet --disable-pip-version-check -c constraints.txt -e ".[$EXTRAS]"
}

say_whether_c_part_was_built() {
    [ -f src/eqrm/distributions/kde/libeqrm.so ] || say "without the C part: numpy does its work, quantiles take two to three times as long ('python3 hatch_build.py' says why)"
}

make_environment
uv=$(find_uv)
if [ -n "$uv" ] && install_with_uv "$uv"; then
    # 40 MB that nothing needs any more
    [ "$uv" != "$VENV/bin/uv" ] || "$python" -m pip uninstall --quiet --yes uv >>"$log" 2>&1
    say_whether_c_part_was_built
    exit 0
fi
[ -z "$uv" ] || say "uv did not succeed, going on with pip"
install_with_pip || fail "the installation failed (see above). Run the same command again to go on from here."
say_whether_c_part_was_built
