"""Figure 1: relative error by epsilon on synthetic bits, 100 x 100, rank 1, 15% observed, both links; 40 draws.

The text has no numbers, but says that output perturbation is comparable to the other mechanisms from epsilon 4 on.
"""

from collections.abc import Iterator

from discreet.papers.one_bit import protocol
from discreet.papers.reproduction import Options, Plot, Point, Published, Reproduction, ratio_of, value_of


def points(options: Options) -> Iterator[Point]:
    """All points."""
    for link in options.few(("logistic", "probit")):
        yield from protocol.synthetic(link, 0.15, options.few(protocol.EPSILONS), options)


def _comparable(link: str, epsilon: float) -> Published:
    """The error of output perturbation over that of input perturbation."""
    error = {
        name: value_of("error", link=link, epsilon=epsilon, method=f"{name}, as published")
        for name in ("input", "output")
    }
    what = f"output / input, as published, {link}, epsilon {epsilon:g}"
    return Published(what, 1.0, ratio_of(error["output"], error["input"]), "Section 5.2.1: comparable", "about")


REPRODUCTION = Reproduction(
    name="one-bit-fig1",
    paper=protocol.PAPER,
    title="Figure 1: synthetic bits, relative error against epsilon",
    protocol=__doc__,
    measure="error",
    points=points,
    published=tuple(_comparable(link, epsilon) for link in ("logistic", "probit") for epsilon in (4.0, 10.0)),
    runs=40,
    plot=Plot(panels="link", log="y", lines=("observed",)),
)
