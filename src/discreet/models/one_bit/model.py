"""OneBit: completion of a matrix of bits, with the noise on the bits themselves."""

from __future__ import annotations

import math
import warnings
from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from discreet.data.interactions import Interactions
from discreet.errors import DataError, PrivacyError
from discreet.models.base import Learned, check_parameters, no_guarantee
from discreet.models.fold_in import FoldIn, Penalty, Ridge, RidgeFoldIn
from discreet.models.one_bit.contributions import (
    FLIPPED,
    LINEAR_TERM,
    Counting,
    FlippingBits,
    Mechanism,
    NoisyBits,
    NoisyGradients,
    NoisyOutput,
    PerturbedObjective,
    TrueBits,
    bit_epsilon,
    capped,
    require_flipped,
    require_flips,
    two_valued,
)
from discreet.models.one_bit.estimate import EFFECT_PENALTY, Completed, Effects, complete, default_radius
from discreet.models.one_bit.likelihood import Counts, FlippedBits, Link, LinkName, Loss, Observed
from discreet.models.one_bit.published import PublishedObjective, PublishedOutput
from discreet.models.private import PrivateModel, require_sound
from discreet.parallel import single_threaded_blas
from discreet.privacy import Cost, DeclaredNoise, Guarantee, Ledger, Plan, Releaser
from discreet.privacy.guarantee import AdjacencyName, Unit
from discreet.privacy.statement import Statement
from discreet.recommend import serving
from discreet.recommend.histories import OnUnknown
from discreet.typing import Array
from discreet.validation import Count, Positive, Seed, probability, round_up, whole

MechanismName: TypeAlias = Literal["input", "objective", "gradient", "output"]

MECHANISMS: dict[str, type[Mechanism]] = {
    "input": FlippingBits,
    "objective": NoisyBits,
    "objective, probit": PerturbedObjective,
    "gradient": NoisyGradients,
    "output": NoisyOutput,
}
PUBLISHED: dict[str, type[Mechanism]] = {  # these two are not private
    **MECHANISMS,
    "objective, probit": PublishedObjective,
    "output": PublishedOutput,
}
_OBSERVED = "who has rated which items, and how many there are: only the values are protected"
DECLARED = DeclaredNoise("coins tossed where the bits are, as declared by perturbed=True")
STEPS = 15  # the number of ridge regressions for folding in


@dataclass(frozen=True)
class BitTargets:
    """Targets of ridge regressions that fit a user's true bits.

    The user's offset a_i and vector z_i minimize

        sum over j in row i of -log P(bit_ij | x_ij) + |z_i|^2 / 2 + EFFECT_PENALTY / 2 (a_i / unit)^2

    where x_ij = (base_j - threshold + a_i + c_j . z_i) / unit and c_j are the columns.

    Numbers are on the scale of ratings, where x becomes threshold + unit x. Each step is a ridge regression: it
    replaces the loss by a tangent parabola with the largest curvature of the loss.
    """

    link: Link
    threshold: float  # ratings of at least this are ones
    unit: float  # the rating scale's size of one unit of x

    def __call__(self, ridge: Ridge, indptr: Array, indices: Array, values: Array, n_jobs: int | None) -> Array:
        """The targets of the last regression."""
        owners = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        base = ridge.base[indices].astype(np.float64)
        targets = self._lowest(values, base)
        for _ in range(STEPS - 1):
            offsets, vectors = ridge.solve(indptr, indices, targets, n_jobs=n_jobs)
            fitted = base + offsets[owners]
            for k in range(vectors.shape[1]):  # column by column, so that no user's sum depends on the others
                fitted += vectors[owners, k] * ridge.columns[indices, k]
            targets = self._lowest(values, fitted)
        return targets

    def _lowest(self, values: Array, fitted: Array) -> Array:
        """The minima of the parabolas, on the scale of ratings."""
        sign = np.where(values >= np.float32(self.threshold), 1.0, -1.0)
        x = (fitted - self.threshold) / self.unit
        return np.asarray(fitted + self.unit * sign * self.link.log_slope(sign * x) / self.link.curvature)

    def describe(self, rank: int) -> dict[str, Any]:
        """The loss and the steps."""
        loss = {
            "name": "bits",
            "link": self.link.name,
            "sigma": float(self.link.sigma),
            "curvature": self.link.curvature,
            "threshold": float(np.float32(self.threshold)),
            "unit": float(self.unit),
        }
        return {"loss": loss, "rounds": [[rank, 1.0]] * STEPS}


@dataclass(eq=False, repr=False)
class OneBit(PrivateModel):
    """Completion of a matrix of bits (values of at least `threshold` are ones) by maximum likelihood.

    A bit is 1 with probability h(x_ij), where h is the link. X is the matrix of nuclear norm at most `tau` that makes
    the noisy bits most likely, together with effects of rows and columns if there are any. The guarantee is for single
    entries: neighbors differ in one bit. **Which entries there are is public.** The noise is in one of these places:

    - mechanism="input": each bit is flipped with probability 1 / (1 + e^epsilon), or `flip_one`, `flip_zero`; X is
      fitted to the distribution of flipped bits. `perturb` only flips, for users who do the flipping themselves.
    - mechanism="objective": the logistic loss log(1 + e^x) - B x becomes log(1 + e^x) - (B + H) x, with noise H on the
      bit B: sensitivity 1. (This is the same as a random linear term in the objective.) With the probit link the random
      term is not noise on bits: X is then the optimum with `ridge` / 2 |X|^2 in the objective, to a certified gap, and
      part of epsilon pays for the ratio of second derivatives. For small matrices.
    - mechanism="gradient": `n_steps` projected gradient steps, each along the gradient with noise. Derivatives are
      clamped to `clamp`, C: one flip moves them by min(2 C, h'(alpha) / (h(alpha) h(-alpha))). The steps share the
      budget: for the logistic link these are the bits of the objective mechanism with more noise.
    - mechanism="output": noise on all of X, which is then projected again. With `ridge` / 2 |X|^2 in its objective a
      flip moves X by a bounded length, plus the gap of the solver. There is so much noise that X is useful only for
      small and dense matrices.
    - mechanism=None: not private.

    With `counts`, a part of epsilon first pays for how many ones each item has: epsilon / (1 + epsilon) for single
    entries. Counts need little of it, and effects of items then hardly suffer from noise. There is no such release if
    the noise was added elsewhere (`perturbed`), with given flips, without biases, or as published.

    One flip changes one bit by 1. With `unit` "user", all bits of a user may change, at most `max_entries`: the
    sensitivity is then `max_entries` (L1) or its root (L2). docs/proofs/one-bit.md has the proofs.

    A model keeps item vectors, never users' vectors. A user's prediction is computed on their side, from their own
    history: a regression of their true bits on the public vectors. For the bits of the fit it gives their row of X.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> model = discreet.OneBit(mechanism="input", threshold=4, epsilon=2).fit(ratings)  # 4 stars and more are a 1
        >>> print(model.guarantee_.unit, model.guarantee_.epsilon)
        entry 2.0
        >>> model.predict_sign({3: 5.0, 14: 1.5}, [7, 8]).shape
        (2,)

    Args:
        mechanism: "input", "objective", "gradient", "output" or None.
        link: "logistic" or "probit".
        epsilon: The privacy budget; needed unless `mechanism` is None.
        delta: The delta of the budget: 0, unless noise is Gaussian. A delta also helps with unit="user" and
            mechanism="input", and with the probit objective, whose noise otherwise grows with the number of entries.
        threshold: Values of at least this are ones; public. Not needed if values are at the two ends of their range.
        alpha: The size of entries of X; public.
        tau: The largest nuclear norm of X; public. By default alpha sqrt(d1 d2 rank) for d1 users and d2 items, times
            what a noisy bit says relative to a true one (1 without noise, and as published), and half with biases.
        rank: For the default of `tau`; with solver="factored", the rank of X.
        sigma: Standard deviation of the probit link.
        biases: Whether users and items have effects next to X; by default if there are counts, or noise is on bits. The
            paper has none.
        counts: Whether the number of ones of each item is released, for the effects of items.
        box: Whether entries of X are at most alpha, as in the paper. By default only if a guarantee needs it, with
            mechanism="output" and the probit objective: it takes longer and predicts no better.
        solver: "spg", for the convex problem; "factored", for matrices too large for it: X = U V^T of the given rank
            with rows no longer than (alpha sqrt(rank))^(1/2), a bound on its max-norm, by least squares. Not convex.
        noise: "laplace" or "gaussian", for all mechanisms but "input". With "output" the former is noise N of density
            exp(-epsilon |N| / sensitivity), where |N| is the length of the whole matrix.
        n_steps: Steps of the gradient mechanism; they share the budget, so few are best.
        clamp: C, for the gradient mechanism; public.
        ridge: lambda, for the output mechanism and the probit objective; public. By default 0.5, or for the latter
            more if second derivatives would cost more than a quarter of epsilon.
        flip_one: The probability that a 1 is flipped; with `flip_zero`, instead of a symmetric one.
        flip_zero: The probability that a 0 is flipped.
        unit: "entry" or "user".
        max_entries: With unit="user", how many entries of a user count; `random_state` chooses them.
        perturbed: Whether the bits were flipped before, by `perturb` with the same epsilon: no noise is added.
        calibration: "exact", or "published": the published noise, with the epsilon that it truly gives, if any.
        random_state: Seed of the choice of entries; public.
        n_jobs: Number of threads for serving, as in scikit-learn.
    """

    mechanism: MechanismName | None = "input"
    link: LinkName = "logistic"
    _: KW_ONLY
    epsilon: Positive | None = None  # type: ignore[assignment]  # None for mechanism=None only
    delta: float = 0.0
    adjacency: ClassVar[AdjacencyName] = "flip"  # type: ignore[misc]  # of one bit, or of any bits of a user
    threshold: float | None = None
    alpha: Positive = 1.0
    tau: Positive | None = None
    rank: Count = 1
    sigma: float = 1.0
    biases: bool | None = None
    counts: bool = True
    box: bool | None = None
    solver: Literal["spg", "factored"] = "spg"
    noise: Literal["laplace", "gaussian"] = "laplace"
    n_steps: Count = 1
    clamp: Positive = 0.5
    ridge: Positive | None = None
    flip_one: float | None = None
    flip_zero: float | None = None
    unit: Unit = "entry"
    max_entries: int | None = None
    perturbed: bool = False
    calibration: Literal["exact", "published"] = "exact"
    random_state: Seed = 0
    threshold_: float = field(init=False)

    @classmethod
    def as_published(cls, *args: Any, **parameters: Any) -> OneBit:
        """The model with the noise that was published in 2021: `OneBit(..., calibration="published")`."""
        return cls(*args, **parameters, calibration="published")

    def _check_parameters(self) -> None:
        check_parameters(self)
        self._link()
        if self.threshold is not None and not (isinstance(self.threshold, Real) and math.isfinite(self.threshold)):
            raise DataError(f"threshold: a finite number is needed, not {self.threshold!r}")
        if self.solver == "factored" and self.box:
            raise DataError("box: solver='factored' bounds the max-norm and not entries; leave it out")
        if self.mechanism is None:
            if self.epsilon is not None or self.calibration == "published":
                raise PrivacyError("mechanism: without one there is no privacy; leave out epsilon and calibration")
            return
        if self.epsilon is None:
            raise PrivacyError("epsilon: a privacy budget is needed; for a model without privacy pass mechanism=None")
        probability("delta", self.delta, zero=True)
        self._check_mechanism()
        given = [flip for flip in (self.flip_one, self.flip_zero) if flip is not None]
        if given and (len(given) < 2 or self.mechanism != "input"):
            raise PrivacyError("flip_one, flip_zero: give both, for mechanism='input', or neither")
        if given:
            per_bit = bit_epsilon(self.epsilon, self.delta, self.max_entries or 1)
            require_flips(given[0], given[1], per_bit, published=self.calibration == "published")

    def _check_mechanism(self) -> None:
        if not self._on_bits:
            if self.biases and not (self.calibration == "exact" and self.counts):
                raise PrivacyError(f"biases: the {self.mechanism} mechanism has none without counts; leave it out")
            if self.solver == "factored":
                raise PrivacyError("solver: 'factored' is for noise on bits: its result is not near any optimum")
        if self.mechanism in ("objective", "output") and not self._on_bits and self.box is False:
            raise PrivacyError(
                f"box: the guarantee of the {self.mechanism} mechanism is for entries up to alpha; leave it out"
            )
        if self.mechanism == "objective" and self.link == "probit" and self.noise != "laplace":
            raise PrivacyError("noise: with the probit link the objective mechanism is proved for noise='laplace'")
        if self.mechanism != "input" and self.noise == "gaussian" and not self.delta:
            raise PrivacyError("delta: Gaussian noise needs one, a constant well below 1 / the number of entries")
        if (self.unit == "user") != (self.max_entries is not None):
            raise PrivacyError(
                "max_entries: unit='user' needs the number of a user's entries that count, and no other unit has it"
            )
        if self.max_entries is not None:
            whole("max_entries", self.max_entries, 1)
        if self.perturbed and self.mechanism != "input":
            raise PrivacyError("perturbed: only mechanism='input' takes bits that were flipped before")
        if self.calibration == "published" and (self.unit, self.noise) != ("entry", "laplace"):
            raise PrivacyError("calibration: what was published is for unit='entry' and noise='laplace'")

    def _not_resumable(self) -> str:
        if self.mechanism is None:
            return "without a mechanism nothing is spent"
        if self.mechanism == "objective" and not self._on_bits:
            return f"the {LINEAR_TERM} must stay secret, and a checkpoint would keep it"
        return "bits that were flipped elsewhere are charged once, and nothing is drawn" if self.perturbed else ""

    def _check_data(self, ratings: Interactions) -> None:
        two_valued(ratings, self.threshold)
        if not len(ratings):
            raise DataError("ratings: there are no entries to learn from")

    def _public_inputs(self) -> dict[str, str]:
        public = {"observed entries": _OBSERVED}
        if self.threshold is not None:
            public["threshold"] = f"values from {self.threshold:g} on count as 1, those below as 0"
        if self.max_entries is not None:
            public["max_entries"] = f"at most {self.max_entries} entries of a user count"
        if self.perturbed:
            public["perturbed"] = "the bits were flipped before they came here, as declared"
        return public

    # The noise

    def _link(self) -> Link:
        return Link(self.link, self.sigma)

    def _mechanism(self) -> Mechanism:
        assert self.mechanism is not None
        assert self.epsilon is not None
        published = self.calibration == "published"
        steps: dict[str, Any] = {}
        if self.mechanism == "gradient":
            steps = {"clamp": float(self.clamp), "steps": self.n_steps}
        return self._kind(PUBLISHED if published else MECHANISMS)(
            self._link(),
            self._counting.rest() if self._counting else self.epsilon,
            self.delta,
            entries=self.max_entries or 1,
            alpha=float(self.alpha),
            gaussian=self.noise == "gaussian",
            published=published,
            flips=None if self.flip_one is None or self.flip_zero is None else (self.flip_one, self.flip_zero),
            ridge=None if self.ridge is None else float(self.ridge),
            **steps,
        )

    def _kind(self, kinds: dict[str, type[Mechanism]]) -> type[Mechanism]:
        return kinds.get(f"{self.mechanism}, {self.link}") or kinds[str(self.mechanism)]

    @property
    def _on_bits(self) -> bool:
        """Whether the noise, if any, is on the bits."""
        return self.mechanism is None or self._kind(MECHANISMS).on_bits

    def _plan(self, n_items: int) -> Plan:
        del n_items  # it does not matter
        if self.mechanism is None:
            raise PrivacyError("mechanism: without one nothing is paid for, and there is no plan")
        counts = (self._counting.line(),) if self._counting else ()
        return Plan((*counts, *self._mechanism().lines()))

    @property
    def _counting(self) -> Counting | None:
        """The release that effects of items follow from, if there is one.

        There is none of bits that were flipped elsewhere, with given probabilities, or as published.
        """
        given = self.mechanism is None or self.flip_one is not None or self.perturbed
        if given or self.calibration == "published" or not (self._effects and self.counts):
            return None
        assert self.epsilon is not None
        return Counting(float(self.epsilon), self.max_entries or 1, self.delta)

    def _own_ledger(self, url: str | None = None) -> Ledger:
        if self.calibration == "exact":
            return super()._own_ledger(url)
        true = self.plan(1).cost.epsilon(self.delta)
        return Ledger(url, epsilon=true, delta=self.delta, unit=self.unit, adjacency=self.adjacency)

    # Learning

    def _learn(self, ratings: Interactions, ledger: Ledger | None, checkpoint: Path | None = None) -> Learned:
        if self.mechanism is None:
            return self._learn_in_the_clear(ratings, ledger)
        if self.perturbed:
            return self._learn_from_perturbed(ratings, ledger)
        why_not = self._mechanism().why_not
        if why_not and ledger is not None:
            raise PrivacyError(f"ledger: there is no guarantee that it could record, for {why_not}; leave it out")
        learned, statement = super()._learn(ratings, ledger, checkpoint)
        if why_not:
            title, public = "OneBit as published: no privacy guarantee", statement.certificate["public_inputs"]
            guarantee = Guarantee(Cost(), 0.0, self.unit, self.adjacency, holds=False, why_not=why_not)
            statement = Statement.of(title, guarantee, [], public_inputs=public)
            warnings.warn(f"OneBit: there is no guarantee: {why_not}", stacklevel=3)
        else:
            self._warn_if_worse(statement.guarantee.epsilon, stacklevel=4)
        return learned, statement

    def _warn_if_worse(self, true: float, stacklevel: int) -> None:
        """Warn if what is published as epsilon is really more."""
        assert self.epsilon is not None
        if self.calibration == "published" and true > self.epsilon * (1 + 1e-9):
            warnings.warn(
                f"OneBit: {self._mechanism().error}. What is published as epsilon = {self.epsilon:g} is really "
                f"epsilon = {round_up(true)}",
                stacklevel=stacklevel,
            )

    def _true_bits(self, ratings: Interactions) -> TrueBits:
        return TrueBits.of(ratings, two_valued(ratings, self.threshold))

    def _learn_privately(self, releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
        mechanism = self._mechanism()
        releaser = replace(releaser, unproved=bool(mechanism.why_not))
        if self.max_entries is not None:
            ratings = capped(ratings, self.max_entries, self.random_state)
        true = self._true_bits(ratings)
        observed, radius = true.observed, 0.0
        if not mechanism.on_bits:
            radius = self._radius(observed, mechanism.clarity())
            mechanism.check(len(observed), radius)
        counts = self._counting.release(releaser, true, self._link()) if self._counting else None
        if mechanism.on_bits:
            return self._from_noisy(observed, mechanism.noisy_bits(releaser, true), ratings, counts)
        effects = None if counts is None else Effects.by_counts(observed, counts)
        base = 0.0 if effects is None else effects.at(observed.rows, observed.columns)
        with single_threaded_blas():
            completed = mechanism.noisy_matrix(releaser, true, radius, self._entry_bound, base)
        if effects is not None:
            completed = replace(completed, effects=effects)
        return self._learned(completed, observed, ratings)

    def _learn_in_the_clear(self, ratings: Interactions, ledger: Ledger | None) -> Learned:
        if ledger is not None:
            raise PrivacyError("ledger: with mechanism=None nothing is private and nothing recorded; leave it out")
        if ratings.value_range is None and len(ratings):
            ratings = replace(ratings, value_range=(float(ratings.values.min()), float(ratings.values.max())))
        self._check_data(ratings)
        true = self._true_bits(ratings)
        learned = self._from_noisy(true.observed, FlippedBits(true.bits, self._link()), ratings)
        return learned, no_guarantee(self, ratings)

    def _learn_from_perturbed(self, ratings: Interactions, ledger: Ledger | None) -> Learned:
        """Noise was added elsewhere: the ledger records its cost."""
        require_sound(ratings)
        self._check_chosen(ratings)
        self._check_data(ratings)
        require_flipped(ratings, self.max_entries)
        given, ledger = ledger, self._own_ledger() if ledger is None else ledger
        ledger.expect(unit=self.unit, adjacency=self.adjacency)
        plan, mechanism = self.plan(ratings.n_items), self._mechanism()
        assert isinstance(mechanism, FlippingBits)
        # Nobody can tell here who flipped the bits. A ledger for tests does not make a test's flips private, either.
        source = DECLARED if ledger.noise_source.secure is True else ledger.noise_source
        noise = mechanism.response()
        event = ledger.charge(plan.cost, FLIPPED, source=source, noise=noise, sensitivity=mechanism.entries)
        flipped = self._true_bits(ratings)
        learned = self._from_noisy(flipped.observed, mechanism.likelihood(flipped.bits), ratings)
        public = {**ratings.public_inputs, **self._public_inputs()}
        title = "OneBit: a recommender learned from bits that users flipped"
        guarantee = ledger.guarantee(plan.cost, [event], delta=self.delta)
        self._warn_if_worse(guarantee.epsilon, stacklevel=5)
        totals = None if given is None else ledger.totals()
        return learned, Statement.of(title, guarantee, [event], public_inputs=public, ledger=totals)

    def _from_noisy(
        self, observed: Observed, loss: Loss, ratings: Interactions, counts: Counts | None = None
    ) -> dict[str, Any]:
        """All learned attributes. Uses only the public parts of `ratings`: which entries there are, and the range."""
        completed = complete(
            observed,
            loss,
            self._radius(observed, loss.clarity),
            effects=self._effects,
            counts=counts,
            alpha=self._entry_bound,
            rank=self.rank if self.solver == "factored" else None,
            n_jobs=self.n_jobs,
        )
        return self._learned(completed, observed, ratings)

    @property
    def _effects(self) -> bool:
        if self.biases is None:
            return self._on_bits or (self.calibration == "exact" and self.counts)
        return self.biases

    @property
    def _entry_bound(self) -> float | None:
        """alpha, if no entry of X may be larger."""
        return float(self.alpha) if self.box else None

    def _radius(self, observed: Observed, clarity: float) -> float:
        """The largest nuclear norm of X."""
        if self.tau is not None:
            return float(self.tau)
        clarity = 1.0 if self.calibration == "published" else clarity
        return default_radius(observed.shape, self.alpha, self.rank, clarity=clarity, effects=self._effects)

    def _learned(self, completed: Completed, observed: Observed, ratings: Interactions) -> dict[str, Any]:
        assert ratings.value_range is not None
        threshold = two_valued(ratings, self.threshold)
        unit = self._unit(ratings.value_range)
        return {
            "item_factors_": np.ascontiguousarray(unit * completed.item_vectors(), np.float32),
            "item_bias_": (unit * completed.effects.columns).astype(np.float32),
            "popularity_": np.bincount(observed.columns, minlength=observed.shape[1]).astype(np.float32),
            "value_range_": ratings.value_range,
            "implicit_": False,
            "global_mean_": float(threshold + unit * completed.effects.level),
            "threshold_": float(threshold),
        }

    # Serving

    def _unit(self, value_range: tuple[float, float]) -> float:
        """The size of one unit of x in ratings: scores are the tangent of low + (high - low) h(x) at the threshold."""
        return (value_range[1] - value_range[0]) * self._link().slope

    def _make_fold_in(self) -> FoldIn:
        link, unit = self._link(), self._unit(self.value_range_)
        return RidgeFoldIn(
            columns=self.item_factors_,
            base=self._base,
            penalty=Penalty(unit**2 / link.curvature),
            offset_penalty=EFFECT_PENALTY / link.curvature if self._effects else None,
            targets=BitTargets(link, self.threshold_, unit),
        )

    def _x(self, history: Any, targets: Any, on_unknown: OnUnknown) -> Array:
        scores = serving.predict(self, history, targets, on_unknown, clip=False).astype(np.float64)
        # Scores are in single precision: without any history, they are the threshold in single precision.
        return np.asarray((scores - float(np.float32(self.threshold_))) / self._unit(self.value_range_))

    def predict_proba(self, history: Any, targets: Any, *, on_unknown: OnUnknown = "raise") -> Array:
        """The probability that each target gets a value of at least the threshold. Arguments as for `predict`."""
        return self._link().probability(self._x(history, targets, on_unknown))

    def predict_sign(self, history: Any, targets: Any, *, on_unknown: OnUnknown = "raise") -> Array:
        """+1 for targets that are more likely than not to get a value of at least the threshold, -1 for others."""
        return np.where(self._x(history, targets, on_unknown) >= 0, 1, -1)

    def _check_learned(self) -> None:
        super()._check_learned()
        low, high = self.value_range_
        if not low < self.threshold_ <= high:
            raise DataError("threshold_: it is not within the range of values")


def perturb(ratings: Interactions, *, ledger: Ledger | None = None, **parameters: Any) -> Interactions:
    """The input mechanism alone: bits, 0 or 1, each flipped by a coin, for `OneBit(perturbed=True, ...).fit`.

    It can run where the ratings are, for one user or for all, so that nobody else ever sees a true bit.

    Args:
        ratings: One user's, or many users' ratings.
        ledger: Where the cost is recorded; by default a ledger of its own.
        parameters: Parameters of `OneBit`: epsilon, threshold, delta, flip_one, flip_zero, unit, max_entries.
    """
    model = OneBit("input", perturbed=True, **parameters)
    model._check_parameters()
    require_sound(ratings)
    model._check_chosen(ratings)
    model._check_data(ratings)
    if model.max_entries is not None:
        ratings = capped(ratings, model.max_entries, model.random_state)
    ledger = model._own_ledger() if ledger is None else ledger
    ledger.expect(unit=model.unit, adjacency=model.adjacency)
    plan, true = model.plan(ratings.n_items), model._true_bits(ratings)
    with ledger.reserve(plan) as reservation:
        releaser = Releaser(reservation, model.adjacency, model.n_jobs)
        noisy = model._mechanism().noisy_bits(releaser, true)
    model._warn_if_worse(plan.cost.epsilon(model.delta), stacklevel=3)
    assert isinstance(noisy, FlippedBits)
    return replace(ratings, values=noisy.bits.astype(np.float32), value_range=(0.0, 1.0), times=None)
