"""Models to export, and a browser."""

from collections.abc import Iterator
from typing import Any

import pytest

import discreet
from discreet.models.base import Model
from discreet.testing import InsecureSeededNoise
from tests.conftest import missing
from tests.web.hosting import Unavailable, chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium; without one the test is skipped, and on CI it fails."""
    try:
        with chromium() as found:
            yield found
    except Unavailable as reason:
        missing("Chromium", str(reason))


@pytest.fixture(scope="session")
def ratings() -> discreet.Interactions:
    return discreet.datasets.movielens_like(600, 80, 20_000, random_state=0)


@pytest.fixture(scope="session")
def films(ratings: discreet.Interactions) -> Model:
    """A DPALS that is the same in every run."""
    model: Model = discreet.DPALS(epsilon=20, delta=1e-6, n_users_hint=600).fit(ratings, ledger=seeded())
    return model


@pytest.fixture(scope="session")
def two_heads(ratings: discreet.Interactions) -> Model:
    """A model that orders lists by other scores than the ratings it predicts; the same in every run."""
    model: Model = discreet.DPALS(epsilon=20, delta=1e-6, objective="both").fit(ratings, ledger=seeded())
    return model


def seeded() -> discreet.Ledger:
    return discreet.Ledger(delta=1e-6, noise_source=InsecureSeededNoise(1))
