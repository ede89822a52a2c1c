"""Fixtures of the models' tests."""

from collections.abc import Iterator

import pytest

from discreet.testing import ModelConformance
from tests import fresh


@pytest.fixture(scope="session", autouse=True)
def quick_processes() -> Iterator[None]:
    """Models are loaded in processes that are as fresh as new interpreters, and there sooner."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelConformance, "fresh", staticmethod(fresh.printed))
        yield
