"""How much of noisy numbers is believed."""

import numpy as np

from discreet.models.shrinkage import item_offsets, regression, shrunk
from discreet.privacy import Noisy


def test_estimates_are_shrunk_by_what_they_say_themselves() -> None:
    rng = np.random.default_rng(0)
    truth = np.hstack([rng.standard_normal((500, 1)) * 2, np.zeros((500, 1))])
    errors = np.broadcast_to(np.linspace(0.5, 3, 500)[:, None], truth.shape)
    found = shrunk(truth + errors * rng.standard_normal(truth.shape), errors**2, np.arange(500, 0, -1))
    assert ((found - truth) ** 2).mean() < 0.6 * (errors**2).mean()
    assert (found[:, 1] ** 2).mean() < 0.05
    assert np.isfinite(shrunk(np.zeros((3, 0)), np.zeros((3, 0)), np.ones(3))).all()


def test_offsets_are_shrunk_as_far_as_noise_hides_them() -> None:
    """Those of popular items are found; where hardly anybody has rated an item they are 0, whatever the noise is."""
    rng = np.random.default_rng(0)
    counts = np.append(np.full(100, 400.0), np.zeros(3000))
    offsets = rng.normal(0, 0.5, len(counts))
    sums = Noisy(counts * offsets + rng.normal(0, 20.0, len(counts)), 20.0)
    known = Noisy(counts + rng.normal(0, 20.0, len(counts)), 20.0)
    found = item_offsets(sums, known, 1.0, 4000.0)
    assert np.corrcoef(found[:100], offsets[:100])[0, 1] > 0.98
    assert np.abs(found[100:]).mean() < 0.02
    assert not item_offsets(Noisy(np.zeros(3), 1.0), Noisy(np.zeros(3), 1.0), 1.0, 1.0).any()


def test_a_regression_finds_its_penalty() -> None:
    rng = np.random.default_rng(0)
    features, true = rng.standard_normal((300, 20)), rng.standard_normal((20, 3)) * [1.0, 0.05, 0.0]
    found = regression(features, features @ true + rng.standard_normal((300, 3)))
    assert np.allclose(found[:, 0], true[:, 0], atol=0.25)
    assert np.abs(found[:, 2]).max() < 0.1
    assert not regression(features, np.zeros((300, 1))).any()
