"""Nothing is charged on a machine where noise cannot be drawn, or no statement be made."""

from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError
from typing import Any

import numpy as np
import pytest

from discreet import Gaussian, Ledger, Statement
from discreet.errors import PrivacyError
from discreet.privacy import Cost, SystemNoise, ledger, statement
from discreet.privacy.noise import L2Laplace, Stream
from discreet.version import __version__
from tests.privacy.ledgers import COUNTS, budget, plan_of


@pytest.fixture(autouse=True)
def untried() -> Iterator[None]:
    """As in a new process."""
    ledger.require_ready.cache_clear()
    yield
    ledger.require_ready.cache_clear()


def release(ledger: Ledger) -> None:
    ledger.release(COUNTS, 1, Gaussian(20.0), "a")


def charge(ledger: Ledger) -> None:
    ledger.charge(Cost.of_mu(0.1), "a", source=SystemNoise())


def reserve(ledger: Ledger) -> None:
    with ledger.reserve(plan_of()):
        pytest.fail("nothing may be set aside")


def cannot_fill(patch: pytest.MonkeyPatch) -> str:
    """As with cryptography 42, which takes no such view of memory."""

    def fill(self: Any, words: Any) -> None:
        raise TypeError("update_into() takes bytes")

    patch.setattr(Stream, "fill", fill)
    return r"failed on this machine \(TypeError: update_into"


def other_cipher(patch: pytest.MonkeyPatch) -> str:
    patch.setattr(Stream, "words", lambda self, size: np.zeros(size, np.uint64))
    return "not that of AES-256-CTR"


def nothing_finite(patch: pytest.MonkeyPatch) -> str:
    patch.setattr(L2Laplace, "add", lambda self, statistic, source: np.full(statistic.values.shape, np.nan))
    return "'l2-laplace' is not finite"


def another_shape(patch: pytest.MonkeyPatch) -> str:
    patch.setattr(Gaussian, "add", lambda self, statistic, source: np.zeros(3))
    return "'gaussian' is not finite, or has another shape"


def no_statement(patch: pytest.MonkeyPatch) -> str:
    def of(*given: Any, **named: Any) -> Statement:
        raise ValueError("no clock")

    patch.setattr(Statement, "of", of)
    return "ValueError: no clock"


@pytest.mark.parametrize("broken", [cannot_fill, other_cipher, nothing_finite, another_shape, no_statement])
@pytest.mark.parametrize("spend", [release, charge, reserve])
def test_nothing_is_charged_where_a_release_cannot_be_made(
    monkeypatch: pytest.MonkeyPatch, spend: Callable[[Ledger], None], broken: Callable[[pytest.MonkeyPatch], str]
) -> None:
    ledger = budget()
    said = broken(monkeypatch)
    with pytest.raises(PrivacyError, match=said) as caught:
        spend(ledger)
    assert "nothing was spent" in str(caught.value)
    monkeypatch.undo()
    assert [entry.kind for entry in ledger.entries] == ["open"]
    release(ledger)  # a test that failed is made again


def test_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, drawn = budget(), []
    monkeypatch.setattr("discreet.privacy.ledger.require_noise", lambda: drawn.append(1))
    for _ in range(3):
        release(ledger)
    assert len(drawn) == 1


@pytest.mark.parametrize("found", [PackageNotFoundError, None])
def test_packages_without_metadata_do_not_stop_a_statement(monkeypatch: pytest.MonkeyPatch, found: Any) -> None:
    def version(name: str) -> Any:
        if found is None:
            return None
        raise found(name)

    monkeypatch.setattr(statement, "version", version)
    statement._versions.cache_clear()
    try:
        ledger = budget()
        release(ledger)
        said = Statement.parse(ledger.statement().json()).certificate["versions"]
        assert said["numpy"] == said["dp-accounting"] == "unknown"
        assert said["discreet"] == __version__
    finally:
        statement._versions.cache_clear()
