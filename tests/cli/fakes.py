"""A private model as later ones will be: epsilon and delta without a default, a plan, and a ledger for fit."""

from __future__ import annotations

from typing import Any

import numpy as np

import discreet
from discreet.data.interactions import Interactions
from discreet.engine.batches import equal_weights, user_batches
from discreet.models.base import Model
from discreet.models.fold_in import FoldIn, RidgeFoldIn
from discreet.privacy import Releaser, VectorSum

PLACE = "tests.cli.fakes"


class NoisyPopularity(Model):
    """Counts with Gaussian noise."""

    def __init__(self, *, epsilon: float, delta: float, n_jobs: int | None = -1) -> None:
        self.epsilon, self.delta, self.n_jobs = epsilon, delta, n_jobs

    def plan(self, n_items: int) -> discreet.Plan:
        mu = discreet.account(epsilon=self.epsilon, delta=self.delta).mu
        assert mu is not None
        return discreet.Plan.gaussian(mu, {"item popularity": 1.0})

    def preview(self, n_items: int, ledger: discreet.Ledger | None = None) -> Any:
        paying = ledger or discreet.Ledger(epsilon=self.epsilon, delta=self.delta)
        return paying.preview(self.plan(n_items))

    def _learn(
        self, ratings: Interactions, ledger: discreet.Ledger | None
    ) -> tuple[dict[str, Any], discreet.Statement]:
        ratings.require_public()
        mine = discreet.Ledger(epsilon=self.epsilon, delta=self.delta) if ledger is None else ledger
        before = len(mine.events)
        plan = self.plan(ratings.n_items)
        statistic = VectorSum(ratings.n_items, 1.0, nonnegative=True)
        with mine.reserve(plan) as reservation:
            releaser = Releaser(reservation, "add-remove", self.n_jobs)
            released = releaser.release("item popularity", statistic, user_batches(ratings), equal_weights).values
        learned = {
            "item_factors_": np.zeros((ratings.n_items, 0), np.float32),
            "item_bias_": released.astype(np.float32),
            "popularity_": released.astype(np.float32),
            "value_range_": ratings.value_range,
            "implicit_": True,
            "global_mean_": 0.0,
        }
        events = mine.events[before:]
        statement = discreet.Statement.of(
            "Noisy counts", mine.guarantee(plan.cost, events), events, public_inputs=ratings.public_inputs
        )
        return learned, statement

    def _make_fold_in(self) -> FoldIn:
        return RidgeFoldIn(columns=self.item_factors_, base=self.item_bias_)
