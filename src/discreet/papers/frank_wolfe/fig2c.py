"""Figure 2c: the 400 most rated items of MovieLens 10M, 4.49 million ratings of 69,692 users.

At most 80 ratings of each user are learned from, picked at random.
"""

from collections.abc import Iterator

from discreet.papers.frank_wolfe import figure_2
from discreet.papers.reproduction import Options, Point

MADE_UP = (69_692, 400, 4_490_000)  # users, items, ratings of data in its place


def data(options: Options) -> figure_2.Data:
    """The ratings, divided."""
    return figure_2.top_400("ml-10m", options, MADE_UP)


def points(options: Options) -> Iterator[Point]:
    """All points."""
    return figure_2.points(figure_2.fixed(data, options), options)


REPRODUCTION = figure_2.panel(
    "c", "MovieLens 10M (400 items), test RMSE against epsilon", __doc__, points, needs=("ml-10m",)
)
