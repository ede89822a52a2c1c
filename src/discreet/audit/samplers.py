"""The noise that a model uses, drawn at length: has it the law that its cost is computed for, and is it drawn once?"""

from __future__ import annotations

import math
import multiprocessing
import sys
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from discreet.audit.distinguishing import Evidence, could, detectable, detectable_epsilon, distinguish
from discreet.audit.findings import Alarms, Finding
from discreet.audit.recording import Recording, Release
from discreet.privacy import Gaussian, Grid, GridArray, L2Laplace, Laplace, RandomizedResponse, SystemNoise
from discreet.privacy.keystream import NoiseSource
from discreet.privacy.noise import Noise
from discreet.typing import Array

NOISE, STREAMS, BLACK_BOX = "noise", "streams", "black box"
BINS, SIDE, FAR, ARRAYS = 200, 40, 4.0, 50
LAGS, COORDINATES = 300, 16
THREADS, FORKS, KEYS = 8, 3, 50
CLAIM = 0.9  # of a claim: what an audit that is not blind proves on the worst case
PURE = 30  # times as many draws, to prove as much about a pure epsilon
AIM = 2.5  # standard deviations apart: where the fewest runs prove the most


def law(noise: Noise, *, draws: int, source: NoiseSource, alarms: Alarms) -> Finding:
    """Whether a mechanism's noise has its law: goodness of fit, variance, tails, correlations, all on its grid."""
    if isinstance(noise, RandomizedResponse):
        return _coins(noise, draws, source, alarms)
    if isinstance(noise, L2Laplace):
        return _lengths(noise, draws, source, alarms)
    grid = noise.grid()
    if isinstance(noise, Gaussian) and noise.symmetric:
        shape: tuple[int, ...] = (max(draws // SIDE**2, 1), SIDE, SIDE)
    else:
        shape = (draws,)
    drawn = noise.add(GridArray(np.zeros(shape, np.int64), grid), source)
    wrong = [] if np.array_equal(drawn / grid.step, np.rint(drawn / grid.step)) else ["it is not on its grid"]
    parts = _parts(noise, drawn)
    tests = [
        (f"{what}{test}", chance)
        for what, part, scale in parts
        for test, chance in _tests(part / scale, isinstance(noise, Laplace))
    ]
    level = alarms.take(len(tests))
    wrong += [test for test, chance in tests if chance < level]
    if len(shape) == 3 and not np.array_equal(drawn, drawn.swapaxes(1, 2)):
        wrong.append("it is not symmetric")
    said = f"{_name(noise)}: {drawn.size:,} draws have the law that is paid for"
    return Finding(NOISE, not wrong, f"{_name(noise)}: {', '.join(wrong)}" if wrong else said, tests=len(tests))


def _name(noise: Noise) -> str:
    if isinstance(noise, RandomizedResponse):
        return f"randomised response of epsilon {noise.bit_epsilon:.4g}"
    if isinstance(noise, Laplace):
        return f"Laplace noise of scale {noise.scale:.4g}"
    if isinstance(noise, L2Laplace):
        return f"noise of density exp(-|x| / {noise.scale:.4g})"
    return f"{'symmetric ' * noise.symmetric}Gaussian noise of std {noise.std:.4g}"


def _parts(noise: Gaussian | Laplace, drawn: Array) -> list[tuple[str, Array, float]]:
    """What has one law each, and its scale."""
    if isinstance(noise, Laplace):
        return [("", drawn, noise.scale)]
    if not noise.symmetric:
        return [("", drawn, noise.std)]
    i, j = np.triu_indices(SIDE, 1)
    parts = {
        "on the diagonal ": drawn[:, range(SIDE), range(SIDE)],
        "above it ": drawn[:, i, j],
        "below it ": drawn[:, j, i],
    }
    return [(what, part.ravel(), noise.std * (1 if "on" in what else math.sqrt(0.5))) for what, part in parts.items()]


def _tests(z: Array, laplace: bool) -> list[tuple[str, float]]:
    """Tests of standardised draws, and the chance that each has if all is well."""
    from scipy import stats

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
        ("draws that follow each other are correlated", 2 * float(stats.norm.sf(abs(lags[0])))),
        ("draws at a distance are correlated", float(stats.chi2.sf((lags**2).sum(), len(lags)))),
        ("coordinates are correlated", float(stats.chi2.sf((pairs**2).sum(), len(pairs)))),
    ]


def _correlations(z: Array) -> tuple[Array, Array]:
    """Of draws at each distance up to LAGS, and of any two of COORDINATES that follow each other, over and over.

    Each is about standard normal if draws are independent, and all of them are uncorrelated.
    """
    n = len(z)
    spectrum = np.fft.rfft(z, n=1 << (n + LAGS).bit_length())
    lags = np.fft.irfft(np.abs(spectrum) ** 2)[1 : LAGS + 1] / np.sqrt(n - np.arange(1, LAGS + 1))
    rows = z[: n // COORDINATES * COORDINATES].reshape(-1, COORDINATES)
    return lags, (rows.T @ rows)[np.triu_indices(COORDINATES, 1)] / math.sqrt(len(rows))


def _lengths(noise: L2Laplace, draws: int, source: NoiseSource, alarms: Alarms) -> Finding:
    """Arrays of noise: their lengths have the gamma law, and numbers over the length of theirs are nearly normal."""
    from scipy import stats

    size = max(draws // ARRAYS, 3)
    grid = noise.grid(size)
    arrays = [noise.add(GridArray(np.zeros(size, np.int64), grid), source) for _ in range(ARRAYS)]
    lengths = np.array([np.linalg.norm(array) for array in arrays])
    tests = [("the lengths are wrong", float(stats.kstest(lengths / noise.scale, stats.gamma(size).cdf).pvalue))]
    z = np.concatenate(arrays) / np.repeat(lengths, size) * math.sqrt(size)
    tests += [test for test in _tests(z, False) if "variance" not in test[0]]  # which was divided out
    level = alarms.take(len(tests))
    wrong = [test for test, chance in tests if chance < level]
    if any((array / grid.step != np.rint(array / grid.step)).any() for array in arrays):
        wrong.append("it is not on its grid")
    said = f"{ARRAYS} arrays of {size:,} numbers have the law that is paid for"
    return Finding(NOISE, not wrong, f"{_name(noise)}: {', '.join(wrong) if wrong else said}", tests=len(tests))


def _coins(noise: RandomizedResponse, draws: int, source: NoiseSource, alarms: Alarms) -> Finding:
    """How often bits are flipped, and what that proves about epsilon, in all four ratios."""
    from scipy.stats import binomtest

    level = alarms.take(2)
    for bit, flip in zip((1, 0), noise._flips(20), strict=True):
        answers = noise.add(GridArray(np.full(draws, bit, np.int64), Grid()), source)
        flipped = int(np.count_nonzero(answers != bit))
        if binomtest(flipped, draws, float(flip)).pvalue < level:
            words = f"{_name(noise)}: of {draws:,} bits of {bit}, {flipped:,} were flipped, not {float(flip):.1%}"
            return Finding(NOISE, False, words, tests=2)
    return Finding(NOISE, True, f"{_name(noise)}: {2 * draws:,} bits were flipped as often as is paid for", tests=2)


def told_apart(release: Release, *, draws: int, source: NoiseSource, alarms: Alarms) -> Finding:
    """Draw a mechanism many times on two numbers as far apart as its sensitivity: what proves that about its cost?"""
    noise, claim = release.noise, release.noise.cost(release.sensitivity)
    assert not isinstance(noise, L2Laplace)
    draws *= 1 if isinstance(noise, Gaussian) else PURE
    tests = 2 if isinstance(noise, Gaussian) else 4  # a bound on each of two rates; for epsilon, in both directions
    level = alarms.take(tests)
    if isinstance(noise, Gaussian):
        name, claimed = "mu", claim.mu or 0.0
        apart = AIM / claimed  # in units of the sensitivity: for a law that is shifted, mu grows as the distance does
        worlds = [_scores(release, bit * apart, draws, source) for bit in (1, 0)]
        proved, least = distinguish(*worlds, level=level).mu / apart, detectable(AIM, draws, level=level) / apart
    else:
        name, claimed = "epsilon", claim.pure if isinstance(noise, Laplace) else noise.bit_epsilon
        apart = 1.0
        if isinstance(noise, Laplace):  # for which epsilon grows as the distance does
            apart = max(1.0, 1 / claimed)
            worlds = [_scores(release, bit * apart, draws, source, apart) for bit in (1, 0)]
        else:
            worlds = [noise.add(GridArray(np.full(draws, bit, np.int64), Grid()), source) for bit in (1, 0)]
        proved = _best_epsilon(worlds, level) / apart
        least = detectable_epsilon(claimed * apart, draws, level=level) / apart
    ok, blind = proved <= claimed, proved < CLAIM * claimed
    words = (
        f"{release.label!r}: told apart {draws:,} times, {name} >= {proved:.4g} is proved, of {claimed:.4g} claimed; "
        f"{could(least)}"
    )
    figures = {"proved": proved, "claimed": claimed, "detectable": least}
    return Finding(BLACK_BOX, ok and not blind, words, figures, tests=tests)


def _scores(release: Release, where: float, draws: int, source: NoiseSource, apart: float = 1.0) -> Array:
    """Log-likelihood ratios, or what orders draws as they do, where the truth is so many sensitivities from 0."""
    noise = release.noise
    assert isinstance(noise, Gaussian | Laplace)
    plain = Gaussian(noise.std) if isinstance(noise, Gaussian) else noise
    grid = plain.grid()
    truth = np.full(draws, math.floor(grid.cells(release.sensitivity * where)), np.int64)
    seen = plain.add(GridArray(truth, grid), source)
    if isinstance(plain, Gaussian):
        return seen
    ratios: Array = (np.abs(seen) - np.abs(seen - release.sensitivity * apart)) / plain.scale
    return ratios


def _best_epsilon(worlds: Sequence[Array], level: float) -> float:
    """The better of the two directions."""
    one, other = (world.astype(np.float64) for world in worlds)
    found = (distinguish(*pair, level=level, by=Evidence.epsilon) for pair in ((one, other), (-other, -one)))
    return max(evidence.epsilon() for evidence in found)


def drawn_in(recording: Recording, alarms: Alarms) -> Finding:
    """Whether what the door added in one fit is the noise that it said: on the grid, everywhere, of the right size."""
    from scipy.stats import norm

    squares, n = 0.0, 0
    for release in recording.releases:
        if isinstance(release.noise, RandomizedResponse):
            continue
        added = release.answer - release.statistic
        if not np.array_equal(added / release.step, np.rint(added / release.step)):
            return Finding(NOISE, False, f"{release.label!r}: what was added is not on the grid of the statistic")
        times = math.sqrt(2) if isinstance(release.noise, Laplace) else 1.0
        if isinstance(release.noise, L2Laplace):
            times = release.noise.std(added.size) / release.scale
        scale = np.full(added.shape, release.scale * times)
        if isinstance(release.noise, Gaussian) and release.noise.symmetric:
            scale *= math.sqrt(0.5)
            scale[..., range(added.shape[-1]), range(added.shape[-1])] *= math.sqrt(2)
        if added.size > 8 and np.count_nonzero(added) < added.size * (1 - 1e-3) - 8:
            return Finding(NOISE, False, f"{release.label!r}: some numbers were released without noise")
        squares, n = squares + float(((added / scale) ** 2).sum()), n + added.size
    if not n:
        return Finding(NOISE, True, "nothing but bits was released")
    # Numbers of a symmetric matrix count twice, and Laplace's have a kurtosis of 6: 10 times the usual variance.
    z = (squares / n - 1) * math.sqrt(n / 10)
    ok = 2 * float(norm.sf(abs(z))) >= alarms.take()
    words = f"{n:,} released numbers have noise of {math.sqrt(squares / n):.3f} times the size that is paid for"
    return Finding(NOISE, ok, words, tests=1)


def mechanisms(
    recording: Recording, *, draws: int, source: NoiseSource, alarms: Alarms, most: int = 3
) -> list[Finding]:
    """All of this for the mechanisms that a fit used: those of the first `most` labels."""
    first = {release.label: release for release in reversed(recording.releases)}
    chosen = list(first.values())[::-1][:most]
    laws = [law(release.noise, draws=draws, source=source, alarms=alarms) for release in chosen]
    # An array of noise with the density of its length takes too long to be drawn a million times.
    quick = [release for release in chosen if not isinstance(release.noise, L2Laplace)]
    apart = [told_apart(release, draws=draws // 4, source=source, alarms=alarms) for release in quick]
    return [drawn_in(recording, alarms), *laws, *apart]


def streams(source: NoiseSource | None = None) -> Finding:
    """Whether threads and forked processes, asking the same source for keys, ever get the same."""
    source = SystemNoise() if source is None else source
    source.fresh_key()  # what a careless source would remember, it remembers now

    def keys(_: int) -> list[bytes]:
        return [source.fresh_key() for _ in range(KEYS)]

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
