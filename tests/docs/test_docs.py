"""The documentation: its Python runs, its links lead somewhere, its commands exist."""

import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_there_are_pages() -> None:
    assert len(PAGES) > 8


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


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the pages speak of: ratings.parquet and movies.csv, made up."""
    import pandas as pd

    import discreet

    folder = tmp_path_factory.mktemp("tables")
    made = discreet.datasets.movielens_like(3_000, 200, 90_000, random_state=0)
    names = {"user": "userId", "item": "movieId", "rating": "rating"}
    ratings = made.to_frame("pandas")[list(names)].rename(columns=names)
    ratings["timestamp"] = range(len(ratings))
    ratings.to_parquet(folder / "ratings.parquet")
    movies = pd.DataFrame({"movieId": list(made.items), "title": [f"Film {i}" for i in made.items], "genres": "Drama"})
    movies.to_csv(folder / "movies.csv", index=False)
    return folder


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_python_runs(page: Path, tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks marked python, in order, in one namespace; those marked py need data or time and are only shown."""
    shutil.copytree(tables, tmp_path, dirs_exist_ok=True)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "docs"}
    for block in blocks:
        exec(compile(block, str(page), "exec"), namespace)
