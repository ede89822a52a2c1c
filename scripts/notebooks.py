"""Run the notebooks in docs/notebooks again and keep their output: `python scripts/notebooks.py [NAME ...]`.

Tests run them, too (tests/docs/test_notebooks.py), and scripts/site_hooks.py shows them in the site.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))


def executed(path: Path) -> Any:
    """The notebook with fresh output, run in an empty folder; an error in a cell raises."""
    notebook: Any = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        place = {"metadata": {"path": folder}}
        NotebookClient(notebook, kernel_name="python3", timeout=600, resources=place).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times, which differ from run to run
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return notebook


if __name__ == "__main__":
    for path in NOTEBOOKS if len(sys.argv) == 1 else map(Path, sys.argv[1:]):
        nbformat.write(executed(path), path)
