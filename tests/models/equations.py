"""Normal equations of a whole sample, before noise: what `Releaser.release` adds up."""

from dataclasses import replace
from typing import Any

import numpy as np

from discreet.models.als.published_contributions import Sample
from discreet.privacy import Grid
from discreet.privacy.statistics import WEIGHT_BITS, NormalEquations


def encoder_on(statistic: NormalEquations, exponent: int) -> NormalEquations:
    """On a grid of one's own choice."""
    vector, weight = Grid(exponent), Grid(-WEIGHT_BITS if statistic.weighted else 0)
    return replace(statistic, grids=(vector, vector, weight))


def exact_equations(encoder: NormalEquations, sample: Sample, users: Any, n_jobs: int = 1) -> Any:
    """The stack in grid units."""
    encoded = encoder.encode(sample, (users, sample.values, sample.weights))
    return encoder.finish(encoder.add(np.zeros(encoder.shape, np.int64), encoded, n_jobs))


def some_of(sample: Sample, first: int, last: int) -> Sample:
    """The users from `first` to before `last`."""
    own = slice(sample.indptr[first], sample.indptr[last])
    weights = None if sample.weights is None else sample.weights[own]
    return Sample(sample.indptr[first : last + 1] - own.start, sample.indices[own], sample.values[own], weights)
