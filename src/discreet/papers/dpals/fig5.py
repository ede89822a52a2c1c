"""Figure 5: MovieLens 10M, epsilon 10, test RMSE against the fraction of films that are trained on; rank 128, k = 50.

With uniform and with adaptive samples of 50 ratings of each user, private and not. The text gives the best values: .785
for ALS, .812 for ALS on samples, .870 and .854 for DPALS with uniform and adaptive sampling. Without the projection to
positive semidefinite matrices DPALS is said to be "terrible"; this library has no such model. ALS here has biases, and
the paper's has none; other films get the user's own mean.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

import discreet
from discreet.completion.als.sampling import lowest, uniform
from discreet.completion.parts import Part
from discreet.data.interactions import Interactions
from discreet.papers.dpals import protocol
from discreet.papers.reproduction import Options, Ours, Plot, Point, Published, Reproduction, Row, best_of, value_of

FRACTIONS = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
K, EPSILON = 50, 10
AXIS = Plot("fraction", "fraction of the films that are trained on", log="")


def points(options: Options) -> Iterator[Point]:
    """All points."""
    task = protocol.ml_10m(options)
    samples = {"": None, ", uniform sample": sampled_uniformly, ", adaptive sample": sampled}
    for fraction in options.few(FRACTIONS, 2):
        keys = {"fraction": fraction}
        kept = protocol.most_rated_items(task.train, max(1, round(fraction * task.train.n_items)))
        als = partial(discreet.ALS, 4 if options.quick else 128)
        for name, sample in samples.items():
            yield task.point(f"{protocol.ALS}{name}", partial(protocol.Partly, als, kept, sample), None, 1, **keys)
        for name in ("uniform", "adaptive"):
            yield from task.of_2021(
                EPSILON, keys, f"DPALS 2021, {name} sample", item_fraction=fraction, sampling=name, max_items=K
            )


def sampled_uniformly(ratings: Interactions) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which 50 ratings of each user count."""
    return uniform(Part(ratings.indptr, ratings.indices, ratings.values), K, 0)


def sampled(ratings: Interactions) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """The 50 whose films are rated least."""
    counts = np.bincount(ratings.indices, minlength=ratings.n_items).astype(np.float64)
    return lowest(Part(ratings.indptr, ratings.indices, ratings.values), K, counts)


def least(method: str) -> Ours:
    """The smallest error of a method over all fractions."""

    def found(rows: Sequence[Row]) -> float | None:
        return min((row["rmse"] for row in rows if row["method"] == method), default=None)

    return found


REPRODUCTION = Reproduction(
    name="dpals-fig5",
    paper=protocol.PAPER,
    title="Figure 5: MovieLens 10M, epsilon 10, test RMSE against the fraction of films",
    protocol=__doc__,
    measure="rmse",
    points=points,
    published=(
        Published("ALS, all films", 0.785, value_of("rmse", method=protocol.ALS, fraction=1.0), "Section 6.3"),
        *(
            Published(f"ALS, {name} sample, best", 0.812, least(f"{protocol.ALS}, {name} sample"), "Section 6.3")
            for name in ("uniform", "adaptive")
        ),
        *(
            Published(f"DPALS 2021, {name} sample, {noise}, best", value, least(f"DPALS 2021, {name} sample, {noise}"),
                      "Section 6.3")
            for name, value in {"uniform": 0.870, "adaptive": 0.854}.items()
            for noise in ("as published", "exact noise")
        ),
        Published("best fraction for ALS", 1.0, best_of("fraction", "rmse", method=protocol.ALS), "Section 6.3"),
    ),
    needs=("ml-10m",),
    runs=1,
    plot=AXIS,
)  # fmt: skip
