"""Reports go where they should, whole or not at all, whatever is wrong with the place; in real processes."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from asking import ask
from three_ranks import ROOT, rank_folder, write

from firstnan.cli.output import check_target, write_whole
from firstnan.dump.errors import OutputError, UsageError
from firstnan.run import pipeline

unix = pytest.mark.skipif(os.name != "posix", reason="shells and devices of Unix")
FULL = Path("/dev/full")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path / "dump")


def shell(command: str, **files: Path | str) -> subprocess.CompletedProcess[str]:
    """A command line of bash, in which ``firstnan`` is the program; other names are variables."""
    words = {name: str(value) for name, value in files.items()}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}  # as users run it
    script = f'firstnan() {{ "{sys.executable}" -m firstnan "$@" --lang en; }}\nset -o pipefail\n{command}\n'
    return subprocess.run(
        ["bash", "-c", script], env={**environment, **words}, capture_output=True, text=True, check=False, timeout=120
    )


# --- stdout and stderr --------------------------------------------------------------------------------------------


@unix
def test_a_reader_that_goes_away_is_no_error(root: Path) -> None:
    """The report is larger than what a pipe holds."""
    ended = shell('firstnan analyze "$root" --format html | head -c 10; exit ${PIPESTATUS[0]}', root=root)
    assert (ended.returncode, len(ended.stdout), ended.stderr) == (1, 10, "")


@unix
@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_a_full_disk_behind_stdout(root: Path, form: str) -> None:
    ended = shell(f'firstnan analyze "$root" --format {form} > /dev/full', root=root)
    assert ended.returncode == 2
    assert ended.stderr == "firstnan: the report could not be written to stdout: No space left on device\n"


@unix
@pytest.mark.parametrize("command", ["analyze", "ranks", "trace --rank 1", "show --rank 1"])
def test_stdout_is_closed(root: Path, command: str) -> None:
    verb, _, rest = command.partition(" ")
    ended = shell(f'firstnan {verb} "$root" {rest} >&-', root=root)
    assert ended.returncode == 2
    assert ended.stderr == "firstnan: the report could not be written: stdout is closed\n"


@unix
def test_stdout_is_closed_and_not_needed(root: Path, tmp_path: Path) -> None:
    ended = shell('firstnan analyze "$root" -o "$target" >&-', root=root, target=tmp_path / "r.json")
    assert (ended.returncode, ended.stderr) == (1, f"written: {tmp_path / 'r.json'}\n")
    assert json.loads((tmp_path / "r.json").read_text())["verdict"] == "anomaly"


@unix
@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "<&- 2>&-"])
def test_nobody_hears_what_is_said(root: Path, tmp_path: Path, redirection: str) -> None:
    """stdout stays clean, and the exit code tells."""
    ended = shell(f'firstnan analyze "$root" --format json {redirection}', root=root)
    assert ended.returncode == 1
    assert json.loads(ended.stdout)["verdict"] == "anomaly"
    ended = shell(f'firstnan analyze "$nothing" {redirection}', nothing=tmp_path / "nothing")
    assert (ended.returncode, ended.stdout) == (3, "")
    ended = shell(f'firstnan analyze "$root" -o "$target" {redirection}', root=root, target=tmp_path / "r.json")
    assert (ended.returncode, ended.stdout) == (1, "")
    ended = shell(f"firstnan analyze {redirection}")
    assert (ended.returncode, ended.stdout) == (2, "")


@unix
@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
@pytest.mark.parametrize("options", ["--help", "--version", "analyze --help"])
def test_help_that_cannot_be_written(options: str) -> None:
    assert shell(f"firstnan {options} >/dev/full").returncode == 2
    assert shell(f"firstnan {options} >/dev/full 2>/dev/full").returncode == 2


# --- files --------------------------------------------------------------------------------------------------------


@unix
@pytest.mark.parametrize("target", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_a_pipe_as_a_file(root: Path, target: str) -> None:
    if not Path(target).exists():
        pytest.skip("no such file here")
    ended = shell(f'firstnan analyze "$root" --format json -o {target} | cat; exit ${{PIPESTATUS[0]}}', root=root)
    assert (ended.returncode, ended.stderr) == (1, "")
    assert json.loads(ended.stdout)["verdict"] == "anomaly"


@unix
def test_a_process_as_a_file(root: Path, tmp_path: Path) -> None:
    ended = shell('firstnan analyze "$root" -o >(cat > "$t"); r=$?; wait; exit $r', root=root, t=tmp_path / "r.txt")
    assert (ended.returncode, ended.stderr) == (1, "")


@unix
@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
def test_a_device_that_is_full(root: Path) -> None:
    ended = shell('firstnan analyze "$root" -o /dev/full', root=root)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "firstnan: '/dev/full' could not be written: No space left on device\n"


@unix
@pytest.mark.parametrize("option", ["-o", "--mission-file"])
def test_a_disk_that_fills_up_halfway(root: Path, tmp_path: Path, option: str) -> None:
    """The system refuses bytes beyond a limit: the old report stays, and nothing else is left."""
    target = tmp_path / "out" / "r.json"
    target.parent.mkdir()
    target.write_text("old")
    limited = f'ulimit -f 1; firstnan ranks "$root" {option} "$target" 2>&1 | cat; exit ${{PIPESTATUS[0]}}'
    ended = shell(limited, root=root, target=target)
    if option == "--mission-file" and ended.returncode == 1:
        pytest.skip("the file is smaller than the limit")
    assert ended.returncode == 2
    assert ended.stdout.startswith(f"firstnan: '{target}' could not be written: ")
    assert target.read_text() == "old"
    assert [path.name for path in target.parent.iterdir()] == ["r.json"]


@unix
def test_the_second_of_two_files_cannot_be_written(root: Path, tmp_path: Path) -> None:
    answer = ask("ranks", root, "-o", "/dev/full", "--mission-file", tmp_path / "m.json")
    assert answer.code == 2
    assert json.loads((tmp_path / "m.json").read_text())


def test_two_reports_in_one_file_are_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to("r.json")
    answer = ask("ranks", root, "-o", tmp_path / "r.json", "--mission-file", tmp_path / "link.json")
    assert (answer.code, answer.report) == (2, {})
    assert "cannot hold two results" in answer.said
    assert not (tmp_path / "r.json").exists()


@pytest.mark.parametrize(
    "name", ["loop", "loop/r.json", "x" * 300, "dump/r.json", "dump/step0/rank1/r.json", "file/r.json"]
)
def test_places_that_take_no_file(root: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("")
    answer = ask("analyze", root, "-o", tmp_path / name)
    assert (answer.code, answer.report) == (2, {})
    assert answer.said.startswith("firstnan: ")
    assert {path.name for path in tmp_path.iterdir()} == {"dump", "loop", "file"}


def test_a_dump_that_is_a_circle_of_links(tmp_path: Path) -> None:
    """Told by the reader, not by the check of the target."""
    (tmp_path / "loop").symlink_to("loop")
    answer = ask("analyze", tmp_path / "loop", "-o", tmp_path / "r.json")
    assert (answer.code, answer.report) == (3, {})
    check_target(tmp_path / "r.json", tmp_path / "loop")


def test_a_link_that_leads_nowhere_becomes_its_file(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to("new.json")
    assert ask("analyze", root, "-o", tmp_path / "link.json").code == 1
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "new.json").read_text())["verdict"] == "anomaly"


def test_a_hard_link_to_a_file_of_the_dump_is_parted_from_it(root: Path, tmp_path: Path) -> None:
    """Replaced, not overwritten: the dump keeps its bytes."""
    dumped = rank_folder(root, 1) / "dump.json"
    before = dumped.read_bytes()
    os.link(dumped, tmp_path / "r.json")
    assert ask("analyze", root, "-o", tmp_path / "r.json").code == 1
    assert dumped.read_bytes() == before
    assert json.loads((tmp_path / "r.json").read_text())["verdict"] == "anomaly"


def test_a_link_to_a_file_of_the_dump_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "r.json").symlink_to(rank_folder(root, 1) / "dump.json")
    assert ask("analyze", root, "-o", tmp_path / "r.json").code == 2


def test_the_old_report_is_there_until_the_new_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever opens the file before the last moment reads the old one to its end."""
    target = tmp_path / "r.json"
    target.write_text("old")
    seen = []
    real = os.replace

    def replace(source: Path, place: Path) -> None:
        seen.append((target.read_text(), Path(source).read_text(), Path(source).parent == Path(place).parent))
        real(source, place)

    monkeypatch.setattr(os, "replace", replace)
    with target.open() as opened:
        write_whole(target, b"new")
        assert opened.read() == "old"
    assert seen == [("old", "new", True)]
    assert target.read_text() == "new"


def test_a_new_report_has_the_usual_mode(tmp_path: Path) -> None:
    """As any file that a program makes: the user's mask decides, not the temporary file."""
    write_whole(tmp_path / "r.json", b"new")
    (tmp_path / "usual").write_text("")
    assert stat.S_IMODE((tmp_path / "r.json").stat().st_mode) == stat.S_IMODE((tmp_path / "usual").stat().st_mode)


@pytest.mark.parametrize("name", ["loop", "x" * 300])
def test_names_that_lead_nowhere_are_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises((OutputError, UsageError)):
        write_whole(tmp_path / name, b"x")
    assert {path.name for path in tmp_path.iterdir()} == {"loop"}


@unix
def test_the_example_where_there_is_no_room(tmp_path: Path) -> None:
    ended = shell('ulimit -f 8; firstnan demo --to "$to" 2>&1 | cat; exit ${PIPESTATUS[0]}', to=tmp_path / "demo")
    assert ended.returncode == 2
    assert ended.stdout.startswith("firstnan: the example could not be written")


def test_an_interrupt_ends_with_130(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "analyze", interrupt)
    assert ask("analyze", root).code == 130


def test_the_causes_are_the_same_in_a_real_process(root: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "firstnan", "analyze", str(root), "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert [(c["rank"], c["op_name"]) for c in json.loads(ended.stdout)["root_causes"]] == [ROOT]
