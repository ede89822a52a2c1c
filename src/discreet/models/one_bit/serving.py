"""What a user gets of a model of bits: probabilities and signs, from public item vectors and their own true bits."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from discreet.errors import DataError
from discreet.models.fold_in import FoldIn, RidgeFoldIn
from discreet.models.one_bit.fitting import EFFECT_PENALTY
from discreet.models.one_bit.links import Link, LinkName
from discreet.models.one_bit.local import BitTargets
from discreet.models.private import PrivateModel
from discreet.models.ridge import Penalty
from discreet.recommend import serving
from discreet.recommend.histories import OnUnknown
from discreet.typing import Array


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
        scores = serving.predict(self, history, targets, on_unknown, clip=False)
        # Scores are in single precision: where nothing is known, they are the threshold as it is there.
        x: Array = (scores.astype(np.float64) - float(np.float32(self.threshold_))) / self._unit(self.value_range_)
        return x

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
