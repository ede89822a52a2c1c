"""Figure 8: MovieLens 10M, 400 films, fewer users: test RMSE against epsilon; as Figure 3a otherwise.

Users are picked at random. The text says that with 16,000 of 69,692 users (23%) DPALS is better than Frank-Wolfe with
all of them, whose values follow from the text on Figure 3a.
"""

from collections.abc import Iterator

import numpy as np

from discreet.papers.data import Labelled, load, most_rated
from discreet.papers.dpals import fig3a, protocol
from discreet.papers.reproduction import Options, Plot, Point, Reproduction, printed

USERS = (4_000, 8_000, 16_000, 32_000, 69_692)


def points(options: Options) -> Iterator[Point]:
    """All points."""
    ratings, label = most_rated(load("ml-10m", options, protocol.TOP_400))
    shuffled = np.random.default_rng(0).permutation(ratings.n_users)
    for wanted in options.few(USERS, 2):
        users = max(50, round(ratings.n_users * wanted / USERS[-1]))  # the same fractions of other data
        some = ratings.of_users(np.sort(shuffled[:users]))
        task = protocol.ratings_task("ml-10m-top400", Labelled(some, label), 0.01, 0.01, options)
        for epsilon in options.few(protocol.EPSILONS[task.column]):
            yield from task.of_2021(epsilon, {"users": users})
            yield from task.ours(epsilon, users=users)


REPRODUCTION = Reproduction(
    name="dpals-fig8",
    paper=protocol.PAPER,
    title="Figure 8: MovieLens 10M (400 films), test RMSE against epsilon by the number of users",
    protocol=__doc__,
    measure="rmse",
    points=points,
    published=printed(
        fig3a.FRANK_WOLFE,
        "rmse",
        (protocol.PRINTED, protocol.EXACT, protocol.OURS),
        "Appendix D.4",
        "below",
        users=16_000,
    ),
    needs=("ml-10m",),
    runs=1,
    plot=Plot(lines=("users",)),
)
