"""Hooks of mkdocs: pages at the root of the repository and notebooks become pages of the site, and formulas MathML.

On a code host the same links work as they are: ../CONTRIBUTING.md in docs/, docs/promise.md at the root.
"""

import html as entities
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from latex2mathml.converter import convert_to_element
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
PLAIN = ("CITATION.cff", "LICENSE")
LINK = re.compile(r"\]\(([^)\s]+)\)")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', flags=re.S)
NAMED = re.compile(r"\bdocs/([\w/-]+)\.md\b")
LANDING = "<!-- The site begins here, below scripts/site/home.html. -->"
ICON = "src/discreet/web/static/icon.svg"
PRIMES = ("\u2032", "\u2033")


def on_files(files: Any, config: Any) -> Any:
    """Add the files of the root, the logo and the notebooks."""
    for name in (*PAGES, *PLAIN):
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    files.append(File.generated(config, "icon.svg", abs_src_path=str(ROOT / ICON)))
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=notebook(path)))
    return files


def notebook(path: Path) -> str:
    """A notebook as Markdown: its text, its code, and what the code printed."""
    parts = [f"[Download this notebook]({path.name}) to run it on your own data."]
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts += [f"```python\n{source}\n```", *(_shown(output) for output in cell["outputs"])]
    title = parts.pop(1)  # the first cell, which begins with the heading
    return "\n\n".join([title, *parts])


def _shown(output: dict[str, Any]) -> str:
    """What a cell printed, drew or returned."""
    data = {
        kind: "".join(content) for kind, content in output.get("data", {"text/plain": output.get("text", "")}).items()
    }
    if "image/png" in data:
        inner = f'<img src="data:image/png;base64,{data["image/png"].strip()}" alt="What the cell above draws">'
    elif "<table" in data.get("text/html", ""):
        inner = re.sub(r"<style.*?</style>|\n\s*", "", data["text/html"], flags=re.S)
    else:
        inner = f"<pre><code>{entities.escape(data['text/plain'].rstrip())}</code></pre>"
    return f'<div class="output">{inner}</div>'


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Show formulas; let the pages that docstrings name, docs/proofs/dpals.md for instance, be links to them."""

    def formula(found: re.Match[str]) -> str:
        display = "block" if found[1] == "div" else "inline"
        element = convert_to_element(entities.unescape(found[2]), display=display)
        for part in element.iter():
            _unraise_prime(part)
        return ElementTree.tostring(element, encoding="unicode").replace("&amp;#", "&#")  # it has entities already

    html = FORMULA.sub(formula, html)
    if not page.file.src_uri.startswith("reference/"):
        return html
    return NAMED.sub(r'<a href="../\1.html">\g<0></a>', html)


def _unraise_prime(part: ElementTree.Element) -> None:
    """Put a prime beside its letter: as an exponent, it is too small to read in most fonts."""
    children = list(part)
    prime = entities.unescape(children[-1].text or "") if part.tag in ("msup", "msubsup") else ""
    if prime not in PRIMES:
        return
    letter = ElementTree.Element("mrow")
    letter.append(children[0])
    ElementTree.SubElement(letter, "mo", lspace="0", rspace="0").text = prime
    part.tag = "mrow" if part.tag == "msup" else "msub"
    part[:] = [letter, *children[1:-1]]


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links lead to where the files are in the site; the landing page begins below its hero."""
    if page.file.src_uri == "README.md":
        page.meta |= {"template": "home.html", "hide": ["navigation", "toc"]}
        markdown = markdown.partition(LANDING)[2]
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
            if not page.file.src_uri.startswith("notebooks/"):  # where the file itself is for download
                place = re.sub(r"\.ipynb$", ".md", place)
        else:
            return match[0]  # mkdocs says what is wrong with it
        up = "../" * (len(Path(page.file.src_uri).parts) - 1)
        return f"]({up}{place}{'#' + anchor if anchor else ''})"

    return LINK.sub(moved, markdown)
