"""DPALS: its guarantee, its bounds, and that it learns."""

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import discreet
from discreet.data import Interactions
from discreet.engine.batches import parts, standing
from discreet.errors import BudgetExceeded, DataError, NotPublic, PrivacyError
from discreet.models.als import training
from discreet.models.als.contributions import (
    BIAS,
    EXTENSION,
    FOLDS,
    GRAM,
    PAIRS,
    RESIDUALS,
    SECOND_MOMENT,
    STEP,
    USER_CHOICES,
    USER_VECTOR,
    USERS,
    ItemStep,
    Scale,
    own_moments,
    own_residuals,
    settings,
)
from discreet.models.als.estimate import ItemPosterior
from discreet.models.als.model import DPALS
from discreet.models.als.moments import MAGNITUDES
from discreet.models.als.training import PARTS
from discreet.models.base import Model
from discreet.privacy import Cost
from discreet.privacy.statistics import UserBatch
from discreet.testing import InsecureSeededNoise, ModelConformance
from tests.models.replay import moved, record, replay

DELTA = 1e-6


def seeded(epsilon: float, seed: int = 1, **settings: Any) -> discreet.Ledger:
    return discreet.Ledger(epsilon=epsilon, delta=DELTA, noise_source=InsecureSeededNoise(seed), **settings)


class TestDPALS(ModelConformance):
    n_users = 600
    implicit = False

    def model(self, **params: Any) -> Model:
        return DPALS(**{"epsilon": 50.0, "delta": DELTA, "n_users_hint": 600, **params})

    def fit(self, model: Model, ratings: Interactions) -> Model:
        return model.fit(ratings, ledger=seeded(model.get_params()["epsilon"]))


def world(n_users: int, n_items: int, *extra: tuple[str, dict[int, float]], polar: bool = False) -> Interactions:
    """Some ordinary users, and extraordinary ones; in a polar world all ordinary users like the odd items alone."""
    rng = np.random.default_rng(0)
    rows = [
        (f"user {user:04}", int(item), (5.0 if item % 2 else 1.0) if polar else float(rng.integers(1, 6)))
        for user in range(n_users)
        for item in rng.choice(n_items, 12, replace=False)
    ]
    rows += [(name, item, rating) for name, history in extra for item, rating in history.items()]
    return discreet.read(rows, items=list(range(n_items)), value_range=(1, 5))


GIANT = ("giant", {item: 5.0 if item % 2 else 1.0 for item in range(600)})
HATER = ("one", {**dict.fromkeys(range(600), 1.0), 0: 1.5})  # all but alike: the longest moments that there are
FAN = ("fan", dict.fromkeys(range(300), 5.0))
CRITIC = ("fan", dict.fromkeys(range(300, 600), 1.0))
ONE_STAR, FIVE_STARS = ("one", {7: 1.0}), ("one", {7: 5.0})
STRIPES = ("giant", {item: 5.0 if item // 2 % 2 else 1.0 for item in range(600)})
MIRROR = ("giant", {item: 1.0 if item % 2 else 5.0 for item in range(600)})


def fractions(monkeypatch: Any, adjacency: Any, n_items: int, pairs: list[tuple[Any, Any]]) -> dict[str, float]:
    """The furthest that any of the pairs of neighbors moves each statistic."""
    furthest: dict[str, float] = {}

    def make() -> DPALS:
        return DPALS(epsilon=3.0, delta=DELTA, adjacency=adjacency, n_users_hint=100_000, n_steps=2)

    for before, after in pairs:
        data, neighbor = (world(40, n_items, *extra) for extra in (before, after))
        for label, share in replay(monkeypatch, make, data, neighbor, adjacency=adjacency).items():
            furthest[label] = max(furthest.get(label, 0.0), share)
    return furthest


ENOUGH = "discreet.models.als.training.COMMON", 1.0  # users for directions to be looked for, if there are 40


@pytest.mark.parametrize("n_items", [600, 399])  # directions of co-occurrences, and of residuals
def test_one_person_moves_each_statistic_by_its_bound_and_no_more(monkeypatch: Any, n_items: int) -> None:
    monkeypatch.setattr(*ENOUGH)
    extras = [{k: v for k, v in extra[1].items() if k < n_items} for extra in (GIANT, FAN, HATER, FIVE_STARS)]
    found = fractions(monkeypatch, "add-remove", n_items, [((("x", extra),), ()) for extra in extras])
    assert len(found) == 7 + 2 * (n_items == 600)  # no direction is found: that line releases item biases
    assert max(found.values()) <= 1
    assert min(found.values()) >= 0.95, found


@pytest.mark.parametrize("n_items", [600, 399])
def test_replacing_a_person_moves_each_statistic_by_its_bound_and_no_more(monkeypatch: Any, n_items: int) -> None:
    monkeypatch.setattr(*ENOUGH)

    def cut(extra: tuple[str, dict[int, float]]) -> tuple[str, dict[int, float]]:
        return extra[0], {k: v for k, v in extra[1].items() if k < n_items}

    pairs = [(GIANT, MIRROR), (GIANT, STRIPES), (FAN, CRITIC), (ONE_STAR, FIVE_STARS), (HATER, FIVE_STARS)]
    found = fractions(monkeypatch, "replace", n_items, [((cut(a),), (cut(b),)) for a, b in pairs])
    assert max(found.values()) <= 1
    del found[GRAM]  # which has its own worst case, below
    # Moments are nonnegative but never orthogonal: two people differ by less than the sqrt 10 that is charged.
    assert 0.6 <= found.pop(USERS) <= 0.85
    assert min(found.values()) >= 0.95, found


def planned_for_steps(model: DPALS) -> list[str]:
    """What was released under the lines of item steps, and of the second moment, in order."""
    lines = (SECOND_MOMENT, RESIDUALS, GRAM, STEP)
    releases = [one for one in model.statement().certificate["releases"] if one["label"] in lines]
    return [one.get("what") or one["label"] for one in releases]


def grouped(n_users: int, n_items: int) -> list[tuple[str, int, float]]:
    """Half of the users like the odd items alone, the others the even ones."""
    return [
        (f"user {user:04}", item, 5.0 if (user + item) % 2 else 1.0)
        for user in range(n_users)
        for item in range(n_items)
    ]


@pytest.mark.parametrize("continued", [False, True])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_one_person_moves_a_second_moment_that_shows_tastes_by_its_bound(
    monkeypatch: Any, adjacency: Any, continued: bool
) -> None:
    """It is released again in place of item steps, and so is that of weights.

    Two who have no item in common are the furthest apart.
    """
    one, other = (("z", {item: 5.0 if item % 4 < 2 else 1.0 for item in range(at, at + 40)}) for at in (0, 40))

    def data(*extra: tuple[str, dict[int, float]]) -> Interactions:
        rows = grouped(60, 40) + [(name, item, value) for name, own in extra for item, value in own.items()]
        return discreet.read(rows, items=list(range(80)), value_range=(1, 5))

    def make() -> DPALS:
        return DPALS(epsilon=50.0, delta=DELTA, adjacency=adjacency, n_steps=2)

    before = make().fit(data(), ledger=seeded(50.0, adjacency=adjacency)) if continued else None

    def fit(given: Interactions) -> Callable[[Any], Any]:
        if before is None:
            return lambda ledger: make().fit(given, ledger=ledger)
        return lambda ledger: deepcopy(before).fit_more(given, ledger, epsilon=50.0, n_steps=2)

    model = make().fit(data(one), ledger=seeded(50.0, adjacency=adjacency))
    assert planned_for_steps(model) == [SECOND_MOMENT] * 3 + [PAIRS] * 2
    neighbor = [other] if adjacency == "replace" else []
    first = record(monkeypatch, fit(data(one)), None, adjacency=adjacency)
    second = record(monkeypatch, fit(data(*neighbor)), first.answers, adjacency=adjacency)
    found = moved(first, second)
    assert max(found.values()) <= 1
    assert min(found[label] for label in (SECOND_MOMENT, GRAM, STEP)) >= 0.95, found


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_one_person_moves_a_look_for_tastes_among_frequent_items_by_its_bound(monkeypatch: Any, adjacency: Any) -> None:
    """And so they do what is released under the line of an item step, if the first one and the look show nothing else.

    Two who have no item in common are the furthest apart.
    """
    one, other = (("z", {item: 5.0 if item % 4 < 2 else 1.0 for item in range(at, at + 20)}) for at in (0, 20))
    monkeypatch.setattr(ItemPosterior, "probed", lambda *given: [0.0] * len(given[-1]))

    def data(*extra: tuple[str, dict[int, float]]) -> Interactions:
        rows = grouped(60, 40) + [(name, item, value) for name, own in extra for item, value in own.items()]
        return discreet.read(rows, items=list(range(401)), value_range=(1, 5))

    def make() -> DPALS:
        return DPALS(epsilon=50.0, delta=DELTA, adjacency=adjacency, n_steps=3, n_users_hint=60)

    model = make().fit(data(one), ledger=seeded(50.0, adjacency=adjacency))
    thirds = [GRAM, STEP] * PARTS
    assert planned_for_steps(model) == [RESIDUALS, GRAM, STEP, RESIDUALS, PAIRS, *thirds]
    neighbor = [other] if adjacency == "replace" else []
    found = replay(monkeypatch, make, data(one), data(*neighbor), adjacency=adjacency)
    assert max(found.values()) <= 1
    assert min(found[label] for label in (RESIDUALS, GRAM, STEP)) >= 0.95, found


def test_strong_tastes_are_found_among_frequent_items() -> None:
    """Where few have much in common, random columns find nothing: item steps begin with what is frequent."""
    rng, (n, m, k) = np.random.default_rng(0), (3000, 600, 40)
    chance = 1 / (10 + np.arange(m))
    users = np.repeat(np.arange(n), k)
    items = np.concatenate([rng.choice(m, k, replace=False, p=chance / chance.sum()) for _ in range(n)])
    likes = (rng.standard_normal((n, 3))[users] * rng.standard_normal((m, 3))[items]).sum(axis=1)
    rated = {"user": users, "item": items, "value": np.clip(likes + rng.normal(0, 0.5, len(users)), -5, 5)}
    ratings = discreet.read(pa.table(rated), items=list(range(m)), value_range=(-5, 5))
    train, _, test = discreet.splits.holdout(ratings, test=0.1, random_state=0)
    errors = []
    for found in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(training, "STRONG_TASTES", 1 / 4 if found else 1)
            model = DPALS(epsilon=2.0, delta=DELTA).fit(train, ledger=seeded(2.0))
        assert (RESIDUALS in planned_for_steps(model)[1:]) == found
        errors.append(np.sqrt(np.mean((model.predict(train, test) - test.values) ** 2)))
    assert errors[0] < 0.8 * errors[1]


def test_what_would_show_no_tastes_makes_way_for_biases(monkeypatch: Any) -> None:
    """Too few people: the line of the second moment releases biases again, and item steps are made."""
    data = world(300, 40)
    model = DPALS(epsilon=2.0, delta=DELTA, n_steps=2).fit(data, ledger=seeded(2.0))
    assert planned_for_steps(model) == [BIAS] + [GRAM, STEP] * 2
    found = replay(
        monkeypatch,
        lambda: DPALS(epsilon=2.0, delta=DELTA, n_steps=2),
        world(300, 40, ("x", {7: 1.0, 8: 5.0})),
        data,
        adjacency="add-remove",
    )
    assert max(found.values()) <= 1


def test_going_on_pools_what_shows_tastes() -> None:
    """Noise that hides tastes in each month does not hide them in all."""
    ratings = discreet.datasets.synthetic_low_rank(3000, 60, 3, random_state=0)
    train, _, test = discreet.splits.holdout(ratings, valid=0, test=0.1, random_state=0)

    def error(model: Any) -> float:
        return float(np.sqrt(np.mean((model.predict(train, test) - test.values) ** 2)))

    ledger = discreet.Ledger(delta=DELTA, noise_source=InsecureSeededNoise(1))
    model = DPALS(epsilon=1.0, delta=DELTA).fit(train, ledger=ledger)
    before = error(model)
    model.fit_more(train, ledger)
    model.fit_more(train, ledger)
    assert error(model) < 0.8 * before
    assert (
        model.known_residuals_scale_[0]
        < 0.7 * DPALS(epsilon=1.0, delta=DELTA).fit(train, ledger=seeded(1.0)).known_residuals_scale_[0]
    )


@pytest.mark.parametrize("continued", [False, True])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_where_people_stand_on_directions_moves_by_its_bound_and_no_more(
    monkeypatch: Any, adjacency: Any, continued: bool
) -> None:
    """Two kinds of users, who have few items in common: directions are found, and a person has a place on them.

    The furthest apart are two who have the same rare items, and otherwise items of opposite kinds.
    """
    monkeypatch.setattr(*ENOUGH)
    rare = dict.fromkeys(range(600, 800), 3.0)
    one, other = (("z", {**dict.fromkeys(range(first, first + 10), 3.0), **rare}) for first in (0, 300))

    def kinds(*extra: tuple[str, dict[int, float]]) -> Interactions:
        rng = np.random.default_rng(0)
        rows = [
            (f"user {user:04}", int(item) + 300 * (user % 2), float(rng.integers(1, 6)))
            for user in range(400)
            for item in rng.choice(300, 30, replace=False)
        ]
        rows += [(f"user {user:04}", item, 3.0) for user in range(400) for item in range(800, 810)]
        rows += [(name, item, rating) for name, history in extra for item, rating in history.items()]
        return discreet.read(rows, items=list(range(810)), value_range=(1, 5))

    def make() -> DPALS:
        return DPALS(epsilon=50.0, delta=DELTA, adjacency=adjacency, n_users_hint=100_000, n_steps=1)

    before = make().fit(kinds(), ledger=seeded(50.0, adjacency=adjacency)) if continued else None

    def fit(data: Interactions) -> Callable[[Any], Any]:
        if before is None:
            return lambda ledger: make().fit(data, ledger=ledger)
        return lambda ledger: deepcopy(before).fit_more(data, ledger, epsilon=50.0, n_steps=1)

    neighbor = [other] if adjacency == "replace" else []
    first = record(monkeypatch, fit(kinds(one)), None, adjacency=adjacency)
    second = record(monkeypatch, fit(kinds(*neighbor)), first.answers, adjacency=adjacency)
    found = moved(first, second)
    assert max(found.values()) <= 1
    assert found[EXTENSION] >= 0.95


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_where_there_are_few_users_other_lines_release_biases(monkeypatch: Any, adjacency: Any) -> None:
    """One person moves each of them by all of its sensitivity, and the certificate says what they were."""
    fits: list[DPALS] = []

    def make() -> DPALS:
        fits.append(DPALS(epsilon=3.0, delta=DELTA, adjacency=adjacency, n_users_hint=100_000, n_steps=1))
        return fits[-1]

    neighbor = world(40, 600, *([MIRROR] if adjacency == "replace" else []))
    moved = replay(monkeypatch, make, world(40, 600, GIANT), neighbor, adjacency=adjacency)
    spared = {SECOND_MOMENT, EXTENSION, RESIDUALS}
    assert max(moved.values()) <= 1
    assert min(moved[label] for label in spared) >= 0.95, moved
    certificate = fits[0].statement().certificate
    assert {release["label"] for release in certificate["releases"] if release.get("what") == BIAS} == spared


@pytest.mark.parametrize("n_items", [600, 399])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_lines_that_release_moments_again_move_by_their_bound_and_no_more(
    monkeypatch: Any, adjacency: Any, n_items: int
) -> None:
    """All lines of item steps, and that of residuals."""
    monkeypatch.setattr(training, "TOLERANCE", 0.0)
    again = [GRAM, STEP] * PARTS + [SECOND_MOMENT if n_items <= 400 else RESIDUALS]

    def make() -> DPALS:
        return DPALS(epsilon=1.0, delta=DELTA, adjacency=adjacency, n_users_hint=100_000, n_steps=1)

    hater = ("x", {k: v for k, v in HATER[1].items() if k < n_items})
    data, neighbor = world(5, n_items, hater), world(5, n_items, *[("x", {7: 5.0})] * (adjacency == "replace"))
    ledger = seeded(1.0, adjacency=adjacency)
    model = make().fit(data, ledger=ledger)
    assert [event.body["label"] for event in ledger.events if event.body.get("what") == USERS] == again
    assert sum((event.cost for event in ledger.events), Cost()).within(model.plan(n_items).cost)
    found = replay(monkeypatch, make, data, neighbor, adjacency=adjacency)
    assert max(found.values()) <= 1
    # Moments are never orthogonal: two people differ by less than the sqrt 10 that is charged.
    assert min(found[label] for label in again) >= (0.95 if adjacency == "add-remove" else 0.6), found


def test_moments_take_the_lines_of_items_only_where_there_are_too_few_people() -> None:
    """Part of a step: what is left of it is made in parts."""
    taken = []
    for n, each in ((300, 6), (1000, 80), (20_000, 6)):
        data, ledger = discreet.datasets.movielens_like(n, 500, n * each, random_state=0), seeded(1.0)
        DPALS(epsilon=1.0, delta=DELTA).fit(data, ledger=ledger)
        labels = [event.body["label"] for event in ledger.events if event.body.get("what") == USERS]
        taken.append(labels.count(STEP))
        steps = [event for event in ledger.events if event.label == STEP and not event.body.get("what")]
        assert len(steps) == (5 if not taken[-1] else 5 - math.ceil(taken[-1] / PARTS) + -taken[-1] % PARTS)
    assert taken[0] > 0
    assert taken[1:] == [0, 0]


def test_the_magnitude_of_a_spread_has_one_place() -> None:
    """Variances from 4^-(k + 1) to below 4^-k are at place k; ratings that are all the same have none."""
    halves = [1.0, 0.5, 0.5 - 2**-20, 0.25, 2**-10, 2**-40, 0.0]  # standard deviations, over half the range
    rows = [value for half in halves for value in (half, -half)]
    batch = UserBatch(
        np.arange(0, 2 * len(halves) + 1, 2), np.tile([0, 1], len(halves)).astype(np.uint8), np.array(rows)
    )
    moments = own_moments(Scale((-1.0, 1.0), 1.0))(batch)
    assert moments.shape == (len(halves), 5 + MAGNITUDES)
    assert moments[:-1, 5:].argmax(axis=1).tolist() == [0, 0, 1, 1, 9, MAGNITUDES - 1]
    assert moments[:, 5:].sum(axis=1).tolist() == [1, 1, 1, 1, 1, 1, 0]
    assert (moments**2).sum(axis=1).max() <= 5


def test_where_a_person_stands_is_their_own() -> None:
    """To the last bit, among others and alone: also with no rating, one, none of a frequent item, and all items."""
    rng = np.random.default_rng(3)
    loadings, a = rng.standard_normal((50, 3)), 0.1 + rng.random(50)
    chosen = np.where(np.arange(50) < 20, a, 0)
    loadings[20:] = 0
    rows = [
        [],
        [7],
        [30, 41],
        list(range(50)),
        [0, 19, 20, 49],
        *(sorted(rng.choice(50, n, False)) for n in (3, 8, 21)),
    ]
    stand = standing(loadings, chosen, a, by_length=True, rated=True)
    grades = np.maximum(rng.normal(1, 0.7, 50), 0)

    def batch_of(some: Any) -> UserBatch:
        indptr, items = np.cumsum([0, *map(len, some)]), np.array([item for row in some for item in row], np.uint16)
        return UserBatch(indptr, items, grades[items])

    x, directions = stand(batch_of(rows))
    ends = np.cumsum([0, *map(len, rows)])
    for at, row in enumerate(rows):
        own_x, own = stand(batch_of([row]))
        assert np.array_equal(own_x, x[ends[at] : ends[at + 1]])
        assert np.array_equal(own, directions[FOLDS * at : FOLDS * (at + 1)])
        length = np.linalg.norm(own_x)
        assert length == pytest.approx(1) or not length
        for f in range(FOLDS):
            others = [item for p, item in enumerate(row) if p % FOLDS != f]
            own_weights = grades * chosen
            h = (own_weights[others] / (np.linalg.norm(own_weights[row]) or 1)) @ loadings[others]
            assert own[f] == pytest.approx(h / (np.linalg.norm(h) or 1), abs=1e-9)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[ItemStep]:
    """The item steps of the fits made during a test, in order."""
    made: list[ItemStep] = []

    @dataclass(frozen=True)
    class Spy(ItemStep):
        def __post_init__(self) -> None:
            made.append(self)

    monkeypatch.setattr("discreet.models.als.training.ItemStep", Spy)
    return made


def test_replacing_a_person_moves_the_shared_gram_by_its_bound(monkeypatch: Any, seen: list[ItemStep]) -> None:
    """Someone who turns the public biases around, replaced by someone who exaggerates them: orthogonal vectors."""

    """Someone who rates all items alike, replaced by someone who follows the public biases: orthogonal vectors."""
    monkeypatch.setattr(training, "TOLERANCE", math.inf)  # with 200 people, moments would take the lines of item steps

    def make() -> DPALS:
        return DPALS(epsilon=50.0, delta=DELTA, adjacency="replace", n_steps=1)

    def person(slope: float) -> Interactions:
        ratings = np.clip(expected + slope * model.unit_ * seen[0].items.bias, 1, 5)
        return world(200, 600, ("z", dict(enumerate(ratings.tolist()))), polar=True)

    flat = world(200, 600, ("z", dict.fromkeys(range(600), 3.0)), polar=True)
    model = make().fit(flat, ledger=discreet.Ledger(adjacency="replace", noise_source=InsecureSeededNoise(7)))
    expected = 3 + model.unit_ * (seen[0].mean + seen[0].items.bias)
    found = [replay(monkeypatch, make, person(-2.0), person(up), adjacency="replace")[GRAM] for up in (1.0, 1.5)]
    assert max(found) <= 1
    assert max(found) >= 0.95, found


def test_a_contribution_is_ones_own(seen: list[ItemStep]) -> None:
    """To the last bit, whatever is computed beside it: else others' contributions would move with it."""
    data = discreet.datasets.movielens_like(300, 420, 12_000, random_state=0)
    DPALS(epsilon=5.0, delta=DELTA, n_users_hint=10_000).fit(data, ledger=seeded(5.0))
    step = seen[-1]
    (whole,) = parts(data, data.values)
    grams, (entries, directions) = step.contribution(whole)
    about = step.scale(whole)
    base = step.items.bias
    residuals = partial(own_residuals, a=step.frequencies.a, base=base, mean=step.mean, offset_penalty=3.0)
    together = residuals(about)
    for user in range(0, data.n_users, 7):
        row = slice(int(data.indptr[user]), int(data.indptr[user + 1]))
        alone = UserBatch(np.array([0, row.stop - row.start]), data.indices[row], data.values[row])
        gram, (own, direction) = step.contribution(alone)
        assert np.array_equal(residuals(step.scale(alone)), together[row])
        assert np.array_equal(own, entries[row])
        assert np.array_equal(direction, directions[user * FOLDS : (user + 1) * FOLDS])
        assert np.array_equal(gram[0], grams[user])


def test_any_number_of_threads_learns_the_same() -> None:
    """To the last bit: whichever thread takes a block of users, each is counted once."""
    data = discreet.datasets.movielens_like(900, 150, 60_000, random_state=0)
    fits = [DPALS(epsilon=5.0, delta=DELTA, n_jobs=n).fit(data, ledger=seeded(5.0)) for n in (1, 2, 5)]
    for other in fits[1:]:
        assert np.array_equal(other.item_bias_, fits[0].item_bias_)
        assert np.array_equal(other.item_factors_, fits[0].item_factors_)


def test_learns_in_private() -> None:
    data = discreet.datasets.movielens_like(6000, 400, 400_000, random_state=2)
    train, _, test = discreet.splits.holdout(data, test=0.1, random_state=0)
    errors = {}
    for epsilon in (0.05, 1.0, 10.0):
        model = DPALS(epsilon=epsilon, delta=DELTA).fit(train, ledger=seeded(epsilon))
        errors[epsilon] = float(np.sqrt(np.mean((model.predict(train, test) - test.values) ** 2)))
    own = discreet.MeanRating("user").fit(train)
    alone = float(np.sqrt(np.mean((own.predict(train, test) - test.values) ** 2)))
    assert errors[10.0] < errors[1.0] < errors[0.05]
    assert errors[1.0] < alone - 0.02
    assert errors[0.05] < alone + 0.005  # with next to no budget, no worse than each user's own mean


def test_the_guarantee_is_what_was_asked_for() -> None:
    data = world(60, 30)
    model = DPALS(epsilon=1.5, delta=1e-5).fit(data)
    assert model.guarantee_.holds
    assert 1.5 * (1 - 1e-6) <= model.guarantee_.epsilon <= 1.5
    assert model.guarantee_.delta == 1e-5
    releases = model.statement().certificate["releases"]
    planned = model.plan(30)
    assert {release["label"] for release in releases} == {line.label for line in planned.lines}
    assert "1 to 5" in str(model.statement())


def test_two_fits_share_a_ledger() -> None:
    data = world(60, 30)
    ledger = discreet.Ledger(epsilon=2, delta=DELTA)
    first = DPALS(epsilon=1.0, delta=DELTA).fit(data, ledger=ledger)
    assert first.guarantee_.epsilon <= 1
    spent = ledger.spent.epsilon
    with pytest.raises(BudgetExceeded):
        DPALS(epsilon=1.9, delta=DELTA).fit(data, ledger=ledger)
    assert ledger.spent.epsilon == spent
    other = discreet.Ledger(epsilon=2, delta=DELTA, adjacency="replace")
    with pytest.raises(PrivacyError, match="adjacency"):
        DPALS(epsilon=1.0, delta=DELTA).fit(data, ledger=other)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"n_steps": 0}, "n_steps"),
        ({"n_users_hint": -5}, "n_users_hint"),
        ({"adjacency": "flip"}, "adjacency"),
        ({"features": ["colour"]}, "features"),
        ({"features": "genres"}, "features"),
    ],
)
def test_wrong_parameters_spend_nothing(given: dict[str, Any], name: str) -> None:
    ledger = discreet.Ledger(epsilon=10, delta=1e-3)
    with pytest.raises(ValueError, match=name):
        DPALS(**{"epsilon": 1.0, "delta": DELTA, **given}).fit(world(20, 15), ledger=ledger)
    assert not ledger.events


def test_data_that_will_not_do_spend_nothing() -> None:
    ledger = discreet.Ledger(epsilon=10, delta=1e-3)
    undeclared = discreet.read([("a", 1, 2.0), ("b", 2, 3.0)])
    with pytest.raises(NotPublic, match="items"):
        DPALS(epsilon=1.0, delta=DELTA).fit(undeclared, ledger=ledger)
    with pytest.raises(DataError, match="implicit"):
        DPALS(epsilon=1.0, delta=DELTA).fit(world(20, 15).to_implicit(), ledger=ledger)
    assert not ledger.events


@pytest.mark.parametrize(
    "rows",
    [
        [("a", 0, 3.0)],
        [("a", 0, 5.0), ("b", 0, 1.0)],
        [(user, 0, 3.0) for user in range(50)],
        [("a", item, 4.0) for item in range(3)],
    ],
)
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0])
def test_little_data_gives_sensible_answers(rows: list[Any], epsilon: float) -> None:
    data = discreet.read(rows, items=[0, 1, 2], value_range=(1, 5))
    model = DPALS(epsilon=epsilon, delta=DELTA).fit(data)
    predicted = model.predict({0: 5.0, 1: 1.0}, [0, 1, 2])
    assert np.isfinite(predicted).all()
    assert ((predicted >= 1) & (predicted <= 5)).all()
    assert len(model.recommend({}, n=3)) == 3


def test_users_without_ratings_count_as_users() -> None:
    data = world(30, 20)
    lonely = data.where(np.arange(len(data)) >= 24)  # the first two users have nothing left
    model = DPALS(epsilon=1.0, delta=DELTA).fit(lonely)
    assert np.isfinite(model.item_bias_).all()


def test_another_range_is_the_same_problem() -> None:
    data = world(200, 30)
    stars = DPALS(epsilon=5.0, delta=DELTA).fit(data, ledger=seeded(5.0))
    wide = data.rescale(-10, 10)
    scaled = DPALS(epsilon=5.0, delta=DELTA).fit(wide, ledger=seeded(5.0))
    assert np.allclose(scaled.predict(wide, wide), (stars.predict(data, data) - 3) * 5, atol=1e-4)


def test_a_range_declared_too_wide_costs_little() -> None:
    """The unit follows how far ratings spread, not how far they might."""
    made = discreet.datasets.movielens_like(3_000, 60, 90_000, random_state=0)
    train, _, test = discreet.splits.holdout(made, test=0.2, random_state=0)
    errors = []
    for value_range in ((0.5, 5), (-20, 25)):
        ledger = discreet.Ledger(epsilon=5, delta=DELTA, noise_source=InsecureSeededNoise(0))
        model = discreet.DPALS(epsilon=5, delta=DELTA).fit(train.with_public(value_range=value_range), ledger=ledger)
        errors.append(np.sqrt(np.mean((model.predict(train, test) - test.values) ** 2)))
    assert errors[1] < 1.03 * errors[0]


def test_tastes_without_biases_are_found() -> None:
    """Nothing predicts them: random columns find them, since there are no biases for item steps to look at."""
    made = discreet.datasets.synthetic_low_rank(6_000, 500, 3, random_state=0)
    train, _, test = discreet.splits.holdout(made, test=0.2, random_state=0)
    ledger = discreet.Ledger(epsilon=5, delta=DELTA, noise_source=InsecureSeededNoise(0))
    model = discreet.DPALS(epsilon=5, delta=DELTA).fit(train, ledger=ledger)
    assert np.sqrt(np.mean((model.predict(train, test) - test.values) ** 2)) < 0.1 * np.std(test.values)


def test_item_steps_are_made_in_parts_where_tastes_are_found() -> None:
    """Only then; what they cost together is what was planned."""
    tastes = discreet.datasets.synthetic_low_rank(3000, 420, 3, random_state=0)  # too many items for another moment
    plain = discreet.datasets.movielens_like(1000, 500, 30_000, random_state=0)
    for data, given, expected in (
        (tastes, {}, lambda planned: 1 + PARTS * (planned - 1)),
        (tastes, {"n_steps": 3}, lambda planned: 1 + PARTS * (planned - 1)),
        (plain, {}, lambda planned: planned),
    ):
        done: list[float] = []
        ledger = seeded(20.0)
        with discreet.on_progress(lambda what, n, total, doing, done=done: done.append(n / total)):  # type: ignore[misc]
            model = DPALS(epsilon=20.0, delta=1e-6, **given).fit(data, ledger=ledger)
        plan = model.plan(data.n_items)
        labels = [event.label for event in ledger.events]
        assert labels.count(STEP) == labels.count(GRAM) == expected(plan[STEP].count)
        assert sum((event.cost for event in ledger.events), Cost()).within(plan.cost)
        assert model.guarantee_.cost == plan.cost
        assert not any(plan.left(ledger.events).values())
        assert done[-1] == 1


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_one_person_moves_parts_of_steps_by_their_bound_and_no_more(monkeypatch: Any, adjacency: Any) -> None:
    """The first step has found strong tastes, so that later ones have more columns, and more noise each."""
    made = discreet.datasets.synthetic_low_rank(3000, 420, 3, random_state=0)
    assert made.value_range is not None
    low, high = made.value_range

    def data(*ratings: float) -> Interactions:
        names, own = ("user", "item", "value"), made.to_arrow()
        table = pa.table(dict(zip(names, (own[0].cast(pa.string()), *own.columns[1:]), strict=True)))
        more = pa.table([["x"] * len(ratings), [7] * len(ratings), list(ratings)], schema=table.schema)
        table = pa.concat_tables([table, more])
        return discreet.read(
            table, user="user", item="item", value="value", items=made.catalogue, value_range=made.value_range
        )

    def make() -> DPALS:
        return DPALS(epsilon=50.0, delta=DELTA, adjacency=adjacency)

    neighbor = data(high) if adjacency == "replace" else data()
    ledger = seeded(50.0, adjacency=adjacency)
    make().fit(data(low), ledger=ledger)
    assert [event.label for event in ledger.events].count(STEP) > make().plan(420)[STEP].count
    found = replay(monkeypatch, make, data(low), neighbor, adjacency=adjacency)
    assert max(found.values()) <= 1
    assert found[STEP] >= 0.95, found


def test_random_columns_that_noise_explains_do_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where the first step takes noise for structure, as it does now and then."""
    users, items = np.divmod(np.random.default_rng(0).permutation(2000 * 100)[:40_000], 100)
    noise = np.random.default_rng(1).uniform(1, 5, len(users))
    table = {"user": users, "item": items, "value": noise}
    data = discreet.read(pa.table(table), user="user", item="item", value="value", items=range(100), value_range=(1, 5))
    # Not quite sure: beyond the lower limit, and not beyond the higher one.
    monkeypatch.setattr(ItemPosterior, "probed", lambda *given: [0.04 if limit < 4 else 0.0 for limit in given[-1]])
    fitted = DPALS(epsilon=1.0, delta=1e-6, n_steps=6).fit(data, ledger=seeded(1.0))
    assert fitted.known_others_.shape[1] == 0
    tastes = discreet.datasets.synthetic_low_rank(3000, 420, 3, random_state=0)
    fitted = DPALS(epsilon=5.0, delta=1e-6, n_steps=6).fit(tastes, ledger=seeded(5.0))
    assert fitted.known_others_.shape[1] > 0


def test_public_features_help() -> None:
    rng = np.random.default_rng(0)
    genre = rng.integers(0, 3, 60)
    taste = rng.integers(0, 3, 1500)
    rows = [
        (user, int(item), 4.5 if genre[item] == taste[user] else 2.0)
        for user in range(1500)
        for item in rng.choice(60, 15, replace=False)
    ]
    import pyarrow as pa

    items = pa.table({"item": np.arange(60), "genre": [["a", "b", "c"][g] for g in genre], "year": 1990 + genre})
    data = discreet.read(rows, items=items, value_range=(1, 5))
    train, _, test = discreet.splits.holdout(data, test=0.2, random_state=0)
    errors = []
    for features in (None, ["genre", "year"]):
        model = DPALS(epsilon=0.5, delta=DELTA, features=features).fit(train, ledger=seeded(0.5))
        errors.append(float(np.sqrt(np.mean((model.predict(train, test) - test.values) ** 2))))
    assert errors[1] < errors[0] - 0.1


def test_the_plan_follows_from_public_inputs() -> None:
    assert SECOND_MOMENT not in settings(0.27, 3706).shares
    assert SECOND_MOMENT in settings(0.27, 3706, n_users_hint=200_000).shares
    assert settings(0.27, 100, n_users_hint=25_000).residual
    model = DPALS(epsilon=1.0, delta=DELTA)
    shown = str(model.preview(3706))
    assert "item step" in shown
    assert model.preview(3706).fits


def by_hand(indptr: list[int], indices: list[int], values: list[float]) -> Interactions:
    """A table that no reader made."""
    users = discreet.read([(f"user {at}", 0, 3.0) for at in range(len(indptr) - 1)], items=[0]).users
    catalogue = discreet.read([("a", 0, 3.0)], items=list(range(5))).catalogue
    arrays = (np.array(indptr, np.int64), np.array(indices, np.uint8), np.array(values, np.float32))
    return Interactions(users, catalogue, *arrays, value_range=(1.0, 5.0))


@pytest.mark.parametrize(
    ("indptr", "indices", "values"),
    [
        ([0, 2, 6], [0, 1, 3, 3, 3, 3], [3.0] * 6),  # an item more than once: the bound would not hold
        ([0, 2, 4], [1, 0, 1, 2], [3.0] * 4),
        ([0, 1, 2], [0, 1], [3.0, 500.0]),
        ([0, 1, 2], [0, 1], [3.0, float("nan")]),
        ([0, 1, 2], [0, 7], [3.0, 3.0]),
        ([0, 3, 2], [0, 1], [3.0, 3.0]),
    ],
)
def test_a_table_put_together_by_hand_is_checked(indptr: list[int], indices: list[int], values: list[float]) -> None:
    ledger = discreet.Ledger(epsilon=10, delta=1e-3)
    with pytest.raises(DataError, match=r"discreet\.read"):
        DPALS(epsilon=1.0, delta=DELTA).fit(by_hand(indptr, indices, values), ledger=ledger)
    assert not ledger.events


def test_a_sound_table_put_together_by_hand_is_taken() -> None:
    model = DPALS(epsilon=1.0, delta=DELTA).fit(by_hand([0, 0, 2, 4], [0, 4, 1, 2], [1.0, 5.0, 3.0, 2.0]))
    assert np.isfinite(model.item_bias_).all()


@pytest.mark.parametrize("epsilon", [1e-4, 200.0])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_extreme_budgets(epsilon: float, adjacency: Any) -> None:
    model = DPALS(epsilon=epsilon, delta=DELTA, adjacency=adjacency).fit(world(30, 20))
    assert np.isfinite(model.predict({0: 5.0}, [1, 2])).all()


@pytest.mark.parametrize("given", [{"epsilon": 1e-9}, {"n_steps": 10**12}])
def test_a_budget_that_drowns_is_refused_first(given: dict[str, Any]) -> None:
    ledger = discreet.Ledger(epsilon=10, delta=1e-3)
    with pytest.raises(PrivacyError, match="epsilon"):
        DPALS(**{"epsilon": 1.0, "delta": DELTA, **given}).fit(world(20, 15), ledger=ledger)
    assert not ledger.events


def test_ranges_beyond_computing_are_refused_first() -> None:
    ledger = discreet.Ledger(epsilon=10, delta=1e-3)
    data = world(20, 15).with_public(value_range=(0, 1e35))
    with pytest.raises(DataError, match="value_range"):
        DPALS(epsilon=1.0, delta=DELTA).fit(data, ledger=ledger)
    assert not ledger.events


def test_the_statement_names_all_public_inputs() -> None:
    model = DPALS(epsilon=1.0, delta=DELTA, n_users_hint=50).fit(world(20, 15).for_items(range(10)))
    public = model.statement().certificate["public_inputs"]
    assert public["n_users_hint"] == "about 50 users"
    assert "chosen by the owner" in public["items"]


def test_a_user_is_folded_in_at_the_minimum_that_the_docstring_names() -> None:
    data = world(200, 30)
    model = DPALS(epsilon=20.0, delta=DELTA).fit(data, ledger=seeded(20.0))
    items = np.array([2, 5, 11, 17])
    ratings = np.array([5.0, 1.0, 4.0, 2.0])
    histories, _ = model._reader("raise").read(dict(zip(items.tolist(), ratings.tolist(), strict=True)))
    (offset,), (vector,) = model._user_vectors(histories)
    assert USER_VECTOR == 1.8  # as the docstring says
    predicted = np.zeros(len(vector))
    predicted[: model.item_prior_.shape[1]] = model.item_prior_[items].sum(axis=0) / (len(items) + USER_CHOICES)

    def objective(a: float, u: Any) -> float:
        base = model.global_mean_ + model.item_bias_[items]
        left = ratings - base - a - model.item_factors_[items] @ u
        far = model.vector_penalty_ * model.unit_**2 * ((u - predicted) ** 2).sum()
        return float((left**2).sum() + model.offset_penalty_ * a**2 + far)

    best, rng = objective(offset, vector), np.random.default_rng(0)
    for size in (1e-4, 1e-2):
        for _ in range(20):
            assert objective(offset + size * rng.standard_normal(), vector) > best
            assert objective(offset, vector + size * rng.standard_normal(len(vector))) > best
