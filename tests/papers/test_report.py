"""The page of results is that of the files beside it, and these are of the tables and figures that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from discreet import papers
from discreet.papers.report import Results, page, read

FOLDER = Path(__file__).parents[2] / "docs" / "results"
KEPT = [name for name in papers.NAMES if (FOLDER / f"{name}.json").exists()]


def test_the_page_is_that_of_the_files() -> None:
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == page(FOLDER / "README.md"), (
        "run: python -m discreet.papers.report docs/results/README.md"
    )


@pytest.mark.parametrize("name", KEPT)
def test_files_hold_rows_of_their_figure(name: str) -> None:
    one = papers.find(name)
    document = read(FOLDER / f"{name}.json", name)
    for command in document["commands"]:
        assert command.startswith(f"discreet reproduce {name}")
        assert command.endswith(f" --out docs/results/{name}.json")  # where it is, not where somebody kept it
    assert document["version"]
    identities = [one.identity(row) for row in document["rows"]]
    assert len(set(identities)) == len(identities) > 1
    for row in document["rows"]:
        assert {"data", "method", "epsilon", "sd", "runs", "true_epsilon", one.measure} <= set(row)
        real = (
            not one.needs
            or any(word in row["data"] for word in ("GENERATED", "IN THE PLACE OF", "quick"))
            or (set(one.needs) <= {"jester", "ml-100k", "restaurant"})
        )
        assert real, "data that nobody here has are called so"
    results = Results(one, FOLDER / f"{name}.json")
    assert results.text() == (FOLDER / f"{name}.json").read_text(encoding="utf-8")
