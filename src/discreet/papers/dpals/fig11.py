"""Figure 11: MovieLens 20M, epsilon 5, Recall@20 against the fraction of films that are trained on, by rank.

The text says that the best fraction is between 5% and 10%, depending on the rank.
"""

from collections.abc import Iterator
from dataclasses import replace

from discreet.papers.dpals import fig5, protocol
from discreet.papers.reproduction import Options, Point, Published, Reproduction, best_of

RANKS = (32, 128)
FRACTIONS = (0.02, 0.05, 0.1, 0.2, 0.4)
EPSILON = 5


def points(options: Options) -> Iterator[Point]:
    """All points."""
    task = protocol.ml_20m(options)
    for fraction in options.few(FRACTIONS, 2):
        for rank in (2, 4) if options.quick else RANKS:
            other = {"item_fraction": fraction, "rank": rank}
            yield from task.of_2021(EPSILON, {"fraction": fraction, "rank": rank}, **other)


REPRODUCTION = Reproduction(
    name="dpals-fig11",
    paper=protocol.PAPER,
    title="Figure 11: MovieLens 20M, epsilon 5, Recall@20 against the fraction of films",
    protocol=__doc__,
    measure="recall@20",
    points=points,
    published=tuple(
        Published(
            f"best fraction, rank {rank}, as published",
            bound,
            best_of("fraction", "recall@20", max, method=protocol.PRINTED, rank=rank),
            "Appendix D.4",
            says,
        )
        for rank in RANKS
        for says, bound in (("at least", 0.05), ("at most", 0.1))
    ),
    needs=("ml-20m",),
    runs=1,
    plot=replace(fig5.AXIS, lines=("rank",)),
)
