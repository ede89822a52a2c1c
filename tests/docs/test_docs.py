"""The documentation: its Python and its commands run, its links lead somewhere."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import discreet
from discreet.cli.commands import app
from tests.docs.pages import BLOCK, PAGES, ROOT, ids, run

TUTORIAL = ROOT / "docs" / "tutorial.md"  # has a test of its own
REFERENCE = ROOT / "docs" / "guide" / "reference.md"  # examples of the help, which tests/cli runs


def test_there_are_pages() -> None:
    assert len(PAGES) > 40


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"https?://|mailto:|\.\./\.\./actions/", target):
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


SEARCHES = ("tradeoff", "tune", "reproduce")  # many fits: on a table that is small


def test_searches_and_reproductions_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = discreet.datasets.movielens_like(150, 30, 2_000, random_state=0)
    made.to_frame("pandas").to_parquet("ratings.parquet")
    made.catalogue.to_frame("pandas").to_csv("movies.csv", index=False)
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES if page != REFERENCE)
    lines = dict.fromkeys(re.findall(rf"^\$ discreet ((?:{'|'.join(SEARCHES)}) .*)$", text, flags=re.M))
    assert len(lines) > 5
    for line in lines:
        result = CliRunner().invoke(app, [*shlex.split(line), *(["--repeats", "1"] if "tradeoff" in line else [])])
        assert result.exit_code == 0, f"{line}\n{result.output}"


def test_the_lawyer_is_shown_the_sentence_that_is_printed() -> None:
    page = (ROOT / "docs" / "how-to" / "explain-to-a-lawyer.md").read_text(encoding="utf-8")
    quoted = " ".join(line.removeprefix("> ") for line in page.splitlines() if line.startswith("> "))
    assert quoted == str(discreet.account(epsilon=1.0, delta=1e-6))
