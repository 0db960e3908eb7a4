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


_EXAMPLE = re.compile(r"\]\((?:\.\./)+examples/(?:small/)?([\w-]+)/\)")
_EXAMPLES = re.compile(r"\]\((?:\.\./)+examples/README\.md\)")


def on_page_markdown(markdown, page, **_):
    """Links to example dumps, which a code host shows as folders, lead to the gallery in the site."""
    return in_site(markdown, page.file.src_uri)


def in_site(markdown, name):
    """The source of a page as the site shows it."""
    up = "../" * name.count("/")
    markdown = _EXAMPLES.sub(f"]({up}gallery/index.md)", markdown)
    return _EXAMPLE.sub(rf"]({up}gallery/\1.md)", markdown)


def on_files(files, config):
    """Add the gallery and the schema; what stands in their place for readers of the sources goes."""
    for name, content in build_gallery.files():
        stub = files.get_file_from_path(name)
        if stub is not None:
            files.remove(stub)
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
