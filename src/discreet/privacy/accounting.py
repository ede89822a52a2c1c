"""What releases cost together: exact for Gaussian noise, dp_accounting's accountants for everything else.

The event (what happened) is data, apart from the accountant (what it costs). A `Cost` is the sum of the events of any
number of releases. Its Gaussian part is one number, the sum of mu^2 = (sensitivity / std)^2, kept as an integer so that
adding is exact and does not depend on order. Each event maps to a dp_accounting event (`Cost.dp_event`), so that an
outsider can check the result with tools that are not ours. Everything errs on the safe side: an epsilon or delta that
is reported is never below the true one.
"""

import math
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from discreet.errors import PrivacyError
from discreet.validation import decimal, positive, probability

UNIT = 1 << 100  # mu^2 is counted in units of 2^-100, rounded up
MAX_EPSILON = 200.0  # of a budget: beyond it there is nothing left to protect
MAX_MU = 1 << 20  # of one release

_SAFETY = 1e-9  # relative, and
_SAFETY_EPSILON = 4e-12  # absolute: dp_accounting's root is good to 1e-12; tests compare with 60 digits


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The smallest delta of mu-Gaussian DP at epsilon (Balle and Wang 2018), rounded up."""
    from scipy.special import log_ndtr

    if mu == 0:
        return 0.0
    upper, lower = float(log_ndtr(mu / 2 - epsilon / mu)), epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    delta = -math.exp(upper) * math.expm1(min(lower - upper, 0.0))
    # The difference of two nearly equal numbers: their rounding errors may be all there is.
    error = (abs(upper) + abs(lower) + epsilon + 1) * 1e-15 * math.exp(upper)
    return min(delta * (1 + _SAFETY) + 16 * error + sys.float_info.min, 1.0)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon of mu-Gaussian DP at delta, rounded up."""
    import dp_accounting

    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    with np.errstate(all="ignore"):  # its bracketing meets logarithms of zero
        epsilon = float(dp_accounting.get_epsilon_gaussian(1 / mu, delta, tol=1e-15))
    return epsilon * (1 + _SAFETY) + _SAFETY_EPSILON


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu, within 1e-9 or so, whose reported epsilon at delta is at most `epsilon`."""
    import dp_accounting

    # A hair below, so that the last digits of the root-finder never decide whether a budget was kept.
    aim = max(epsilon * (1 - _SAFETY) - 2 * _SAFETY_EPSILON, 0.0) / (1 + _SAFETY)
    with np.errstate(all="ignore"):
        mu, step = 1 / float(dp_accounting.get_sigma_gaussian(aim, delta)), 1e-14
    while gaussian_epsilon(mu, delta) > epsilon:
        mu, step = mu * (1 - step), step * 2
    return mu


@dataclass(frozen=True)
class PureEvent:
    """Any release that is epsilon-DP without a delta: Laplace and geometric noise, randomised response.

    Its privacy loss is dominated by that of one randomised-response bit, which is also the loss of the discrete
    Laplace mechanism at sensitivity 1: that is the dp_accounting event. A Renyi accountant counts epsilon^2 / 2 zCDP.
    """

    kind: ClassVar[str] = "pure"
    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))

    @property
    def mu(self) -> float:
        """The Gaussian-DP parameter that epsilon-DP implies: 2 z at the probability e^epsilon / (1 + e^epsilon)."""
        from scipy.special import expit, ndtri

        return -2 * float(ndtri(expit(-min(self.epsilon, 700.0)))) * (1 + _SAFETY) + 1e-14


@dataclass(frozen=True)
class SampledGaussian:
    """A mu-Gaussian release over a Poisson sample of the users (add-remove adjacency only)."""

    kind: ClassVar[str] = "sampled-gaussian"
    mu: float
    probability: float

    def __post_init__(self) -> None:
        positive("mu", self.mu)
        probability("probability", self.probability)


@dataclass(frozen=True)
class Selection:
    """The best of a random number of runs, each of cost `run` (Papernot and Steinke 2022).

    The number of runs is truncated negative binomial with the given mean: shape 1 is geometric, 0 logarithmic,
    infinity Poisson. Only the Renyi accountant knows this event.
    """

    kind: ClassVar[str] = "selection"
    run: "Cost"
    mean: float
    shape: float

    def __post_init__(self) -> None:
        if positive("mean", self.mean) < 1:
            raise PrivacyError("mean must be at least 1: a search runs at least once")
        if math.isnan(self.shape) or self.shape < 0:
            raise PrivacyError(f"shape must be >= 0 (infinity for Poisson), not {self.shape:g}")


Event = PureEvent | SampledGaussian | Selection
_EVENTS: dict[str, Any] = {cls.kind: cls for cls in (PureEvent, SampledGaussian, Selection)}


@dataclass(frozen=True)
class Cost:
    """The privacy cost of a set of releases. Costs add up: `a + b`, `cost * count`.

    Attributes:
        gaussian: the sum of mu^2 over the Gaussian releases, in units of 2^-100, each rounded up.
        releases: how many Gaussian releases there were.
        events: all other events, with how often each occurred.
    """

    gaussian: int = 0
    releases: int = 0
    events: tuple[tuple[Event, int], ...] = ()

    @classmethod
    def of_gaussian(cls, sensitivity: float, std: float) -> "Cost":
        """Gaussian noise of the given standard deviation on a statistic of the given L2 sensitivity."""
        ratio = Fraction(sensitivity) / Fraction(std)
        if ratio > MAX_MU:
            raise PrivacyError(f"noise: a std of {std:g} at a sensitivity of {sensitivity:g} is as good as none")
        return cls(math.ceil(ratio**2 * UNIT), 1)

    @classmethod
    def of_mu(cls, mu: float) -> "Cost":
        """One release that is mu-Gaussian DP."""
        return cls.of_gaussian(positive("mu", mu), 1.0)

    @classmethod
    def of(cls, event: Event, count: int = 1) -> "Cost":
        """A release that is not Gaussian, `count` times."""
        return cls(events=((event, count),))

    def __post_init__(self) -> None:
        counts: Counter[Event] = Counter()
        for event, count in self.events:
            if not isinstance(event, Event):
                raise PrivacyError(f"cost: the cost of an event of unknown kind, {event!r}, cannot be known")
            counts[event] += count
        if not all(type(n) is int for n in (self.gaussian, self.releases, *counts.values())):
            raise PrivacyError("cost: amounts and counts must be whole numbers")
        events = sorted(((event, count) for event, count in counts.items() if count), key=repr)
        object.__setattr__(self, "events", tuple(events))

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.gaussian + other.gaussian, self.releases + other.releases, self.events + other.events)

    def __mul__(self, count: int) -> "Cost":
        return Cost(self.gaussian * count, self.releases * count, tuple((e, n * count) for e, n in self.events))

    def __sub__(self, other: "Cost") -> "Cost":
        return self + other * -1

    def __bool__(self) -> bool:
        return bool(self.gaussian or self.events)

    def within(self, other: "Cost") -> bool:
        """Whether the other cost covers this one, part by part."""
        rest = other - self
        return rest.gaussian >= 0 and all(count > 0 for _, count in rest.events)

    def pays_for(self, each: "Cost", count: int) -> bool:
        """Whether it covers so many releases of this cost each; over samples of the users, if it is a cost of those."""
        sampled = [(event.mu, n) for event, n in self.events if isinstance(event, SampledGaussian)]
        if not sampled:
            return (each * count).within(self)
        least = min(Cost.of_mu(mu).gaussian for mu, _ in sampled)
        return not each.events and each.gaussian <= least and count <= sum(n for _, n in sampled)

    @property
    def mu(self) -> float | None:
        """The Gaussian-DP parameter of the whole, rounded up; None if some releases are not Gaussian."""
        return None if self.events else self._gaussian_mu

    @property
    def _gaussian_mu(self) -> float:
        mu = math.sqrt(self.gaussian / UNIT)
        while Fraction(mu) ** 2 * UNIT < self.gaussian:
            mu = math.nextafter(mu, math.inf)
        return mu

    @property
    def _pld_error(self) -> float:
        """Of delta: several times what the Fourier transforms of the PLD accountant were seen to lose."""
        return 1e-12 + 2.0**-52 * sum(count for _, count in self.events)

    @property
    def pure(self) -> float:
        """Epsilon at delta 0: the sum over pure events; infinite with any other."""
        if self.gaussian or not all(isinstance(event, PureEvent) for event, _ in self.events):
            return math.inf
        total = sum(decimal(event.epsilon) * n for event, n in self.events if isinstance(event, PureEvent))
        return float(total) if decimal(float(total)) >= total else math.nextafter(float(total), math.inf)

    @property
    def filter(self) -> int | None:
        """The Gaussian-DP cost of the whole, in the unit of `gaussian`; None if some events have none.

        Unlike (epsilon, delta) totals this may be compared with a budget even if the noise of later releases was chosen
        in the light of earlier results: docs/proofs/composition.md.
        """
        if not all(isinstance(event, PureEvent) for event, _ in self.events):
            return None
        return self.gaussian + sum(Cost.of_mu(e.mu).gaussian * n for e, n in self.events if isinstance(e, PureEvent))

    def renyi(self, order: float) -> float:
        """The Renyi divergence at an order; at an order fixed in advance it may be filtered on like `filter`."""
        pure = [(event.epsilon, n) for event, n in self.events if isinstance(event, PureEvent)]
        rest = Cost(self.gaussian, self.releases, tuple((e, n) for e, n in self.events if not isinstance(e, PureEvent)))
        total = 0.0
        if rest:
            accountant = _accountant(rest, renyi=True)
            total = float(accountant.rdp[list(accountant.orders).index(order)])
        for epsilon, count in pure:  # of one randomised-response bit, which dominates every epsilon-DP release
            log_sum = epsilon * order + math.log1p(math.exp(epsilon * (1 - 2 * order)))
            exact = (log_sum - epsilon - math.log1p(math.exp(-epsilon))) / (order - 1)
            total += count * (exact if epsilon * order > 0.01 else order * epsilon**2 / 2)  # else digits would cancel
        return total * (1 + _SAFETY)

    def parts(self) -> Iterator["Cost"]:
        """This cost, and those of the runs that its selections select from."""
        yield self
        for event, _ in self.events:
            if isinstance(event, Selection):
                yield from event.run.parts()

    @property
    def samples(self) -> bool:
        """Whether it relies on Poisson sampling of users, which is accounted for add-remove adjacency only."""
        return any(isinstance(event, SampledGaussian) for part in self.parts() for event, _ in part.events)

    @property
    def sound(self) -> bool:
        """Whether it is the cost of something: no part of it is negative."""
        return all(min(p.gaussian, p.releases, *(n for _, n in p.events), 0) == 0 for p in self.parts())

    def epsilon(self, delta: float) -> float:
        """The epsilon that holds at `delta`, rounded up; infinite if there is none."""
        probability("delta", delta, zero=True)
        if not self or delta == 0:
            return self.pure
        if not self.events:
            return gaussian_epsilon(self._gaussian_mu, delta)
        exact = delta > 2 * self._pld_error  # else the Renyi accountant, which is looser but has no such error
        accountant = _accountant(self, renyi=not exact)
        epsilon = float(accountant.get_epsilon(delta - self._pld_error if exact else delta)) * (1 + _SAFETY)
        return min(epsilon, self.pure)

    def delta(self, epsilon: float) -> float:
        """The delta that holds at `epsilon`, rounded up."""
        positive("epsilon", epsilon, zero=True)
        if epsilon >= self.pure:
            return 0.0
        if not self.events:
            return gaussian_delta(self._gaussian_mu, epsilon)
        return min(float(_accountant(self, renyi=False).get_delta(epsilon)) * (1 + _SAFETY) + self._pld_error, 1.0)

    def dp_event(self, renyi: bool = False) -> Any:
        """The same releases as one dp_accounting event."""
        from dp_accounting import dp_event as dp

        def one(event: Event) -> Any:  # each of the three kinds that a cost admits
            if isinstance(event, PureEvent):
                return dp.ZCDpEvent(event.epsilon**2 / 2) if renyi else dp.DiscreteLaplaceDpEvent(event.epsilon, 1)
            if isinstance(event, SampledGaussian):
                return dp.PoissonSampledDpEvent(event.probability, dp.GaussianDpEvent(1 / event.mu))
            return dp.RepeatAndSelectDpEvent(event.run.dp_event(renyi=True), event.mean, event.shape)

        parts = [dp.GaussianDpEvent(1 / self._gaussian_mu)] if self.gaussian else []
        return dp.ComposedDpEvent(parts + [dp.SelfComposedDpEvent(one(event), count) for event, count in self.events])

    def to_json(self) -> dict[str, Any]:
        """Plain values; mu^2 as a string, since JSON numbers are not exact."""
        events = []
        for event, count in self.events:
            run = {"run": event.run.to_json(), "shape": str(event.shape)} if isinstance(event, Selection) else {}
            events.append({"kind": event.kind, **asdict(event), **run, "count": count})
        return {"gaussian": str(self.gaussian), "releases": self.releases, "events": events}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Cost":
        """The inverse of `to_json`."""
        total = cls(int(data["gaussian"]), int(data["releases"]))
        for event in data["events"]:
            fields = {key: value for key, value in event.items() if key not in ("kind", "count")}
            if event["kind"] not in _EVENTS:
                raise PrivacyError(f"event of unknown kind {event['kind']!r}: its cost cannot be known")
            if "run" in fields:
                fields.update(run=cls.from_json(fields["run"]), shape=float(fields["shape"]))
            total += cls.of(_EVENTS[event["kind"]](**fields), int(event["count"]))
        return total


@lru_cache(maxsize=64)
def largest_gaussian(epsilon: float, delta: float) -> int:
    """The largest `Cost.gaussian` whose reported epsilon at delta is at most `epsilon`."""
    if epsilon > MAX_EPSILON:
        raise PrivacyError(f"epsilon: a budget of {epsilon:g} protects nothing; the most is {MAX_EPSILON:g}")
    largest = math.floor(Fraction(gaussian_mu(epsilon, delta)) ** 2 * UNIT)
    step = 1 + (largest >> 52)
    while largest and Cost(largest).epsilon(delta) > epsilon:
        largest, step = max(largest - step, 0), step * 2
    return largest


@lru_cache(maxsize=64)
def renyi_budget(epsilon: float, delta: float) -> tuple[float, float]:
    """The order at which a Renyi filter lets most Gaussian noise through, and the divergence that it admits there."""
    from dp_accounting.rdp.rdp_privacy_accountant import DEFAULT_RDP_ORDERS

    def bound(order: float) -> float:  # Canonne, Kamath and Steinke (2020), Proposition 12
        return epsilon - math.log1p(-1 / order) + math.log(delta * order) / (order - 1)

    order = max(DEFAULT_RDP_ORDERS, key=lambda order: bound(order) / order)
    if bound(order) <= 0:
        raise PrivacyError(f"filter: 'renyi' admits nothing at epsilon = {epsilon:g} and delta = {delta:g}")
    return order, bound(order)


@lru_cache(maxsize=64)
def _accountant(cost: Cost, renyi: bool) -> Any:
    """An accountant that has composed the cost: PLD, or Renyi if asked for or where there is a private selection.

    The relation is add-remove in name only: sensitivities are declared for the adjacency in force, so that each event
    is a plain shift by one sensitivity.
    """
    import dp_accounting as dp

    if renyi or any(isinstance(event, Selection) for event, _ in cost.events):
        return dp.rdp.RdpAccountant().compose(cost.dp_event(renyi=True))
    # A grid of losses that is fine against the whole: small budgets need a finer one.
    size = cost._gaussian_mu + sum(getattr(event, "epsilon", 1.0) * count for event, count in cost.events)
    interval = 1e-4 * min(max(size, 1e-3), 1.0)
    return dp.pld.PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE, interval).compose(cost.dp_event())
