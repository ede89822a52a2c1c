"""Figure 4: relative error by the share of entries observed, 20% to 80%, Gaussian noise model; 10 draws.

The paper says that all four mechanisms get better with more entries, and that at epsilon up to 1 objective and output
perturbation hardly do.
"""

from collections.abc import Iterator

from discreet.papers.one_bit import protocol
from discreet.papers.reproduction import Options, Plot, Point, Published, Reproduction, ratio_of, value_of

EPSILONS = (1.0, 4.0, 10.0)
SHARES = (0.2, 0.4, 0.6, 0.8)


def points(options: Options, link: str = "probit") -> Iterator[Point]:
    """All points."""
    for observed in options.few(SHARES, 2):
        yield from protocol.synthetic(link, observed, options.few(EPSILONS), options)


def _with_more(method: str, epsilon: float, where: str, says: str) -> Published:
    """The error with 80% observed over that with 20%."""
    more, less = (
        value_of("error", method=f"{method}, as published", epsilon=epsilon, observed=share) for share in (0.8, 0.2)
    )
    what = f"80% / 20% observed, {method}, as published, epsilon {epsilon:g}"
    return Published(what, 1.0, ratio_of(more, less), f"Section 5.3: {where}", says)


def more_is_better() -> tuple[Published, ...]:
    """What the text says of more entries."""
    better = [
        _with_more(method, epsilon, "better with more entries", "below")
        for method in protocol.MECHANISMS
        for epsilon in (4.0, 10.0)
    ]
    return (*better, *(_with_more(method, 1.0, "less prone to change", "about") for method in ("objective", "output")))


def figure(number: int, noise: str, protocol_text: str | None, link: str) -> Reproduction:
    """Figure 4 or 5."""
    return Reproduction(
        name=f"one-bit-fig{number}",
        paper=protocol.PAPER,
        title=f"Figure {number}: {noise} noise model, relative error against the share of entries observed",
        protocol=protocol_text or "",
        measure="error",
        points=lambda options: points(options, link),
        published=more_is_better(),
        plot=Plot("observed", "share of entries observed", panels="epsilon", log="y", lines=("link",)),
    )


REPRODUCTION = figure(4, "Gaussian", __doc__, "probit")
