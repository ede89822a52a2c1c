"""The trust base: everything that decides whether a guarantee is true.

Read it in this order: `guarantee` (what is promised), `accounting` (what releases cost together), `lattice` (statistics
on a grid), `noise` with `sampling` and `keystream` (what is added to them), `plan`, `ledger` with `store`, `checkpoint`
and `readiness` (the one door, its record, its memory, and what it tries first). What people get to read of it is in
`discreet.statement`.
"""

from discreet.privacy.accounting import Cost, PureEvent, SampledGaussian, Selection
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.keystream import DeclaredNoise, NoiseSource, SystemNoise
from discreet.privacy.lattice import Grid, GridArray, exact_matmul, exact_scatter, truncate
from discreet.privacy.ledger import Ledger, Reservation
from discreet.privacy.noise import Gaussian, L2Laplace, Laplace, Noise, RandomizedResponse
from discreet.privacy.plan import Plan, Planned

__all__ = ["Cost", "Guarantee", "Ledger", "Plan", "Planned", "PureEvent", "Reservation", "SampledGaussian"]
__all__ += ["Gaussian", "L2Laplace", "Laplace", "Noise", "NoiseSource", "RandomizedResponse", "Selection"]
__all__ += ["DeclaredNoise", "Grid", "GridArray", "SystemNoise", "exact_matmul", "exact_scatter", "truncate"]
