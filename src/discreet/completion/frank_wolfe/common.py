"""What Frank-Wolfe models share, private or not: what they have learned, and how a user is folded in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.completion.base import Model
from discreet.completion.centred import RATINGS_PER_USER, Centring
from discreet.completion.frank_wolfe.local import Local, Replay, Step
from discreet.completion.frank_wolfe.losses import LossName, loss_of
from discreet.completion.ridge import Penalty, Ridge
from discreet.errors import DataError
from discreet.numbers import positive, whole

Array = NDArray[Any]


class FrankWolfeModel(Model):
    """A prediction in a nuclear-norm ball: a public vector for each step, and for each user how far she goes along it.

    Attributes:
        item_factors_: The vectors v_t, one column each.
        steps_: eta_t and eta_t k / lambda_t for each step, from which a user finds her coefficients.
        radius_: k, the nuclear norm that the steps were made for; 0 if nothing stood out of the noise.
        local_: L, C, the share of items a user has rated, and the ridge of her own steps, or None.
    """

    _ARRAYS: ClassVar[tuple[str, ...]] = (*Model._ARRAYS, "steps_")
    _VALUES: ClassVar[tuple[str, ...]] = (*Model._VALUES, "local_", "radius_")

    steps_: Array
    local_: tuple[float, float, float, float | None]
    radius_: float
    loss: LossName
    centre: bool

    def _check_choices(self, optional: Sequence[str], choices: dict[str, tuple[Any, ...]]) -> None:
        """Raise unless optional numbers are positive, and choices are among those that there are."""
        for name in optional:
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))
        for name, known in {"loss": ("squared", "logistic"), "centre": (True, False), **choices}.items():
            if getattr(self, name) not in known:
                words = ", ".join(repr(choice) for choice in known if choice is not None)
                raise DataError(f"{name}: one of {words} is needed, not {getattr(self, name)!r}")

    def _local(self, value_range: tuple[float, float], constants: tuple[float, float, float, float | None]) -> Local:
        """The constants of the local component. Ratings of a logistic loss are taken about the middle of the range."""
        low, high = value_range
        row_norm, clip, fill, ridge = constants
        centring = Centring.of(value_range, row_norm, centre=self.centre)
        if self.loss == "logistic":
            centring = Centring((low + high) / 2, None, row_norm)
        return Local(centring, loss_of(self.loss, high - low), clip, fill, ridge)

    def _learned(self, steps: Sequence[Step], popularity: Array) -> dict[str, Any]:
        """Learned attributes, from public steps."""
        return {
            "item_factors_": np.stack([step.vector for step in steps], axis=1).astype(np.float32),
            "item_bias_": np.zeros(len(popularity), np.float32),
            "popularity_": np.maximum(popularity, 0).astype(np.float32),
            "steps_": np.array([(step.size, step.gain) for step in steps]),
        }

    def _ridge(self) -> Ridge:
        local = self._local(self.value_range_, self.local_)
        vectors = self.item_factors_.astype(np.float64)
        steps = [Step(vectors[:, t], float(size), float(gain)) for t, (size, gain) in enumerate(self.steps_)]
        base = self.item_bias_ + np.float32(local.centring.centre)
        return Replay(self.item_factors_, base, Penalty(1.0), local=local, steps=steps)

    def _check_learned(self) -> None:
        super()._check_learned()
        if self.steps_.shape != (self.item_factors_.shape[1], 2) or not np.isfinite(self.steps_).all():
            raise DataError(f"steps_: {self.steps_.shape} does not fit factors of shape {self.item_factors_.shape}")
        row_norm, clip, fill, ridge = self.local_
        for name, number in {"L": row_norm, "C": clip, "fill": fill, "ridge": ridge}.items():
            if name != "ridge" or number is not None:
                positive(f"local_ ({name})", number)


def fill_of(ratings_per_user: int | None, n_items: int) -> float:
    """About what share of the items a user has rated, from public numbers."""
    return min(ratings_per_user or RATINGS_PER_USER, whole("n_items", n_items, 1)) / n_items
