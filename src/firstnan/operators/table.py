"""What is known about operators: the table ``operators.toml``, what ``--rules FILE`` adds to it, and questions to it.

A rule says how operators treat bad values, an operator's entry what it computes. Entries go by the last part of the
API's name (or a module's class), whatever the prefix: the frameworks share most names.
"""

from __future__ import annotations

import json
import re
import stat
import sys
from collections.abc import Iterable, Mapping
from enum import Enum
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from firstnan.dump.errors import UsageError
from firstnan.dump.records import RecordKind, RecordName

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RULES_SCHEMA = "firstnan.rules/1"
MAX_RULES_BYTES = 1 << 20
_WILDCARDS = frozenset("*?[")


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

    __hash__ = object.__hash__  # one object per member; that of Enum is Python, and asked for every record


class Computes(Enum):
    """What an operator computes."""

    PRODUCT = "product"
    """Sums of products of two tensors."""
    SUM = "sum"
    """Sums of elements of one tensor, or of several tensors."""
    REDUCTION = "reduction"
    """Sums of the elements of one tensor."""
    NORM = "norm"
    """Sums of squares inside."""
    SCALE = "scale"
    """Products of elements, squares inside."""
    MULTIPLICATION = "multiplication"
    """0 * Inf can stand in it, as in every product."""
    DIFFERENCE = "difference"
    """Inf - Inf can stand in it."""
    SUBTRACTION = "subtraction"
    """A difference of two tensors, into which no mask is fed."""
    SOFTMAX = "softmax"
    """Exponentials divided by their sum."""
    PLAIN_SOFTMAX = "plain_softmax"
    """A softmax and nothing else in the kernel."""
    EXPONENTIAL = "exponential"
    """exp and its kin."""
    POWER = "power"
    """A base and an exponent."""
    LOGARITHM = "logarithm"
    """Logarithms, and losses that take one of their argument."""
    DIVISION = "division"
    """Has a divisor."""
    INVERSE = "inverse"
    """A division whose divisor is the first argument."""
    NORMALISATION = "normalisation"
    """Divides by a spread or a length."""
    MEAN = "mean"
    """Divides by a count."""
    ROOT = "root"
    """Its derivative is infinite at the edge of the domain."""
    CAST = "cast"
    """Converts to another dtype."""
    FUSED = "fused"
    """A kernel that does more than its arguments say (padding, tails, workspace): bounds prove nothing about the
    device."""
    BIAS_FIRST = "bias_first"
    """A product that adds its first argument."""
    BOUNDED = "bounded"
    """Results no larger than the arguments, or 1: finite ones do not overflow in it."""
    NO_MASK = "no_mask"
    """No mask is ever fed into it."""
    ABSORBER = "absorber"
    """A legal -Inf disappears in it."""


MULTIPLIES = frozenset({Computes.PRODUCT, Computes.MULTIPLICATION})
"""Where 0 * Inf can stand."""
SCALES = frozenset({Computes.SCALE, Computes.NORM})
"""Products of elements, squares inside."""
UNMASKED = frozenset({Computes.NORMALISATION, Computes.NO_MASK})
"""Operators into which no mask is ever fed."""
ABSORBS = frozenset({Computes.SOFTMAX, Computes.EXPONENTIAL, Computes.ABSORBER})
"""Where a legal -Inf disappears."""
MASKED_BY_RECORDS = UNMASKED | {
    *(Computes.PRODUCT, Computes.NORM, Computes.SCALE, Computes.DIVISION),
    *(Computes.LOGARITHM, Computes.REDUCTION, Computes.SUBTRACTION),
}
"""Operators, softmaxes apart, into which a mask comes only from a record or from a fill that is listed."""
_NAMESPACE = re.compile(r"^(?:linalg|special|fft)_(?=.)")
"""How the operators of ATen spell the modules of torch."""
WEIGHT_KEYWORDS = ("weight", "bias", "gamma", "beta", "embedding_weight")
"""Names of weights among the keyword arguments of common operators."""
STORED_STATISTICS = frozenset({"batch_norm", "instance_norm"})
"""Normalisations that use a stored mean and variance outside training: the arguments 1 and 2 of the functions."""


class Operator(Struct, frozen=True):
    """What is known of operators that compute the same."""

    names: tuple[str, ...]
    computes: frozenset[Computes]
    domain: tuple[float, float] | None = None
    """The smallest and the largest argument for which it is defined; None: all, or not known."""
    weights: tuple[int, ...] = ()
    """Positions of weights among the arguments, from 0; a bias is one of them."""
    bias: int | None = None
    """The position among them that is a bias."""


class Rule(Struct, frozen=True):
    """One entry of a rules file."""

    name: str
    kind: OperatorKind
    ops: tuple[str, ...]
    reason: str


class Rulebook(Struct, frozen=True):
    """The rules in force. Answers are cached per operator, since few operators make many records."""

    rules: tuple[Rule, ...]
    operators: Mapping[str, Operator] = field(default_factory=dict)
    """By every name they have."""
    added: tuple[str, ...] = ()
    """Names of the rules and operators that come from ``--rules``."""
    _cache: dict[str, dict[OperatorKind, Rule]] = field(default_factory=dict)
    _by_operator: dict[tuple[str, str], dict[OperatorKind, Rule]] = field(default_factory=dict)
    """The same by prefix and API, as names of records hold them."""

    def find(self, name: RecordName, kind: OperatorKind) -> Rule | None:
        """The first rule of this kind that names the record's operator; None for modules."""
        if name.kind is not RecordKind.API:
            return None
        operator = name.prefix, name.api
        found = self._by_operator.get(operator)
        if found is None:
            found = self._by_operator[operator] = self._of(operator_label(name))
        return found.get(kind)

    def is_(self, name: RecordName, kind: OperatorKind) -> bool:
        return self.find(name, kind) is not None

    def computes(self, api: str, *what: Computes) -> bool:
        """Whether an operator, named as :func:`short_api` does, computes one of these."""
        operator = self.operators.get(api)
        return operator is not None and not operator.computes.isdisjoint(what)

    def is_plain_sum(self, api: str) -> bool:
        """Whether an operator adds the elements of one tensor, and takes no exponential of them first."""
        return self.computes(api, Computes.REDUCTION) and not self.computes(api, Computes.SOFTMAX)

    def is_mask_free(self, api: str) -> bool:
        """Whether a mask comes into an operator only from a record, or from a fill that is listed."""
        return self.computes(api, *MASKED_BY_RECORDS) and not self.computes(api, Computes.SOFTMAX)

    def domain(self, api: str) -> tuple[float, float] | None:
        """The smallest and the largest argument for which an operator is defined; None: all, or not known."""
        operator = self.operators.get(api)
        return None if operator is None else operator.domain

    def weights(self, api: str) -> tuple[int, ...]:
        """Positions of weights among an operator's arguments."""
        operator = self.operators.get(api)
        return () if operator is None else operator.weights

    def weight_name(self, api: str, position: int) -> str | None:
        """What an argument is called that is a weight of an operator: ``weight`` or ``bias``; None: it is none."""
        operator = self.operators.get(api)
        if operator is None or position not in operator.weights:
            return None
        return "bias" if position == operator.bias else "weight"

    def _of(self, label: str) -> dict[OperatorKind, Rule]:
        found = self._cache.get(label)
        if found is None:
            found = {}
            for rule in self.rules:
                if rule.kind not in found and any(_is_named(label, pattern) for pattern in rule.ops):
                    found[rule.kind] = rule
            self._cache[label] = found
        return found


def _is_named(label: str, pattern: str) -> bool:
    """Whether a pattern names an operator: ``fnmatchcase``, which would compile each of some hundred patterns anew.

    >>> _is_named("Torch.full_like", "Torch.full*"), _is_named("Torch.full", "*.full_")
    (True, False)
    """
    head, star, tail = pattern.partition("*")
    if not _WILDCARDS.isdisjoint(head) or not _WILDCARDS.isdisjoint(tail):
        return fnmatchcase(label, pattern)
    if not star:
        return label == pattern
    return len(label) >= len(head) + len(tail) and label.startswith(head) and label.endswith(tail)


def operator_label(name: RecordName) -> str:
    """``Prefix.name`` of a record, as the rules write it: without namespaces and in-place underscore.

    ``Tensor.masked_fill_.3.forward`` and ``Torch.ops.aten.masked_fill_0_0`` are ``Tensor.masked_fill``
    and ``Torch.masked_fill``; dunder names stay as they are.
    """
    return f"{name.prefix.split('.', 1)[0]}.{short_api(name)}"


def short_api(name: RecordName) -> str:
    """The last part of an API's name, without its namespace and the underscore of the in-place form.

    ``Aten.linalg_vector_norm``, ``Torch.linalg.vector_norm`` and ``Torch.norm_`` are spelt by one rule.

    >>> from firstnan.dump.records import Direction
    >>> short_api(RecordName("", RecordKind.API, "Torch", "linalg.vector_norm", "", 0, Direction.FORWARD))
    'vector_norm'
    """
    api = name.api.rsplit(".", 1)[-1]
    if api.startswith("__") and api.endswith("__"):
        return api
    return _NAMESPACE.sub("", api).rstrip("_") or api


def default_text() -> str:
    """The packaged table, as shipped."""
    return own_text("operators.toml")


def own_text(name: str) -> str:
    """A file of this package."""
    beside = Path(__file__).with_name(name)
    if beside.is_file():
        return beside.read_text(encoding="utf-8")
    from importlib import resources  # inside an archive

    return resources.files("firstnan.operators").joinpath(name).read_text(encoding="utf-8")


def parse_toml(text: str) -> dict[str, Any]:
    """A TOML document of ours."""
    return tomllib.loads(text)


def load(path: Path | None = None) -> Rulebook:
    """The packaged table, with what ``path`` adds: rules and operators of the same name take the place of ours.

    Raises:
        UsageError: the file cannot be read, is not TOML or has another form.
    """
    rules, operators = _packaged()
    if path is None:
        return Rulebook(rules, operators)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # a FIFO would block, a device would never end
            raise UsageError(f"rules file {path} is not a regular file")
        if status.st_size > MAX_RULES_BYTES:
            raise UsageError(f"rules file {path} is larger than {MAX_RULES_BYTES} bytes")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"rules file {path} cannot be read: {error}") from error
    new_rules, new_operators = _parse(text, str(path))
    merged = {**{rule.name: rule for rule in rules}, **{rule.name: rule for rule in new_rules}}
    added = (*(rule.name for rule in new_rules), *dict.fromkeys(one.names[0] for one in new_operators.values()))
    return Rulebook(tuple(merged.values()), {**operators, **new_operators}, added)


@cache
def _packaged() -> tuple[tuple[Rule, ...], Mapping[str, Operator]]:
    rules, operators = _parse(default_text(), "operators.toml")
    return tuple(rules), operators


def parse(text: str) -> Rulebook:
    """The table of a file that is complete in itself, such as :func:`render` makes.

    Raises:
        UsageError: it is not TOML or has another form.
    """
    rules, operators = _parse(text, "given rules")
    added = tomllib.loads(text).get("added", [])
    return Rulebook(tuple(rules), operators, tuple(str(name) for name in added) if isinstance(added, list) else ())


def _parse(text: str, source: str) -> tuple[list[Rule], dict[str, Operator]]:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"rules file {source} is not TOML: {error}") from error
    except RecursionError as error:
        raise UsageError(f"rules file {source} is nested too deeply") from error
    schema = data.get("schema", RULES_SCHEMA)
    if schema != RULES_SCHEMA:
        raise UsageError(f"rules file {source} has schema {schema!r}", hint=f"this version reads {RULES_SCHEMA!r}")
    entries, operators = data.get("rule", []), data.get("operators", {})
    if not isinstance(entries, list):
        raise UsageError(f"rules file {source}: 'rule' must be an array of tables ([[rule]])")
    if not isinstance(operators, dict):
        raise UsageError(f"rules file {source}: 'operators' must be a table of tables ([operators.NAME])")
    found = [_operator(name, entry, source) for name, entry in operators.items()]
    return (
        [_rule(entry, source, number) for number, entry in enumerate(entries, 1)],
        {name: operator for operator in found for name in operator.names},
    )


def _operator(name: str, entry: object, source: str) -> Operator:
    place = f"rules file {source}, operator {name}"
    if not isinstance(entry, dict):
        raise UsageError(f"{place}: must be a table")
    unknown = set(entry) - {"names", "computes", "domain", "weights", "bias"}
    if unknown:
        raise UsageError(
            f"{place}: {', '.join(sorted(unknown))} is not known", hint="names, computes, domain, weights, bias"
        )
    names, computes = entry.get("names", [name]), entry.get("computes", [])
    domain, weights, bias = entry.get("domain"), entry.get("weights", []), entry.get("bias")
    if not isinstance(names, list) or not names or not all(isinstance(one, str) and one for one in names):
        raise UsageError(f"{place}: 'names' must be a list of texts such as \"npu_matmul\"")
    if any(mark in one for one in names for mark in ".*"):
        raise UsageError(
            f"{place}: a name is the last part of an API's name, without prefix and without '*'",
            hint='such as "npu_matmul" for NPU.npu_matmul',
        )
    if not isinstance(weights, list) or not all(type(one) is int and one >= 0 for one in weights):
        raise UsageError(f"{place}: 'weights' must be a list of positions such as [1, 2]")
    if bias is not None and bias not in weights:
        raise UsageError(f"{place}: 'bias' must be one of the positions in 'weights'")
    if domain is not None and not (
        isinstance(domain, list) and len(domain) == 2 and all(type(one) in (int, float) for one in domain)
    ):
        raise UsageError(f"{place}: 'domain' must be two numbers such as [0.0, inf]")
    try:
        computed = frozenset(Computes(one) for one in computes)
    except (ValueError, TypeError):
        hint = "some of: " + ", ".join(member.value for member in Computes)
        raise UsageError(f"{place}: 'computes' is {computes!r}", hint=hint) from None
    edges = None if domain is None else (float(domain[0]), float(domain[1]))
    return Operator(tuple(names), computed, edges, tuple(weights), bias)


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
    """The table in force as a file again, without comments."""
    lines = [f'schema = "{RULES_SCHEMA}"']
    if book.added:
        lines.append(f"added = {_texts(book.added)}")
    for rule in book.rules:
        lines += ["", "[[rule]]", f"name = {_text(rule.name)}", f'kind = "{rule.kind.value}"']
        lines += [f"ops = {_texts(rule.ops)}", f"reason = {_text(rule.reason)}"]
    for operator in dict.fromkeys(book.operators.values()):
        names = [name for name in operator.names if book.operators[name] is operator]
        computes = [what.value for what in Computes if what in operator.computes]
        lines += ["", f"[operators.{_text(names[0])}]", f"names = {_texts(names)}", f"computes = {_texts(computes)}"]
        if operator.domain is not None:
            lines.append(f"domain = [{operator.domain[0]}, {operator.domain[1]}]")
        if operator.weights:
            lines.append(f"weights = {list(operator.weights)}")
        if operator.bias is not None:
            lines.append(f"bias = {operator.bias}")
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    """A text in TOML's quotes, which are JSON's but for the control character DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _texts(values: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, values))}]"
