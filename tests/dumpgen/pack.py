"""Packs made cases as small fixtures: `python pack.py DIR TARGET [CASE ...]`, the same bytes for the same files."""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
from pathlib import Path

FIXTURES = (
    "clip-zero-embedding",
    "clip-inf-norm",
    "gpt2-zero-shard-update",
    "llama-ckpt-reentrant-norm",
    "llama-tp-shard-nan",
    "lstm-nan-recurrent-833",
    "mamba-decay",
    "pp2-exp-stage0",
    "ppdp-missing-rank",
    "ppo-clean",
    "ppo-nan-return",
    "vae-two-roots",
    "vit-acos-backward-130",
    "vit-cube-clean",
    "vit-fsdp-corrupt-image-L0",
)


def pack(case: Path, target: Path) -> int:
    """Write TARGET/<case>.tar.gz without times, owners or modes of this machine; its size in bytes."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(p for p in case.rglob("*") if p.is_file()):
            data = path.read_bytes()
            info = tarfile.TarInfo(f"{case.name}/{path.relative_to(case).as_posix()}")
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
    out = target / f"{case.name}.tar.gz"
    out.write_bytes(gzip.compress(raw.getvalue(), compresslevel=9, mtime=0))
    return out.stat().st_size


def main() -> int:
    source, target, *names = sys.argv[1:]
    folder = Path(target)
    folder.mkdir(parents=True, exist_ok=True)
    total = 0
    for name in names or FIXTURES:
        size = pack(Path(source) / name, folder)
        total += size
        print(f"{size:8} {name}")
    print(f"{total:8} in all")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
