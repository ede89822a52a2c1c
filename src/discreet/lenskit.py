"""The library's models as scorers of LensKit's pipelines (extra `lenskit`).

    from lenskit.pipeline import topn_pipeline
    from discreet.lenskit import PrivateScorer

    params = {"epsilon": 1, "delta": 1e-6}
    scorer = PrivateScorer(params=params, value_range=(0.5, 5), items_are_public=True, lists=True)
    pipeline = topn_pipeline(scorer)
    pipeline.train(dataset)

A scorer stores nothing about users: it folds them in from the history that a query brings. LensKit's own pipelines look
a user's history up in the training data, so these pipelines hold private data, even when their scorer does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from discreet.data import observed_items_are_public, read
from discreet.errors import MissingExtra, NotPublic
from discreet.models import registry
from discreet.models.recommender import Recommender
from discreet.privacy import Ledger
from discreet.typing import Array

try:
    from lenskit.data import Dataset, ItemList, QueryInput, RecQuery
    from lenskit.pipeline import Component
    from lenskit.training import Trainable, TrainingOptions
except ModuleNotFoundError:
    raise MissingExtra("discreet.lenskit", "lenskit") from None

__all__ = ["PrivateScorer", "ScorerConfig"]


@dataclass
class ScorerConfig:
    """What a scorer learns, and which inputs are public.

    Attributes:
        model: The name of a model, such as "DPALS"; "Recommender" chooses one for the data.
        params: Its parameters by name. A private model needs epsilon and delta.
        value_range: The lowest and highest possible rating, which are public; not needed without ratings.
        items_are_public: Whether you declare that the set of items in the data is public. A private model needs it.
        lists: Whether scores order lists as `recommend` does; by default they are predicted ratings.
        ledger: The URL of a ledger, begun before, that pays for private models; by default every fit has its own.
    """

    model: str = "Recommender"
    params: dict[str, Any] = field(default_factory=dict)
    value_range: tuple[float, float] | None = None
    items_are_public: bool = False
    lists: bool = False
    ledger: str | None = None


class PrivateScorer(Component[ItemList], Trainable):  # type: ignore[misc]  # LensKit is not there when types are checked
    """A LensKit scorer for any model of this library.

    Attributes:
        config: A `ScorerConfig`.
        model_: The fitted model, with its `guarantee_` and `statement()`.
    """

    config: ScorerConfig
    model_: Any

    def train(self, data: Dataset, options: TrainingOptions | None = None) -> None:
        """Fit the model. The options' device and generator are not used: noise never comes from a seed."""
        if hasattr(self, "model_") and options is not None and not options.retrain:
            return
        given = self.config
        kind = Recommender if given.model == Recommender.__name__ else registry.find(given.model)
        model: Any = kind(**given.params)
        rated = "rating" in data.interactions().attribute_names
        private = hasattr(model, "epsilon")
        if private and not given.items_are_public:
            raise NotPublic("items_are_public: if it is public which items the data has, declare it with True")
        if private and rated and given.value_range is None:
            raise NotPublic("value_range: give the lowest and highest possible rating, which must be public")
        table = read(
            data.interaction_matrix(format="pandas", field="rating" if rated else None, original_ids=True),
            user="user_id",
            item="item_id",
            value="rating" if rated else None,
            time=None,
            items=data.items.ids(),
            value_range=given.value_range if rated else None,
        )
        if given.items_are_public:  # LensKit's items are those in the data, not a separate catalog
            table = table.with_public(items=observed_items_are_public)
        paying = {} if given.ledger is None else {"ledger": Ledger(given.ledger, create=False)}
        self.model_ = model.fit(table, **paying)

    def __call__(self, query: QueryInput, items: ItemList) -> ItemList:
        """Scores for a user's history; NaN for items that the model does not know."""
        seen = RecQuery.create(query).user_items
        history: Any = []
        if seen is not None and len(seen):
            ratings = seen.field("rating")
            history = seen.ids().tolist()
            history = history if ratings is None else dict(zip(history, ratings.tolist(), strict=True))
        ids, scores = items.ids(), np.full(len(items), np.nan)
        if len(items):
            known = self.model_.items_.numbers(ids, "items") >= 0
            scores[known] = self._scores(history, ids[known])
        return ItemList(items, scores=scores)

    def _scores(self, history: Any, ids: Array) -> Array:
        wanted: list[Any] = ids.tolist()
        if not self.config.lists:
            return np.asarray(self.model_.predict(history, wanted, on_unknown="ignore"))
        asked = {"exclude_seen": False, "allow": wanted, "on_unknown": "ignore"}
        found = self.model_.recommend(history, max(len(wanted), 1), **asked)
        by_item = dict(found)
        return np.array([by_item[item] for item in wanted])
