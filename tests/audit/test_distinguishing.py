"""Telling two cases apart: what scores of many runs, whole fits, and one fit with many canaries prove about a claim."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import stats

import discreet
from discreet.audit import Subject
from discreet.audit.distinguishing import (
    Evidence,
    OneRun,
    clopper_pearson,
    detectable,
    detectable_epsilon,
    distinguish,
    end_to_end,
    one_run,
    scores,
)
from discreet.audit.report import Alarms
from discreet.audit.subjects import shipped
from discreet.privacy import Gaussian, Laplace, RandomizedResponse


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


# Whole fits


@dataclass
class Tiny:
    """Releases numbers, of which one person moves the first by `moves`."""

    noise: Any
    moves: int = 1
    adjacency: str = "add-remove"
    delta: float = 1e-5

    def fit(self, data: int, ledger: discreet.Ledger) -> Tiny:
        for _ in range(2):
            ledger.release(np.array([data * self.moves, 0]), 1.0, self.noise, "number")
        self.guarantee_ = ledger.spent
        return self


def tiny(**given: Any) -> Subject:
    return Subject("tiny", partial(Tiny, **given), lambda person: int(person is not None), [("x", None)])


def test_a_correct_mechanism_is_measured_at_its_claim() -> None:
    found = end_to_end(tiny(noise=Gaussian(0.5)), ("x", None), runs=40, alarms=Alarms())
    assert found.ok, found.words
    claim = found.figures["claimed"]
    assert claim == pytest.approx(8**0.5, rel=1e-9)
    assert 0.9 * claim < found.figures["measured"] < 1.1 * claim
    assert found.figures["proved"] < claim


def test_a_broken_mechanism_is_proved_to_be() -> None:
    found = end_to_end(tiny(noise=Gaussian(40.0), moves=600), ("x", None), runs=72, alarms=Alarms())
    assert not found.ok
    assert found.figures["proved"] > found.figures["claimed"]


def test_a_blind_audit_says_so() -> None:
    blind = tiny(noise=Gaussian(0.5), moves=0)
    assert not end_to_end(blind, ("x", None), runs=40, alarms=Alarms()).ok
    assert end_to_end(blind, ("x", None), runs=16, alarms=Alarms(), worst=False).ok


@pytest.mark.parametrize("noise", [Laplace(0.5), RandomizedResponse(2.0)])
def test_pure_mechanisms(noise: Any) -> None:
    subject = tiny(noise=noise, delta=0.0)
    present, absent = scores(subject, ("x", None), 24)
    assert np.abs(np.concatenate([present, absent])).max() <= 4 + 1e-9  # epsilon 2 twice: no score is beyond it
    assert present.mean() > 0.5 > -0.5 > absent.mean()
    found = end_to_end(subject, ("x", None), runs=10, alarms=Alarms())
    assert found.ok, found.words
    assert "so few runs could prove nothing" in found.words


def test_whole_fits_of_a_model() -> None:
    subject = shipped()["PublishedDPSVD, add-remove"]
    found = end_to_end(subject, subject.pairs[0], runs=24, alarms=Alarms())
    assert found.ok, found.words


# One run


@pytest.mark.parametrize(("right", "guesses"), [(60, 60), (50, 60), (31, 60)])
def test_one_run_without_delta(right: int, guesses: int) -> None:
    """Guesses are then at best coins that are right with probability e^eps / (1 + e^eps)."""
    run = OneRun(100, guesses, right)
    for epsilon in (0.0, 1.0, 3.0):
        chance = stats.binom.sf(right - 1, guesses, 1 / (1 + np.exp(-epsilon)))
        assert run.chance(epsilon, 0.0) == pytest.approx(chance)
    proved = run.epsilon(0.0, level=0.01)
    if right > 40:
        assert run.chance(proved, 0.0) == pytest.approx(0.01, rel=1e-6)
    else:
        assert proved == 0
    assert run.epsilon(1e-3, level=0.01) <= proved


def test_one_run_is_right_about_coins() -> None:
    """Randomized response is the worst case: at a level of 5%, its epsilon is overstated in at most 5% of audits."""
    rng, epsilon, m = np.random.default_rng(0), 1.0, 200
    right = rng.binomial(m, 1 / (1 + np.exp(-epsilon)), 2000)
    proved = {int(k): OneRun(m, m, int(k)).epsilon(0.0, level=0.05) for k in np.unique(right)}
    over = sum(proved[int(k)] > epsilon for k in right)
    assert 40 <= over <= 125  # 5% of 2000 are 100, and the law is discrete


def test_one_fit_with_many_canaries() -> None:
    crowd = discreet.datasets.movielens_like(400, 80, 8000, random_state=0)
    people = [{crowd.items[2 * i]: 5.0, crowd.items[2 * i + 1]: 0.5} for i in range(40)]
    found, run = one_run(lambda: discreet.DPSVD(epsilon=100.0, delta=1e-6, n_jobs=1), crowd, people, alarms=Alarms())
    assert found.ok
    assert run.guesses == 20
    assert run.right >= 17  # at epsilon 100 canaries can be seen
    assert 0 <= found.figures["proved"] < 100


# The same numbers as another auditor's, if it is installed


@pytest.fixture(scope="module")
def auditing() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("jax_privacy.auditing")


@pytest.mark.parametrize("mu", [0.5, 2.0])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_the_same_scores_prove_the_same_epsilon(auditing: Any, mu: float, delta: float) -> None:
    rng, threshold, level = np.random.default_rng(0), 1.0, 0.01
    present, absent = rng.standard_normal(2000) + mu, rng.standard_normal(2000)
    theirs = auditing.CanaryScoreAuditor(present, absent).epsilon_clopper_pearson(
        2 * level, delta, one_sided=False, threshold_strategy=auditing.Explicit(threshold)
    )
    hits, alarms = (int((scores >= threshold).sum()) for scores in (present, absent))
    assert Evidence(hits, alarms, 2000, level).epsilon(delta) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-3])
def test_the_same_guesses_prove_the_same_epsilon_in_one_run(auditing: Any, delta: float) -> None:
    rng, threshold = np.random.default_rng(1), 1.5
    present, absent = rng.standard_normal(500) + 2.5, rng.standard_normal(500)
    theirs = auditing.CanaryScoreAuditor(present, absent).epsilon_one_run(
        0.01, delta, threshold_strategy=auditing.Explicit(threshold)
    )
    right, wrong = (int((scores >= threshold).sum()) for scores in (present, absent))
    ours = OneRun(1000, right + wrong, right).epsilon(delta, level=0.01)
    assert ours == pytest.approx(theirs, rel=1e-3)
