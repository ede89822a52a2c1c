"""What is audited: a model, data to fit it on, and people designed to be the worst case for it.

Every private model of the library has a subject for each of its adjacencies. For other models on the same base, `of`
makes one with people who are extreme for any model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import discreet
from discreet.audit import fixtures
from discreet.audit.adapters import Evaluated, Searched, cornered, secret_perturbation
from discreet.audit.neighbors import extremes
from discreet.audit.replaying import Couple, Fit, Replay, fit_once, replay
from discreet.errors import DataError
from discreet.models.als import settings

EPSILON, DELTA = 15.0, 1e-6  # at which a few hundred fits show how well people can be told apart
WORST = 0.95  # of its declared sensitivity: what a designed person must reach

World = Callable[[Any], Any]
Pairs = Sequence[tuple[Any, Any]]


@dataclass(frozen=True)
class Subject:
    """A model with the data to audit it on.

    Attributes:
        name: The model and its settings.
        make: Makes the model, unfitted.
        world: The data with a person, or without one (None).
        pairs: The person before and after, for neighboring data.
        elsewhere: Releases whose worst case is none of these pairs, and why.
        designed: Whether the pairs were designed for this model: then they must reach every bound, and the claim.
        open: Whether all releases are public, so that whole fits can be told apart by their likelihood ratio.
        runs: Fits with and without the person, in a full audit.
        fit: How the model is fitted, if that is more than one call of `fit`.
        couple: For models with releases that stay secret.
        told: The values of the first releases of a replay, where the worst case is a rare one.
    """

    name: str
    make: Callable[..., Any]
    world: World
    pairs: Pairs
    elsewhere: dict[str, str] = dataclasses.field(default_factory=dict)
    designed: bool = True
    open: bool = True
    runs: int = 100
    fit: Fit = fit_once
    couple: Couple | None = None
    told: Sequence[Any] = ()

    def replay(self, pair: tuple[Any, Any]) -> Replay:
        """Fits on neighboring data."""
        data, neighbor = (self.world(person) for person in pair)
        return replay(self.make, data, neighbor, fit=self.fit, couple=self.couple, told=self.told)


def of(model: Any) -> Subject:
    """A subject for any model on the base of private models, with people who are extreme for all of them.

    An unfitted model is audited on ratings, a fitted one on what it was fitted on: ratings or implicit feedback.
    """
    from sklearn.base import clone

    world = partial(fixtures.crowd, 40, getattr(model, "implicit_", False))
    people = list(extremes(world(None)).values())
    others: dict[str, list[Any]] = {"add-remove": [None] * len(people), "replace": [*people[1:], people[0]]}
    if model.adjacency not in others:
        raise DataError(f"model: a subject for adjacency {model.adjacency!r} must be given as discreet.audit.Subject")
    pairs = list(zip(people, others[model.adjacency], strict=True))
    return Subject(type(model).__name__, lambda: clone(model), world, pairs, designed=False)


DIVIDED = {item: 5.0 * (item % 2) for item in range(20)}
ELSEWHERE = {item: 5.0 * (item % 2) for item in range(20, 40)}
FAN, CRITIC = dict.fromkeys(range(20), 5.0), dict.fromkeys(range(20), 0.0)
SINGLE = {7: 5.0}


def shipped() -> dict[str, Subject]:
    """The subjects of the library's own models, by name."""
    families = _spectral, _descent, _als, _published_als, _frank_wolfe, _bits, _components, _evaluations
    return {subject.name: subject for family in families for subject in family()}


def _both(
    name: str, make: Callable[..., Any], world: World, added: Pairs, replaced: Pairs, **more: Any
) -> list[Subject]:
    """One subject for each adjacency."""
    pairs = {"add-remove": added, "replace": replaced}
    return [
        Subject(f"{name}, {adjacency}", partial(make, adjacency=adjacency), world, pairs[adjacency], **more)
        for adjacency in pairs
    ]


def _private(kind: Any, **params: Any) -> Any:
    return kind(**{"epsilon": EPSILON, "delta": DELTA, "n_jobs": 1, **params})


def _spectral() -> list[Subject]:
    ratings, liked = partial(fixtures.crowd, 40, False), partial(fixtures.crowd, 50, True, n_users=200)
    cleansed = partial(fixtures.crowd, 60, False)
    one, two, three = {7: 1.0}, {3: 1.0, 30: 1.0}, {8: 1.0}
    replaced: Pairs = [(DIVIDED, ELSEWHERE)]
    both = [(FAN, CRITIC), (DIVIDED, ELSEWHERE), (FAN, DIVIDED)]
    alone: Pairs = [(DIVIDED, None), (FAN, None), (SINGLE, None)]
    printed = partial(_private, discreet.PublishedDPCleansedSVD, max_items=20, clamp=1.0, epsilon=30.0)
    return [
        *_both("DPSVD", partial(_private, discreet.DPSVD), liked, [(two, None), (one, None)], [(one, three)], runs=600),
        *_both("DPSVD of ratings", partial(_private, discreet.DPSVD), ratings, [(DIVIDED, None)], replaced),
        *_both("PublishedDPSVD", partial(_private, discreet.PublishedDPSVD), ratings, [(DIVIDED, None)], replaced),
        *_both("DPCleansedSVD", partial(_private, discreet.DPCleansedSVD), cleansed, alone, both),
        *_both("PublishedDPCleansedSVD", printed, cleansed, alone, both),
    ]


def _descent() -> list[Subject]:
    ratings = partial(fixtures.crowd, 40, False)
    exact = partial(_private, discreet.DPGradientDescent, n_steps=3)
    printed = partial(_private, discreet.PublishedDPGradientDescent, n_steps=3)
    sampled = partial(_private, discreet.DPSGD, n_steps=4, sample_rate=0.25, epsilon=5.0)
    return [
        *_both("DPGradientDescent", exact, ratings, [(DIVIDED, None)], [(DIVIDED, ELSEWHERE)]),
        *_both("PublishedDPGradientDescent", printed, ratings, [(DIVIDED, None)], [(DIVIDED, ELSEWHERE)]),
        Subject("DPSGD, add-remove", sampled, ratings, [(DIVIDED, None)]),
    ]


def _als() -> list[Subject]:
    """With a second moment, of co-occurrences or of residuals, which DPALS uses if it expects many users.

    Replace: most items of the two people differ, with ratings that are about as predicted; a few are the same, and
    there they disagree. So they are far apart both in what they have rated and in what they think of it. With few
    items, directions are found in residuals. These are far apart for different items, item steps for opposite ratings.
    Both hold for people whose other items follow a common taste: once it is found it explains these, and what they
    disagree about is left.
    """
    make = partial(_private, discreet.DPALS, n_users_hint=100_000, n_steps=2)
    added, replaced = zip(*(_giants(n) for n in (MANY, FEW)), strict=True)
    of_many, of_few = [_disagreeing(MANY, 20), *replaced[0]], [_disagreeing(FEW, 16, taste=2.25), *replaced[1]]
    far = {settings.GRAM: "two people with orthogonal vectors, by public biases: tests/models/test_dpals.py"}
    many, few = (partial(fixtures.crowd, n, False, n_users=40) for n in (MANY, FEW))
    divided = partial(fixtures.tastes, FEW, 16)
    return [
        Subject("DPALS, add-remove", partial(make, adjacency="add-remove"), many, added[0]),
        Subject("DPALS, replace", partial(make, adjacency="replace"), many, of_many, far),
        Subject("DPALS of few items, add-remove", partial(make, adjacency="add-remove"), few, added[1]),
        Subject("DPALS of few items, replace", partial(make, adjacency="replace"), divided, of_few, far),
        *_both("DPALS, continued", make, many, added[0], of_many, elsewhere=far, fit=_continued),
    ]


MANY, FEW = 420, 200


def _disagreeing(n: int, shared: int, taste: float = 0.0) -> tuple[dict[int, float], dict[int, float]]:
    """Two people who disagree about some items; each has half of the others, rated as average or by one taste."""
    half = (n - shared) // 2
    rest = range(shared, shared + half), range(shared + half, shared + 2 * half)
    agreed = {item: 5.0 * (item % 2) for item in range(shared)}
    opposed = {item: 5.0 - rating for item, rating in agreed.items()}
    one, other = ({item: 2.5 + taste * (-1) ** item for item in items} for items in rest)
    return {**agreed, **one}, {**opposed, **other}


def _giants(n: int) -> tuple[Pairs, Pairs]:
    giant = {item: 5.0 * (item % 2) for item in range(n)}
    mirror = {item: 5.0 - rating for item, rating in giant.items()}
    fan, critic = dict.fromkeys(range(n // 2), 5.0), dict.fromkeys(range(n // 2, n), 0.0)
    return [(giant, None), (fan, None), (SINGLE, None)], [(giant, mirror), (fan, critic), ({7: 0.0}, SINGLE)]


def _continued(model: Any, data: Any, ledger: Any) -> Any:
    """A fit, continued."""
    return model.fit(data, ledger=ledger).fit_more(data, ledger, epsilon=2.0, n_steps=1)


def _published_als() -> list[Subject]:
    """Replace: two people with opposite opinions on the k items that count, and still the same vectors.

    Vectors follow from what else they have rated, or from the few items that have large vectors themselves.
    """
    n, k = 240, 120
    world = partial(fixtures.polar, n)
    fan, critic = dict.fromkeys(range(k), 1.0), dict.fromkeys(range(k), -1.0)
    common: dict[str, Any] = {"rank": 2, "item_fraction": 1.0, "user_clip": 1e-3}
    common |= {"regularization": 0.5, "item_exponent": 0.0, "user_exponent": 0.0}
    alone = {"preprocess": False, "entry_clip": 1.0, "global_penalty": 0.1, "start": "svd"}
    added: Pairs = [(fan, None), (critic, None), (dict.fromkeys(range(20), 1.0), None)]
    make = partial(_private, discreet.PublishedDPALS, **common)
    apart = partial(make, adjacency="replace")
    opposed = partial(apart, max_items=12, user_items="all")
    one_taste = partial(apart, max_items=30, **alone)
    return [
        Subject("PublishedDPALS, add-remove", partial(make, max_items=k), world, added),
        Subject("PublishedDPALS, Algorithm 1, add-remove", partial(make, max_items=k, **alone), world, added),
        Subject("PublishedDPALS, replace", opposed, fixtures.common, _opposed()),
        Subject("PublishedDPALS, Algorithm 1, replace", one_taste, fixtures.two_tastes, _one_taste()),
    ]


def _opposed(k: int = 12) -> Pairs:
    """Two who rate all common items alike, and k rare ones oppositely; and two without a common item."""
    alike = dict.fromkeys(range(2 * k, 2 * k + 120), 1.0)
    one, other = ({**alike, **dict.fromkeys(range(k), sign)} for sign in (1.0, -1.0))
    return [(one, other), (dict.fromkeys(range(k), 1.0), dict.fromkeys(range(k, 2 * k), -1.0))]


def _one_taste(k: int = 30) -> Pairs:
    """Two of one taste, with opposite opinions on all else; and two of different tastes, without a common item."""
    rest, more = range(4, k + 2), range(k + 2, 2 * k)
    one, other = ({0: 1.0, 1: 1.0, **dict.fromkeys(rest, sign)} for sign in (1.0, -1.0))
    return [(one, other), (one, {2: 1.0, 3: 1.0, **dict.fromkeys(more, 1.0)})]


def _frank_wolfe() -> list[Subject]:
    """A person whose only item no other user has keeps their whole residual, and so moves every covariance most.

    For products with a vector, the worst case is a person whose only item is the leading direction. As published, steps
    are so long that they first lead this person as far as possible at a right angle to their only rating, to an item
    rated 0, and then to the opposite of it.
    """
    make = partial(_private, discreet.DPFrankWolfe, n_steps=2, centre=False, row_norm=5.0)
    crowd = tuple((f"v{i:04}", ((7, 5.0),)) for i in range(2000))
    world = partial(fixtures.crowd, 20, False, more=crowd)
    aside, other = {8: 5.0}, {9: 5.0}
    pairs: tuple[Pairs, Pairs] = [(aside, None), (SINGLE, None)], [(aside, other), (SINGLE, {7: 0.0})]
    by_oja = partial(make, eigensolver="oja", n_steps=1, oja_steps=8)
    long = partial(_private, discreet.PublishedDPFrankWolfe, radius=16e3, row_norm=1.0, n_steps=4)
    printed = partial(long, radius=100.0, row_norm=5.0, n_steps=2, eigensolver="oja", oja_steps=8)
    led = {0: 1.0, 1: 0.0}
    return [
        *_both("DPFrankWolfe", partial(make, eigensolver="dense"), world, *pairs),
        *_both("DPFrankWolfe by Oja's method", by_oja, world, *pairs),
        *_both("PublishedDPFrankWolfe by Oja's method", printed, world, *pairs),
        *_both("PublishedDPFrankWolfe", long, fixtures.swaying, [(led, None)], [(led, {2: 1.0, 3: 0.0})]),
    ]


def _bits() -> list[Subject]:
    """One bit flipped; or for users, all bits of one."""
    from discreet.models.one_bit import OneBit
    from discreet.models.one_bit.contributions import OUTPUT
    from discreet.models.one_bit.likelihood import Link

    output: dict[str, Any] = {"mechanism": "output", "epsilon": 8.0, "ridge": 20.0, "tau": 1e3}
    mechanisms: dict[str, dict[str, Any]] = {
        "input": {"mechanism": "input", "epsilon": 1.0},
        "objective": {"mechanism": "objective", "epsilon": 1.0},
        "gradient": {"mechanism": "gradient", "epsilon": 1.0, "n_steps": 1},
        "output": {**output, "noise": "gaussian", "delta": 1e-5},
        "output without a delta": output,
    }
    pairs: Pairs = [((17,), ()), ((0,), ())]
    tau, perturbation = cornered(Link("probit"), ridge=0.5)
    probit = partial(OneBit, "objective", "probit", epsilon=4.0, tau=tau, ridge=0.5, n_jobs=1)
    near = {OUTPUT: "how far from the optimum the solver may stop, farther than it does"}
    coupled: dict[str, Any] = {"open": False, "couple": secret_perturbation, "told": [perturbation]}
    of_users = partial(OneBit, "objective", epsilon=8.0, unit="user", max_entries=6, n_jobs=1)
    return [
        *(
            Subject(f"OneBit, {name}, flip", partial(OneBit, n_jobs=1, **params), fixtures.board, pairs)
            for name, params in mechanisms.items()
        ),
        Subject("OneBit, objective, flip of a user", of_users, fixtures.board, [(tuple(range(15)), ())]),
        Subject("OneBit, probit objective, flip", probit, fixtures.unanimous, [((), (0,))], near, **coupled),
    ]


def _components() -> list[Subject]:
    e = np.eye(12)
    odd = np.where(np.arange(12) == 4, np.nan, 1e200)
    added: Pairs = [(7 * e[4], None), (np.ones(12), None), (odd, None), (np.append(np.nan, np.full(11, 9.0)), None)]
    replaced: Pairs = [(e[4], e[5]), (e[4], -e[4]), ((e[4] + e[9]) / 2**0.5, (e[4] - e[9]) / 2**0.5)]
    make = partial(_private, discreet.DPPCA, n_components=1, row_norm=1.0, n_steps=8)
    two = partial(make, method="block", n_components=2)
    return [
        *_both("DPPCA", partial(make, method="dense"), fixtures.rows, added, replaced),
        *_both("DPPCA by Oja's method", partial(make, method="oja"), fixtures.rows, added, replaced),
        *_both("DPPCA, two at once", two, partial(fixtures.rows, kinds=2), added, replaced),
    ]


def _evaluations() -> list[Subject]:
    """A public model whose predictions for one person are all wrong and whose lists are all right; or the reverse."""
    wrong, right = dict.fromkeys(range(10), 5.0), dict.fromkeys(range(10, 20), 2.5)
    world = partial(fixtures.crowd, 20, False)
    return [
        *_both("private evaluation", Evaluated, world, [(wrong, None)], [(wrong, right)], runs=40),
        *_both("private search", Searched, world, [(DIVIDED, None)], [(DIVIDED, wrong)], designed=False, open=False),
    ]
