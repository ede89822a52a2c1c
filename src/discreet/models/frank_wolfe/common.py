"""What Frank-Wolfe models share, private or not: what they have learned, and how a user is folded in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from discreet.errors import DataError
from discreet.models.base import Model
from discreet.models.centering import RATINGS_PER_USER, Centring
from discreet.models.fold_in import FoldIn, ReplayFoldIn, RidgeFoldIn
from discreet.models.frank_wolfe.corrective import Corrective, LogisticTargets
from discreet.models.frank_wolfe.local import FrankWolfeSteps, Local, Step
from discreet.models.frank_wolfe.losses import LossName, loss_of
from discreet.typing import Array
from discreet.validation import positive, whole


class FrankWolfeModel(Model):
    """A low-rank prediction: a public vector for each step, and for each user how far she goes along it.

    Attributes:
        item_factors_: The vectors v_t, one column each; scaled for users' regressions, if steps are corrective.
        steps_: What a user needs to know of each step to find her coefficients: eta_t and eta_t k / lambda_t; or, of a
            corrective one, how much of the ratings it left unexplained.
        radius_: k, the nuclear norm that the steps were made for; 0 for corrective ones.
        row_norm_: L.
    """

    _ARRAYS: ClassVar[tuple[str, ...]] = (*Model._ARRAYS, "steps_")
    _VALUES: ClassVar[tuple[str, ...]] = (*Model._VALUES, "row_norm_", "radius_")

    steps_: Array
    row_norm_: float
    radius_: float
    loss: LossName
    centre: bool

    @property
    def _corrective(self) -> bool:
        """Whether users fit all directions anew with each."""
        return False

    def _check_choices(self, optional: Sequence[str], choices: dict[str, tuple[Any, ...]]) -> None:
        """Raise unless optional numbers are positive, and choices are among those that there are."""
        for name in optional:
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))
        for name, known in {"loss": ("squared", "logistic"), "centre": (True, False), **choices}.items():
            if getattr(self, name) not in known:
                words = ", ".join(repr(choice) for choice in known if choice is not None)
                raise DataError(f"{name}: one of {words} is needed, not {getattr(self, name)!r}")

    def _local(self, value_range: tuple[float, float], row_norm: float) -> Local:
        """The local component of Algorithm 1. Ratings of a logistic loss are taken about the middle of the range."""
        low, high = value_range
        centring = Centring.of(value_range, row_norm, centre=self.centre)
        if self.loss == "logistic":
            centring = Centring((low + high) / 2, None, row_norm)
        return Local(centring, loss_of(self.loss, high - low))

    def _refitting(self, value_range: tuple[float, float]) -> Corrective:
        """The local component of corrective steps."""
        local = self._local(value_range, 1.0)
        return Corrective(local.loss, local.centring.centre, local.centring.shrinkage is not None)

    def _learned(self, vectors: Array, steps: Sequence[Sequence[float]], popularity: Array) -> dict[str, Any]:
        """Learned attributes, from public steps."""
        return {
            "item_factors_": vectors.astype(np.float32),
            "item_bias_": np.zeros(len(vectors), np.float32),
            "popularity_": np.maximum(popularity, 0).astype(np.float32),
            "steps_": np.array(steps),
        }

    def _make_fold_in(self) -> FoldIn:
        local = self._local(self.value_range_, self.row_norm_)
        base = self.item_bias_ + np.float32(local.centring.centre)
        if self._corrective:
            component = self._refitting(self.value_range_)
            ridge = component.ridge(self.item_factors_)
            refitted = LogisticTargets(component, self.steps_[:, 0].tolist())
            return RidgeFoldIn(
                columns=self.item_factors_,
                base=base,
                penalty=ridge.penalty,
                offset_penalty=ridge.offset_penalty,
                targets=refitted if self.loss == "logistic" else None,
                double=True,
            )
        vectors = self.item_factors_.astype(np.float64)
        steps = [Step(vectors[:, t], *map(float, numbers)) for t, numbers in enumerate(self.steps_)]
        return ReplayFoldIn(columns=self.item_factors_, base=base, steps=FrankWolfeSteps(local, steps))

    def _check_learned(self) -> None:
        super()._check_learned()
        positive("row_norm_", self.row_norm_)
        steps, numbers = self.steps_, 1 if self._corrective else 2
        if steps.shape != (self.item_factors_.shape[1], numbers) or not np.isfinite(steps).all():
            raise DataError(f"steps_: {steps.shape} does not fit factors of shape {self.item_factors_.shape}")
        if self._corrective and not (steps > 0).all():
            raise DataError("steps_: what a step leaves must be positive")


def fill_of(ratings_per_user: int | None, n_items: int) -> float:
    """About what share of the items a user has rated, from public numbers."""
    return min(ratings_per_user or RATINGS_PER_USER, whole("n_items", n_items, 1)) / n_items
