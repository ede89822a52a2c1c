"""What storing a model with less precision does to it, measured on made-up people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from discreet.data.catalogue import Ids, smallest_unsigned
from discreet.data.interactions import Interactions
from discreet.linalg.topk import top_k

if TYPE_CHECKING:
    from discreet.models.base import Model
    from discreet.web.scoring import Scoring


PEOPLE, FEWEST, MOST = 64, 3, 30
SHOWN = 10


def made_up(model: Model, n_people: int = PEOPLE, seed: int = 0) -> Interactions:
    """Histories that nobody has: items drawn by what the model publicly knows of their popularity, random ratings."""
    rng = np.random.default_rng(seed)
    m = len(model.items_)
    chances = np.maximum(np.asarray(model.popularity_, np.float64), 0)
    chances += max(float(chances.mean()), 1e-9) / 10
    counts = np.minimum(rng.integers(FEWEST, MOST + 1, n_people), m)
    rows = [np.sort(rng.choice(m, count, replace=False, p=chances / chances.sum())) for count in counts]
    low, high = model.value_range_
    indices = np.concatenate(rows)
    values = np.ones(len(indices)) if model.implicit_ else low + (high - low) * rng.integers(0, 5, len(indices)) / 4
    return Interactions(
        users=Ids(range(n_people)),
        catalogue=model.catalogue_,
        indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        indices=indices.astype(smallest_unsigned(m)),
        values=values.astype(np.float32),
        value_range=(low, high),
        implicit=model.implicit_,
    )


def measured(before: Scoring, after: Scoring, people: Interactions) -> dict[str, float]:
    """How far scores move, and how many of the best ten stay among them.

    `rms` and `largest` are in the unit of scores; `relative` is `rms` over the standard deviation of a person's scores.
    """
    exact, kept = before.scores(people), after.scores(people)
    moved = kept - exact
    rms, spread = float(np.sqrt(np.mean(moved**2))), float(np.mean(exact.std(axis=1)))
    k = min(SHOWN, exact.shape[1])
    best, now = top_k(exact, k)[0], top_k(kept, k)[0]
    same = np.mean([len(np.intersect1d(a, b)) / k for a, b in zip(best, now, strict=True)])
    return {
        "rms": rms,
        "largest": float(np.abs(moved).max()),
        "relative": rms / spread if spread > 0 else 0.0,
        "top_10_kept": float(same),
    }
