"""Audits of noise: they accept what is right, and say so; they notice what is a little wrong."""

import shutil
import sys
from typing import Any

import numpy as np
import pytest

from discreet import Gaussian, L2Laplace, Laplace, RandomizedResponse
from discreet.audit.report import EACH, FALSE_ALARM, Alarms, Exhausted
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
    from discreet.privacy import noise as sampling

    for name in ("gaussian", "two_sided_geometric"):
        real = getattr(sampling, name)
        monkeypatch.setattr(sampling, name, lambda scale, *rest, real=real: real(scale * off, *rest))
    assert not law(noise, draws=400_000, source=InsecureSeededNoise(1), alarms=Alarms()).ok


@pytest.mark.parametrize("off", [0.98, 1.02])
def test_lengths_that_are_two_percent_off_are_noticed(off: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from discreet.privacy import noise as sampling

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
    from discreet.privacy import noise as sampling

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
    from discreet.privacy import noise as sampling

    real = sampling.gaussian
    monkeypatch.setattr(sampling, "gaussian", lambda sigma, *rest: real(sigma * off, *rest))
    assert law(Gaussian(3.0), draws=10_000_000, source=InsecureSeededNoise(2), alarms=Alarms()).ok == (off == 1)


def test_keys_are_never_the_same() -> None:
    assert streams(SystemNoise().fresh_key).ok
    remembered = InsecureSeededNoise(0)
    found = streams(remembered.fresh_key)
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


def test_a_run_has_a_budget_of_false_alarms() -> None:
    """Each test takes its level, the same for all, and what is not left cannot be had."""
    alarms = Alarms(most=23)
    assert alarms.take(2) * 23 == pytest.approx(FALSE_ALARM)
    found = law(Gaussian(3.0, symmetric=True), draws=20_000, source=InsecureSeededNoise(1), alarms=alarms)
    assert alarms.made == 2 + found.tests == 23  # seven tests on the diagonal, above it and below
    with pytest.raises(Exhausted, match="23 statistical tests of 23 were made, and 1 more"):
        alarms.take()
    assert Alarms().take() == EACH
