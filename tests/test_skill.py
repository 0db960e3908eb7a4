"""The skill: what its text promises, and its scripts on machines with nothing but Python."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

import mission_dump
from firstnan.answer.model import MechanismKind, Where
from firstnan.operators import table
from firstnan.operators.table import OperatorKind, default_text
from firstnan.show.mission_files import CROSS_RANK_FILE, SINGLE_RANK_FILE
from skill_folder import ROOT, build, isolated

SKILL = ROOT / "skills" / "nan-overflow-detection"
SCRIPTS = ("cross_rank_analyzer.py", "single_rank_tracer.py")
MAIN = (SKILL / "SKILL.md", SKILL / "SKILL.en.md")
"""The text, in Chinese and in English."""
LONGEST_DESCRIPTION = 1024
"""What loaders of skills accept."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `make skill` makes, far from the checkout."""
    return build(tmp_path_factory.mktemp("cluster") / "nan-overflow-detection")


@pytest.fixture
def scripts(built: Path) -> Path:
    return built / "scripts"


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return mission_dump.write(tmp_path / "input_path")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The current folder, beside the dump."""
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


def content(folder: Path) -> Mapping[str, bytes]:
    """Every file below the folder, without what Python leaves behind when it runs the scripts."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


# --- the scripts ------------------------------------------------------------------------------------


def test_step_1_writes_the_mission_file_and_a_summary(scripts: Path, dump: Path, here: Path) -> None:
    before = content(dump)
    ended = isolated(scripts / "cross_rank_analyzer.py", dump, folder=here)
    assert ended.returncode == 1, ended.stderr
    told = " ".join(ended.stdout.split())
    assert told.startswith("The first affected communication is Distributed.all_reduce_0_0 in step 0. Source: rank 2.")
    assert ended.stderr.splitlines() == [f"written: {CROSS_RANK_FILE}"]
    assert json.loads((here / CROSS_RANK_FILE).read_text("utf-8")) == mission_dump.CROSS_RANK
    assert content(dump) == before


@pytest.mark.parametrize(
    "arguments",
    [("input_path/rank2",), ("input_path", "--rank", "2"), ("--rank", "2", "input_path")],
    ids=["rank folder", "rank behind", "rank before"],
)
def test_step_2_writes_the_mission_file_and_a_summary(
    arguments: tuple[str, ...], scripts: Path, dump: Path, here: Path
) -> None:
    placed = [str(dump.parent / part) if part.startswith("input") else part for part in arguments]
    ended = isolated(scripts / "single_rank_tracer.py", *placed, folder=here)
    assert ended.returncode == 1, ended.stderr
    assert "Torch.ops.aten.matmul_0_0" in ended.stdout
    assert ended.stderr.splitlines() == [f"written: {SINGLE_RANK_FILE}"]
    assert json.loads((here / SINGLE_RANK_FILE).read_text("utf-8")) == mission_dump.SINGLE_RANK


@pytest.mark.parametrize(
    ("script", "rank", "expected"),
    [
        ("cross_rank_analyzer.py", (), mission_dump.CROSS_RANK),
        ("single_rank_tracer.py", ("--rank", "2"), mission_dump.SINGLE_RANK),
    ],
)
def test_the_output_path_can_be_named(
    script: str, rank: tuple[str, ...], expected: object, scripts: Path, dump: Path, here: Path
) -> None:
    ended = isolated(scripts / script, dump, *rank, here / "any name", folder=here)
    assert ended.returncode == 1, ended.stderr
    assert [path.name for path in here.iterdir()] == ["any name"]
    assert json.loads((here / "any name").read_text("utf-8")) == expected


@pytest.mark.parametrize("script", SCRIPTS)
def test_nothing_is_written_into_the_dump(script: str, scripts: Path, dump: Path, here: Path) -> None:
    before = content(dump)
    in_the_dump = isolated(scripts / script, dump / "rank2", folder=dump)
    into_the_dump = isolated(scripts / script, dump / "rank2", dump / "rank2" / "x.json", folder=here)
    for ended in (in_the_dump, into_the_dump):
        assert ended.returncode == 2
        assert "inside the dump folder" in ended.stderr
    assert content(dump) == before


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_path_without_a_dump_ends_with_3(script: str, scripts: Path, here: Path) -> None:
    ended = isolated(scripts / script, here / "nothing", folder=here)
    assert (ended.returncode, ended.stdout) == (3, "")
    assert "Traceback" not in ended.stderr
    assert list(here.iterdir()) == []


def test_several_ranks_need_a_number(scripts: Path, dump: Path, here: Path) -> None:
    ended = isolated(scripts / "single_rank_tracer.py", dump, folder=here)
    assert ended.returncode == 2
    assert "ranks 0-3" in ended.stderr


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_summary_speaks_the_language_of_the_locale(script: str, scripts: Path, dump: Path, here: Path) -> None:
    ended = isolated(scripts / script, dump / "rank2", folder=here, locale="zh_CN.UTF-8")
    assert ended.returncode == 1, ended.stderr
    assert ended.stderr.startswith("已写入：")


@pytest.mark.parametrize("script", SCRIPTS)
def test_without_the_package_one_line_says_what_to_install(script: str, here: Path) -> None:
    alone = here / "scripts"
    shutil.copytree(SKILL / "scripts", alone, ignore=shutil.ignore_patterns("__pycache__"))
    ended = isolated(alone / script, here, folder=here)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "firstnan is missing: run 'pip install PATH' with the path of the firstnan repository or wheel, "
        "or use the skill folder that 'make skill' builds there\n"
    )


def test_a_firstnan_of_another_python_is_used(dump: Path, here: Path) -> None:
    """The folder alone, and a ``firstnan`` on the path."""
    alone, programs = here / "scripts", here / "bin"
    shutil.copytree(SKILL / "scripts", alone, ignore=shutil.ignore_patterns("__pycache__"))
    programs.mkdir()
    program = programs / "firstnan"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT / "src"} exec {sys.executable} -m firstnan "$@"\n')
    program.chmod(0o755)
    command = [sys.executable, "-I", "-S", str(alone / SCRIPTS[0]), str(dump)]
    environment = {"PATH": f"{programs}{os.pathsep}{os.defpath}", "LC_ALL": "C.UTF-8"}
    ended = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stderr
    assert json.loads((here / CROSS_RANK_FILE).read_text("utf-8")) == mission_dump.CROSS_RANK


# --- the next candidate, and old results --------------------------------------------------------------


def test_excluding_goes_on_to_the_next_candidate(scripts: Path, dump: Path, here: Path) -> None:
    """The text's loop: each candidate is ruled out until none is left, each later than the one before."""
    rejected: list[str] = []
    order = -1
    for _ in range(2):
        options = [f"--exclude-op={name}" for name in rejected]
        isolated(scripts / "single_rank_tracer.py", dump, "--rank", "2", *options, folder=here)
        first = json.loads((here / SINGLE_RANK_FILE).read_text("utf-8"))["first_anomaly"]
        assert first["op_name"] not in rejected
        assert first["exec_order"] > order
        rejected.append(first["op_name"])
        order = first["exec_order"]


def test_step_1_rejects_operators_too(scripts: Path, dump: Path, here: Path) -> None:
    options = ["--exclude-op", "Torch.ops.aten.matmul_0_0", "--exclude-op", "2:Torch.nothing_0_0"]
    ended = isolated(scripts / "cross_rank_analyzer.py", dump, *options, "-v", folder=here)
    assert ended.returncode == 1, ended.stderr
    assert "All communication calls" in ended.stdout
    assert list(json.loads((here / CROSS_RANK_FILE).read_text("utf-8"))) == list(mission_dump.CROSS_RANK)


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("arguments", [("nothing",), ("nothing", "--no-such-option"), ()], ids=["3", "2", "2 as well"])
def test_a_failure_leaves_no_old_result(
    script: str, arguments: tuple[str, ...], scripts: Path, dump: Path, here: Path
) -> None:
    name = dict(zip(SCRIPTS, (CROSS_RANK_FILE, SINGLE_RANK_FILE), strict=True))[script]
    assert isolated(scripts / script, dump / "rank2", folder=here).returncode == 1
    old = (here / name).read_text("utf-8")
    ended = isolated(scripts / script, *arguments, folder=here)
    assert ended.returncode in (2, 3)
    assert not (here / name).exists()
    assert (here / f"{name}.previous").read_text("utf-8") == old
    assert f"no new result; the earlier one is now {name}.previous" in ended.stderr


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_new_result_takes_the_place_of_the_old_one(script: str, scripts: Path, dump: Path, here: Path) -> None:
    for _ in range(2):
        assert isolated(scripts / script, dump / "rank2", folder=here).returncode == 1
    assert len(list(here.iterdir())) == 1


@pytest.mark.parametrize("script", SCRIPTS)
def test_commands_to_paste_name_the_program_that_ran(script: str, built: Path, dump: Path, here: Path) -> None:
    """Nobody needs to install anything, nor to know where the single file lies."""
    ended = isolated(built / "scripts" / script, dump / "rank2", folder=here)
    printed = [line for line in ended.stdout.splitlines() if " --" in line or " analyze " in line]
    commands = [line.split() for line in printed if line.startswith("      ")]
    assert commands
    for words in commands:
        assert words[:2] == ["python3", str(built / "scripts" / "firstnan.pyz")]
        assert isolated(*words[1:], folder=here).returncode in (0, 1, 4)


def test_only_results_are_set_aside(scripts: Path, dump: Path, here: Path) -> None:
    """A file of something else stays, and so does whatever lies in a dump."""
    mine, inside = here / "mine.json", dump / "rank2" / CROSS_RANK_FILE
    mine.write_text('{"my": "notes"}')
    inside.write_text("{}")
    before = content(dump)
    for target in (mine, dump / "rank2" / "dump.json", inside):
        assert isolated(scripts / SCRIPTS[0], here / "nothing", target, folder=here).returncode in (2, 3)
    assert mine.read_text() == '{"my": "notes"}'
    assert content(dump) == before


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_older_python_is_told_in_one_line(script: str, here: Path) -> None:
    path = SKILL / "scripts" / script
    pretend = f"import runpy, sys; sys.version_info = (3, 7, 16); runpy.run_path({str(path)!r}, run_name='__main__')"
    ended = isolated("-c", pretend, folder=here)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "firstnan needs Python 3.10 or newer and this is 3.7.16: run this script with another python3\n"
    )


@pytest.mark.parametrize("script", [*SCRIPTS, "load_firstnan.py"])
def test_an_older_python_can_parse_the_scripts(script: str) -> None:
    ast.parse((SKILL / "scripts" / script).read_text("utf-8"), feature_version=(3, 7))


# --- the built folder -------------------------------------------------------------------------------


def test_the_single_file_is_the_whole_program(built: Path, dump: Path, here: Path) -> None:
    program = built / "scripts" / "firstnan.pyz"
    analysed = isolated(program, "analyze", dump, "--jobs", "2", folder=here)
    assert (analysed.returncode, analysed.stderr) == (1, "")
    assert analysed.stdout.startswith("+Inf began on rank 2")
    shown = isolated(program, "demo", folder=here)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("+Inf began on rank 2, step 0, in Torch.exp.0.forward")
    assert isolated(program, "rules", folder=here).stdout == default_text()


def test_the_plain_answer_is_the_same_as_the_installed_one(built: Path, here: Path) -> None:
    example = ROOT / "examples" / "dp2-tp2"
    arguments = ["analyze", str(example), "--format", "json"]
    plain = isolated(built / "scripts" / "firstnan.pyz", *arguments, folder=here)
    installed = subprocess.run(
        [sys.executable, "-m", "firstnan", *arguments], capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert plain.returncode == installed.returncode == 1
    assert plain.stdout == installed.stdout


def test_the_archive_holds_the_package_and_nothing_else(built: Path) -> None:
    package, example = ROOT / "src" / "firstnan", ROOT / "examples" / "dp2-tp2"
    needed = {f"cp3{minor}-{machine}" for minor in range(10, 15) for machine in ("x86_64", "aarch64")}
    sources = {
        *(f"firstnan/{name}" for name in content(package) if not name.startswith(".")),
        *(f"firstnan/demo_data/dp2-tp2/{name}" for name in content(example)),
        *("__main__.py", "carried.py", "LICENSE", "wheels/index.json"),
    }
    with zipfile.ZipFile(built / "scripts" / "firstnan.pyz") as archive:
        held = set(archive.namelist())
        index = json.loads(archive.read("wheels/index.json"))
    wheels = {name for found in index["wheels"].values() for name, _ in found}
    assert held == sources | {f"wheels/{name}" for name in wheels}
    assert index["wheels"].keys() == needed
    for place, found in index["wheels"].items():
        packages = {name.split("-")[0] for name, _ in found}
        assert packages == {"jiter", "msgspec", *(["tomli"] if place.startswith("cp310") else [])}


def the_cache(folder: Path) -> Path:
    """The only thing in the cache."""
    (place,) = (folder / "firstnan").iterdir()
    return place


def test_the_carried_packages_are_unpacked_once_for_the_user_alone(built: Path, here: Path) -> None:
    program, cache = built / "scripts" / "firstnan.pyz", here / "cache"
    assert isolated(program, "rules", folder=here, cache=cache).returncode == 0
    place = the_cache(cache)
    before = place.stat().st_mtime_ns, place.stat().st_ino
    held = [path for path in (place, *place.rglob("*")) if "__pycache__" not in path.parts]
    assert [path for path in held if path.stat().st_mode & 0o077] == []
    assert isolated(program, "rules", folder=here, cache=cache).returncode == 0
    assert the_cache(cache) == place
    assert (place.stat().st_mtime_ns, place.stat().st_ino) == before


@pytest.mark.parametrize("damage", ["cut", "other content", "absent"])
def test_a_damaged_cache_is_made_anew(damage: str, built: Path, here: Path) -> None:
    program, cache = built / "scripts" / "firstnan.pyz", here / "cache"
    isolated(program, "rules", folder=here, cache=cache)
    module = the_cache(cache) / "msgspec" / "__init__.py"
    sound = module.read_bytes()
    if damage == "absent":
        module.unlink()
    else:
        module.write_bytes(sound[:40] if damage == "cut" else b"raise SystemExit(77)")
    assert isolated(program, "rules", folder=here, cache=cache).returncode == 0
    assert (the_cache(cache) / "msgspec" / "__init__.py").read_bytes() == sound


def test_a_cache_into_which_others_can_write_is_not_used(built: Path, here: Path) -> None:
    cache = here / "cache"
    (cache / "firstnan").mkdir(parents=True)
    (cache / "firstnan").chmod(0o777)
    ended = isolated(built / "scripts" / "firstnan.pyz", "rules", folder=here, cache=cache)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert list((cache / "firstnan").iterdir()) == []


def test_without_a_place_for_a_cache_it_runs_all_the_same(built: Path, here: Path) -> None:
    (here / "file").write_text("")
    ended = isolated(built / "scripts" / "firstnan.pyz", "rules", folder=here, cache=here / "file")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_another_machine_is_told_what_is_carried(built: Path, here: Path) -> None:
    program = built / "scripts" / "firstnan.pyz"
    code = "import platform, runpy; platform.machine = lambda: 'riscv64'; runpy.run_path({}, run_name='__main__')"
    pretend = code.format(repr(str(program)))
    ended = isolated("-c", pretend, folder=here)
    assert (ended.returncode, ended.stdout) == (2, "")
    first, second = ended.stderr.splitlines()
    assert "CPython 3.10 to 3.14 on Linux with glibc 2.17 or newer, x86-64 and AArch64" in first
    assert "riscv64" in first
    assert second.endswith("pip install jiter msgspec")


def test_the_scripts_run_from_a_checkout_where_the_packages_are_installed(dump: Path, here: Path) -> None:
    script = SKILL / "scripts" / "cross_rank_analyzer.py"
    bare = isolated(script, dump, folder=here)
    assert (bare.returncode, bare.stderr.count("\n")) == (2, 1)
    assert "pip install" in bare.stderr
    ended = subprocess.run(
        [sys.executable, script, dump], cwd=here, capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert ended.returncode == 1, ended.stderr
    assert json.loads((here / CROSS_RANK_FILE).read_text("utf-8")) == mission_dump.CROSS_RANK


def test_it_runs_on_python_3_10(built: Path, dump: Path, here: Path) -> None:
    python = sys.executable if sys.version_info[:2] == (3, 10) else shutil.which("python3.10")
    if python is None or subprocess.run([python, "--version"], capture_output=True, check=False).returncode:
        pytest.skip("no Python 3.10 on this machine")
    ended = isolated(built / "scripts" / "cross_rank_analyzer.py", dump, folder=here, python=python)
    assert ended.returncode == 1, ended.stderr
    assert json.loads((here / CROSS_RANK_FILE).read_text("utf-8")) == mission_dump.CROSS_RANK


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    once, again = (build(tmp_path / name) for name in ("once", "again"))
    assert content(once) == content(again)
    with zipfile.ZipFile(once / "scripts" / "firstnan.pyz") as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert archive.namelist() == sorted(archive.namelist())


def test_a_folder_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("kept")
    ended = subprocess.run(
        [sys.executable, ROOT / "tools" / "build_skill.py", tmp_path], capture_output=True, check=False
    )
    assert ended.returncode != 0
    assert (tmp_path / "mine.txt").read_text() == "kept"


def test_the_built_folder_holds_the_skill(built: Path) -> None:
    for path in (
        "SKILL.md",
        "SKILL.en.md",
        "LICENSE",
        "references/verdict.md",
        *(f"scripts/{name}" for name in SCRIPTS),
    ):
        assert (built / path).is_file(), path
    assert all(os.access(built / "scripts" / name, os.X_OK) for name in (*SCRIPTS, "firstnan.pyz"))


# --- the text ---------------------------------------------------------------------------------------


def texts() -> list[Path]:
    return [*MAIN, *sorted((SKILL / "references").rglob("*.md"))]


def front_matter() -> dict[str, str]:
    _, head, _ = (SKILL / "SKILL.md").read_text("utf-8").split("---\n", 2)
    return {key: value.strip() for key, _, value in (line.partition(":") for line in head.splitlines())}


def test_front_matter_names_the_skill_and_its_triggers() -> None:
    head = front_matter()
    assert list(head) == ["name", "description"]
    assert head["name"] == SKILL.name
    assert len(head["description"]) <= LONGEST_DESCRIPTION
    for trigger in ("NaN/Inf 溢出检测", "源卡", "根因", "loss/gnorm", "distributed training", "MSProbe", "grad norm"):
        assert trigger in head["description"]
    assert not re.search(r": | #", head["description"]), "would not be a plain YAML text"


def test_the_text_is_short_enough_to_be_read() -> None:
    assert all(len(path.read_text("utf-8").splitlines()) < 500 for path in MAIN)


def test_links_lead_somewhere() -> None:
    for path in texts():
        for target in re.findall(r"\]\(([^)]+)\)", path.read_text("utf-8")):
            assert (path.parent / target).is_file(), f"{path.name}: {target}"


def test_every_reference_is_linked_in_its_language() -> None:
    """The two languages have the same references, and each text links those of its own."""
    english, chinese = SKILL / "references", SKILL / "references" / "zh"
    names = {path.name for path in english.glob("*.md")}
    assert names == {path.name for path in chinese.glob("*.md")}
    for path, folder in zip(MAIN, ("references/zh", "references"), strict=True):
        text = path.read_text("utf-8")
        assert all(f"({folder}/{name})" in text for name in names)


def test_both_languages_show_the_same_commands_and_files() -> None:
    """Blocks of JSON are equal, blocks of commands but for their remarks."""
    chinese, english = (re.findall(r"```(\w*)\n(.*?)```", path.read_text("utf-8"), re.DOTALL) for path in MAIN)
    assert [kind for kind, _ in chinese] == [kind for kind, _ in english]
    for (kind, one), (_, other) in zip(chinese, english, strict=True):
        if kind == "json":
            assert one == other
        if kind == "" and "firstnan" in one:
            assert _commands(one) == _commands(other)


def _commands(block: str) -> list[str]:
    """Each line up to the remark behind it."""
    return [re.split(r"\s{3,}", line)[0] for line in block.splitlines()]


@pytest.mark.parametrize("path", MAIN, ids=lambda path: path.name)
def test_the_filtered_operators_are_listed_in_full(path: Path) -> None:
    text = path.read_text("utf-8")
    filtered = [r for r in table.load(None).rules if r.kind in (OperatorKind.INITIALISER, OperatorKind.CARRIER)]
    masks = [rule for rule in table.load(None).rules if rule.kind is OperatorKind.MASK]
    assert filtered
    assert masks
    assert {op for rule in (*filtered, *masks) for op in rule.ops if f"`{op}`" not in text} == set()


@pytest.mark.parametrize("path", MAIN, ids=lambda path: path.name)
def test_the_text_holds_what_the_mission_holds(path: Path) -> None:
    text = path.read_text("utf-8")
    for word in ("is_anomaly", '"nan"'[1:-1], "`-inf`", "dump.json", "construct.json", "stack.json", "--exclude-op",
                 "source_ranks", "first_anomaly", "Torch.full*", "Tensor.tril", "NPU.*_full"):  # fmt: skip
        assert word in text, word


@pytest.mark.parametrize("path", MAIN, ids=lambda path: path.name)
def test_the_template_has_the_four_parts(path: Path) -> None:
    main = path.read_text("utf-8")
    places = [
        main.index(f"## {part}") for part in ("Problem / 问题", "Evidence / 证据", "Impact / 影响", "Advice / 建议")
    ]
    assert places == sorted(places)


@pytest.mark.parametrize("folder", ["references", "references/zh"])
def test_every_mechanism_and_place_is_explained(folder: str) -> None:
    mechanisms = (SKILL / folder / "mechanisms.md").read_text("utf-8")
    assert {kind.value for kind in MechanismKind if f"`{kind.value}`" not in mechanisms} == set()
    verdict = (SKILL / folder / "verdict.md").read_text("utf-8")
    assert {where.value for where in Where if f"`{where.value}`" not in verdict} == set()
