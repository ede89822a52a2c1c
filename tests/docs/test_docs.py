"""The documentation: its Python and its commands run, its links lead somewhere."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import BLOCK, PAGES, ROOT, ids, run

TUTORIAL = ROOT / "docs" / "tutorial.md"  # has a test of its own
REFERENCE = ROOT / "docs" / "guide" / "reference.md"  # examples of the help, which tests/cli runs


def test_there_are_pages() -> None:
    assert len(PAGES) > 40


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"https?://|mailto:", target):
            path, _, anchor = target.partition("#")
            found = (page.parent / path).resolve() if path else page
            assert found.exists(), f"{page.name} links to {target}"
            if anchor and found.suffix == ".md":
                headings = re.findall(r"^#+ (.*)$", found.read_text(encoding="utf-8"), flags=re.M)
                slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
                assert anchor in slugs, f"{page.name} links to {target}"


RUNNABLE = [page for page in PAGES if page not in (TUTORIAL, REFERENCE) and BLOCK.search(page.read_text("utf-8"))]


@pytest.mark.parametrize("page", RUNNABLE, ids=ids)
def test_what_it_shows_runs(page: Path, tables: Path) -> None:
    run(page)


def test_the_lawyer_is_shown_the_sentence_that_is_printed() -> None:
    import discreet

    page = (ROOT / "docs" / "how-to" / "explain-to-a-lawyer.md").read_text(encoding="utf-8")
    quoted = " ".join(line.removeprefix("> ") for line in page.splitlines() if line.startswith("> "))
    assert quoted == str(discreet.account(epsilon=1.0, delta=1e-6))
