"""Gradient methods: projected descent on a nuclear-norm ball, and matrix factorisation by stochastic gradients."""

from discreet.completion.gradient.plain import GradientDescent
from discreet.completion.gradient.private import DPGradientDescent, PublishedDPGradientDescent
from discreet.completion.gradient.sgd import DPSGD

__all__ = ["DPSGD", "DPGradientDescent", "GradientDescent", "PublishedDPGradientDescent"]
