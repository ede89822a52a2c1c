"""The probit objective: the worst case of an optimum whose linear perturbation stays secret.

A replay cannot freeze what is not released. So the second fit gets the perturbation with which its optimum is the same,
and the logarithm of how much less likely that is must not exceed what was paid.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import discreet
from discreet.audit.replaying import Recording, fitted, moved, same
from discreet.data import Interactions
from discreet.models.base import DERIVED
from discreet.models.one_bit.contributions import LINEAR_TERM, OUTPUT, PerturbedObjective, TrueBits, two_valued
from discreet.models.one_bit.likelihood import Link
from discreet.typing import Array

NUDGE = 1e-3  # of the perturbation, for the numerical derivative of an optimum


def unanimous(*flipped: int) -> Interactions:
    """A 20 x 20 matrix of bits that are all 1, except for those flipped."""
    rows = [(at // 20, at % 20, -1.0 if at in flipped else 1.0) for at in range(400)]
    return discreet.read(rows, items=list(range(20)), value_range=(-1, 1))


def cornered(link: Link, ridge: float) -> tuple[float, Array]:
    """tau, and the linear perturbation with which the first of many bits, all 1, matters most.

    For one entry, the density of the perturbation and the determinant of second derivatives change in opposite
    directions where no constraint is active. Here the ball holds the entry up, against its own perturbation: the matrix
    has a large singular value, to which the entry contributes little, and a small negative one; its nuclear norm would
    be larger if the entry were smaller. All other values are positive, so that the ball hardly keeps it from moving.
    """
    size, large, share, value, others, multiplier = 20, 15.0, 0.08, 0.98, 0.2, 3.0
    small = (share * large - value) / (1 - share)
    first = np.where(np.arange(size) == 0, share**0.5, ((1 - share) / (size - 1)) ** 0.5)
    second = np.where(np.arange(size) == 0, (1 - share) ** 0.5, -((share / (size - 1)) ** 0.5))
    rest = np.eye(size) - np.outer(first, first) - np.outer(second, second)
    matrix = large * np.outer(first, first) - small * np.outer(second, second) + others * rest
    normal = np.outer(first, first) - np.outer(second, second) + rest
    slope = link.log_slope(matrix) - ridge * matrix - multiplier * normal
    return large + small + (size - 2) * others, np.rint(slope.ravel() * 2**20) / 2**20  # on any finer grid


def with_the_same_optimum(first: Recording, data: Interactions, neighbor: Interactions) -> tuple[list[Array], float]:
    """The answers with which a neighbor, with one bit flipped, has the same optimum; and the log of their likelihood.

    The release is the optimum X, a function of the bits B and of a secret linear perturbation H. At the optimum, H =
    -(l'(X; B) + ridge X + a term for the constraints), so for other bits B' it is H' = H + l'(X; B) - l'(X; B'). The
    density of X is that of H times the determinant of A = -dH/dX. Only the diagonal entry of the bit differs, by e: the
    ratio of the determinants is 1 + e / A, by that entry of the inverse of A, -dX/dH.
    """
    secret, matrix = first.releases[0], first.releases[1].statistic
    true, other = (TrueBits.of(table, two_valued(table, None)) for table in (data, neighbor))
    ((at,),) = np.nonzero(true.bits != other.bits)
    mechanism = first.model._mechanism()
    fit, link = mechanism.fit(first.model.tau), mechanism.link
    place = true.observed.rows[at], true.observed.columns[at]
    nudge = np.where(np.arange(len(secret.answer)) == at, NUDGE, 0.0)
    ends = [fit.solve(true, secret.answer + way * nudge, mechanism.gap(len(nudge)))[place] for way in (-1.0, 1.0)]
    signs = np.where(np.array([true.bits[at], other.bits[at]]) > 0, 1.0, -1.0)
    slopes, bends = -signs * link.log_slope(signs * matrix[place]), link.bend(signs * matrix[place])
    answer = np.array(secret.answer)
    answer[at] += np.rint((slopes[0] - slopes[1]) / secret.step) * secret.step
    likelier = float(np.abs(secret.answer).sum() - np.abs(answer).sum()) / secret.scale
    likelier += float(np.log1p((bends[1] - bends[0]) * (ends[0] - ends[1]) / (2 * NUDGE)))
    return [answer, *first.answers[1:]], likelier


@pytest.fixture(scope="module")
def worst() -> tuple[Recording, Recording, float]:
    """Two fits with the same result; and by how much of what it costs, one of them is less likely."""
    tau, perturbation = cornered(Link("probit"), ridge=0.5)
    make: Any = partial(discreet.OneBit, "objective", "probit", epsilon=4.0, tau=tau, ridge=0.5, biases=False, n_jobs=1)
    data, neighbor = unanimous(), unanimous(0)
    first = fitted(make, data, answers=[perturbation], seed=7)
    answers, likelier = with_the_same_optimum(first, data, neighbor)
    secret = first.releases[0]
    return first, fitted(make, neighbor, answers=answers, seed=7), abs(likelier) * secret.scale / secret.sensitivity


def test_a_bit_makes_the_optimum_less_likely_by_nearly_what_is_paid(worst: Any) -> None:
    first, second, share = worst
    assert first.releases[0].label == LINEAR_TERM
    assert 0.95 <= share <= 1
    assert moved(first, second)[OUTPUT] <= 1
    guarantee = first.model.guarantee_
    both = share * first.releases[0].sensitivity / first.releases[0].scale
    both += first.releases[1].distance(second.releases[1]) / first.releases[1].scale
    assert 0.9 * guarantee.epsilon <= both <= guarantee.epsilon


def test_nothing_else_differs(worst: Any) -> None:
    first, second, _ = worst
    assert first.labels == second.labels
    assert first.words == second.words
    one, other = ({name: value for name, value in vars(fit.model).items() if name not in DERIVED} for fit in worst[:2])
    assert same(one, other)


def test_without_the_jacobian_too_little_is_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all else right, a bit costs more than its linear perturbation, by the ratio of second derivatives."""
    monkeypatch.setattr(PerturbedObjective, "extra", 0.0)
    tau, perturbation = cornered(Link("probit"), ridge=0.5)
    make = partial(discreet.OneBit, "objective", "probit", epsilon=4.0, tau=tau, ridge=0.5, biases=False, n_jobs=1)
    first = fitted(make, unanimous(), answers=[perturbation], seed=7)
    _, likelier = with_the_same_optimum(first, unanimous(), unanimous(0))
    assert abs(likelier) > 1.05 * first.releases[0].sensitivity / first.releases[0].scale
