"""Finds the firstnan package for the scripts beside it; nothing needs to be installed."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OLDEST = (3, 10)
CANNOT_RUN = 2


def stop(line):
    """One line on stderr, then the end."""
    print(line, file=sys.stderr)
    sys.exit(CANNOT_RUN)


def firstnan_main():
    """The command line of firstnan: from ``firstnan.pyz`` here, else from the checkout around, else what is installed.

    Ends the program with one line on stderr when there is none.
    """
    checkout = HERE / ".." / ".." / ".." / "src"
    if (HERE / "firstnan.pyz").is_file():
        sys.path.insert(0, str(HERE / "firstnan.pyz"))
    elif (checkout / "firstnan" / "__init__.py").is_file():
        sys.path.insert(0, str(checkout.resolve()))
    try:
        from firstnan.cli.main import main
    except ModuleNotFoundError as error:
        if error.name == "firstnan":
            stop("firstnan is not here: pip install the firstnan wheel, or use the skill folder made by 'make skill'")
        stop(f"firstnan needs the package {error.name} on this Python: pip install {error.name}")
    return main


if sys.version_info < OLDEST:  # told before anything that an older Python does not know
    version = ".".join(map(str, sys.version_info[:3]))
    stop(f"firstnan needs Python 3.10 or newer and this is {version}: run this script with another python3")
