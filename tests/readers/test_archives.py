"""Archives and compressed files give the answer of the unpacked dump; hostile ones give words, and never a clean."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import tarfile
import threading
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from made_dumps import NAN, forward, tensor, text, write
from msgspec.structs import replace

import firstnan
from firstnan.answer.model import Report, Verdict
from firstnan.cli import main as cli
from firstnan.dump.errors import InputError
from firstnan.dump.folders import FileKind
from firstnan.dump.problems import ProblemKind
from firstnan.read.layout import dump_layout
from firstnan.read.sources import archive_members, compressed, places
from firstnan.read.sources.compressed import GZIP, Damaged, Unpacked, measured
from firstnan.read.sources.files import Fault

ROOT = Path(__file__).parents[2]
OWN = sorted((ROOT / "tests" / "data" / "own").glob("*.tar.gz"))
SHARED = sorted((ROOT.parent / "shared" / "cases").glob("**/*.tar.gz"))
EXAMPLE = ROOT / "examples" / "dp2-tp2"
OPTIONS = firstnan.Options(jobs=1)


def zstd(data: bytes) -> bytes:
    return bytes(pytest.importorskip("zstandard").compress(data))


def tar(folder: Path, target: Path, top: str = "") -> Path:
    with tarfile.open(target, "w") as made:
        for file in sorted(folder.rglob("*")):
            made.add(file, str(Path(top, file.relative_to(folder))), recursive=False)
    return target


def tar_gz(folder: Path, target: Path, top: str = "") -> Path:
    plain = tar(folder, target.with_name("plain.tar"), top)
    target.write_bytes(gzip.compress(plain.read_bytes(), 6))
    plain.unlink()
    return target


def tar_zst(folder: Path, target: Path, top: str = "") -> Path:
    plain = tar(folder, target.with_name("plain.tar"), top)
    target.write_bytes(zstd(plain.read_bytes()))
    plain.unlink()
    return target


def zipped(folder: Path, target: Path, top: str = "", method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(target, "w", method, strict_timestamps=False) as made:
        for file in sorted(folder.rglob("*")):
            made.write(file, str(Path(top, file.relative_to(folder))))
    return target


def stored(folder: Path, target: Path, top: str = "") -> Path:
    return zipped(folder, target, top, zipfile.ZIP_STORED)


PACKERS: list[tuple[str, Callable[..., Path]]] = [
    ("dump.tar", tar),
    ("dump.tar.gz", tar_gz),
    ("dump.tgz", tar_gz),
    ("dump.tar.zst", tar_zst),
    ("dump.zip", zipped),
    ("stored.zip", stored),
]


def answer(report: Report) -> dict[str, Any]:
    """A report without what says where the dump lies."""
    found: dict[str, Any] = report.to_dict()
    found["input"]["path"] = ""
    return found


@pytest.fixture(scope="module")
def example_answer() -> dict[str, Any]:
    return answer(firstnan.analyze(EXAMPLE, OPTIONS))


@pytest.mark.parametrize(("name", "pack"), PACKERS, ids=[name for name, _ in PACKERS])
def test_an_archive_gives_the_answer_of_the_folder(
    tmp_path: Path, name: str, pack: Callable[..., Path], example_answer: dict[str, Any]
) -> None:
    assert answer(firstnan.analyze(pack(EXAMPLE, tmp_path / name), OPTIONS)) == example_answer
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_worker_processes_read_archives(tmp_path: Path, example_answer: dict[str, Any]) -> None:
    packed = tar_gz(EXAMPLE, tmp_path / "dump.tar.gz")
    assert answer(firstnan.analyze(packed, firstnan.Options(jobs=2))) == example_answer


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_files_in_place(tmp_path: Path, suffix: str, example_answer: dict[str, Any]) -> None:
    for file in EXAMPLE.rglob("*.json"):
        data = file.read_bytes()
        write(
            tmp_path / file.relative_to(EXAMPLE).with_name(file.name + suffix),
            gzip.compress(data) if suffix == ".gz" else zstd(data),
        )
    assert answer(firstnan.analyze(tmp_path, OPTIONS)) == example_answer
    packed = tar_gz(tmp_path, tmp_path.parent / f"{tmp_path.name}.tar.gz")
    assert answer(firstnan.analyze(packed, OPTIONS)) == example_answer


def unpacked(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and newer
        packed.extractall(folder)
    return folder


@pytest.mark.parametrize("archive", OWN, ids=lambda path: path.name)
def test_packed_runs_give_the_answer_of_unpacked_ones(archive: Path, tmp_path: Path) -> None:
    folder = unpacked(archive, tmp_path)
    assert answer(firstnan.analyze(archive, OPTIONS)) == answer(firstnan.analyze(folder, OPTIONS))


@pytest.mark.skipif(not SHARED, reason="the known cases are not here")
@pytest.mark.parametrize("archive", SHARED, ids=lambda path: path.name)
def test_known_cases_give_the_answer_of_unpacked_ones(archive: Path, tmp_path: Path) -> None:
    """Each case packed in one of the ways, by turns."""
    folder = unpacked(archive, tmp_path / "all")
    for number, truth in enumerate(sorted(folder.rglob("truth.json"))):
        name, pack = PACKERS[number % len(PACKERS)]
        packed = pack(truth.parent, tmp_path / name)
        assert _seen(packed) == _seen(truth.parent), truth.parent.name
        packed.unlink()


def _seen(path: Path) -> dict[str, Any] | str:
    """The answer, or the words in its place without the path."""
    try:
        return answer(firstnan.analyze(path, OPTIONS))
    except InputError as error:
        return str(error).replace(str(path), "")


# -- one archive a rank, a host, a step ---------------------------------------------------------------------


def ranks_of_example() -> list[Path]:
    return sorted(EXAMPLE.glob("step*/rank*"))


def labelless(report: Report) -> dict[str, Any]:
    found = answer(report)
    for problem in found["input"]["problems"]:
        problem["file"] = None
    for entry in found["accounts"]["entries"]:
        entry["example"] = None
    return found


@pytest.mark.parametrize("top", ["", "rank", "deep/inside"])
def test_one_archive_a_rank(tmp_path: Path, top: str) -> None:
    made = []
    for rank in ranks_of_example():
        folder = tmp_path / rank.parent.name
        folder.mkdir(exist_ok=True)
        made.append(tar_gz(rank, folder / f"{rank.name}.tar.gz", rank.name if top == "rank" else top))
    expected = labelless(firstnan.analyze(EXAMPLE, OPTIONS))
    assert labelless(firstnan.analyze(tmp_path, OPTIONS)) == expected


def test_several_paths_are_one_dump(tmp_path: Path) -> None:
    step = next(EXAMPLE.glob("step*"))
    for host, ranks in (("a", ("rank0", "rank1")), ("b", ("rank2", "rank3"))):
        for rank in ranks:
            shutil.copytree(step / rank, tmp_path / host / step.name / rank)
    packed = [tar_gz(tmp_path / "a", tmp_path / "a.tar.gz"), zipped(tmp_path / "b", tmp_path / "b.zip")]
    expected = labelless(firstnan.analyze(EXAMPLE, replace(OPTIONS, steps=(int(step.name[4:]),))))
    assert labelless(firstnan.analyze(packed, OPTIONS)) == expected
    assert labelless(firstnan.analyze([tmp_path / "a", tmp_path / "b.zip"], OPTIONS)) == expected
    twice = firstnan.analyze([packed[0], tmp_path / "a", packed[1]], OPTIONS)
    assert {p.rank for p in twice.input.problems if p.kind is ProblemKind.DUPLICATE_RANK} == {0, 1}
    for name in ("a", "b"):
        shutil.rmtree(tmp_path / name)
    assert labelless(firstnan.analyze(tmp_path, OPTIONS)) == expected


def test_several_archives_are_listed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each listing waits until the other one has begun."""
    packed = [tar_gz(rank, tmp_path / f"{rank.name}.tar.gz", f"step0/{rank.name}") for rank in ranks_of_example()[:2]]
    both, survey = threading.Barrier(2), dump_layout.survey

    def waiting(*arguments: Any) -> Any:
        both.wait(timeout=60)
        return survey(*arguments)

    monkeypatch.setattr(dump_layout, "survey", waiting)
    assert firstnan.analyze(packed, OPTIONS).input.ranks == (0, 1)


def test_an_archive_of_a_step(tmp_path: Path) -> None:
    for step in EXAMPLE.glob("step*"):
        zipped(step, tmp_path / f"{step.name}.zip", step.name)
    assert labelless(firstnan.analyze(tmp_path, OPTIONS)) == labelless(firstnan.analyze(EXAMPLE, OPTIONS))


def test_a_rank_archive_that_holds_another_step_says_so_itself(tmp_path: Path) -> None:
    clean(tmp_path / "step0" / "rank0")
    clean(tmp_path / "in" / "step7" / "rank1")
    zipped(tmp_path / "in", tmp_path / "step0" / "rank1.zip")
    shutil.rmtree(tmp_path / "in")
    report = firstnan.analyze(tmp_path, OPTIONS)
    assert not report.complete, "the archive was not looked into, and that counts"


def test_scan_merge_and_show_take_archives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = tar_gz(EXAMPLE, tmp_path / "dump.tar.gz")
    assert cli.main(["scan", str(packed), "-o", str(tmp_path / "part.json"), "--jobs", "1"]) == 0
    assert cli.main(["merge", str(tmp_path / "part.json"), "--jobs", "1", "--format", "json"]) == 1
    merged = json.loads(capsys.readouterr().out)
    assert merged["root_causes"] == firstnan.analyze(EXAMPLE, OPTIONS).to_dict()["root_causes"]
    assert cli.main(["show", str(packed), "--rank", "0"]) == 0
    assert cli.main(["analyze", str(packed), "-o", str(packed)]) == 2
    assert cli.main(["analyze", str(packed), "-o", str(tmp_path / "report.html"), "--jobs", "1"]) == 1


# -- hostile archives -----------------------------------------------------------------------------------------


def clean(folder: Path, value: float = 1.0, records: int = 3) -> None:
    data = {f"Torch.add.{n}.forward": forward([tensor()], output=[tensor(value, -1.0)]) for n in range(records)}
    write(folder / "dump.json", text(data))


def member(name: str, data: bytes = b"", **more: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def tar_of(path: Path, members: Sequence[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w") as made:
        for info, data in members:
            made.addfile(info, io.BytesIO(data))
    return path


def dump_text(value: float = 1.0) -> bytes:
    return text({"Torch.add.0.forward": forward([tensor()], output=[tensor(value, -1.0)])}).encode()


def told(report: Report) -> str:
    return "\n".join(f"{p.kind.value} {p.file} {p.detail}" for p in report.input.problems if not p.judged)


LINK = {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}
HARD_LINK = {"type": tarfile.LNKTYPE, "linkname": "../../../etc/passwd"}
HOSTILE = {
    "traversal": ([member("../step0/rank1/dump.json", dump_text(NAN))], "outside of the archive"),
    "absolute": ([member("/step0/rank1/dump.json", dump_text(NAN))], "outside of the archive"),
    "drive": ([member("C:\\step0\\rank1\\dump.json", dump_text(NAN))], "outside of the archive"),
    "link": ([member("step0/rank1/dump.json", **LINK)], "a link in an archive"),
    "hard-link": ([member("step0/rank1/dump.json", **HARD_LINK)], "a link in an archive"),
    "rank-link": ([member("step0/rank1", **LINK)], "a link in an archive"),
    "device": ([member("step0/rank1/dump.json", type=tarfile.CHRTYPE)], "a special file"),
    "fifo": ([member("step0/rank1/dump.json", type=tarfile.FIFOTYPE)], "a special file"),
    "twice": ([member("step0/rank0/dump.json", dump_text())], "more than one member"),
    "nested": ([member("step0/rank1.tar.gz", b"x")], "an archive in an archive"),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("pack", [False, True], ids=["tar", "gz"])
def test_hostile_members_are_told_and_never_clean(tmp_path: Path, name: str, pack: bool) -> None:
    more, words = HOSTILE[name]
    path = tar_of(tmp_path / "a.tar", [member("step0/rank0/dump.json", dump_text()), *more])
    if pack:
        path = write_gz(tmp_path / "a.tar.gz", path)
    report = firstnan.analyze(path, OPTIONS)
    assert report.verdict is Verdict.CLEAN
    assert not report.complete
    assert words in told(report)
    assert not list(tmp_path.rglob("dump.json"))


@pytest.mark.parametrize(
    ("name", "mode", "words"),
    [
        ("../step0/rank1/dump.json", 0, "outside of the archive"),
        ("/step0/rank1/dump.json", 0, "outside of the archive"),
        ("step0/rank1/dump.json", 0o120777 << 16, "a link or a special file"),
        ("step0/rank0/dump.json", 0, "more than one member"),
    ],
)
def test_hostile_members_of_a_zip(tmp_path: Path, name: str, mode: int, words: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as made, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of two members with one name
        made.writestr("step0/rank0/dump.json", dump_text())
        info = zipfile.ZipInfo(name)
        info.external_attr = mode
        made.writestr(info, dump_text())
    report = firstnan.analyze(tmp_path / "a.zip", OPTIONS)
    assert (report.verdict, report.complete) == (Verdict.CLEAN, False)
    assert words in told(report)
    assert [file.name for file in tmp_path.iterdir()] == ["a.zip"]


def write_gz(path: Path, source: Path) -> Path:
    path.write_bytes(gzip.compress(source.read_bytes()))
    return path


def test_of_two_members_the_last_one_counts(tmp_path: Path) -> None:
    both = [member("rank0/dump.json", dump_text(NAN)), member("rank0/dump.json", dump_text())]
    assert firstnan.analyze(tar_of(tmp_path / "a.tar", both), OPTIONS).verdict is Verdict.CLEAN
    assert firstnan.analyze(tar_of(tmp_path / "b.tar", both[::-1]), OPTIONS).verdict is Verdict.ANOMALY


@pytest.mark.parametrize("form", ["tar", "gz", "zst"])
def test_a_cut_archive_is_never_clean_and_complete(tmp_path: Path, form: str) -> None:
    whole = tar_of(tmp_path / "a.tar", [member(f"step0/rank{n}/dump.json", dump_text()) for n in range(3)]).read_bytes()
    end = len(whole.rstrip(b"\0"))
    packed = {"tar": lambda data: data, "gz": gzip.compress, "zst": zstd}[form](whole)
    cuts = range(512, end, 1024) if form == "tar" else range(20, len(packed) - 20, 97)
    for cut in cuts:
        path = tmp_path / f"cut.tar{'' if form == 'tar' else '.' + form}"
        path.write_bytes(packed[:cut])
        try:
            report = firstnan.analyze(path, OPTIONS)
        except InputError:
            continue
        assert not (report.verdict is Verdict.CLEAN and report.complete), cut


def test_a_tar_cut_between_two_members(tmp_path: Path) -> None:
    whole = tar_of(tmp_path / "a.tar", [member(f"rank{n}/dump.json", dump_text()) for n in range(2)]).read_bytes()
    second = whole.index(b"rank1/dump.json")
    (tmp_path / "a.tar").write_bytes(whole[:second])
    report = firstnan.analyze(tmp_path / "a.tar", OPTIONS)
    assert not report.complete
    assert "its end mark is missing" in told(report)
    damaged = whole[:second] + b"\1" * 512 + whole[second + 512 :]
    (tmp_path / "b.tar").write_bytes(damaged)
    assert "no header where one should be" in told(firstnan.analyze(tmp_path / "b.tar", OPTIONS))


def test_a_flipped_bit_in_compressed_data(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(dump_text()))
    packed[-6] ^= 1  # of the checksum
    write(tmp_path / "gz" / "rank0" / "dump.json.gz", bytes(packed))
    with pytest.raises(InputError, match="incorrect data check"):
        firstnan.analyze(tmp_path / "gz", OPTIONS)
    clean(tmp_path / "in" / "rank0")
    data = bytearray(zipped(tmp_path / "in", tmp_path / "flip.zip").read_bytes())
    data[data.index(b"dump.json") + 60] ^= 0x40
    (tmp_path / "flip.zip").write_bytes(bytes(data))
    with pytest.raises(InputError, match="damaged"):
        firstnan.analyze(tmp_path / "flip.zip", OPTIONS)


def test_an_encrypted_member(tmp_path: Path) -> None:
    clean(tmp_path / "in" / "rank0")
    clean(tmp_path / "in" / "rank1", NAN)
    data = bytearray(zipped(tmp_path / "in", tmp_path / "a.zip").read_bytes())
    central = data.index(b"PK\1\2", data.index(b"rank1/dump.json", data.index(b"PK\1\2")) - 60)
    data[central + 8] |= 1
    (tmp_path / "a.zip").write_bytes(bytes(data))
    report = firstnan.analyze(tmp_path / "a.zip", OPTIONS)
    assert not report.complete
    assert "encrypted" in told(report)


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tar.zst", "a.zip"])
@pytest.mark.parametrize("content", [b"", b"no archive at all", b"\0" * 600, b"PK\5\6" + b"\0" * 18])
def test_no_archive_at_all(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError):
        firstnan.analyze(tmp_path / name, OPTIONS)


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "FREE", 1 << 20)
    bomb = gzip.compress(b" " * (8 << 20))
    write(tmp_path / "step0" / "rank1" / "dump.json.gz", bomb)
    clean(tmp_path / "step0" / "rank0")
    assert "times its size" in told(firstnan.analyze(tmp_path, OPTIONS))
    path = tar_of(tmp_path / "a.tar", [member("rank0/dump.json", dump_text()), member("big", b" " * (8 << 20))])
    report = firstnan.analyze(write_gz(tmp_path / "a.tar.gz", path), OPTIONS)
    assert not report.complete
    assert "times its size" in told(report)
    monkeypatch.setattr(compressed, "MAX_BYTES", 100_000)
    write(tmp_path / "big" / "rank0" / "dump.json.gz", gzip.compress(bytes(range(256)) * 1000))
    with pytest.raises(InputError, match="limit"):
        firstnan.analyze(tmp_path / "big", OPTIONS)


def test_a_header_that_would_fill_the_memory(tmp_path: Path) -> None:
    path = tar_of(tmp_path / "a.tar", [member("rank0/dump.json", dump_text()), member("x", b"y" * 2048)])
    data = path.read_bytes()
    at = data.index(b"x\0\0\0")
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 8 << 30
    path.write_bytes(data[:at] + info.tobuf(tarfile.GNU_FORMAT) + data[at:])
    assert "a header of" in told(firstnan.analyze(path, OPTIONS))


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_members, "MAX_MEMBERS", 5)
    path = tar_of(tmp_path / "a.tar", [member(f"rank{n}/dump.json", dump_text()) for n in range(9)])
    assert "more than 5 members" in told(firstnan.analyze(path, OPTIONS))


def test_zstd_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    for name in ("rank0/dump.json.zst", "a.tar.zst"):
        write(tmp_path / name, b"\x28\xb5\x2f\xfd")
    for path in (tmp_path / "rank0", tmp_path / "a.tar.zst"):
        with pytest.raises(InputError, match=r"firstnan\[zstd\]"):
            firstnan.analyze(path, OPTIONS)


def test_a_compressed_copy_beside_the_file_is_told(tmp_path: Path) -> None:
    clean(tmp_path / "rank0")
    write(tmp_path / "rank0" / "dump.json.gz", gzip.compress(dump_text(NAN)))
    report = firstnan.analyze(tmp_path, OPTIONS)
    assert report.verdict is Verdict.CLEAN
    assert not report.complete
    assert "dump.json.gz" in told(report)


# -- any place of compressed data can be read -----------------------------------------------------------------


@pytest.mark.parametrize("form", ["gz", "members", "zst"])
def test_compressed_data_is_read_at_any_place(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "MAX_MARKS", 4)
    monkeypatch.setattr(compressed, "_SPACING", 1000)
    data = b"".join(b"%d," % (n * n) for n in range(40_000))
    half = len(data) // 2
    packed = {
        "gz": lambda: gzip.compress(data),
        "members": lambda: gzip.compress(data[:half]) + gzip.compress(data[half:]) + b"\0" * 100,
        "zst": lambda: zstd(data[:half]) + zstd(data[half:]),
    }[form]()
    kind = compressed.ZSTD if form == "zst" else GZIP
    index = measured(io.BytesIO(packed), len(packed), kind)  # type: ignore[arg-type]
    assert (index.size, index.crc, index.is_cut) == (len(data), zlib.crc32(data), False)
    assert len(index.marks) <= 4
    reader = Unpacked(io.BytesIO(packed), len(packed), index)  # type: ignore[arg-type]
    for place in (0, half - 5, 7, len(data) - 3, half + 1, 100, 100_000, len(data) + 5):
        reader.seek(place)
        assert reader.read(300) == data[place : place + 300]


def test_something_behind_gzip_data() -> None:
    packed = gzip.compress(b"x" * 100) + b"and more"
    with pytest.raises(Damaged, match="behind"):
        measured(io.BytesIO(packed), len(packed), GZIP)  # type: ignore[arg-type]


def test_both_readers_take_archives(tmp_path: Path) -> None:
    packed = tar_gz(EXAMPLE, tmp_path / "dump.tar.gz")
    rank = ranks_of_example()[0]
    inside = packed / rank.relative_to(EXAMPLE)
    content = places.read_bytes(inside / FileKind.DUMP.value)
    assert content == (rank / "dump.json").read_bytes()
    assert not isinstance(places.read_bytes(inside / "stack.json"), Fault)
    missing = places.read_bytes(inside / "nothing.json")
    assert isinstance(missing, Fault)
    assert missing.missing
