"""Figure 2d: the 400 most rated items of Netflix, 474,000 users; the paper does not say how many ratings.

At most 80 ratings of each user are learned from, picked at random.
"""

from collections.abc import Iterator

from discreet.papers.frank_wolfe import figure_2
from discreet.papers.reproduction import Options, Point

MADE_UP = (474_000, 400, 19_000_000)  # users, items, ratings of data in its place


def data(options: Options) -> figure_2.Data:
    """The ratings, divided."""
    return figure_2.top_400("netflix", options, MADE_UP)


def points(options: Options) -> Iterator[Point]:
    """All points."""
    return figure_2.points(figure_2.fixed(data, options), options)


REPRODUCTION = figure_2.panel(
    "d", "Netflix (400 items), test RMSE against epsilon", __doc__, points, needs=("netflix",)
)
