"""What each mechanism releases, what that costs, and what is made of it: the one place that tells them apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from discreet.models.one_bit import objectives, outputs
from discreet.models.one_bit.budget import Budget
from discreet.models.one_bit.certified import StronglyConvex
from discreet.models.one_bit.contributions import FLIPPED, SHIFTED, TrueBits, flipped, shifted, variance
from discreet.models.one_bit.fitting import Completed
from discreet.models.one_bit.gradients import GRADIENT, Gradients, descend
from discreet.models.one_bit.likelihood import FlippedBits, ShiftedBits
from discreet.models.one_bit.objectives import TILT, Tilted, printed_change, usual_ridge
from discreet.models.one_bit.outputs import OUTPUT, Stable
from discreet.privacy import Laplace, Planned, Releaser

RIDGE = 0.5  # of the output mechanism, if it is not given


def on_bits(budget: Budget) -> bool:
    """Whether it is the bits that get noise: all that follows is then post-processing, by any solver."""
    return budget.mechanism == "input" or (budget.mechanism == "objective" and budget.link.name == "logistic")


def broken(budget: Budget) -> str:
    """Why there is no guarantee at all, if there is none."""
    if not budget.published:
        return ""
    if budget.mechanism == "output":
        return (
            "output perturbation as published has noise for the change of one entry, and one bit may change all of "
            "them (docs/one-bit-attack.md)"
        )
    if budget.mechanism == "objective" and budget.link.name == "probit":
        return (
            "objective perturbation as published for the probit link lacks a Jacobian, has half of the noise that its "
            "proof is about, and holds at an exact optimum only, which no solver finds (docs/proofs/one-bit.md)"
        )
    return ""


def clarity(budget: Budget) -> float:
    """The root of what is told of x by bits with the noise of gradients, or of a tilt, against true bits.

    Derivatives of the loss have the variance of their curvature, at x = 0; noise, the mean of that of all steps, is on
    top. 1 for what was published, which knows no such thing, and where noise comes after the fit.
    """
    if budget.published or budget.mechanism == "output":
        return 1.0
    noise = budget.additive() if budget.mechanism == "gradient" else _tilted(budget, 1.0).noise()
    spread = float(budget.link.log_slope(np.zeros(1))[0]) ** 2
    return 1 / math.sqrt(1 + variance(noise) / budget.releases / spread)


def planned(budget: Budget) -> tuple[Planned, ...]:
    """The releases of a fit, before any data is touched."""
    if budget.mechanism == "input":
        return (Planned(FLIPPED, budget.response().cost(budget.entries)),)
    if budget.mechanism == "output":
        cost = _printed_output(budget).cost(2 * budget.alpha) if budget.published else budget.share()
        return (Planned(OUTPUT, cost),)
    if not on_bits(budget) and budget.mechanism == "objective":
        if not budget.published:
            return _tilted(budget, 1.0).lines()
        return (Planned(TILT, _printed_tilt(budget).cost(budget.link.sensitivity(budget.alpha))),)
    noise, label = budget.additive(), GRADIENT if budget.mechanism == "gradient" else SHIFTED
    return (Planned(label, noise.cost(budget.two_valued().sensitivity("flip", noise)), budget.releases),)


def noisy_bits(releaser: Releaser, true: TrueBits, budget: Budget) -> FlippedBits | ShiftedBits:
    """The bits as the solver gets them."""
    if budget.mechanism == "input":
        return flipped(releaser, true, budget.response(), budget.entries, budget.link)
    return shifted(releaser, true, budget.two_valued(), budget.additive())


def noisy_matrix(releaser: Releaser, true: TrueBits, budget: Budget, radius: float, alpha: float | None) -> Completed:
    """The matrix of a mechanism that needs the true bits to find it; `alpha` if gradient steps are to keep the box."""
    if budget.mechanism == "gradient":
        gradients = Gradients(budget, budget.additive())
        return descend(releaser, true, gradients, radius=radius, steps=budget.steps, alpha=alpha)
    setting: dict[str, Any] = {"link": budget.link, "radius": radius, "alpha": budget.alpha}
    if budget.mechanism == "objective":
        if not budget.published:
            return _tilted(budget, radius).release(releaser, true)
        return objectives.as_printed(releaser, true, _printed_tilt(budget), **setting)
    if not budget.published:
        fit = StronglyConvex(budget.link, radius, budget.alpha, budget.ridge or RIDGE)
        return Stable(fit, budget.entries).release(releaser, true)
    return outputs.as_printed(releaser, true, _printed_output(budget), **setting)


def _tilted(budget: Budget, radius: float) -> Tilted:
    ridge = budget.ridge or usual_ridge(budget.link, budget.alpha, budget.epsilon / budget.entries)
    fit = StronglyConvex(budget.link, radius, budget.alpha, ridge)
    return Tilted(fit, budget.entries, budget.epsilon, budget.delta)


def _printed_tilt(budget: Budget) -> Laplace:
    """Half of what Theorem 2 asks for, for Eq. (5) multiplies it by a half."""
    return Laplace(printed_change(budget.link, budget.alpha) / (2 * budget.epsilon))


def _printed_output(budget: Budget) -> Laplace:
    return Laplace(2 * budget.alpha / budget.epsilon)
