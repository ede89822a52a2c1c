"""Figure 2a: a random rank-one matrix of largest entry 1, 500,000 x 400, with 80 entries of each user.

Each run has a matrix of its own. The paper chooses k by what does best. At epsilon 1 that is 4 to 8 times the nuclear
norm of the matrix: steps are short. Here it is 4 times; L is half the root of 80. The test ratings of 50,000 users are
looked at.
"""

from collections.abc import Iterator
from functools import lru_cache, partial

import numpy as np

import discreet
from discreet.papers.frank_wolfe import figure_2
from discreet.papers.reproduction import Options, Point

USERS, TESTED, TIMES = 500_000, 50_000, 4.0


def data(options: Options, run: int = 0) -> figure_2.Data:
    """The matrix of a run, divided."""
    n_users, n_items, each = (400, 60, 20) if options.quick else (USERS, 400, figure_2.RATINGS)
    ratings, truth = discreet.datasets.rank_one(n_users, n_items, per_user=each, random_state=run, return_truth=True)
    train, _, test = discreet.splits.holdout(ratings, valid=0.0, test=figure_2.TEST, random_state=run)
    some = list(ratings.users[: min(TESTED, n_users)])
    nuclear = float(np.linalg.norm(truth.user_factors) * np.linalg.norm(truth.item_factors))
    label = f"rank one, {n_users:,} x {n_items}, {each} ratings of each user"
    norm = each**0.5 / 2
    return figure_2.Data(label, train, train.for_users(some), test.for_users(some), False, TIMES * nuclear, norm)


def points(options: Options) -> Iterator[Point]:
    """All points."""
    return figure_2.points(lru_cache(maxsize=1)(partial(data, options)), options, plain_runs=None)


REPRODUCTION = figure_2.panel(
    "a", "a rank-one matrix, test RMSE against epsilon", __doc__, points, log="xy", by_run=True
)
