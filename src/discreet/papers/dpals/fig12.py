"""Figure 12: MovieLens 10M, epsilon 10, rank 128: test RMSE against the fraction of films, by regularization exponents.

Penalties grow as count^nu for users and as count^mu for films. The text has no numbers; by Table 4 the best exponents
are nu = 1 and mu = .5. Other hyper-parameters are those of Table 4, where the paper tuned them again.
"""

from collections.abc import Iterator
from dataclasses import replace

from discreet.papers.dpals import fig5, protocol
from discreet.papers.reproduction import Options, Point, Published, Reproduction, best_of

EXPONENTS = ((0.0, 0.0), (0.5, 0.5), (1.0, 0.0), (1.0, 0.5), (1.0, 1.0))  # nu, mu
EPSILON = 10


def points(options: Options) -> Iterator[Point]:
    """All points."""
    task = protocol.ml_10m(options)
    for fraction in options.few(fig5.FRACTIONS, 2):
        for user, item in options.few(EXPONENTS, 2):
            keys = {"fraction": fraction, "nu": user, "mu": item}
            other = {"item_fraction": fraction, "user_exponent": user, "item_exponent": item}
            yield from task.of_2021(EPSILON, keys, **other)


REPRODUCTION = Reproduction(
    name="dpals-fig12",
    paper=protocol.PAPER,
    title="Figure 12: MovieLens 10M, epsilon 10, test RMSE against the fraction of films by exponents of penalties",
    protocol=__doc__,
    measure="rmse",
    points=points,
    published=tuple(
        Published(f"best {name}, {method}", value, best_of(name, "rmse", method=method), "Table 4")
        for method in (protocol.PRINTED, protocol.EXACT)
        for name, value in (("nu", 1.0), ("mu", 0.5))
    ),
    needs=("ml-10m",),
    runs=1,
    plot=replace(fig5.AXIS, lines=("nu", "mu")),
)
