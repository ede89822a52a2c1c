"""Figure 9: MovieLens 10M and 20M, several ranks: test RMSE and Recall@20 against epsilon.

The text says that on MovieLens 10M rank 128 is good at large epsilons but not at 1, and that on MovieLens 20M rank 128
is best near epsilon 20 and rank 32 at smaller ones. Other hyper-parameters are those of Table 4. "value" is the RMSE,
for MovieLens 20M Recall@20.
"""

from collections.abc import Iterator
from dataclasses import replace

from discreet.papers.data import at_hand
from discreet.papers.dpals import protocol
from discreet.papers.reproduction import Options, Plot, Point, Published, Reproduction, best_of

RANKS = (8, 32, 128)
BEST = {("ml-10m", 20): (128, "")} | {("ml-10m", 1): (128, "below")}
BEST |= {("ml-20m", epsilon): (32, "") for epsilon in (1, 5, 10)} | {("ml-20m", 20): (128, "")}


def points(options: Options) -> Iterator[Point]:
    """All points."""
    for column in at_hand(("ml-10m", "ml-20m"), options):
        task = replace(protocol.TASKS[column](options), measure="value")
        for epsilon in options.few(protocol.EPSILONS[column]):
            for rank in (2, 4) if options.quick else RANKS:
                yield from task.of_2021(epsilon, {"column": column, "rank": rank}, rank=rank)


REPRODUCTION = Reproduction(
    name="dpals-fig9",
    paper=protocol.PAPER,
    title="Figure 9: MovieLens 10M and 20M, the rank of the model",
    protocol=__doc__,
    measure="value",
    points=points,
    published=tuple(
        Published(
            f"best rank, {column}, epsilon {epsilon}, as published",
            rank,
            best_of(
                "rank", "value", min if column == "ml-10m" else max,
                method=protocol.PRINTED, column=column, epsilon=epsilon,
            ),
            "Appendix D.4",
            says,
        )
        for (column, epsilon), (rank, says) in BEST.items()
    ),
    needs=("ml-10m", "ml-20m"),
    runs=1,
    plot=Plot(panels="column", lines=("rank",)),
)  # fmt: skip
