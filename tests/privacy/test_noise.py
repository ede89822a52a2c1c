"""The mechanisms: what they add, what they cost, and that they reach their claim in an audit."""

import math

import numpy as np
import pytest
from scipy import stats

from discreet.errors import PrivacyError, Unbounded
from discreet.privacy import Cost, Gaussian, Grid, GridArray, L2Laplace, Laplace, PureEvent, RandomizedResponse
from discreet.privacy.statement import noise_from_json
from discreet.testing import InsecureSeededNoise

N = 1_000_000


def test_gaussian_noise_in_the_units_of_the_statistic() -> None:
    noise = Gaussian(0.37)
    values = np.full((1000, 1000), 5 << 22)
    noisy = noise.add(GridArray(values, Grid(-22)), InsecureSeededNoise(0))
    assert noisy.shape == (1000, 1000)
    assert (np.rint(noisy * 2**22) == noisy * 2**22).all()
    assert stats.kstest((noisy.ravel() - 5) / 0.37, "norm").pvalue > 1e-6
    assert noise.cost(0.1) == Cost.of_gaussian(0.1, 0.37)


def test_symmetric_matrices_get_goe_noise() -> None:
    """Diagonal std s, off-diagonal s / sqrt 2, mirrored; the lower triangle of the statistic is never read."""
    rng = np.random.default_rng(0)
    stack = rng.integers(-(2**20), 2**20, (4000, 6, 6))
    noisy = Gaussian(2.0, symmetric=True).add(GridArray(stack, Grid(-20)), InsecureSeededNoise(1))
    assert (noisy == np.swapaxes(noisy, 1, 2)).all()
    noise = noisy - stack * 2.0**-20
    i, j = np.triu_indices(6, 1)
    diagonal, off = noise[:, range(6), range(6)].ravel(), noise[:, i, j].ravel()
    assert stats.kstest(diagonal / 2, "norm").pvalue > 1e-6
    assert stats.kstest(off / math.sqrt(2), "norm").pvalue > 1e-6
    lower = stack.copy()
    lower[:, j, i] = 12345
    again = Gaussian(2.0, symmetric=True).add(GridArray(lower, Grid(-20)), InsecureSeededNoise(1))
    assert (again == noisy).all()


def test_large_stacks_get_the_same_noise_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each few matrices read a part of the keystream of their own: no two of them the same one."""
    stack, noise = GridArray(np.zeros((60, 100, 100), int), Grid(-20)), Gaussian(2.0, symmetric=True)
    noisy = noise.add(stack, InsecureSeededNoise(1))
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert (noise.add(stack, InsecureSeededNoise(1)) == noisy).all()
    assert len(np.unique(noisy[:, 0, 1])) == len(noisy)
    assert stats.kstest(noisy[:, 0, 1:].ravel() / math.sqrt(2), "norm").pvalue > 1e-6


def test_the_frobenius_norm_prices_symmetric_noise() -> None:
    """The cost of a change D is |D|_F / s, whatever its direction: the off-diagonal std is not too small."""
    std = 1.7
    for change in (
        np.diag([1.0, 0, 0]),
        np.ones((3, 3)) / 3,
        np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]]) / math.sqrt(2),
    ):
        assert np.linalg.norm(change) == pytest.approx(1)
        off = std * math.nextafter(math.sqrt(0.5), 1.0)
        squared = sum(change[k, k] ** 2 / std**2 for k in range(3)) + sum(
            change[a, b] ** 2 / off**2 for a in range(3) for b in range(a + 1, 3)
        )
        assert squared <= Gaussian(std, symmetric=True).cost(1.0).mu ** 2 * (1 + 1e-15)  # type: ignore[operator]
        assert squared == pytest.approx(1 / std**2)


def test_laplace_noise() -> None:
    noisy = Laplace(3.0).add(GridArray(np.full(N, 7 << 20), Grid(-20)), InsecureSeededNoise(2))
    assert stats.kstest((noisy - 7) / 3, "laplace").pvalue > 1e-6
    assert Laplace(3.0).cost(1.0) == Cost.of(
        PureEvent(math.nextafter(1 / 3, 1))
    )  # 1/3 rounds down in float64: up it goes
    assert Laplace(4.0).cost(1.0) == Cost.of(PureEvent(0.25))
    counts = Laplace(2.0).add(GridArray.of(np.zeros(N, int)), InsecureSeededNoise(3))
    zero = (1 - math.exp(-0.5)) / (1 + math.exp(-0.5))
    assert stats.binomtest(int((counts == 0).sum()), N, zero).pvalue > 1e-9


def test_noise_with_the_density_of_its_length() -> None:
    zeros, source = GridArray(np.full((4, 5), 7 << 20), Grid(-20)), InsecureSeededNoise(6)
    arrays = np.array([L2Laplace(3.0).add(zeros, source) - 7 for _ in range(100)])
    lengths = np.linalg.norm(arrays, axis=(1, 2))
    assert stats.kstest(lengths / 3, stats.gamma(20).cdf).pvalue > 1e-6
    assert stats.kstest(lengths / 3.6, stats.gamma(20).cdf).pvalue < 1e-6
    cosines = arrays.reshape(100, 20) / lengths[:, None]  # a squared cosine of a uniform direction has a beta law
    assert stats.kstest(cosines.ravel() ** 2, stats.beta(0.5, 9.5).cdf).pvalue > 1e-6
    assert arrays.std() == pytest.approx(L2Laplace(3.0).std(20), rel=0.1)
    assert L2Laplace(4.0).cost(1.0) == Laplace(4.0).cost(1.0) == Cost.of(PureEvent(0.25))
    assert L2Laplace(4.0) != Laplace(4.0)
    assert L2Laplace(2.0).add(GridArray.of(5), InsecureSeededNoise(7)).shape == ()


def test_randomized_response() -> None:
    bits = GridArray.of(np.tile([1, 0, -1, 1], N // 4))
    for noise, one, zero in (
        (RandomizedResponse(epsilon=1.2), 1 / (1 + math.exp(1.2)), 1 / (1 + math.exp(1.2))),
        (RandomizedResponse(flip_one=0.1, flip_zero=0.3), 0.1, 0.3),
    ):
        flipped = noise.add(bits, InsecureSeededNoise(4))
        assert flipped.dtype == np.int8
        was = bits.values > 0
        assert stats.binomtest(int((flipped[was] == 0).sum()), N // 2, one).pvalue > 1e-9
        assert stats.binomtest(int((flipped[~was] == 1).sum()), N // 2, zero).pvalue > 1e-9
    assert RandomizedResponse(epsilon=1.2).add(GridArray.of(1), InsecureSeededNoise(5)).shape == ()


@pytest.mark.parametrize(("one", "zero", "epsilon"), [(0.02, 0.4, 3.40), (0.1, 0.3, math.log(7)), (0.5, 0.5, 0.0)])
def test_asymmetric_randomized_response_takes_the_worst_of_four_ratios(one: float, zero: float, epsilon: float) -> None:
    true = RandomizedResponse(flip_one=one, flip_zero=zero).bit_epsilon
    assert true == pytest.approx(epsilon, abs=0.005)
    four = [(1 - one) / zero, zero / (1 - one), one / (1 - zero), (1 - zero) / one]
    assert true >= max(math.log(ratio) for ratio in four)


def test_user_level_randomized_response_counts_bits() -> None:
    assert RandomizedResponse(epsilon=0.0388).cost(50) == Cost.of(PureEvent(0.0388), 50)
    assert RandomizedResponse(epsilon=0.0388).cost(50).epsilon(1e-5) == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize("mu", [1e-6, 0.01, 0.3, 1.0, 7.7])
@pytest.mark.parametrize("sensitivity", [1e-3, 1 / 3, 1.0, 12.7])
def test_noise_for_a_cost_is_the_least_that_suffices(mu: float, sensitivity: float) -> None:
    noise = Gaussian.for_cost(Cost.of_mu(mu), sensitivity=sensitivity)
    assert noise.cost(sensitivity).gaussian <= Cost.of_mu(mu).gaussian
    assert noise.std <= sensitivity / mu * (1 + 1e-12)


@pytest.mark.parametrize(
    "noise", [Gaussian(1.5, symmetric=True), Laplace(2.0), L2Laplace(2.0), RandomizedResponse(epsilon=0.5)]
)
def test_json_round_trip(noise: object) -> None:
    from dataclasses import asdict

    assert noise_from_json({"kind": noise.kind, **asdict(noise)}) == noise  # type: ignore[attr-defined, call-overload]
    with pytest.raises(PrivacyError, match="kind"):
        noise_from_json({"kind": "hope"})


def test_grids_that_suit_the_noise() -> None:
    assert Gaussian(1.0).grid() == Laplace(1.0).grid() == L2Laplace(0.5).grid() == Grid(-20)
    assert L2Laplace(1.0).grid(1023) == Grid(-15)
    L2Laplace(1).check(GridArray(np.zeros(3, np.int64), Grid(-26)))  # of a thousand numbers, each has more noise
    assert RandomizedResponse(epsilon=1.0).grid() == Grid()


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: Gaussian(0), "noise.std"),
        (lambda: Gaussian(math.nan), "noise.std"),
        (lambda: Gaussian(math.inf), "noise.std"),
        (lambda: Laplace(-1), "noise.scale"),
        (lambda: L2Laplace(0), "noise.scale"),
        (RandomizedResponse, "flip_one"),
        (lambda: RandomizedResponse(epsilon=0), "noise.epsilon"),
        (lambda: RandomizedResponse(epsilon=1, flip_one=0.1), "either"),
        (lambda: RandomizedResponse(flip_one=0.1, flip_zero=1), "flip_zero"),
        (lambda: RandomizedResponse(flip_one=0.0, flip_zero=0.5), "flip_one"),
        (lambda: RandomizedResponse(epsilon=1).check(GridArray(np.zeros(2, np.int64), Grid(-3))), "bits"),
        (lambda: Gaussian(1, symmetric=True).check(GridArray.of(np.zeros((2, 3), int))), "square"),
        (lambda: Gaussian(1, symmetric=True).check(GridArray.of(np.zeros(3, int))), "square"),
        (lambda: Gaussian(1).check(GridArray(np.zeros(1, np.int64), Grid(-40))), "grid"),
        (lambda: Laplace(1).check(GridArray(np.zeros(1, np.int64), Grid(-40))), "grid"),
        (lambda: L2Laplace(1).check(GridArray(np.zeros(1000, np.int64), Grid(-26))), "grid"),
    ],
)
def test_bad_mechanisms(call: object, named: str) -> None:
    with pytest.raises(PrivacyError, match=named):
        call()  # type: ignore[operator]


@pytest.mark.parametrize("sensitivity", [0, -1, math.inf, math.nan, "1", None])
@pytest.mark.parametrize("noise", [Gaussian(1.0), Laplace(1.0), RandomizedResponse(epsilon=1.0)])
def test_sensitivity_must_be_a_positive_number(noise: Gaussian, sensitivity: object) -> None:
    with pytest.raises(Unbounded, match="sensitivity"):
        noise.cost(sensitivity)  # type: ignore[arg-type]


def test_randomized_response_counts_whole_bits() -> None:
    with pytest.raises(Unbounded, match="whole"):
        RandomizedResponse(epsilon=1.0).cost(1.5)


@pytest.mark.parametrize(
    ("noise", "change"),
    [(Gaussian(1.9), 1.0), (Gaussian(0.7), 0.5), (Laplace(1.3), 1.0), (RandomizedResponse(epsilon=1.1), 1)],
)
def test_black_box_audit_reaches_the_claim(noise: Gaussian, change: float) -> None:
    """Neighbors at the full sensitivity: a Clopper-Pearson audit proves at least 90% of the claim, and no more."""
    n, confidence = 2_000_000, 1e-6
    grid = noise.grid()
    sources = InsecureSeededNoise(11)
    low, high = (
        noise.add(GridArray(np.full(n, round(grid.units(value)), np.int64), grid), sources) for value in (0.0, change)
    )

    def upper(count: int) -> float:
        return float(stats.beta.ppf(1 - confidence, count + 1, n - count))

    cost = noise.cost(change)
    if cost.mu is not None:  # false negatives and false positives of one threshold: mu >= -z(fp) - z(fn)
        proved = -stats.norm.ppf(upper(int((low > change / 2).sum()))) - stats.norm.ppf(
            upper(int((high <= change / 2).sum()))
        )
        claim = cost.mu
    else:
        hits, misses = int((high > change / 2).sum()), int((low > change / 2).sum())
        if isinstance(noise, Laplace):
            hits, misses = int((high >= change).sum()), int((low >= change).sum())
        proved = math.log((1 - upper(n - hits)) / upper(misses))
        claim = cost.pure
    assert 0.9 * claim < proved <= claim
