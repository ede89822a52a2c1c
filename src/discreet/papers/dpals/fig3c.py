"""Figure 3c: MovieLens 20M, Recall@20 against epsilon; the protocol of Liang and others (2018), delta 1/n, 20 runs.

DPALS's values are those of Table 5; 36.0% is what Liang and others have for ALS without privacy. Ours is what
`Recommender` chooses for implicit feedback: DPSVD. Beside the paper: the weights of 2023 in the place of sampling.
"""

from collections.abc import Iterator
from functools import partial

import discreet
from discreet.papers.dpals import protocol
from discreet.papers.reproduction import Options, Plot, Point, Published, Reproduction, value_of

WEIGHTS = "DPALS 2021, weights of 2023, exact noise"


def points(options: Options) -> Iterator[Point]:
    """All points."""
    task = protocol.ml_20m(options)
    yield task.point("the most rated films", discreet.Popularity, runs=1)
    yield task.point(protocol.ALS, discreet.ALS, runs=1)
    for epsilon in options.few(protocol.EPSILONS["ml-20m"]):
        yield from task.of_2021(epsilon)
        yield from task.ours(epsilon)
        if options.wants(WEIGHTS):
            yield task.point(WEIGHTS, partial(protocol.table_4, task, epsilon, sampling="weights"), epsilon)


REPRODUCTION = Reproduction(
    name="dpals-fig3c",
    paper=protocol.PAPER,
    title="Figure 3c: MovieLens 20M, Recall@20 against epsilon",
    protocol=__doc__,
    measure="recall@20",
    points=points,
    published=(
        *protocol.table_5("ml-20m", "recall@20"),
        Published(protocol.ALS, 0.360, value_of("recall@20", method=protocol.ALS), "Section 6.2"),
    ),
    needs=("ml-20m",),
    runs=20,
    plot=Plot(),
)
