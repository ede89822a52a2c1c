"""Gradient methods: projected descent on a nuclear-norm ball, and matrix factorization by stochastic gradients."""

from discreet.models.gradient.baseline import GradientDescent
from discreet.models.gradient.model import DPGradientDescent
from discreet.models.gradient.published import PublishedDPGradientDescent
from discreet.models.gradient.sgd import DPSGD

__all__ = ["DPSGD", "DPGradientDescent", "GradientDescent", "PublishedDPGradientDescent"]
