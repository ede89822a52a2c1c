"""The compiled functions of the trust base give the bits of their twins in NumPy, for whatever is given to them."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import kernels
from discreet.privacy.statistics import MAX_BOUND
from tests.privacy import twins

HOSTILE = [0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, -5e-324, 2.2e-308, 1.7e308, -1.7e308, 1.0, -1.0, 1e-9, 0.1]
number = st.sampled_from(HOSTILE) | st.floats(allow_nan=True, allow_infinity=True) | st.floats(-3, 3)


def ragged(counts: list[int]) -> Any:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@given(
    rows=st.lists(st.lists(number, max_size=7), max_size=6),
    exponent=st.integers(-60, 40),
    limit=st.floats(1, MAX_BOUND) | st.integers(1, MAX_BOUND).map(float),
)
def test_truncate(rows: list[list[float]], exponent: int, limit: float) -> None:
    values, indptr = np.array([x for row in rows for x in row]), ragged([len(row) for row in rows])
    largest = math.floor(Fraction(limit) ** 2)
    found = kernels.truncate(values, indptr, 2.0**exponent, limit, largest)
    assert np.array_equal(found, twins.truncate(values, indptr, 2.0**exponent, limit, largest))
    assert all(sum(int(x) ** 2 for x in found[a:b]) <= largest for a, b in itertools.pairwise(indptr))


@pytest.mark.parametrize("seed", range(20))
def test_truncate_long_rows_at_the_bound(seed: int) -> None:
    """Rows of thousands of entries, scaled to within rounding of the bound, where a last bit decides."""
    rng = np.random.default_rng(seed)
    indptr = ragged(list(rng.integers(0, 3000, 30)))
    values = rng.standard_normal(indptr[-1])
    lengths = np.sqrt(np.maximum(twins.row_sums((values * 1e6).astype(np.int64) ** 2, indptr), 1)) / 1e6
    values *= np.repeat(rng.choice([1 - 1e-15, 1, 1 + 1e-15], len(lengths)) / lengths, np.diff(indptr))
    limit = float(rng.integers(1 << 20, MAX_BOUND))
    largest = math.floor(Fraction(limit) ** 2)
    found = kernels.truncate(values, indptr, 1 / limit, limit, largest)
    assert np.array_equal(found, twins.truncate(values, indptr, 1 / limit, limit, largest))


def test_a_row_that_rounding_leaves_too_long_is_shortened() -> None:
    """The rounds after the first, which rounding alone can hardly reach: with a bound that is said to be less."""
    values, indptr = np.array([1.0, 2.0, 3.0, 0.5]) * (1 << 20), ragged([3, 1])
    for largest in (14 << 40, (14 << 40) - 1, 5, 0):
        found = kernels.truncate(values, indptr, 1.0, float(1 << 30), largest)
        assert np.array_equal(found, twins.truncate(values, indptr, 1.0, float(1 << 30), largest))
    assert not found.any()


@given(
    st.lists(st.lists(st.integers(0, 6) | st.sampled_from([255, 256, 65535, 65536, -1, -(2**32), 2**32]), max_size=5)),
    st.sampled_from([np.uint8, np.uint16, np.uint32, np.int64, np.uint64]),
    st.integers(1, 7) | st.sampled_from([256, 65536, 2**32]),
    st.sampled_from([1, 2]),
)
def test_rising(rows: list[list[int]], kind: Any, size: int, n_jobs: int) -> None:
    least, most = np.iinfo(kind).min, min(np.iinfo(kind).max, 2**40)
    kept = [[x for x in row if least <= x <= most] for row in rows]
    items, indptr = np.array([x for row in kept for x in row], kind), ragged([len(row) for row in kept])
    assert kernels.rising(items, indptr, size, n_jobs) == twins.rising(items, indptr, size)


def test_rising_on_threads() -> None:
    """A single fall, in whatever block it is."""
    indptr, items = np.arange(20_001) * 10, np.tile(np.arange(10, dtype=np.uint16), 20_000)
    assert kernels.rising(items, indptr, 10, 4)
    for at in (1, 99_999, 199_999):
        fallen = items.copy()
        fallen[at] = 0
        assert not kernels.rising(fallen, indptr, 10, 4)
        assert kernels.rising(fallen, np.append(indptr, at)[np.argsort(np.append(indptr, at), kind="stable")], 10, 4)


def hostile(rng: Any, integers: Any) -> Any:
    """Integers of about 2^n as floats of about 1, one in ten of which is anything."""
    floats = integers / float(np.abs(integers).max(initial=1)) * rng.standard_normal(integers.shape)
    return np.where(rng.random(integers.shape) < 0.1, rng.choice(HOSTILE, integers.shape), floats)


def test_sums_by_item() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        indptr, each, k = ragged(list(rng.integers(0, 9, 12))), int(rng.integers(1, 5)), int(rng.integers(1, 20))
        n = int(indptr[-1])
        items, x = rng.integers(0, 6, n).astype(np.uint32), rng.integers(-MAX_BOUND, MAX_BOUND + 1, n)
        vectors = rng.integers(-(1 << 14), (1 << 14) + 1, (12 * each, k))
        a = hostile(rng, vectors), (2.0**-14, 2.0**14, 1 << 28)
        for least, others, shape in ((-math.inf, [], 6), (0.0, [], 6), (-math.inf, [a], (6, k))):
            found, expected = np.ones(shape, np.int64), np.ones(shape, np.int64)
            given: Any = items, indptr, (hostile(rng, x), (2.0**-29, 2.0**29, 1 << 58)), *others
            kernels.add_rows(found, *given, least=least)
            twins.add_rows(expected, *given, least=least)
            assert np.array_equal(found, expected)
        found, expected = np.ones((k, k), np.int64), np.ones((k, k), np.int64)
        given = hostile(rng, vectors).reshape(12, each * k), (2.0**-14, 2.0**14, 1 << 28)
        kernels.add_squares(found, *given)
        twins.add_squares(expected, *given)
        assert np.array_equal(found, expected)
        for kind in (np.uint8, np.uint16, np.uint32, np.int64):
            found = kernels.dense(items.astype(kind), x, indptr, 6)
            assert np.array_equal(found, twins.dense(items, x, indptr, 6))
        once = [rng.permutation(9)[:count] for count in np.diff(indptr)]  # in any order
        items, units = np.concatenate([*once, []]).astype(np.uint32), rng.integers(-(1 << 15), 1 << 15, n)
        found, expected = np.ones((9, 9), np.int64), np.ones((9, 9), np.int64)
        kernels.scatter_gram(items, units, indptr, found)
        twins.scatter_gram(items, units, indptr, expected)
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_normal_equations(weighted: bool) -> None:
    """Up to the largest integers there can be: sums just below 2^53."""
    rng = np.random.default_rng(1)
    for rank in (1, 7, 16, 33):
        indptr = ragged([0, 1, 5, 64, 65, 200])
        n, most = int(indptr[-1]), 1 << 20
        users, vectors = rng.integers(0, 40, n).astype(np.uint32), rng.integers(-most, most + 1, (40, rank))
        targets, weights = rng.integers(-most, most + 1, n), rng.integers(0, 33, n) if weighted else None
        found, expected = (np.zeros((6, rank + 1, rank + 1), np.int64) for _ in range(2))
        kernels.normal_equations(found, indptr, users, vectors, targets, weights=weights, n_jobs=2)
        twins.normal_equations(expected, indptr, users, vectors, targets, weights=weights)
        assert np.array_equal(found, expected)


def test_row_sums_are_in_order() -> None:
    rng = np.random.default_rng(2)
    indptr, entries = ragged([0, 1, 5, 0, 300]), rng.standard_normal(306) * 10.0 ** rng.integers(-20, 20, 306)
    owners = np.repeat(np.arange(5), np.diff(indptr))
    assert np.array_equal(kernels.row_sums(entries, indptr), np.bincount(owners, entries, minlength=5))
    integers = rng.integers(-99, 99, 306)
    assert np.array_equal(twins.row_sums(integers, indptr), kernels.row_sums(integers, indptr).astype(np.int64))
