"""The notebooks run, and print what the pages in the site show, up to noise."""

from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def printed(notebook: Any) -> list[tuple[str, list[list[str]]]]:
    """The cells with code, and the kinds of what each shows."""
    return [
        (cell.source, [sorted(output.get("data", {"text/plain": ""})) for output in cell.outputs])
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_and_shows_what_is_kept(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    from scripts.notebooks import executed

    kept = printed(nbformat.read(path, as_version=4))
    assert sum(bool(shown) for _, shown in kept) > 5
    assert printed(executed(path)) == kept, "run: python scripts/notebooks.py"
