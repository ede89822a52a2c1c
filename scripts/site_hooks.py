"""Hooks of mkdocs: pages that live at the root of the repository are pages of the site, and links find them there.

On a code host the same links work as they are: ../CONTRIBUTING.md in docs/, docs/promise.md at the root.
"""

import html as entities
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
PLAIN = ("CITATION.cff", "LICENSE")
LINK = re.compile(r"\]\(([^)\s]+)\)")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', flags=re.S)
NAMED = re.compile(r"\bdocs/([\w/-]+)\.md\b")


def on_files(files: Any, config: Any) -> Any:
    """Add the files of the root."""
    for name in (*PAGES, *PLAIN):
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Show formulas; let the pages that docstrings name, docs/proofs/dpals.md for instance, be links to them."""

    def formula(found: re.Match[str]) -> str:
        return convert(entities.unescape(found[2]), display="block" if found[1] == "div" else "inline")

    html = FORMULA.sub(formula, html)
    if not page.file.src_uri.startswith("reference/"):
        return html
    return NAMED.sub(r'<a href="../\1.html">\g<0></a>', html)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links lead to where the files are in the site."""
    home = Path("docs") / page.file.src_uri if page.file.src_uri not in PAGES else Path(page.file.src_uri)

    def moved(match: re.Match[str]) -> str:
        target, _, anchor = match[1].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        path = (ROOT / home.parent / target).resolve()
        if path.parent == ROOT and path.name in (*PAGES, *PLAIN):
            place = path.name
        elif path.is_relative_to(ROOT / "docs"):
            place = str(path.relative_to(ROOT / "docs"))
        else:
            return match[0]  # mkdocs says what is wrong with it
        up = "../" * (len(Path(page.file.src_uri).parts) - 1)
        return f"]({up}{place}{'#' + anchor if anchor else ''})"

    return LINK.sub(moved, markdown)
