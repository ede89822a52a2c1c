"""Fixtures that every part of the test suite shares."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgres


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Path]:
    """The socket folder of a running PostgreSQL; without one the test is skipped, and on CI it fails."""
    try:
        with postgres.server() as home:
            yield home
    except postgres.Unavailable as reason:
        if os.environ.get("CI"):
            pytest.fail(f"CI must test PostgreSQL, but: {reason}")
        pytest.skip(f"PostgreSQL is not available: {reason}")


@pytest.fixture
def postgres_url(postgres_server: Path) -> Iterator[str]:
    """The SQLAlchemy URL of a fresh, empty PostgreSQL database."""
    with postgres.database(postgres_server) as url:
        yield url
