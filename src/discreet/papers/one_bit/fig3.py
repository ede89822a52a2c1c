"""Figure 3: restaurants (138 customers, 130 places), two stars against fewer: share of right signs; 10 runs.

Another random fifth of the ratings is for testing in each run. The text has no numbers.
"""

from collections.abc import Iterator

import discreet
from discreet.papers.data import load
from discreet.papers.one_bit import protocol
from discreet.papers.reproduction import Options, Plot, Point, Reproduction

TWO_STARS = 1.5  # the threshold: 2 stars against 0 or 1


def points(options: Options) -> Iterator[Point]:
    """All points."""
    ratings, label = protocol.few_users(load("restaurant", options), options)

    def draw(seed: int) -> protocol.Draw:
        train, _, test = discreet.splits.holdout(ratings, valid=0.0, test=0.2, random_state=seed)
        return train, protocol.accuracies(train, test)

    return protocol.compared(draw, {"data": label}, options.few(protocol.EPSILONS), options, threshold=TWO_STARS)


REPRODUCTION = Reproduction(
    name="one-bit-fig3",
    paper=protocol.PAPER,
    title="Figure 3: restaurants, share of right signs against epsilon",
    protocol=__doc__,
    measure="accuracy",
    points=points,
    needs=("restaurant",),
    plot=Plot(log=""),
)
