"""Figure 2e: the 400 most rated items of Yahoo! Music, 995,000 users; the paper does not say how many ratings.

At most 80 ratings of each user are learned from, picked at random; scores are scaled to 0..5.
"""

from collections.abc import Iterator

from discreet.papers.frank_wolfe import figure_2
from discreet.papers.reproduction import Options, Point

MADE_UP = (995_000, 400, 20_000_000)  # users, items, ratings of data in its place


def data(options: Options) -> figure_2.Data:
    """The ratings, divided."""
    return figure_2.top_400("yahoo-music", options, MADE_UP, rescale=True)


def points(options: Options) -> Iterator[Point]:
    """All points."""
    return figure_2.points(figure_2.fixed(data, options), options)


REPRODUCTION = figure_2.panel(
    "e", "Yahoo! Music (400 items), test RMSE against epsilon", __doc__, points, needs=("yahoo-music",)
)
