"""The examples in docstrings, which the reference shows, run and print what they say."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

import discreet
from discreet.models import registry
from tests.docs.pages import ROOT

SOURCE = ROOT / "src"
MODULES = sorted(
    ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    for path in SOURCE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "MODELS", {**registry.MODELS})  # an example registers a model
    module = importlib.import_module(name)
    result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed


def test_every_model_has_an_example() -> None:
    public = [getattr(discreet, name) for name in discreet.__all__ if re.match(r"(DP|Published|[A-Z]+$|OneBit)", name)]
    assert len(public) > 12
    assert not [model.__name__ for model in public if ">>> " not in (model.__doc__ or "")]
