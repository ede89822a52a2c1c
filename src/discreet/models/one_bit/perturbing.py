"""The input mechanism where nobody is trusted: bits are flipped where they are, and never leave as they were."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from discreet.data.interactions import Interactions
from discreet.models.one_bit.contributions import TrueBits, capped, flipped, two_valued
from discreet.models.one_bit.model import OneBit
from discreet.models.private import require_sound
from discreet.privacy import Ledger, Releaser


def perturb(ratings: Interactions, *, ledger: Ledger | None = None, **parameters: Any) -> Interactions:
    """The input mechanism alone: bits, 0 or 1, each flipped by a coin, for `OneBit(perturbed=True, ...).fit`.

    It can run where the ratings are, for one user or for all, so that nobody else ever sees a true bit.

    Args:
        ratings: One user's, or many users' ratings.
        ledger: Where the cost is recorded; by default a ledger of its own.
        parameters: Those of `OneBit`: epsilon, threshold, delta, flip_one, flip_zero, unit, max_entries.
    """
    model = OneBit("input", **parameters)
    model._check_parameters()
    require_sound(ratings)
    model._check_data(ratings)
    if model.max_entries is not None:
        ratings = capped(ratings, model.max_entries, model.random_state)
    ledger = model._own_ledger() if ledger is None else ledger
    ledger.expect(unit=model.unit, adjacency=model.adjacency)
    budget = model._budget()
    true = TrueBits.of(ratings, two_valued(ratings, model.threshold))
    plan = model.plan(ratings.n_items)
    with ledger.reserve(plan) as reservation:
        releaser = Releaser(reservation, model.adjacency, model.n_jobs)
        noisy = flipped(releaser, true, budget.response(), budget.entries, model._link())
    model._name_error(plan.cost.epsilon(model.delta), stacklevel=3)
    return replace(ratings, values=noisy.bits.astype(np.float32), value_range=(0.0, 1.0), times=None)
