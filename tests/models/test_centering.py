"""What models of ratings have in common: users' own means, what they are shrunk to, and rows about them."""

from typing import Any

import numpy as np
import pytest

import discreet
from discreet.audit.neighbors import ordinary
from discreet.data import Interactions
from discreet.engine.batches import parts
from discreet.models.centering import (
    LEAST_SHRINKAGE,
    MEAN,
    MOST_SHRINKAGE,
    TYPICAL_SHRINKAGE,
    USER_SHARES,
    VARIANCES,
    exact_user_means,
    own_mean,
    own_variances,
    release_user_means,
    with_user_means,
)
from discreet.privacy import Noisy
from discreet.testing import InsecureSeededNoise
from tests.models.replay import replay

DELTA = 1e-6
ITEMS = 40
FAN, CRITIC = dict.fromkeys(range(20), 5.0), dict.fromkeys(range(20), 0.0)
TORN = {3: 0.0, 4: 5.0}  # whose two ratings could not be further apart
MODELS = [discreet.DPSVD, discreet.DPCleansedSVD, discreet.DPFrankWolfe, discreet.DPGradientDescent]


def seeded(seed: int = 1) -> discreet.Ledger:
    return discreet.Ledger(delta=DELTA, noise_source=InsecureSeededNoise(seed))


def furthest(monkeypatch: Any, kind: Any, pairs: list[Any], adjacency: Any) -> dict[str, float]:
    """How far any of these changes of one person moves the two releases, as a fraction of their sensitivity."""
    found = {MEAN: 0.0, VARIANCES: 0.0}
    for pair in pairs:
        one, other = (ordinary(ITEMS, *([] if row is None else [("x", row)])) for row in pair)
        made = replay(
            monkeypatch, lambda: kind(epsilon=30.0, delta=DELTA, adjacency=adjacency), one, other, adjacency=adjacency
        )
        found = {label: max(share, made[label]) for label, share in found.items()}
    assert max(found.values()) <= 1
    return found


@pytest.mark.parametrize("kind", MODELS)
def test_one_person_moves_each_release_by_its_bound_and_no_more(monkeypatch: Any, kind: Any) -> None:
    assert min(furthest(monkeypatch, kind, [(FAN, None), (TORN, None), ({7: 0.0}, None)], "add-remove").values()) > 0.95


@pytest.mark.parametrize("kind", MODELS)
def test_replacing_a_person_moves_each_release_by_its_bound_and_no_more(monkeypatch: Any, kind: Any) -> None:
    assert min(furthest(monkeypatch, kind, [(FAN, CRITIC), (FAN, TORN), (FAN, {7: 0.0})], "replace").values()) > 0.95


def test_values_are_fractions_and_ones_own() -> None:
    """From 0 to 1 for anybody, and to the last bit the same beside others: then the statistic's proof applies."""
    data = discreet.datasets.movielens_like(300, 60, 4000, random_state=0)
    (whole,) = parts(data, data.values)
    for values in (lambda part: own_mean(part, (1, 5)), lambda part: own_variances(part, 3.7, 1.6)):
        together = values(whole)
        assert ((together >= -1e-12) & (together <= 1 + 1e-12) | np.isnan(together)).all()
        for user in range(0, data.n_users, 7):
            one = data.of_users(np.array([user]))
            (alone,) = parts(one, one.values)
            assert np.array_equal(values(alone)[0], together[user], equal_nan=True)


def drawn(n_users: int, within: float, between: float, n_items: int = ITEMS, offsets: float = 0.0) -> Interactions:
    """Ratings from 0 to 10, half of the users have only one. Users' means vary by `between`, their ratings by `within`.

    Items vary by `offsets`; a tenth of them are rated as often as all others together.
    """
    rng, rows = np.random.default_rng(0), []
    mean, likely = 7 + offsets * rng.standard_normal(n_items), np.ones(n_items)
    likely[: n_items // 10] = 9
    for user in range(n_users):
        items = rng.choice(n_items, 1 if user % 2 else 6, replace=False, p=likely / likely.sum())
        own = mean[items] + between * rng.standard_normal() + within * rng.standard_normal(len(items))
        rows += [(user, int(item), rating) for item, rating in zip(items, np.clip(own, 0, 10), strict=True)]
    return discreet.read(rows, items=list(range(n_items)), value_range=(0, 10))


@pytest.mark.parametrize(("within", "between"), [(1.0, 0.5), (1.0, 1.0), (0.8, 0.4)])
def test_mean_and_shrinkage_are_found(within: float, between: float) -> None:
    found = exact_user_means(drawn(4000, within, between), (0, 10))
    assert abs(found.mean - 7) < 0.1
    assert np.isclose(found.shrinkage, (within / between) ** 2, rtol=0.15)
    assert found.n_users == 4000


def test_few_users_are_shrunk_as_is_usual() -> None:
    """Noise that hides everyone leaves the middle of the range, and little trust in it."""

    def release(label: str, statistic: Any, contribution: Any) -> Noisy:
        noise = np.random.default_rng(0).normal(0, 1e6, statistic.shape)
        return Noisy(np.append(noise[:-1], 3.0), 1e6)

    found = release_user_means(release, (0, 10), "add-remove")
    assert abs(found.mean - 5) < 1e-3
    assert LEAST_SHRINKAGE < found.shrinkage < TYPICAL_SHRINKAGE


def test_equal_ratings_make_no_error() -> None:
    for rows in ([(0, 0, 5.0)], [(user, item, 10.0) for user in range(9) for item in range(9)]):
        found = exact_user_means(discreet.read(rows, items=list(range(9)), value_range=(0, 10)), (0, 10))
        assert 0 <= found.mean <= 10
        assert LEAST_SHRINKAGE <= found.shrinkage <= MOST_SHRINKAGE


def test_shares_add_up() -> None:
    shares = with_user_means({"a": 0.4, "b": (0.6, 3)})
    assert shares["b"] == (pytest.approx(0.6 * (1 - sum(USER_SHARES.values()))), 3)
    assert np.isclose(sum(s[0] if isinstance(s, tuple) else s for s in shares.values()), 1)


@pytest.mark.parametrize("kind", [*MODELS, discreet.DPSGD])
@pytest.mark.parametrize("epsilon", [1.0, 20.0])
def test_predicts_no_worse_than_the_own_mean_where_most_users_have_one_rating(kind: Any, epsilon: float) -> None:
    train, _, test = discreet.splits.holdout(drawn(3000, 1.5, 1.2, 600, 0.6), valid=0.0, test=0.1, random_state=0)

    def rmse(model: Any) -> float:
        return float(np.sqrt(np.mean((model.predict(train, test) - test.values) ** 2)))

    own = min(rmse(discreet.MeanRating("user", shrinkage=s).fit(train)) for s in (1.0, 1.5, 2.0))
    assert rmse(kind(epsilon=epsilon, delta=DELTA).fit(train, ledger=seeded())) < 1.01 * own
