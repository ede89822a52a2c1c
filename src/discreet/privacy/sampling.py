"""Exact integer noise: round(sigma Z), the two-sided geometric law, and biased coins, many at a time.

The sampler is a ziggurat (Marsaglia and Tsang) in which nothing is approximated. A point is thrown on a stack of
equal-area rectangles that covers the region under the density f. Its coordinates are uniform reals of which the first
bits are drawn at once, for a whole block, in float64; every comparison has a proved error band, and the few points that
fall into a band (about one in ten million; for the geometric law also its tail, one in ten thousand) get more bits and
are decided again in arithmetic of growing precision. What comes out is the integer part of a real number with exactly
the wanted law, tails included. docs/proofs/sampler.md has the proof.
"""

import math
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import NamedTuple, Union

import numpy as np

from discreet.errors import PrivacyError
from discreet.privacy.keystream import Stream
from discreet.typing import Floats, Integers

Probability = Callable[[int], Decimal]  # to the number of decimal digits asked for
Scale = Union[float, "RandomScale"]

MAX_SCALE = 2.0**30  # in grid cells: above it too many draws would need the slow exact path
BLOCK = 1 << 18  # words worked on at a time: enough that threads seldom wait for each other, few enough for a cache

_LAYERS = 1 << 10
_MANTISSA = 52  # bits of the abscissa drawn at once; with the layer and the sign they fill a 64-bit word
_MARGIN = 1e-9  # by which the tables stay on the safe side of the curve, against 1e-12 of rounding
_BAND = 1e-10  # half-width of the band in which float64 does not decide whether a point is under the curve
_END = 24  # of the rectangles of the normal law


def precision(digits: int) -> AbstractContextManager[Context]:
    """Decimal arithmetic of so many digits, whatever the caller's own settings are."""
    return localcontext(Context(prec=digits, rounding=ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX))


class _Density(NamedTuple):
    """A decreasing density f on [0, infinity), not normalised, with f(0) = 1."""

    log: Callable[[Floats], Floats]  # log f
    exact: Callable[[Decimal], Decimal]  # f, correctly rounded in the current decimal context
    inverse_log: Callable[[float], float]  # x with log f(x) = the argument
    floor: bool  # the integer is floor(scale x), else the nearest one
    tail: bool  # f is exponential: beyond the base rectangle it starts again


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
    start: float  # for a tail: where it starts, exactly; the area is then (start + 1) f(start)
    area: float  # else this, exactly

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
    low, high = (20.0, 1.0) if density.tail else (1e-6, 1.0)  # bases of too small and too large an area
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
        """Between which numbers it is, at least so many digits of the uniform being known."""
        self.uniform.refine(bits)
        ends = (Fraction(self.uniform.value + end, 1 << self.uniform.bits) for end in (0, 1))
        return sorted(self.offset + self.factor * end for end in ends)

    def decimal(self, digits: int) -> Decimal:
        """Its value to so many digits, in the current decimal context."""
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
    """One draw of the law, without the sign: throws points until one is under the curve."""
    real = None
    while real is None:
        word = int(stream.words(1)[0])
        quick = word >> (64 - _MANTISSA) < zig.quick[word % _LAYERS]
        real = _exact(zig, stream, word, None if quick else Uniform(stream))
    return real


def _exact(zig: _Ziggurat, stream: Stream, word: int, up: Uniform | None) -> _Real | None:
    """Finish one point that float64 could not: its abscissa, or None if it is above the curve.

    `up` is the ordinate within the rectangle, None for a point that is known to be under the curve.
    """
    layer, across = word % _LAYERS, Uniform(stream, word >> (64 - _MANTISSA), _MANTISSA)
    if zig.density.tail and layer == 0 and up is not None:
        if not _below(across, lambda _: Decimal(zig.start) / (Decimal(zig.start) + 1)):
            # An exponential law forgets: beyond `start` it is a fresh draw, that much further out.
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
        """Between which numbers it is, about so many digits being known."""
        ends = (max(math.floor(2 * end * 4**bits), 0) for end in self.gamma.bounds(bits + 64))
        return [Fraction(self.scale) * Fraction(math.isqrt(end) + k, 1 << bits) for k, end in enumerate(ends)]

    def __float__(self) -> float:
        bits = 128
        while (ends := self.bounds(bits))[1] > ends[0] * (1 + Fraction(1, 1 << 60)):
            bits *= 2
        return float(ends[0])


def random_scale(scale: float, size: int, stream: Stream) -> RandomScale:
    """The standard deviation with which `size` normal numbers together have the density exp(-|x| / scale), |x| in L2.

    For fewer than three, that of three. Gamma has the density f(x) = x^mode exp(-x): rejection from an exponential law
    to both sides of the mode, since log f(mode + t) - log f(mode) <= -t^2 / (2 (mode + |t|)) <= 2 - |t| / width.
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
    """Where a thread works on a block: fresh pages of memory for each would cost more than the arithmetic."""

    def __init__(self) -> None:
        self.arrays = np.empty((5, BLOCK))


_memory = _Memory()


def _fill(zig: _Ziggurat, exact: Scale, stream: Stream, out: Integers) -> None:
    """Fill `out`, of at most a block, with independent signed draws; what is rejected is drawn again."""
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
    with np.errstate(invalid="ignore"):  # beyond int64 nothing is sure, below
        out[:] = nearest = np.rint(value, out=other)
    value -= nearest
    # Not sure of the integer: the bits not drawn yet and three roundings, each 2^-52 of the largest value at most.
    close = np.abs(value, out=value) > 0.5 - 4 * scale * float(zig.width[0]) * 2.0**-_MANTISSA

    # Points beyond the quick part of their rectangle: throw the ordinate and compare with the curve.
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
        real = _exact(zig, stream, int(words[position]), ordinate_bits)
        redo[position] = real is None
        integer = 0 if real is None else _integer(exact, real, zig.density.floor)
        out[position] = ((-integer if index[position] >= _LAYERS else integer) + 2**63) % 2**64 - 2**63  # as int64 adds
    if zig.density.floor:
        redo |= (out == 0) & (index >= _LAYERS)  # there is one zero, not two
    again = np.empty(np.count_nonzero(redo), np.int64)
    if again.size:
        _fill(zig, exact, stream, again)
        out[redo] = again


def _sample(density: _Density, scale: Scale, stream: Stream, out: Integers) -> None:
    if isinstance(scale, float) and not 0 < scale <= MAX_SCALE:
        raise PrivacyError(f"noise: a scale of {scale:g} grid cells is outside (0, 2^30]; choose another grid")
    _blocks(lambda part: _fill(_build(density), scale, stream, part), out)


def gaussian(sigma: Scale, stream: Stream, out: Integers) -> None:
    """Fill `out` with independent draws of round(sigma Z), Z standard normal; sigma counts grid cells."""
    _sample(_NORMAL, sigma, stream, out)


def two_sided_geometric(scale: float, stream: Stream, out: Integers) -> None:
    """Fill `out` with independent draws of the law proportional to exp(-|k| / scale): exactly, no cut."""
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
