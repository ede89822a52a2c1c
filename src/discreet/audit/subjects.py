"""The subjects of audits: each is a model, data to fit it on, and people designed to be its worst case.

Every private model of the library has a subject for each of its adjacencies. For other models with the same base class,
`of` makes a subject with people who are extreme for any model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.base import clone

import discreet
from discreet.audit import neighbors
from discreet.audit.replaying import Fit, Replay, fit_once, replay
from discreet.data.interactions import Interactions
from discreet.data.readers import read
from discreet.errors import DataError
from discreet.evaluate import evaluate
from discreet.models.als.contributions import GRAM, STEP, USERS
from discreet.models.choices import LABELS
from discreet.models.private import PrivateModel
from discreet.privacy import Ledger
from discreet.privacy.guarantee import AdjacencyName
from discreet.tune import search

EPSILON, DELTA = 15.0, 1e-6  # at which a few hundred fits show how well people can be distinguished

Data = Callable[[Any], Any]
Pairs = Sequence[tuple[Any, Any]]

DIVIDED, ELSEWHERE = ({item: 5.0 * (item % 2) for item in items} for items in (range(20), range(20, 40)))
FAN, CRITIC = dict.fromkeys(range(20), 5.0), dict.fromkeys(range(20), 0.0)
OPPOSED = {item: 5.0 - rating for item, rating in DIVIDED.items()}
SINGLE, TORN = {7: 5.0}, {3: 0.0, 4: 5.0}
# Users' means are furthest apart for fans and critics, and variances for fans and those whose ratings are opposite.
BY_MEANS: tuple[Pairs, Pairs] = [(FAN, None)], [(FAN, CRITIC), (FAN, TORN)]


@dataclass(frozen=True)
class Subject:
    """A model with the data to audit it on.

    Attributes:
        name: The model and its settings.
        make: Makes the model, unfitted.
        data: Makes the data with a person, or without one (None).
        pairs: The person before and after, for neighboring data.
        elsewhere: Releases whose worst case is not among these pairs, each with a description of its worst case.
        apart: The share of the claim that the furthest pair must reach over all releases: below 0.9 where the worst
            cases of single releases exclude each other.
        designed: Whether the pairs were designed for this model. If so, they must reach every bound and the claim.
        open: Whether all releases are public, so that a likelihood ratio can distinguish whole fits.
        runs: Fits with and without the person, in a full audit.
        fit: How the model is fitted, if not by one call of `fit`.
    """

    name: str
    make: Callable[..., Any]
    data: Data
    pairs: Pairs
    elsewhere: dict[str, str] = field(default_factory=dict)
    apart: float = 0.9
    designed: bool = True
    open: bool = True
    runs: int = 100
    fit: Fit = fit_once

    def replay(self, pair: tuple[Any, Any]) -> Replay:
        """Fits on neighboring data."""
        data, neighbor = (self.data(person) for person in pair)
        return replay(self.make, data, neighbor, fit=self.fit)


def of(model: PrivateModel) -> Subject:
    """Make a subject for any private model, with people who are extreme for every model.

    An unfitted model is audited on ratings, a fitted one on the kind of data it was fitted on.
    """
    data = partial(neighbors.crowd, 40, getattr(model, "implicit_", False))
    people = list(neighbors.extremes(data(None)).values())
    others: dict[str, list[Any]] = {"add-remove": [None] * len(people), "replace": [*people[1:], people[0]]}
    if model.adjacency not in others:
        raise DataError(f"model: a subject for adjacency {model.adjacency!r} must be given as discreet.audit.Subject")
    pairs = list(zip(people, others[model.adjacency], strict=True))
    return Subject(type(model).__name__, lambda: clone(model), data, pairs, designed=False)


@cache
def shipped() -> dict[str, Subject]:
    """The subjects of the library's own models, by name."""
    models = _spectral, _baselines, _gradient, _als, _published_als, _frank_wolfe, _one_bit
    families = *models, _components, _evaluations, _choices
    return {subject.name: subject for family in families for subject in family()}


def _both(name: str, make: Callable[..., Any], data: Data, added: Pairs, replaced: Pairs, **more: Any) -> list[Subject]:
    """One subject for each adjacency."""
    return [
        Subject(f"{name}, {adjacency}", partial(make, adjacency=adjacency), data, pairs, **more)
        for adjacency, pairs in (("add-remove", added), ("replace", replaced))
    ]


def _private(kind: Any, **params: Any) -> Callable[..., Any]:
    return partial(kind, **{"epsilon": EPSILON, "delta": DELTA, "n_jobs": 1, **params})


def _spectral() -> list[Subject]:
    ratings, liked = partial(neighbors.crowd, 40, False), partial(neighbors.crowd, 50, True, n_users=200)
    cleansed = partial(neighbors.crowd, 60, False)
    added: Pairs = [({3: 1.0, 30: 1.0}, None), ({7: 1.0}, None)]
    one: tuple[Pairs, Pairs] = [(DIVIDED, None)], [(DIVIDED, ELSEWHERE)]
    centered = tuple([*pairs, *more] for pairs, more in zip(one, BY_MEANS, strict=True))
    several: tuple[Pairs, Pairs] = (
        [(DIVIDED, None), (FAN, None), (SINGLE, None)],
        [(DIVIDED, ELSEWHERE), (FAN, CRITIC), (DIVIDED, OPPOSED), (FAN, TORN)],
    )
    svd = _private(discreet.DPSVD)
    tail = dict.fromkeys(range(4, 64), 1.0)  # so that what either of two has besides is a small part of their history
    stepped: tuple[Pairs, Pairs] = (
        [({0: 1.0, 2: 1.0}, None), ({0: 1.0, 1: 1.0}, None)],
        [
            ({0: 1.0, 1: 1.0, **tail}, {2: 1.0, 3: 1.0, **tail}),
            ({0: 1.0, 1: 1.0}, {0: 1.0, 2: 1.0}),
            ({0: 1.0}, {2: 1.0}),
        ],
    )
    printed = _private(discreet.PublishedDPCleansedSVD, max_items=20, clamp=1.0, epsilon=30.0)
    return [
        *_both("DPSVD", svd, liked, added, [({7: 1.0}, {8: 1.0})], runs=600),
        *_both("DPSVD with a power step", _private(discreet.DPSVD, max_items=4), neighbors.long_tail, *stepped),
        *_both("DPSVD of ratings", svd, ratings, *centered),
        *_both("DPSVD of graded likes", _private(discreet.DPSVD, objective="lists"), ratings, *centered),
        *_both("PublishedDPSVD", _private(discreet.PublishedDPSVD), ratings, *one),
        *_both("DPCleansedSVD", _private(discreet.DPCleansedSVD), cleansed, *several),
        *_both("PublishedDPCleansedSVD", printed, cleansed, *several),
    ]


def _baselines() -> list[Subject]:
    """Popularity differs most for people with different items, sums for people with the same: no pair reaches both."""
    ratings, liked = partial(neighbors.crowd, 40, False), partial(neighbors.crowd, 50, True)
    means = _private(discreet.DPMeanRating)
    apart: Pairs = [*BY_MEANS[1], (DIVIDED, ELSEWHERE)]
    return [
        *_both("DPPopularity", _private(discreet.DPPopularity), liked, [({7: 1.0}, None)], [({7: 1.0}, {8: 1.0})]),
        *_both("DPMeanRating", means, ratings, BY_MEANS[0], apart, apart=0.85),
    ]


def _gradient() -> list[Subject]:
    ratings = partial(neighbors.crowd, 40, False)
    exact = _private(discreet.DPGradientDescent, n_steps=3)
    printed = _private(discreet.PublishedDPGradientDescent, n_steps=3)
    sampled = _private(discreet.DPSGD, n_steps=4, sample_rate=0.5, epsilon=5.0)
    return [
        *_both(
            "DPGradientDescent", exact, ratings, [(DIVIDED, None), *BY_MEANS[0]], [(DIVIDED, ELSEWHERE), *BY_MEANS[1]]
        ),
        *_both("PublishedDPGradientDescent", printed, ratings, [(DIVIDED, None)], [(DIVIDED, ELSEWHERE)]),
        Subject("DPSGD, add-remove", sampled, ratings, [(DIVIDED, None), *BY_MEANS[0]]),
    ]


def _als() -> list[Subject]:
    """With a second moment, of co-occurrences or of residuals, which DPALS uses if it expects many users.

    Replace: most items of the two people differ, with ratings close to the predictions; they share a few items and
    disagree about them. So they are far apart both in what they rated and in what they think of it. With few items,
    directions are found in residuals. Residuals are furthest apart for different items, and item steps for opposite
    ratings of the same items: each release has a pair that reaches its bound, and no pair reaches all.
    """
    make = _private(discreet.DPALS, n_users_hint=100_000, n_steps=1)
    added, replaced = zip(*map(_giants, (420, 200)), strict=True)
    halves = tuple({item: 5.0 * (item % 2) for item in range(first, first + 100)} for first in (0, 100))
    # Two who have all items, and lean a little to one camp or the other: opposite directions of nearly equal weights.
    leaning: Any = tuple({item: 2.5 + lean * (1 - 2 * (item < 210)) for item in range(420)} for lean in (0.6, -0.6))
    of_many, of_few = [_disagreeing(420, 20), leaning, *replaced[0]], [_disagreeing(200, 16), halves, *replaced[1]]
    far = {
        GRAM: "two people with orthogonal vectors, by public biases: tests/models/als/test_model.py",
        USERS: "any two people have moments in common: docs/proofs/dpals.md",
    }
    # Of few people, or such without tastes, other statistics would be released instead of directions and steps.
    unseen: Any = {"elsewhere": far | {STEP: "two people with the same vectors: tests/models/als/test_model.py"}}
    unseen["apart"] = 0.65
    many, few = (partial(neighbors.crowd, n, False, n_users=40, more=neighbors.camps(n)) for n in (420, 200))
    # Where directions are not expected, residuals on the items that most people have.
    frequent = partial(neighbors.crowd, 420, False, n_users=40, more=neighbors.camps(60))
    third = {item: 5.0 * (item % 2) for item in range(30)}, {item: 5.0 * (item % 2) for item in range(30, 60)}
    lists = partial(make, objective="both")
    likes = dict.fromkeys(LABELS, "two people with different items: DPSVD of graded likes, DPSVD with a power step")
    # Of twenty people no taste is found, and nearly all lines release popularity.
    twenty = partial(neighbors.crowd, 420, False, n_users=20)
    both = [
        Subject("DPALS, add-remove", partial(make, adjacency="add-remove"), many, added[0]),
        Subject("DPALS, replace", partial(make, adjacency="replace"), many, of_many, **unseen),
    ]
    return [
        *both,
        Subject("DPALS of few items, add-remove", partial(make, adjacency="add-remove"), few, added[1]),
        Subject("DPALS of few items, replace", partial(make, adjacency="replace"), few, of_few, far, apart=0.8),
        *_both(
            "DPALS without directions",
            partial(make, n_users_hint=1000),
            frequent,
            added[0],
            [third, *of_many],
            elsewhere=unseen["elsewhere"],
            apart=0.65,
        ),
        replace(both[0], name="DPALS, continued, add-remove", fit=_continued),
        replace(both[1], name="DPALS, continued, replace", fit=_continued),
        *_both("DPALS with popular lists", lists, twenty, added[0], replaced[0], elsewhere=far, apart=0.75),
        Subject("DPALS with lists, add-remove", partial(lists, adjacency="add-remove"), many, added[0]),
        Subject(
            "DPALS with lists, replace",
            partial(lists, adjacency="replace"),
            many,
            of_many,
            unseen["elsewhere"] | likes,
            unseen["apart"],
        ),
    ]


def _disagreeing(n: int, shared: int) -> tuple[dict[int, float], dict[int, float]]:
    """Two people who disagree about some items; each has half of the others, rated as average."""
    half = (n - shared) // 2
    rest = range(shared, shared + half), range(shared + half, shared + 2 * half)
    agreed = {item: 5.0 * (item % 2) for item in range(shared)}
    opposed = {item: 5.0 - rating for item, rating in agreed.items()}
    one, other = (dict.fromkeys(items, 2.5) for items in rest)
    return {**agreed, **one}, {**opposed, **other}


def _giants(n: int) -> tuple[Pairs, Pairs]:
    """Pairs of people who rate everything, or half of it."""
    giant = {item: 5.0 * (item % 2) for item in range(n)}
    mirror = {item: 5.0 - rating for item, rating in giant.items()}
    fan, critic = dict.fromkeys(range(n // 2), 5.0), dict.fromkeys(range(n // 2, n), 0.0)
    alike = {**dict.fromkeys(range(n), 5.0), 0: 4.5}  # nearly alike: the longest moments possible
    return [(giant, None), (fan, None), (alike, None), (SINGLE, None)], [
        (giant, mirror),
        (fan, critic),
        ({7: 0.0}, SINGLE),
    ]


def _continued(model: Any, data: Any, ledger: Any) -> Any:
    """A fit, and then more steps."""
    return model.fit(data, ledger=ledger).fit_more(data, ledger, epsilon=2.0, n_steps=1)


def _published_als() -> list[Subject]:
    """Replace: two people with opposite opinions on the k items that count, but the same vectors.

    Vectors follow from the other items they have rated, or from the few items that have large vectors themselves.
    """
    fan, critic = dict.fromkeys(range(120), 1.0), dict.fromkeys(range(120), -1.0)
    penalties = {"regularization": 0.5, "item_exponent": 0.0, "user_exponent": 0.0}
    make = _private(discreet.PublishedDPALS, rank=2, item_fraction=1.0, user_clip=1e-3, **penalties)
    alone: dict[str, Any] = {"preprocess": False, "entry_clip": 1.0, "global_penalty": 0.1, "start": "svd"}
    data, few = partial(neighbors.polar, 240), dict.fromkeys(range(20), 1.0)
    added: Pairs = [(fan, None), (critic, None), (few, None)]
    apart = partial(make, adjacency="replace")
    # Two rate all common items alike, and 12 rare ones oppositely; two have no item in common.
    alike = dict.fromkeys(range(24, 144), 1.0)
    rare, others = dict.fromkeys(range(12), 1.0), dict.fromkeys(range(12, 24), -1.0)
    opposed: Pairs = [({**alike, **rare}, {**alike, **dict.fromkeys(rare, -1.0)}), (rare, others)]
    # Two of one taste have opposite opinions on all else; two of different tastes have no item in common.
    one, other = ({0: 1.0, 1: 1.0, **dict.fromkeys(range(4, 32), sign)} for sign in (1.0, -1.0))
    one_taste: Pairs = [(one, other), (one, {2: 1.0, 3: 1.0, **dict.fromkeys(range(32, 60), 1.0)})]
    first, second = partial(apart, max_items=12, user_items="all"), partial(apart, max_items=30, **alone)
    return [
        Subject("PublishedDPALS, add-remove", partial(make, max_items=120), data, added),
        Subject("PublishedDPALS, Algorithm 1, add-remove", partial(make, max_items=120, **alone), data, added),
        Subject("PublishedDPALS, replace", first, neighbors.common, opposed),
        Subject("PublishedDPALS, Algorithm 1, replace", second, neighbors.two_tastes, one_taste),
    ]


def _frank_wolfe() -> list[Subject]:
    """A person with a single item that nobody else has keeps their whole residual, and moves every covariance most.

    For products with a vector, the worst case is a person whose only item is the leading direction. Steps as published
    are very long. They first move this person as far as possible at a right angle to their only rating, to an item
    rated 0. Then they move them to the opposite of that rating.
    """
    make = _private(discreet.DPFrankWolfe, n_steps=2, centre=False, row_norm=5.0)
    crowd = tuple((f"v{i:04}", ((7, 5.0),)) for i in range(2000))
    data = partial(neighbors.crowd, 20, False, more=crowd)
    aside, other = {8: 5.0}, {9: 5.0}
    pairs: tuple[Pairs, Pairs] = [(aside, None), (SINGLE, None)], [(aside, other), (SINGLE, {7: 0.0})]
    by_oja = partial(make, eigensolver="oja", n_steps=1, oja_steps=8)
    long = _private(discreet.PublishedDPFrankWolfe, radius=16e3, row_norm=1.0, n_steps=4)
    printed = partial(long, radius=100.0, row_norm=5.0, n_steps=2, eigensolver="oja", oja_steps=8)
    led = {0: 1.0, 1: 0.0}
    return [
        *_both("DPFrankWolfe", partial(make, eigensolver="dense"), data, *pairs),
        *_both("DPFrankWolfe by Oja's method", by_oja, data, *pairs),
        *_both("PublishedDPFrankWolfe by Oja's method", printed, data, *pairs),
        *_both("PublishedDPFrankWolfe", long, neighbors.swaying, [(led, None)], [(led, {2: 1.0, 3: 0.0})]),
    ]


def _one_bit() -> list[Subject]:
    """One bit flipped; or, for the unit "user", all bits of one user."""
    output: dict[str, Any] = {"mechanism": "output", "epsilon": 8.0, "ridge": 20.0, "tau": 1e3}
    mechanisms: dict[str, dict[str, Any]] = {
        "input": {"mechanism": "input", "epsilon": 1.0},
        "objective": {"mechanism": "objective", "epsilon": 1.0},
        "gradient": {"mechanism": "gradient", "epsilon": 1.0, "n_steps": 1},
        "output": {**output, "noise": "gaussian", "delta": 1e-5},
        "output without a delta": output,
    }
    make = partial(discreet.OneBit, n_jobs=1)
    of_users = partial(make, "objective", epsilon=8.0, unit="user", max_entries=6)
    return [
        *(
            Subject(f"OneBit, {name}, flip", partial(make, **params), neighbors.board, [((17,), ()), ((0,), ())])
            for name, params in mechanisms.items()
        ),
        Subject("OneBit, objective, flip of a user", of_users, neighbors.board, [(tuple(range(15)), ())]),
    ]


def _components() -> list[Subject]:
    e = np.eye(12)
    odd = np.where(np.arange(12) == 4, np.nan, 1e200)
    added: Pairs = [(7 * e[4], None), (np.ones(12), None), (odd, None), (np.append(np.nan, np.full(11, 9.0)), None)]
    replaced: Pairs = [(e[4], e[5]), (e[4], -e[4]), ((e[4] + e[9]) / 2**0.5, (e[4] - e[9]) / 2**0.5)]
    make = _private(discreet.DPPCA, n_components=1, row_norm=1.0, n_steps=8)
    two = partial(make, method="block", n_components=2)
    return [
        *_both("DPPCA", partial(make, method="dense"), neighbors.rows, added, replaced),
        *_both("DPPCA by Oja's method", partial(make, method="oja"), neighbors.rows, added, replaced),
        *_both("DPPCA, two at once", two, partial(neighbors.rows, kinds=2), added, replaced),
    ]


def _evaluations() -> list[Subject]:
    """A public model whose predictions for a person are all wrong but whose rankings are all right, or the reverse."""
    wrong, right = dict.fromkeys(range(10), 5.0), dict.fromkeys(range(10, 20), 2.5)
    data = partial(neighbors.crowd, 20, False)
    rows = [(user, item, 2.5) for user in range(3) for item in range(20)]  # what it predicts for everyone
    public = discreet.MeanRating("global").fit(read(rows, items=list(range(20)), value_range=(0, 5)))
    evaluation = partial(Private, partial(_evaluate, model=public), epsilon=5.0)
    secret = {"designed": False, "open": False}
    return [
        *_both("private evaluation", evaluation, data, [(wrong, None)], [(wrong, right)], runs=40),
        *_both("private search", partial(Private, _search), data, [(DIVIDED, None)], [(DIVIDED, wrong)], **secret),
    ]


def _choices() -> list[Subject]:
    """No round finds an item that hardly anyone has, so one more person moves both rounds by their whole weight."""
    rare, alone, many = {60: 1.0}, {40: 1.0}, dict.fromkeys(range(40, 60), 1.0)  # nobody else has 40 to 59
    added: Pairs = [(rare, None), (dict.fromkeys(range(60, 80), 1.0), None), (alone, None), (many, None)]
    replaced: Pairs = [(rare, {61: 1.0}), (alone, {41: 1.0}), (many, rare)]
    return _both(
        "private choice of items", partial(Private, _choose_items), neighbors.some_rare, added, replaced, open=False
    )


@dataclass
class Private:
    """A private call that is no model's `fit`, with the interface of a model."""

    call: Callable[..., Any]  # given this object, data and a ledger; returns everything that is released
    adjacency: AdjacencyName
    epsilon: float = EPSILON
    delta: float = DELTA

    def fit(self, data: Interactions, ledger: Ledger) -> Any:
        """Make the call."""
        return self.call(self, data, ledger)


def _choose_items(by: Private, data: Interactions, ledger: Ledger) -> Any:
    private, cost = data.with_public(items="private"), {"epsilon": by.epsilon, "delta": by.delta}
    chosen = discreet.select_items(private, **cost, adjacency=by.adjacency, ledger=ledger, n_jobs=1)
    assert chosen.catalogue.selection is not None
    return SimpleNamespace(items_=chosen.items.to_list(), guarantee_=chosen.catalogue.selection.guarantee)


def _search(by: Private, data: Interactions, ledger: Ledger) -> Any:
    base = discreet.DPSVD(epsilon=by.epsilon, delta=by.delta, adjacency=by.adjacency, n_jobs=1)
    found = search(base, {"rank": [2, 4]}, data, (by.epsilon, by.delta), ledger, trials=2.0)
    found.model.searched_ = (dict(found.settings), found.score, found.metric)
    return found.model


def _evaluate(by: Private, data: Interactions, ledger: Ledger, model: Any) -> Any:
    target = data.indices % 2 == 0  # half of all ratings
    given: dict[str, Any] = {"private": True, "public_model": True, "max_error": 1.0, "metrics": ["rmse", "recall@5"]}
    given |= {"history": data.where(~target), "ledger": ledger, "epsilon": by.epsilon, "delta": by.delta}
    found = evaluate(model, data.where(target), **given)
    return SimpleNamespace(values_=dict(found), guarantee_=found.guarantee_)
