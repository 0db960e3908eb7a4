"""One self-contained HTML page: no server, nothing loaded, opens from a file share.

The page holds its data as JSON and draws itself. Whatever comes from a dump stands in ``application/json`` blocks only
and reaches the page as text, never as markup; the policy in its head allows the page's own scripts and styles by hash,
and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from importlib import resources

from firstnan.answer.model import Report
from firstnan.show.html import embedded_json
from firstnan.show.html import model as html_model
from firstnan.show.reporter import Settings
from firstnan.words import text

_ASSETS = resources.files("firstnan.show.html") / "assets"
_STYLES = ("uplot/uPlot.min.css", "page/theme.css", "page/page.css", "page/parts.css", "page/print.css")
_LIBRARY = "uplot/uPlot.iife.min.js"
_LICENCE = "uplot/LICENSE"
_SCRIPTS = tuple(
    f"page/{name}.js"
    for name in (
        "dom",
        "data",
        "answer",
        "replay",
        "heat_map_view",
        "heat_map",
        "spread",
        "curve",
        "modules",
        "agreement",
        "parts",
        "search",
        "start",
    )
)
"""In this order in one function: the first ones are used by the later ones."""
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


def render(report: Report, settings: Settings) -> str:
    """The page, ending with a line end."""
    language = settings.language
    embedded = embedded_json.embedded(report, language)
    model = html_model.build(report, settings, embedded)
    style, library, script = _style(), _library(), _script()
    policy = (
        "default-src 'none'; "
        f"script-src {_hash(library)} {_hash(script)}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return (
        "<!DOCTYPE html>\n"
        f'<html lang="{"zh-Hans" if language.value == "zh" else "en"}">\n'
        "<head>\n"
        '<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text('html.title', language)}</title>\n"
        f"<style>{style}</style>\n"
        "</head>\n"
        "<body>\n"
        f"<noscript>{text('html.noscript', language)}</noscript>\n"
        '<div id="page"></div>\n'
        f'<script type="application/json" id="page-data">{_escaped(json.dumps(model, ensure_ascii=False))}</script>\n'
        f'<script type="application/json" id="report-data">{_escaped(embedded.text)}</script>\n'
        f"<script>{library}</script>\n"
        f"<script>{script}</script>\n"
        "</body>\n"
        "</html>\n"
    )


def _escaped(document: str) -> str:
    r"""JSON text that cannot end its script block: the three characters of markup become escapes of JSON.

    >>> _escaped('{"a": "</script>"}')
    '{"a": "\\u003c/script\\u003e"}'
    """
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", document)


def _hash(content: str) -> str:
    """The content of a script or style as a source of the content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode('utf-8')).digest()).decode('ascii')}'"


@cache
def _style() -> str:
    return "\n".join(_asset(name) for name in _STYLES)


@cache
def _library() -> str:
    return f"/*\n{_asset(_LICENCE).strip()}\n*/\n{_asset(_LIBRARY)}"


@cache
def _script() -> str:
    return '(() => {\n"use strict";\n' + "\n".join(_asset(name) for name in _SCRIPTS) + "\n})();\n"


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text("utf-8").replace("\r\n", "\n")
