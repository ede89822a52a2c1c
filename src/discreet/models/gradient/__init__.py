"""Gradient methods: projected descent on a nuclear-norm ball, and matrix factorization by stochastic gradients."""

from discreet.models.gradient.model import DPSGD, DPGradientDescent, GradientDescent
from discreet.models.gradient.published import PublishedDPGradientDescent

__all__ = ["DPSGD", "DPGradientDescent", "GradientDescent", "PublishedDPGradientDescent"]
