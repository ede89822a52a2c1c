"""The figures of the paper on one-bit completion (2021): their data, their settings, and what is measured.

Each `figure_N` yields rows, one for each mechanism, calibration and epsilon (and link, and share of entries observed),
with the mean and the standard deviation over runs. Published mechanisms are as printed: no effects of rows and columns,
entries bounded by alpha, tau = alpha sqrt(d1 d2 r). Corrected ones have the defaults of `OneBit`, without effects on
the synthetic data, which have none. `true_epsilon` is the epsilon that noise really gives; None is none at all.

Noise comes from a seeded source, so that a figure can be drawn again. Accuracies are of test ratings, exact, and not
covered by any epsilon.
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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
from discreet.testing import InsecureSeededNoise

Array = NDArray[Any]
Row = dict[str, Any]
Measure = Callable[["Watched"], dict[str, float]]

EPSILONS = tuple(map(float, range(1, 11)))
RATIOS = (0.2, 0.4, 0.6, 0.8)
MECHANISMS = ("input", "objective", "gradient", "output")
PUBLISHED: dict[str, Any] = {"calibration": "published", "biases": False, "box": True}
MEAN_RATING = 3.53  # of MovieLens 100k, the threshold of the paper
TWO_STARS = 1.5  # the threshold of restaurants: 2 stars against 0 or 1


class Watched(OneBit):
    """A model that lets the completed matrix be looked at, with noise that can be repeated."""

    completed: Completed
    seed = 0

    def _learned(self, completed: Completed, cells: Cells, ratings: Interactions) -> dict[str, Any]:
        self.completed = completed
        return super()._learned(completed, cells, ratings)

    def _own_ledger(self) -> discreet.Ledger:
        source = InsecureSeededNoise(self.seed)
        return discreet.Ledger(delta=self.delta, unit=self.unit, adjacency=self.adjacency, noise_source=source)


def fitted(ratings: Interactions, seed: int, **params: Any) -> Watched:
    """A model; what it warns of is in the row, as its true epsilon."""
    model = Watched(**params)
    model.seed = seed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(ratings)


@contextmanager
def remembered() -> Iterator[None]:
    """Within it, a fit to the same true bits is found once: output perturbation would repeat it for every noise."""
    known: dict[Any, Any] = {}
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


def measured(runs: Iterable[tuple[Interactions, Measure]], **params: Any) -> Row:
    """Means and standard deviations over runs, each with data, a seed and a measure of its own."""
    found, epsilon = list[dict[str, float]](), math.inf
    for seed, (ratings, measure) in enumerate(runs):
        model = fitted(ratings, seed, **params)
        found.append(measure(model))
        epsilon = model.guarantee_.epsilon
    row: Row = {"mechanism": params["mechanism"] or "Clear", "calibration": params.get("calibration", "exact")}
    row |= {"epsilon": params.get("epsilon"), "true_epsilon": round(epsilon, 6) if math.isfinite(epsilon) else None}
    for name in found[0]:
        values = [one[name] for one in found]
        row[name] = round(statistics.mean(values), 5)
        row[f"{name} sd"] = round(statistics.stdev(values), 5) if len(values) > 1 else 0.0
    return {**row, "runs": len(found)}


def compared(
    runs: list[tuple[Interactions, Measure]], epsilons: Iterable[float], published: dict[str, Any], **params: Any
) -> Iterator[Row]:
    """Rows of Clear, and of all mechanisms, published and corrected."""
    without_noise = runs[:1] if runs[0] is runs[-1] else runs  # where the data are the same, so is the result
    yield measured(without_noise, mechanism=None, **params)
    if params.get("biases") is not False:
        plain = measured(without_noise, mechanism=None, **{**params, "biases": False})
        yield {**plain, "mechanism": "Clear, as published"}
    with remembered():
        for epsilon in epsilons:
            for mechanism in MECHANISMS:
                given = {**params, "mechanism": mechanism, "epsilon": epsilon}
                yield measured(runs, **{**given, **published})
                yield measured(runs, **given)


# Synthetic data: relative errors


def relative_error(truth: Array) -> Measure:
    """|X - M|^2 / |M|^2; 1 is what predicting 0 gives."""
    size = float((truth**2).sum())
    return lambda model: {"error": float(((model.completed.matrix.dense() - truth) ** 2).sum()) / size}


def synthetic(link: str, observed: float, draws: int, epsilons: Iterable[float]) -> Iterator[Row]:
    """100 x 100, rank 1, alpha = 1; a matrix, its bits and the noise are drawn anew for each run."""
    runs = []
    for seed in range(draws):
        made = discreet.datasets.one_bit(link=link, observed=observed, random_state=seed, return_truth=True)
        runs.append((made[0], relative_error(made[1].matrix())))
    settings = {"link": link, "threshold": 0.0, "biases": False, "box": True}
    for row in compared(runs, epsilons, PUBLISHED, **settings):
        yield {"link": link, "observed": observed, **row}


def figure_1(runs: int = 40, epsilons: Iterable[float] = EPSILONS) -> Iterator[Row]:
    """Relative errors by epsilon, both links, 15% observed."""
    for link in ("logistic", "probit"):
        yield from synthetic(link, 0.15, runs, epsilons)


def figure_4(runs: int = 10, epsilons: Iterable[float] = (1.0, 4.0, 10.0), link: str = "probit") -> Iterator[Row]:
    """Relative errors by how much is observed, Gaussian noise model."""
    for observed in RATIOS:
        yield from synthetic(link, observed, runs, epsilons)


def figure_5(runs: int = 10, epsilons: Iterable[float] = (1.0, 4.0, 10.0)) -> Iterator[Row]:
    """The same, logistic noise model."""
    return figure_4(runs, epsilons, "logistic")


# Ratings: accuracies of signs


def accuracies(train: Interactions, test: Interactions) -> Measure:
    """Shares of right signs: of the matrix, as in the paper; corrected, also of what users get by their own bits."""
    users = train.users.numbers(test.users.to_arrow(), "test")[test.user_numbers()].astype(np.int64)
    items = test.indices.astype(np.int64)

    def measure(model: Watched) -> dict[str, float]:
        truth = test.values >= np.float32(model.threshold_)
        found = {"matrix": float(np.mean((model.completed.at(users, items) >= 0) == truth))}
        if model.calibration == "exact":
            found["users"] = float(np.mean((model.predict_sign(train, test) > 0) == truth))
        return found

    return measure


def figure_2(runs: int = 10, epsilons: Iterable[float] = (1.0, 2.0, 4.0, 10.0)) -> Iterator[Row]:
    """MovieLens 100k, split u1. Without the bound on entries, which moves accuracies little and takes minutes."""
    train, _, test = discreet.datasets.movielens_folds("u1")
    published = {**PUBLISHED, "box": None}
    return compared([(train, accuracies(train, test))] * runs, epsilons, published, threshold=MEAN_RATING)


def figure_3(runs: int = 10, epsilons: Iterable[float] = (1.0, 2.0, 4.0, 7.0, 10.0)) -> Iterator[Row]:
    """Restaurants, another random fifth to test on for each run."""
    ratings, made = discreet.datasets.restaurant(), []
    for seed in range(runs):
        train, _, test = discreet.splits.holdout(ratings, valid=0.0, test=0.2, random_state=seed)
        made.append((train, accuracies(train, test)))
    return compared(made, epsilons, PUBLISHED, threshold=TWO_STARS)


FIGURES: dict[int, Callable[..., Iterator[Row]]] = {1: figure_1, 2: figure_2, 3: figure_3, 4: figure_4, 5: figure_5}
