"""What the five figures share: models whose noise can be repeated, relative errors, shares of right signs.

Published mechanisms are as printed: no effects of rows and columns, entries bounded by alpha, tau = alpha sqrt(d1 d2
r). Corrected ones have the defaults of `OneBit`, without effects on the synthetic data, which have none. The paper
shows plots only; what its text says of them in numbers is all that can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

import discreet
from discreet.completion.one_bit import outputs
from discreet.completion.one_bit.certified import StronglyConvex
from discreet.completion.one_bit.fitting import Completed
from discreet.completion.one_bit.likelihood import Cells
from discreet.completion.one_bit.mechanisms import TrueBits
from discreet.completion.one_bit.private import OneBit
from discreet.completion.one_bit.solver import Problem, Solution, minimise
from discreet.data.interactions import Interactions
from discreet.papers.data import Labelled
from discreet.papers.reproduction import AS_PUBLISHED, Options, Point, fitted
from discreet.testing import InsecureSeededNoise

Array = NDArray[Any]
Measure = Callable[["Watched"], dict[str, float]]
Draw = tuple[Interactions, Measure]

PAPER = "One-bit completion (2021)"
EPSILONS = tuple(map(float, range(1, 11)))
MECHANISMS = ("input", "objective", "gradient", "output")
PUBLISHED: dict[str, Any] = {"calibration": "published", "biases": False, "box": True}
AS_PRINTED: Mapping[str, Mapping[str, Any]] = {AS_PUBLISHED: PUBLISHED}
CLEAR = "Clear"  # without noise
QUICK_USERS = 40
FEW = 3  # runs of what takes minutes
NONE: Mapping[str, Mapping[str, Any]] = {}


class Watched(OneBit):
    """A model that lets the completed matrix be looked at, with noise that can be repeated."""

    completed: Completed
    seed = 0

    def _learned(self, completed: Completed, cells: Cells, ratings: Interactions) -> dict[str, Any]:
        self.completed = completed
        return super()._learned(completed, cells, ratings)

    def _own_ledger(self, url: str | None = None) -> discreet.Ledger:
        source = InsecureSeededNoise(self.seed)
        return discreet.Ledger(delta=self.delta, unit=self.unit, adjacency=self.adjacency, noise_source=source)


def watched(ratings: Interactions, seed: int, **params: Any) -> Watched:
    """A model, fitted with the noise of a seed."""
    model = Watched(**params)
    model.seed = seed
    return cast(Watched, fitted(model, ratings))


@contextmanager
def remembered(known: dict[Any, Any]) -> Iterator[None]:
    """Within it, a fit to the same true bits is found once: output perturbation would repeat it for every noise."""
    solve = StronglyConvex.solve

    def solve_once(self: StronglyConvex, true: TrueBits, tilt: Any, gap: float) -> Array:
        if not isinstance(tilt, float):
            return solve(self, true, tilt, gap)
        key = (self, true.bits.tobytes())
        known[key] = known[key] if key in known else solve(self, true, tilt, gap)
        return np.array(known[key])

    def minimise_once(problem: Problem) -> Solution:
        key = (problem.radius, problem.alpha, np.asarray(problem.loss(np.zeros(len(problem.cells)))[1]).tobytes())
        known[key] = known[key] if key in known else minimise(problem)
        return cast(Solution, known[key])

    with patch.object(StronglyConvex, "solve", solve_once), patch.object(outputs, "minimise", minimise_once):
        yield


def compared(
    draw: Callable[[int], Draw],
    keys: Mapping[str, Any],
    epsilons: Sequence[float],
    options: Options,
    *,
    fixed: bool = False,
    published: Mapping[str, Mapping[str, Any]] = AS_PRINTED,
    slow: Mapping[str, Mapping[str, Any]] = NONE,
    **params: Any,
) -> Iterator[Point]:
    """Points of Clear, and of all mechanisms, published and corrected; each run has a draw of its own.

    Where the data are the same in all runs (`fixed`), so is what has no noise. What was `published` is measured for
    each of some settings, by what is added to the name. Methods that are `slow`, by name, come last and have few runs.
    """
    known: dict[Any, Any] = {}

    def run(seed: int, settings: Mapping[str, Any]) -> dict[str, float | None]:
        ratings, measure = draw(seed)
        with remembered(known):
            model = watched(ratings, seed, **settings)
        epsilon = model.guarantee_.epsilon
        return {**measure(model), "true_epsilon": epsilon if math.isfinite(epsilon) else None}

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
            given = {**params, "mechanism": mechanism, "epsilon": epsilon}
            printed_ones = {mechanism + name: {**given, **printed} for name, printed in published.items()}
            for method, settings in {**printed_ones, mechanism: given}.items():
                if options.wants(method):
                    yield point(method, epsilon, settings)
    for epsilon in epsilons:
        for method, more in slow.items():
            if options.wants(method):
                yield point(method, epsilon, {**params, **more, "epsilon": epsilon}, FEW)


# Synthetic data: relative errors


def relative_error(truth: Array) -> Measure:
    """|X - M|^2 / |M|^2; 1 is what predicting 0 gives."""
    size = float((truth**2).sum())
    return lambda model: {"error": float(((model.completed.matrix.dense() - truth) ** 2).sum()) / size}


def synthetic(link: str, observed: float, epsilons: Sequence[float], options: Options) -> Iterator[Point]:
    """100 x 100, rank 1, alpha = 1; a matrix, its bits and the noise are drawn anew for each run."""
    size = 20 if options.quick else 100

    def draw(seed: int) -> Draw:
        bits, truth = discreet.datasets.one_bit(
            size, size, link=link, observed=observed, random_state=seed, return_truth=True
        )
        return bits, relative_error(truth.matrix())

    keys = {"data": f"rank one, {size} x {size}, signs", "link": link, "observed": observed}
    return compared(draw, keys, epsilons, options, link=link, threshold=0.0, biases=False, box=True)


# Ratings: accuracies of signs


def few_users(data: Labelled, options: Options) -> Labelled:
    """Very few of them, if it is to be quick: a nuclear norm takes its time."""
    if not options.quick:
        return data
    return Labelled(data.ratings.of_users(np.arange(QUICK_USERS)), f"{data.label} (quick: {QUICK_USERS} users only)")


def accuracies(train: Interactions, test: Interactions) -> Measure:
    """Shares of right signs: "accuracy" is what users get, which is the matrix's own as published ("matrix")."""
    users = train.users.numbers(test.users.to_arrow(), "test")[test.user_numbers()].astype(np.int64)
    items = test.indices.astype(np.int64)

    def measure(model: Watched) -> dict[str, float]:
        truth = test.values >= np.float32(model.threshold_)
        matrix = float(np.mean((model.completed.at(users, items) >= 0) == truth))
        own = float(np.mean((model.predict_sign(train, test) > 0) == truth)) if model.calibration == "exact" else matrix
        return {"accuracy": own, "matrix": matrix}

    return measure
