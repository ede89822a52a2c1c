"""Broken bounds: contributions that are not bounded, not as they are said to be, or by the wrong rule."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from discreet.audit.patching import patched
from discreet.audit.zoo.mutant import Mutant, Patch
from discreet.data import assembly
from discreet.models import private
from discreet.models.als import preprocessing, sampling
from discreet.models.spectral import pca
from discreet.privacy import Releaser, VectorSum, statistics, truncate
from discreet.privacy.guarantee import sensitivity_factor
from discreet.privacy.statistics import NormalEquationsEncoder

AMPLE = 1e3  # times a bound: as good as none, in these worlds


def together(*patches: Patch) -> ExitStack:
    """Several changes at once."""
    stack = ExitStack()
    for patch in patches:
        stack.enter_context(patch)
    return stack


def _clipping(change: Callable[[Any, float], Any]) -> Patch:
    """Rows are changed before they are cut to a bound that is far too large: `change` is all the clipping there is."""

    def changed(entries: Any, *, bound: float, indptr: Any, **given: Any) -> Any:
        rows = np.asarray(entries, np.float64).reshape(len(indptr) - 1, -1)  # in this world all are equally long
        return truncate(change(rows, bound).ravel(), bound=AMPLE * bound, indptr=indptr, **given)

    return patched(statistics, truncate=changed)


def _lengths(rows: Any) -> Any:
    return np.sqrt((rows**2).sum(axis=-1, keepdims=True))


def _none(rows: Any, bound: float) -> Any:
    return rows


def _whole_sum(rows: Any, bound: float) -> Any:
    """All rows are shortened by the same factor, as their sum would be."""
    allowed = bound * len(rows) ** 0.5
    return rows * (allowed / max(float(np.linalg.norm(rows)), allowed))


def _each_entry(rows: Any, bound: float) -> Any:
    return np.clip(rows, -bound, bound)


def _by_the_longest(rows: Any, bound: float) -> Any:
    """Everybody is scaled by the longest row that there is."""
    return rows * (bound / float(_lengths(rows).max()))


def _with_max(rows: Any, bound: float) -> Any:
    """U max(1, c / |u|), which lengthens short rows and leaves long ones as they are."""
    return rows * np.maximum(1, bound / np.maximum(_lengths(rows), 1e-9))


def _past_nan(rows: Any, bound: float) -> Any:
    """min(1, c / |u|) in Python is 1 if |u| is NaN; and what is NaN is then set to 0."""
    lengths = _lengths(rows)
    shortened = rows * (bound / np.maximum(lengths, bound))
    return np.nan_to_num(np.where(np.isnan(lengths), rows, shortened), posinf=0.0, neginf=0.0)


def _add_remove_for_replace() -> Patch:
    real = Releaser._calibrated
    return patched(Releaser, _calibrated=lambda self, *given: real(replace(self, adjacency="add-remove"), *given))


def _signed_sums_as_nonnegative() -> Patch:
    def sensitivity(self: VectorSum, adjacency: Any) -> float:
        return self.norm * sensitivity_factor(adjacency, nonnegative=True)

    return patched(VectorSum, sensitivity=sensitivity)


def _no_cap() -> Patch:
    """Whoever has more than k items takes part with all of them."""

    def everything(part: Any, *_: Any) -> Any:
        return np.ones(len(part.indices), bool)

    return together(
        patched(sampling, uniform=everything, lowest=everything),
        patched(NormalEquationsEncoder, _weights=lambda *given: None),
    )


def _no_range() -> Patch:
    """Ratings are charged as if they were half as large as they are, and nobody cuts them."""
    real = preprocessing.Preprocessing._bound

    def uncut(table: Any, mean: float, bound: float) -> Any:
        return sampling.Sample(table.indptr, table.indices, table.values - np.float32(mean), table.weights)

    def targets(self: NormalEquationsEncoder, values: Any) -> Any:
        return np.trunc(values / self.statistic.target_bound * self.target_units)

    return together(
        patched(preprocessing.Preprocessing, _bound=lambda self, *given: real(self, *given) / 2),
        patched(preprocessing, _centred=uncut),
        patched(NormalEquationsEncoder, _targets=targets),
    )


def _repeated_rows() -> Patch:
    """A rating that is sent twice counts twice."""
    return together(
        patched(assembly, _merge_repeated=lambda *given: None),
        patched(private, require_sound=lambda ratings: None),
        patched(statistics, countable=lambda batch, size: None),
    )


def _shared_shuffle() -> Patch:
    """Which of her items a user takes part with comes from one shuffle of everybody's."""

    def priorities(part: Any, seed: int) -> Any:
        return np.random.default_rng(seed).permutation(len(part.indices)).astype(np.uint64)

    return patched(sampling, priorities=priorities)


def _fresh_world(person: Any) -> Any:
    """A world that is read while the mutant is there."""
    from discreet.audit.neighbors import ordinary

    return ordinary(50, *([] if person is None else [("x", person)]), implicit=True)


COMPONENTS = "DPPCA, add-remove"

MUTANTS = [
    Mutant(
        "no clip",
        "a contribution is as long as it likes",
        "the first thing to forget",
        COMPONENTS,
        partial(_clipping, _none),
    ),
    Mutant(
        "clip after the sum",
        "all contributions are shortened together, so that one person moves everybody's",
        "gradient clipping in batches, not per person",
        COMPONENTS,
        partial(_clipping, _whole_sum),
    ),
    Mutant(
        "clip of entries",
        "each number is cut to the bound that the whole row is charged for",
        "clip by value in place of clip by norm",
        COMPONENTS,
        partial(_clipping, _each_entry),
    ),
    Mutant(
        "scaled by the data's own maximum",
        "everybody's row is divided by the longest there is",
        "a reference implementation of a private recommender",
        COMPONENTS,
        partial(_clipping, _by_the_longest),
    ),
    Mutant(
        "clip with max for min",
        "u max(1, c / |u|) shortens nobody",
        "DPALS 2021, definition of clip",
        COMPONENTS,
        partial(_clipping, _with_max),
    ),
    Mutant(
        "NaN past a clip",
        "the length of a row with a NaN is NaN, and comparisons with that are false",
        "min(1, c / nan) is 1",
        COMPONENTS,
        lambda: together(_clipping(_past_nan), patched(pca, _finite=lambda values: values)),
    ),
    Mutant(
        "replace charged as add-remove",
        "two people's contributions differ by up to twice what one's is",
        "papers that define one and prove the other",
        "DPSVD of ratings, replace",
        _add_remove_for_replace,
    ),
    Mutant(
        "signed sums charged as nonnegative",
        "sqrt 2 is enough for positive semidefinite matrices, not for signed sums",
        "the lemma, used where it does not hold",
        "DPCleansedSVD, replace",
        _signed_sums_as_nonnegative,
    ),
    Mutant(
        "no cap on items",
        "whoever has more than k items moves more than k of them",
        "DPALS 2021 needs it",
        "PublishedDPALS, Algorithm 1, add-remove",
        _no_cap,
        pairs=[(dict.fromkeys(range(240), 1.0), None)],
    ),
    Mutant(
        "ratings out of range",
        "the bound on a rating is charged for and not enforced",
        "a reference implementation of a private recommender",
        "PublishedDPALS, add-remove",
        _no_range,
    ),
    Mutant(
        "a rating sent twice",
        "repeated rows pass a bound on the user's row and add up in the sum",
        "duplicates in a join",
        "DPSVD, add-remove",
        _repeated_rows,
        pairs=[(((7, 1.0),) * 60, None)],
        world=_fresh_world,
    ),
    Mutant(
        "one shuffle for all",
        "who comes or goes changes which items everybody else takes part with",
        "sampling by position in a table",
        "PublishedDPCleansedSVD, add-remove",
        _shared_shuffle,
        params=(("max_items", 8),),
    ),
]
