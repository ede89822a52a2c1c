"""The trust base: everything that decides whether a guarantee is true.

Read it in this order: `guarantee` (guarantees, and what releases cost together), `noise` (integers on a grid, and what
is added to them), `statistics`, `entries` and `set_union` (what may be released, its exact sum and its sensitivity),
`determinism` (whether this machine's arithmetic is sound), `selection` (other secret randomness), `store` and `ledger`
(the plan, the record, and the release), `releaser` (the interface for models), `statement` (what people get to read).
"""

from discreet.privacy.guarantee import Cost, Guarantee, PureEvent, SampledGaussian, Selection, ThresholdEvent
from discreet.privacy.ledger import Ledger, Plan, Planned, Reservation
from discreet.privacy.noise import (
    DeclaredNoise,
    Gaussian,
    Grid,
    GridArray,
    L2Laplace,
    Laplace,
    Noise,
    NoiseSource,
    RandomizedResponse,
    SystemNoise,
)
from discreet.privacy.releaser import Noisy, Releaser
from discreet.privacy.set_union import SetUnion, Threshold
from discreet.privacy.statistics import (
    GramSum,
    MeanSum,
    NormalEquations,
    OuterSum,
    ProductSum,
    Statistic,
    UserBatch,
    VectorSum,
    truncate,
)

__all__ = ["Cost", "Guarantee", "Ledger", "Plan", "Planned", "PureEvent", "Reservation", "SampledGaussian"]
__all__ += ["Gaussian", "L2Laplace", "Laplace", "Noise", "NoiseSource", "RandomizedResponse", "Selection"]
__all__ += ["DeclaredNoise", "Grid", "GridArray", "SystemNoise", "truncate"]
__all__ += ["GramSum", "MeanSum", "NormalEquations", "OuterSum", "ProductSum", "Statistic", "VectorSum"]
__all__ += ["Noisy", "Releaser", "SetUnion", "Threshold", "ThresholdEvent", "UserBatch"]
