"""The zoo: the library itself, broken in every way that is known to have happened, and the check that notices.

Each mutant is a small change to the real code. An audit that misses one is blind to that error; an audit that calls a
correct model broken raises a false alarm. `discreet.audit.run(zoo=True)` tries all of them.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any
from unittest.mock import patch

import numpy as np

from discreet.audit.neighbors import ordinary
from discreet.audit.replaying import FIT
from discreet.audit.report import Finding, failed
from discreet.audit.subjects import DIVIDED, Data, Pairs, Subject
from discreet.data import assembly
from discreet.data.readers import read
from discreet.engine import batches
from discreet.errors import DataError
from discreet.evaluate import evaluate
from discreet.evaluate import private as evaluation
from discreet.models import eigen, private
from discreet.models.als import published_contributions, published_training
from discreet.models.als.published import PublishedDPALS
from discreet.models.base import Model
from discreet.models.centering import Centering
from discreet.models.choices import SECOND_MOMENT
from discreet.models.frank_wolfe.estimate import COVARIANCE
from discreet.models.gradient.model import DPGradientDescent
from discreet.models.one_bit.published import PublishedObjective, PublishedOutput
from discreet.models.spectral import pca
from discreet.models.spectral.model import DPSVD
from discreet.privacy import (
    Gaussian,
    Ledger,
    ProductSum,
    RandomizedResponse,
    Releaser,
    Reservation,
    SystemNoise,
    VectorSum,
    noise,
    releaser,
    statistics,
    truncate,
)
from discreet.privacy.entries import TwoValued
from discreet.privacy.guarantee import sensitivity_factor
from discreet.privacy.noise import InsecureSeededNoise
from discreet.privacy.set_union import Threshold
from discreet.privacy.statistics import NormalEquations
from discreet.tune import private as tuning

Patch = AbstractContextManager[Any]

# The subjects that mutants are tried on
SVD, OF_RATINGS, CLEANSED = "DPSVD, add-remove", "DPSVD of ratings, add-remove", "DPCleansedSVD, add-remove"
REPLACED, CLEANSED_REPLACED = "DPSVD of ratings, replace", "DPCleansedSVD, replace"
ALS, ALGORITHM_1 = "PublishedDPALS, add-remove", "PublishedDPALS, Algorithm 1, add-remove"
GRADIENT, SGD, COMPONENTS = "DPGradientDescent, add-remove", "DPSGD, add-remove", "DPPCA, add-remove"
CHOICE, MEANS = "private choice of items, add-remove", "DPMeanRating, add-remove"
OBJECTIVE, EVALUATION = "OneBit, objective, flip", "private evaluation, add-remove"

log = logging.getLogger("discreet.audit.zoo")


@dataclass(frozen=True)
class Mutant:
    """A small change to the real code that breaks a guarantee."""

    name: str
    error: str  # what is wrong, and why it matters
    source: str  # where it was published, or has happened
    subject: str  # the name of the shipped subject that it is tried on
    patch: Callable[[], Patch]  # makes the change within a `with` block
    pairs: Pairs | None = None  # people to try instead of the subject's own
    params: dict[str, Any] | None = None  # other parameters of the subject's model
    data: Data | None = None  # instead of the subject's own

    def on(self, subject: Subject) -> Subject:
        """The subject that this mutant is tried on."""
        make, pairs, data = partial(subject.make, **self.params or {}), self.pairs or subject.pairs, self.data
        # People who were designed for something else need not reach every bound.
        designed = subject.designed and not (self.pairs or self.params or self.data)
        return replace(subject, name=self.name, make=make, pairs=pairs, data=data or subject.data, designed=designed)


@dataclass(frozen=True)
class Caught:
    """The findings of an audit of a mutant."""

    mutant: Mutant
    findings: list[Finding]

    @property
    def by(self) -> list[str]:
        """The checks that caught it; empty if it was missed. A fit that fails for everyone shows nothing."""
        return sorted({finding.check for finding in failed(self.findings)} - {FIT})

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        mutant = self.mutant
        why = next((finding.words for finding in failed(self.findings) if finding.check in self.by), "")
        return {
            "name": mutant.name, "error": mutant.error, "source": mutant.source, "model": mutant.subject,
            "caught": bool(self.by), "by": self.by, "why": why,
        }  # fmt: skip


MUTANTS: list[Mutant] = []


def mutant(
    source: str, subject: str, owner: Any = None, attribute: str = "", **given: Any
) -> Callable[[Callable[..., Any]], Mutant]:
    """Make a mutant of a function that patches the library, or that replaces an attribute of `owner`.

    A replacement is called with the real attribute, and then its arguments. The mutant is named after the function,
    whose docstring says what is wrong.
    """

    def add(function: Callable[..., Any]) -> Mutant:
        def wrapped() -> Patch:
            real = getattr(owner, attribute)
            return patch.object(owner, attribute, lambda *args, **kwargs: function(real, *args, **kwargs))

        name, error = function.__name__.replace("_", " "), " ".join((function.__doc__ or "").split())
        MUTANTS.append(Mutant(name, error, source, subject, function if owner is None else wrapped, **given))
        return MUTANTS[-1]

    return add


def together(*patches: Patch) -> ExitStack:
    """Several changes at once."""
    stack = ExitStack()
    for one in patches:
        stack.enter_context(one)
    return stack


# Noise with the wrong distribution or scale, missing in places, or drawn twice


def _exact(statistic: Any) -> Any:
    return statistic.values * statistic.grid.step


@mutant("Mironov 2012", SVD, Gaussian, "add")
def float_noise(real: Any, self: Gaussian, statistic: Any, source: Any) -> Any:
    """The low bits of a noisy float64 tell neighbors apart."""
    rng = np.random.default_rng(np.frombuffer(source.fresh_key(), np.uint64))
    noise = rng.standard_normal(statistic.values.shape) * self.std
    if self.symmetric:
        noise = (noise + noise.swapaxes(-1, -2)) / 2
    return _exact(statistic) + noise


def _scaled(sampler: str, factor: float) -> Patch:
    """The noise of a sampler has another scale."""
    real = getattr(noise, sampler)
    return patch.object(noise, sampler, lambda scale, *given: real(scale * factor, *given))


MUTANTS += [
    Mutant("noise 5% too small", "The standard deviation is 0.95 of what was charged for.",
           "DP libraries, after a dependency changed its scale", SVD, partial(_scaled, "gaussian", 0.95)),
    Mutant("noise / sqrt 2", "The standard deviation off the diagonal of a symmetric matrix is used everywhere.",
           "a common slip with (N + N^T) / 2", OF_RATINGS, partial(_scaled, "gaussian", math.sqrt(0.5))),
    Mutant("Laplace noise of half the scale", "The printed objective has H with a factor 1/2.",
           "one-bit completion 2021, Eq. (5)", OBJECTIVE, partial(_scaled, "two_sided_geometric", 0.5)),
    Mutant("one key for all releases", "The difference of two releases has no noise.", "nonce reuse", CLEANSED,
           lambda: patch.object(InsecureSeededNoise, "fresh_key", lambda self: bytes(32))),
]  # fmt: skip


@mutant("field list of broken mechanisms", SVD, Gaussian, "add")
def half_the_triangle(real: Any, self: Gaussian, statistic: Any, source: Any) -> Any:
    """Only the upper triangle of a symmetric matrix gets noise, and both are released."""
    noisy = real(self, statistic, source)
    return np.triu(noisy) + np.tril(_exact(statistic), -1) if self.symmetric else noisy


@mutant("workers of data loaders, NumPy's global generator", SVD)
def noise_reused_after_a_fork() -> Patch:
    """A source with a state gives forked workers the same noise."""
    state = InsecureSeededNoise(0)
    return patch.object(SystemNoise, "fresh_key", lambda self: state.fresh_key())


@mutant(
    "one-bit completion 2021, input perturbation",
    "OneBit, input, flip",
    params={"flip_one": 0.02, "flip_zero": 0.4, "calibration": "published"},
)
def two_of_four_ratios() -> Patch:
    """Flips of 2% and 40% pass the printed conditions at epsilon 1; it is 3.4."""

    def epsilon(self: RandomizedResponse) -> float:
        one, zero = (float(flip) for flip in self._flips(30))
        return max(math.log((1 - one) / zero), math.log(one / (1 - zero)))

    return patch.object(RandomizedResponse, "bit_epsilon", property(epsilon))


# Contributions that are not bounded, not as declared, or by the wrong rule


def _clipping(change: Callable[[Any, float], Any]) -> Patch:
    """Replace all clipping by `change`: the bound that rows are cut to afterwards has no effect."""

    def changed(entries: Any, *, bound: float, indptr: Any, **given: Any) -> Any:
        rows = np.asarray(entries, np.float64).reshape(len(indptr) - 1, -1)  # here all are equally long
        return truncate(change(rows, bound).ravel(), bound=1e3 * bound, indptr=indptr, **given)

    return patch.object(statistics, "truncate", changed)


def _lengths(rows: Any) -> Any:
    return np.sqrt((rows**2).sum(axis=-1, keepdims=True))


def _clip_of_the_sum(rows: Any, bound: float) -> Any:
    allowed = bound * len(rows) ** 0.5
    return rows * (allowed / max(float(np.linalg.norm(rows)), allowed))


MUTANTS += [
    Mutant(name, error, source, COMPONENTS, partial(_clipping, change))
    for name, error, source, change in (
        ("no clip", "A contribution has any length.", "the first thing to forget", lambda rows, bound: rows),
        ("clip after the sum",
         "All contributions are scaled by the same factor, so that one person moves everyone's.",
         "gradient clipping in batches, not per person", _clip_of_the_sum),
        ("clip of entries", "Each number is cut to the bound that the whole row is charged for.",
         "clip by value instead of by norm", lambda rows, bound: np.clip(rows, -bound, bound)),
        ("max instead of min", "The rule u max(1, c / |u|) lengthens short rows and leaves long ones as they are.",
         "DPALS 2021, definition of clip",
         lambda rows, bound: rows * np.maximum(1, bound / np.maximum(_lengths(rows), 1e-9))),
    )
]  # fmt: skip


@mutant("min(1, c / nan) is 1", COMPONENTS)
def nan_past_a_clip() -> Patch:
    """The length of a row with a NaN is NaN, and comparisons with that are false."""

    def change(rows: Any, bound: float) -> Any:
        lengths = _lengths(rows)
        shortened = rows * (bound / np.maximum(lengths, bound))
        return np.nan_to_num(np.where(np.isnan(lengths), rows, shortened), posinf=0.0, neginf=0.0)

    return together(_clipping(change), patch.object(pca, "_finite", lambda values: values))


@mutant("papers that define one and prove the other", "DPSVD, replace", Releaser, "_calibrated")
def replacement_charged_as_removal(real: Any, self: Releaser, *given: Any) -> Any:
    """Two people's contributions differ by up to twice the length of one."""
    return real(replace(self, adjacency="add-remove"), *given)


@mutant("the lemma, used where it does not hold", CLEANSED_REPLACED, VectorSum, "sensitivity")
def signed_sums_charged_as_nonnegative(real: Any, self: VectorSum, adjacency: Any) -> float:
    """The factor sqrt 2 is enough for positive semidefinite matrices, not for signed sums."""
    return self.norm * sensitivity_factor(adjacency, nonnegative=True)


@mutant("DPALS 2021 needs it", ALGORITHM_1, pairs=[(dict.fromkeys(range(240), 1.0), None)])
def no_cap_on_items() -> Patch:
    """A person with more than k items moves more than k items."""

    def everything(part: Any, *_: Any) -> Any:
        return np.ones(len(part.indices), bool)

    return together(
        patch.multiple(published_contributions, uniform=everything, lowest=everything),
        patch.object(NormalEquations, "_weights", lambda *given: None),
    )


@mutant("a reference implementation of a private recommender", ALS)
def ratings_out_of_range() -> Patch:
    """The bound on a rating, half of the largest one, is charged for but not enforced."""
    real, centered = published_training.entry_bound, published_contributions._centered

    def targets(self: NormalEquations, values: Any) -> Any:
        return np.trunc(values / self.target_bound * self.target_units)

    return together(
        patch.object(published_training, "entry_bound", lambda *given: real(*given) / 2),
        patch.object(published_contributions, "_centered", lambda table, mean, bound: centered(table, mean, math.inf)),
        patch.object(NormalEquations, "_targets", targets),
    )


def _read_again(person: Any) -> Any:
    """Data that is read while the mutant is active."""
    return ordinary(50, *([] if person is None else [("x", person)]))


@mutant("duplicates in a join", MEANS, pairs=[(((7, 5.0),) * 60, None)], data=_read_again)
def a_rating_sent_twice() -> Patch:
    """Repeated rows pass a bound on the user's row and add up in the sum."""
    return together(
        patch.object(assembly, "_merge_repeated", lambda *given: None),
        patch.object(private, "require_sound", lambda *given: None),
        patch.object(statistics, "countable", lambda batch, size: (np.asarray(batch.indices, np.uint32), None)),
    )


@mutant(
    "sampling by position in a table",
    "PublishedDPCleansedSVD, add-remove",
    batches,
    "priorities",
    params={"max_items": 8},
)
def one_shuffle_for_all(real: Any, part: Any, seed: int) -> Any:
    """Adding or removing a person changes which items everyone else contributes."""
    return np.random.default_rng(seed).permutation(len(part.indices)).astype(np.uint64)


# Private numbers that bypass the ledger: in models, branches, scales, messages and what others are shown


@mutant("field list of broken mechanisms", CLEANSED, Releaser, "_public")
def factors_from_exact_sums(real: Any, self: Releaser, label: str, sums: Any, *given: Any, **options: Any) -> Any:
    """Noise is drawn and charged for, but the model is made from the exact sums."""
    exact = _exact(sums)
    real(self, label, sums, *given, **options)
    return exact


@mutant("DPALS 2021, Appendix C", ALGORITHM_1, Reservation, "release")
def a_release_missing_from_the_ledger(real: Any, self: Any, *given: Any, **options: Any) -> Any:
    """The matrix lambda_0 K is released, but counts in no total."""
    statistic, _, noise, label = given
    if label == published_training.GRAM:
        return noise.add(statistic, self._ledger.noise_source)
    return real(self, *given, **options)


@mutant(
    "diffprivlib warns of it: bounds read off the data",
    OF_RATINGS,
    Centering,
    "public",
    pairs=[({item: 5.0 * (item % 2) for item in range(40)}, None)],
)
def the_exact_scale_of_the_data(real: Any, name: str, ratings: Any, *given: Any, **options: Any) -> Any:
    """A clip, and with it the noise, depends on the longest row."""
    squares = np.add.reduceat((ratings.values - 2.5) ** 2, ratings.indptr[:-1])
    return real(name, ratings, float(np.sqrt(squares.max())), **options)


@mutant(
    "Frank-Wolfe 2018 and DPALS 2021, experiments",
    ALS,
    published_training,
    "noisy_counts",
    params={"item_fraction": 0.4},
)
def items_chosen_by_exact_counts(
    real: Any, releaser: Releaser, label: str, users: Any, n_items: int, **given: Any
) -> Any:
    """'The top 400 items' depend on each single rating."""
    noisy = real(releaser, label, users, n_items, **given)
    if label != published_training.COUNTS:
        return noisy
    counts = [np.bincount(batch.indices, minlength=n_items) for batch in users.each(1)]
    return np.sum(counts, axis=0, dtype=np.float64)


@mutant("'at least two users', usual practice", CHOICE, Releaser, "release_items")
def items_counted_exactly(
    real: Any, self: Releaser, label: str, users: Any, *given: Any, n_items: int, **more: Any
) -> Any:
    """An item is published if enough people have it, and one person decides whether these are enough."""
    real(self, label, users, *given, n_items=n_items, **more)
    counts = np.sum([np.bincount(batch.indices, minlength=n_items) for batch in users.each(1)], axis=0)
    return np.flatnonzero(counts >= 2), counts[counts >= 2]


@mutant("a threshold for one item of each user", CHOICE, Threshold, "units")
def threshold_for_one_item(real: Any, self: Threshold, *given: Any) -> int:
    """A person with many items that nobody else has gets many chances to have one published."""
    return int(real(replace(self, most=1), *given)) - 1


LEARN = "_learn_privately"


@mutant("DPALS 2021, user regularizer", ALS, PublishedDPALS, LEARN, params={"user_exponent": 1.0})
def exact_normalizer(real: Any, self: Any, releaser: Releaser, ratings: Any) -> Any:
    """Every user's output depends on the exact number of ratings: Z is the mean of users' counts."""
    known = copy.copy(self)
    known.typical_count = len(ratings) / ratings.n_users
    return real(known, releaser, ratings)


@mutant("usual practice", GRADIENT, DPGradientDescent, LEARN)
def uncharged_early_stop(real: Any, self: Any, releaser: Releaser, ratings: Any) -> Any:
    """How long to train is decided by an exact error."""
    small = float(np.mean(np.abs(ratings.values - 2.5))) < 0.5
    shorter = copy.copy(self)
    shorter.n_steps = 1 if small else self.n_steps
    return real(shorter, releaser, ratings)


@mutant("usual practice", SVD, DPSVD, LEARN)
def uncharged_grid_search(real: Any, self: Any, releaser: Releaser, ratings: Any) -> Any:
    """The better of two fits is kept, but only one is charged."""
    book = Ledger(delta=self.delta, adjacency=self.adjacency, noise_source=releaser.reservation.noise_source)
    with book.reserve(self.plan(ratings.n_items)) as reservation:
        tried = real(self, Releaser(reservation, self.adjacency, self.n_jobs), ratings)
    kept = real(self, releaser, ratings)
    exact = np.bincount(ratings.indices, minlength=ratings.n_items)
    return min(tried, kept, key=lambda learned: float(np.abs(learned["popularity_"] - exact).sum()))


@mutant("factors of users in saved models", SVD, DPSVD, LEARN)
def a_training_user_in_the_artifact(real: Any, self: Any, releaser: Releaser, ratings: Any) -> Any:
    """The model keeps a user's history."""
    return {**real(self, releaser, ratings), "user_history_": np.array(ratings.indices[ratings.indptr[-2] :])}


@mutant("debugging", CLEANSED, Releaser, "_sum")
def an_exact_number_in_a_log(real: Any, self: Releaser, *given: Any) -> Any:
    """Log files are read by people who are not allowed to see the data."""
    total = real(self, *given)
    log.info("added up to %d", total.sum())
    return total


@mutant("validation of single rows", CLEANSED, private, "require_sound")
def an_error_about_one_person(real: Any, ratings: Any, *given: Any) -> None:
    """A failed fit reveals that such a person is in the data."""
    real(ratings, *given)
    if np.diff(ratings.indptr).max() > 15:
        raise DataError("ratings: a user has too many of them")


@mutant("batch normalization; floating-point sums in batches", OF_RATINGS, Model, "_user_vectors")
def users_served_together(real: Any, self: Model, *given: Any) -> Any:
    """What a user is shown depends on who else is served: vectors are centered at their mean."""
    offsets, vectors = real(self, *given)
    return offsets, vectors - vectors.mean(axis=0)


@mutant("DP-SGD in practice (Chua and others 2024)", SGD, releaser, "poisson_sample")
def shuffled_batches_for_samples(real: Any, n_users: int, rate: float, source: Any) -> Any:
    """The charge is for secret samples of random size, but the samples are public and of a fixed size."""
    return np.sort(np.random.default_rng(0).permutation(n_users)[: max(int(rate * n_users), 1)])


@mutant("usual practice", "private search, add-remove", tuning, "_tried")
def a_search_by_exact_scores(real: Any, model: Any, task: Any, trial: Any, source: Any) -> tuple[Any, float]:
    """Fits are charged, but exact errors on private ratings decide which of them is kept."""
    fitted, _ = real(model, task, trial, source)
    return fitted, evaluate(fitted, task.test, history=task.history, metrics=[trial.metric])[trial.metric]


def _wider(person: Any) -> Any:
    """Some ratings are negative, which the model does not expect."""
    rows = [("user", item, 2.5) for item in range(20)] + [("x", item, value) for item, value in (person or {}).items()]
    return read(rows, items=list(range(20)), value_range=(-1, 5))


MUTANTS += [
    Mutant("progress that counts users", "A progress bar for each user shows how many there are.",
           "this library, found by this audit", EVALUATION, lambda: patch.object(evaluation, "quiet", nullcontext)),
    Mutant("histories refused one by one",
           "A failed evaluation reveals that a person has a rating that the model does not accept.",
           "this library, found by this audit", EVALUATION,
           lambda: patch.object(evaluation, "require_answers", lambda task: None),
           pairs=[({0: 0.0, 1: -1.0}, None)], data=_wider),
]  # fmt: skip


# Published errors in guarantees, as they would be in this library (docs/proofs has the corrections)


def _undercharged(label: str, factor: float) -> Patch:
    """Declare a smaller sensitivity of a release; contributions stay as long as they are."""
    real = Releaser._calibrated

    def calibrated(self: Releaser, name: str, statistic: Any) -> Any:
        sensitivity = real(self, name, statistic)[0] * (factor if name == label else 1.0)
        return sensitivity, self.reservation.plan.noise(name, sensitivity=sensitivity, symmetric=statistic.symmetric)

    return patch.object(Releaser, "_calibrated", calibrated)


@mutant("DPALS 2021, Theorem 1", ALGORITHM_1)
def missing_factor_of_two() -> Patch:
    """An item step releases a Gram matrix and a right-hand side, but only one is charged."""
    return patch.object(statistics, "normal_equations_sensitivity", lambda *given: 1.0)


MUTANTS += [
    Mutant("mean charged sqrt k", "A sum of k ratings moves by k, not by sqrt k.", "DPALS 2021, section 5.2", ALS,
           partial(_undercharged, published_training.MEAN, 120**-0.5)),
    Mutant("noisy start of one rating", "A row of k ratings has the square k, not 1.", "DPALS 2021, Remark 2",
           ALGORITHM_1, partial(_undercharged, published_training.START, 1 / 120)),
    Mutant("residuals as long as rows", "Residuals grow to twice the length of a row.",
           "Frank-Wolfe, if L is charged for 2 L", "PublishedDPFrankWolfe, add-remove",
           partial(_undercharged, COVARIANCE, 1 / 4)),
    Mutant("eps_entry = eps_user / xi", "One rating of 80 moves a second moment by far more than an 80th of the row.",
           "Frank-Wolfe 2018, discussion", REPLACED,
           partial(_undercharged, SECOND_MOMENT, 1 / 80), pairs=[(DIVIDED, {**DIVIDED, 3: 0.0})]),
]  # fmt: skip


@mutant("Frank-Wolfe 2018, Algorithm 2", "DPPCA by Oja's method, add-remove", pairs=[(eigen.start(12, 1)[:, 0], None)])
def unnormalized_start() -> Patch:
    """A product with v ~ N(0, I), whose length is not 1, is not bounded by the row."""
    start = eigen.start

    def loosely(rows: Any, *, bound: float, **given: Any) -> Any:
        return truncate(rows, bound=4 * bound, **given)  # with |v| = 1 no clip of products is needed

    return together(
        patch.object(ProductSum, "__post_init__", lambda self: None),
        patch.object(statistics, "truncate", loosely),
        patch.object(eigen, "start", lambda size, *given: start(size, *given) * np.sqrt(size)),
    )


@mutant("one-bit completion 2021, GraP", "OneBit, gradient, flip", TwoValued, "sensitivity")
def gradients_charged_by_half(real: Any, *given: Any) -> float:
    """A flip moves a clamped derivative from -C to C, by 2 C."""
    return float(real(*given)) / 2


def _unsaid() -> Patch:
    """Let mechanisms that were published without a valid guarantee claim to have one."""
    unsaid = (patch.object(kind, "why_not", "") for kind in (PublishedObjective, PublishedOutput))
    return together(*unsaid, patch.object(releaser, "AsPrinted", ()))


@cache
def _two_groups(flipped: tuple[int, ...]) -> Any:
    """Two groups of users, each with one taste, and one bit that says whether the tastes are the same."""
    rows = [(user, item, 1.0) for user in range(16) for item in range(16) if user // 8 == item // 8]
    rows.append((0, 8, -1.0 if flipped else 1.0))
    return read(rows, items=list(range(16)), value_range=(-1, 1))


_OUTPUT = {"noise": "laplace", "delta": 0.0, "epsilon": 1.0, "calibration": "published", "ridge": None, "tau": None}
MUTANTS += [
    Mutant("output perturbation", "The noise is for one entry, and one bit moves all of them.",
           "one-bit completion 2021, OutP", "OneBit, output, flip", _unsaid,
           pairs=[((1,), ())], data=_two_groups, params=_OUTPUT),
    Mutant("probit without its Jacobian", "The density of the optimum contains the ratio of second derivatives.",
           "one-bit completion 2021, ObjP", OBJECTIVE, _unsaid, params={"link": "probit", "calibration": "published"}),
]  # fmt: skip
