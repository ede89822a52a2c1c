"""Contributions on a grid: exact norms, exact sums, no error that depends on data."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from discreet.errors import PrivacyError
from discreet.privacy import Grid, GridArray, statistics, truncate

any_float = st.floats(allow_nan=True, allow_infinity=True, width=64)
ordinary = st.floats(-1e3, 1e3)


def squares(integers: np.ndarray) -> list[int]:
    """Exact squares of norms, in Python integers."""
    return [sum(int(v) ** 2 for v in row) for row in integers]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    rows=hnp.arrays(np.float64, st.tuples(st.integers(0, 6), st.integers(1, 8)), elements=any_float | ordinary),
    bound=st.floats(0.01, 100),
    exponent=st.integers(-22, -8),
)
def test_no_contribution_exceeds_its_bound(rows: np.ndarray, bound: float, exponent: int) -> None:
    grid = Grid(exponent)
    integers = truncate(rows, bound=bound, grid=grid)
    limit = Fraction(bound) / Fraction(grid.step)
    assert all(square <= limit**2 for square in squares(integers))
    finite = np.where(np.isfinite(rows), rows, 0)
    assert (np.abs(integers) * grid.step * (1 - 1e-15) <= np.abs(finite)).all()
    # the ragged form gives the same
    indptr = np.arange(0, rows.size + 1, rows.shape[1])
    assert (truncate(rows.ravel(), bound=bound, grid=grid, indptr=indptr).reshape(rows.shape) == integers).all()


@settings(max_examples=100, deadline=None, derandomize=True)
@given(rows=hnp.arrays(np.float64, (4, 5), elements=ordinary), scale=st.floats(1e-3, 1e3))
def test_short_rows_keep_their_value_up_to_one_cell(rows: np.ndarray, scale: float) -> None:
    rows = rows * (scale / 1e3)
    bound = max(float(np.sqrt((rows**2).sum(axis=1)).max()) * (1 + 1e-12), 1e-3)
    grid = Grid.for_std(bound)
    integers = truncate(rows, bound=bound, grid=grid)
    assert (np.abs(rows - integers * grid.step) < grid.step * 1.001).all()


def test_the_bound_is_reached() -> None:
    """Add-remove: a user at the bound moves the sum by 99.99% of it at least; replace: opposite users by twice that."""
    grid, bound = Grid.for_std(3.0), 1.7
    user = np.array([[3.0, -4.0, 12.0]])
    units = truncate(user, bound=bound, grid=grid) * grid.step
    assert 0.9999 * bound < math.sqrt((units**2).sum()) <= bound
    other = truncate(-user, bound=bound, grid=grid) * grid.step
    assert 1.9998 * bound < math.sqrt(((units - other) ** 2).sum()) <= 2 * bound


def test_whole_numbers_at_the_bound_are_kept() -> None:
    assert truncate([[1.0, 0.0], [0.0, -1.0]], bound=1, grid=Grid()).tolist() == [[1, 0], [0, -1]]
    assert truncate([[3.0, 4.0]], bound=5, grid=Grid()).tolist() == [[3, 4]]
    assert truncate([[3.0, 4.0]], bound=4.999, grid=Grid()).tolist() == [[2, 3]]


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1))
def test_rows_at_the_very_edge_are_shortened_not_dropped(seed: int) -> None:
    """Rows whose float norm rounds to the bound or an ulp above it."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((200, 3))
    rows /= np.sqrt((rows**2).sum(axis=1, keepdims=True))
    grid = Grid(-26)
    integers = truncate(rows, bound=1.0, grid=grid)
    lengths = squares(integers)
    assert max(lengths) <= 2**52
    assert min(lengths) > 2**52 * (1 - 1e-6)


def test_scaling_that_rounds_up_is_caught() -> None:
    """Whole multiples of a 3-4-5 triangle just over the bound: scaling alone would leave them a unit too long."""
    rows = np.array([[3.0 * k, 4.0 * k] for k in range(1, 4000)])
    for bound in (5.0 * 7, 5.0 * 1000 - 1e-9, 5.0 * 3999):
        integers = truncate(rows, bound=bound, grid=Grid())
        assert max(squares(integers)) <= Fraction(bound) ** 2


def test_empty_and_ragged_rows() -> None:
    assert truncate(np.zeros((3, 0)), bound=1, grid=Grid(-8)).shape == (3, 0)
    assert truncate(np.zeros((0, 3)), bound=1, grid=Grid(-8)).shape == (0, 3)
    assert truncate(np.zeros(0), bound=1, grid=Grid(-8), indptr=[0]).shape == (0,)
    values = np.array([1.0, np.nan, 3.0, np.inf, 1e300])
    integers = truncate(values, bound=1, grid=Grid(-8), indptr=[0, 0, 2, 4, 4, 5])
    assert integers.tolist()[:4] == [256, 0, 256, 0]
    assert truncate(np.ones((2, 3, 4)), bound=1, grid=Grid(-8)).shape == (2, 3, 4)


def test_grids() -> None:
    for std in (1e-9, 0.3, 1.0, 1.999, 2.0, 1e9):
        assert 2**20 <= Grid.for_std(std).units(std) < 2**21
    assert Grid().step == 1


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: Grid(0.5), "exponent"),  # type: ignore[arg-type]
        (lambda: Grid(2000), "exponent"),
        (lambda: Grid.for_std(0), "std"),
        (lambda: truncate([[1.0]], bound=0, grid=Grid()), "bound"),
        (lambda: truncate([[1.0]], bound=math.inf, grid=Grid()), "bound"),
        (lambda: truncate([[1.0]], bound=1, grid=Grid(-31)), "coarser"),
        (lambda: truncate([[1.0]], bound=1, grid=Grid(1)), "finer"),
        (lambda: truncate(1.0, bound=1, grid=Grid()), "row"),
        (lambda: truncate([[1.0]], bound=1, grid=-20), "grid"),  # type: ignore[arg-type]
        (lambda: GridArray(np.zeros(3, np.int64), -3), "statistic"),  # type: ignore[arg-type]
        (lambda: truncate(np.ones(13), bound=20, grid=Grid(), indptr=[1, 7, 13]), "indptr"),
        (lambda: truncate(np.ones(13), bound=20, grid=Grid(), indptr=[0, 7, 12]), "indptr"),
        (lambda: truncate(np.ones(13), bound=20, grid=Grid(), indptr=[0, 14, 13]), "indptr"),
        (lambda: truncate(np.ones(13), bound=20, grid=Grid(), indptr=[]), "indptr"),
        (lambda: GridArray(np.zeros(3), Grid()), "int64"),
        (lambda: GridArray([1, 2], Grid()), "int64"),  # type: ignore[arg-type]
        (lambda: GridArray.of([1.0, 2.0]), "integers"),
        (lambda: GridArray.of(np.array([1], np.uint64)), "uint64"),
    ],
)
def test_bad_public_arguments(call: object, named: str) -> None:
    with pytest.raises(PrivacyError, match=named):
        call()  # type: ignore[operator]


def test_products_of_large_integers_are_added_up_exactly() -> None:
    """Entries of 2^25: float64 has the exact sum of eight products, not of twenty."""
    rows = np.random.default_rng(0).integers(2**25 - 1000, 2**25, (20, 600), endpoint=True)
    expected = rows.T @ rows
    assert not np.array_equal((rows.T.astype(float) @ rows.astype(float)).astype(np.int64), expected)
    gram = np.zeros_like(expected)
    statistics.add_gram(gram, rows, 2**25)
    assert np.array_equal(gram, expected)
    upper = statistics.add_products(np.zeros_like(expected), rows, 2**25, 2)
    statistics.mirror(upper)
    assert np.array_equal(upper, expected)
