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
Constants = tuple[float, float, float, bool]


class FrankWolfeModel(Model):
    """A prediction in a nuclear-norm ball: a public vector for each step, and for each user how far she goes along it.

    Attributes:
        item_factors_: The vectors v_t, one column each.
        steps_: eta_t, eta_t k / lambda_t and a ridge for each step, from which a user finds her coefficients.
        radius_: k, the nuclear norm that the steps were made for; 0 if nothing stood out of the noise.
        local_: L, C, the share of items a user has rated, and whether users divide by their own |P v|^2.
    """

    _ARRAYS: ClassVar[tuple[str, ...]] = (*Model._ARRAYS, "steps_")
    _VALUES: ClassVar[tuple[str, ...]] = (*Model._VALUES, "local_", "radius_")

    steps_: Array
    local_: Constants
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

    def _local(self, value_range: tuple[float, float], constants: Constants) -> Local:
        """The constants of the local component. Ratings of a logistic loss are taken about the middle of the range."""
        low, high = value_range
        row_norm, clip, fill, own = constants
        centring = Centring.of(value_range, row_norm, centre=self.centre)
        if self.loss == "logistic":
            centring = Centring((low + high) / 2, None, row_norm)
        return Local(centring, loss_of(self.loss, high - low), clip, fill, own)

    def _learned(self, steps: Sequence[Step], popularity: Array) -> dict[str, Any]:
        """Learned attributes, from public steps."""
        return {
            "item_factors_": np.stack([step.vector for step in steps], axis=1).astype(np.float32),
            "item_bias_": np.zeros(len(popularity), np.float32),
            "popularity_": np.maximum(popularity, 0).astype(np.float32),
            "steps_": np.array([(step.size, step.gain, step.ridge) for step in steps]),
        }

    def _ridge(self) -> Ridge:
        local = self._local(self.value_range_, self.local_)
        vectors = self.item_factors_.astype(np.float64)
        steps = [Step(vectors[:, t], *map(float, numbers)) for t, numbers in enumerate(self.steps_)]
        base = self.item_bias_ + np.float32(local.centring.centre)
        return Replay(self.item_factors_, base, Penalty(1.0), local=local, steps=steps)

    def _check_learned(self) -> None:
        super()._check_learned()
        row_norm, clip, fill, own = self.local_
        for name, number in {"L": row_norm, "C": clip, "fill": fill}.items():
            positive(f"local_ ({name})", number)
        steps = self.steps_
        if steps.shape != (self.item_factors_.shape[1], 3) or not np.isfinite(steps).all():
            raise DataError(f"steps_: {steps.shape} does not fit factors of shape {self.item_factors_.shape}")
        if own and not (steps[:, 2] > 0).all():
            raise DataError("steps_: the ridge must be positive")


def fill_of(ratings_per_user: int | None, n_items: int) -> float:
    """About what share of the items a user has rated, from public numbers."""
    return min(ratings_per_user or RATINGS_PER_USER, whole("n_items", n_items, 1)) / n_items
