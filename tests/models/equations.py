"""Normal equations of a whole sample, before noise: what `Releaser.release` adds up."""

from typing import Any

import numpy as np

from discreet.models.als.sampling import Sample, vectors_of
from discreet.privacy import Grid
from discreet.privacy.statistics import WEIGHT_BITS, NormalEquations, NormalEquationsEncoder


def encoder_on(statistic: NormalEquations, exponent: int) -> NormalEquationsEncoder:
    """On a grid of one's own choice."""
    return NormalEquationsEncoder(statistic, Grid(exponent), Grid(-WEIGHT_BITS if statistic.weighted else 0))


def exact_equations(encoder: NormalEquationsEncoder, sample: Sample, users: Any, n_jobs: int = 1) -> Any:
    """The stack in grid units."""
    total = np.zeros(encoder.shape, np.int64)
    for part in sample.blocks():
        encoded = encoder.encode(part, (vectors_of(users, part), part.values, part.weights))
        total = encoder.add(total, encoded, n_jobs)
    return encoder.finish(total)
