"""A private model chosen for the kind of data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from discreet.data.interactions import Interactions
from discreet.errors import DataError, NotFitted
from discreet.models.als import DPALS
from discreet.models.base import Estimator, readied
from discreet.models.spectral import DPSVD
from discreet.parallel import n_threads
from discreet.privacy.guarantee import AdjacencyName
from discreet.typing import Self
from discreet.validation import positive, probability

if TYPE_CHECKING:
    from discreet.privacy.ledger import Ledger

Objective: TypeAlias = Literal["ratings", "lists", "both"]


@dataclass(kw_only=True, eq=False, repr=False)
class Recommender(Estimator):
    """The model to start with: it predicts ratings, and recommends what people choose and like.

    From ratings, one fit with one budget learns both (`DPALS` with objective="both"), unless only ratings (`DPALS`) or
    only lists (`DPSVD`) are asked for. Implicit feedback is for lists: `DPSVD`. After `fit` it passes all calls
    (`recommend`, `predict`, `statement`, `save`, ...) on to `model_`, the chosen model. The choice depends only on
    whether the data have values, which is public.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> model = discreet.Recommender(epsilon=1.0, delta=1e-6).fit(ratings)
        >>> type(model.model_).__name__
        'DPALS'
        >>> type(model.choose(ratings.to_implicit(4))).__name__  # items with 4 stars or more, without the stars
        'DPSVD'

    Args:
        epsilon: The privacy budget.
        delta: The delta of the budget, a constant well below 1 / the number of users.
        objective: What ratings are for: to predict "ratings", to recommend "lists", or "both".
        n_users_hint: About how many users there are, if that is public. It helps to divide the budget between ratings
            and lists; a model for lists alone does not use it.
        features: Columns of the catalog that describe items; they are public, and cost no privacy.
        adjacency: "add-remove" or "replace".
        n_jobs: Number of threads, as in scikit-learn.
    """

    epsilon: float
    delta: float
    objective: Objective = "both"
    n_users_hint: int | None = None
    features: Sequence[str] | None = None
    adjacency: AdjacencyName = "add-remove"
    n_jobs: int | None = -1
    model_: DPALS | DPSVD = field(init=False)

    def fit(
        self,
        ratings: Any,
        y: Any = None,
        *,
        ledger: Ledger | None = None,
        checkpoint: str | PathLike[str] | None = None,
        **reading: Any,
    ) -> Self:
        """Choose a model and fit it. Arguments as for every model's `fit`."""
        del y
        self._check_parameters()
        with readied(ratings, reading, True, type(self).__name__) as table:
            self.model_ = self.choose(table).fit(table, ledger=ledger, checkpoint=checkpoint)
        return self

    def choose(self, ratings: Interactions) -> DPALS | DPSVD:
        """The model for these data, not yet fitted."""
        given = self.get_params(deep=False)
        objective, hint = given.pop("objective"), given.pop("n_users_hint")
        if objective not in get_args(Objective):
            known = ", ".join(map(repr, get_args(Objective)))
            raise DataError(f"objective: one of {known} is needed, not {objective!r}")
        if ratings.implicit or objective == "lists":
            if objective == "ratings":
                raise DataError("objective: without values there are no ratings to predict; ask for 'lists'")
            return DPSVD(**given, objective="lists")
        return DPALS(**given, objective=objective, n_users_hint=hint)

    def _check_parameters(self) -> None:
        positive("epsilon", self.epsilon)
        probability("delta", self.delta)
        n_threads(self.n_jobs)

    def __getattr__(self, name: str) -> Any:
        if name == "model_":
            raise NotFitted(
                "Recommender has not been fitted, so it has no model_; call fit(ratings) first. What a fit would cost: "
                "choose(ratings).preview(ratings.n_items)"
            )
        if name.startswith("__"):
            raise AttributeError(f"'Recommender' object has no attribute {name!r}")
        return getattr(self.model_, name)
