"""Private catalogs: if the set of items is private, items are chosen privately before anything is learned.

The choice has two rounds. Items that pass the first need no more weight, so in the second round users give theirs to
other items (Swanberg et al. 2023). Proof: docs/proofs/private-catalog.md.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from discreet.data.catalogue import CHOSEN, Catalogue
from discreet.data.interactions import Interactions
from discreet.engine.batches import require_sound_rows, user_batches
from discreet.errors import BudgetExceeded, DataError, NotPublic, PrivacyError
from discreet.parallel import Bar
from discreet.privacy import Cost, Ledger, Plan, Planned, Releaser, ThresholdEvent, UserBatch
from discreet.privacy.guarantee import (
    SPENDABLE,
    UNIT,
    Adjacency,
    AdjacencyName,
    account,
    largest_gaussian,
    require_adjacency,
)
from discreet.privacy.ledger import Preview
from discreet.privacy.releaser import Contribution
from discreet.privacy.set_union import MOST
from discreet.privacy.statement import CHOICE, Statement
from discreet.typing import Array
from discreet.validation import positive, probability, round_up

if TYPE_CHECKING:
    from discreet.models.private import PrivateModel

ROUNDS = (("choice of items", 0.05), ("choice of more items", 0.95))  # shares of mu^2 and delta
SHARE = 0.25  # share of a model's mu^2
DELTA_SHARE = 0.2  # share of a model's delta for thresholds
ALONE = 0.5  # share of delta for thresholds if only items are released
ANY = 4096  # any number of items: the total cost of a fit does not depend on it


def plan_of(gaussian: int, delta: float) -> Plan:
    """The plan of a choice of items, of this Gaussian cost and this probability that a threshold fails."""
    lines, left = [], delta
    for label, share in ROUNDS[:-1]:
        event = ThresholdEvent(delta * share)
        lines.append(Planned(label, Cost(math.floor(gaussian * Fraction(share)), 1, ((event, 1),))))
        left = math.nextafter(left - event.delta, 0)
    rest = gaussian - sum(line.cost.gaussian for line in lines)
    return Plan((*lines, Planned(ROUNDS[-1][0], Cost(rest, 1, ((ThresholdEvent(left), 1),)))))


def select_items(
    table: Interactions,
    *,
    epsilon: float,
    delta: float,
    ledger: Ledger | None = None,
    adjacency: AdjacencyName = "add-remove",
    n_jobs: int | None = -1,
) -> Interactions:
    """Choose the items that many users have, privately, for data whose set of items is private.

    A model that is fitted to a table with private items does this by itself, with a share of its budget. Do it yourself
    to choose that share, or for several models to share the items: the guarantee of each includes the choice.

    Example:
        >>> import discreet
        >>> rows = [(user, item) for user in range(2_000) for item in (user % 7, 7 + user % 5, "abc"[user % 3])]
        >>> table = discreet.read([(u, str(i)) for u, i in rows], items="private")
        >>> table
        Interactions(6,000 of 2,000 users and private items)
        >>> chosen = discreet.select_items(table, epsilon=5, delta=1e-6)
        >>> chosen
        Interactions(6,000 of 2,000 users and 15 items)
        >>> chosen.catalogue.selection.guarantee.epsilon <= 5
        True

    Args:
        table: Interactions, read with items="private".
        epsilon: What the choice may cost.
        delta: The delta of that cost. Half of it bounds the chance that any item is chosen that only one person has.
        ledger: Where the cost is recorded; by default a ledger of its own. A ledger with a budget must have been
            opened with a `threshold_delta`.
        adjacency: "add-remove" or "replace".
        n_jobs: Number of threads, as in scikit-learn.

    Returns:
        The interactions with the chosen items. Users without any of them are left out. The items are in sorted order,
        and `catalogue.selection` is the statement of the choice.

    Raises:
        DataError: No item was chosen, and the cost is spent; or the table was made by hand, and is not sound, and
            nothing was spent.
        BudgetExceeded: The ledger has too little left. Nothing was spent.
    """
    at = probability("delta", delta)
    exposed = at * ALONE
    mu = account(epsilon=positive("epsilon", epsilon), delta=at - exposed)
    plan = plan_of(mu.cost.gaussian, exposed)
    paying = ledger or Ledger(epsilon=epsilon, delta=at, adjacency=adjacency, threshold_delta=exposed)
    _require_room(paying, plan.cost.exposure)
    return _chosen(table, plan, paying, delta=at, adjacency=adjacency, n_jobs=n_jobs)


def _require_room(ledger: Ledger, exposed: float) -> None:
    """Raise unless a ledger keeps enough of its delta for thresholds."""
    left = ledger.threshold_delta - ledger.spent.cost.exposure
    if ledger.epsilon is not None and exposed > left:
        raise PrivacyError(
            f"ledger: of its delta, {round_up(max(left, 0.0))} is left for thresholds, and a private choice of items "
            f"needs {round_up(exposed)}; open a ledger with a larger threshold_delta (--threshold-delta), which is "
            "fixed when it begins"
        )


def _chosen(
    table: Interactions, plan: Plan, ledger: Ledger, *, delta: float, adjacency: str, n_jobs: int | None
) -> Interactions:
    """Choose items as planned."""
    if not isinstance(table, Interactions) or not table.catalogue.private:
        raise NotPublic(
            "table: a private choice is for Interactions with private items, discreet.read(..., items='private'); "
            "items that are public are all there already"
        )
    require_sound_rows(table, n_jobs)
    _require_types(table.items.to_arrow())
    require_adjacency(adjacency, Adjacency.ADD_REMOVE, Adjacency.REPLACE)
    ledger.expect(unit="user", adjacency=adjacency)
    found = np.zeros(max(table.n_items, 1), bool)
    with ledger.reserve(plan) as reservation, Bar("choosing items", len(ROUNDS), "rounds") as bar:
        releaser = Releaser(reservation, adjacency, n_jobs, bar.advance)
        users = user_batches(table, n_jobs=n_jobs)
        for label, _ in ROUNDS:
            passed, _ = releaser.release_items(label, users, _not_yet(found), n_items=len(found), most=MOST)
            found[passed] = True
    events = reservation.events
    guarantee = ledger.guarantee(plan.cost, events, delta=delta)
    statement = Statement.of(CHOICE, guarantee, events, public_inputs={})
    if not found.any():
        raise DataError(
            f"items: none was chosen: at epsilon = {round_up(guarantee.epsilon)} and delta = {round_up(delta)} an item "
            "must be more popular than any in this table. This is what the choice released, and its cost is spent. "
            "Give it more epsilon, or a public catalog"
        )
    part = table.of_items(np.flatnonzero(found))
    part = part.of_users(np.flatnonzero(np.diff(part.indptr)))
    return replace(part, catalogue=Catalogue(_typed(part.items.to_arrow()), origin=CHOSEN, selection=statement))


def _require_types(ids: pa.Array) -> None:
    """Raise for types of ids whose storage depends on other ids, and so would reveal items that are not chosen."""
    if types.is_decimal(ids.type) or types.is_timestamp(ids.type):
        raise DataError(f"items: to be chosen privately they need ids that are text or whole numbers, not {ids.type}")


def _typed(ids: pa.Array) -> pa.Array:
    """Ids in a type that depends only on them: unsigned 64-bit integers only if one of them needs it."""
    if ids.type == pa.uint64() and pc.max(ids).as_py() < 1 << 63:
        return ids.cast(pa.int64())
    return ids


def _not_yet(found: Array) -> Contribution:
    """A contribution function: it marks users' entries whose items are not public yet."""
    wanted = ~found

    def contribution(batch: UserBatch) -> Array:
        return wanted[batch.indices]

    return contribution


# -- the choice as part of a fit


def share_of(model: PrivateModel) -> Plan:
    """The plan of the choice that a model makes first."""
    if model.unit != "user" or Adjacency(model.adjacency) is Adjacency.FLIP:
        raise DataError(
            f"items: for {type(model).__name__}, which items a user has is public, so that items cannot be private; "
            "give the items, or pass items=discreet.observed_items_are_public"
        )
    exposed = model.delta * DELTA_SHARE
    total = account(epsilon=model.epsilon, delta=model.delta - exposed).cost.gaussian
    return plan_of(math.floor(total * Fraction(SHARE)), exposed)


def stand_in(table: Interactions) -> Interactions:
    """The public parts of a table with private items, as a table without rows and with placeholder items."""
    return replace(table.of_users(np.zeros(0, np.int64)), catalogue=Catalogue(np.arange(ANY)))


def with_the_rest(model: PrivateModel, n_items: int) -> PrivateModel:
    """The model with the budget that a choice of items leaves."""
    from sklearn.base import clone

    first = share_of(model).cost
    delta = math.nextafter(model.delta - first.exposure, 0)
    most = largest_gaussian(model.epsilon, delta)
    mu = math.sqrt((most - first.gaussian) * SPENDABLE / UNIT)
    epsilon, step = account(mu=mu, delta=delta).epsilon, 1e-9
    while epsilon > 1e-9 * model.epsilon:
        rest: PrivateModel = clone(model).set_params(epsilon=epsilon, delta=delta)
        cost = rest.plan(n_items).cost.filter
        if cost is None:
            raise DataError(
                f"items: {type(model).__name__} does not share its budget with a private choice of items; make it "
                "first, table = discreet.select_items(table, epsilon=..., delta=...), and fit that table"
            )
        if first.gaussian + cost <= most:
            return rest
        epsilon, step = epsilon * (1 - step), min(step * 4, 0.02)
    raise PrivacyError(f"epsilon: {model.epsilon:g} is too little for a private choice of items and a fit; give more")


def preview(model: PrivateModel, ledger: Ledger | None) -> Preview:
    """The cost of a choice of items and a fit."""
    rest = Planned("fit to the chosen items", with_the_rest(model, ANY).plan(ANY).cost)
    plan = Plan((*share_of(model).lines, rest))
    return (ledger or _own_ledger(model)).preview(plan)


def chosen_for(model: PrivateModel, table: Interactions, ledger: Ledger | None) -> tuple[Interactions, Ledger]:
    """The table with items chosen for a model, and the ledger that pays for both."""
    paying, first = ledger or _own_ledger(model), share_of(model)
    paying.expect(unit=model.unit, adjacency=model.adjacency)
    _require_room(paying, first.cost.exposure)
    if not paying.admits(first.cost + with_the_rest(model, ANY).plan(ANY).cost):
        raise BudgetExceeded(
            "ledger: it has too little left for a private choice of items and the fit to those; nothing was spent"
        )
    found = _chosen(table, first, paying, delta=model.delta, adjacency=model.adjacency, n_jobs=model.n_jobs)
    return found, paying


def _own_ledger(model: PrivateModel) -> Ledger:
    kept = share_of(model).cost.exposure
    return Ledger(epsilon=model.epsilon, delta=model.delta, adjacency=model.adjacency, threshold_delta=kept)
