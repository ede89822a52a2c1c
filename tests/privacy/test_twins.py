"""The compiled functions of the trust base give the bits of their twins in NumPy, for whatever is given to them."""

import dataclasses
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import kernels
from discreet.engine.batches import standing, weights
from discreet.errors import PrivacyError
from discreet.kernels import RowFunction, SharedRows, Table, Total
from discreet.models.als.contributions import item_step, moments
from discreet.privacy import GramSum, OuterSum, ProductSum, VectorSum, statistics
from discreet.privacy.releaser import Encoded
from discreet.privacy.statistics import MAX_BOUND, UserBatch
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


SMALL, LARGE, LONG = (2.0**-14, 2.0**14, 1 << 28), (2.0**-29, 2.0**29, 1 << 58), (2.0**-14, 2.0**14.5, 1 << 29)


def add_given(items: Any, indptr: Any, x: Any, *totals: Total, **given: Any) -> None:
    for rows in SharedRows(indptr, items, x).turns:
        kernels.add_up(rows, None, *totals, x=x, **given)


def test_sums_of_what_is_given() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        indptr, each, k = ragged(list(rng.integers(0, 9, 12))), int(rng.integers(1, 5)), int(rng.integers(1, 20))
        n = int(indptr[-1])
        items = rng.integers(0, 6, n).astype(rng.choice([np.uint8, np.uint16, np.uint32, np.int64]))
        x = hostile(rng, rng.integers(-MAX_BOUND, MAX_BOUND + 1, n))
        vectors = hostile(rng, rng.integers(-(1 << 14), (1 << 14) + 1, (12, each, k)))
        for least in (-math.inf, 0.0):
            found, expected = np.ones(6, np.int64), np.ones(6, np.int64)
            add_given(items, indptr, x, Total(found, LARGE, least=least))
            twins.add_rows(expected, items, indptr, (x, LARGE), least=least)
            assert np.array_equal(found, expected)
        found, expected, squares, gram = (np.ones((m, k), np.int64) for m in (6, 6, k, k))
        totals = Total(found, LARGE, "vectors", SMALL), Total(squares, SMALL, "squares")
        add_given(items, indptr, x, *totals, vectors=vectors, numbers=vectors)
        twins.add_rows(expected, items, indptr, (x, LARGE), (vectors.reshape(-1, k), SMALL), least=-math.inf)
        twins.add_squares(gram, vectors.reshape(12, -1), SMALL)
        assert np.array_equal(found, expected)
        assert np.array_equal(squares, gram)
        once = [rng.permutation(9)[:count] for count in np.diff(indptr)]  # in any order
        items, found, expected = np.concatenate([*once, []]).astype(np.uint32), *np.ones((2, 9, 9), np.int64)
        add_given(items, indptr, x, Total(found, LONG, "pairs"))
        twins.scatter_gram(items, twins.truncate(x, indptr, *LONG), indptr, expected)
        assert np.array_equal(found, expected)


def functions(rng: Any) -> dict[str, RowFunction]:
    """One for each compiled function of a row, over 40 items."""
    k, a = 7, rng.random(40)
    table, prior = (Table.of(rng.standard_normal((40, k)), np.float32) for _ in range(2))
    scale, given = (0.1, 0.7, 2.0), {"prior_count": 2.0, "bias_weight": 0.5, "clip": 0.3, "lift": 10.0}
    return {
        "equal weights": weights(),
        "values": weights(a, rated=True),
        "grades": weights(a, rated=(0.3, 2.0, 0.8, 0.5), scale=scale),
        "deviations": weights(a, scale=scale, penalty=1.5, mean=0.2),
        "moments": moments(scale, 2.0),
        "standing": standing(rng.standard_normal((40, 3)), np.where(a < 0.4, a, 0), a, by_length=True),
        "rated standing": standing(rng.standard_normal((40, 3)), np.where(a < 0.4, a, 0), a, rated=True),
        "graded standing": standing(rng.standard_normal((40, 3)), a, a, rated=(0.3, 2.0, 0.8, 0.5), scale=scale),
        "item step": item_step(scale, (table, prior, rng.standard_normal(40), np.ones(k), a), **given),
    }


@pytest.mark.parametrize("values", [np.float32, np.float64])
@pytest.mark.parametrize("name", functions(np.random.default_rng(0)))
def test_sums_of_what_rows_contribute(name: str, values: Any) -> None:
    """Each way of adding up a function of a row: as its arrays, added up by the twins."""
    rng = np.random.default_rng(3)
    function = functions(rng)[name]
    counts = [0, 1, 5, 40, *rng.integers(0, 30, 150)]
    rows = [np.sort(rng.choice(40, int(count), replace=False)) for count in counts]
    items, indptr = np.concatenate(rows).astype(np.uint8), ragged(counts)
    with np.errstate(over="ignore"):
        given = hostile(rng, rng.integers(-9, 10, len(items))).astype(values)
    batch, k, least = UserBatch(indptr, items, given), function.k, -1e-3
    found = function(batch)
    x = found if function.kind == "items" else found[-1][0] if function.kind == "squares" else found[0]
    place = np.where(np.arange(40) % 3 > 0, np.cumsum(np.arange(40) % 3 > 0) - 1, -1)
    kept = place[items] >= 0
    ends = np.concatenate([[0], np.cumsum(kept)])[indptr]
    several = {"items": ("items", "gram", "pairs"), "squares": ("gram", "vectors")}
    for kind in several.get(function.kind, (function.kind,)):
        m = {"items": (40,), "whole": (k,), "vectors": (40, k)}.get(kind, (int(place.max()) + 1,) * 2)
        total, expected, bound = np.ones(m, np.int64), np.ones(m, np.int64), LARGE if kind == "items" else LONG
        totals, own = [Total(total, bound, kind, SMALL, least)], function
        if kind in ("gram", "pairs"):
            own = dataclasses.replace(function, place=place)
            units = twins.truncate(np.maximum(x[kept], least), ends, *bound)
            twins.scatter_gram(place[items[kept]], units, ends, expected)
        elif kind == "whole":
            flat = np.maximum(found, least).ravel()
            expected += twins.truncate(flat, np.arange(len(rows) + 1) * k, *bound).reshape(-1, k).sum(axis=0)
        else:
            vectors = (found[-1][1] if function.kind == "squares" else found[1], SMALL) if kind == "vectors" else None
            twins.add_rows(expected, items, indptr, (x, bound), vectors, least=least)
        squares, gram = np.ones((k, k), np.int64), np.ones((k, k), np.int64)
        if function.kind == "squares":
            totals.append(Total(squares, LONG, "squares"))
            twins.add_squares(gram, found[0], LONG)
        shared = SharedRows(indptr, items, given)
        for turn in shared.turns:
            kernels.add_up(turn, own, *totals)
        assert np.array_equal(total, expected)
        assert np.array_equal(squares, gram)


def test_a_row_whose_items_repeat_or_do_not_exist_adds_nothing() -> None:
    """Else a bound on its length would not bound what it adds, or something outside of the total would be written."""
    for rows, counted in (([[0, 1], [1, 1], [2, 1], [0, 1, 2]], [0, 3]), ([[3], [0, 3], [1]], [2]), ([[], [255]], [])):
        items, indptr = np.array([item for row in rows for item in row], np.uint8), ragged([len(row) for row in rows])
        total, expected = np.zeros((2, 3), np.int64)
        for turn in SharedRows(indptr, items, np.ones(len(items), np.float32)).turns:
            kernels.add_up(turn, weights(), Total(total, LARGE))
        for i in counted:
            x = twins.truncate(np.full(len(rows[i]), len(rows[i]) ** -0.5), ragged([len(rows[i])]), *LARGE)
            twins.scatter(np.array(rows[i]), x, expected)
        assert np.array_equal(total, expected)
    total = np.zeros(3, np.int64)
    with pytest.raises(ValueError, match="every entry must have a value and a vector"):
        add_given(np.array([3], np.uint8), ragged([1]), np.ones(1), Total(total, LARGE))
    function = dataclasses.replace(weights(np.ones(3)), place=np.array([1, -1, 0]))
    rows, gram = SharedRows(ragged([1]), np.zeros(1, np.uint8), np.ones(1)), Total(np.zeros((2, 2), int), LARGE, "gram")
    with pytest.raises(ValueError, match="place: must rise"):
        kernels.add_up(rows, function, gram)


def test_totals_of_another_shape_are_refused() -> None:
    rng = np.random.default_rng(5)
    rows, made = SharedRows(ragged([1]), np.zeros(1, np.uint8), np.ones(1)), functions(rng)
    for name, shape, kind in (
        ("equal weights", (40, 1), "items"),
        ("equal weights", (40, 2), "gram"),
        ("equal weights", (40, 2), "vectors"),
        ("item step", (40,), "items"),
        ("item step", (40, 8), "vectors"),
        ("item step", (8, 8), "squares"),
        ("moments", (3,), "whole"),
    ):
        with pytest.raises(ValueError, match="total: its shape is not that of what is added to it"):
            kernels.add_up(rows, made[name], Total(np.zeros(shape, np.int64), LARGE, kind))
    for total in (np.zeros(40), np.zeros((40, 2), np.int64)[:, 0]):
        with pytest.raises(ValueError, match="total: a contiguous array of int64"):
            kernels.add_up(rows, weights(), Total(total, LARGE))


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


def test_a_statistic_takes_no_function_of_another_kind() -> None:
    """It would add up numbers that the function does not compute."""
    made = functions(np.random.default_rng(5))
    vector, gram, outer = VectorSum(40, 1.0), GramSum(7, 1.0), OuterSum((40, 7), 1.0)
    large = GramSum(statistics.SMALL + 1, 1.0)
    refused = [(vector, "item step"), (gram, "moments"), (gram, "standing"), (outer, "moments"), (outer, "values")]
    for statistic, name in [*refused, (large, "values"), (ProductSum(np.eye(40)[:, :1], 1.0), "values")]:
        encoder: Any = statistic.encoder(1.0)
        with pytest.raises(PrivacyError, match="takes no compiled function of the kind"):
            Encoded(encoder, made[name]).add_batch(np.zeros(encoder.shape, np.int64), BATCH)
    assert Encoded(vector.encoder(1.0), made["values"])(BATCH).any()


BATCH = UserBatch(ragged([3, 2]), np.array([0, 5, 9, 3, 4], np.uint8), np.arange(1.0, 6.0))
