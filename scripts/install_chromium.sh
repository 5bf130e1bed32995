#!/bin/sh
# Installs Chromium from the system's packages, for the tests that open the report in a browser.
# Without root or apt it says so and changes nothing: those tests are then skipped.
set -eu

for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null 2>&1; then
        exit 0
    fi
done
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "==> no Chromium, and no root with apt-get to install it: the browser tests will be skipped"
    exit 0
fi
echo "==> installing Chromium for the browser tests"
export DEBIAN_FRONTEND=noninteractive
if apt-get update -qq >/dev/null 2>&1 && apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1; then
    exit 0
fi
echo "==> Chromium could not be installed: the browser tests will be skipped"
