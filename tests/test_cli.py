"""The command line: what goes where, and which exit code comes back."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import firstnan
from firstnan.answer.model import Report
from firstnan.cli import delivery
from firstnan.cli import main as cli
from firstnan.dump.errors import InputError, UsageError
from firstnan.dump.options import EngineKind, Options
from firstnan.dump.records import Direction, Record, RecordKind, RecordName
from firstnan.rank.roster import Roster
from firstnan.rank.surroundings.excerpt import Excerpt
from firstnan.run import lookups, pipeline
from firstnan.run.engines import child_process
from firstnan.run.engines import opening as engines
from reporters.sample_reports import ALL, ANOMALY, CLEAN, UNKNOWN

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "dp2-tp2"


class Calls:
    """What the command line asked of the pipeline."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.error: BaseException | None = None
        self.paths: list[Path] = []
        self.ranks: list[int] = []
        self.options = Options()

    def analyze(self, path: Path, options: Options, _progress: object = None) -> Report:
        self.paths.append(path)
        self.options = options
        if self.error is not None:
            raise self.error
        return self.report

    def trace(self, path: Path, rank: int, options: Options) -> Report:
        self.ranks.append(rank)
        return self.analyze(path, options)

    def rosters(self, _path: Path, _options: Options, _progress: object = None) -> list[Roster]:
        return []


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    made = Calls(ANOMALY)
    monkeypatch.setattr(pipeline, "analyze", made.analyze)
    monkeypatch.setattr(pipeline, "trace", made.trace)
    monkeypatch.setattr(lookups, "rosters", made.rosters)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    return made


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    folder = tmp_path / "dump"
    (folder / "step0" / "rank0").mkdir(parents=True)
    return folder


def run(arguments: Sequence[str | Path], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = cli.main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    ("name", "code"), [("anomaly", 1), ("clean", 0), ("clean_incomplete", 4), ("unknown", 4), ("missing_rank", 1)]
)
@pytest.mark.parametrize("command", [["analyze"], ["ranks"], ["trace", "--rank", "2"]])
def test_the_exit_code_is_the_verdict(
    name: str, code: int, command: list[str], calls: Calls, dump: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls.report = ALL[name]
    assert run([*command, dump], capsys)[0] == code


@pytest.mark.usefixtures("calls")
def test_the_report_goes_to_stdout_and_nothing_to_stderr(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, err = run(["analyze", dump], capsys)
    assert out.startswith("+Inf began on rank 2")
    assert err == ""


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (InputError("no dump.json below 'x'", hint="found 3 other files"), 3, ["no dump.json", "found 3 other files"]),
        (UsageError("no rank 9"), 2, ["no rank 9"]),
        (KeyboardInterrupt(), 130, ["interrupted"]),
    ],
)
def test_errors_go_to_stderr_with_their_code(
    error: BaseException,
    code: int,
    words: list[str],
    calls: Calls,
    dump: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    calls.error = error
    got, out, err = run(["analyze", dump], capsys)
    assert got == code
    assert out == ""
    assert all(word in err for word in words)
    assert "Traceback" not in err


def test_text_in_an_error_is_harmless(calls: Calls, dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls.error = InputError("bad \x1b[31m\u202e name", hint="\x1b]0;t\x07")
    err = run(["analyze", dump], capsys)[2]
    assert "\x1b" not in err
    assert "\u202e" not in err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["anaylze", "x"],
        ["analyze"],
        ["analyze", "x", "--step", "a"],
        ["analyze", "x", "--ranks", "5-1"],
        ["analyze", "x", "--jobs", "0"],
        ["analyze", "x", "--format", "mission"],
        ["analyze", "x", "--engine", "slurm"],
        ["trace", "x", "--rank", "0-3"],
        ["show", "x", "--rank", "0", "--op", "a", "--at", "3"],
        ["show", "x", "--rank", "0", "--around", "100000"],
    ],
)
def test_usage_errors_end_with_2(arguments: list[str], calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(arguments, capsys)
    assert code == 2
    assert out == ""
    assert "usage: firstnan" in err
    assert calls.paths == []


def test_version_and_help_end_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"], capsys)[:2] == (0, f"firstnan {firstnan.__version__}\n")
    code, out, _ = run(["ranks", "--help"], capsys)
    assert code == 0
    assert "cross_rank_analysis.json" in out
    assert "exit codes" in out


@pytest.mark.parametrize(
    ("command", "codes"),
    [
        *((name, "01234") for name in ("analyze", "ranks", "trace", "merge")),
        *(("scan", "023"), ("show", "023"), ("rules", "02"), ("schema", "02"), ("demo", "02")),
    ],
)
def test_help_lists_the_exit_codes_that_the_command_has(
    command: str, codes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = run([command, "--help"], capsys)[1].partition("exit codes:\n")[2]
    assert [line[2] for line in told.splitlines()] == list(codes)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("command", [["analyze"], ["ranks"], ["trace", "--rank", "0"], ["scan"]], ids=lambda c: c[0])
def test_ray_that_ends_its_process_is_no_anomaly(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "opened", lambda _: os._exit(1))
    code, out, err = run([*command, EXAMPLE, "--engine", "ray"], capsys)
    assert (code, out) == (3, "")
    assert "ended by it (exit code 1): there is no answer" in err


def test_options_reach_the_pipeline(
    calls: Calls, dump: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "run", lambda function: function())
    run(
        [
            *("analyze", dump, "--step", "0,2-4", "--step", "9", "--ranks", "0-7,9", "--rules", "r.toml"),
            *("--exclude-op", "Torch.exp.0.forward", "--exclude-op", "3:Torch.log.1.forward"),
            *("--jobs", "2", "--engine", "ray", "--ray-address", "10.0.0.1:6379", "--node-local"),
        ],
        capsys,
    )
    assert calls.options == Options(
        steps=(0, 2, 3, 4, 9),
        ranks=(0, 1, 2, 3, 4, 5, 6, 7, 9),
        rules=Path("r.toml"),
        exclude_ops=("Torch.exp.0.forward", "3:Torch.log.1.forward"),
        jobs=2,
        engine=EngineKind.RAY,
        ray_address="10.0.0.1:6379",
        node_local=True,
        draws_equals=False,
    )


@pytest.mark.parametrize(("form", "draws"), [("json", True), ("html", True), ("text", False), ("line", False)])
def test_without_options_the_defaults_and_what_the_form_shows_are_asked_for(
    form: str, draws: bool, calls: Calls, dump: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["analyze", dump, "--format", form], capsys)
    assert calls.options == Options(draws_equals=draws)


def test_trace_of_a_rank_folder_needs_no_number(calls: Calls, dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (dump / "step0" / "rank2").mkdir()
    assert run(["trace", dump / "step0" / "rank2"], capsys)[0] == 3  # nothing in it
    (dump / "step0" / "rank2" / "dump.json").write_text("{}")
    run(["trace", dump / "step0" / "rank2"], capsys)
    assert calls.ranks == [2]
    code, out, err = run(["trace", dump], capsys)
    assert (code, out) == (2, "")
    assert "holds the ranks 0,2" in err


@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize(
    ("command", "start"),
    [(["ranks"], '{\n  "Distributed.all_reduce.1.forward"'), (["trace", "--rank", "2"], '{\n  "rank": 2')],
)
def test_the_mission_file_comes_besides_the_text(
    command: list[str], start: str, dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run([*command, dump, "--mission-file", tmp_path / "any.txt"], capsys)
    assert (code, err) == (1, f"written: {tmp_path / 'any.txt'}\n")
    assert "Distributed.all_reduce.1.forward" in out or "Torch.exp.0.forward" in out
    assert (tmp_path / "any.txt").read_text("utf-8").startswith(start)


def test_a_mission_file_in_the_dump_is_refused(calls: Calls, dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(["ranks", dump, "--mission-file", dump / "r.json"], capsys)
    assert code == 2
    assert "inside the dump folder" in err
    assert calls.paths == []


@pytest.mark.usefixtures("calls")
def test_what_is_not_installed_is_told_in_one_line(
    dump: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "HAS_RICH", False)
    monkeypatch.setattr(delivery, "HAS_STRINGZILLA", False)
    _, out, err = run(["analyze", dump], capsys)
    assert out.startswith("+Inf began")
    assert err.count("\n") == 1
    assert "without stringzilla (search is slower), rich (no colours, no progress bar)" in err
    monkeypatch.setattr(delivery, "HAS_RICH", True)
    assert run(["analyze", dump], capsys)[2] == (
        "firstnan: running without stringzilla (search is slower); the answer is the same\n"
    )


def test_trace_asks_for_one_rank(calls: Calls, dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(["trace", dump, "--rank", "2"], capsys)
    assert calls.ranks == [2]
    assert "Torch.exp.0.forward" in out


@pytest.mark.usefixtures("calls")
def test_json_goes_to_stdout(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(["analyze", dump, "--format", "json"], capsys)
    assert Report.from_dict(json.loads(out)) == ANOMALY


@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize(
    ("command", "name", "start"),
    [
        (["analyze"], "r.json", '{\n  "schema"'),
        (["analyze"], "r.md", "# +Inf"),
        (["analyze"], "r.txt", "+Inf began"),
        (["analyze"], "cross_rank_analysis.json", '{\n  "schema"'),
        (["ranks"], "cross_rank_analysis.json", '{\n  "Distributed.all_reduce.1.forward"'),
        (["ranks"], "r.json", '{\n  "schema"'),
        (["trace", "--rank", "2"], "single_rank_trace.json", '{\n  "rank": 2'),
        (["trace", "--rank", "2", "--format", "json"], "single_rank_trace.json", '{\n  "schema"'),
        (["ranks", "--format", "mission"], "r.txt", '{\n  "Distributed.all_reduce.1.forward"'),
    ],
)
def test_the_output_file_tells_the_form(
    command: list[str],
    name: str,
    start: str,
    dump: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = run([*command, dump, "-o", tmp_path / name], capsys)
    assert (code, out, err) == (1, "", f"written: {tmp_path / name}\n")
    assert (tmp_path / name).read_text("utf-8").startswith(start)


@pytest.mark.usefixtures("calls")
def test_a_minus_is_stdout(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["analyze", dump, "-o", "-"], capsys)[1].startswith("+Inf")


def test_output_in_the_dump_is_refused_before_the_work(
    calls: Calls, dump: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(["analyze", dump, "-o", dump / "step0" / "r.json"], capsys)
    assert (code, out) == (2, "")
    assert "inside the dump folder" in err
    assert calls.paths == []
    assert not (dump / "step0" / "r.json").exists()


@pytest.mark.usefixtures("calls")
def test_a_full_disk_ends_with_2_and_leaves_nothing(
    dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    code, _, err = run(["analyze", dump, "-o", tmp_path / "r.json"], capsys)
    assert code == 2
    assert "No space left on device" in err
    assert [path.name for path in tmp_path.iterdir()] == ["dump"]


class Pipe(io.RawIOBase):
    """A stdout that cannot take anything."""

    def __init__(self, number: int) -> None:
        self.number = number

    def writable(self) -> bool:
        return True

    def write(self, _: object) -> int:
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize(("number", "code"), [(errno.EPIPE, 1), (errno.ENOSPC, 2)])
def test_a_closed_pipe_is_quiet_and_a_full_one_is_told(
    number: int,
    code: int,
    dump: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken = io.TextIOWrapper(io.BufferedWriter(Pipe(number)), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", broken)
    assert cli.main(["analyze", str(dump)]) == code
    assert capsys.readouterr().err.count("\n") == (0 if number == errno.EPIPE else 1)
    monkeypatch.undo()
    with contextlib.suppress(OSError):
        broken.close()


def test_a_closed_pipe_in_a_real_process() -> None:
    script = (
        "import sys\n"
        "from firstnan.cli.main import main\n"
        "code = main(['schema'])\n"
        "print(code, file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as stdout:
        ended = subprocess.run([sys.executable, "-c", script], stdout=stdout, stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"0\n")


@pytest.mark.usefixtures("calls")
def test_a_narrow_encoding_does_not_break_the_text(dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert cli.main(["analyze", str(dump), "--lang", "zh"]) == 1
    assert b"Torch.exp.0.forward" in raw.getvalue()


@pytest.mark.usefixtures("calls")
def test_json_is_utf8_whatever_the_terminal(dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert cli.main(["analyze", str(dump), "--lang", "zh", "--format", "json"]) == 1
    assert Report.from_dict(json.loads(raw.getvalue().decode("utf-8"))) == ANOMALY


@pytest.mark.usefixtures("calls")
def test_the_language_comes_from_the_option_or_the_locale(
    dump: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chinese = run(["analyze", dump, "--lang", "zh"], capsys)[1]
    assert "最早出现在" in chinese
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert run(["analyze", dump], capsys)[1] == chinese
    assert run(["analyze", dump, "--lang", "en"], capsys)[1].startswith("+Inf began")


@pytest.mark.usefixtures("calls")
def test_redact_leaves_out_paths_and_source(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(["analyze", dump, "--redact", "-v"], capsys)[1]
    assert "/workspace" not in out
    assert "torch.exp(self" not in out
    assert "model.py:88" in out


def test_show_prints_the_records(
    dump: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def show(_path: Path, rank: int, **place: Any) -> Excerpt:
        asked.update(place, rank=rank)
        name = RecordName("Torch.exp.0.forward", RecordKind.API, "Torch", "exp", "", 0, Direction.FORWARD)
        return Excerpt(0, rank, "step0/rank2", 7, (Record(name, 7, (), ()),), 20)

    monkeypatch.setattr(lookups, "show", show)
    code, out, err = run(["show", dump, "--rank", "2", "--at", "7", "--around", "3"], capsys)
    assert (code, err) == (0, "")
    assert "Torch.exp.0.forward" in out
    assert asked == {"rank": 2, "step": None, "op": None, "at": 7, "around": 3}


def test_show_of_a_rank_folder_needs_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--at", "24", "--around", "0", "--lang", "en"]
    folder = EXAMPLE / "step0" / "rank2"
    code, out, err = run(["show", folder, *asked], capsys)
    assert (code, err) == (0, "")
    assert out.startswith("Around record 24 of rank 2, step 0")
    assert run(["show", folder, "--rank", "2", *asked], capsys)[1] == out
    code, out, err = run(["show", EXAMPLE, *asked], capsys)
    assert (code, out) == (2, "")
    assert "holds the ranks 0-3" in err


def test_rules_prints_what_is_in_force(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "rules_text", lambda path: f"rules of {path}\n")
    assert run(["rules", "--rules", "mine.toml"], capsys) == (0, "rules of mine.toml\n", "")


def test_schema_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(["schema"], capsys)
    assert (code, err) == (0, "")
    assert json.loads(out)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_demo_analyses_the_example_in_a_place_that_goes_away(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(["demo"], capsys)
    assert code == 0
    assert out.startswith("+Inf began")
    assert f"Ran: firstnan analyze {calls.paths[0]}" in err
    assert calls.paths[0].name == "dp2-tp2"
    assert not calls.paths[0].exists()


@pytest.mark.usefixtures("calls")
def test_demo_can_keep_the_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--to", tmp_path / "example"], capsys)[0] == 0
    ranks = sorted(path.name for path in (tmp_path / "example" / "dp2-tp2" / "step0").iterdir())
    assert ranks == ["rank0", "rank1", "rank2", "rank3"]
    code, _, err = run(["demo", "--to", tmp_path / "example"], capsys)
    assert code == 2
    assert "there already" in err


@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize("place", ["new", "step0/new", "step0/rank0", "step0/rank0/a/b"])
def test_demo_writes_nothing_into_a_dump(
    place: str, dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (dump / "step0" / "rank0" / "dump.json").write_text("{}")
    before = sorted(tmp_path.rglob("*"))
    code, out, err = run(["demo", "--to", dump / place], capsys)
    assert (code, out) == (2, "")
    assert "inside the dump folder" in err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.usefixtures("calls")
def test_demo_to_a_name_that_leads_nowhere_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    code, out, err = run(["demo", "--to", tmp_path / "circle" / "new"], capsys)
    assert (code, out) == (2, "")
    assert "written" in err


def test_the_module_runs_as_a_program() -> None:
    ended = subprocess.run([sys.executable, "-m", "firstnan", "--version"], capture_output=True, check=False, text=True)
    assert (ended.returncode, ended.stdout) == (0, f"firstnan {firstnan.__version__}\n")


def test_reports_without_a_first_line_do_not_exist(
    calls: Calls, dump: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for report in (CLEAN, UNKNOWN, replace(ANOMALY, root_causes=())):
        calls.report = report
        assert run(["analyze", dump], capsys)[1].splitlines()[0].strip()


def test_an_interrupt_while_the_program_is_loaded_leaves_no_stack(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from firstnan import __main__ as program

    def interrupted() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "main", interrupted)
    assert program.main() == 130
    assert capsys.readouterr().err == "firstnan: interrupted\n"


# --- the first try ------------------------------------------------------------------------------------------------


def test_a_path_alone_is_analysed(calls: Calls, dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([dump], capsys)[0] == 1
    assert run([dump, "--lang", "en"], capsys)[0] == 1
    assert run(["--lang", "zh", dump], capsys)[1] == run(["analyze", dump, "--lang", "zh"], capsys)[1]
    assert len(calls.paths) == 4


def test_a_path_named_like_a_command_needs_the_command(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "ranksx").mkdir()
    monkeypatch.chdir(tmp_path)
    assert run(["analyze", "demo"], capsys)[0] == 1
    assert run(["ranksx"], capsys)[0] == 1  # a path that is there is no slip of the pen
    assert len(calls.paths) == 2


def test_a_misspelt_command_is_told(calls: Calls, dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(["anaylze", dump], capsys)
    assert (code, calls.paths) == (2, [])
    assert "invalid choice: 'anaylze'" in err


def test_a_path_that_is_not_there_is_told_as_a_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run([tmp_path / "nothing"], capsys)
    assert code == 3
    assert "nothing" in err


@pytest.mark.parametrize("command", [["analyze"], ["ranks"], ["trace", "--rank", "2"]])
def test_an_unknown_suffix_names_the_known_ones(
    command: list[str], calls: Calls, dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run([*command, dump, "-o", tmp_path / "report.pdf"], capsys)
    assert (code, calls.paths, list(tmp_path.glob("report*"))) == (2, [], [])
    assert ".pdf" in err
    assert ".html" in err
    assert ".md" in err
    code, _, _ = run([*command, dump, "-o", tmp_path / "report.pdf", "--format", "text"], capsys)
    assert code == 1
