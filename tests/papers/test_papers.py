"""The list of tables and figures."""

import ast
import json
from importlib import import_module
from pathlib import Path

import pytest

import discreet
from discreet import papers
from discreet.errors import DataError
from discreet.papers.reproduction import Published, Reproduction


def test_every_table_and_figure_is_there() -> None:
    assert len(papers.NAMES) == 24
    modules = [
        import_module(f"discreet.papers.{name}") for name in dict.fromkeys(at for at, _ in papers.NAMES.values())
    ]
    declared = [one.name for module in modules for one in vars(module).values() if isinstance(one, Reproduction)]
    assert declared == list(papers.NAMES)
    for one in papers.every():
        assert isinstance(one, Reproduction)
        assert papers.find(one.name) is one
        assert one.title
        assert one.protocol
        assert all(isinstance(line, Published) and line.where for line in one.published)
    with pytest.raises(DataError, match="there are frank-wolfe-fig2a, "):
        papers.find("dpals-fig6")
    json.dumps([one.protocol for one in papers.every()])


def test_no_command_imports_papers_but_its_own() -> None:
    """Nor does that one until it runs: its imports are in functions. Packages below cannot import papers at all."""
    found = set()
    for path in (Path(discreet.__file__).parent / "cli").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            whole = [f"{node.module}.{name}" for name in names] if isinstance(node, ast.ImportFrom) else names
            if any(f"{name}.".startswith("discreet.papers.") for name in whole):
                found.add(path.name)
                assert node not in tree.body
    assert found == {"reproduce.py"}
