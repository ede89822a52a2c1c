"""The trust base: everything that decides whether a guarantee is true.

Read it in this order: `guarantee` (what is promised), `accounting` (what releases cost together), `lattice` (statistics
on a grid, and their exact sums), `statistics` and `entries` (what may be released, and its sensitivity), `noise` with
`sampling` and `keystream` (what is added to it), `poisson` and `selection` (other secret randomness), `plan`, `ledger`
with `store`, `database`, `checkpoint` and `readiness` (the record, its memory, and what it tries first), `releaser`
(what models use of all this). What people get to read of it is in `statement` and `render`.
"""

from discreet.privacy.accounting import Cost, PureEvent, SampledGaussian, Selection
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.keystream import DeclaredNoise, NoiseSource, SystemNoise
from discreet.privacy.lattice import Grid, GridArray, truncate
from discreet.privacy.ledger import Ledger, Reservation
from discreet.privacy.noise import Gaussian, L2Laplace, Laplace, Noise, RandomizedResponse
from discreet.privacy.plan import Plan, Planned
from discreet.privacy.releaser import Noisy, Releaser
from discreet.privacy.statistics import (
    GramSum,
    MeanSum,
    NormalEquations,
    OuterSum,
    ProductSum,
    Statistic,
    UserBatch,
    VectorSum,
)

__all__ = ["Cost", "Guarantee", "Ledger", "Plan", "Planned", "PureEvent", "Reservation", "SampledGaussian"]
__all__ += ["Gaussian", "L2Laplace", "Laplace", "Noise", "NoiseSource", "RandomizedResponse", "Selection"]
__all__ += ["DeclaredNoise", "Grid", "GridArray", "SystemNoise", "truncate"]
__all__ += ["GramSum", "MeanSum", "NormalEquations", "OuterSum", "ProductSum", "Statistic", "VectorSum"]
__all__ += ["Noisy", "Releaser", "UserBatch"]
