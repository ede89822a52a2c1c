"""Telling two cases apart: what scores of many runs prove, and how often that is wrong."""

import math

import numpy as np
import pytest
from scipy import stats

from discreet.audit.distinguishing import Evidence, clopper_pearson, detectable, detectable_epsilon, distinguish


def test_clopper_pearson_bounds() -> None:
    for hits in (0, 3, 50, 100):
        low, high = clopper_pearson(hits, 100, 0.001)
        outside = stats.binomtest(hits, 100).proportion_ci(0.998, method="exact")
        assert (low, high) == (pytest.approx(outside.low), pytest.approx(outside.high))


@pytest.mark.parametrize("mu", [0.7, 2.0, 4.0])
def test_what_is_proved_is_below_the_truth_and_near_it(mu: float) -> None:
    rng = np.random.default_rng(0)
    found = distinguish(rng.standard_normal(200_000) + mu, rng.standard_normal(200_000))
    assert 0.9 * mu < found.mu < mu
    few = distinguish(rng.standard_normal(100) + mu, rng.standard_normal(100))
    assert 0 <= few.mu < 0.9 * mu


def test_false_alarms_are_as_rare_as_is_said() -> None:
    """At a level of 2%, claims that are true are called false in at most 4% of audits."""
    rng, wrong = np.random.default_rng(1), 0
    for _ in range(400):
        present, absent = rng.standard_normal(400) + 1.0, rng.standard_normal(400)
        wrong += distinguish(present, absent, level=0.02).mu > 1.0
    assert wrong <= 28  # 16 are expected at most; more than 28 have a chance below 1%


def test_pure_epsilon() -> None:
    rng = np.random.default_rng(0)
    bits = [rng.random(2_000_000) < chance for chance in (math.e / (1 + math.e), 1 / (1 + math.e))]
    found = distinguish(*(bit.astype(float) for bit in bits), by=Evidence.epsilon)
    assert 0.97 < found.epsilon() < 1
    assert Evidence(0, 0, 100).epsilon() == Evidence(0, 0, 100).mu == 0


def test_what_could_have_been_detected() -> None:
    few, many = detectable(1.0, 500), detectable(1.0, 50_000)
    assert 1.05 < many < 1.2 < few
    rng = np.random.default_rng(2)
    noticed = sum(distinguish(rng.standard_normal(500) + 1.1 * few, rng.standard_normal(500)).mu > 1 for _ in range(20))
    assert noticed >= 15
    assert detectable(1.0, 4) == math.inf
    few, many = detectable_epsilon(1.0, 2000), detectable_epsilon(1.0, 2_000_000)
    assert 1 < many < 1.05 < few
    assert detectable_epsilon(1.0, 4) == math.inf
    hits, alarms = rng.binomial(1000, 1 / (1 + np.exp(-1.05 * few)), 50), rng.binomial(1000, 1 / (1 + np.exp(few)), 50)
    assert sum(Evidence(int(a), int(b), 1000).epsilon() > 1 for a, b in zip(hits, alarms, strict=True)) >= 45
