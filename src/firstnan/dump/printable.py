"""Text from dumps made harmless for people: nothing invisible, nothing that moves a cursor, no endless names.

Names, paths and source lines come from whoever wrote the dump. Whatever is shown passes through here once; escaping
for a markup (Markdown, HTML) is the reporter's own and comes on top.
"""

from __future__ import annotations

import unicodedata

NAME_LIMIT = 96
"""Default number of characters of a name that are shown."""

_GAP = "..."


def printable(text: str) -> str:
    r"""The text on one line, with every character that is not plainly visible written as an escape.

    Control characters (ANSI sequences start with one), line ends, right-to-left and zero-width marks, lone surrogates
    and private or unassigned characters are escaped, not dropped: what was there can still be told.

    >>> printable("\x1b[31mred\u202e")
    '\\x1b[31mred\\u202e'
    >>> printable("x = 1\n")
    'x = 1\\n'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    known = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char)
    if known is not None:
        return known
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def shorten(text: str, limit: int = NAME_LIMIT) -> str:
    """At most ``limit`` characters, cut in the middle: both ends of a record name tell something.

    >>> shorten("Module.decoder.layers.3.self_attn.forward.0", 24)
    'Module.dec...n.forward.0'
    >>> shorten("short", 24)
    'short'
    """
    if len(text) <= limit:
        return text
    room = max(limit - len(_GAP), 2)
    head = room // 2
    return text[:head] + _GAP + text[len(text) - (room - head) :]


def show(text: str, limit: int = NAME_LIMIT) -> str:
    """:func:`printable` and :func:`shorten`, in bounded time whatever the length."""
    return shorten(printable(shorten(text, limit)), limit)


def char_cells(char: str) -> int:
    """Terminal columns of one character: 2 for wide (Chinese, Japanese, Korean), 0 for combining marks, else 1."""
    if char.isascii():
        return 1
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cells(text: str) -> int:
    """Terminal columns that a printable text takes.

    >>> cells("rank"), cells("源卡")
    (4, 4)
    """
    return len(text) if text.isascii() else sum(char_cells(char) for char in text)
