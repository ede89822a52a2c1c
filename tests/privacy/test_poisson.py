"""Poisson samples of the users: fresh, exact, and charged for."""

import pytest

from discreet.errors import PrivacyError
from discreet.privacy import SystemNoise, poisson
from discreet.privacy.poisson import CLOSE, largest_mu, poisson_sample, sampled_cost

DELTA = 1e-6


def test_samples_are_fresh_and_of_the_right_size() -> None:
    draws = [poisson_sample(20_000, 0.1, SystemNoise()).tolist() for _ in range(2)]
    assert all(abs(len(draw) - 2000) < 6 * 43 for draw in draws)  # six standard deviations
    assert draws[0] != draws[1]
    assert len(set(draws[0]) & set(draws[1])) < 2 * 200
    assert poisson_sample(5, 1.0, SystemNoise()).tolist() == [0, 1, 2, 3, 4]


def test_the_noise_keeps_the_budget_and_uses_it() -> None:
    for epsilon, rate, steps in ((1.0, 0.1, 50), (0.2, 0.02, 20), (8.0, 0.5, 10), (3.0, 1.0, 5)):
        mu = largest_mu(epsilon, DELTA, rate, steps)
        assert CLOSE * epsilon <= sampled_cost(mu, rate, steps).epsilon(DELTA) <= epsilon
        assert rate == 1 or mu > largest_mu(epsilon, DELTA, 1.0, steps)  # who may not be there needs less noise


def test_too_little_to_spend_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PrivacyError, match="leave nothing to spend"):
        largest_mu(1e-9, 1e-12, 0.5, 100)
    monkeypatch.setattr(poisson, "TRIALS", 1)
    assert 0 < sampled_cost(largest_mu(2.5, DELTA, 0.01, 7), 0.01, 7).epsilon(DELTA) <= 2.5  # as far as it got
