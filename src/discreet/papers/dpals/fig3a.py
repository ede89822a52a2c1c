"""Figure 3a: MovieLens 10M, the 400 most rated films, test RMSE against epsilon; 98/1/1, delta 1e-5, 20 runs.

DPALS's values are those of Table 5. Those of Frank-Wolfe follow from the text, by which DPALS is better by 7% at the
smallest and 11.6% at the largest epsilon. Private SVD is said to be worse than predicting the mean of all ratings.
"""

from collections.abc import Iterator
from functools import partial

import discreet
from discreet.papers.dpals import protocol
from discreet.papers.frank_wolfe.figure_2 import EXACT, PUBLISHED, exact_noise
from discreet.papers.reproduction import Options, Plot, Point, Published, Reproduction, printed, ratio_of, value_of

SVD, MEAN = "DPSVD, as published", "mean of all ratings"
FRANK_WOLFE = {0.8: 0.952, 16: 0.922}


def points(options: Options) -> Iterator[Point]:
    """All points."""
    task = protocol.top_400(options)
    yield task.point(MEAN, lambda: discreet.MeanRating("global"), runs=1)
    yield task.point(protocol.ALS, discreet.ALS, runs=1)
    for epsilon in options.few(protocol.EPSILONS[task.column]):
        yield from task.of_2021(epsilon)
        yield from task.ours(epsilon)
        yield from baselines(task, epsilon)


def baselines(task: protocol.Task, epsilon: float) -> Iterator[Point]:
    """Private Frank-Wolfe and the private SVD of 2018."""
    n_items = task.train.n_items
    methods = {
        PUBLISHED: partial(protocol.frank_wolfe, task, epsilon, n_items),
        EXACT: partial(protocol.frank_wolfe, task, epsilon, n_items, exact_noise),
        SVD: partial(discreet.DPSVD.as_published, epsilon=epsilon, delta=task.delta),
    }
    for method, make in methods.items():
        if task.options.wants(method):
            yield task.point(method, make, epsilon)


REPRODUCTION = Reproduction(
    name="dpals-fig3a",
    paper=protocol.PAPER,
    title="Figure 3a: MovieLens 10M (400 films), test RMSE against epsilon",
    protocol=__doc__,
    measure="rmse",
    points=points,
    published=(
        *protocol.table_5("ml-10m-top400", "rmse"),
        *printed(FRANK_WOLFE, "rmse", (PUBLISHED, EXACT), "Section 6.2", "about"),
        Published(
            "DPSVD, as published / mean of all ratings, epsilon 16",
            1.0,
            ratio_of(value_of("rmse", method=SVD, epsilon=16), value_of("rmse", method=MEAN)),
            "Section 6.2: worse",
            "above",
        ),
    ),
    needs=("ml-10m",),
    runs=20,
    plot=Plot(),
)
