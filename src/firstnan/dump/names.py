"""Record names, taken apart from the right (dump format, section 6).

====================================================  ===========================================
``Functional.linear.0.forward``                       API: the number stands before the direction
``Module.layers.0.fc.Linear.forward.0``               module: after it
``Module.layers.0.fc.Linear.0.forward``               read too; no version seen writes it
``Module.layers.0.fc.Linear.parameters_grad[.k]``     gradients of a module's own parameters
``Primitive.matmul.MatMul.0.forward``                 MindSpore: a name of two parts
``Distributed.all_reduce_0_0``                        the form in public descriptions (section 14)
====================================================  ===========================================
"""

from __future__ import annotations

import re

from firstnan.dump.records import Direction, RecordKind, RecordName

MODULE_PREFIXES = frozenset({"Module", "Cell"})
"""``Cell`` is MindSpore's word for a module."""

_DIRECTIONS = {"forward": Direction.FORWARD, "backward": Direction.BACKWARD}
_MAX_DIGITS = 18  # a longer number is no call number, and int() of it is slow
_ILLUSTRATIVE = re.compile(r"_([0-9]{1,18})_[0-9]{1,18}\Z")


def parse_name(full: str) -> RecordName:
    """Take a record name apart. Any text is accepted; linear in its length.

    Without a number ``call`` is None; without a direction the record counts as forward.

    >>> n = parse_name("Module.layers.0.mlp.fc2.Linear.forward.3")
    >>> n.kind.name, n.prefix, n.path, n.api, n.call, n.direction.name
    ('MODULE', 'Module', 'layers.0.mlp.fc2', 'Linear', 3, 'FORWARD')
    >>> n = parse_name("Torch.linalg.vector_norm.2.backward")
    >>> n.prefix, n.api, n.call, n.direction.name
    ('Torch', 'linalg.vector_norm', 2, 'BACKWARD')
    >>> n = parse_name("Tensor.__mul___4_0")
    >>> n.prefix, n.api, n.call
    ('Tensor', '__mul__', 4)
    """
    head, _, last = full.rpartition(".")
    direction = _DIRECTIONS.get(last)
    if direction is not None:
        rest, _, number = head.rpartition(".")
        call = _call_number(number)
        return _called(full, head if call is None else rest, call, direction)
    if last == "parameters_grad":
        return _module(full, RecordKind.PARAMETERS_GRAD, head, None, Direction.BACKWARD)
    call = _call_number(last)
    if call is not None:
        rest, _, word = head.rpartition(".")
        direction = _DIRECTIONS.get(word)
        if direction is not None:
            return _module(full, RecordKind.MODULE, rest, call, direction)
        if word == "parameters_grad":
            return _module(full, RecordKind.PARAMETERS_GRAD, rest, call, Direction.BACKWARD)
    match = _ILLUSTRATIVE.search(full)
    if match is not None:
        return _called(full, full[: match.start()], int(match[1]), Direction.FORWARD)
    return _called(full, full, None, Direction.FORWARD)


def parse_saved(full: str) -> RecordName:
    """Take the name of a saved value apart: ``<name>.<n>.debug``, and ``<name>_grad.<n>.debug`` for its gradient.

    >>> n = parse_saved("layer.out_grad.2.debug")
    >>> n.api, n.call, n.direction.name
    ('layer.out_grad', 2, 'BACKWARD')
    """
    rest, _, number = full.removesuffix(".debug").rpartition(".")
    call = _call_number(number)
    name = full if call is None else rest
    direction = Direction.BACKWARD if name.endswith("_grad") else Direction.FORWARD
    return RecordName(full, RecordKind.API, "", name, "", call, direction)


def _call_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None


def _called(full: str, body: str, call: int | None, direction: Direction) -> RecordName:
    prefix, dot, api = body.partition(".")
    if dot and prefix in MODULE_PREFIXES:
        return _module(full, RecordKind.MODULE, body, call, direction)
    if not dot:
        prefix, api = "", body
    return RecordName(full, RecordKind.API, prefix, api, "", call, direction)


def _module(full: str, kind: RecordKind, body: str, call: int | None, direction: Direction) -> RecordName:
    prefix, dot, rest = body.partition(".")
    if not dot:
        prefix, rest = "", body
    path, _, api = rest.rpartition(".")
    return RecordName(full, kind, prefix, api, path, call, direction)
