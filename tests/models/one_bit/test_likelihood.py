"""Links and losses of one-bit completion."""

import numpy as np
import pytest

from discreet.models.one_bit.likelihood import FlippedBits, Link, Loss, ShiftedBits

RNG = np.random.default_rng(0)
LINKS = [Link("logistic"), Link("probit"), Link("probit", 2.5)]
BITS = RNG.integers(0, 2, 50)
LOSSES: list[Loss] = [FlippedBits(BITS, link, *flips) for link in LINKS for flips in ((0.0, 0.0), (0.2, 0.3))]
LOSSES.append(ShiftedBits(BITS + RNG.laplace(size=50), 2.0))


@pytest.mark.parametrize("loss", LOSSES)
def test_slopes_are_derivatives(loss: Loss) -> None:
    x, step = np.linspace(-4, 4, 50), 1e-6
    _, slopes = loss(x)
    for at in range(0, 50, 7):
        there = np.zeros(50)
        there[at] = step
        measured = (loss(x + there)[0] - loss(x - there)[0]) / (2 * step)
        assert slopes[at] == pytest.approx(measured, abs=1e-5)


@pytest.mark.parametrize("link", LINKS)
def test_links(link: Link) -> None:
    x = np.linspace(-3, 3, 61)
    assert np.allclose(link.probability(x) + link.probability(-x), 1)
    assert np.allclose(np.log(link.probability(x)), link.log(x))
    assert np.allclose(link.density(x) / link.probability(x), link.log_slope(x))
    assert link.density(np.zeros(1))[0] == pytest.approx(link.slope) == pytest.approx(link.density(x).max())
    bend = -np.diff(link.log_slope(np.linspace(-30, 5, 4001))) / (35 / 4000)
    assert bend.max() <= link.curvature * (1 + 1e-6)
    assert bend.max() >= 0.9 * link.curvature
    jump = link.log_slope(x) + link.log_slope(-x)  # how far a flip moves the derivative
    assert jump.max() == pytest.approx(link.sensitivity(3.0), rel=1e-9)


def test_the_sensitivity_of_a_probit_gradient_is_that_of_the_proof() -> None:
    assert Link("probit").sensitivity(1.0) == pytest.approx(1.81, abs=0.01)
    assert Link("logistic").sensitivity(5.0) == 1.0
