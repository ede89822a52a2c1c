"""Differentially Private Matrix Completion Revisited (Jain, Thakkar and Thakurta 2018): Figure 2.

Test RMSE against epsilon for every private method, 1% held out, delta 1e-6, 10 runs. The paper compares its private
Frank-Wolfe with the SVD after cleansing of McSherry and Mironov, with projected gradient descent, and with nonprivate
methods. It has plots only, no numbers, so the only published values here are claims in its text. k and L of the
published algorithm are in a supplement that we do not have, so each panel says which values it uses. Users' means,
which cost nothing under joint privacy, are subtracted from all ratings except the synthetic ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

import discreet
from discreet.papers.data import Division, Labeled, Shape, at_most, load, most_rated
from discreet.papers.reproduction import Declaration, Options, Paper, Plot, Point, Published, ratio_of, scored

PAPER = Paper("frank-wolfe", "Frank-Wolfe (Jain, Thakkar and Thakurta 2018)", runs=10)
DELTA = 1e-6
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
TEST = 0.01
RATINGS = 80  # per user, at most: the paper's xi
PUBLISHED_STEPS = 6  # T, which makes 5 releases
PLAIN = "FrankWolfe, not private"
PUBLISHED, EXACT = "DPFrankWolfe, as published", "DPFrankWolfe, constant steps, exact noise"
QUICK_METHODS = ("DPFrankWolfe", PUBLISHED, EXACT)


@dataclass(frozen=True)
class Data:
    """The data of a curve, and what the models know about it."""

    parts: Division
    centre: bool  # whether users' ratings are taken relative to their own means
    radius: float  # k for the published algorithm
    row_norm: float  # L for the published algorithm

    def params(self, epsilon: float) -> dict[str, Any]:
        """The parameters of most private models."""
        return {"epsilon": epsilon, "delta": DELTA, "centre": self.centre}

    def published_params(self, epsilon: float) -> dict[str, Any]:
        """The parameters of the published algorithm."""
        ball = {"radius": self.radius, "row_norm": self.row_norm, "steps": PUBLISHED_STEPS}
        return {**self.params(epsilon), **ball}


def as_published(epsilon: float, radius: float, row_norm: float, steps: int, **other: Any) -> Any:
    """Algorithm 1: T = `steps` rounds, T - 1 releases."""
    return discreet.DPFrankWolfe.as_published(epsilon=epsilon, radius=radius, row_norm=row_norm, n_steps=steps, **other)


def exact_noise(epsilon: float, radius: float, row_norm: float, steps: int, **other: Any) -> Any:
    """Constant steps in the same ball, as many releases, residuals up to 2 L, and the noise that epsilon requires."""
    ball: dict[str, Any] = {"step": "constant", "radius": radius, "row_norm": row_norm, "residual_clip": 2 * row_norm}
    return discreet.DPFrankWolfe(epsilon=epsilon, n_steps=steps - 1, **ball, **other)


METHODS: dict[str, Callable[[float, Data], Any]] = {
    "DPFrankWolfe": lambda e, data: discreet.DPFrankWolfe(**data.params(e)),
    "DPFrankWolfe, Oja": lambda e, data: discreet.DPFrankWolfe(**data.params(e), eigensolver="oja"),
    PUBLISHED: lambda e, data: as_published(**data.published_params(e)),
    EXACT: lambda e, data: exact_noise(**data.published_params(e)),
    "DPSVD": lambda e, data: discreet.DPSVD(**data.params(e)),
    "DPCleansedSVD": lambda e, data: discreet.DPCleansedSVD(epsilon=e, delta=DELTA),
    "DPCleansedSVD, as published": lambda e, data: discreet.DPCleansedSVD.as_published(epsilon=e, delta=DELTA),
    "DPGradientDescent": lambda e, data: discreet.DPGradientDescent(**data.params(e)),
    "DPGradientDescent, as published": lambda e, data: discreet.DPGradientDescent.as_published(**data.params(e)),
    "DPALS": lambda e, data: discreet.DPALS(epsilon=e, delta=DELTA),
    "DPSGD": lambda e, data: discreet.DPSGD(epsilon=e, delta=DELTA),
}


def compared(load_run: Callable[[int], Data], options: Options, plain_runs: int | None = 1) -> Iterator[Point]:
    """All points of a panel; `load_run` gives the data of a run, and nonprivate methods have `plain_runs`.

    The nonprivate lines have as many steps as DPFrankWolfe makes at epsilon 1, and more.
    """
    label = load_run(0).parts.label

    def point(method: str, epsilon: float | None, make: Callable[[Data], Any], runs: int | None = None) -> Point:
        def run(seed: int) -> dict[str, float | None]:
            data = load_run(seed)
            return scored(make(data), data.parts.train, "rmse", data.parts.rmse)

        return Point({"data": label, "method": method, "epsilon": epsilon}, run, runs)

    def plain(steps: int, data: Data) -> Any:
        return discreet.FrankWolfe(n_steps=steps, centre=data.centre)

    for method in filter(options.wants, QUICK_METHODS if options.quick else METHODS):
        for epsilon in options.few(EPSILONS):
            yield point(method, epsilon, partial(METHODS[method], epsilon))
    for steps in (5, 20):
        yield point(f"{PLAIN}, {steps} steps", None, partial(plain, steps), plain_runs)


# The panels


def panel(*needs: str, log: str = "x") -> Declaration:
    """A panel of the figure. For all of them the text claims that private Frank-Wolfe beats its baselines."""
    claims = (
        Published(
            f"{baseline}, as published / DPFrankWolfe, as published, epsilon 1",
            1.0,
            ratio_of("rmse", {"method": f"{baseline}, as published"}, {"method": PUBLISHED}, epsilon=1.0),
            'Section 4: "almost always" better than both private baselines',
            "above",
        )
        for baseline in ("DPCleansedSVD", "DPGradientDescent")
    )
    return PAPER.shows("rmse", *claims, needs=needs, plot=Plot(log=log))


def rank_one(options: Options, run: int = 0) -> Data:
    """The matrix of a run of Figure 2a, divided."""
    n_users, n_items, each = (400, 60, 20) if options.quick else (500_000, 400, RATINGS)
    ratings, truth = discreet.datasets.rank_one(n_users, n_items, per_user=each, random_state=run, return_truth=True)
    train, _, test = discreet.splits.holdout(ratings, valid=0.0, test=TEST, random_state=run)
    some = list(ratings.users[: min(50_000, n_users)])
    nuclear = float(np.linalg.norm(truth.user_factors) * np.linalg.norm(truth.item_factors))
    label = f"rank one, {n_users:,} x {n_items}, {each} ratings of each user"
    parts = Division(label, train, train.for_users(some), test.for_users(some))
    return Data(parts, False, 4.0 * nuclear, each**0.5 / 2)


@panel(log="xy")
def fig2a(options: Options) -> Iterator[Point]:
    """Figure 2a: a rank-one matrix, test RMSE against epsilon.

    A random rank-one matrix with largest entry 1, 500,000 x 400, with 80 entries per user. Each run has its own matrix.
    The paper chooses the k that does best. At epsilon 1 that is 4 to 8 times the nuclear norm of the matrix: steps are
    short. Here it is 4 times; L is half the root of 80. RMSE is over the test ratings of 50,000 users.
    """
    return compared(lru_cache(maxsize=1)(partial(rank_one, options)), options, plain_runs=None)


def same_data(data: Labeled, radius: float, options: Options, count: int | None = None) -> Iterator[Point]:
    """The points of a panel whose runs have the same data, with at most `count` training ratings per user."""
    train, _, test = discreet.splits.holdout(data.ratings, valid=0.0, test=TEST, random_state=0)
    train = train if count is None else at_most(train, count)
    found = Data(Division(data.label, train, train, test), True, radius, 8.0)
    return compared(lambda run: found, options)


@panel("jester")
def fig2b(options: Options) -> Iterator[Point]:
    """Figure 2b: Jester, test RMSE against epsilon.

    100 jokes rated by 73,421 users, scaled to 0..5, without a limit on ratings per user. All available parts of the
    data set are used: the first of three has 24,983 users. k and L of the published algorithm are those that a
    prototype did best with on the first part, 2400 and 8; k grows with the root of the number of users.
    """
    ratings, label = load("jester", options)
    scaled = Labeled(ratings.rescale(0, 5), f"{label}, {ratings.n_users:,} users, scaled to 0..5")
    return same_data(scaled, 2400.0 * (ratings.n_users / 24_983) ** 0.5, options)


def top_400(name: str, options: Options, shape: Shape, rescale: bool = False) -> Iterator[Point]:
    """Panels c, d, e: the 400 most rated items, at most 80 training ratings per user; `shape` of generated data.

    L = 8 and k = 1.5 sqrt(users x items), which did best on Jester (8 and 2400 there); not tuned.
    """
    ratings, label = most_rated(load(name, options, shape))
    if rescale:
        ratings, label = ratings.rescale(0, 5), f"{label}, scaled to 0..5"
    radius = 1.5 * (ratings.n_users * ratings.n_items) ** 0.5
    return same_data(Labeled(ratings, label), radius, options, RATINGS)


@panel("ml-10m")
def fig2c(options: Options) -> Iterator[Point]:
    """Figure 2c: MovieLens 10M (400 items), test RMSE against epsilon.

    The 400 most rated items, with 4.49 million ratings by 69,692 users. Models learn from at most 80 ratings per user,
    picked at random.
    """
    return top_400("ml-10m", options, (69_692, 400, 4_490_000))


@panel("netflix")
def fig2d(options: Options) -> Iterator[Point]:
    """Figure 2d: Netflix (400 items), test RMSE against epsilon.

    The 400 most rated items, 474,000 users; the paper does not say how many ratings. Models learn from at most 80
    ratings per user, picked at random.
    """
    return top_400("netflix", options, (474_000, 400, 19_000_000))


@panel("yahoo-music")
def fig2e(options: Options) -> Iterator[Point]:
    """Figure 2e: Yahoo! Music (400 items), test RMSE against epsilon.

    The 400 most rated items, 995,000 users; the paper does not say how many ratings. Models learn from at most 80
    ratings per user, picked at random; scores are scaled to 0..5.
    """
    return top_400("yahoo-music", options, (995_000, 400, 20_000_000), rescale=True)
