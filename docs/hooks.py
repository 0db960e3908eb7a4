"""Hooks of the documentation's build: generated pages come in, and nothing may be loaded from the network."""

import re
import sys
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tools")]

import build_gallery  # noqa: E402

_ROLE = re.compile(r":(?:class|data|exc|func|meth|mod):<code>~?(?:[\w.]+\.)?(\w+)</code>")
_LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|embed)\b[^>]*\bsrc=["']?(?:https?:)?//[^\s"'>]+"""
    r"""|<link\b[^>]*\bhref=["']?(?:https?:)?//[^\s"'>]+|@import\s+["']?(?:url\()?["']?(?:https?:)?//[^\s"')]+"""
)


def on_files(files, config):
    """Add the gallery and the schema."""
    for name, content in build_gallery.files():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_content(html, **_):
    """Roles in docstrings, as ``:class:`Report```, are shown as the name alone."""
    return _ROLE.sub(r"<code>\1</code>", html)


def on_post_build(config):
    """The site has to open where there is no network."""
    for path in Path(config.site_dir).rglob("*.html"):
        found = _LOADED.search(path.read_text("utf-8"))
        if found:
            raise PluginError(f"{path.name} would load from the network: {found[0]}")
