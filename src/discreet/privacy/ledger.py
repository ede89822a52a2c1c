"""The one place where private numbers become public: each passes `Ledger.release`, which draws its noise.

A `Plan` declares a fit's releases before any data is touched; `Ledger.reserve` sets its cost aside. Costs other than
those of single releases (a private selection, noise on users' own devices) are recorded by `Ledger.charge`, with the
source of their secret randomness.
"""

import json
import math
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Literal

import numpy.typing as npt

from discreet.errors import BudgetExceeded, PrivacyError, Unbounded
from discreet.privacy.guarantee import (
    UNIT,
    Adjacency,
    AdjacencyName,
    Cost,
    Guarantee,
    Notion,
    PureEvent,
    SampledGaussian,
    Unit,
    largest_gaussian,
    renyi_budget,
)
from discreet.privacy.noise import Gaussian, GridArray, Noise, NoiseSource, SystemNoise, described, require_noise
from discreet.privacy.rendering import ledger_table
from discreet.privacy.set_union import Threshold
from discreet.privacy.statement import Statement
from discreet.privacy.store import BEGIN, Checkpoint, Entry, State, Store, Transaction, canonical
from discreet.validation import positive, probability, round_down, round_up, whole

Filter = Literal["gaussian", "renyi"]
_NONE: Mapping[str, str] = {}

_DEFAULTS: dict[str, Any] = {"epsilon": None, "delta": 0.0, "unit": "user", "adjacency": "add-remove"}
_DEFAULTS |= {"notion": "joint-dp", "filter": "gaussian", "threshold_delta": 0.0}


@dataclass(frozen=True)
class Planned:
    """One line of a plan: `count` releases with one label, each of at most this cost.

    The costs of Gaussian releases add up, so several cheaper releases may take the place of one.
    """

    label: str
    cost: Cost
    count: int = 1

    def __post_init__(self) -> None:
        _label(self.label)  # it is recorded as JSON, and lines are looked up by it
        object.__setattr__(self, "count", whole("count", self.count, 1))
        if not isinstance(self.cost, Cost) or not self.cost.sound or not self.cost:
            raise PrivacyError(f"cost: {self.label!r} needs a positive one, e.g. Cost.of_mu(0.1)")

    @property
    def total(self) -> Cost:
        """The cost of all releases of this line."""
        return self.cost * self.count

    def left(self, costs: Sequence[Cost]) -> int:
        """How many releases are left after releases of these costs: docs/proofs/composition.md, section 3."""
        if self.cost.events:
            return self.count - len(costs)
        return self.count + -sum(cost.gaussian for cost in costs) // self.cost.gaussian


@dataclass(frozen=True)
class Plan:
    """The releases of a fit. `Ledger.preview` shows their cost, `Ledger.reserve` sets it aside."""

    lines: tuple[Planned, ...]

    def __post_init__(self) -> None:
        labels = [line.label for line in self.lines]
        if not labels or len(set(labels)) < len(labels):
            raise PrivacyError("plan: needs at least one line, and a label of its own for each")

    @classmethod
    def gaussian(cls, mu: float, shares: Mapping[str, float | tuple[float, int]]) -> "Plan":
        """Split a Gaussian budget: mu^2 adds up, so shares of mu^2 sum to 1.

        Args:
            mu: the Gaussian-DP parameter of the whole plan, e.g. `discreet.account(epsilon=1, delta=1e-6).mu`.
            shares: label -> share of mu^2, or (share, count) for `count` equal releases that divide a share.
        """
        pairs = {label: share if isinstance(share, tuple) else (share, 1) for label, share in shares.items()}
        pairs = {label: (share, whole("count", count, 1)) for label, (share, count) in pairs.items()}
        total = math.fsum(positive(f"shares[{label!r}]", share) for label, (share, _) in pairs.items())
        if not math.isclose(total, 1, rel_tol=1e-12):
            raise PrivacyError(f"shares: must sum to 1, not {total:.12g}")
        budget = Fraction(Cost.of_mu(mu).gaussian) / sum(Fraction(share) for share, _ in pairs.values())
        costs = [Cost(math.floor(budget * Fraction(share) / count), 1) for share, count in pairs.values()]
        return cls(tuple(Planned(a, cost, n) for (a, (_, n)), cost in zip(pairs.items(), costs, strict=True)))

    @property
    def cost(self) -> Cost:
        """The cost of the whole plan."""
        return sum((line.total for line in self.lines), Cost())

    def left(self, events: Iterable[Entry]) -> dict[str, int]:
        """How many releases of each line are left after the given releases."""
        costs: dict[str, list[Cost]] = {line.label: [] for line in self.lines}
        for event in events:
            costs[event.label].append(event.cost)
        return {line.label: line.left(costs[line.label]) for line in self.lines}

    def to_json(self) -> list[dict[str, Any]]:
        """Values that JSON can hold."""
        return [{"label": line.label, "cost": line.cost.to_json(), "count": line.count} for line in self.lines]

    @classmethod
    def from_json(cls, lines: Iterable[dict[str, Any]]) -> "Plan":
        """The inverse of `to_json`."""
        return cls(tuple(Planned(line["label"], Cost.from_json(line["cost"]), line["count"]) for line in lines))

    def __getitem__(self, label: str) -> Planned:
        if found := [line for line in self.lines if line.label == label]:
            return found[0]
        raise PrivacyError(f"label: {label!r} is not in the plan, which has {', '.join(x.label for x in self.lines)}")

    def noise(self, label: str, *, sensitivity: float, symmetric: bool = False, parts: int = 1) -> Gaussian:
        """The least Gaussian noise that this line pays for; with `parts`, for each of that many parts of a release."""
        planned = self[label].cost
        if planned.events:
            raise PrivacyError(f"label: the plan's line {label!r} has no mu: it is not for Gaussian noise alone")
        cost = Cost(planned.gaussian // whole("parts", parts, 1), 1)
        return Gaussian.for_cost(cost, sensitivity=sensitivity, symmetric=symmetric)


@dataclass(frozen=True)
class Preview:
    """The cost of a plan, computed without any data; as a string, a table."""

    plan: Plan
    cost: Guarantee
    after: Guarantee
    fits: bool

    def __str__(self) -> str:
        wide = max(26, *(len(line.label) for line in self.plan.lines)) + 2
        lines = [f"{'release':<{wide}}{'times':>6}{'share of mu^2':>15}"]
        total = self.plan.cost.gaussian or 1
        for line in self.plan.lines:
            share = f"{line.total.gaussian / total:.1%}" if line.total.gaussian else "-"
            lines.append(f"{line.label:<{wide}}{line.count:>6}{share:>15}")
        costs = f"costs epsilon = {round_up(self.cost.epsilon)} at delta = {round_up(self.cost.delta)}"
        if self.after.cost != self.cost.cost:  # something was spent before
            costs += f"; the ledger will then have spent epsilon = {round_up(self.after.epsilon)}"
        lines.append(costs)
        return "\n".join(lines if self.fits else [*lines, "DOES NOT FIT in what the ledger has left"])


class Ledger:
    """A privacy budget, a durable record of what was spent from it, and the place where noise is added.

    Example:
        >>> from discreet import Gaussian, Ledger
        >>> ledger = Ledger(epsilon=1, delta=1e-6)
        >>> public = ledger.release([120, 45, 3], sensitivity=1, noise=Gaussian(5.0), label="clicks per item")
        >>> ledger.spent.epsilon <= 1
        True

    Args:
        url: where the record is kept: `sqlite:///file.db` or `postgresql://…`, shared by any number of processes;
            in memory by default, for this process only.
        epsilon: the budget; without one everything is recorded and nothing is refused.
        delta: the delta at which the budget and everything spent are stated.
        unit: what neighboring data sets differ in: the data of one "user", or one "entry".
        adjacency: how they differ ("add-remove", "replace", "flip").
        notion: what the guarantee covers ("joint-dp" or "dp").
        filter: how releases count against the budget: "gaussian" is exact for Gaussian noise and expensive for other
            kinds; "renyi" accepts any kind, including sampling and private selection, and is slightly looser.
        threshold_delta: the part of delta that is kept for the thresholds of `select_items`, from the beginning to the
            end; releases with noise share the rest. Without a budget none is needed.
        name: which of several ledgers in one database.
        create: whether to begin a new ledger if there is none; by default if any setting is given, so that a wrong
            path is an error and not an unlimited budget.
        noise_source: the source of the noise; anything but the default is for tests.
        lock_timeout: how many seconds to wait while other processes have the database locked before
            `LedgerUnavailable` is raised. After two seconds a warning in the log "discreet.ledger" names them.

    An existing ledger is opened with its own settings: give them again, or leave them out.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        unit: Unit | None = None,
        adjacency: AdjacencyName | None = None,
        notion: Notion | None = None,
        filter: Filter | None = None,
        threshold_delta: float | None = None,
        name: str = "default",
        create: bool | None = None,
        noise_source: NoiseSource | None = None,
        lock_timeout: float = 60.0,
    ) -> None:
        budget = None if epsilon is None else positive("epsilon", epsilon)
        at = None if delta is None else probability("delta", delta, zero=True)
        kept = None if threshold_delta is None else probability("threshold_delta", threshold_delta, zero=True)
        asked = (budget, at, unit, adjacency, notion, filter, kept)
        given = {key: value for key, value in zip(_DEFAULTS, asked, strict=True) if value is not None}
        settings = {**_DEFAULTS, **given}
        _require_known(settings)
        self.noise_source = noise_source if noise_source is not None else SystemNoise()
        described(self.noise_source)
        if epsilon is not None and settings["delta"]:  # raises for absurd budgets
            limit = largest_gaussian if settings["filter"] == "gaussian" else renyi_budget
            limit(given["epsilon"], _noise_delta(settings["delta"], settings["threshold_delta"]))
        if not isinstance(name, str) or not name:
            raise PrivacyError(f"name: must be a word, not {name!r}")
        create = bool(given) or url is None if create is None else create
        self._store = Store(url, name, create, positive("lock_timeout", lock_timeout))
        with self._store.transaction() as transaction:
            opening = transaction.state.first
            if opening is None:
                if not create:
                    raise PrivacyError(f"name: there is no ledger called {name!r} here; {BEGIN}")
                if epsilon is not None and delta is None:
                    raise PrivacyError("delta: a budget needs one, a constant well below 1 / the number of users")
                transaction.append("open", {"settings": settings, "name": name})
            else:
                settings = {**_DEFAULTS, **opening.body["settings"]}
                _require_known(settings)  # another version may have written it
        for key, value in given.items():
            if settings[key] != value:
                raise PrivacyError(f"{key}: this ledger was opened with {settings[key]!r}, not {value!r}, and keeps it")
        self.epsilon: float | None = settings["epsilon"]
        self.delta: float = settings["delta"]
        self.unit: Unit = settings["unit"]
        self.adjacency = Adjacency(settings["adjacency"])
        self.notion: Notion = settings["notion"]
        self.filter: Filter = settings["filter"]
        self.threshold_delta: float = settings["threshold_delta"]

    def _state(self) -> State:
        with self._store.transaction() as transaction:
            return transaction.state

    @property
    def origin(self) -> dict[str, Any]:
        """The identity of this ledger: its URL without a password (None in memory), name, and first entry's digest."""
        first = self._state().first
        assert first is not None
        return {"url": self._store.url, "name": self._store.name, "digest": first.digest}

    def guarantee(self, cost: Cost, events: Iterable[Entry], *, delta: float | None = None) -> Guarantee:
        """The guarantee of some of this ledger's events, of total cost `cost`; NOT PRIVATE if any was insecure."""
        return self._terms(cost, any(event.body.get("secure") is not True for event in events), delta)

    def _terms(self, cost: Cost, insecure: bool, delta: float | None = None) -> Guarantee:
        at = self.delta if delta is None else delta
        guarantee = Guarantee(cost, at, self.unit, self.adjacency, self.notion)
        return guarantee.void("the noise came from a seeded source, for tests only") if insecure else guarantee

    @property
    def spent(self) -> Guarantee:
        """The guarantee of everything charged so far, including reservations that are still open."""
        state = self._state()
        return self._terms(state.cost, state.insecure)

    @property
    def remaining(self) -> Guarantee | None:
        """The largest further release that fits, as a guarantee; None without a budget."""
        return None if self.epsilon is None else self._terms(self._room(self._state().cost), False)

    @property
    def entries(self) -> list[Entry]:
        """The whole log: openings, reservations, releases, charges."""
        with self._store.transaction() as transaction:
            return transaction.entries()

    @property
    def events(self) -> list[Entry]:
        """Everything that was released or charged, in order."""
        return [entry for entry in self.entries if entry.kind in ("release", "charge")]

    def _fits(self, spent: Cost, cost: Cost) -> bool:
        """Whether a cost fits, as part of an adaptive sequence or as the only plan, fixed in advance."""
        if self.epsilon is None or self._filter_admits(spent + cost):
            return True
        return not spent and cost.epsilon(self.delta) <= self.epsilon

    def admits(self, cost: Cost) -> bool:
        """Whether releases of this cost fit even if each is chosen after seeing the results of all others."""
        return self._filter_admits(self._state().cost + cost)

    def _filter_admits(self, total: Cost) -> bool:
        """Whether a total keeps the budget even if each release was chosen after seeing all earlier results."""
        if self.epsilon is None or total.pure <= self.epsilon:
            return True
        if self.delta == 0 or total.exposure > self.threshold_delta:
            return False
        noise = total.noise
        if self.filter == "renyi":
            order, bound = renyi_budget(*self._noise_budget)
            return noise.renyi(order) <= bound
        return noise.filter is not None and noise.filter <= largest_gaussian(*self._noise_budget)

    @property
    def _noise_budget(self) -> tuple[float, float]:
        """The epsilon, and the part of delta, for releases with noise."""
        assert self.epsilon is not None
        return self.epsilon, _noise_delta(self.delta, self.threshold_delta)

    def _room(self, spent: Cost) -> Cost:
        """The largest Gaussian cost (or pure one, at delta 0) that still fits."""
        if self.epsilon is None or self.delta == 0:
            rest = (self.epsilon or 0.0) - spent.pure
            return Cost.of(PureEvent(rest)) if rest > 0 else Cost()
        if spent.exposure > self.threshold_delta:  # a first and only plan
            return Cost()
        if self.filter == "renyi":
            order, bound = renyi_budget(*self._noise_budget)
            return Cost(max(math.floor((bound - spent.noise.renyi(order)) * (1 - 1e-6) * 2 / order * UNIT), 0), 1)
        used = spent.noise.filter
        return Cost() if used is None else Cost(max(largest_gaussian(*self._noise_budget) - used, 0), 1)

    def _require(self, state: State, cost: Cost, what: str) -> None:
        """Raise, before anything is written, unless a cost is valid here and fits."""
        if not isinstance(cost, Cost) or not cost.sound or not cost:
            raise PrivacyError(f"{what}: a positive Cost is needed, e.g. Cost.of_mu(0.1)")
        if cost.samples and self.adjacency is not Adjacency.ADD_REMOVE:
            raise PrivacyError(f"adjacency: Poisson sampling is accounted for 'add-remove', not {self.adjacency!r}")
        if self.epsilon is not None and self.delta == 0 and math.isinf(cost.pure):
            raise PrivacyError(f"delta: {what} needs delta > 0 (Gaussian noise has no pure epsilon); this ledger has 0")
        if not self._fits(state.cost, cost):
            asked, left = cost.epsilon(self.delta), self._room(state.cost).epsilon(self.delta) * (1 + 1e-8)
            hint = " (to mix kinds of noise, declare them together as a plan, or open the ledger with filter='renyi')"
            raise BudgetExceeded(
                f"{what} asks for epsilon = {round_up(asked)} at delta = {round_up(self.delta)}, but of the ledger's "
                f"{self.epsilon:g} the largest that still fits is epsilon = {round_down(left)}; nothing was spent"
                f"{hint if state.cost and (state.cost + cost).mu is None else ''}"
            )

    def expect(self, *, unit: Unit, adjacency: str) -> None:
        """Raise unless this ledger counts in the given unit and adjacency: called by models before they fit."""
        for name, value in (("unit", unit), ("adjacency", adjacency)):
            if getattr(self, name) != value:
                raise PrivacyError(f"{name}: the model's is {value!r}, but this ledger's is {getattr(self, name)!r}")

    def release(
        self, statistic: npt.ArrayLike | GridArray, sensitivity: float, noise: Noise | float, label: str
    ) -> npt.NDArray[Any]:
        """Make a private statistic public: check, record, draw the noise, return, in this order.

        Args:
            statistic: integers, or integers on a grid (`GridArray`); floats are refused.
            sensitivity: how much it can differ between neighboring data sets, in the norm of the noise.
            noise: `Gaussian`, `Laplace`, `L2Laplace` or `RandomizedResponse`; a number is the std of Gaussian noise.
            label: what it is, for the record; public.

        Returns the noisy statistic in its own units. Anything computed from it costs nothing more.
        """
        return self._release(statistic, sensitivity, noise, label, None)

    def _release(
        self,
        statistic: npt.ArrayLike | GridArray,
        sensitivity: float,
        noise: Noise | float,
        label: str,
        reserved: "Reservation | None",
        *,
        what: str = "",
        rate: float | None = None,
        threshold: Threshold | None = None,
    ) -> npt.NDArray[Any]:
        on_grid = GridArray.of(statistic)
        mechanism = noise if isinstance(noise, Noise) else Gaussian(positive("noise", noise))
        sensitivity = positive("sensitivity", sensitivity, error=Unbounded)
        cost = mechanism.cost(sensitivity)
        if reserved is not None and rate is not None:
            cost = reserved.sampled(label, cost, rate)
        if threshold is not None:
            cost += threshold.cost
        mechanism.check(on_grid)
        if on_grid.grid.units(sensitivity) < 1:
            raise PrivacyError(f"sensitivity: {sensitivity:g} is below a unit of the statistic's grid: use a finer one")
        if threshold is None and not 1 <= on_grid.values.size <= 1 << 40:
            raise PrivacyError("statistic: it is empty, or has more than 2^40 elements: release it in parts")
        require_ready()
        body = {
            "label": _label(label),
            **({"what": what} if what else {}),
            "sensitivity": sensitivity,
            "noise": {"kind": mechanism.kind, **asdict(mechanism)},
            "cost": cost.to_json(),
            # With a threshold, how many numbers there are is itself private.
            **({"shape": list(on_grid.values.shape)} if threshold is None else {"threshold": asdict(threshold)}),
            "grid": on_grid.grid.exponent,
            **described(self.noise_source),
        }
        with self._store.transaction() as transaction:
            if reserved is None:
                self._require(transaction.state, cost, f"release {label!r}")
                entry = transaction.append("release", body)
            else:
                entry = reserved.entry(transaction, {**body, "reservation": reserved.id}, cost)

        def draw() -> npt.NDArray[Any]:  # only after the record is on disk
            if threshold is not None:
                return threshold.passed(on_grid, mechanism, self.noise_source)
            return mechanism.add(on_grid, self.noise_source)

        return draw() if reserved is None else reserved.once(entry, draw)

    def charge(
        self,
        cost: Cost,
        label: str,
        *,
        source: NoiseSource,
        noise: Noise | None = None,
        sensitivity: float | None = None,
    ) -> Entry:
        """Record a cost that `release` does not: of a private selection, or of noise on users' own devices.

        Args:
            cost: of everything that the charge is for; not checked.
            label: what it is for, for the record; public.
            source: the source of the secret randomness: this ledger's `noise_source`, or `DeclaredNoise("...")` if it
                was drawn elsewhere. If it is not secure, this ledger says NOT PRIVATE from then on.
            noise: of the release that the charge is for, if it is for one: for the certificate.
            sensitivity: of this release, in the norm of the noise.

        Returns the entry in the log.
        """
        body: dict[str, Any] = {"label": _label(label), **described(source)}
        if noise is not None or sensitivity is not None:
            if noise is None or sensitivity is None:
                raise PrivacyError("noise, sensitivity: give both, or neither")
            if not isinstance(cost, Cost) or not cost.pays_for(noise.cost(sensitivity)):
                raise PrivacyError(f"cost: {label!r} does not pay for a release with this noise and sensitivity")
            body |= {"sensitivity": sensitivity, "noise": {"kind": noise.kind, **asdict(noise)}}
        require_ready()
        with self._store.transaction() as transaction:
            self._require(transaction.state, cost, f"charge {label!r}")
            return transaction.append("charge", {**body, "cost": cost.to_json()})

    def preview(self, plan: Plan) -> Preview:
        """The cost of a plan; touches no data and spends nothing."""
        state, insecure = self._state(), self.noise_source.secure is not True
        after = self._terms(state.cost + plan.cost, state.insecure or insecure)
        return Preview(plan, self._terms(plan.cost, insecure), after, self._fits(state.cost, plan.cost))

    @contextmanager
    def reserve(self, plan: Plan, *, checkpoint: Checkpoint | None = None) -> Iterator["Reservation"]:
        """Set a whole plan's cost aside before any data is touched, then release under it.

            with ledger.reserve(plan) as reservation:
                public = reservation.release(statistic, sensitivity, noise, "counts")

        Unused cost is returned at the end (unless the plan fits only because it was fixed in advance, as a mix of kinds
        of noise may). If the process dies, the whole plan stays charged until `close` is called.

        Args:
            plan: the releases.
            checkpoint: where each release is saved before anybody sees it. If the checkpoint's reservation exists
                already, this run repeats the same releases from the first: those that were saved are read, at no cost.
                After an exception the reservation stays open, so that it can be resumed.
        """
        require_ready()
        lines = json.loads(canonical(plan.to_json()))
        identifier = uuid.uuid4().hex if checkpoint is None else checkpoint.reservation
        reservation = Reservation(self, plan, identifier, checkpoint)
        with self._store.transaction() as transaction:
            if checkpoint is None or not transaction.entries(checkpoint.reservation):
                self._require(transaction.state, plan.cost, "the plan")
                # A plan that fits only because it was fixed in advance must stay charged as a whole.
                firm = not self._filter_admits(transaction.state.cost + plan.cost)
                body = {"reservation": reservation.id, "lines": lines, "cost": plan.cost.to_json()}
                transaction.append("reserve", {**body, "firm": firm, "checkpoint": checkpoint is not None})
            else:
                _require_same(_opening(transaction, reservation.id)[0], lines)
        finished = checkpoint is None
        try:
            yield reservation
            finished = True
        finally:
            if finished:
                self.close(reservation.id)

    def close(self, reservation: str) -> None:
        """Return the cost that a reservation has not used; it can release nothing from then on.

        Call it for a reservation whose process was killed. Each release is recorded before its noise is drawn, so
        nobody has seen the releases whose cost is returned.
        """
        with self._store.transaction() as transaction:
            opening, entries = _opening(transaction, reservation)
            if all(entry.kind != "close" for entry in entries):
                unused, plan = Cost(), Plan.from_json(opening.body["lines"])
                if not opening.body["firm"]:
                    left = plan.left(entry for entry in entries if entry.kind == "release")
                    unused = sum((plan[label].cost * count for label, count in left.items()), Cost())
                transaction.append("close", {"reservation": reservation, "cost": unused.to_json()})

    def open_reservations(self) -> list[str]:
        """The ids of reservations that were never closed: running fits, or fits whose process died."""
        entries = self.entries
        closed = {entry.body["reservation"] for entry in entries if entry.kind == "close"}
        return [e.body["reservation"] for e in entries if e.kind == "reserve" and e.body["reservation"] not in closed]

    def statement(self, *, title: str = "Privacy ledger", public_inputs: Mapping[str, str] = _NONE) -> Statement:
        """The privacy statement of everything this ledger has released."""
        budget = self._budget()
        # Releases may have been left out because of earlier results: then the list was not fixed in advance.
        stopped = any(entry.kind == "close" and entry.cost for entry in self.entries)
        return Statement.of(title, self.spent, self.events, public_inputs=public_inputs, budget=budget, stopped=stopped)

    def totals(self) -> dict[str, Any]:
        """This ledger's total and its budget, for the statement of a fit that it paid for."""
        return {"spent": self.spent.to_json(), "budget": self._budget()}

    def _budget(self) -> dict[str, Any] | None:
        if self.epsilon is None:
            return None
        kept = {"threshold_delta": self.threshold_delta} if self.threshold_delta else {}
        return {"epsilon": self.epsilon, "delta": self.delta, "filter": self.filter, **kept}

    def to_json(self) -> dict[str, Any]:
        """The whole log with its digests, which an outsider can check."""
        return {"format": 1, "entries": [asdict(e) for e in self.entries], "spent": self.spent.to_json()}

    def verify(self) -> None:
        """Read the whole log again and recompute its hash chain; raise if anything was changed."""
        with self._store.transaction() as transaction:
            transaction.entries()

    def __repr__(self) -> str:
        budget = "no budget" if self.epsilon is None else f"epsilon={self.epsilon:g}"
        return f"Ledger({budget}, delta={self.delta:g}, spent epsilon={round_up(self.spent.epsilon)})"

    def __str__(self) -> str:
        spent, left = self.spent, self.remaining
        lines = ledger_table(self.events, self.delta)
        budget = "none" if self.epsilon is None else f"epsilon = {self.epsilon:g}"
        lines.append(f"budget {budget}, at delta = {round_up(self.delta)}; spent epsilon = {round_up(spent.epsilon)}")
        if left is not None:
            lines.append(f"the largest further release that fits: epsilon = {round_down(left.epsilon)}")
        if waiting := self.open_reservations():
            lines.append(f"open reservations: {', '.join(waiting)}")
        return "\n".join(lines)

    def __reduce__(self) -> str:
        raise PrivacyError("ledger: a ledger cannot be copied or pickled; open it again by its URL")


class Reservation:
    """A plan whose cost has been set aside: releases with its labels, each at no more than its planned cost."""

    def __init__(self, ledger: Ledger, plan: Plan, identifier: str, checkpoint: Checkpoint | None = None) -> None:
        self._ledger, self.plan, self.id, self._checkpoint = ledger, plan, identifier, checkpoint
        self._made = 0  # releases in this run

    def release(
        self,
        statistic: npt.ArrayLike | GridArray,
        sensitivity: float,
        noise: Noise | float,
        label: str,
        *,
        what: str = "",
        rate: float | None = None,
        threshold: Threshold | None = None,
    ) -> npt.NDArray[Any]:
        """`Ledger.release`, paid for by the plan's line of this label.

        With a `rate`, the statistic is that of a secret Poisson sample of the users, drawn for this release alone. With
        a `threshold`, the positions and noisy values of the positive entries that pass it are released. `what` is for
        the record: what is released under a line that was planned for something else.
        """
        if threshold is not None and self.keeps_releases:
            raise PrivacyError("checkpoint: a release with a threshold cannot be resumed; make it before the fit")
        return self._ledger._release(
            statistic, sensitivity, noise, label, self, what=what, rate=rate, threshold=threshold
        )

    @property
    def entries(self) -> list[Entry]:
        """All entries of this reservation in the log."""
        return [entry for entry in self._ledger.entries if entry.body.get("reservation") == self.id]

    @property
    def events(self) -> list[Entry]:
        """Everything that was released under this plan, in order; by earlier runs, too, if they were resumed."""
        return [entry for entry in self.entries if entry.kind == "release"]

    @property
    def keeps_releases(self) -> bool:
        """Whether released arrays are written to a checkpoint, which anyone who has the ledger can read."""
        return self._checkpoint is not None

    @property
    def noise_source(self) -> NoiseSource:
        """The source of the ledger's noise and all other secret randomness."""
        return self._ledger.noise_source

    def sampled(self, label: str, cost: Cost, rate: float) -> Cost:
        """The planned cost of a release over a Poisson sample; raises unless the plan's line covers it."""
        planned = self.plan[label].cost
        rates = [event.probability for event, _ in planned.events if isinstance(event, SampledGaussian)]
        if rates != [rate] or not planned.pays_for(cost):
            raise PrivacyError(f"noise: {label!r} would cost more than the plan set aside for it")
        return planned

    def entry(self, transaction: Transaction, body: dict[str, Any], cost: Cost) -> Entry:
        """The record of a release: a new entry, or that of an earlier run, which must match."""
        opening, entries = _opening(transaction, self.id)
        recorded = [entry for entry in entries if entry.kind == "release"][self._made :]
        if self._checkpoint is None or not recorded:
            _require_planned(opening, entries, body["label"], cost)
            return transaction.append("release", body)
        asked, before = json.loads(canonical(body)), recorded[0].body
        others = [name for name in body if asked[name] != before.get(name)]
        if others:
            raise PrivacyError(
                f"checkpoint: release {self._made + 1} of this fit was {before['label']!r}, and now it would be "
                f"{asked['label']!r} with another {', '.join(others)}: go on with the same model, catalog and "
                "version of discreet"
            )
        return recorded[0]

    def once(self, entry: Entry, draw: Callable[[], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """The released array: drawn now and saved before anyone sees it, or read from an earlier run."""
        if self._checkpoint is None:
            return draw()

        def saved(transaction: Transaction) -> dict[str, Any] | None:  # the ledger's record of the array
            found = (e.body for e in transaction.entries(self.id) if e.kind == "saved")
            return next((body for body in found if body["release"] == entry.seq), None)

        with self._ledger._store.transaction() as transaction:
            before = saved(transaction)
        if before is not None:
            array = self._checkpoint.read(before, entry.body["shape"])
        else:  # an earlier run may have drawn an array, but nobody has seen it
            array = draw()
            written = self._checkpoint.write(array)
            with self._ledger._store.transaction() as transaction:
                if saved(transaction) is not None:
                    raise PrivacyError(f"checkpoint: another process has released {entry.label!r}; leave this to it")
                transaction.append("saved", {"reservation": self.id, "release": entry.seq, **written})
        self._made += 1
        return array


def _opening(transaction: Transaction, reservation: str) -> tuple[Entry, list[Entry]]:
    """The entry that opened a reservation, and all its entries, from the log: objects in memory may be out of date."""
    entries = transaction.entries(reservation)
    if not entries or entries[0].kind != "reserve":
        raise PrivacyError(f"reservation: this ledger has none with the id {reservation!r}")
    return entries[0], entries


def _require_same(opening: Entry, lines: Any) -> None:
    """Raise unless a reservation that exists can be resumed under this plan."""
    name = opening.body["reservation"]
    if opening.body.get("checkpoint") is not True:  # it is unknown which of its arrays somebody has seen
        raise PrivacyError(f"checkpoint: the reservation {name} was made without one, so it cannot be resumed")
    if opening.body["lines"] != lines:
        raise PrivacyError(f"plan: the reservation {name} was made for another one")


def _require_planned(opening: Entry, entries: list[Entry], label: str, cost: Cost) -> None:
    """Raise unless the plan has such a release left, at no less than its cost."""
    line = Plan.from_json(opening.body["lines"])[label]
    if any(entry.kind == "close" for entry in entries):
        raise PrivacyError("reservation: it is closed, and what it had left was returned")
    if not cost.within(line.cost):
        raise PrivacyError(f"noise: {label!r} would cost more than the plan set aside for it")
    made = [entry.cost for entry in entries if entry.kind == "release" and entry.label == label]
    if line.left([*made, cost]) < 0:
        raise PrivacyError(f"label: the plan's releases of {label!r} are used up")


def _require_known(settings: Mapping[str, Any]) -> None:
    """Raise unless there is a proof for a ledger's settings."""
    Guarantee(Cost(), *(settings[key] for key in ("delta", "unit", "adjacency", "notion")))  # checks them
    if settings["threshold_delta"] and not settings["threshold_delta"] < settings["delta"]:
        raise PrivacyError(f"threshold_delta: it is a part of delta, {settings['delta']:g}, and must be less")
    if settings["filter"] not in ("gaussian", "renyi"):
        raise PrivacyError(f"filter: must be 'gaussian' or 'renyi', not {settings['filter']!r}")


def _noise_delta(delta: float, kept: float) -> float:
    """The part of a ledger's delta that releases with noise share, rounded down."""
    return math.nextafter(delta - kept, 0) if kept else delta


def _label(label: str) -> str:
    if not isinstance(label, str) or not label.strip():
        raise PrivacyError("label: say in a few words what is released")
    return label


@cache  # after an exception it is tried again
def require_ready() -> None:
    """Raise, before anything is spent, unless every kind of noise, and a statement, can be made on this machine.

    Tried once in each process. It shows that the code runs, not that the noise has its law: `discreet doctor` draws a
    million numbers for that.
    """
    try:
        require_noise()
        Statement.parse(Statement.of("test", Guarantee(Cost(), 0.0), [], public_inputs={}).json())
    except Exception as error:  # anything that another version of a library may raise
        what = str(error) if isinstance(error, PrivacyError) else f"{type(error).__name__}: {error}"
        raise PrivacyError(
            f"noise: the test of what a release needs has failed on this machine ({what}); nothing was spent. "
            "`discreet doctor` shows the versions of the libraries in question"
        ) from error
