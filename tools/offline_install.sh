#!/bin/sh
# Installs firstnan from the wheels beside this script; no network is used.
#
#   sh install.sh FOLDER    a fresh environment in FOLDER; run FOLDER/bin/firstnan
#   sh install.sh --here    into the environment of PYTHON (a conda or virtual environment that is active)
#
# PYTHON=python3.11 sh install.sh ...  chooses the interpreter.
set -eu

machine=@MACHINE@
pythons="@PYTHONS@"
python=${PYTHON:-python3}

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

[ $# -eq 1 ] || fail "say where: sh install.sh FOLDER, or sh install.sh --here"
target=$1
case $target in
    --here | /* | ./*) ;;
    -*) fail "unknown option $target" ;;
    *) target=$PWD/$target ;;
esac

cd "$(dirname "$0")"
[ "$(uname -s)" = Linux ] || fail "these wheels are for Linux"
[ "$(uname -m)" = "$machine" ] || fail "these wheels are for $machine, this machine is $(uname -m)"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || fail "$python does not run"
case " $pythons " in
    *" $version "*) ;;
    *) fail "$python is Python $version, these wheels are for $pythons: choose with PYTHON=python3.x" ;;
esac
sha256sum --check --quiet SHA256SUMS || fail "a file is damaged: copy the archive again"

if [ "$target" != --here ]; then
    "$python" -m venv "$target" || fail "no environment could be made (Debian and Ubuntu: apt install python3-venv)"
    python=$target/bin/python
fi
"$python" -m pip install --quiet --disable-pip-version-check --no-index --find-links wheels firstnan
"$python" -m firstnan --version
