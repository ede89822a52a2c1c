"""Every kind of sum over people: exact in integers, and no longer than its sensitivity, whatever people contribute."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from discreet.errors import PrivacyError
from discreet.privacy import (
    Gaussian,
    GramSum,
    Grid,
    MeanSum,
    NormalEquations,
    OuterSum,
    ProductSum,
    SetUnion,
    Statistic,
    UserBatch,
    VectorSum,
    statistics,
    truncate,
)
from discreet.privacy.statistics import MOST_NUMBERS, ROUNDING, EncodedEquations, countable

ITEMS, RANK = 6, 3
HOSTILE = [math.nan, math.inf, -math.inf, 5e-324, -5e-324, -0.0, 1e308, -1e308, 1e-300, 1.0, -1.0, 0.5]

Person = dict[str, Any]


@st.composite
def people(draw: Any) -> Person:
    """One user's row and whatever a contribution is made of: repeated and impossible items, numbers of all kinds."""
    kind = draw(st.sampled_from(["empty", "one", "every", "repeated", "outside", "any"]))
    n = (
        {"empty": 0, "one": 1, "every": ITEMS}.get(kind)
        if kind in ("empty", "one", "every")
        else draw(st.integers(2, 9))
    )
    items = list(range(ITEMS)) if kind == "every" else draw(st.lists(st.integers(0, ITEMS - 1), min_size=n, max_size=n))
    if kind in ("one", "any"):
        items = sorted(set(items))
    if kind == "outside":
        items = [*items[:-1], draw(st.sampled_from([-1, ITEMS, ITEMS + 7]))]
    number = st.sampled_from(HOSTILE) | st.floats(-3, 3)

    def numbers(size: int) -> list[float]:
        return draw(st.lists(number, min_size=size, max_size=size))

    return {
        "items": items,
        "entries": numbers(len(items)),
        "weights": numbers(len(items)),
        "row": numbers(ITEMS),
        "vectors": [numbers(RANK), numbers(RANK)],
    }


@dataclass(frozen=True)
class Case:
    """A statistic, and how a contribution to it is made of people."""

    statistic: Statistic
    contribution: Callable[[list[Person]], Any]
    adjacencies: tuple[str, ...] = ("add-remove", "replace")


def entries(some: list[Person]) -> Any:
    return np.array([value for person in some for value in person["entries"]])


def rows(some: list[Person]) -> Any:
    return np.array([person["row"] for person in some]).reshape(len(some), ITEMS)


def outer(some: list[Person]) -> Any:
    vectors = np.array([vector for person in some for vector in person["vectors"]]).reshape(-1, RANK)
    return entries(some), vectors


def equations(some: list[Person], weighted: bool) -> Any:
    vectors = np.array([person["vectors"][0] for person in some]).reshape(-1, RANK)
    weights = np.array([value for person in some for value in person["weights"]])
    return vectors, entries(some), weights if weighted else None


V = np.linalg.qr(np.random.default_rng(0).standard_normal((ITEMS, 2)))[0]
MEANS = lambda some: rows(some)[:, :3]  # noqa: E731

CASES = {
    "vector of entries": Case(VectorSum(ITEMS, 0.7), entries),
    "nonnegative entries": Case(VectorSum(ITEMS, 0.7, nonnegative=True), entries),
    "rows": Case(VectorSum(ITEMS, 1.3), rows),
    "nonnegative rows": Case(VectorSum(ITEMS, 1.3, nonnegative=True), rows),
    "a number": Case(VectorSum(1, 2.0), lambda some: rows(some)[:, :1]),
    "a nonnegative number": Case(VectorSum(1, 2.0, nonnegative=True), lambda some: rows(some)[:, :1]),
    "Gram of entries": Case(GramSum(ITEMS, 0.9), entries),
    "Gram of entries without a diagonal": Case(GramSum(ITEMS, 0.9, zero_diagonal=True), entries),
    "Gram of rows": Case(GramSum(ITEMS, 2.5), rows),
    "Gram of two rows of each": Case(GramSum(ITEMS // 2, 2.5), rows),
    "outer products": Case(OuterSum((ITEMS, RANK), 0.3), outer),
    "product with a vector": Case(ProductSum(V[:, :1], 1.7), entries),
    "products with vectors": Case(ProductSum(V, 1.7), entries),
    "normal equations": Case(NormalEquations(ITEMS, RANK, 3, 1.1, 2.0, 1.5), lambda s: equations(s, False)),
    "equations of one item each": Case(NormalEquations(ITEMS, RANK, 1, 0.9, 0.25, 0.4), lambda s: equations(s, False)),
    "weighted equations": Case(NormalEquations(ITEMS, RANK, 3, 1.1, 2.0, 2.5, True), lambda s: equations(s, True)),
    "set union": Case(SetUnion(ITEMS, 3), lambda some: entries(some) > 0),
    "means, add-remove": Case(MeanSum((0, 0, 1), "add-remove"), MEANS, ("add-remove",)),
    "means, replace": Case(MeanSum((0, 1, 1), "replace"), MEANS, ("replace",)),
    "means, flip": Case(MeanSum((0, 0, 0), "flip"), MEANS, ("flip",)),
}


def batch_of(some: list[Person]) -> UserBatch:
    items = [item for person in some for item in person["items"]]
    ends = np.cumsum([0, *(len(person["items"]) for person in some)])
    return UserBatch(ends, np.array(items, np.int64), np.zeros(len(items)))


def summed(case: Case, encoder: Any, some: list[Person], cut: int | None = None) -> Any:
    """The statistic of some people in grid units, in one batch or two."""
    total = np.zeros(encoder.shape, np.int64)
    for part in [some] if cut is None else [some[:cut], some[cut:]]:
        encoder.add_batch(total, batch_of(part), case.contribution(part))
    at_once = encoder.encode(batch_of(some), case.contribution(some))
    assert np.array_equal(encoder.add(np.zeros_like(total), at_once, 2), total)
    return encoder.finish(total)


def length(units: Any, grid: Grid) -> float:
    """A length, from the exact square of integers: rounded down by at most its last digit."""
    return math.sqrt(sum(int(value) ** 2 for value in units.ravel())) * grid.step


def calibrated(case: Case, adjacency: Any, mu: float = 0.5) -> tuple[float, Any]:
    sensitivity, noise = case.statistic.calibrated(adjacency, lambda s: Gaussian(s / mu, case.statistic.symmetric))
    return sensitivity, case.statistic.encoder(noise.std)


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_one_person_moves_a_sum_by_their_own_contribution_and_no_more_than_its_sensitivity(
    name: str, data: st.DataObject
) -> None:
    case = CASES[name]
    others, one, another = data.draw(st.lists(people(), max_size=4)), data.draw(people()), data.draw(people())
    at = data.draw(st.integers(0, len(others)))
    for adjacency in case.adjacencies:
        sensitivity, encoder = calibrated(case, adjacency, data.draw(st.sampled_from([0.01, 0.5, 20.0])))
        alone, other = (summed(case, encoder, [person]) for person in (one, another))
        without = summed(case, encoder, others)
        beside = summed(case, encoder, [*others[:at], one, *others[at:]], at)
        assert np.array_equal(beside - without, alone)
        apart = alone if adjacency == "add-remove" else alone - other
        assert length(apart, encoder.grid) <= sensitivity
        if case.statistic.symmetric:
            assert np.array_equal(without, without.swapaxes(-1, -2))


# -- that the bounds are reached, so that no sensitivity is larger than it must be


def person(items: list[int], values: list[float], **more: Any) -> Person:
    some = {"items": items, "entries": values, "weights": [1.0] * len(items)}
    return {**some, "row": [0.0] * ITEMS, "vectors": [[1.0, 0.0, 0.0]] * 2, **more}


def ball(one: Any) -> Person:
    """X with x (x . v) at an end of the ball that it lies in, or near its rim."""
    return person(list(range(ITEMS)), list(one))


WORST = [
    ("vector of entries", person([0, 1], [3.0, 4.0]), person([0, 1], [-3.0, -4.0])),
    ("nonnegative entries", person([0], [9.0]), person([1], [9.0])),
    ("rows", person([], [], row=[2.0] * ITEMS), person([], [], row=[-2.0] * ITEMS)),
    ("nonnegative rows", person([], [], row=[9.0] + [0.0] * 5), person([], [], row=[0.0] * 5 + [9.0])),
    ("a nonnegative number", person([], [], row=[9.0] * ITEMS), person([], [])),
    ("Gram of entries", person([0], [9.0]), person([1], [9.0])),
    ("Gram of rows", person([], [], row=[9.0] + [0.0] * 5), person([], [], row=[0.0, 9.0] + [0.0] * 4)),
    ("outer products", person([0, 2], [3.0, 4.0]), person([0, 2], [-3.0, -4.0])),
    ("product with a vector", ball(9 * V[:, 0]), person([], [])),
    ("equations of one item each", person([2], [9.0]), None),
    ("means, add-remove", person([], [], row=[1.0] * ITEMS), None),
    ("means, replace", person([], [], row=[1.0] * ITEMS), person([], [], row=[0.0] * ITEMS)),
]


@pytest.mark.parametrize(("name", "one", "another"), WORST, ids=[name for name, *_ in WORST])
def test_the_sensitivity_is_reached(name: str, one: Person, another: Person | None) -> None:
    case = CASES[name]
    if "add-remove" in case.adjacencies:
        sensitivity, encoder = calibrated(case, "add-remove")
        assert length(summed(case, encoder, [one]), encoder.grid) >= 0.999 * sensitivity
    if "replace" in case.adjacencies and another is not None:
        sensitivity, encoder = calibrated(case, "replace")
        apart = summed(case, encoder, [one]) - summed(case, encoder, [another])
        # Counts of users are chosen so that adding one costs as much as replacing one: two are not further apart.
        least = 0.7 if isinstance(case.statistic, MeanSum) else 0.999
        assert length(apart, encoder.grid) >= least * sensitivity


def test_replaced_normal_equations_reach_their_sensitivity() -> None:
    """Two people with opposite targets, and vectors at the angle that is worst."""
    for ratio, angle in ((1.0, math.pi / 3), (3.0, math.pi / 2)):
        case = Case(NormalEquations(ITEMS, RANK, 1, 1.0, 1.0, ratio), lambda s: equations(s, False))
        sensitivity, encoder = calibrated(case, "replace")
        largest = 0.0
        for turn in np.linspace(0, math.pi, 181):
            one = person([2], [1.0], vectors=[[1.0, 0.0, 0.0]] * 2)
            another = person([2], [-1.0], vectors=[[math.cos(turn), math.sin(turn), 0.0]] * 2)
            apart = summed(case, encoder, [one]) - summed(case, encoder, [another])
            largest = max(largest, length(apart, encoder.grid))
        assert 0.999 * sensitivity <= largest <= sensitivity, angle


# -- what is enforced, not promised


def test_an_item_that_a_user_has_twice_counts_once() -> None:
    batch = UserBatch(np.array([0, 4, 5]), np.array([2, 1, 2, 9, 2]), np.zeros(5))
    items, counts = countable(batch, 6)
    assert counts is not None
    assert counts.tolist() == [True, True, False, False, True]
    assert items.tolist() == [2, 1, 0, 0, 2]
    assert countable(UserBatch(np.array([0, 2, 2, 3]), np.array([1, 4, 0]), np.zeros(3)), 6)[1] is None
    assert countable(UserBatch(np.array([0, 0]), np.zeros(0, np.int64), np.zeros(0)), 6)[1] is None
    negative = UserBatch(np.array([0, 2]), np.array([-1, 1 << 33]), np.zeros(2))
    assert countable(negative, 6)[1].tolist() == [False, False]
    encoder = VectorSum(6, 10.0).encoder(1.0)
    assert (encoder.encode(batch, np.array([1.0, 2.0, 4.0, 8.0, 16.0])) * encoder.grid.step).round(6).tolist()[
        2
    ] == 11.0
    gram = GramSum(6, 100.0).encoder(1.0)
    repeated = UserBatch(np.array([0, 3]), np.array([0, 2, 2]), np.zeros(3))
    found = gram.finish(gram.encode(repeated, np.array([1.0, 2.0, 4.0]))) * gram.grid.step
    assert found[0, 0] == pytest.approx(1.0)  # what may not count must not replace what does
    assert found[2, 2] == pytest.approx(4.0)


def test_contributions_of_another_form_are_refused() -> None:
    batch = UserBatch(np.array([0, 2]), np.array([0, 1]), np.zeros(2))
    wrong: list[tuple[Statistic, Any, str]] = [
        (VectorSum(3, 1.0), np.zeros((1, 4)), "rows of 3"),
        (VectorSum(3, 1.0), np.zeros((1, 1, 3)), "rows of 3"),
        (GramSum(3, 1.0), np.zeros((1, 4)), "multiple of 3"),
        (OuterSum((3, 2), 1.0), (np.zeros(2), np.ones((2, 3))), "the same number of vectors"),
        (OuterSum((3, 2), 1.0), (np.zeros(2), np.ones((0, 2))), "the same number of vectors"),
        (NormalEquations(3, 2, 1, 1.0, 1.0, 1.0), (np.zeros((1, 3)), np.zeros(2), None), "vectors of 2"),
        (NormalEquations(3, 2, 1, 1.0, 1.0, 1.0), (np.zeros((1, 2)), np.zeros(2), np.ones(2)), "no weights"),
        (NormalEquations(3, 2, 1, 1.0, 1.0, 1.0, True), (np.zeros((1, 2)), np.zeros(2), None), "weights were"),
        (MeanSum((0,), "replace"), np.zeros((1, 2)), "rows of 1"),
    ]
    for adjacency in ("add-remove", "replace"):
        wrong += [(MeanSum((0,), adjacency), np.zeros((2, 1)), "one row for each user")]  # type: ignore[arg-type]
    for n in (0, 2):  # a user's second row would move the sum beyond its sensitivity
        wrong += [(VectorSum(3, 1.0), np.ones((n, 3)), "one row for each user")]
        wrong += [(GramSum(size, 1.0), np.ones((n, size)), "one row for each user") for size in (3, 65, 1025)]
        wrong += [
            (NormalEquations(3, 2, 1, 1.0, 1.0, 1.0), (np.ones((n, 2)), np.zeros(2), None), "one row for each user")
        ]
    for statistic, contribution, why in wrong:
        with pytest.raises(PrivacyError, match=why):
            statistic.encoder(1.0).encode(batch, contribution)


def test_bounds_that_are_none_are_refused() -> None:
    makes: list[Callable[[], Any]] = [
        lambda: VectorSum(0, 1.0),
        lambda: VectorSum(3, math.inf),
        lambda: GramSum(3, 0.0),
        lambda: OuterSum((3, 0), 1.0),
        lambda: OuterSum((3, 1), -1.0),
        lambda: ProductSum(np.ones((3, 1)), 1.0),
        lambda: ProductSum(np.eye(3), math.nan),
        lambda: NormalEquations(3, 2, 0, 1.0, 1.0, 1.0),
        lambda: NormalEquations(3, 2, 1, 1.0, 1.0, math.inf),
        lambda: MeanSum((), "replace"),
        lambda: MeanSum((0, 2), "replace"),
        lambda: MeanSum((0,), "swap"),  # type: ignore[arg-type]
        lambda: MeanSum((0,), "replace").encoder(1e9),
        lambda: VectorSum(3, 1.0).encode(batch_of([person([0], [1.0])]), np.zeros((1, 3))),  # on no grid
    ]
    for make in makes:
        with pytest.raises(PrivacyError):
            make()


@pytest.mark.parametrize("name", CASES)
def test_an_adjacency_without_a_proof_is_refused(name: str) -> None:
    statistic = CASES[name].statistic
    for adjacency in {"add-remove", "replace", "flip", "swap", ""} - set(CASES[name].adjacencies):
        with pytest.raises(PrivacyError, match="adjacency"):
            statistic.sensitivity(adjacency)  # type: ignore[arg-type]


def test_released_right_hand_sides_are_in_a_unit_of_their_own() -> None:
    """A target of `target_bound` times the longest vector, whatever the ratio is."""
    for ratio in (0.3, 2.0):
        statistic = NormalEquations(ITEMS, RANK, 1, 2.0, 5.0, ratio)
        encoder = statistic.encoder(1e-3)
        one = person([2], [5.0], vectors=[[2.0, 0.0, 0.0]] * 2)
        stack = summed(Case(statistic, lambda s: equations(s, False)), encoder, [one]) * encoder.grid.step
        assert stack[2, 0, RANK] * statistic.target_unit == pytest.approx(5.0 * 2.0, rel=1e-3)
        assert stack[2, 0, 0] == pytest.approx(4.0, rel=1e-3)


def test_sums_of_a_row_are_of_that_row() -> None:
    batch = UserBatch(np.array([0, 2, 2, 3]), np.array([0, 1, 0]), np.zeros(3))
    assert batch.row_sums(np.array([1.0, 2.0, 4.0])).tolist() == [3.0, 0.0, 4.0]


# -- exact sums, also where float64 would not be


@pytest.mark.parametrize("size", [40, 1100])  # below and above SMALL
def test_gram_matrices_of_sparse_rows_are_those_of_dense_ones(size: int) -> None:
    rng = np.random.default_rng(0)
    rows = [rng.permutation(size + 2)[:count] - 1 for count in (0, 1, 3, 6)]  # in any order; some are no items
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    items, x = np.concatenate(rows), rng.standard_normal(int(indptr[-1]))
    items[-1] = items[-2]  # twice
    batch, gram = UserBatch(indptr, items, x), GramSum(size, 1.0, few=True).encoder(0.7)
    dense = gram.rows(batch, x)
    assert (gram.scattered(x), gram.scattered(dense)) == (True, False)
    encoded, total = gram.add(np.zeros(gram.shape, np.int64), gram.encode(batch, x), 1), np.zeros(gram.shape, np.int64)
    gram.add_batch(total, batch, x)
    for found in (encoded, total):
        assert np.array_equal(gram.finish(found), dense.T @ dense)


def test_large_gram_matrices_are_the_exact_products_of_rows() -> None:
    """Beyond 1,024 columns threads share one sum."""
    rows, encoder = np.random.default_rng(1).standard_normal((40, 1100)), GramSum(1100, 2.0).encoder(1.0)
    total = np.zeros(encoder.shape, np.int64)
    for part in (rows[:7], rows[7:]):
        users = UserBatch(np.zeros(len(part) + 1, np.int64), np.zeros(0, np.int64), np.zeros(0))
        total = encoder.add(total, encoder.encode(users, part), 2)
    units = truncate(rows, bound=encoder.length, grid=encoder.grids[0])
    assert np.array_equal(encoder.finish(total), units.T @ units)


def test_many_people_at_their_bounds_are_added_up_exactly() -> None:
    """More than 2^14 of them, whose normal equations are no longer exact in float64 if added up at once."""
    n = 17_000
    some = [person([0, 2], [9.0, 9.0])] * n
    for name in ("vector of entries", "product with a vector", "normal equations", "weighted equations"):
        case = CASES[name]
        encoder = case.statistic.encoder(1.0)
        assert np.array_equal(summed(case, encoder, some), n * summed(case, encoder, some[:1]))


def test_equations_of_long_rows() -> None:
    """More users of an item than are gathered at once, with weights."""
    n = 2500
    some = [person([1], [0.5], vectors=[[0.5, 0.25, 0.0]] * 2)] * n
    for name in ("normal equations", "weighted equations"):
        case = CASES[name]
        encoder = case.statistic.encoder(1.0)
        assert np.array_equal(summed(case, encoder, some), n * summed(case, encoder, some[:1]))


def test_encoded_equations_need_no_users() -> None:
    encoder = NormalEquations(ITEMS, RANK, 1, 1.0, 1.0, 1.0).encoder(1.0)
    nobody = encoder.encode(batch_of([]), (np.zeros((0, RANK)), np.zeros(0), None))
    assert isinstance(nobody, EncodedEquations)
    assert not encoder.add(np.zeros(encoder.shape, np.int64), nobody, 1).any()


def test_products_are_refused_where_rounding_could_exceed_their_sensitivity(monkeypatch: pytest.MonkeyPatch) -> None:
    # A row of n entries rounds by n 2^-53; the proof adds up 10 such terms, with columns that are orthonormal as far as
    # float64 can tell.
    assert 20 * MOST_NUMBERS * 2.0**-54 < 2 * ROUNDING
    monkeypatch.setattr(statistics, "MOST_NUMBERS", 12)
    ProductSum(np.eye(6)[:, :2], 1.0)
    with pytest.raises(PrivacyError, match="at most 12 numbers"):
        ProductSum(np.eye(7)[:, :2], 1.0)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.floats(0.001, 0.2), st.integers(1, 60))
@example(0.1, 5)
def test_products_are_not_released_where_their_grid_would_count(mu: float, size: int) -> None:
    statistic = ProductSum(np.eye(size)[:, :1], 1.0)
    sensitivity, noise = statistic.calibrated("replace", lambda s: Gaussian(s / mu))
    assert 1.0 <= sensitivity < 1.0 + 2.0**-20 * max(noise.std, 1.0) * size
    with pytest.raises(PrivacyError, match="drown"):
        statistic.calibrated("replace", lambda s: Gaussian(1e30 if s > statistic.sensitivity("replace") else 1e-9))
