"""Noise: secret bits, exact samples of integer distributions, and the mechanisms that add them to a statistic.

The bits are an AES-256-CTR keystream keyed by the operating system. The system's noise source has no state that could
be copied: each release asks it for a fresh 256-bit key. So there is nothing to re-key after a fork, in a worker process
or after unpickling, and threads that release at the same time read the keystreams of different keys.

The sampler is a ziggurat (Marsaglia and Tsang) in which nothing is approximated. A random point is drawn in a stack of
equal-area rectangles that covers the region under the density f. Its coordinates are uniform reals whose first bits are
drawn at once, for a whole block, in float64; every comparison has a proved error band, and the few points that fall
into a band (about one in ten million; for the geometric law also its tail, one in ten thousand) get more bits and are
decided again in arithmetic of growing precision. The result is the integer part of a real number with exactly the
desired law, tails included. docs/proofs/sampler.md has the proof.

`sensitivity` is always the largest change of the statistic between neighboring data sets, under the ledger's unit and
adjacency, in the statistic's own units: L2 for Gaussian noise (Frobenius for a symmetric matrix), L1 for Laplace noise
(L2 for `L2Laplace`), the number of bits for randomized response.
"""

import hashlib
import itertools
import math
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import cache, partial
from typing import Any, ClassVar, NamedTuple, Protocol, Union

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from discreet.errors import PrivacyError, Unbounded
from discreet.parallel import each_block, n_threads
from discreet.privacy.guarantee import Cost, PureEvent
from discreet.typing import Floats, Integers, Words
from discreet.validation import decimal, positive, probability, whole

STD_BITS = 20  # the standard deviation of noise is about 2^20 grid units


# -- what noise is added to: integers on a public grid


@dataclass(frozen=True)
class Grid:
    """The multiples of 2^exponent."""

    exponent: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "exponent", whole("exponent", self.exponent, -1000, 1000))

    @classmethod
    def for_std(cls, std: float) -> "Grid":
        """The grid on which noise of this standard deviation spans 2^20 to 2^21 units."""
        return cls(math.frexp(positive("std", std))[1] - 1 - STD_BITS)

    @property
    def step(self) -> float:
        """A grid unit: the distance between neighbors."""
        return 2.0**self.exponent

    def units(self, length: float) -> float:
        """A length in grid units; exact, since the step is a power of two."""
        return length * 2.0**-self.exponent


@dataclass(frozen=True, eq=False)
class GridArray:
    """An array of multiples of a grid's step, held as int64: the form in which a statistic is released."""

    values: Integers
    grid: Grid
    spare: bool = False  # whether the released array may overwrite the values

    def __post_init__(self) -> None:
        if not isinstance(self.grid, Grid) or not isinstance(self.values, np.ndarray) or self.values.dtype != np.int64:
            kind = getattr(self.values, "dtype", type(self.values).__name__)
            raise PrivacyError(f"statistic: must be int64 units of a Grid, not {kind}; see discreet.privacy.truncate")

    @classmethod
    def of(cls, statistic: "npt.ArrayLike | GridArray") -> "GridArray":
        """A statistic as passed to `release`: a GridArray, or integers (the grid is then 1)."""
        if isinstance(statistic, GridArray):
            return statistic
        array = np.asarray(statistic)
        if array.dtype.kind not in "iub":
            raise PrivacyError(
                f"statistic: must hold integers, not {array.dtype}: put users' contributions on a grid with "
                "discreet.privacy.truncate and add those up, since noise does not protect the low bits of floats"
            )
        if array.dtype == np.uint64:
            raise PrivacyError("statistic: uint64 may overflow int64; convert it where its bound is known")
        return cls(array.astype(np.int64), Grid())


# -- secret bits


_ZEROS = memoryview(bytes(1 << 17))


class Stream:
    """Part `number` of the keystream of `key`: the 2^64 AES blocks whose counter starts with that number.

    Two streams with different keys or different numbers never share a block.
    """

    def __init__(self, key: bytes, number: int = 0) -> None:
        counter = number.to_bytes(8, "big") + bytes(8)
        self._encryptor = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()
        self._process = os.getpid()

    def fill(self, words: Words) -> None:
        """Overwrite a contiguous array with uniform 64-bit words."""
        if self._process != os.getpid():
            raise PrivacyError("a noise stream cannot be used in a forked process: ask the source for a new one")
        view = words.view(np.uint8).data
        for start in range(0, len(view), len(_ZEROS)):
            part = view[start : start + len(_ZEROS)]
            self._encryptor.update_into(_ZEROS[: len(part)], part)

    def words(self, size: int) -> Words:
        """`size` fresh uniform 64-bit words."""
        words = np.empty(size, np.uint64)
        self.fill(words)
        return words

    def __reduce__(self) -> str:
        raise PrivacyError("a noise stream cannot be copied or pickled: its bits must be used once")


class NoiseSource(Protocol):
    """The source of a ledger's noise; unless it is secure, every guarantee says NOT PRIVATE."""

    name: str
    secure: bool

    def fresh_key(self) -> bytes:
        """A key for one release; never the same twice."""


class SystemNoise:
    """The default source: every release gets its own key from the operating system's generator."""

    name = "AES-256-CTR keystream, a key per release from the operating system"
    secure = True

    def fresh_key(self) -> bytes:
        """32 bytes from the operating system."""
        return os.urandom(32)


class InsecureSeededNoise:
    """Reproducible noise, FOR TESTS ONLY: anyone who knows the seed can subtract the noise.

    A ledger that uses it, and every model and statement from that ledger, says NOT PRIVATE.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> from discreet.privacy.noise import InsecureSeededNoise
        >>> ledger = discreet.Ledger(epsilon=1, delta=1e-6, noise_source=InsecureSeededNoise(0))
        >>> discreet.DPALS(epsilon=1, delta=1e-6).fit(ratings, ledger=ledger).guarantee_.holds
        False
    """

    name = "INSECURE seeded noise for tests"
    secure = False

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._count = itertools.count()

    def fresh_key(self) -> bytes:
        """The next key of the sequence that the seed determines."""
        return hashlib.sha256(f"{self.seed}/{next(self._count)}".encode()).digest()


@dataclass
class DeclaredNoise:
    """Randomness that was drawn outside this process: only its owner can vouch that it was secret."""

    name: str  # who drew it, and how, for the record; public
    secure: bool = field(default=True, init=False)

    def fresh_key(self) -> bytes:
        """There is none: it was drawn elsewhere."""
        raise PrivacyError("source: declared noise was drawn elsewhere; it is for `Ledger.charge` only")


def described(source: NoiseSource) -> dict[str, Any]:
    """The record of a source: its name, and whether it is secure."""
    name = getattr(source, "name", None)
    if not isinstance(name, str) or not name.strip() or not hasattr(source, "secure"):
        raise PrivacyError(
            "source: say where the secret randomness comes from: the ledger's noise_source, or DeclaredNoise('...') "
            f"for what was drawn elsewhere, not {source!r}"
        )
    return {"source": name, "secure": source.secure is True}


# -- exact laws

Probability = Callable[[int], Decimal]  # to the number of decimal digits asked for
Scale = Union[float, "RandomScale"]

MAX_SCALE = 2.0**30  # in grid units: above it too many draws would need the slow exact path
BLOCK = 1 << 15  # words worked on at a time: enough that threads seldom wait for each other, few enough for a cache

_LAYERS = 1 << 10
_MANTISSA = 52  # bits of the abscissa drawn at once; with the layer and the sign they fill a 64-bit word
_MARGIN = 1e-9  # safety margin between tables and curve; rounding errors are about 1e-12
_BAND = 1e-10  # half-width of the band in which float64 does not decide whether a point is under the curve
_END = 24  # where the rectangles of the normal law end


def precision(digits: int) -> AbstractContextManager[Context]:
    """Decimal arithmetic with this many digits, whatever the caller's settings are."""
    return localcontext(Context(prec=digits, rounding=ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX))


class _Density(NamedTuple):
    """A decreasing density f on [0, infinity), not normalized, with f(0) = 1."""

    log: Callable[[Floats], Floats]  # log f
    exact: Callable[[Decimal], Decimal]  # f, correctly rounded in the current decimal context
    inverse_log: Callable[[float], float]  # the x at which log f(x) equals the argument
    floor: bool  # the integer is floor(scale x), else the nearest one
    tail: bool  # f is exponential: beyond the base rectangle the law starts again


_NORMAL = _Density(lambda x: -x * x / 2, lambda x: (-x * x / 2).exp(), lambda y: max(-2 * y, 0.0) ** 0.5, False, False)
_EXPONENTIAL = _Density(lambda x: -x, lambda x: (-x).exp(), lambda y: max(-y, 0.0), True, True)


class _Ziggurat(NamedTuple):
    """Rectangles [0, width_i] x [height_i, height_i + area / width_i), all of the same area, stacked from 0 up.

    Invariants (checked by `_build`, re-checked in exact arithmetic by the tests): f(width_i) <= height_i for
    i >= 1, so the stack covers the curve; f(quick_i) >= height_(i+1), so a point left of quick_i is under it.
    """

    density: _Density
    width: Floats
    height: Floats
    quick: Floats  # in units of width / 2^52, rounded down
    start: float  # where the tail starts, if there is one; the area is then (start + 1) f(start), exactly
    area: float  # the exact area otherwise

    def exact_area(self) -> Decimal:
        """The common area, to the precision of the current decimal context."""
        if self.density.tail:
            return (Decimal(self.start) + 1) * self.density.exact(Decimal(self.start))
        return Decimal(self.area)


@cache
def _build(density: _Density) -> _Ziggurat:
    """Find the base for which the stack just reaches f(0) = 1, by bisection."""

    def stack(base: float) -> tuple[list[float], list[float], float, float]:
        area = (base + 1) * math.exp(-base) if density.tail else base
        widths, heights = [base + 1 if density.tail else float(_END)], [0.0]
        while len(widths) < _LAYERS and (height := heights[-1] + area / widths[-1]) < 1:
            heights.append(height)
            widths.append(density.inverse_log(math.log(height) - _MARGIN))
        return widths, heights, area, heights[-1] + area / widths[-1] + (_LAYERS - len(widths))

    # The top of the stack (plus one for each layer left over) grows with the area: find the smallest that reaches 1.
    low, high = (20.0, 1.0) if density.tail else (1e-6, 1.0)  # bases whose areas are too small and too large
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if stack(middle)[3] >= 1 + _MARGIN else (middle, high)
    widths, heights, area, _ = stack(high)
    if len(widths) != _LAYERS:
        raise PrivacyError("noise: the sampler's tables cannot be built on this machine")
    reach = np.array([density.inverse_log(min(math.log(h) + _MARGIN, 0.0)) for h in [*heights[1:], 1.0]])
    if density.tail:
        reach[0] = high  # the base rectangle is under the curve up to where the tail starts, exactly
    quick = np.floor(reach / np.array(widths) * (1 - 1e-15) * 2.0**_MANTISSA)
    return _Ziggurat(density, np.array(widths), np.array(heights), quick, high, area)


class Uniform:
    """A uniform real number in [0, 1) whose binary digits are drawn when they are needed."""

    def __init__(self, stream: Stream, value: int = 0, bits: int = 0) -> None:
        self.stream, self.value, self.bits = stream, value, bits

    def refine(self, bits: int) -> None:
        """Make at least `bits` digits known."""
        while self.bits < bits:
            self.value = (self.value << 64) | int(self.stream.words(1)[0])
            self.bits += 64

    def decimal(self) -> Decimal:
        """Its value, up to 2^-bits, in the current decimal context."""
        return Decimal(self.value) / Decimal(1 << self.bits)


def _under_curve(zig: _Ziggurat, layer: int, across: Uniform, up: Uniform) -> bool:
    """Whether the point is under the density: exact, drawing as many digits as the answer takes."""

    def share(digits: int) -> Decimal:
        """How much of the rectangle, at this abscissa, is under the density."""
        across.refine(4 * digits)
        area, widths = zig.exact_area(), [Decimal(w) for w in zig.width[: layer + 1].tolist()]
        height = sum((area / w for w in widths[:-1]), Decimal(0))
        return (zig.density.exact(widths[-1] * across.decimal()) - height) * widths[-1] / area

    return _below(up, share)


class _Real(NamedTuple):
    """The real number offset + factor * uniform."""

    offset: Fraction
    factor: Fraction
    uniform: Uniform

    def bounds(self, bits: int) -> list[Fraction]:
        """Lower and upper bounds, from at least this many bits of the uniform."""
        self.uniform.refine(bits)
        ends = (Fraction(self.uniform.value + end, 1 << self.uniform.bits) for end in (0, 1))
        return sorted(self.offset + self.factor * end for end in ends)

    def decimal(self, digits: int) -> Decimal:
        """Its value to this many digits, in the current decimal context."""
        low, _ = self.bounds(4 * digits)
        return Decimal(low.numerator) / Decimal(low.denominator)


def _integer(scale: Scale, real: _Real, floor: bool) -> int:
    """The integer that scale * real falls on: exact, for floor laws the floor, else the nearest."""
    bits = real.uniform.bits
    while True:
        ends = scale.bounds(bits) if isinstance(scale, RandomScale) else [Fraction(scale)] * 2
        products = (a * b for a, b in zip(ends, real.bounds(bits), strict=True))
        low, high = (math.floor(product + Fraction(not floor, 2)) for product in products)
        if low == high:
            return low
        bits += 64


def _draw(zig: _Ziggurat, stream: Stream) -> _Real:
    """One draw of the law, without the sign: draws points until one is under the curve."""
    real = None
    while real is None:
        word = int(stream.words(1)[0])
        quick = word >> (64 - _MANTISSA) < zig.quick[word % _LAYERS]
        real = _exact(zig, stream, word, None if quick else Uniform(stream))
    return real


def _exact(zig: _Ziggurat, stream: Stream, word: int, up: Uniform | None) -> _Real | None:
    """Finish a point that float64 could not decide: its abscissa, or None if it is above the curve.

    `up` is the ordinate within the rectangle, None for a point that is known to be under the curve.
    """
    layer, across = word % _LAYERS, Uniform(stream, word >> (64 - _MANTISSA), _MANTISSA)
    if zig.density.tail and layer == 0 and up is not None:
        if not _below(across, lambda _: Decimal(zig.start) / (Decimal(zig.start) + 1)):
            # The exponential law has no memory: beyond `start` it is a fresh draw, that much further out.
            again = _draw(zig, stream)
            return again._replace(offset=again.offset + Fraction(zig.start))
        up = None  # left of the tail the base rectangle is all under the curve
    elif layer == 0 and up is not None and 2 * across.value >= 1 << across.bits and not _below(up, _corner):
        far = _draw(_build(_EXPONENTIAL), stream)
        keep = _below(Uniform(stream), lambda digits: (-((far.decimal(digits) / _END) ** 2) / 2).exp())
        return _Real(_END + far.offset / _END, far.factor / _END, far.uniform) if keep else None
    if up is not None and not _under_curve(zig, layer, across, up):
        return None
    return _Real(Fraction(0), Fraction(float(zig.width[layer])), across)


def _corner(_: int) -> Decimal:
    """Where the corner [12, 24) x [this, 1) of the base rectangle, far above the curve, has the area exp(-288) / 24.

    That is the area under exp(-288 - 24 (x - 24)), which covers the normal curve beyond x = 24. A point of the corner
    stands for one there: x = 24 + E / 24, E exponential, under the curve with probability exp(-(E / 24)^2 / 2).
    """
    return 1 - 2 * _NORMAL.exact(Decimal(_END)) / (_END * _build(_NORMAL).exact_area())


class RandomScale(NamedTuple):
    """The real number scale * sqrt(2 gamma)."""

    scale: float
    gamma: _Real

    def bounds(self, bits: int) -> list[Fraction]:
        """Lower and upper bounds, from about this many bits."""
        ends = (max(math.floor(2 * end * 4**bits), 0) for end in self.gamma.bounds(bits + 64))
        return [Fraction(self.scale) * Fraction(math.isqrt(end) + k, 1 << bits) for k, end in enumerate(ends)]

    def __float__(self) -> float:
        bits = 128
        while (ends := self.bounds(bits))[1] > ends[0] * (1 + Fraction(1, 1 << 60)):
            bits *= 2
        return float(ends[0])


def random_scale(scale: float, size: int, stream: Stream) -> RandomScale:
    """The standard deviation for which `size` normal numbers together have the density exp(-|x| / scale), |x| in L2.

    Fewer than three numbers get the scale for three. Gamma has the density f(x) = x^mode exp(-x): rejection from an
    exponential law to both sides of the mode, since log f(mode + t) - log f(mode) <= -t^2 / (2 (mode + |t|)) <= 2 - |t|
    / width.
    """
    mode, width = Fraction(max(size, 3) - 1, 2), math.isqrt(max(size, 3)) + 2
    while True:
        far, sign = _draw(_build(_EXPONENTIAL), stream), 1 - 2 * (int(stream.words(1)[0]) & 1)

        def chance(digits: int, far: _Real = far, sign: int = sign) -> Decimal:
            with precision(3 * digits):
                m, t = Decimal(mode.numerator) / Decimal(mode.denominator), far.decimal(3 * digits)
                x = m + sign * width * t
                return (m * (x / m).ln() - (x - m) + t - 2).exp() if x > 0 else Decimal(0)

        if _below(Uniform(stream), chance):
            away = sign * width
            return RandomScale(scale, _Real(mode + away * far.offset, away * far.factor, far.uniform))


class _Memory(threading.local):
    """A thread's buffers: allocating new ones for each block would cost more than the arithmetic."""

    def __init__(self) -> None:
        self.arrays = np.empty((5, BLOCK))


_memory = _Memory()


def _fill(zig: _Ziggurat, exact: Scale, stream: Stream, out: Integers) -> None:
    """Fill `out`, of at most a block, with independent signed draws; rejected ones are drawn again."""
    scale = float(exact)
    mantissa, value, other, *integers = _memory.arrays[:, : out.size]
    words, index = integers[0].view(np.uint64), integers[1].view(np.int64)
    stream.fill(words)
    mantissa[:] = np.right_shift(words, np.uint64(64 - _MANTISSA), out=other.view(np.uint64)).view(np.int64)
    np.bitwise_and(words.view(np.int64), 2 * _LAYERS - 1, out=index)  # the layer, and above it the sign
    steps = np.concatenate([zig.width, -zig.width]) * (scale * 2.0**-_MANTISSA)
    np.multiply(mantissa, np.take(steps, index, out=other, mode="clip"), out=value)
    if zig.density.floor:
        value -= np.repeat([0.5, -0.5], _LAYERS).take(index)
    with np.errstate(invalid="ignore"):  # values beyond int64 are decided exactly, below
        out[:] = nearest = np.rint(value, out=other)
    value -= nearest
    # These make the integer uncertain: bits not drawn yet and three roundings, each at most 2^-52 of the largest value.
    close = np.abs(value, out=value) > 0.5 - 4 * scale * float(zig.width[0]) * 2.0**-_MANTISSA

    # Points beyond the quick part of their rectangle: draw the ordinate and compare with the curve.
    quick = np.take(np.concatenate([zig.quick, zig.quick]), index, out=other, mode="clip")
    beyond = np.flatnonzero(mantissa >= quick)
    layer = index[beyond] & (_LAYERS - 1)
    width = zig.width.take(layer)
    up = stream.words(beyond.size) >> np.uint64(11)
    ordinate = zig.height.take(layer) + up.astype(np.float64) * (zig.area * 2.0**-53) / width
    gap = np.exp(zig.density.log(mantissa[beyond] * (width * 2.0**-_MANTISSA))) - ordinate
    unsure = np.abs(gap) <= _BAND
    unsure |= (layer == 0) & (zig.density.tail | (up == 2**53 - 1))  # beyond the rectangles
    redo = np.zeros(out.size, bool)
    redo[beyond] = (gap < 0) & ~unsure
    close[beyond] &= ~unsure

    tasks: list[tuple[int, Uniform | None]] = [(i, None) for i in np.flatnonzero(close & ~redo).tolist()]
    tasks += [(int(beyond[j]), Uniform(stream, int(up[j]), 53)) for j in np.flatnonzero(unsure).tolist()]
    for position, ordinate_bits in tasks:
        out[position], redo[position] = _decided(zig, exact, stream, int(words[position]), ordinate_bits)
    if zig.density.floor:
        redo |= (out == 0) & (index >= _LAYERS)  # 0 and -0 are the same integer, so one of them is rejected
    again = np.empty(np.count_nonzero(redo), np.int64)
    if again.size:
        _fill(zig, exact, stream, again)
        out[redo] = again


def _decided(zig: _Ziggurat, exact: Scale, stream: Stream, word: int, ordinate: Uniform | None) -> tuple[int, bool]:
    """A point that float64 could not decide, in exact arithmetic: its integer, and whether it is rejected."""
    real = _exact(zig, stream, word, ordinate)
    integer = 0 if real is None else _integer(exact, real, zig.density.floor)
    return ((-integer if word & _LAYERS else integer) + 2**63) % 2**64 - 2**63, real is None  # wrapped like int64


def _sample(density: _Density, scale: Scale, stream: Stream, out: Integers) -> None:
    if isinstance(scale, float) and not 0 < scale <= MAX_SCALE:
        raise PrivacyError(f"noise: a scale of {scale:g} grid units is outside (0, 2^30]; choose another grid")
    _blocks(lambda part: _fill(_build(density), scale, stream, part), out)


def gaussian(sigma: Scale, stream: Stream, out: Integers) -> None:
    """Fill `out` with independent draws of round(sigma Z), Z standard normal; sigma counts grid units."""
    _sample(_NORMAL, sigma, stream, out)


def two_sided_geometric(scale: float, stream: Stream, out: Integers) -> None:
    """Fill `out` with independent draws of the law proportional to exp(-|k| / scale): exact, not truncated."""
    _sample(_EXPONENTIAL, scale, stream, out)


def bernoulli(probability: Probability, stream: Stream, out: Integers) -> None:
    """Fill `out` with independent coins, 1 with exactly the given probability."""
    with precision(80):
        threshold = int(probability(60) * (1 << 64))

    def toss(part: Integers) -> None:
        words = stream.words(part.size)
        part[:] = words < np.uint64(min(threshold, 2**64 - 1))
        # Within one of the threshold the first 64 bits do not decide.
        for i in np.flatnonzero(np.abs((words - np.uint64(threshold % 2**64)).view(np.int64)) <= 1).tolist():
            part[i] = _below(Uniform(stream, int(words[i]), 64), probability)

    _blocks(toss, out)


def _below(uniform: Uniform, probability: Probability) -> bool:
    """Whether a uniform real is below a probability: exact."""
    digits = 60
    while True:
        uniform.refine(4 * digits)
        with precision(digits + 10):
            gap = probability(digits + 10) - uniform.decimal()
            if abs(gap) > Decimal(10) ** (2 - digits):
                return gap > 0
        digits *= 2


def _blocks(fill: Callable[[Integers], None], out: Integers) -> None:
    for start in range(0, out.size, BLOCK):
        fill(out[start : start + BLOCK])


# -- mechanisms

_SQRT_HALF = math.nextafter(math.sqrt(0.5), 1.0)
_sensitivity = partial(positive, "sensitivity", error=Unbounded)  # without one there is no guarantee


def _plus(
    values: Integers, grid: Grid, law: Callable[[Stream, Integers], None], stream: Stream, key: bytes | None = None
) -> Floats:
    """The values plus noise, in the statistic's own units; block by block, so that the noise stays in the cache.

    With the stream's key, threads fill the blocks, all but the first from a part of the keystream of their own.
    """
    flat, result = values.ravel(), np.empty(values.size)

    def fill(start: int) -> None:
        noise = np.empty(min(values.size - start, BLOCK), np.int64)
        law(Stream(key, start) if key is not None and start else stream, noise)
        noise += flat[start : start + noise.size]
        np.multiply(noise, grid.step, out=result[start : start + noise.size])

    each_block(fill, range(0, values.size, BLOCK), _threads() if key is not None else 1)
    return result.reshape(values.shape)


def _threads() -> int:
    return min(n_threads(-1), 8)  # with more, threads would wait for each other


def _scale(name: str, scale: float, grid: Grid) -> float:
    units = grid.units(positive(name, scale))
    if not 2.0**-20 <= units <= MAX_SCALE:
        raise PrivacyError(f"{name}: {scale:g} is {units:.3g} units of the grid, not in [2^-20, 2^30]: choose another")
    return units


@dataclass(frozen=True)
class Gaussian:
    """round(std Z) on the grid: exactly (sensitivity / std)-Gaussian DP, since rounding is post-processing.

    With `symmetric`, the statistic is a symmetric matrix (or a stack of them, on the last two axes), and only the upper
    triangle is read: the diagonal gets `std`, the rest std / sqrt 2, mirrored. The sensitivity is then that of the full
    matrix in the Frobenius norm.
    """

    kind: ClassVar[str] = "gaussian"
    std: float
    symmetric: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "std", positive("noise.std", self.std))
        object.__setattr__(self, "symmetric", bool(self.symmetric))

    @classmethod
    def for_cost(cls, cost: Cost, *, sensitivity: float, symmetric: bool = False) -> "Gaussian":
        """The least noise that this Gaussian cost pays for."""
        std = _sensitivity(sensitivity) / positive("mu", cost.mu)
        while Cost.of_gaussian(sensitivity, std).gaussian > cost.gaussian:
            std = math.nextafter(std, math.inf)
        return cls(std, symmetric)

    def grid(self) -> Grid:
        """The grid that suits this noise: a standard deviation is about 2^20 units."""
        return Grid.for_std(self.std)

    def cost(self, sensitivity: float) -> Cost:
        """The cost of a release."""
        return Cost.of_gaussian(_sensitivity(sensitivity), self.std)

    def check(self, statistic: GridArray) -> None:
        """Raise if this noise cannot be put on a statistic of this shape and grid."""
        _scale("noise.std", self.std, statistic.grid)
        shape = statistic.values.shape
        if self.symmetric and (len(shape) < 2 or shape[-1] != shape[-2]):
            raise PrivacyError(f"statistic: symmetric noise needs square matrices, not arrays of shape {shape}")

    def add(self, statistic: GridArray, source: NoiseSource) -> npt.NDArray[Any]:
        """The public array, in the statistic's own units."""
        sigma, values, grid = _scale("noise.std", self.std, statistic.grid), statistic.values, statistic.grid
        wide, narrow = (partial(gaussian, scale) for scale in (sigma, sigma * _SQRT_HALF))
        stream = Stream(key := source.fresh_key())
        if not self.symmetric:
            return _plus(values, grid, wide, stream, key)
        n = values.shape[-1]
        upper, place = np.triu(np.ones((n, n), bool), 1), np.diag(np.arange(n))
        diagonal, above = np.arange(n) * (n + 1), np.flatnonzero(upper)
        place[upper] = place.T[upper] = n + np.arange(len(above))
        flat = values.reshape(math.prod(values.shape[:-2]), n * n)
        result, some = flat.view(float) if statistic.spare else np.empty(flat.shape), 1 + 2 * BLOCK // n**2
        diagonals = _plus(flat.take(diagonal, axis=1), grid, wide, stream)

        def fill(at: int) -> None:  # fills as many matrices as fit in the cache, from their own part of the keystream
            rows, own = slice(at, at + some), Stream(key, at) if at else stream
            noisy = [diagonals[rows], _plus(flat[rows].take(above, axis=1), grid, narrow, own)]
            np.concatenate(noisy, axis=1).take(place.ravel(), axis=1, out=result[rows], mode="clip")

        each_block(fill, range(0, len(flat), some), _threads())
        return result.reshape(values.shape)


@dataclass(frozen=True)
class _Pure:
    """Noise with density proportional to exp(-norm / scale), for some norm: epsilon is sensitivity / scale."""

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("noise.scale", self.scale))

    def cost(self, sensitivity: float) -> Cost:
        ratio = Fraction(_sensitivity(sensitivity)) / Fraction(self.scale)
        epsilon = float(ratio)
        return Cost.of(PureEvent(epsilon if decimal(epsilon) >= ratio else math.nextafter(epsilon, math.inf)))


class Laplace(_Pure):
    """The two-sided geometric law, exp(-|k| step / scale), on the grid: exactly (sensitivity / scale)-DP, no delta."""

    kind: ClassVar[str] = "laplace"

    def grid(self) -> Grid:
        return Grid.for_std(self.scale)

    def check(self, statistic: GridArray) -> None:
        _scale("noise.scale", self.scale, statistic.grid)

    def add(self, statistic: GridArray, source: NoiseSource) -> npt.NDArray[Any]:
        law = partial(two_sided_geometric, _scale("noise.scale", self.scale, statistic.grid))
        return _plus(statistic.values, statistic.grid, law, Stream(key := source.fresh_key()), key)


class L2Laplace(_Pure):
    """round(N) on the grid, N with density exp(-|x| / scale), |x| the Euclidean length of the whole array.

    Exactly (sensitivity / scale)-DP, no delta, for L2 sensitivity; rounding is post-processing. Each of n numbers gets
    noise with standard deviation scale sqrt(n + 1), or 2 scale if there are fewer than three.
    """

    kind: ClassVar[str] = "l2-laplace"

    def std(self, size: int) -> float:
        """The standard deviation of the noise on each of `size` numbers."""
        return self.scale * math.sqrt(max(size, 3) + 1)

    def grid(self, size: int = 3) -> Grid:
        return Grid.for_std(self.std(size))

    def check(self, statistic: GridArray) -> None:
        _scale("noise.scale", self.std(statistic.values.size), statistic.grid)

    def add(self, statistic: GridArray, source: NoiseSource) -> npt.NDArray[Any]:
        stream, values, grid = Stream(source.fresh_key()), statistic.values, statistic.grid
        scale = random_scale(grid.units(self.scale), values.size, stream)
        return _plus(values, grid, partial(gaussian, scale), stream)  # the scale draws its digits from the stream, too


@dataclass(frozen=True)
class RandomizedResponse:
    """Each bit (1 if positive, else 0) is flipped by an exact coin: with `epsilon`, at 1 / (1 + e^epsilon).

    Alternatively, `flip_one` and `flip_zero` are the probabilities that a 1 and a 0 are flipped; epsilon is the largest
    of the four log ratios. The sensitivity is the number of bits that may differ between neighbors.
    """

    kind: ClassVar[str] = "randomized-response"
    epsilon: float | None = None
    flip_one: float | None = None
    flip_zero: float | None = None

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", positive("noise.epsilon", self.epsilon))
            if self.flip_one is not None or self.flip_zero is not None:
                raise PrivacyError("noise: give either epsilon, or flip_one and flip_zero")
        else:
            object.__setattr__(self, "flip_one", probability("noise.flip_one", self.flip_one))
            object.__setattr__(self, "flip_zero", probability("noise.flip_zero", self.flip_zero))

    def _flips(self, digits: int) -> tuple[Decimal, Decimal]:
        """The flip probabilities of a 1 and of a 0."""
        if self.flip_one is not None and self.flip_zero is not None:
            return Decimal(self.flip_one), Decimal(self.flip_zero)
        with precision(digits + 5):
            flip = 1 / (1 + Decimal(repr(self.epsilon)).exp())
        return flip, flip

    @property
    def bit_epsilon(self) -> float:
        """The epsilon of one bit, rounded up."""
        if self.epsilon is not None:
            return self.epsilon
        with precision(50):
            one, zero = self._flips(50)
            ratios = ((1 - one) / zero, zero / (1 - one), one / (1 - zero), (1 - zero) / one)
            epsilon = float(max(ratios).ln())
        return math.nextafter(epsilon, math.inf)

    def grid(self) -> Grid:
        """The grid of whole numbers, since bits are whole."""
        return Grid()

    def cost(self, sensitivity: float) -> Cost:
        bits = _sensitivity(sensitivity)
        if bits != int(bits):
            raise Unbounded(f"sensitivity: randomized response counts whole bits, not {bits:g}")
        return Cost.of(PureEvent(self.bit_epsilon), int(bits))

    def check(self, statistic: GridArray) -> None:
        """Raise if the statistic is not on the grid of whole numbers."""
        if statistic.grid != Grid():
            raise PrivacyError("statistic: randomized response takes bits, on the grid of whole numbers")

    def add(self, statistic: GridArray, source: NoiseSource) -> npt.NDArray[Any]:
        """The flipped bits, as int8."""
        bits = statistic.values.ravel() > 0
        stream, flips = Stream(source.fresh_key()), np.empty((2, bits.size), np.int64)
        for k in (0, 1):
            bernoulli(lambda digits, k=k: self._flips(digits)[k], stream, flips[k])  # type: ignore[misc]
        result: npt.NDArray[np.int8] = (bits ^ (np.where(bits, flips[0], flips[1]) > 0)).astype(np.int8)
        return result.reshape(statistic.values.shape)


Noise = Gaussian | Laplace | L2Laplace | RandomizedResponse

# AES-256 of the counters 0 and 1 under the key 0: H and E(K, Y0) of test case 13 in the specification of GCM.
_KNOWN = bytes.fromhex("dc95c078a2408989ad48a21492842087530f8afbc74536b9a963b4f1c4cb738b")


def require_noise() -> None:
    """Raise unless noise of every kind can be drawn on this machine."""
    if Stream(bytes(32)).words(4).tobytes() != _KNOWN:
        raise PrivacyError("the keystream is not that of AES-256-CTR")
    kinds = (Gaussian(1.0), Gaussian(1.0, symmetric=True), Laplace(1.0), L2Laplace(1.0), RandomizedResponse(1.0))
    for noise in kinds:
        drawn = noise.add(GridArray(np.zeros((3, 3), np.int64), noise.grid()), SystemNoise())
        if drawn.shape != (3, 3) or not np.isfinite(drawn).all():
            raise PrivacyError(f"noise of the kind {noise.kind!r} is not finite, or has another shape")
