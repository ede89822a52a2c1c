"""Audits of noise: they accept what is right, and say so; they notice what is a little wrong."""

import math
import shutil
import sys
from typing import Any

import numpy as np
import pytest
from scipy import stats

from discreet import Gaussian, L2Laplace, Laplace, RandomizedResponse
from discreet.audit.distinguishing import Evidence, clopper_pearson, detectable, detectable_epsilon, distinguish
from discreet.audit.findings import EACH, FALSE_ALARM, Alarms, Exhausted
from discreet.audit.samplers import law, streams
from discreet.privacy import SystemNoise
from discreet.testing import InsecureSeededNoise
from tests.conftest import missing

NOISES = [
    Gaussian(3.0),
    Gaussian(1e-4, symmetric=True),
    Laplace(2.0),
    RandomizedResponse(1.5),
    RandomizedResponse(flip_one=0.1, flip_zero=0.3),
    L2Laplace(0.3),
]


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_the_law_of_noise(noise: Any) -> None:
    found = law(noise, draws=200_000, source=InsecureSeededNoise(1), alarms=Alarms())
    assert found.ok, found.words


@pytest.mark.parametrize("noise", NOISES[:3], ids=str)
@pytest.mark.parametrize("off", [0.98, 1.02])
def test_noise_that_is_two_percent_off_is_noticed(noise: Any, off: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from discreet.privacy import sampling

    for name in ("gaussian", "two_sided_geometric"):
        real = getattr(sampling, name)
        monkeypatch.setattr(sampling, name, lambda scale, *rest, real=real: real(scale * off, *rest))
    assert not law(noise, draws=400_000, source=InsecureSeededNoise(1), alarms=Alarms()).ok


@pytest.mark.parametrize("off", [0.98, 1.02])
def test_lengths_that_are_two_percent_off_are_noticed(off: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from discreet.privacy import sampling

    real = sampling.random_scale
    monkeypatch.setattr(sampling, "random_scale", lambda scale, *rest: real(scale * off, *rest))
    assert not law(L2Laplace(0.3), draws=400_000, source=InsecureSeededNoise(1), alarms=Alarms()).ok


@pytest.mark.parametrize(
    ("shared", "words"),
    [(lambda n: np.arange(n) // 16, "coordinates"), (lambda n: np.arange(n) % 250, "at a distance")],
)
def test_noise_that_shares_a_twentieth_of_its_variance_is_noticed(
    shared: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the numbers of the same row, or with those 250 further on; each number's own law is as it should be."""
    from discreet.privacy import sampling

    real = sampling.gaussian

    def common(sigma: float, stream: Any, out: Any) -> None:
        real(sigma * 0.95**0.5, stream, out)
        alike = np.random.default_rng(1).standard_normal(out.size)[shared(out.size)]
        out += np.rint(sigma * 0.05**0.5 * alike).astype(np.int64).reshape(out.shape)

    monkeypatch.setattr(sampling, "gaussian", common)
    found = law(Gaussian(3.0), draws=100_000, source=InsecureSeededNoise(1), alarms=Alarms())
    assert not found.ok
    assert words in found.words


@pytest.mark.slow
@pytest.mark.parametrize("off", [1.0, 0.995, 1.005])
def test_at_ten_million_draws_half_a_percent_is_noticed(off: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from discreet.privacy import sampling

    real = sampling.gaussian
    monkeypatch.setattr(sampling, "gaussian", lambda sigma, *rest: real(sigma * off, *rest))
    assert law(Gaussian(3.0), draws=10_000_000, source=InsecureSeededNoise(2), alarms=Alarms()).ok == (off == 1)


def test_keys_are_never_the_same() -> None:
    assert streams().ok
    remembered = InsecureSeededNoise(0)
    found = streams(remembered)
    assert not found.ok
    assert "100 twice" in found.words  # three children begin where their parent is: two of them repeat the first


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # pyspark's own
def test_spark_workers_never_get_the_same_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight tasks in processes that are forked from one, each asking for many keys."""
    try:
        from pyspark import sql
    except ImportError:
        missing("Spark", "pyspark is not installed: pip install 'discreet[spark]'")
    if shutil.which("java") is None:
        missing("Spark", "Java is not installed")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    session = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        keys = session.sparkContext.parallelize(range(400), 8).map(lambda _: SystemNoise().fresh_key()).collect()
    finally:
        session.stop()
    assert len(set(keys)) == 400


# Telling two worlds apart


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


def test_a_run_has_a_budget_of_false_alarms() -> None:
    """Each test takes its level, the same for all, and what is not left cannot be had."""
    alarms = Alarms(most=23)
    assert alarms.take(2) * 23 == pytest.approx(FALSE_ALARM)
    found = law(Gaussian(3.0, symmetric=True), draws=20_000, source=InsecureSeededNoise(1), alarms=alarms)
    assert alarms.made == 2 + found.tests == 23  # seven tests on the diagonal, above it and below
    with pytest.raises(Exhausted, match="23 statistical tests of 23 were made, and 1 more"):
        alarms.take()
    assert Alarms().take() == EACH


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
