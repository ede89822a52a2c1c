"""Lists on awkward data: no worse than private popularity at the same epsilon, beyond noise."""

from typing import Any

import numpy as np
import pytest

import discreet
from discreet.data import Interactions
from discreet.models.choices import POPULARITY, POWER_STEP, SECOND_MOMENT
from discreet.privacy import Noisy
from discreet.testing import InsecureSeededNoise
from tests.models.replay import record, replay

DELTA, DRAWS = 1e-6, 12
CHANCE = 0.002  # half of the recall of 20 random items of 5,000


def made(n_users: int, n_items: int, length: int, *, taste: float = 1.0) -> Interactions:
    """Users choose popular items more often, and those of their own kind, of four, by a factor."""
    rng = np.random.default_rng(0)
    popularity = np.arange(1, n_items + 1) ** -0.8
    kinds = rng.integers(4, size=n_items)
    rows = []
    for user in range(n_users):
        likely = popularity * np.where(kinds == user % 4, taste, 1.0)
        chosen = np.argsort(-np.log(likely) - rng.gumbel(size=n_items))[:length]
        rows += [(f"u{user}", int(item)) for item in chosen]
    return discreet.read(rows, items=list(range(n_items)))


def recall(model: Any, train: Interactions, test: Interactions) -> float:
    """The mean over draws of the noise."""
    found = []
    for seed in range(DRAWS):
        fitted = model.fit(train, ledger=discreet.Ledger(noise_source=InsecureSeededNoise(seed)))
        found.append(
            discreet.evaluate(fitted, test, history=train, metrics=["recall@20"], confidence=None)["recall@20"]
        )
    return float(np.mean(found))


CASES = {
    "fifty people": (made(50, 200, 15), 0.07),
    "no tastes": (made(1000, 300, 20), 0.02),
    "hardly anything chosen": (made(300, 5000, 8), 0.05),
    "tastes of few": (made(100, 200, 20, taste=6.0), 0.05),
}


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("name", CASES)
def test_lists_are_no_worse_than_private_popularity(name: str, epsilon: float) -> None:
    data, tolerance = CASES[name]
    train, _, test = discreet.splits.holdout(data, test=0.2, random_state=0)
    lists = recall(discreet.DPSVD(epsilon=epsilon, delta=DELTA), train, test)
    popular = recall(discreet.DPPopularity(epsilon=epsilon, delta=DELTA), train, test)
    assert lists >= (1 - tolerance) * popular - CHANCE, (lists, popular)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_popularity_again_reaches_its_bound(monkeypatch: Any, adjacency: Any) -> None:
    """Under all three labels, by someone with one item; and their mean is what lists are ranked by."""

    def make() -> discreet.DPSVD:
        return discreet.DPSVD(epsilon=1, delta=DELTA, adjacency=adjacency)

    few = [("a", 3), ("b", 4), ("b", 5)]
    one = discreet.read([*few, ("x", 0)], items=list(range(100)))
    other = discreet.read([*few, ("x", 1)] if adjacency == "replace" else few, items=list(range(100)))
    moved = replay(monkeypatch, make, one, other, adjacency=adjacency)
    assert set(moved) == {POPULARITY, SECOND_MOMENT, POWER_STEP}
    assert all(0.95 <= share <= 1 for share in moved.values()), moved
    fits: list[Any] = []
    seen = record(monkeypatch, lambda paid: fits.append(make().fit(one, ledger=paid)), None, adjacency=adjacency)
    releases = [Noisy(values, std) for values, std in zip(seen.answers, seen.stds, strict=True)]
    precision = sum(each.std**-2 for each in releases)
    mean = sum(each.values / each.std**2 for each in releases) / precision
    assert np.allclose(fits[0].popularity_, mean, rtol=1e-5, atol=1e-5)
    assert fits[0].recommend([], n=5).items == list(np.argsort(-mean)[:5])
