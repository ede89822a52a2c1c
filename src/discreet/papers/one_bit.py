"""Differentially private one-bit matrix completion (2021): its five figures.

Published mechanisms are as printed: no row or column effects, entries bounded by alpha, tau = alpha sqrt(d1 d2 r).
Corrected ones have the defaults of `OneBit`, except that they fit no effects to the synthetic data, which has none. The
paper shows plots only, so only the numbers in its text can be compared. Noise is seeded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast
from unittest.mock import patch

import numpy as np

import discreet
from discreet.data.interactions import Interactions
from discreet.models.one_bit import published
from discreet.models.one_bit.contributions import StronglyConvex, TrueBits
from discreet.models.one_bit.estimate import Completed, Problem, Solution, minimize
from discreet.models.one_bit.likelihood import Observed
from discreet.models.one_bit.model import OneBit
from discreet.papers.data import Labeled, load
from discreet.papers.reproduction import (
    AS_PUBLISHED,
    Declaration,
    Options,
    Paper,
    Plot,
    Point,
    Published,
    fitted,
    ratio_of,
    value_of,
)
from discreet.privacy.noise import InsecureSeededNoise
from discreet.typing import Array

Measure = Callable[["Watched"], dict[str, float]]
Draw = tuple[Interactions, Measure]

PAPER = Paper("one-bit", "One-bit completion (2021)", runs=10)
EPSILONS = tuple(map(float, range(1, 11)))
MECHANISMS = ("input", "objective", "gradient", "output")
PUBLISHED: dict[str, Any] = {"calibration": "published", "biases": False, "box": True}
CLEAR = "Clear"  # without noise
QUICK_USERS = 40
FEW = 3  # runs of slow methods


class Watched(OneBit):
    """A model with seeded noise that keeps the completed matrix."""

    completed: Completed
    seed = 0

    def _learned(self, completed: Completed, observed: Observed, ratings: Interactions) -> dict[str, Any]:
        self.completed = completed
        return super()._learned(completed, observed, ratings)

    def _own_ledger(self, url: str | None = None) -> discreet.Ledger:
        source = InsecureSeededNoise(self.seed)
        return discreet.Ledger(delta=self.delta, unit=self.unit, adjacency=self.adjacency, noise_source=source)


def watched(ratings: Interactions, seed: int, **params: Any) -> Watched:
    """A model fitted with seeded noise. As in the paper, mechanisms have all of epsilon: no counts are released."""
    model = Watched(**{"counts": False, **params})
    model.seed = seed
    return cast(Watched, fitted(model, ratings))


@contextmanager
def remembered(known: dict[Any, Any]) -> Iterator[None]:
    """Fit the same true bits only once: output perturbation would repeat the fit for every draw of noise."""
    solve = StronglyConvex.solve

    def solve_once(self: StronglyConvex, true: TrueBits, perturbation: Any, gap: float) -> Array:
        if not isinstance(perturbation, float):
            return solve(self, true, perturbation, gap)
        key = (self, true.bits.tobytes())
        known[key] = known[key] if key in known else solve(self, true, perturbation, gap)
        return np.array(known[key])

    def minimize_once(problem: Problem) -> Solution:
        key = (problem.radius, problem.alpha, np.asarray(problem.loss(np.zeros(len(problem.observed)))[1]).tobytes())
        known[key] = known[key] if key in known else minimize(problem)
        return cast(Solution, known[key])

    with patch.object(StronglyConvex, "solve", solve_once), patch.object(published, "minimize", minimize_once):
        yield


def compared(
    draw: Callable[[int], Draw],
    keys: Mapping[str, Any],
    epsilons: Sequence[float],
    options: Options,
    *,
    fixed: bool = False,
    published: Mapping[str, Mapping[str, Any]] | None = None,
    slow: Mapping[str, Mapping[str, Any]] | None = None,
    **params: Any,
) -> Iterator[Point]:
    """Points of Clear, and of all mechanisms, published and corrected; each run has its own draw.

    If all runs have the same data (`fixed`), methods without noise run once. `published` maps name suffixes to the
    settings that published mechanisms are measured with. `slow` methods, by name, come last and have few runs.
    """
    known: dict[Any, Any] = {}
    published = published or {AS_PUBLISHED: PUBLISHED}

    def run(seed: int, settings: Mapping[str, Any]) -> dict[str, float | None]:
        ratings, measure = draw(seed)
        with remembered(known):
            model = watched(ratings, seed, **settings)
        return {**measure(model), "true_epsilon": model.guarantee_.epsilon}

    def point(method: str, epsilon: float | None, settings: Mapping[str, Any], runs: int | None = None) -> Point:
        return Point({**keys, "method": method, "epsilon": epsilon}, partial(run, settings=settings), runs)

    without = {**params, "mechanism": None}
    yield point(CLEAR, None, without, 1 if fixed else None)
    if params.get("biases") is not False:
        for name, printed in published.items():
            plain = {**without, "biases": False, "alpha": printed.get("alpha", 1.0)}
            yield point(CLEAR + name, None, plain, 1 if fixed else None)
    for epsilon in epsilons:
        for mechanism in MECHANISMS:
            for name, printed in {**published, "": {}}.items():
                if options.wants(mechanism + name):
                    settings = {**params, "mechanism": mechanism, "epsilon": epsilon, **printed}
                    yield point(mechanism + name, epsilon, settings)
    for epsilon in epsilons:
        for method, more in (slow or {}).items():
            if options.wants(method):
                yield point(method, epsilon, {**params, **more, "epsilon": epsilon}, FEW)


# Synthetic data: relative errors


def relative_error(truth: Array) -> Measure:
    """|X - M|^2 / |M|^2; predicting 0 gives 1."""
    size = float((truth**2).sum())
    return lambda model: {"error": float(((model.completed.matrix.dense() - truth) ** 2).sum()) / size}


def synthetic(link: str, observed: float, epsilons: Sequence[float], options: Options) -> Iterator[Point]:
    """100 x 100, rank 1, alpha = 1; each run draws its own matrix, bits and noise."""
    size = 20 if options.quick else 100

    def draw(seed: int) -> Draw:
        bits, truth = discreet.datasets.one_bit(
            size, size, link=link, observed=observed, random_state=seed, return_truth=True
        )
        return bits, relative_error(truth.matrix())

    keys = {"data": f"rank one, {size} x {size}, signs", "link": link, "observed": observed}
    return compared(draw, keys, epsilons, options, link=link, threshold=0.0, biases=False, box=True)


def _comparable(link: str, epsilon: float) -> Published:
    """The error of output perturbation divided by that of input perturbation."""
    above, below = ({"method": f"{name}, as published"} for name in ("output", "input"))
    ours = ratio_of("error", above, below, link=link, epsilon=epsilon)
    what = f"output / input, as published, {link}, epsilon {epsilon:g}"
    return Published(what, 1.0, ours, "Section 5.2.1: comparable", "about")


@PAPER.shows(
    "error",
    *(_comparable(link, epsilon) for link in ("logistic", "probit") for epsilon in (4.0, 10.0)),
    runs=40,
    plot=Plot(panels="link", log="y", lines=("observed",)),
)
def fig1(options: Options) -> Iterator[Point]:
    """Figure 1: synthetic bits, relative error against epsilon.

    100 x 100, rank 1, 15% observed, both links; 40 draws. The text has no numbers, but says that output perturbation is
    comparable to the other mechanisms from epsilon 4 on.
    """
    for link in options.few(("logistic", "probit")):
        yield from synthetic(link, 0.15, options.few(EPSILONS), options)


# Ratings: accuracies of signs

MEAN_RATING = 3.53  # the threshold of the paper for MovieLens
TWO_STARS = 1.5  # the threshold for restaurants: 2 stars against 0 or 1
SMALLER = f", alpha 0.5{AS_PUBLISHED}"


def few_users(data: Labeled, options: Options) -> Labeled:
    """Very few users in a quick run: nuclear norms are slow."""
    if not options.quick:
        return data
    return Labeled(data.ratings.of_users(np.arange(QUICK_USERS)), f"{data.label} (quick: {QUICK_USERS} users only)")


def accuracies(train: Interactions, test: Interactions) -> Measure:
    """Shares of right signs: "accuracy" is what users get, "matrix" the matrix's own; as published they are equal."""
    users = train.users.numbers(test.users.to_arrow(), "test")[test.user_numbers()].astype(np.int64)
    items = test.indices.astype(np.int64)

    def measure(model: Watched) -> dict[str, float]:
        truth = test.values >= np.float32(model.threshold_)
        matrix = float(np.mean((model.completed.at(users, items) >= 0) == truth))
        own = float(np.mean((model.predict_sign(train, test) > 0) == truth)) if model.calibration == "exact" else matrix
        return {"accuracy": own, "matrix": matrix}

    return measure


@PAPER.shows(
    "accuracy",
    *(
        Published(f"{name}, epsilon 4", 0.68, value_of("accuracy", method=name, epsilon=4.0), "Section 5.2.2", "above")
        for mechanism in MECHANISMS
        for name in (mechanism + AS_PUBLISHED, mechanism + SMALLER, mechanism)
    ),
    needs=("ml-100k",),
    plot=Plot(log=""),
)
def fig2(options: Options) -> Iterator[Point]:
    """Figure 2: MovieLens 100k, share of right signs against epsilon.

    Split u1, above or below the mean rating; 10 runs. The paper says that at epsilon 4 all four mechanisms exceed 68%,
    and that output perturbation is the best of them. It gives neither alpha nor tau nor the number of gradient steps.
    Here there is one step, tau = alpha sqrt(d1 d2), and alpha is 1, as for the paper's synthetic data, or 0.5: at
    epsilon 4 the best of 1, 0.5 and 0.25 for all but gradient perturbation, on a split of the training part. Entries
    are bounded for output perturbation only: the bound hardly changes accuracies and takes minutes. The link is
    logistic; "objective, probit" has the other link, whose optimum takes minutes, in three runs.
    """
    ratings, label = few_users(load("ml-100k", options), options)
    if options.generated or options.data is not None:
        train, _, test = discreet.splits.holdout(ratings, valid=0.0, test=0.2, random_state=1)
    else:
        train, _, test = (
            part.for_users(ratings.users) for part in discreet.datasets.movielens_folds("u1", source=options.source)
        )
        label += ", split u1"
    measure = accuracies(train, test)
    published, probit = {**PUBLISHED, "box": None}, {"mechanism": "objective", "link": "probit"}
    return compared(
        lambda seed: (train, measure),
        {"data": label},
        options.few((1.0, 2.0, 3.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 4.0)),  # 4, which the text speaks of, if quick
        options,
        fixed=True,
        published={AS_PUBLISHED: published, SMALLER: {**published, "alpha": 0.5}},
        slow={"objective, probit": probit, "objective, probit, delta 1e-6": {**probit, "delta": 1e-6}},
        threshold=MEAN_RATING,
    )


@PAPER.shows("accuracy", needs=("restaurant",), plot=Plot(log=""))
def fig3(options: Options) -> Iterator[Point]:
    """Figure 3: restaurants, share of right signs against epsilon.

    138 customers, 130 restaurants, two stars against fewer; 10 runs. Each run tests on another random fifth of the
    ratings. The text has no numbers.
    """
    ratings, label = few_users(load("restaurant", options), options)

    def draw(seed: int) -> Draw:
        train, _, test = discreet.splits.holdout(ratings, valid=0.0, test=0.2, random_state=seed)
        return train, accuracies(train, test)

    return compared(draw, {"data": label}, options.few(EPSILONS), options, threshold=TWO_STARS)


def _with_more(method: str, epsilon: float, where: str, says: str) -> Published:
    """The error with 80% observed divided by that with 20%."""
    method += AS_PUBLISHED
    ours = ratio_of("error", {"observed": 0.8}, {"observed": 0.2}, method=method, epsilon=epsilon)
    return Published(f"80% / 20% observed, {method}, epsilon {epsilon:g}", 1.0, ours, f"Section 5.3: {where}", says)


def by_share() -> Declaration:
    """Figure 4 or 5."""
    plot = Plot("observed", "share of entries observed", panels="epsilon", log="y", lines=("link",))
    better = (_with_more(name, e, "better with more entries", "below") for name in MECHANISMS for e in (4.0, 10.0))
    same = (_with_more(name, 1.0, "less prone to change", "about") for name in ("objective", "output"))
    return PAPER.shows("error", *better, *same, plot=plot)


def more_and_more(link: str, options: Options) -> Iterator[Point]:
    """The points of Figure 4 or 5."""
    for observed in options.few((0.2, 0.4, 0.6, 0.8), 2):
        yield from synthetic(link, observed, options.few((1.0, 4.0, 10.0)), options)


@by_share()
def fig4(options: Options) -> Iterator[Point]:
    """Figure 4: Gaussian noise model, relative error against the share of entries observed.

    20% to 80% observed; 10 draws. The paper says that all four mechanisms get better with more entries, and that at
    epsilon up to 1 objective and output perturbation hardly do.
    """
    return more_and_more("probit", options)


@by_share()
def fig5(options: Options) -> Iterator[Point]:
    """Figure 5: logistic noise model, relative error against the share of entries observed.

    Otherwise as Figure 4.
    """
    return more_and_more("logistic", options)
