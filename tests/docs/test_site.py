"""The site that `make docs` builds: links lead somewhere, nothing comes from outside, no public name is missing."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import discreet
from tests.docs.pages import ROOT

EXTERNAL = re.compile(r"(?!data:)[a-z]+:|//")


class Page(HTMLParser):
    """The ids of a page, where its links lead, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        self.loaded += [given[name] for name in ("src", "href") if name in given and tag in ("img", "script", "link")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_links_and_anchors_lead_somewhere_and_nothing_is_loaded_from_outside(site: Path) -> None:
    pages = {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 40
    for path, page in pages.items():
        assert not [address for address in page.loaded if EXTERNAL.match(address)], path
        for link in (*page.links, *page.loaded):
            if EXTERNAL.match(link) or link.startswith("data:"):
                continue
            place, _, anchor = unquote(link).partition("#")
            target = (path.parent / place).resolve() if place else path
            target = target / "index.html" if target.is_dir() else target
            assert target.exists(), f"{path.relative_to(site)} links to {link}"
            assert not anchor or target not in pages or anchor in pages[target].ids or anchor == "__top", (
                f"{path.relative_to(site)} links to {link}"
            )


def test_examples_and_proofs_of_the_reference_are_code_and_links(site: Path) -> None:
    text = (site / "reference" / "private-models.html").read_text(encoding="utf-8")
    assert text.count("Examples:") > 7
    assert "<details" not in text  # which is what a heading that the parser does not know becomes
    assert 'href="../proofs/dpals.html"' in text


def test_the_landing_page_has_the_picture_and_the_plot_and_notebooks_are_pages(site: Path) -> None:
    home = Page(site / "index.html")
    assert {"guide/browser.png", "results/accuracy.svg"} <= set(home.loaded)
    for name in ("ratings", "clicks"):
        assert f"notebooks/{name}.html" in home.links
        assert (site / "notebooks" / f"{name}.html").read_text(encoding="utf-8").count('class="output"') > 5


def test_every_public_name_has_a_place_in_the_reference(site: Path) -> None:
    ids: set[str] = set().union(*(Page(path).ids for path in (site / "reference").glob("*.html")))
    modules = {"audit", "datasets", "evaluate", "privacy", "spark", "splits", "testing", "tune", "web", "errors"}
    missing = [name for name in discreet.__all__ if name not in modules and f"discreet.{name}" not in ids]
    assert not missing
    for name in (
        "discreet.audit.run",
        "discreet.web.export",
        "discreet.spark.Recommender",
        "discreet.tune.search",
        "discreet.data.splits.holdout",
        "discreet.models.base.Model.recommend",
    ):
        assert name in ids
