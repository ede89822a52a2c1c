"""Directions of taste, from what is released of histories."""

import numpy as np
import pytest

from discreet.models.eigen import FEWEST_ITEMS
from discreet.models.taste import Chosen, Directions, Spectrum
from discreet.privacy import Noisy
from discreet.privacy.releaser import noise_edge


def test_more_is_looked_at_where_there_is_less_noise() -> None:
    popularity = Noisy(1000 / np.arange(1, 501), 1.0)
    sizes = [len(Chosen.by(popularity, std, 4000).items) for std in (100.0, 3.0, 1.0, 0.3, 0.01)]
    assert sizes == sorted(sizes)
    assert sizes[0] == FEWEST_ITEMS
    assert sizes[-1] == 500
    assert len(Chosen.by(popularity, 0.01, 70).items) == 70
    assert len(Chosen.by(Noisy(np.array([5.0, -3.0]), 1.0), 1.0, 4000).items) == 2


def test_the_spectrum_is_that_of_the_signal() -> None:
    """A planted direction is found again, noise alone gives none, and shrinking undoes what noise did."""
    rng = np.random.default_rng(0)
    n, std, users = 400, 1.0, 5000.0
    chosen = Chosen.by(Noisy(np.full(n, 100.0), 1.0), 0.01, 4000)
    chosen = Chosen(chosen.items, chosen.weights, chosen.common, chosen.popularity, users * 100.0)  # long histories
    noise = rng.standard_normal((n, n)) * std
    noise = (noise + noise.T) / 2
    assert Spectrum.of(Noisy(noise, std), chosen).vectors.shape[1] == 0
    q = rng.standard_normal(n)
    q -= (q @ chosen.common) * chosen.common
    q /= np.linalg.norm(q)
    strong = 3 * noise_edge(std, n)
    found = Spectrum.of(Noisy(strong * np.outer(q, q) + noise + np.eye(n) * (users - strong) / n, std), chosen)
    assert found.vectors.shape[1] >= 1
    assert abs(found.vectors[:, 0] @ q) > 0.97
    assert np.isclose(found.n_users, users, rtol=0.02)
    assert np.isclose(found.variances[0] * found.n_users, strong, rtol=0.2)
    assert np.abs(found.vectors.T @ chosen.common).max() < 1e-9


def test_what_histories_have_in_common_by_chance_is_no_taste() -> None:
    """Directions stand out of what few users' histories vary by, however little noise there is."""
    rng, users, n, std = np.random.default_rng(0), 300, 60, 1e-3
    chosen = Chosen.by(Noisy(np.full(n, 100.0), 1.0), 0.01, 4000)
    chosen = Chosen(chosen.items, chosen.weights, chosen.common, chosen.popularity, users * 4.0)  # short histories
    kinds = rng.integers(2, size=users)[:, None] == rng.integers(2, size=n)
    for liking, least, most in ((0.0, 0, 1), (0.4, 1, 3)):
        rows = (rng.random((users, n)) < 0.3 + liking * (kinds - 0.5)).astype(float)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        rows -= np.outer(rows @ chosen.common, chosen.common)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        found = Spectrum.of(Noisy(rows.T @ rows, std), chosen)
        assert least <= found.vectors.shape[1] <= most


def residuals(rows: np.ndarray, chosen: Chosen) -> np.ndarray:
    """Users' rows of 0 and 1, as `Residuals` has them."""
    own = rows[:, chosen.items] * chosen.weights[chosen.items]
    own /= np.maximum(np.linalg.norm(own, axis=1, keepdims=True), 1e-9)
    p = chosen.common[chosen.items]
    along = own @ p
    return np.asarray((own - np.outer(along, p)) / np.sqrt(np.maximum(1 - along**2, 0.25))[:, None])


@pytest.mark.parametrize("share", [1.0, 0.2])  # of what is chosen, in J
def test_items_counted_with_themselves_are_no_taste(share: float) -> None:
    """Nobody has two items: nothing is chosen together, however little noise there is."""
    users, n, std = 4000, 60, 0.5
    popularity = Noisy(users * np.arange(1, n + 1) ** -0.8 / (np.arange(1, n + 1) ** -0.8).sum(), std)
    counts = np.round(popularity.values).astype(int)
    rows = np.repeat(np.eye(n), counts, axis=0)
    chosen = Chosen.of(popularity, np.arange(n))
    chosen = Chosen(chosen.items, chosen.weights, chosen.common, chosen.popularity, counts.sum() / share)
    r = residuals(rows, chosen)
    found = Directions.of(Noisy(r.T @ r, std), chosen)
    assert chosen.dense == (share == 1)
    assert found.vectors.shape[1] == 0


@pytest.mark.parametrize(("liking", "least", "most"), [(0.0, 0, 0), (0.8, 1, 40)])
def test_where_no_direction_is_beyond_chance_there_is_none(liking: float, least: int, most: int) -> None:
    """Of short histories on items of which J has little, chance is beyond the noise."""
    rng, users, n, std = np.random.default_rng(0), 3000, 80, 0.05
    kinds = rng.integers(2, size=users)[:, None] == rng.integers(2, size=n)
    rows = (rng.random((users, n)) < 0.04 * (1 + liking * (2 * kinds - 1))).astype(float)
    rows = rows[rows.sum(axis=1) > 0]
    chosen = Chosen.of(Noisy(rows.sum(axis=0) / 2, std), np.arange(n))
    chosen = Chosen(chosen.items, chosen.weights, chosen.common, chosen.popularity, 5 * float(rows.sum()))
    assert not chosen.dense
    r = residuals(rows, chosen)
    matrix = r.T @ r
    np.fill_diagonal(matrix, 0)
    assert float(np.linalg.eigvalsh(matrix)[-1]) > 2 * float(noise_edge(std, n))
    found = Directions.of(Noisy(r.T @ r, std), chosen)
    assert least <= found.vectors.shape[1] <= most
