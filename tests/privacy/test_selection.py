"""Secret choices: samples of the users, and how many trials a search makes, by the laws that are charged for."""

from collections import Counter
from typing import Any

import dp_accounting as dp
import numpy as np
import pytest
from scipy import stats

from discreet.errors import PrivacyError
from discreet.privacy import SystemNoise, selection
from discreet.privacy.noise import Stream, Uniform, precision
from discreet.privacy.selection import CLOSE, Trials, choose, largest_mu, poisson_sample, sampled_cost
from discreet.testing import InsecureSeededNoise

DELTA = 1e-6
LAWS = ["poisson", "geometric", "logarithmic", 0.5, 3.0]


@pytest.mark.parametrize("law", LAWS)
def test_the_number_of_trials_has_the_law_that_is_charged_for(law: Any) -> None:
    trials = Trials.of(4.0, law)
    source = InsecureSeededNoise(5)
    drawn = np.array([trials.draw(source) for _ in range(1200)])
    masses = [float(mass) for mass, _ in zip(trials._masses(), range(400), strict=False)]
    assert sum(masses) == pytest.approx(1, abs=1e-9)
    assert sum(k * mass for k, mass in enumerate(masses, 1)) == pytest.approx(4.0, rel=1e-9)
    shown = 8
    expected = [*masses[:shown], 1 - sum(masses[:shown])]
    counts = Counter(np.minimum(drawn, shown + 1).tolist())
    observed = [counts[k] for k in range(1, shown + 2)]
    assert stats.chisquare(observed, np.array(expected) * len(drawn)).pvalue > 1e-3


def test_the_laws_by_their_textbook_formulas() -> None:
    first = {law: [float(m) for m, _ in zip(Trials.of(6.0, law)._masses(), range(12), strict=False)] for law in LAWS}
    k = np.arange(1, 13)
    assert first["geometric"] == pytest.approx(stats.geom(1 / 6).pmf(k))
    assert first["poisson"] == pytest.approx((p := stats.poisson(Trials.of(6, "poisson").parameter)).pmf(k) / p.sf(0))
    assert first["logarithmic"] == pytest.approx(stats.logser(1 - Trials.of(6, "logarithmic").parameter).pmf(k))
    binomial = stats.nbinom(3.0, Trials.of(6, 3.0).parameter)
    assert first[3.0] == pytest.approx(binomial.pmf(k) / binomial.sf(0))
    assert Trials.of(1, "poisson").draw(InsecureSeededNoise(0)) == 1
    assert Trials.of(1, "logarithmic").draw(InsecureSeededNoise(0)) == 1
    many = [Trials.of(900.0, "poisson").draw(InsecureSeededNoise(seed)) for seed in range(5)]
    assert all(750 < number < 1050 for number in many)
    assert Counter(choose(3, InsecureSeededNoise(seed)) for seed in range(300)).keys() == {0, 1, 2}


def test_the_mean_is_never_above_the_one_that_is_charged_and_gamma_never_below() -> None:
    for law in ("logarithmic", 0.5, 3.0):
        for mean in (1.5, 4.0, 77.0):
            trials = Trials.of(mean, law)
            assert trials._mean_at(trials.parameter) <= mean
            charged = dp.rdp.rdp_privacy_accountant._gamma_truncated_negative_binomial(trials.shape, mean)
            assert charged <= trials.parameter


def test_laws_without_a_proof_are_refused() -> None:
    for mean, law in ((3.0, "uniform"), (0.5, "poisson"), (2000.0, "poisson"), (3.0, -1.0)):
        with pytest.raises(PrivacyError):
            Trials.of(mean, law)
    assert str(Trials.of(3.0, "poisson")) == "3 trials on average (poisson, at least one)"
    assert "negative binomial of shape 0.5" in str(Trials.of(3.0, 0.5))


def test_numbers_at_the_edge_are_refined(monkeypatch: pytest.MonkeyPatch) -> None:
    """A uniform number so near to where one outcome ends that its first digits do not decide."""

    third, bits = Trials.of(3.0, "geometric"), selection.BITS
    with precision(bits):
        below = int(next(third._masses()) * (1 << bits))  # less than where one trial ends, by one digit

    def edge(value: int) -> Any:
        return lambda source: Uniform(Stream(source.fresh_key()), value, bits)

    monkeypatch.setattr(selection, "uniform_bits", edge((1 << bits) // 3))
    assert {choose(3, InsecureSeededNoise(seed)) for seed in range(20)} == {0, 1}
    for value, expected in ((below, 1), (below + 1, 2)):
        monkeypatch.setattr(selection, "uniform_bits", edge(value))
        assert {third.draw(InsecureSeededNoise(seed)) for seed in range(5)} == {expected}
    assert list(Trials.of(1, "poisson")._masses()) == [1]


def test_a_point_at_the_end_is_refined(monkeypatch: pytest.MonkeyPatch) -> None:
    def last(source: Any) -> Uniform:
        return Uniform(Stream(source.fresh_key()), (1 << selection.BITS) - 1, selection.BITS)

    monkeypatch.setattr(selection, "uniform_bits", last)
    assert Trials.of(2.0, "geometric").draw(InsecureSeededNoise(1)) > 400


# -- samples of the users


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
    monkeypatch.setattr(selection, "TRIALS", 1)
    assert 0 < sampled_cost(largest_mu(2.5, DELTA, 0.01, 7), 0.01, 7).epsilon(DELTA) <= 2.5  # as far as it got
