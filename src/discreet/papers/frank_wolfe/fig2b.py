"""Figure 2b: Jester, 100 jokes rated by 73,421 users, scaled to 0..5; nobody's ratings are left out.

All parts of the data set that are at hand are taken: the first of three has 24,983 users. k and L of the published
algorithm are those that a prototype did best with on the first part, 2400 and 8, k growing as the root of the users.
"""

from collections.abc import Iterator

import discreet
from discreet.papers.data import load
from discreet.papers.frank_wolfe import figure_2
from discreet.papers.reproduction import Options, Point

RADIUS, USERS, ROW_NORM = 2400.0, 24_983, 8.0


def data(options: Options) -> figure_2.Data:
    """The ratings, divided."""
    ratings, label = load("jester", options)
    ratings = ratings.rescale(0, 5)
    train, _, test = discreet.splits.holdout(ratings, valid=0.0, test=figure_2.TEST, random_state=0)
    label = f"{label}, {ratings.n_users:,} users, scaled to 0..5"
    return figure_2.Data(label, train, train, test, True, RADIUS * (ratings.n_users / USERS) ** 0.5, ROW_NORM)


def points(options: Options) -> Iterator[Point]:
    """All points."""
    return figure_2.points(figure_2.fixed(data, options), options)


REPRODUCTION = figure_2.panel("b", "Jester, test RMSE against epsilon", __doc__, points, needs=("jester",))
