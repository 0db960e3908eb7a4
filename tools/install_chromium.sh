#!/bin/sh
# Chromium and its driver for tests/browser, from the distribution's packages; nothing is done where both are there.
set -eu

if command -v chromium >/dev/null 2>&1 && command -v chromedriver >/dev/null 2>&1; then
    echo "chromium is there: $(chromium --version 2>/dev/null)"
    exit 0
fi
run=""
if [ "$(id -u)" -ne 0 ]; then
    run="sudo"
fi
export DEBIAN_FRONTEND=noninteractive
$run apt-get -qq update
# The Chinese font is for the screenshots of the Chinese report.
$run apt-get -qq install -y --no-install-recommends chromium chromium-driver fonts-noto-cjk >/dev/null
echo "installed: $(chromium --version 2>/dev/null)"
