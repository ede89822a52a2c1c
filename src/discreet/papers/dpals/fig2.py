"""Figure 2: the fraction of ratings that the most rated films have, in MovieLens 10M and in samples of 50 per user.

Adaptive sampling takes the 50 items of a user that were rated least in a uniform sample; counts have no noise here. The
text says that the top 20% of the films have more than 85% of the ratings, and (Appendix C) that the counts of users and
of films, over ratings, have correlation -.243.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from discreet.completion.als.sampling import lowest, uniform
from discreet.completion.parts import Part
from discreet.data.interactions import Interactions
from discreet.papers.data import load
from discreet.papers.dpals import protocol
from discreet.papers.reproduction import Options, Plot, Point, Published, Reproduction, value_of

TOP = (0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
K = 50
ALL, UNIFORM, ADAPTIVE = "all ratings", f"uniform sample, {K} of each user", f"adaptive sample, {K} of each user"
CORRELATION = "correlation of users' and films' counts"


def points(options: Options) -> Iterator[Point]:
    """All points."""
    ratings, label = load("ml-10m", options, protocol.ML_10M)
    part = Part(ratings.indptr, ratings.indices, ratings.values)
    some = uniform(part, K, 0)
    rare = lowest(part, K, np.bincount(ratings.indices[some], minlength=ratings.n_items).astype(np.float64))
    samples = {ALL: np.ones(len(ratings), bool), UNIFORM: some, ADAPTIVE: rare}
    for method, chosen in samples.items():
        shares = held(ratings.where(chosen))
        for top in TOP:
            keys = {"data": label, "method": method, "epsilon": None, "top": top}
            yield Point(keys, partial(_same, share=float(np.interp(top, *shares))), 1)
    keys = {"data": label, "method": CORRELATION, "epsilon": None, "top": None}
    yield Point(keys, partial(_same, share=correlation(ratings)), 1)


def _same(seed: int, share: float) -> Mapping[str, float | None]:
    return {"share": share}


def held(ratings: Interactions) -> tuple[Any, Any]:
    """Fractions of the items, the most rated first, and what fraction of the ratings they have."""
    counts = np.sort(np.bincount(ratings.indices, minlength=ratings.n_items))[::-1]
    return np.arange(len(counts) + 1) / len(counts), np.concatenate([[0], np.cumsum(counts)]) / counts.sum()


def correlation(ratings: Interactions) -> float:
    """Of how many ratings the user and the item of a rating have."""
    users = np.repeat(np.diff(ratings.indptr), np.diff(ratings.indptr))
    items = np.bincount(ratings.indices, minlength=ratings.n_items)[ratings.indices]
    return float(np.corrcoef(users, items)[0, 1])


REPRODUCTION = Reproduction(
    name="dpals-fig2",
    paper=protocol.PAPER,
    title="Figure 2: the share of ratings that the most rated films have",
    protocol=__doc__,
    measure="share",
    points=points,
    published=(
        Published("top 20%, all ratings", 0.85, value_of("share", method=ALL, top=0.2), "Section 5.1", "above"),
        Published(CORRELATION, -0.243, value_of("share", method=CORRELATION), "Appendix C"),
    ),
    needs=("ml-10m",),
    runs=1,
    plot=Plot("top", "fraction of the films, the most rated first", log=""),
)
