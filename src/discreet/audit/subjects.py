"""What is audited: a model, a world to fit it in, and the people that were designed to be the worst for it.

For every private model that is shipped there is a subject for each adjacency that it has; for other models on the same
base, `of` makes one that tries people who are extreme for any model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

import discreet
from discreet.audit.people import CANARY, Row, entries, extremes, ordinary
from discreet.completion.als import calibration, settings
from discreet.completion.frank_wolfe import steps
from discreet.data.interactions import Interactions
from discreet.errors import DataError

EPSILON, DELTA = 15.0, 1e-6  # at which people can be told apart as well as a few thousand fits can show
WORST = 0.95  # of its declared sensitivity: what a designed person must reach

World = Callable[[Any], Any]
Pairs = Sequence[tuple[Any, Any]]


@dataclass(frozen=True)
class Subject:
    """A model with the data to audit it on.

    Attributes:
        name: Of the model, and how it is set up.
        make: Makes it, unfitted.
        world: The data with a person in it, who may be None.
        pairs: People, before and after: neighbouring worlds.
        elsewhere: Releases whose worst case is none of these: why.
        designed: Whether the pairs were designed for this model.
    """

    name: str
    make: Callable[[], Any]
    world: World
    pairs: Pairs
    elsewhere: dict[str, str] = dataclasses.field(default_factory=dict)
    designed: bool = True


def of(model: Any, *, implicit: bool | None = None, n_items: int = 40) -> Subject:
    """A subject for any model on the base of private models, with people who are extreme for all of them.

    Args:
        model: Unfitted, or fitted: it is its parameters that count.
        implicit: Whether it learns from implicit feedback; by default what it was fitted on, or ratings.
        n_items: In the catalogue.
    """
    from sklearn.base import clone

    implicit = getattr(model, "implicit_", False) if implicit is None else implicit
    people = list(extremes(n_items).values())
    pairs: list[tuple[Any, Any]] = [(person, None) for person in people]
    if model.adjacency == "replace":
        pairs = [(one, other) for one, other in zip(people, [*people[1:], people[0]], strict=True)]
    elif model.adjacency != "add-remove":
        raise DataError(f"model: a subject for adjacency {model.adjacency!r} must be given as discreet.audit.Subject")
    return Subject(type(model).__name__, lambda: clone(model), partial(_crowd, n_items, implicit), pairs, {}, False)


@cache
def _ordinary(n_items: int, implicit: bool, n_users: int, rows: tuple[Any, ...]) -> Interactions:
    return ordinary(n_items, *rows, implicit=implicit, n_users=n_users)


def _crowd(n_items: int, implicit: bool, person: Row | None, *, n_users: int = 100, more: Any = ()) -> Interactions:
    """Ordinary people, and one who may be extraordinary, or not there."""
    rows = [*more, *([] if person is None else [(CANARY, tuple(entries(person)))])]
    return _ordinary(n_items, implicit, n_users, tuple(rows))


DIVIDED = {item: 5.0 * (item % 2) for item in range(20)}
ELSEWHERE = {item: 5.0 * (item % 2) for item in range(20, 40)}
FAN, CRITIC = dict.fromkeys(range(20), 5.0), dict.fromkeys(range(20), 0.0)
SINGLE = {7: 5.0}


def shipped() -> dict[str, Subject]:
    """All subjects of the library's own, by name."""
    subjects = [*_spectral(), *_descent(), *_als(), *_published_als(), *_frank_wolfe(), *_bits(), *_components()]
    return {subject.name: subject for subject in subjects}


def _both(
    name: str, make: Callable[..., Any], world: World, added: Pairs, replaced: Pairs, **elsewhere: dict[str, str]
) -> list[Subject]:
    """One subject for each adjacency."""
    pairs = {"add-remove": added, "replace": replaced}
    return [
        Subject(f"{name}, {adjacency}", partial(make, adjacency=adjacency), world, pairs[adjacency],
                elsewhere.get(adjacency.replace("-", "_"), {}))
        for adjacency in pairs
    ]  # fmt: skip


def _private(kind: Any, **params: Any) -> Any:
    return kind(**{"epsilon": EPSILON, "delta": DELTA, "n_jobs": 1, **params})


def _spectral() -> list[Subject]:
    ratings, liked = partial(_crowd, 40, False), partial(_crowd, 50, True, n_users=200)
    cleansed = partial(_crowd, 60, False)
    one, two, three = {7: 1.0}, {3: 1.0, 30: 1.0}, {8: 1.0}
    replaced: Pairs = [(DIVIDED, ELSEWHERE)]
    both = [(FAN, CRITIC), (DIVIDED, ELSEWHERE), (FAN, DIVIDED)]
    alone: Pairs = [(DIVIDED, None), (FAN, None), (SINGLE, None)]
    printed = partial(_private, discreet.PublishedDPCleansedSVD, max_items=20, clamp=1.0, epsilon=30.0)
    return [
        *_both("DPSVD", partial(_private, discreet.DPSVD), liked, [(two, None), (one, None)], [(one, three)]),
        *_both("DPSVD of ratings", partial(_private, discreet.DPSVD), ratings, [(DIVIDED, None)], replaced),
        *_both("PublishedDPSVD", partial(_private, discreet.PublishedDPSVD), ratings, [(DIVIDED, None)], replaced),
        *_both("DPCleansedSVD", partial(_private, discreet.DPCleansedSVD), cleansed, alone, both),
        *_both("PublishedDPCleansedSVD", printed, cleansed, alone, both),
    ]


def _descent() -> list[Subject]:
    ratings = partial(_crowd, 40, False)
    exact = partial(_private, discreet.DPGradientDescent, n_steps=3)
    printed = partial(_private, discreet.PublishedDPGradientDescent, n_steps=3)
    sampled = partial(_private, discreet.DPSGD, n_steps=4, sample_rate=0.25, epsilon=5.0)
    return [
        *_both("DPGradientDescent", exact, ratings, [(DIVIDED, None)], [(DIVIDED, ELSEWHERE)]),
        *_both("PublishedDPGradientDescent", printed, ratings, [(DIVIDED, None)], [(DIVIDED, ELSEWHERE)]),
        Subject("DPSGD, add-remove", sampled, ratings, [(DIVIDED, None)]),
    ]


def _als() -> list[Subject]:
    """With a second moment, for which there must seem to be many users."""
    n = 200
    world = partial(_crowd, n, False, n_users=40)
    make = partial(_private, discreet.DPALS, n_users_hint=100_000, n_steps=2)
    giant = {item: 5.0 * (item % 2) for item in range(n)}
    mirror = {item: 5.0 - rating for item, rating in giant.items()}
    stripes = {item: 5.0 * (item // 2 % 2) for item in range(n)}
    fan, critic = dict.fromkeys(range(n // 2), 5.0), dict.fromkeys(range(n // 2, n), 0.0)
    added: Pairs = [(giant, None), (fan, None), (SINGLE, None)]
    replaced: Pairs = [(giant, mirror), (giant, stripes), (fan, critic), ({7: 0.0}, SINGLE)]
    far = {settings.GRAM: "two people must have vectors that are orthogonal: tests/completion/test_dpals.py has them"}
    return _both("DPALS", make, world, added, replaced, replace=far)


def _published_als() -> list[Subject]:
    n, k = 240, 120
    world = partial(_polar, n)
    fan, critic = dict.fromkeys(range(k), 1.0), dict.fromkeys(range(k), -1.0)
    other = dict.fromkeys(range(k, n), 1.0)
    common: dict[str, Any] = {"rank": 2, "max_items": k, "item_fraction": 1.0, "user_clip": 1e-3}
    common |= {"regularization": 0.5, "item_exponent": 0.0, "user_exponent": 0.0}
    alone = {**common, "preprocess": False, "entry_clip": 1.0, "global_penalty": 0.1, "start": "svd"}
    step = {calibration.STEP: "opposite ratings, vectors at an angle: tests/completion/test_published_replay.py"}
    step[calibration.GRAM] = "orthogonal vectors, likewise"
    added: Pairs = [(fan, None), (critic, None), (dict.fromkeys(range(20), 1.0), None)]
    replaced: Pairs = [(fan, critic), (fan, other)]
    make = partial(_private, discreet.PublishedDPALS)
    return [
        *_both("PublishedDPALS", partial(make, **common), world, added, replaced, replace=step),
        *_both("PublishedDPALS, Algorithm 1", partial(make, **alone), world, added, replaced, replace=step),
    ]


@cache
def _polar_crowd(n_items: int, row: tuple[tuple[int, float], ...]) -> Interactions:
    rng = np.random.default_rng(0)
    rows = [
        (f"user {user:03}", int(item), float(rng.uniform(-1, 1)))
        for user in range(25)
        for item in rng.choice(n_items, 20, replace=False)
    ]
    rows += [(CANARY, item, value) for item, value in row]
    return discreet.read(rows, items=list(range(n_items)), value_range=(-1, 1), on_invalid="drop")


def _polar(n_items: int, person: Row | None) -> Interactions:
    return _polar_crowd(n_items, tuple(entries(person or {})))


def _frank_wolfe() -> list[Subject]:
    """Who has rated one thing that nobody else has keeps all of her residual, and so moves every covariance.

    For products with a vector the worst is who has rated the one thing that the leading direction is made to be.
    """
    make = partial(_private, discreet.DPFrankWolfe, n_steps=2, centre=False, row_norm=5.0)
    crowd = tuple((f"v{i:04}", ((7, 5.0),)) for i in range(2000))
    world = partial(_crowd, 20, False, more=crowd)
    published = partial(_private, discreet.PublishedDPFrankWolfe, radius=1e6, row_norm=5.0, n_steps=4, epsilon=EPSILON)
    why = "a direction that nobody's data lead to: tests/completion/test_frank_wolfe_privacy.py tries the door itself"
    far = {steps.COVARIANCE: why}
    aside, other = {8: 5.0}, {9: 5.0}
    pairs: tuple[Pairs, Pairs] = [(aside, None), (SINGLE, None)], [(aside, other), (SINGLE, {7: 0.0})]
    by_oja = partial(make, eigensolver="oja", n_steps=1, oja_steps=8)
    return [
        *_both("DPFrankWolfe", partial(make, eigensolver="dense"), world, *pairs),
        *_both("DPFrankWolfe by Oja's method", by_oja, world, *pairs),
        *_both("PublishedDPFrankWolfe", published, world, *pairs, add_remove=far, replace=far),
    ]


def _bits() -> list[Subject]:
    """One bit flipped; or for users, all of hers."""
    from discreet.completion.one_bit import OneBit

    mechanisms: dict[str, dict[str, Any]] = {
        "input": {"mechanism": "input", "epsilon": 1.0},
        "objective": {"mechanism": "objective", "epsilon": 1.0},
        "gradient": {"mechanism": "gradient", "epsilon": 1.0, "n_steps": 1},
        "output": {
            "mechanism": "output",
            "epsilon": 8.0,
            "noise": "gaussian",
            "delta": 1e-5,
            "ridge": 20.0,
            "tau": 1e3,
        },
    }
    return [
        Subject(f"OneBit, {name}, flip", partial(OneBit, n_jobs=1, **params), _board, [((17,), ()), ((0,), ())])
        for name, params in mechanisms.items()
    ] + [
        Subject(
            "OneBit, objective, flip of a user",
            partial(OneBit, "objective", epsilon=8.0, unit="user", max_entries=6, n_jobs=1),
            _board,
            [(tuple(range(15)), ())],
        )
    ]


@cache
def _board(flipped: tuple[int, ...]) -> Interactions:
    """A matrix of bits, some of which are the opposite."""
    made: Interactions = discreet.datasets.one_bit(20, 15, alpha=3.0, observed=1.0, random_state=0)
    values = np.array(made.values)
    values[list(flipped)] *= -1
    return dataclasses.replace(made, values=values, value_range=(-1.0, 1.0))


def _components() -> list[Subject]:
    e = np.eye(12)
    odd = np.where(np.arange(12) == 4, np.nan, 1e200)
    added: Pairs = [(7 * e[4], None), (np.ones(12), None), (odd, None), (np.append(np.nan, np.full(11, 9.0)), None)]
    replaced: Pairs = [(e[4], e[5]), (e[4], -e[4]), ((e[4] + e[9]) / 2**0.5, (e[4] - e[9]) / 2**0.5)]
    make = partial(_private, discreet.DPPCA, n_components=1, row_norm=1.0, n_steps=8)
    return [
        *_both("DPPCA", partial(make, method="dense"), _rows, added, replaced),
        *_both("DPPCA by Oja's method", partial(make, method="oja"), _rows, added, replaced),
    ]


def _rows(person: Any) -> Any:
    crowd = np.zeros((3000, 12))
    crowd[:, 4] = 1.0
    return crowd if person is None else np.vstack([crowd, person])
