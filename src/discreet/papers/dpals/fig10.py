"""Figure 10: MovieLens 10M, test RMSE against the fraction of films that are trained on, by epsilon; rank 32, k = 50.

The text says that at epsilon 1 the best fraction is 5%, which still has more than half of the ratings.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from discreet.papers.dpals import fig5, protocol
from discreet.papers.dpals.fig2 import held
from discreet.papers.reproduction import Options, Point, Published, Reproduction, best_of, value_of


def points(options: Options) -> Iterator[Point]:
    """All points; "share" is that of the ratings that the films have."""
    task = protocol.ml_10m(options)
    shares = held(task.train)
    for fraction in options.few(fig5.FRACTIONS, 2):
        keys = {"fraction": fraction, "share": round(float(np.interp(fraction, *shares)), 4)}
        for epsilon in options.few(protocol.EPSILONS["ml-10m"]):
            other = {"item_fraction": fraction, "rank": 32, "max_items": 50}
            yield from task.of_2021(epsilon, keys, **other)


REPRODUCTION = Reproduction(
    name="dpals-fig10",
    paper=protocol.PAPER,
    title="Figure 10: MovieLens 10M, test RMSE against the fraction of films by epsilon",
    protocol=__doc__,
    measure="rmse",
    points=points,
    published=(
        *(
            Published(
                f"best fraction, {method}, epsilon 1",
                0.05,
                best_of("fraction", "rmse", method=method, epsilon=1),
                "Appendix D.4",
            )
            for method in (protocol.PRINTED, protocol.EXACT)
        ),
        Published(
            "share of the ratings of 5% of the films", 0.5, value_of("share", fraction=0.05), "Appendix D.4", "above"
        ),
    ),
    needs=("ml-10m",),
    runs=1,
    plot=replace(fig5.AXIS, lines=("epsilon",)),
)
