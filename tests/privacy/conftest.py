"""Fixtures of the trust base's tests."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


def run_in_fork(work: Callable[[], str]) -> str:
    """Run something in a forked child and return the text it gives; "killed" if it died of a signal."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, work().encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return "killed" if os.WIFSIGNALED(status) else text


@pytest.fixture
def in_fork() -> Callable[[Callable[[], str]], str]:
    """Run a function in a forked child process."""
    return run_in_fork


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    """Every kind of ledger there is."""
    if request.param == "memory":
        return None
    return f"sqlite:///{tmp_path}/ledger.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
