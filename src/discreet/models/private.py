"""The base of private models: it checks what proofs assume of data, plans, pays from a ledger, and certifies."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from discreet.data.catalogue import CHOSEN, PRIVATE, Catalogue
from discreet.data.interactions import Interactions
from discreet.engine.batches import Ratings, require_sound_rows
from discreet.errors import DataError, PrivacyError
from discreet.models import private_items, registry
from discreet.models.base import Learned, Model
from discreet.models.unfinished import described, remove, resumable
from discreet.parallel import Bar
from discreet.privacy import Cost, Ledger, Plan, Planned, Releaser, Statistic
from discreet.privacy.determinism import require_sound_arithmetic
from discreet.privacy.guarantee import MAX_EPSILON, Adjacency, AdjacencyName, account, require_adjacency
from discreet.privacy.ledger import Preview
from discreet.privacy.statement import Statement
from discreet.privacy.store import Checkpoint
from discreet.validation import Count, Positive, Probability, round_up, whole

# Counting only the releases that were made would not give a valid guarantee: docs/proofs/composition.md, section 4.
_STOPPED = (
    "Of the {planned} releases that were planned, {made} were made, in one piece or in parts: whether to go on was "
    "decided by earlier releases. The guarantee covers the whole plan{returned}."
)
_RETURNED = "; what was not released went back to the ledger"
_EXPOSED = 0.1  # a delta is large if the mechanism below exposes more people than this on average


def large_delta(delta: float, people: float) -> list[str]:
    """A warning, if delta is large for about this many people (a released or declared number).

    A mechanism that publishes the whole history of each of n people with probability delta, and nothing else, is
    (0, delta)-DP, and exposes delta n people on average. So delta must be well below 1 / n (Dwork and Roth 2014,
    section 2.3).
    """
    if delta * people <= _EXPOSED:
        return []
    return [
        f"delta: {round_up(delta)} is large for about {float(f'{people:.2g}'):,.0f} people. A mechanism that publishes "
        "the whole history of each of them with that probability would keep such a promise, and expose "
        f"{float(f'{delta * people:.2g}'):,g} of them on average; choose a delta well below 1 / the number of people, "
        f"{_EXPOSED / people:.0e} or less."
    ]


def require_sound(ratings: Ratings, n_jobs: int | None = None) -> None:
    """Raise unless table and machine satisfy the assumptions of the proofs. The error reveals nothing about the data.

    Everything that `discreet.read` returns passes; Interactions made by hand may not. The partitions of a Spark table
    check their own machines.
    """
    ratings.require_public()
    if not isinstance(ratings, Interactions):
        return
    require_sound_rows(ratings, n_jobs)
    require_sound_arithmetic()


def choice_of(catalogue: Catalogue, *, delta: float, unit: str, adjacency: str) -> Statement | None:
    """The statement of a private choice of items, which a guarantee in these terms must include; None without one.

    Called before anything is spent; raises if the guarantee could not include it.
    """
    chosen = catalogue.selection
    if chosen is None:
        if CHOSEN in (catalogue.origin or ""):
            raise DataError(
                "items: they come from a private choice, but its statement, which a guarantee must include, is not "
                "with them; use the table that discreet.select_items returned, or the catalog of a model"
            )
        return None
    for name, value in (("unit", unit), ("adjacency", adjacency)):
        if getattr(chosen.guarantee, name) != value:
            raise PrivacyError(
                f"{name}: the items were chosen with {str(getattr(chosen.guarantee, name))!r}, and a guarantee of both "
                f"cannot be for {str(value)!r}; choose items in the terms of the model"
            )
    if chosen.guarantee.delta > delta:
        raise PrivacyError(
            f"delta: the items were chosen at delta = {round_up(chosen.guarantee.delta)}, which the guarantee of a "
            f"model includes; give the model at least that, not {round_up(delta)}"
        )
    return chosen


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateModel(Model):
    """A model with a guarantee: joint differential privacy, for users unless it says otherwise.

    It declares its releases (`_plan`), reserves their cost in a ledger before it looks at the data, and learns only
    from what the releaser returns.

    Args:
        epsilon: The privacy budget.
        delta: The delta of the budget, a constant well below 1 / the number of users.
        adjacency: What neighboring data sets differ in: one user more or less ("add-remove"), or "replace".
        n_jobs: Number of threads, as in scikit-learn.
    """

    epsilon: Positive
    delta: Probability
    adjacency: AdjacencyName = "add-remove"
    n_jobs: int | None = -1

    @classmethod
    def as_published(cls, **parameters: Any) -> Any:
        """The model as published, with its true guarantee: for `DPALS`, `PublishedDPALS(**parameters)`."""
        if f"Published{cls.__name__}" not in registry.MODELS:
            raise DataError(f"as_published: {cls.__name__} has no other form that was published")
        return registry.find(f"Published{cls.__name__}")(**parameters)

    def _check_parameters(self) -> None:
        require_adjacency(self.adjacency, Adjacency.ADD_REMOVE, Adjacency.REPLACE)
        super()._check_parameters()

    def plan(self, n_items: int) -> Plan:
        """What a fit would release, and what each release costs; needs no data, only the size of the catalog."""
        self._check_parameters()
        return self._plan(whole("n_items", n_items, 1))

    def _plan(self, n_items: int) -> Plan:
        """The releases of a fit and their costs, for checked parameters."""
        raise NotImplementedError

    def _plan_for(self, ratings: Interactions) -> Plan:
        """The plan of a fit to these data, from their public parts. It costs the same as `plan`."""
        return self.plan(ratings.n_items)

    def _learn_privately(self, releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
        """Learned attributes, computed from releases alone.

        By default there are no biases, and the range and kind of values are those of the table, which are public.
        """
        raise NotImplementedError

    def _check_data(self, ratings: Interactions) -> None:
        """Raise if the data are of the wrong kind, judged by their public parts. Called before anything is reserved."""

    def _people(self, learned: Mapping[str, Any], plan: Plan) -> float:
        """A lower estimate of the number of people from a release or a declared number; 0 if there is none."""
        return 0.0

    def _public_inputs(self) -> dict[str, str]:
        """Other inputs that are assumed to be public, in words for the statement."""
        return {}

    def _mu(self) -> float:
        mu = account(epsilon=self.epsilon, delta=self.delta).mu
        if not mu:
            raise PrivacyError(f"epsilon, delta: {self.epsilon:g} and {self.delta:g} leave nothing to spend; give more")
        return mu

    def preview(self, n_items: int | str, ledger: Ledger | None = None) -> Preview:
        """What a fit would cost, and whether a ledger has enough left; spends nothing. Print it.

        Args:
            n_items: The size of the catalog; "private" if a private choice of items comes first.
            ledger: The ledger that would pay; by default the fit's own.
        """
        if isinstance(n_items, str):
            if n_items != PRIVATE:
                raise DataError(f"n_items: a whole number, or 'private', is needed, not {n_items!r}")
            return private_items.preview(self, ledger)
        return (ledger or self._own_ledger()).preview(self.plan(n_items))

    def _preview_for(self, ratings: Interactions, ledger: Ledger | None) -> Preview:
        """What a fit to these data would cost, from their public parts."""
        if ratings.catalogue.private:
            return private_items.preview(self, ledger)
        return (ledger or self._own_ledger()).preview(self._plan_for(ratings))

    def _own_ledger(self, url: str | None = None) -> Ledger:
        return Ledger(url, epsilon=self.epsilon, delta=self.delta, unit=self.unit, adjacency=self.adjacency)

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the model to a folder, and remove the checkpoint that it was fitted with, if any."""
        super().save(folder)
        if (checkpoint := vars(self).get("_checkpoint")) is not None:
            remove(checkpoint.folder, checkpoint.reservation)

    def _not_resumable(self) -> str:
        return ""

    def _learn(self, ratings: Interactions, ledger: Ledger | None, checkpoint: Path | None = None) -> Learned:
        if ratings.catalogue.private:
            return self._learn_from_chosen_items(ratings, ledger, checkpoint)
        self._check_chosen(ratings)
        return self._learn_from_public_items(ratings, ledger, checkpoint)

    def _check_chosen(self, ratings: Interactions) -> Statement | None:
        return choice_of(ratings.catalogue, delta=self.delta, unit=self.unit, adjacency=self.adjacency)

    def _learn_from_public_items(
        self,
        ratings: Interactions,
        ledger: Ledger | None,
        checkpoint: Path | None = None,
        *,
        paying: Ledger | None = None,
    ) -> Learned:
        require_sound(ratings, getattr(self, "n_jobs", None))
        self._check_data(ratings)
        plan, chosen, learning = self._plan_for(ratings), ratings.catalogue.selection, self._learn_privately
        if checkpoint is None:
            return self._under(plan, ledger, ratings, learning, after=chosen, paying=paying)
        with resumable(checkpoint, described(self, ratings, plan), ledger, self._own_ledger) as (pays, kept):
            learned, statement = self._under(
                plan, ledger, ratings, learning, after=chosen, paying=pays, checkpoint=kept
            )
        return {**learned, "_checkpoint": kept}, statement

    def _learn_from_chosen_items(
        self, ratings: Interactions, ledger: Ledger | None, checkpoint: Path | None
    ) -> Learned:
        """Spend a share of the budget on a private choice of items, and learn about those with the rest."""
        if checkpoint is not None:
            raise DataError(
                "checkpoint: a private choice of items cannot be resumed; make it first, table = "
                "discreet.select_items(table, ...), and fit that table with a checkpoint"
            )
        ratings.require_range()
        private_items.share_of(self)  # raises if this model cannot
        self._check_data(private_items.stand_in(ratings))
        table, paying = private_items.chosen_for(self, ratings, ledger)
        rest = private_items.with_the_rest(self, table.n_items)
        learned, statement = rest._learn_from_public_items(table, ledger, paying=paying)
        return {**learned, "catalogue_": table.catalogue}, statement

    def _require_sound(self) -> None:
        require_sound_arithmetic()

    def _require_certified(self, statement: Statement) -> None:
        super()._require_certified(statement)
        guarantee = statement.guarantee
        if not guarantee.holds:
            return
        for name in ("unit", "adjacency"):
            if getattr(self, name) != getattr(guarantee, name):
                raise PrivacyError(
                    f"its certificate promises {name} = {getattr(guarantee, name)!r}, which a model with "
                    f"{name} = {getattr(self, name)!r} does not give"
                )
        cost = self.plan(len(self.catalogue_)).cost
        if self.catalogue_.origin == CHOSEN and not cost.within(guarantee.cost):
            cost = private_items.with_the_rest(self, len(self.catalogue_)).plan(len(self.catalogue_)).cost
        if not cost.within(guarantee.cost) and cost.epsilon(guarantee.delta) > guarantee.epsilon * (1 + 1e-9):
            raise PrivacyError(
                f"its certificate promises epsilon = {guarantee.epsilon:g}, but a fit with its parameters costs "
                f"{cost.epsilon(guarantee.delta):g}"
            )

    def _under(
        self,
        plan: Plan,
        given: Ledger | None,
        ratings: Interactions,
        learn: Callable[[Releaser, Interactions], dict[str, Any]],
        *,
        after: Statement | None = None,
        paying: Ledger | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Learned:
        """Learn as planned, paid for by a ledger. The guarantee includes earlier releases, stated in `after`.

        The ledger is the `given` one; otherwise one that is `paying` already; otherwise a new one.
        """
        if given is None and after is not None and after.certificate["ledger"] is not None:
            raise PrivacyError(
                "ledger: an earlier fit of this model was paid for by one, whose budget holds only if it pays for all "
                "that is learned from the same people; give it. Nothing was spent"
            )
        chosen = ratings.catalogue.selection
        if chosen is not None and not (after is not None and after.includes(chosen)):
            raise DataError(
                "ratings: these items come from a private choice that the model's guarantee does not include; use the "
                "items that the model knows, discreet.read(..., items=model.catalogue_, on_unknown='drop')"
            )
        ledger = given or paying or self._own_ledger()
        ledger.expect(unit=self.unit, adjacency=self.adjacency)
        planned = sum(line.count for line in plan.lines)
        with (
            ledger.reserve(plan, checkpoint=checkpoint) as reservation,
            Bar(type(self).__name__, planned, f"of {planned} releases") as bar,
        ):
            releaser = Releaser(reservation, self.adjacency, self.n_jobs, bar.advance)
            learned = {
                "value_range_": ratings.value_range or (0.0, 1.0),
                "implicit_": ratings.implicit,
                "item_bias_": np.zeros(ratings.n_items, np.float32),
                **learn(releaser, ratings),
            }
        events = reservation.events
        guarantee = ledger.guarantee(plan.cost, events, delta=self.delta)
        if after is not None:
            guarantee = after.guarantee + guarantee
        notes = []
        if left := sum(plan.left(events).values()):
            # Nothing is returned from a plan that fits only because it was fixed in advance.
            returned = _RETURNED if any(e.kind == "close" and e.cost for e in reservation.entries) else ""
            notes.append(_STOPPED.format(made=planned - left, planned=planned, returned=returned))
        for note in large_delta(self.delta, self._people(learned, plan)):
            notes.append(note)
            warnings.warn(note, stacklevel=5)
        return learned, Statement.of(
            f"{type(self).__name__}: a private recommender",
            guarantee,
            events,
            public_inputs={**ratings.public_inputs, **self._public_inputs()},
            ledger=None if given is None else ledger.totals(),
            after=after,
            notes=notes,
        )


# -- models as published: with the noise of a paper, and the guarantee that this noise truly gives


def frank_wolfe_std(row_norm: float, releases: int, epsilon: float, delta: float) -> float:
    """The noise of Jain, Thakkar and Thakurta (2018) for T releases: L^2 sqrt(64 T log(1 / delta)) / epsilon."""
    return row_norm**2 * math.sqrt(64 * releases * math.log(1 / delta)) / epsilon


# A statistic, the standard deviation of its noise, and how often it is released. The cost depends only on the ratio of
# bound and noise, so both may be in any unit.
Noised = tuple[Statistic, float, int]


def true_plan(releases: Mapping[str, Noised], adjacency: AdjacencyName) -> Plan:
    """The plan of releases with given noise, by label."""
    return Plan(
        tuple(
            Planned(label, Cost.of_gaussian(statistic.sensitivity(adjacency), std), count)
            for label, (statistic, std, count) in releases.items()
        )
    )


def true_ledger(model: PrivateModel, plan: Plan, name: str, url: str | None) -> Ledger:
    """A ledger with the true budget of a plan with given noise; `name` is the parameter that sets the noise."""
    true = plan.cost.epsilon(model.delta) * (1 + 1e-6)
    if true > MAX_EPSILON:
        raise PrivacyError(f"{name}: there is so little noise that nothing is protected; give more")
    return Ledger(url, epsilon=true, delta=model.delta, adjacency=model.adjacency)


class PublishedModel(PrivateModel):
    """A model with the noise of a paper. Its ledger, guarantee and statement state the true cost.

    `epsilon` then only sets the noise; there is a warning if the true epsilon is larger.
    """

    _error = ""  # what is wrong in the paper

    rank: Count | None = None

    def _own_ledger(self, url: str | None = None) -> Ledger:
        # The cost is the same for all catalogs with at least two items, and as many as there are directions.
        return true_ledger(self, self.plan(max(self.rank or 2, 2)), "epsilon", url)

    def _learn(self, ratings: Interactions, ledger: Ledger | None, checkpoint: Path | None = None) -> Learned:
        learned, statement = super()._learn(ratings, ledger, checkpoint)
        if statement.guarantee.epsilon > self.epsilon:
            warnings.warn(
                f"{type(self).__name__}: {self._error}. What is published as epsilon = {self.epsilon:g} is really "
                f"epsilon = {round_up(statement.guarantee.epsilon)}",
                stacklevel=3,
            )
        return learned, statement
