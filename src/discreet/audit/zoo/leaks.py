"""Private numbers that never pass the ledger: in models, branches, scales, words and what others are shown."""

from __future__ import annotations

import copy
import logging
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from discreet.audit.patching import patched
from discreet.audit.zoo.mutant import Mutant, Patch
from discreet.data.readers import read
from discreet.errors import DataError
from discreet.models import private
from discreet.models.als.calibration import GRAM
from discreet.models.als.preprocessing import Preprocessing
from discreet.models.als.published import PublishedDPALS
from discreet.models.base import Model
from discreet.models.centering import Centering
from discreet.models.gradient.model import DPGradientDescent
from discreet.models.spectral.cleansing import Cleansing
from discreet.models.spectral.model import DPSVD
from discreet.privacy import Ledger, Releaser
from discreet.privacy import releaser as releaser_module
from discreet.privacy.ledger import Reservation

log = logging.getLogger("discreet.audit.zoo")


def _learning(kind: Any, change: Any) -> Patch:
    """Wrap `_learn_privately` of a model: change(real, self, releaser, ratings)."""
    real = kind._learn_privately

    def learn(self: Any, releaser: Releaser, ratings: Any) -> Any:
        return change(real, self, releaser, ratings)

    return patched(kind, _learn_privately=learn)


def _without_noise() -> Patch:
    """The noise is drawn, recorded and thrown away."""
    real = Releaser._public

    def public(self: Releaser, label: str, sums: Any, *given: Any) -> Any:
        exact = sums.values * sums.grid.step
        real(self, label, sums, *given)
        return exact

    return patched(Releaser, _public=public)


def _beside_the_ledger() -> Patch:
    real = Reservation.release

    def release(self: Reservation, statistic: Any, sensitivity: float, noise: Any, label: str) -> Any:
        if label == GRAM:
            return noise.add(statistic, self._ledger.noise_source)
        return real(self, statistic, sensitivity, noise, label)

    return patched(Reservation, release=release)


def _exact_mean() -> Patch:
    """Ratings are centred at their own mean, which shows in every item's average."""
    from dataclasses import replace

    real = Cleansing.run
    return patched(
        Cleansing, run=lambda self, releaser, r: real(replace(self, middle=float(r.values.mean())), releaser, r)
    )


def _exact_scale() -> Patch:
    """Rows may be as long as the longest of them is."""
    real = Centering.public

    def public(name: str, ratings: Any, row_norm: Any, *, centre: bool) -> Centering:
        squares = np.add.reduceat((ratings.values - 2.5) ** 2, ratings.indptr[:-1])
        return real(name, ratings, float(np.sqrt(squares.max())), centre=centre)

    return patched(Centering, public=staticmethod(public))


def _exact_selection() -> Patch:
    """The most frequent items are those that truly are."""
    real = Preprocessing._counts

    def counts(self: Preprocessing, releaser: Releaser, every: Any, n_items: int) -> Any:
        real(self, releaser, every, n_items)
        counts = [np.bincount(batch.indices, minlength=n_items) for batch in every.each(1)]
        return np.sum(counts, axis=0, dtype=np.float64)

    return patched(Preprocessing, _counts=counts)


def _exact_normaliser(real: Any, self: Any, releaser: Releaser, ratings: Any) -> Any:
    """Z, the mean of everybody's count, is that of the data."""
    known = copy.copy(self)
    known.typical_count = len(ratings) / ratings.n_users
    return real(known, releaser, ratings)


def _early_stop(real: Any, self: Any, releaser: Releaser, ratings: Any) -> Any:
    """Stop at once if the error is small enough: a decision by an exact number."""
    small = float(np.mean(np.abs(ratings.values - 2.5))) < 0.5
    shorter = copy.copy(self)
    shorter.n_steps = 1 if small else self.n_steps
    return real(shorter, releaser, ratings)


def _grid_search(real: Any, self: Any, releaser: Releaser, ratings: Any) -> Any:
    """Fit twice, keep the better one, and pay for one."""
    book = Ledger(delta=self.delta, adjacency=self.adjacency, noise_source=releaser.reservation.noise_source)
    with book.reserve(self.plan(ratings.n_items)) as reservation:
        tried = real(self, Releaser(reservation, self.adjacency, self.n_jobs), ratings)
    kept = real(self, releaser, ratings)
    exact = np.bincount(ratings.indices, minlength=ratings.n_items)
    return min(tried, kept, key=lambda learned: float(np.abs(learned["popularity_"] - exact).sum()))


def _user_vector(real: Any, self: Any, releaser: Releaser, ratings: Any) -> Any:
    """What is known of the last user in training is kept in the model."""
    return {**real(self, releaser, ratings), "user_history_": np.array(ratings.indices[ratings.indptr[-2] :])}


def _logged() -> Patch:
    real = Releaser._sum

    def add_up(self: Releaser, *given: Any) -> Any:
        total = real(self, *given)
        log.info("added up to %d", total.sum())
        return total

    return patched(Releaser, _sum=add_up)


def _refused() -> Patch:
    """An error about somebody: who sees it knows that such a person is there."""
    real = private.require_sound

    def require_sound(ratings: Any) -> None:
        real(ratings)
        if np.diff(ratings.indptr).max() > 15:
            raise DataError("ratings: a user has too many of them")

    return patched(private, require_sound=require_sound)


def _served_together() -> Patch:
    """Users' vectors are centred at the mean of those who are served beside them."""
    real = Model._user_vectors

    def user_vectors(self: Model, histories: Any) -> Any:
        offsets, vectors = real(self, histories)
        return offsets, vectors - vectors.mean(axis=0)

    return patched(Model, _user_vectors=user_vectors)


def _shuffled_batches() -> Patch:
    """Samples of a fixed size by a public seed, charged as secret ones."""

    def sample(n_users: int, rate: float, source: Any) -> Any:
        return np.sort(np.random.default_rng(0).permutation(n_users)[: max(int(rate * n_users), 1)])

    return patched(releaser_module, poisson_sample=sample)


def _progress_shown() -> Patch:
    """A bar for each user who is recommended something, so that they can be counted."""
    from discreet.evaluate import private as evaluation

    return patched(evaluation, quiet=nullcontext)


def _refused_histories() -> Patch:
    """Ratings that a model does not take are refused when they come, not when their range is declared."""
    from discreet.evaluate import private as evaluation

    return patched(evaluation, require_range=lambda task: None)


def _exact_scores() -> Patch:
    """Trials are compared by exact errors, for which nobody has paid."""
    from discreet.evaluate import evaluate
    from discreet.tune import private as tuning

    real = tuning._tried

    def tried(model: Any, task: Any, trial: Any, source: Any) -> tuple[Any, float]:
        fitted, _ = real(model, task, trial, source)
        return fitted, evaluate(fitted, task.test, history=task.history, metrics=[trial.metric])[trial.metric]

    return patched(tuning, _tried=tried)


def _wider(person: Any) -> Any:
    """Ratings may be negative, which the model does not know of."""
    rows = [("user", item, 2.5) for item in range(20)] + [("x", item, value) for item, value in (person or {}).items()]
    return read(rows, items=list(range(20)), value_range=(-1, 5))


ALONE = "PublishedDPALS, Algorithm 1, add-remove"
MUTANTS = [
    Mutant(
        "factors from exact sums",
        "noise is drawn and charged for, and the model is made from what it should hide",
        "field list of broken mechanisms",
        "DPCleansedSVD, add-remove",
        _without_noise,
    ),
    Mutant(
        "a release missing from the ledger",
        "lambda_0 K is released, but in nobody's total",
        "DPALS 2021, Appendix C",
        ALONE,
        _beside_the_ledger,
    ),
    Mutant(
        "the data's own mean",
        "a denominator or a mean of the data, taken as if it were public",
        "SVD baselines scale by exact |Omega|",
        "DPCleansedSVD, add-remove",
        _exact_mean,
    ),
    Mutant(
        "the data's own scale",
        "a clip, and with it the noise, follows from the longest row",
        "diffprivlib warns of it: bounds read off the data",
        "DPSVD of ratings, add-remove",
        _exact_scale,
        pairs=[({item: 5.0 * (item % 2) for item in range(40)}, None)],
    ),
    Mutant(
        "items chosen by exact counts",
        "'the top 400 items' depend on each single rating",
        "Frank-Wolfe 2018 and DPALS 2021, experiments",
        "PublishedDPALS, add-remove",
        _exact_selection,
        params=(("item_fraction", 0.4),),
    ),
    Mutant(
        "exact normaliser Z",
        "in everybody's output there is the exact number of ratings",
        "DPALS 2021, user regulariser",
        "PublishedDPALS, add-remove",
        partial(_learning, PublishedDPALS, _exact_normaliser),
        params=(("user_exponent", 1.0),),
    ),
    Mutant(
        "uncharged early stop",
        "how long to train is decided by an exact error",
        "usual practice",
        "DPGradientDescent, add-remove",
        partial(_learning, DPGradientDescent, _early_stop),
    ),
    Mutant(
        "uncharged grid search",
        "the better of two fits is kept, and one is paid for",
        "usual practice",
        "DPSVD, add-remove",
        partial(_learning, DPSVD, _grid_search),
    ),
    Mutant(
        "a training user in the artefact",
        "the model keeps something of a user",
        "factors of users in saved models",
        "DPSVD, add-remove",
        partial(_learning, DPSVD, _user_vector),
    ),
    Mutant(
        "an exact number in a log",
        "log files are read by people who may not see the data",
        "debugging",
        "DPCleansedSVD, add-remove",
        _logged,
    ),
    Mutant(
        "an error about somebody",
        "that a fit fails tells who is there",
        "validation of single rows",
        "DPCleansedSVD, add-remove",
        _refused,
    ),
    Mutant(
        "users served together",
        "what one user is shown depends on who is served beside her",
        "batch normalisation; floating-point sums in batches",
        "DPSVD of ratings, add-remove",
        _served_together,
    ),
    Mutant(
        "shuffled batches for Poisson samples",
        "the charge is for samples that nobody knows and that differ in size",
        "DP-SGD in practice (Chua and others 2024)",
        "DPSGD, add-remove",
        _shuffled_batches,
    ),
    Mutant(
        "progress that counts users",
        "a bar for each user shows how many there are",
        "this library, found by this audit",
        "private evaluation, add-remove",
        _progress_shown,
    ),
    Mutant(
        "histories refused one by one",
        "that an evaluation fails tells that somebody has a rating which the model does not take",
        "this library, found by this audit",
        "private evaluation, add-remove",
        _refused_histories,
        pairs=[({0: 0.0, 1: -1.0}, None)],
        world=_wider,
    ),
    Mutant(
        "a search by exact scores",
        "fits are paid for, and which of them is kept is decided by exact errors on private ratings",
        "usual practice",
        "private search, add-remove",
        _exact_scores,
    ),
]
