"""Broken bounds: contributions that are not bounded, not as declared, or by the wrong rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from discreet.audit.neighbors import ordinary
from discreet.audit.zoo.mutant import Patch, mutant, together, wrapping
from discreet.data import assembly
from discreet.models import private
from discreet.models.als import preprocessing, sampling
from discreet.models.spectral import pca
from discreet.privacy import Releaser, VectorSum, statistics, truncate
from discreet.privacy.guarantee import sensitivity_factor
from discreet.privacy.statistics import NormalEquations

AMPLE = 1e3  # times a bound: as good as none, in these data
COMPONENTS = "DPPCA, add-remove"


def _clipping(change: Callable[[Any, float], Any]) -> Patch:
    """Rows are changed before they are cut to a bound that is far too large: `change` is all the clipping there is."""

    def changed(entries: Any, *, bound: float, indptr: Any, **given: Any) -> Any:
        rows = np.asarray(entries, np.float64).reshape(len(indptr) - 1, -1)  # here all are equally long
        return truncate(change(rows, bound).ravel(), bound=AMPLE * bound, indptr=indptr, **given)

    return patch.object(statistics, "truncate", changed)


def _lengths(rows: Any) -> Any:
    return np.sqrt((rows**2).sum(axis=-1, keepdims=True))


@mutant("no clip", "the first thing to forget", COMPONENTS, _clipping)
def no_clip(rows: Any, bound: float) -> Any:
    """A contribution has any length."""
    return rows


@mutant("clip after the sum", "gradient clipping in batches, not per person", COMPONENTS, _clipping)
def clip_of_the_sum(rows: Any, bound: float) -> Any:
    """All contributions are shortened by the same factor, so that one person moves those of all."""
    allowed = bound * len(rows) ** 0.5
    return rows * (allowed / max(float(np.linalg.norm(rows)), allowed))


@mutant("clip of entries", "clip by value in place of clip by norm", COMPONENTS, _clipping)
def clip_of_entries(rows: Any, bound: float) -> Any:
    """Each number is cut to the bound that the whole row is charged for."""
    return np.clip(rows, -bound, bound)


@mutant(
    "scaled by the data's own maximum", "a reference implementation of a private recommender", COMPONENTS, _clipping
)
def scaled_by_the_longest(rows: Any, bound: float) -> Any:
    """Every row is divided by the length of the longest."""
    return rows * (bound / float(_lengths(rows).max()))


@mutant("clip with max for min", "DPALS 2021, definition of clip", COMPONENTS, _clipping)
def clip_with_max(rows: Any, bound: float) -> Any:
    """The rule u max(1, c / |u|) lengthens short rows and leaves long ones as they are."""
    return rows * np.maximum(1, bound / np.maximum(_lengths(rows), 1e-9))


def _past_nan(rows: Any, bound: float) -> Any:
    lengths = _lengths(rows)
    shortened = rows * (bound / np.maximum(lengths, bound))
    return np.nan_to_num(np.where(np.isnan(lengths), rows, shortened), posinf=0.0, neginf=0.0)


@mutant("NaN past a clip", "min(1, c / nan) is 1", COMPONENTS)
def past_nan() -> Patch:
    """The length of a row with a NaN is NaN, and comparisons with that are false."""
    return together(_clipping(_past_nan), patch.object(pca, "_finite", lambda values: values))


@mutant(
    "replace charged as add-remove",
    "papers that define one and prove the other",
    "DPSVD of ratings, replace",
    wrapping(Releaser, "_calibrated"),
)
def replace_as_add_remove(real: Any, self: Releaser, *given: Any) -> Any:
    """Two people's contributions differ by up to twice the length of one."""
    return real(replace(self, adjacency="add-remove"), *given)


@mutant(
    "signed sums charged as nonnegative",
    "the lemma, used where it does not hold",
    "DPCleansedSVD, replace",
    wrapping(VectorSum, "sensitivity"),
)
def signed_as_nonnegative(real: Any, self: VectorSum, adjacency: Any) -> float:
    """The factor sqrt 2 is enough for positive semidefinite matrices, not for signed sums."""
    return self.norm * sensitivity_factor(adjacency, nonnegative=True)


@mutant(
    "no cap on items",
    "DPALS 2021 needs it",
    "PublishedDPALS, Algorithm 1, add-remove",
    pairs=[(dict.fromkeys(range(240), 1.0), None)],
)
def no_cap() -> Patch:
    """A person with more than k items moves more than k of them."""

    def everything(part: Any, *_: Any) -> Any:
        return np.ones(len(part.indices), bool)

    return together(
        patch.multiple(sampling, uniform=everything, lowest=everything),
        patch.object(NormalEquations, "_weights", lambda *given: None),
    )


@mutant("ratings out of range", "a reference implementation of a private recommender", "PublishedDPALS, add-remove")
def no_range() -> Patch:
    """The bound on a rating, half of what ratings can be, is charged for and not enforced."""
    real = preprocessing.Preprocessing._bound

    def uncut(table: Any, mean: float, bound: float) -> Any:
        return sampling.Sample(table.indptr, table.indices, table.values - np.float32(mean), table.weights)

    def targets(self: NormalEquations, values: Any) -> Any:
        return np.trunc(values / self.target_bound * self.target_units)

    return together(
        patch.object(preprocessing.Preprocessing, "_bound", lambda self, *given: real(self, *given) / 2),
        patch.object(preprocessing, "_centred", uncut),
        patch.object(NormalEquations, "_targets", targets),
    )


def _read_anew(person: Any) -> Any:
    """Data that are read while the mutant is there."""
    return ordinary(50, *([] if person is None else [("x", person)]), implicit=True)


@mutant(
    "a rating sent twice",
    "duplicates in a join",
    "DPSVD, add-remove",
    pairs=[(((7, 1.0),) * 60, None)],
    world=_read_anew,
)
def repeated_rows() -> Patch:
    """Repeated rows pass a bound on the user's row and add up in the sum."""
    return together(
        patch.object(assembly, "_merge_repeated", lambda *given: None),
        patch.object(private, "require_sound", lambda ratings: None),
        patch.object(statistics, "countable", lambda batch, size: None),
    )


@mutant(
    "one shuffle for all",
    "sampling by position in a table",
    "PublishedDPCleansedSVD, add-remove",
    wrapping(sampling, "priorities"),
    params={"max_items": 8},
)
def shared_shuffle(real: Any, part: Any, seed: int) -> Any:
    """A person who comes or goes changes which items all others take part with."""
    return np.random.default_rng(seed).permutation(len(part.indices)).astype(np.uint64)
