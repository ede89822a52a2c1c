"""How a user is served: probabilities and signs, from public item vectors and a regression of their own true bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from discreet.errors import DataError
from discreet.models.fold_in import FoldIn, RidgeFoldIn
from discreet.models.one_bit.estimate import EFFECT_PENALTY
from discreet.models.one_bit.likelihood import Link, LinkName
from discreet.models.private import PrivateModel
from discreet.models.ridge import Penalty, Ridge
from discreet.recommend import serving
from discreet.recommend.histories import OnUnknown
from discreet.typing import Array

STEPS = 15  # each a ridge regression


@dataclass(frozen=True)
class BitTargets:
    """Targets of ridge regressions that fit a user's true bits.

    Their offset a_i and vector z_i minimize

        sum over j in row i of -log P(bit_ij | x_ij) + |z_i|^2 / 2 + EFFECT_PENALTY / 2 (a_i / unit)^2

    where x_ij = (base_j - threshold + a_i + c_j . z_i) / unit and c_j are the columns.

    Numbers are in the unit of ratings, in which x is threshold + unit x. Each step replaces the loss by the parabola
    that touches it and has its largest curvature, and so is a ridge regression.

    Attributes:
        link: P(bit = 1 | x).
        threshold: Ratings from here on are ones.
        unit: How much of a rating is 1 of x.
    """

    link: Link
    threshold: float
    unit: float

    def __call__(self, ridge: Ridge, indptr: Array, indices: Array, values: Array, n_jobs: int | None) -> Array:
        """The targets of the last regression."""
        owners = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        base = ridge.base[indices].astype(np.float64)
        targets = self._lowest(values, base)
        for _ in range(STEPS - 1):
            offsets, vectors = ridge.solve(indptr, indices, targets, n_jobs=n_jobs)
            fitted = base + offsets[owners]
            for k in range(vectors.shape[1]):  # column by column: no user's sum depends on the others
                fitted += vectors[owners, k] * ridge.columns[indices, k]
            targets = self._lowest(values, fitted)
        return targets

    def _lowest(self, values: Array, fitted: Array) -> Array:
        """The minima of the parabolas, in the unit of ratings."""
        sign = np.where(values >= np.float32(self.threshold), 1.0, -1.0)
        x = (fitted - self.threshold) / self.unit
        return np.asarray(fitted + self.unit * sign * self.link.log_slope(sign * x) / self.link.curvature)

    def describe(self, rank: int) -> dict[str, Any]:
        """The loss and the steps."""
        loss = {
            "name": "bits",
            "link": self.link.name,
            "sigma": float(self.link.sigma),
            "curvature": self.link.curvature,
            "threshold": float(np.float32(self.threshold)),
            "unit": float(self.unit),
        }
        return {"loss": loss, "rounds": [[rank, 1.0]] * STEPS}


class BitModel(PrivateModel):
    """The serving side of `OneBit`. Attributes: threshold_, from which on a value counts as 1."""

    _VALUES: ClassVar[tuple[str, ...]] = (*PrivateModel._VALUES, "threshold_")

    link: LinkName
    sigma: float
    threshold_: float

    @property
    def _effects(self) -> bool:
        """Whether there are biases."""
        raise NotImplementedError

    def _link(self) -> Link:
        return Link(self.link, self.sigma)

    def _unit(self, value_range: tuple[float, float]) -> float:
        """How much of a rating is 1 of x: scores are the tangent of low + (high - low) h(x), moved to the threshold."""
        return (value_range[1] - value_range[0]) * self._link().slope

    def _make_fold_in(self) -> FoldIn:
        link, unit = self._link(), self._unit(self.value_range_)
        return RidgeFoldIn(
            columns=self.item_factors_,
            base=self.item_bias_ + np.float32(self.global_mean_),
            penalty=Penalty(unit**2 / link.curvature),
            offset_penalty=EFFECT_PENALTY / link.curvature if self._effects else None,
            targets=BitTargets(link, self.threshold_, unit),
        )

    def _x(self, history: Any, targets: Any, on_unknown: OnUnknown) -> Array:
        scores = serving.predict(self, history, targets, on_unknown, clip=False).astype(np.float64)
        # Scores are in single precision: where nothing is known, they are the threshold as it is there.
        return np.asarray((scores - float(np.float32(self.threshold_))) / self._unit(self.value_range_))

    def predict_proba(self, history: Any, targets: Any, *, on_unknown: OnUnknown = "raise") -> Array:
        """The probability that each target would get a value from the threshold on. Arguments as for `predict`."""
        return self._link().probability(self._x(history, targets, on_unknown))

    def predict_sign(self, history: Any, targets: Any, *, on_unknown: OnUnknown = "raise") -> Array:
        """+1 for targets that are more likely than not to get a value from the threshold on, -1 for others."""
        return np.where(self._x(history, targets, on_unknown) >= 0, 1, -1)

    def _check_learned(self) -> None:
        super()._check_learned()
        low, high = self.value_range_
        if not low < self.threshold_ <= high:
            raise DataError("threshold_: it is not within the range of values")
