"""Fixtures of the models' tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from discreet.models.storage import save
from discreet.testing import ModelConformance
from tests import fresh
from tests.models.models import REGISTRY, fitted


@pytest.fixture(scope="session", autouse=True)
def quick_processes() -> Iterator[None]:
    """Models are loaded in processes that are as fresh as new interpreters, and there sooner."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelConformance, "fresh", staticmethod(fresh.printed))
        yield


@pytest.fixture
def fake_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.models.registry.MODELS", REGISTRY)


@pytest.fixture
def saved(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The folder of a saved model."""
    request.getfixturevalue("fake_registry")
    save(fitted(), tmp_path / "model")
    return tmp_path / "model"
