"""Finds the firstnan package for the scripts beside it, and keeps old results from looking new."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OLDEST = (3, 10)
CANNOT_RUN = 2
WRITTEN = (0, 1, 4)
"""Exit codes with which a result file is written."""
ASIDE = ".previous"


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
        import carried  # the packages inside it

        carried.add()
        sys.argv[0] = str(HERE / "firstnan.pyz")  # what commands to paste name
    elif (checkout / "firstnan" / "__init__.py").is_file():
        sys.path.insert(0, str(checkout.resolve()))
        sys.argv[0] = str(checkout.resolve() / "firstnan" / "__main__.py")
    try:
        from firstnan.cli.main import main
    except ModuleNotFoundError as error:
        if error.name != "firstnan":
            stop(f"firstnan needs the package {error.name} on this Python: pip install {error.name}")
        program = shutil.which("firstnan")
        if program is None:
            stop(
                "firstnan is missing: run 'pip install PATH' with the path of the firstnan repository or wheel, "
                "or use the skill folder that 'make skill' builds there"
            )
        return lambda arguments: subprocess.call([program, *arguments])  # installed for another Python
    return main


def run(arguments, input_path, result):
    """Run firstnan, which writes ``result``; the result of an earlier run never stays behind a failure."""
    aside = set_aside(Path(result), Path(input_path))
    code = CANNOT_RUN
    try:
        code = firstnan_main()(arguments)
    finally:
        if aside is not None and code in WRITTEN:
            aside.unlink()
        elif aside is not None:
            print(f"no new result; the earlier one is now {aside}", file=sys.stderr)
    return code


def parsed(parse, default):
    """The arguments; where they make no sense, an earlier result of the default name is set aside."""
    try:
        return parse()
    except SystemExit as end:
        aside = set_aside(Path(default), None) if end.code == CANNOT_RUN else None
        if aside is not None:
            print(f"no new result; the earlier one is now {aside}", file=sys.stderr)
        raise


def set_aside(result, dump):
    """Rename the result of an earlier run; gives its new name, None where there is nothing to rename.

    Only a file that holds such a result is touched, and none in a dump folder.
    """
    try:
        if in_a_dump(result.resolve(), dump) or not is_result(json.loads(result.read_text("utf-8"))):
            return None
        aside = result.with_name(result.name + ASIDE)
        result.replace(aside)
    except (OSError, ValueError, RuntimeError):  # absent or not to be changed: firstnan says what is wrong
        return None
    return aside


def in_a_dump(place, dump):
    """Whether the place lies in the dump folder, or beside the files of a rank."""
    above = [place.parent, *place.parent.parents]
    return (dump is not None and dump.resolve() in above) or any((folder / "dump.json").exists() for folder in above)


def is_result(document):
    """Whether this is what one of the two scripts writes."""
    if not isinstance(document, dict):
        return False
    entries = document.values()
    is_ranks = all(isinstance(entry, dict) and "source_ranks" in entry for entry in entries)
    return is_ranks or set(document) == {"rank", "first_anomaly"}


if sys.version_info < OLDEST:  # told before anything that an older Python does not know
    version = ".".join(map(str, sys.version_info[:3]))
    stop(f"firstnan needs Python 3.10 or newer and this is {version}: run this script with another python3")
