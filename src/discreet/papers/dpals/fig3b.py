"""Figure 3b: MovieLens 10M, test RMSE against epsilon; 80/10/10, delta 1e-5, 20 runs.

DPALS's values are those of Table 5; non-private ALS has .785 (Section 6.3). Frank-Wolfe learns the 400 most rated
films, others get the user's own mean; how many films the paper took is not said, nor any of its values. Beside the
paper: the weights of 2023 in the place of sampling, also with settings searched on generated data.
"""

from collections.abc import Iterator
from functools import partial

import discreet
from discreet.papers.dpals import protocol
from discreet.papers.frank_wolfe.figure_2 import PUBLISHED
from discreet.papers.reproduction import Options, Plot, Point, Published, Reproduction, value_of

# epsilon -> item_fraction, regularization, penalty of a user with 150 ratings
SEARCHED = {1: (0.05, 1000.0, 5.0), 5: (0.2, 300.0, 3.0), 10: (0.3, 300.0, 3.0), 20: (0.4, 100.0, 5.0)}


def points(options: Options) -> Iterator[Point]:
    """All points."""
    task = protocol.ml_10m(options)
    yield task.point("each user's own mean", lambda: discreet.MeanRating("user"), runs=1)
    yield task.point(protocol.ALS, discreet.ALS, runs=1)
    for epsilon in options.few(protocol.EPSILONS["ml-10m"]):
        yield from task.of_2021(epsilon)
        yield from task.ours(epsilon)
        if options.wants(""):
            yield from weights(task, epsilon)
        if options.wants(PUBLISHED):
            yield task.point(PUBLISHED, partial(top_films, task, epsilon), epsilon)


def weights(task: protocol.Task, epsilon: float) -> Iterator[Point]:
    """Weights of 2023, with the hyper-parameters of Table 4, and searched."""
    fraction, penalty, user_penalty = SEARCHED[int(epsilon)]
    plain = partial(protocol.table_4, task, epsilon, sampling="weights")
    searched = {
        "rank": 16, "n_steps": 4, "max_items": 20, "entry_clip": None, "item_fraction": fraction,
        "regularization": penalty, "typical_count": penalty * 150 / user_penalty,
    }  # fmt: skip
    yield task.point("DPALS 2021, weights of 2023, exact noise", plain, epsilon)
    yield task.point("the same, searched, exact noise", partial(plain, **searched), epsilon)


def top_films(task: protocol.Task, epsilon: float, n_items: int = 400) -> protocol.Partly:
    """Frank-Wolfe on the films that are rated most."""
    kept = protocol.most_rated_items(task.train, n_items)
    return protocol.Partly(partial(protocol.frank_wolfe, task, epsilon, len(kept)), kept)


REPRODUCTION = Reproduction(
    name="dpals-fig3b",
    paper=protocol.PAPER,
    title="Figure 3b: MovieLens 10M, test RMSE against epsilon",
    protocol=__doc__,
    measure="rmse",
    points=points,
    published=(
        *protocol.table_5("ml-10m", "rmse"),
        Published(protocol.ALS, 0.785, value_of("rmse", method=protocol.ALS), "Section 6.3"),
    ),
    needs=("ml-10m",),
    runs=20,
    plot=Plot(),
)
