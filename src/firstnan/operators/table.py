"""Reading rules files and asking them about an operator."""

from __future__ import annotations

import stat
import sys
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from msgspec import Struct

from firstnan.dump.errors import UsageError
from firstnan.dump.records import RecordKind, RecordName

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RULES_SCHEMA = "firstnan.rules/1"
MAX_RULES_BYTES = 1 << 20


class OperatorKind(Enum):
    """What a rule says about the operators that it names."""

    INITIALISER = "initialiser"
    """Fresh memory: the output is not a result."""
    CARRIER = "carrier"
    """Copies, casts, views: never a cause, unless a cast overflow is proven."""
    MASK = "mask"
    """May legally write -Inf."""
    SELECTOR = "selector"
    """Chooses elements: bad in, clean out means dropped."""
    OBSERVER = "observer"
    """Only looks: what it reads is neither dropped nor passed on."""
    BUFFER_VIEW = "buffer_view"
    """A look at memory that may not be filled yet."""
    SATURATOR = "saturator"
    """Finite at infinity: bad in, clean out means swallowed."""
    SINK = "sink"
    """Acts on the values that it reads: a bad one that arrives there matters, whatever its result."""
    IGNORED = "ignored"
    """Not looked at."""


class Rule(Struct, frozen=True):
    """One entry of a rules file."""

    name: str
    kind: OperatorKind
    ops: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Rulebook:
    """The rules in force. Answers are cached per operator, since few operators make many records."""

    rules: tuple[Rule, ...]
    _cache: dict[str, dict[OperatorKind, Rule]] = field(default_factory=dict, compare=False, repr=False)

    def find(self, name: RecordName, kind: OperatorKind) -> Rule | None:
        """The first rule of this kind that names the record's operator; None for modules."""
        if name.kind is not RecordKind.API:
            return None
        return self._of(operator_label(name)).get(kind)

    def is_(self, name: RecordName, kind: OperatorKind) -> bool:
        return self.find(name, kind) is not None

    def _of(self, label: str) -> dict[OperatorKind, Rule]:
        found = self._cache.get(label)
        if found is None:
            found = {}
            for rule in self.rules:
                if rule.kind not in found and any(fnmatchcase(label, pattern) for pattern in rule.ops):
                    found[rule.kind] = rule
            self._cache[label] = found
        return found


def operator_label(name: RecordName) -> str:
    """``Prefix.name`` of a record, as the rules write it: without namespaces and in-place underscore.

    ``Tensor.masked_fill_.3.forward`` and ``Torch.ops.aten.masked_fill_0_0`` are ``Tensor.masked_fill``
    and ``Torch.masked_fill``; dunder names stay as they are.
    """
    return f"{name.prefix.split('.', 1)[0]}.{short_api(name)}"


def short_api(name: RecordName) -> str:
    """The last part of an API's name, without the underscore of the in-place form.

    >>> from firstnan.dump.records import Direction
    >>> short_api(RecordName("", RecordKind.API, "Torch", "linalg.vector_norm", "", 0, Direction.FORWARD))
    'vector_norm'
    """
    api = name.api.rsplit(".", 1)[-1]
    if api.startswith("__") and api.endswith("__"):
        return api
    return api.rstrip("_") or api


def default_text() -> str:
    """The packaged rules file, as shipped."""
    beside = Path(__file__).with_name("default_rules.toml")
    if beside.is_file():
        return beside.read_text(encoding="utf-8")
    from importlib import resources  # inside an archive

    return resources.files("firstnan.operators").joinpath("default_rules.toml").read_text(encoding="utf-8")


def parse_toml(text: str) -> dict[str, Any]:
    """A TOML document of ours."""
    return tomllib.loads(text)


def load(path: Path | None = None) -> Rulebook:
    """The packaged rules, with those of ``path`` added or put in their place (same name).

    Raises:
        UsageError: the file cannot be read, is not TOML or has another form.
    """
    rules = {rule.name: rule for rule in _parse(default_text(), "default.toml")}
    if path is not None:
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):  # a FIFO would block, a device would never end
                raise UsageError(f"rules file {path} is not a regular file")
            if status.st_size > MAX_RULES_BYTES:
                raise UsageError(f"rules file {path} is larger than {MAX_RULES_BYTES} bytes")
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"rules file {path} cannot be read: {error}") from error
        rules.update({rule.name: rule for rule in _parse(text, str(path))})
    return Rulebook(tuple(rules.values()))


def parse(text: str) -> Rulebook:
    """The rules of a rules file that is complete in itself, such as :func:`render` makes.

    Raises:
        UsageError: it is not TOML or has another form.
    """
    return Rulebook(tuple(_parse(text, "given rules")))


def _parse(text: str, source: str) -> list[Rule]:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"rules file {source} is not TOML: {error}") from error
    except RecursionError as error:
        raise UsageError(f"rules file {source} is nested too deeply") from error
    schema = data.get("schema", RULES_SCHEMA)
    if schema != RULES_SCHEMA:
        raise UsageError(f"rules file {source} has schema {schema!r}", hint=f"this version reads {RULES_SCHEMA!r}")
    entries = data.get("rule", [])
    if not isinstance(entries, list):
        raise UsageError(f"rules file {source}: 'rule' must be an array of tables ([[rule]])")
    return [_rule(entry, source, number) for number, entry in enumerate(entries, 1)]


def _rule(entry: object, source: str, number: int) -> Rule:
    place = f"rules file {source}, rule {number}"
    if not isinstance(entry, dict):
        raise UsageError(f"{place}: must be a table")
    name, kind, ops, reason = (entry.get(key) for key in ("name", "kind", "ops", "reason"))
    if not isinstance(name, str) or not name:
        raise UsageError(f"{place}: 'name' must be a text")
    if not isinstance(ops, list) or not all(isinstance(op, str) for op in ops):
        raise UsageError(f"{place} ({name}): 'ops' must be a list of texts such as \"Tensor.masked_fill\"")
    if not isinstance(reason, str) or not reason:
        raise UsageError(f"{place} ({name}): 'reason' must say why")
    try:
        return Rule(name, OperatorKind(kind), tuple(ops), reason)
    except ValueError:
        kinds = ", ".join(member.value for member in OperatorKind)
        raise UsageError(f"{place} ({name}): 'kind' is {kind!r}", hint=f"one of: {kinds}") from None


def render(book: Rulebook) -> str:
    """The rules in force as a rules file again."""
    lines = [f'schema = "{RULES_SCHEMA}"']
    for rule in book.rules:
        ops = ", ".join(f'"{op}"' for op in rule.ops)
        lines += ["", "[[rule]]", f'name = "{rule.name}"', f'kind = "{rule.kind.value}"', f"ops = [{ops}]"]
        lines.append('reason = "' + rule.reason.replace("\\", "\\\\").replace('"', '\\"') + '"')
    return "\n".join(lines) + "\n"
