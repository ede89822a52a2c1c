"""What the five panels of Figure 2 share: test RMSE against epsilon for every private method, 1% held out, delta 1e-6.

The paper compares its private Frank-Wolfe with the SVD after cleansing of McSherry and Mironov, with projected gradient
descent, and with what is not private, over 10 runs. It has plots only, no numbers, so nothing here has a published
value beside it but what its text claims. k and L of the published algorithm are in a supplement that is not at hand:
each module says which it has. Users' means, which cost nothing under joint privacy, are subtracted from all ratings but
the synthetic ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import discreet
from discreet.data.interactions import Interactions
from discreet.papers import data as papers_data
from discreet.papers.reproduction import (
    Options,
    Plot,
    Point,
    Published,
    Reproduction,
    fitted,
    ratio_of,
    true_epsilon,
    value_of,
)

PAPER = "Frank-Wolfe (Jain, Thakkar and Thakurta 2018)"
DELTA = 1e-6
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
TEST = 0.01
RATINGS = 80  # of each user, at most: the paper's xi
PUBLISHED_STEPS = 6  # T, which makes 5 releases
PLAIN = "FrankWolfe, not private"
PUBLISHED, EXACT = "DPFrankWolfe, as published", "DPFrankWolfe, constant steps, exact noise"
QUICK_METHODS = ("DPFrankWolfe", PUBLISHED, EXACT)


@dataclass(frozen=True)
class Data:
    """What a curve is measured on.

    Attributes:
        label: What it is.
        train: What models are fitted to.
        history: What the users of the test are folded in from: all of `train`, or some users' part of it.
        test: Ratings to be foretold.
        centre: Whether users' ratings are taken about their own means.
        radius: k for the published algorithm, which has to be told.
        row_norm: L, likewise.
    """

    label: str
    train: Interactions
    history: Interactions
    test: Interactions
    centre: bool
    radius: float
    row_norm: float


def top_400(name: str, options: Options, shape: papers_data.Shape, rescale: bool = False) -> Data:
    """Panels c, d, e: the 400 most rated items, at most 80 ratings of each user to learn from.

    L = 8 and k = 1.5 sqrt(users x items), which is what did best on Jester (8 and 2400 there); not tuned.
    """
    top = papers_data.most_rated(papers_data.load(name, options, shape))
    ratings = top.ratings.rescale(0, 5) if rescale else top.ratings
    train, _, test = discreet.splits.holdout(ratings, valid=0.0, test=TEST, random_state=0)
    train = papers_data.at_most(train, RATINGS)
    label = top.label + (", scaled to 0..5" if rescale else "")
    return Data(label, train, train, test, True, 1.5 * (ratings.n_users * ratings.n_items) ** 0.5, 8.0)


Load = Callable[[int], Data]  # the data of a run


def fixed(load: Callable[[Options], Data], options: Options) -> Load:
    """The same data in all runs."""
    data = load(options)
    return lambda run: data


def private_methods(data: Data) -> dict[str, Callable[[float], Any]]:
    """Every private method, by the epsilon."""
    own: dict[str, Any] = {"delta": DELTA, "centre": data.centre}
    told = (data.radius, data.row_norm, PUBLISHED_STEPS)

    return {
        "DPFrankWolfe": lambda epsilon: discreet.DPFrankWolfe(**own, epsilon=epsilon),
        "DPFrankWolfe, Oja": lambda epsilon: discreet.DPFrankWolfe(**own, epsilon=epsilon, eigensolver="oja"),
        PUBLISHED: lambda epsilon: as_published(epsilon, *told, **own),
        EXACT: lambda epsilon: exact_noise(epsilon, *told, **own),
        "DPSVD": lambda epsilon: discreet.DPSVD(**own, epsilon=epsilon),
        "DPCleansedSVD": lambda epsilon: discreet.DPCleansedSVD(epsilon=epsilon, delta=DELTA),
        "DPCleansedSVD, as published": lambda e: discreet.DPCleansedSVD.as_published(epsilon=e, delta=DELTA),
        "DPGradientDescent": lambda epsilon: discreet.DPGradientDescent(**own, epsilon=epsilon),
        "DPGradientDescent, as published": lambda e: discreet.DPGradientDescent.as_published(**own, epsilon=e),
        "DPALS": lambda epsilon: discreet.DPALS(epsilon=epsilon, delta=DELTA),
        "DPSGD": lambda epsilon: discreet.DPSGD(epsilon=epsilon, delta=DELTA),
    }


def as_published(epsilon: float, radius: float, row_norm: float, steps: int, **other: Any) -> Any:
    """Algorithm 1: T = `steps` rounds, T - 1 releases."""
    return discreet.DPFrankWolfe.as_published(epsilon=epsilon, radius=radius, row_norm=row_norm, n_steps=steps, **other)


def exact_noise(epsilon: float, radius: float, row_norm: float, steps: int, **other: Any) -> Any:
    """Constant steps in the same ball, as many releases, residuals as long as 2 L, and the noise that epsilon takes."""
    ball: dict[str, Any] = {"step": "constant", "radius": radius, "row_norm": row_norm, "residual_clip": 2 * row_norm}
    return discreet.DPFrankWolfe(epsilon=epsilon, n_steps=steps - 1, **ball, **other)


def plain_methods(data: Data) -> dict[str, Callable[[], Any]]:
    """The lines to compare with: not private, with as many steps as DPFrankWolfe makes at epsilon 1, and with more."""
    return {
        f"{PLAIN}, {steps} steps": partial(discreet.FrankWolfe, centre=data.centre, n_steps=steps) for steps in (5, 20)
    }


def points(load: Load, options: Options, plain_runs: int | None = 1) -> Iterator[Point]:
    """All points of a panel; what is not private has one run, unless each run has data of its own."""
    first = load(0)
    for method in private_methods(first):
        asked = options.wants(method) and (not options.quick or method in QUICK_METHODS)
        for epsilon in options.few(EPSILONS) if asked else ():
            keys = {"data": first.label, "method": method, "epsilon": epsilon}
            yield Point(keys, partial(_run, load, partial(_private, method, epsilon)))
    for method in plain_methods(first):
        keys = {"data": first.label, "method": method, "epsilon": None}
        yield Point(keys, partial(_run, load, partial(_plain, method)), plain_runs)


def _private(method: str, epsilon: float, data: Data) -> Any:
    return private_methods(data)[method](epsilon)


def _plain(method: str, data: Data) -> Any:
    return plain_methods(data)[method]()


def _run(load: Load, make: Callable[[Data], Any], seed: int) -> dict[str, float | None]:
    data = load(seed)
    model = fitted(make(data), data.train)
    errors = model.predict(data.history, data.test) - data.test.values
    return {"rmse": float(np.sqrt(np.mean(errors**2))), "true_epsilon": true_epsilon(model)}


def panel(
    letter: str,
    title: str,
    protocol: str | None,
    points_of: Callable[[Options], Iterator[Point]],
    *,
    needs: tuple[str, ...] = (),
    log: str = "x",
    by_run: bool = False,
) -> Reproduction:
    """A panel of the figure. What the text claims of all of them is that private Frank-Wolfe beats its baselines."""
    ours = value_of("rmse", method=PUBLISHED, epsilon=1.0)
    claims = tuple(
        Published(
            f"{baseline}, as published / DPFrankWolfe, as published, epsilon 1",
            1.0,
            ratio_of(value_of("rmse", method=f"{baseline}, as published", epsilon=1.0), ours),
            'Section 4: "almost always" better than both private baselines',
            "above",
        )
        for baseline in ("DPCleansedSVD", "DPGradientDescent")
    )
    return Reproduction(
        name=f"frank-wolfe-fig2{letter}",
        paper=PAPER,
        title=f"Figure 2{letter}: {title}",
        protocol=protocol or "",
        measure="rmse",
        points=points_of,
        published=claims,
        needs=needs,
        plot=Plot(log=log),
        by_run=by_run,
    )
