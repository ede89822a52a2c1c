"""Fixtures that every part of the test suite shares."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import hypothesis
import pytest

from tests import postgres

# The workers of pytest-xdist use all cores already: more threads of BLAS would only wait for each other. The variable
# is read when NumPy is imported; tests/test_parallel.py sets several threads itself.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

hypothesis.settings.register_profile("discreet", deadline=None)  # a loaded machine is no reason to fail
hypothesis.settings.load_profile("discreet")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that share a Spark session first: so one worker gets them all, and no other takes some over."""
    items.sort(key=lambda item: item.path.parent.name != "spark")


def missing(what: str, reason: str) -> NoReturn:
    """Skip a test for want of something, by name and with the reason; on CI, where everything must run, fail."""
    if os.environ.get("CI"):
        pytest.fail(f"CI must test {what}, but: {reason}")
    pytest.skip(f"{what} is not available: {reason}")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Path]:
    """The socket folder of a running PostgreSQL; without one the test is skipped, and on CI it fails."""
    try:
        with postgres.server() as home:
            yield home
    except postgres.Unavailable as reason:
        missing("PostgreSQL", str(reason))


@pytest.fixture
def postgres_url(postgres_server: Path) -> Iterator[str]:
    """The SQLAlchemy URL of a fresh, empty PostgreSQL database."""
    with postgres.database(postgres_server) as url:
        yield url
