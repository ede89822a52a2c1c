"""The noise of a model, drawn many times: is it distributed as charged for, and never reused?"""

from __future__ import annotations

import math
import multiprocessing
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from scipy import stats

from discreet.audit.distinguishing import Evidence, could, detectable, detectable_epsilon, distinguish
from discreet.audit.replaying import Recording, Release
from discreet.audit.report import Alarms, Finding
from discreet.privacy import Gaussian, GridArray, L2Laplace, Laplace, RandomizedResponse
from discreet.privacy.noise import Noise, NoiseSource
from discreet.typing import Array

NOISE, STREAMS, BLACK_BOX = "noise", "streams", "black box"
BINS, SIDE, FAR, ARRAYS = 200, 40, 4.0, 50
LAGS, COORDINATES = 300, 16
THREADS, FORKS, KEYS = 8, 3, 50
CLAIM = 0.9  # of a claim: what an audit that is not blind proves in the worst case
PURE = 30  # times as many draws are needed to prove as much about a pure epsilon
AIM = 2.5  # standard deviations apart: where the fewest runs prove the most

Tests = list[tuple[str, float]]  # what would be wrong, and the p-value of the draws


def law(noise: Noise, *, draws: int, source: NoiseSource, alarms: Alarms) -> Finding:
    """Whether noise has its distribution: goodness of fit, variance, tails and correlations, all on its grid."""
    if isinstance(noise, RandomizedResponse):
        return _coins(noise, draws, source, alarms)
    symmetric = isinstance(noise, Gaussian) and noise.symmetric
    arrays = ARRAYS if isinstance(noise, L2Laplace) else 1
    shape = (max(draws // SIDE**2, 1), SIDE, SIDE) if symmetric else (max(draws // arrays, 3),)
    grid = noise.grid(*shape) if isinstance(noise, L2Laplace) else noise.grid()
    drawn = np.stack([noise.add(GridArray(np.zeros(shape, np.int64), grid), source) for _ in range(arrays)])
    tests = _tests_of(noise, drawn)
    level = alarms.take(len(tests))
    wrong = [test for test, chance in tests if chance < level]
    if not np.array_equal(drawn / grid.step, np.rint(drawn / grid.step)):
        wrong.append("it is not on its grid")
    if symmetric and not np.array_equal(drawn, drawn.swapaxes(-1, -2)):
        wrong.append("it is not symmetric")
    words = ", ".join(wrong) or f"{drawn.size:,} draws have the distribution that was charged for"
    return Finding(NOISE, not wrong, f"{_name(noise)}: {words}", tests=len(tests))


def _name(noise: Noise) -> str:
    if isinstance(noise, RandomizedResponse):
        return f"randomized response of epsilon {noise.bit_epsilon:.4g}"
    if isinstance(noise, Laplace):
        return f"Laplace noise of scale {noise.scale:.4g}"
    if isinstance(noise, L2Laplace):
        return f"noise of density exp(-|x| / {noise.scale:.4g})"
    return f"{'symmetric ' * noise.symmetric}Gaussian noise of std {noise.std:.4g}"


def _tests_of(noise: Gaussian | Laplace | L2Laplace, drawn: Array) -> Tests:
    """Tests of noise arrays, stacked on the first axis."""
    if isinstance(noise, Laplace):
        return _tests(drawn.ravel() / noise.scale, laplace=True)
    if isinstance(noise, L2Laplace):  # lengths have a gamma distribution; directions are nearly normal
        lengths, size = np.linalg.norm(drawn, axis=1), drawn.shape[1]
        chance = float(stats.kstest(lengths / noise.scale, stats.gamma(size).cdf).pvalue)
        directions = _tests((drawn / lengths[:, None] * math.sqrt(size)).ravel())
        return [("the lengths are wrong", chance), *(one for one in directions if "variance" not in one[0])]
    if not noise.symmetric:
        return _tests(drawn.ravel() / noise.std)
    i, j = np.triu_indices(SIDE, 1)
    diagonal = drawn[..., range(SIDE), range(SIDE)] * math.sqrt(0.5)
    parts = {"on the diagonal": diagonal, "above it": drawn[..., i, j], "below it": drawn[..., j, i]}
    return [
        (f"{what} {test}", chance)
        for what, part in parts.items()
        for test, chance in _tests(part.ravel() / (noise.std * math.sqrt(0.5)))
    ]


def _tests(z: Array, *, laplace: bool = False) -> Tests:
    """Tests of standardized draws."""
    law = stats.laplace if laplace else stats.norm
    n, variance = len(z), 2.0 if laplace else 1.0
    counts = np.bincount(np.searchsorted(law.ppf(np.arange(1, BINS) / BINS), z), minlength=BINS)
    spread = math.sqrt(((24.0 if laplace else 3.0) - variance**2) / n)
    far = stats.binomtest(int(np.count_nonzero(np.abs(z) > FAR)), n, 2 * float(law.sf(FAR))).pvalue
    lags, pairs = _correlations(z / math.sqrt(variance))
    return [
        ("the histogram is wrong", float(stats.chisquare(counts).pvalue)),
        ("the mean is not 0", 2 * float(stats.norm.sf(abs(z.mean()) * math.sqrt(n / variance)))),
        ("the variance is wrong", 2 * float(stats.norm.sf(abs(np.mean(z**2) - variance) / spread))),
        ("the tails are wrong", float(far)),
        ("consecutive draws are correlated", 2 * float(stats.norm.sf(abs(lags[0])))),
        ("draws at a distance are correlated", float(stats.chi2.sf((lags**2).sum(), len(lags)))),
        ("coordinates are correlated", float(stats.chi2.sf((pairs**2).sum(), len(pairs)))),
    ]


def _correlations(z: Array) -> tuple[Array, Array]:
    """Of draws at each distance up to LAGS, and of any two coordinates of consecutive rows of COORDINATES draws.

    If draws are independent, each is about standard normal, and they are uncorrelated.
    """
    n = len(z)
    spectrum = np.fft.rfft(z, n=1 << (n + LAGS).bit_length())
    lags = np.fft.irfft(np.abs(spectrum) ** 2)[1 : LAGS + 1] / np.sqrt(n - np.arange(1, LAGS + 1))
    rows = z[: n // COORDINATES * COORDINATES].reshape(-1, COORDINATES)
    return lags, (rows.T @ rows)[np.triu_indices(COORDINATES, 1)] / math.sqrt(len(rows))


def _coins(noise: RandomizedResponse, draws: int, source: NoiseSource, alarms: Alarms) -> Finding:
    """How often bits of each value are flipped."""
    level = alarms.take(2)
    for bit, flip in zip((1, 0), noise._flips(20), strict=True):
        flipped = int(np.count_nonzero(_draws(noise, bit, draws, source) != bit))
        if stats.binomtest(flipped, draws, float(flip)).pvalue < level:
            words = f"{_name(noise)}: of {draws:,} bits of {bit}, {flipped:,} were flipped, not {float(flip):.1%}"
            return Finding(NOISE, False, words, tests=2)
    return Finding(NOISE, True, f"{_name(noise)}: {2 * draws:,} bits were flipped as often as charged for", tests=2)


def told_apart(release: Release, *, draws: int, source: NoiseSource, alarms: Alarms) -> Finding:
    """Release each of two numbers many times; they differ by the sensitivity. What does that prove about the cost?"""
    noise, claim = release.noise, release.noise.cost(release.sensitivity)
    assert not isinstance(noise, L2Laplace)
    level = alarms.take(2)  # a bound on each of two rates
    if isinstance(noise, Gaussian):
        name, claimed = "mu", claim.mu or 0.0
        apart = AIM / claimed  # in units of the sensitivity: mu grows as the distance does
        scores = [_draws(Gaussian(noise.std), release.sensitivity * apart * bit, draws, source) for bit in (1, 0)]
        proved, least = distinguish(*scores, level=level).mu / apart, detectable(AIM, draws, level=level) / apart
    else:
        draws, name, apart = PURE * draws, "epsilon", 1.0
        if isinstance(noise, Laplace):  # log-likelihood ratios
            claimed = claim.pure
            apart = max(1.0, 1 / claimed)  # epsilon grows as the distance does
            far = release.sensitivity * apart
            drawn = [_draws(noise, far * bit, draws, source) for bit in (1, 0)]
            scores = [(np.abs(seen) - np.abs(seen - far)) / noise.scale for seen in drawn]
        else:
            claimed = noise.bit_epsilon
            scores = [_draws(noise, bit, draws, source).astype(np.float64) for bit in (1, 0)]
        proved = distinguish(*scores, level=level, by=Evidence.epsilon).epsilon() / apart
        least = detectable_epsilon(claimed * apart, draws, level=level) / apart
    words = (
        f"{release.label!r}: after {draws:,} draws each, {name} >= {proved:.4g} is proved, of {claimed:.4g} claimed; "
        f"{could(least)}"
    )
    figures = {"proved": proved, "claimed": claimed, "detectable": least}
    return Finding(BLACK_BOX, CLAIM * claimed <= proved <= claimed, words, figures, tests=2)


def _draws(noise: Gaussian | Laplace | RandomizedResponse, truth: float, draws: int, source: NoiseSource) -> Array:
    """The same number, released many times."""
    grid = noise.grid()
    return noise.add(GridArray(np.full(draws, math.floor(grid.units(truth)), np.int64), grid), source)


def drawn_in(recording: Recording, alarms: Alarms) -> Finding:
    """Whether the noise that one fit added is as declared: on the grid, everywhere, of the right scale."""
    squares, n = 0.0, 0
    for release in recording.releases:
        if isinstance(release.noise, RandomizedResponse):
            continue
        if release.threshold is not None:  # only what passed is known, and the law of that noise is another
            continue
        added = release.answer - release.statistic
        if not np.array_equal(added / release.step, np.rint(added / release.step)):
            return Finding(NOISE, False, f"{release.label!r}: what was added is not on the grid of the statistic")
        if added.size > 8 and np.count_nonzero(added) < added.size * (1 - 1e-3) - 8:
            return Finding(NOISE, False, f"{release.label!r}: some numbers were released without noise")
        scale = np.full(added.shape, release.scale)
        if isinstance(release.noise, Laplace):
            scale *= math.sqrt(2)
        elif isinstance(release.noise, L2Laplace):
            scale[...] = release.noise.std(added.size)
        elif release.noise.symmetric:
            scale *= math.sqrt(0.5)
            scale[..., range(added.shape[-1]), range(added.shape[-1])] *= math.sqrt(2)
        squares, n = squares + float(((added / scale) ** 2).sum()), n + added.size
    if not n:
        return Finding(NOISE, True, "only bits, or numbers above a threshold, were released")
    # Entries of a symmetric matrix count twice, and Laplace noise has a kurtosis of 6: 10 times the usual variance.
    z = (squares / n - 1) * math.sqrt(n / 10)
    ok = 2 * float(stats.norm.sf(abs(z))) >= alarms.take()
    words = f"{n:,} released numbers have noise of {math.sqrt(squares / n):.3f} times the scale that was charged for"
    return Finding(NOISE, ok, words, tests=1)


def mechanisms(recording: Recording, *, draws: int, source: NoiseSource, alarms: Alarms) -> list[Finding]:
    """All these checks for the mechanisms of the first three labels of a fit."""
    first = {release.label: release for release in reversed(recording.releases)}
    chosen = list(first.values())[::-1][:3]
    laws = [law(release.noise, draws=draws, source=source, alarms=alarms) for release in chosen]
    # L2-Laplace noise takes too long to be drawn a million times.
    quick = [release for release in chosen if not isinstance(release.noise, L2Laplace)]
    apart = [told_apart(release, draws=draws // 4, source=source, alarms=alarms) for release in quick]
    return [drawn_in(recording, alarms), *laws, *apart]


@cache
def streams(fresh_key: Callable[[], bytes]) -> Finding:
    """Whether threads and forked processes that ask one source for keys ever get the same key; cached by source."""
    fresh_key()  # from now on a careless source has a state

    def keys(_: int) -> list[bytes]:
        return [fresh_key() for _ in range(KEYS)]

    with ThreadPoolExecutor(THREADS) as pool:
        found = [key for some in pool.map(keys, range(THREADS)) for key in some]
    found += _forked(keys) if sys.platform != "win32" else []
    repeated = len(found) - len(set(found))
    words = f"{len(found):,} keys of noise in {THREADS} threads and {FORKS} forked processes: {repeated} twice"
    return Finding(STREAMS, not repeated, words)


def _forked(keys: Callable[[int], list[bytes]]) -> list[bytes]:
    """The keys that forked processes get."""
    context: Any = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the children do nothing but ask for keys
        children = [context.Process(target=lambda: queue.put(keys(0))) for _ in range(FORKS)]
        for child in children:
            child.start()
    found = [key for _ in children for key in queue.get()]
    for child in children:
        child.join()
    return found
