"""Table 5: mean and standard deviation of DPALS in Figure 3 over 20 runs, on those of its three tasks that can be run.

"value" is the test RMSE, for MovieLens 20M Recall@20.
"""

from collections.abc import Iterator
from dataclasses import replace

from discreet.papers.data import at_hand
from discreet.papers.dpals import protocol
from discreet.papers.reproduction import Options, Point, Published, Reproduction, printed, value_of

DEVIATIONS: dict[str, dict[float, float]] = {
    "ml-10m-top400": {0.8: 0.0025, 4: 0.0009, 8: 0.0011, 16: 0.0008},
    "ml-10m": {1: 0.0009, 5: 0.0006, 10: 0.0004, 20: 0.0005},
    "ml-20m": {1: 0.0016, 5: 0.0010, 10: 0.0012, 20: 0.0013},
}


def points(options: Options) -> Iterator[Point]:
    """All points."""
    there = at_hand(("ml-10m", "ml-20m"), options)
    for column, task in protocol.TASKS.items():
        if protocol.SOURCES[column] in there:
            own = replace(task(options), measure="value")
            for epsilon in options.few(protocol.EPSILONS[column]):
                yield from own.of_2021(epsilon, {"column": column})


def _published() -> Iterator[Published]:
    for column, means in protocol.TABLE_5.items():
        yield from printed(means, "value", (protocol.PRINTED, protocol.EXACT), "Table 5", column=column)
        for epsilon, deviation in DEVIATIONS[column].items():
            ours = value_of("sd", method=protocol.PRINTED, epsilon=epsilon, column=column)
            yield Published(f"standard deviation, {column}, epsilon {epsilon:g}", deviation, ours, "Table 5")


REPRODUCTION = Reproduction(
    name="dpals-table5",
    paper=protocol.PAPER,
    title="Table 5: means and standard deviations of DPALS",
    protocol=__doc__,
    measure="value",
    points=points,
    published=tuple(_published()),
    needs=("ml-10m", "ml-20m"),
    runs=20,
    plot=None,
)
