"""Private numbers that bypass the ledger: in models, branches, scales, words and what others are shown."""

from __future__ import annotations

import copy
import logging
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from discreet.audit.zoo.mutant import Patch, mutant, wrapping
from discreet.data.readers import read
from discreet.errors import DataError
from discreet.evaluate import evaluate
from discreet.evaluate import private as evaluation
from discreet.models import private
from discreet.models.als.calibration import GRAM
from discreet.models.als.preprocessing import Preprocessing
from discreet.models.als.published import PublishedDPALS
from discreet.models.base import Model
from discreet.models.centering import Centering
from discreet.models.gradient.model import DPGradientDescent
from discreet.models.spectral.contributions import Cleansing
from discreet.models.spectral.model import DPSVD
from discreet.privacy import Ledger, Releaser, releaser
from discreet.privacy.ledger import Reservation
from discreet.tune import private as tuning

ALS, SVD, CLEANSED = "PublishedDPALS, add-remove", "DPSVD, add-remove", "DPCleansedSVD, add-remove"
OF_RATINGS, EVALUATION = "DPSVD of ratings, add-remove", "private evaluation, add-remove"
LEARN = "_learn_privately"
log = logging.getLogger("discreet.audit.zoo")


@mutant("factors from exact sums", "field list of broken mechanisms", CLEANSED, wrapping(Releaser, "_public"))
def without_noise(real: Any, self: Releaser, label: str, sums: Any, *given: Any) -> Any:
    """Noise is drawn and charged for, and the model is made from what it should hide."""
    exact = sums.values * sums.grid.step
    real(self, label, sums, *given)
    return exact


@mutant(
    "a release missing from the ledger",
    "DPALS 2021, Appendix C",
    "PublishedDPALS, Algorithm 1, add-remove",
    wrapping(Reservation, "release"),
)
def beside_the_ledger(real: Any, self: Any, *given: Any) -> Any:
    """The matrix lambda_0 K is released, but is in no total."""
    statistic, _, noise, label = given
    return noise.add(statistic, self._ledger.noise_source) if label == GRAM else real(self, *given)


@mutant("the data's own mean", "SVD baselines scale by exact |Omega|", CLEANSED, wrapping(Cleansing, "run"))
def exact_mean(real: Any, self: Any, releaser: Releaser, ratings: Any) -> Any:
    """A mean of the data, taken as if it were public, shows in every item's average."""
    return real(replace(self, middle=float(ratings.values.mean())), releaser, ratings)


@mutant(
    "the data's own scale",
    "diffprivlib warns of it: bounds read off the data",
    OF_RATINGS,
    wrapping(Centering, "public"),
    pairs=[({item: 5.0 * (item % 2) for item in range(40)}, None)],
)
def exact_scale(real: Any, name: str, ratings: Any, *given: Any, **options: Any) -> Any:
    """A clip, and with it the noise, follows from the longest row."""
    squares = np.add.reduceat((ratings.values - 2.5) ** 2, ratings.indptr[:-1])
    return real(name, ratings, float(np.sqrt(squares.max())), **options)


@mutant(
    "items chosen by exact counts",
    "Frank-Wolfe 2018 and DPALS 2021, experiments",
    ALS,
    wrapping(Preprocessing, "_counts"),
    params={"item_fraction": 0.4},
)
def exact_selection(real: Any, self: Any, releaser: Releaser, every: Any, n_items: int) -> Any:
    """'The top 400 items' depend on each single rating."""
    real(self, releaser, every, n_items)
    counts = [np.bincount(batch.indices, minlength=n_items) for batch in every.each(1)]
    return np.sum(counts, axis=0, dtype=np.float64)


@mutant(
    "exact normalizer Z",
    "DPALS 2021, user regularizer",
    ALS,
    wrapping(PublishedDPALS, LEARN),
    params={"user_exponent": 1.0},
)
def exact_normalizer(real: Any, self: Any, releaser: Releaser, ratings: Any) -> Any:
    """The exact number of ratings is in every user's output: Z is the mean of their counts."""
    known = copy.copy(self)
    known.typical_count = len(ratings) / ratings.n_users
    return real(known, releaser, ratings)


@mutant("uncharged early stop", "usual practice", "DPGradientDescent, add-remove", wrapping(DPGradientDescent, LEARN))
def early_stop(real: Any, self: Any, releaser: Releaser, ratings: Any) -> Any:
    """How long to train is decided by an exact error."""
    small = float(np.mean(np.abs(ratings.values - 2.5))) < 0.5
    shorter = copy.copy(self)
    shorter.n_steps = 1 if small else self.n_steps
    return real(shorter, releaser, ratings)


@mutant("uncharged grid search", "usual practice", SVD, wrapping(DPSVD, LEARN))
def grid_search(real: Any, self: Any, releaser: Releaser, ratings: Any) -> Any:
    """The better of two fits is kept, and one is paid for."""
    book = Ledger(delta=self.delta, adjacency=self.adjacency, noise_source=releaser.reservation.noise_source)
    with book.reserve(self.plan(ratings.n_items)) as reservation:
        tried = real(self, Releaser(reservation, self.adjacency, self.n_jobs), ratings)
    kept = real(self, releaser, ratings)
    exact = np.bincount(ratings.indices, minlength=ratings.n_items)
    return min(tried, kept, key=lambda learned: float(np.abs(learned["popularity_"] - exact).sum()))


@mutant("a training user in the artifact", "factors of users in saved models", SVD, wrapping(DPSVD, LEARN))
def user_vector(real: Any, self: Any, releaser: Releaser, ratings: Any) -> Any:
    """The model keeps something of a user."""
    return {**real(self, releaser, ratings), "user_history_": np.array(ratings.indices[ratings.indptr[-2] :])}


@mutant("an exact number in a log", "debugging", CLEANSED, wrapping(Releaser, "_sum"))
def logged(real: Any, self: Releaser, *given: Any) -> Any:
    """Log files are read by people who may not see the data."""
    total = real(self, *given)
    log.info("added up to %d", total.sum())
    return total


@mutant("an error about one person", "validation of single rows", CLEANSED, wrapping(private, "require_sound"))
def refused(real: Any, ratings: Any) -> None:
    """That a fit fails tells that such a person is there."""
    real(ratings)
    if np.diff(ratings.indptr).max() > 15:
        raise DataError("ratings: a user has too many of them")


@mutant(
    "users served together",
    "batch normalization; floating-point sums in batches",
    OF_RATINGS,
    wrapping(Model, "_user_vectors"),
)
def served_together(real: Any, self: Model, histories: Any) -> Any:
    """What a user is shown depends on who is served beside them: vectors are centered at their mean."""
    offsets, vectors = real(self, histories)
    return offsets, vectors - vectors.mean(axis=0)


@mutant(
    "shuffled batches for Poisson samples",
    "DP-SGD in practice (Chua and others 2024)",
    "DPSGD, add-remove",
    wrapping(releaser, "poisson_sample"),
)
def shuffled_batches(real: Any, n_users: int, rate: float, source: Any) -> Any:
    """The charge is for secret samples of random size, and the samples are public and of a fixed size."""
    return np.sort(np.random.default_rng(0).permutation(n_users)[: max(int(rate * n_users), 1)])


@mutant("progress that counts users", "this library, found by this audit", EVALUATION)
def progress_shown() -> Patch:
    """A progress bar for each user shows how many there are."""
    return patch.object(evaluation, "quiet", nullcontext)


def _wider(person: Any) -> Any:
    """Ratings may be negative, which the model does not know of."""
    rows = [("user", item, 2.5) for item in range(20)] + [("x", item, value) for item, value in (person or {}).items()]
    return read(rows, items=list(range(20)), value_range=(-1, 5))


@mutant(
    "histories refused one by one",
    "this library, found by this audit",
    EVALUATION,
    pairs=[({0: 0.0, 1: -1.0}, None)],
    world=_wider,
)
def refused_histories() -> Patch:
    """That an evaluation fails tells that a person has a rating which the model does not take."""
    return patch.object(evaluation, "require_range", lambda task: None)


@mutant("a search by exact scores", "usual practice", "private search, add-remove", wrapping(tuning, "_tried"))
def exact_scores(real: Any, model: Any, task: Any, trial: Any, source: Any) -> tuple[Any, float]:
    """Fits are paid for, and which of them is kept is decided by exact errors on private ratings."""
    fitted, _ = real(model, task, trial, source)
    return fitted, evaluate(fitted, task.test, history=task.history, metrics=[trial.metric])[trial.metric]
