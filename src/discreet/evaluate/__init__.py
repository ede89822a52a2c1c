"""Measure how good a model is, in exact numbers for the owner or in noisy ones that may be published.

The package can be called: `discreet.evaluate(model, test, history=train, metrics=["rmse", "recall@20"])["rmse"]`. See
`evaluate` for the arguments, `METRICS` for the formulas, `Evaluation` for the result. `tradeoff` compares several
models at several epsilons.
"""

import inspect
import sys
from types import ModuleType
from typing import cast

from discreet.evaluate.curves import Tradeoff
from discreet.evaluate.metrics import METRICS, Metric
from discreet.evaluate.private import plan
from discreet.evaluate.result import Bucket, Evaluation, Score
from discreet.evaluate.run import evaluate
from discreet.evaluate.tradeoffs import tradeoff

__all__ = ["METRICS", "Bucket", "Evaluation", "Metric", "Score", "Tradeoff", "evaluate", "module", "plan", "tradeoff"]


class CallableModule(ModuleType):
    """A module that is a function too, so that `discreet.evaluate` is both the call and the package."""

    __call__ = staticmethod(evaluate)
    __signature__ = inspect.signature(evaluate)  # else inspect takes `model` for self


sys.modules[__name__].__class__ = CallableModule
module = cast(CallableModule, sys.modules[__name__])  # what type checkers should know as discreet.evaluate
