"""The samplers: their tables in exact arithmetic, their laws at 10^7 draws, and their slow exact path on its own."""

import math
import multiprocessing
import os
import pickle
import threading
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import stats

from discreet.errors import PrivacyError
from discreet.privacy import SystemNoise
from discreet.privacy import noise as module
from discreet.privacy.noise import Fraction, RandomScale, Stream, bernoulli, gaussian, random_scale, two_sided_geometric
from discreet.testing import InsecureSeededNoise

DRAWS = 10_000_000
FALSE_ALARM = 1e-9  # of each test; the seeds are fixed, so they either pass for ever or find a fault


def stream(seed: int) -> Stream:
    return Stream(InsecureSeededNoise(seed).fresh_key())


def draw(sampler: object, scale: object, seed: int, size: int = DRAWS) -> np.ndarray:
    out = np.empty(size, np.int64)
    sampler(scale, stream(seed), out)  # type: ignore[operator]
    return out


# -- the tables


@pytest.mark.parametrize("density", [module._NORMAL, module._EXPONENTIAL])
def test_tables_in_exact_arithmetic(density: object) -> None:
    """The stack covers the curve, and what is accepted unseen is under it: at 60 digits, for every layer."""
    zig = module._build(density)
    with localcontext() as context:
        context.prec = 60
        area, height = zig.exact_area(), Decimal(0)
        for layer, (width, quick) in enumerate(zip(zig.width.tolist(), zig.quick.tolist(), strict=True)):
            assert layer == 0 or density.exact(Decimal(width)) <= height
            assert abs(Decimal(float(zig.height[layer])) - height) < Decimal("1e-12")
            height += area / Decimal(width)
            reach = Decimal(width) * Decimal(quick) / Decimal(2**52)
            assert quick == 0 or density.exact(reach) >= height or (density.tail and layer == 0)
            if density.tail and layer == 0:
                assert reach <= Decimal(zig.start)
                assert density.exact(Decimal(zig.start)) - height < Decimal("1e-55")
        assert height >= 1
    assert (np.diff(zig.width) < 0).all()


def test_the_corner_for_the_tail_of_the_normal_law_in_exact_arithmetic() -> None:
    zig = module._build(module._NORMAL)
    assert zig.width[0] == 24
    with localcontext() as context:
        context.prec = 300
        corner = module._corner(300)
        beyond = Decimal(-288).exp() / 24  # the area under exp(-288 - 24 (x - 24)) for x > 24
        assert abs((1 - corner) * zig.exact_area() / 2 - beyond) < Decimal("1e-290")
        # All of the corner is in the base rectangle and above the curve.
        assert module._NORMAL.exact(Decimal(12)) < corner * zig.exact_area() / 24
        assert zig.quick[0] < 2**51
    assert 1 - corner < 2.0**-53  # so that none of it escapes where 53 bits of the ordinate are looked at


def test_a_machine_on_which_the_tables_fail_gets_no_noise() -> None:
    broken = module._NORMAL._replace(inverse_log=lambda _: 1e-3)
    with pytest.raises(PrivacyError, match="tables"):
        module._build(broken)


# -- the laws


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> float:
    return float(stats.chisquare(counts, probabilities * counts.sum()).pvalue)


def normal_p_value(draws: np.ndarray, sigma: float) -> float:
    """Goodness of fit of round(sigma Z) in 1,000 bins, equally likely up to the grid."""
    edges = np.unique(np.rint(stats.norm.ppf(np.arange(1, 1000) / 1000) * sigma))
    cdf = np.concatenate([[0], stats.norm.cdf((edges - 0.5) / sigma), [1]])
    counts = np.bincount(np.searchsorted(edges, draws, side="right"), minlength=len(edges) + 1)
    return chi_square(counts, np.diff(cdf))


@pytest.mark.parametrize("sigma", [0.4, 3.7, 2.0**20 * 1.234, 2.0**30])
def test_goodness_of_fit_of_the_normal_law(sigma: float) -> None:
    draws = draw(gaussian, sigma, seed=1)
    assert normal_p_value(draws, sigma) > FALSE_ALARM
    if sigma > 1:
        for wrong in (0.995, 1.005):
            assert normal_p_value(draws, sigma * wrong) < 1e-12
    # variance (with Sheppard's 1/12), third and fourth moments, and the tails
    variance = float(np.mean(np.square(draws, dtype=np.float64)))
    expected = sigma**2 + 1 / 12 if sigma > 1 else variance
    assert abs(variance / expected - 1) < 6.2 * math.sqrt(2 / DRAWS)
    if sigma > 100:
        z = draws / sigma
        assert abs(np.mean(z**3)) < 6.2 * math.sqrt(15 / DRAWS)
        assert abs(np.mean(z**4) - 3) < 6.2 * math.sqrt(96 / DRAWS)
        for cut in (3, 4, 5):
            count = int(np.count_nonzero(np.abs(z) > cut))
            assert stats.binomtest(count, DRAWS, 2 * stats.norm.sf(cut)).pvalue > FALSE_ALARM


def test_successive_and_low_bits_are_independent() -> None:
    draws = draw(gaussian, 2.0**20, seed=2)
    z = draws / 2.0**20
    for lag in (1, 2, 3, 1024, 65536):
        assert abs(np.mean(z[lag:] * z[:-lag])) < 6.2 / math.sqrt(DRAWS)
        assert abs(np.mean(z[lag:] ** 2 * z[:-lag] ** 2) - 1) < 6.2 * math.sqrt(8 / DRAWS)
    low = draws & 1023
    assert chi_square(np.bincount(low), np.full(1024, 1 / 1024)) > FALSE_ALARM
    assert abs(np.corrcoef(low, z)[0, 1]) < 6.2 / math.sqrt(DRAWS)


@pytest.mark.parametrize("scale", [0.2, 0.7, 6.3, 2.0**20 * 1.234])
def test_goodness_of_fit_of_the_two_sided_geometric_law(scale: float) -> None:
    draws = draw(two_sided_geometric, scale, seed=3, size=DRAWS // 4)
    ratio = math.exp(-1 / scale)
    # P(|X| >= k) = 2 r^k / (1 + r); 200 classes of equal probability, up to the grid, and the sign
    survival = np.arange(199, 0, -1) / 200
    edges = np.unique(np.maximum(np.ceil(np.log(survival * (1 + ratio) / 2) / math.log(ratio)), 1))
    above = np.concatenate([[1], 2 * ratio**edges / (1 + ratio), [0]])
    expected = -np.diff(above)
    counts = np.bincount(np.searchsorted(edges, np.abs(draws), side="right"), minlength=len(edges) + 1)
    keep = expected * draws.size > 5
    counts, expected = np.append(counts[keep], counts[~keep].sum()), np.append(expected[keep], expected[~keep].sum())
    used = expected > 0
    assert chi_square(counts[used], expected[used]) > FALSE_ALARM
    positive, negative = np.count_nonzero(draws > 0), np.count_nonzero(draws < 0)
    assert stats.binomtest(positive, positive + negative).pvalue > FALSE_ALARM
    far = int(np.count_nonzero(np.abs(draws) >= math.ceil(12 * scale)))  # beyond the base rectangle: the restarted tail
    tail = 2 * ratio ** math.ceil(12 * scale) / (1 + ratio)
    assert stats.binomtest(far, draws.size, tail).pvalue > FALSE_ALARM


def test_the_exact_path_alone_has_the_same_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """With bands so wide that float64 decides nothing, every draw takes the slow path: same laws."""
    monkeypatch.setattr(module, "_BAND", 2.0)
    for sampler, density, scale in (
        (gaussian, module._NORMAL, 2.0**30),
        (two_sided_geometric, module._EXPONENTIAL, 2.0**30),
    ):
        zig = module._build(density)
        monkeypatch.setattr(module, "_build", lambda _, zig=zig: zig._replace(quick=zig.quick * 0))
        draws = draw(sampler, scale, seed=4, size=1500)
        monkeypatch.undo()
        monkeypatch.setattr(module, "_BAND", 2.0)
        law = stats.norm.cdf if sampler is gaussian else stats.laplace.cdf
        assert stats.kstest(draws / scale, law).pvalue > 1e-6


def test_undecided_points_get_more_digits() -> None:
    """Points within 10^-36 of the curve, and integers within 2^-52 of a boundary, are decided by further digits."""
    zig = module._build(module._NORMAL)
    layer = 500
    with localcontext() as context:
        context.prec = 200
        height = sum((Decimal(zig.area) / Decimal(w) for w in zig.width[:layer].tolist()), Decimal(0))
        across = module.Uniform(stream(5), (1 << 200) - (1 << 188), 200)
        curve = module._NORMAL.exact(Decimal(float(zig.width[layer])) * across.decimal())
        exact = (curve - height) * Decimal(float(zig.width[layer])) / Decimal(zig.area)
        assert 0 < exact < 1
        on_curve = int(exact * (1 << 160))
    seen = []
    for offset in (-(1 << 40), 0, 1, 1 << 40):
        up = module.Uniform(stream(6), on_curve + offset, 160)
        seen.append(module._under_curve(zig, layer, module.Uniform(stream(5), across.value, 200), up))
        assert up.bits > 160 if abs(offset) <= 1 else True
    assert (seen[0], seen[-1]) == (True, False)
    half = module.Uniform(stream(7), 1, 1)  # U in [1/2, 1): 2 U straddles 3/2
    integer = module._integer(1.0, module._Real(Fraction(0), Fraction(2), half), floor=False)
    assert half.bits > 1
    assert integer in (1, 2)


@pytest.mark.parametrize("end", [2, 24])
def test_the_tail_of_the_normal_law(end: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every point of the right half of the base rectangle taken for one beyond it: the law there is the normal's."""
    monkeypatch.setattr(module, "_corner", lambda _: Decimal(0))
    zig, source, far = module._build(module._NORMAL), stream(10), []
    monkeypatch.setattr(module, "_END", end)
    for _ in range(1500):
        real = module._exact(zig, source, ((1 << 52) - 1) << 12, module.Uniform(source))
        if real is not None:
            far.append(float(real.bounds(64)[0]))
    kept = stats.norm.sf(end) / (stats.norm.pdf(end) / end)  # the area under the curve over that under the exponential
    assert stats.binomtest(len(far), 1500, kept).pvalue > 1e-6
    beyond = stats.kstest(far, lambda x: -np.expm1(stats.norm.logsf(x) - stats.norm.logsf(end))).pvalue
    assert beyond > 1e-6
    if end == 2:
        assert stats.kstest(np.array(far) - end, stats.expon(scale=1 / end).cdf).pvalue < 1e-6


def test_a_draw_beyond_the_rectangles(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first word in the corner, its ordinate's bits all ones: with a corner of 2^-53 the draw is beyond 24."""
    source = stream(11)
    given = iter([((1 << 52) - 1) << 12, (1 << 64) - 1])
    real = source.fill

    def fill(words: np.ndarray) -> None:
        real(words)
        if words.size == 1 and (word := next(given, None)) is not None:
            words[0] = word

    monkeypatch.setattr(source, "fill", fill)
    monkeypatch.setattr(module, "_corner", lambda _: 1 - Decimal(2) ** -53)
    out = np.zeros(1, np.int64)
    gaussian(2.0**20, source, out)
    assert 24 <= out[0] / 2.0**20 < 25


# -- the density of the Euclidean length


@pytest.mark.parametrize("r", [0.5, 3.0, 40.0, 1000.0])
def test_normal_numbers_of_a_random_scale_have_the_density_of_their_length(r: float) -> None:
    """The mixture by quadrature: the density at length r, of any number of them, is exp(-r) times the same constant."""
    from scipy.integrate import quad

    size = 7

    def joint(g: float) -> float:  # of gamma, and of normal numbers of variance 2 gamma; times exp(r)
        return math.exp((size - 1) / 2 * math.log(g) - g - size / 2 * math.log(2 * g) - r**2 / (4 * g) + r)

    middle = r / 2  # where the integrand is largest, more or less
    halves = [quad(joint, *ends, epsabs=0)[0] for ends in ((1e-9, middle), (middle, middle + 40 * math.sqrt(r) + 40))]
    assert sum(halves) == pytest.approx(math.sqrt(math.pi) * 2 ** (-size / 2), rel=1e-6)


@pytest.mark.parametrize("size", [3, 4, 7, 100, 10**4, 10**6, 2**40])
def test_the_envelope_of_the_gamma_law_is_above_it(size: int) -> None:
    mode, width = (size - 1) / 2, math.isqrt(size) + 2
    far = np.concatenate([np.linspace(0, 60, 60_001), np.logspace(2, 6, 2_000)])
    for sign in (1, -1):
        t = sign * width * far / mode
        inside = t > -1
        log = mode * (np.log1p(t[inside]) - t[inside])
        assert (log + far[inside] - 2).max() < 1e-6


@pytest.mark.parametrize(("size", "degrees"), [(1, 4), (1000, 1001)])
def test_the_law_of_a_random_scale(size: int, degrees: int) -> None:
    source = stream(12)
    squares = [float(random_scale(2.0, size, source)) ** 2 / 4 for _ in range(100)]
    assert stats.kstest(squares, stats.chi2(degrees).cdf).pvalue > 1e-6
    assert stats.kstest(squares, stats.chi2(degrees * 1.6).cdf).pvalue < 1e-6


def test_digits_of_a_random_scale() -> None:
    scale = random_scale(2.0**20, 50, stream(13))
    (low, high), (lower, higher) = scale.bounds(300), scale.bounds(100)
    assert lower <= low < high <= higher
    assert high - low < 2.0**-250
    assert abs(Fraction(float(scale)) / low - 1) < Fraction(1, 2**52)
    # The smallest of gammas, too, has a float with all its digits.
    tiny = RandomScale(1.0, module._Real(Fraction(0), Fraction(1, 2**300), module.Uniform(stream(14))))
    assert abs(Fraction(float(tiny)) ** 2 / (2 * tiny.gamma.bounds(0)[0]) - 1) < Fraction(1, 2**51)


def test_noise_of_a_random_scale_is_that_of_its_float_but_for_the_last_bits() -> None:
    scale = random_scale(2.0**20, 1000, stream(15))
    exact, rounded = (draw(gaussian, one, seed=16, size=1_000_000) for one in (scale, float(scale)))
    assert np.array_equal(exact, rounded)
    assert normal_p_value(exact, float(scale)) > FALSE_ALARM


def test_integers_beyond_64_bits_wrap_as_sums_do() -> None:
    huge = RandomScale(2.0**63, module._Real(Fraction(1, 2), Fraction(0), module.Uniform(stream(17))))
    assert float(huge) == 2.0**63
    out = draw(gaussian, huge, seed=18, size=30)
    assert len(set(out.tolist())) == 30
    small = draw(gaussian, 2.0**30, seed=18, size=30)  # the same points, of which these are the first bits
    true = [module.math.remainder(int(one) / 2.0**30, 2) for one in small]  # in units of 2^63, modulo 2^64
    assert np.abs([math.remainder(a / 2.0**63 - b, 2) for a, b in zip(out.tolist(), true, strict=True)]).max() < 1e-8


def test_coins_are_exact() -> None:
    def third(digits: int) -> Decimal:
        with localcontext() as context:
            context.prec = digits
            return Decimal(1) / 3

    coins = draw(bernoulli, third, seed=8, size=DRAWS)
    assert stats.binomtest(int(coins.sum()), DRAWS, 1 / 3).pvalue > FALSE_ALARM
    # the first 160 bits of a third, then what further digits say
    bits = (1 << 160) // 3
    below = module._below(module.Uniform(stream(9), bits - (1 << 20), 160), third)
    above = module._below(module.Uniform(stream(9), bits + (1 << 20), 160), third)
    assert (below, above) == (True, False)
    same = module.Uniform(stream(9), (1 << 320) // 3, 320)
    module._below(same, third)
    assert same.bits > 320


@pytest.mark.parametrize("fraction", ["0.25", "0.5", "0.75"])
@pytest.mark.parametrize("seed", range(8))
def test_a_coin_whose_first_word_ties_is_decided_by_the_next(fraction: str, seed: int) -> None:
    twin = stream(seed)
    first, second = (int(twin.words(1)[0]) for _ in range(2))
    with localcontext() as context:
        context.prec = 120
        level = (Decimal(first) + Decimal(fraction)) / (1 << 64)
    out = np.empty(1, np.int64)
    bernoulli(lambda _: level, stream(seed), out)
    assert out[0] == (Decimal(second) / (1 << 64) < Decimal(fraction))


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 2.0**31])
def test_bad_scales_are_refused(scale: float) -> None:
    for sampler in (gaussian, two_sided_geometric):
        with pytest.raises(PrivacyError, match="scale"):
            sampler(scale, stream(0), np.empty(1, np.int64))


# -- the keystream


def test_every_release_has_its_own_key_and_streams_do_not_overlap() -> None:
    source = SystemNoise()
    assert source.secure
    assert len({source.fresh_key() for _ in range(1000)}) == 1000
    key = source.fresh_key()
    words = np.concatenate([Stream(key, number).words(50_000) for number in range(4)])
    assert len(np.unique(words)) == len(words)
    assert (Stream(key, 3).words(50_000) == words[-50_000:]).all()
    big = Stream(key).words(1 << 15)  # in one piece, or in two
    other = Stream(key)
    assert (np.concatenate([other.words(1 << 14), other.words(1 << 14)]) == big).all()
    threads: list[bytes] = []
    workers = [threading.Thread(target=lambda: threads.append(source.fresh_key())) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(set(threads)) == 8


def _key_in_worker(source: SystemNoise) -> bytes:
    return source.fresh_key()


def test_keys_after_fork_in_workers_and_after_unpickling() -> None:
    source = SystemNoise()
    keys = {source.fresh_key(), pickle.loads(pickle.dumps(source)).fresh_key()}
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            keys.update(pool.map(_key_in_worker, [source] * 4, chunksize=1))
    assert len(keys) == 10


def test_a_stream_dies_with_its_process_and_cannot_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Stream(SystemNoise().fresh_key())
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            mine.words(1)
            os.write(write, b"drawn")
        except PrivacyError:
            os.write(write, b"refused")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 10) == b"refused"
    with pytest.raises(PrivacyError, match="copied"):
        pickle.dumps(mine)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    with pytest.raises(PrivacyError, match="forked"):
        mine.words(1)


def test_seeded_noise_repeats_and_says_that_it_is_insecure() -> None:
    first, second = InsecureSeededNoise(7), InsecureSeededNoise(7)
    assert [first.fresh_key() for _ in range(3)] == [second.fresh_key() for _ in range(3)]
    assert not first.secure
    assert "INSECURE" in first.name
    assert InsecureSeededNoise(8).fresh_key() != InsecureSeededNoise(7).fresh_key()
