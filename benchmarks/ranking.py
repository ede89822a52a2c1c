"""Lists and predicted ratings: private models, the baselines at the same epsilon, and other libraries without privacy.

    python benchmarks/ranking.py [--data ml-1m jester ...] [--models Recommender DPSVD ...] [--epsilons 1 5 10 20]
                                 [--draws 3] [--folder data] [--out docs/results/ranking.json]

Data are Parquet files in the folder (by default $DISCREET_DATA). Ratings are divided 80/20 at random; targets of lists
are held-out ratings of at least `liked`, nothing that a user has rated in training is recommended, and recall is
divided by at most 20. "later" data are divided by time instead, at the same moment for everyone. "on liked clicks"
models see training ratings of at least `liked`, as clicks. Clicks: for MovieLens 1M, 600 test users are held out whole,
20% of whose items are to be found; citeulike and amazon-sports come with their own division. Delta 1e-5, defaults,
add-remove; mean and standard deviation over seeded draws of the noise.

implicit (pip install implicit; left out if it is missing) and EASE (Steck 2019) are fitted to liked clicks, with the
settings of `GRIDS` that have the best recall@20 on a tenth of the training data (or on the division's own part for
that), and then to all of it; their draws are random starts. `python scripts/results.py docs/compare.md` writes the
table there from the file.
"""

import argparse
import json
import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy import linalg
from threadpoolctl import threadpool_limits

import discreet
from discreet.testing import InsecureSeededNoise

DELTA, N = 1e-5, 20
LISTS = [f"recall@{N}", f"ndcg@{N}", f"coverage@{N}", f"novelty@{N}"]
ONLY_LISTS = "Recommender for lists alone"
Array = NDArray[Any]


# -- data


@dataclass(frozen=True)
class Case:
    """One data set, divided."""

    train: discreet.Interactions
    history: discreet.Interactions  # of the test users
    test: discreet.Interactions
    liked: float | None = None  # the least rating of a target; None for clicks
    valid: discreet.Interactions | None = None  # to choose the settings of peers; by default a part of `train`
    knows_users: bool = True  # whether test users are in the training data, as models with a vector for each need

    @property
    def clicks(self) -> discreet.Interactions:
        """What models of clicks are fitted to."""
        return self.train if self.liked is None else self.train.to_implicit(self.liked)

    def inner(self) -> "Case":
        """A part of the training data to fit to, and another to choose settings by."""
        if self.valid is not None:
            return replace(self, test=self.valid)
        train, _, test = discreet.splits.holdout(self.train, test=0.1, random_state=99)
        return replace(self, train=train, history=train, test=test)


def ratings_of(
    file: str, value_range: tuple[float, float], folder: Path, *, scale: float = 1.0, time: str | None = None
) -> discreet.Interactions:
    """All ratings of a file, times a factor."""
    columns = ["user", "item", "rating", *([time] if time else [])]
    table = pq.read_table(folder / f"{file}.parquet", columns=columns)
    table = table.set_column(2, "rating", pc.multiply(table["rating"].cast(pa.float64()), scale))
    items, named = (
        np.unique(table["item"].to_numpy()),
        {"user": "user", "item": "item", "value": "rating", "time": time},
    )
    return discreet.read(table, items=items, value_range=value_range, **named)


def rated(file: str, value_range: tuple[float, float], liked: float, folder: Path, *, scale: float = 1.0) -> Case:
    """Ratings, divided at random."""
    ratings = ratings_of(file, value_range, folder, scale=scale)
    train, _, test = discreet.splits.holdout(ratings, test=0.2, random_state=1234)
    return Case(train, train, test, liked)


def later(file: str, value_range: tuple[float, float], liked: float, folder: Path) -> Case:
    """Ratings, the latest fifth of which is the test: many of its users have no history."""
    ratings = ratings_of(file, value_range, folder, time="timestamp")
    train, _, test = discreet.splits.holdout(ratings, by="time", test=0.2)
    return Case(train, train, test, liked, knows_users=False)


def held_out(folder: Path) -> Case:
    """MovieLens 1M as clicks, with test users that no model has seen."""
    clicks = ratings_of("ml-1m", (1, 5), folder).to_implicit(4)
    split = discreet.splits.held_out_users(clicks, valid=600, test=600, random_state=98765)
    return Case(split.train, split.test.query, split.test.target, knows_users=False)


def divided(file: str, folder: Path) -> Case:
    """Clicks with a division of their own."""
    table = pq.read_table(folder / f"{file}.parquet")
    items = np.unique(table["item"].to_numpy())
    train, valid, test = (
        discreet.read(table.filter(pc.equal(table["part"], part)).select(["user", "item"]), items=items)
        for part in ("train", "valid", "test")
    )
    return Case(train, train, test, valid=valid)


def cases(folder: Path) -> dict[str, Callable[[], Case]]:
    """All data sets, by name."""
    return {
        "ml-1m": partial(rated, "ml-1m", (1, 5), 4, folder),
        "ml-100k": partial(rated, "ml-100k", (1, 5), 4, folder),
        "jester": partial(rated, "jester-1", (-10, 10), 5, folder, scale=0.01),
        "anime": partial(rated, "anime-5000users", (1, 10), 8, folder),
        "movietweetings": partial(rated, "movietweetings-100k", (0, 10), 8, folder),
        "ml-100k-later": partial(later, "ml-100k", (1, 5), 4, folder),
        "movietweetings-later": partial(later, "movietweetings-100k", (0, 10), 8, folder),
        "ml-1m-clicks": partial(held_out, folder),
        "citeulike": partial(divided, "citeulike", folder),
        "amazon-sports": partial(divided, "amazon-sports", folder),
    }


# -- models: what `discreet.evaluate` needs of one


class Lists(NamedTuple):
    """Recommended items, user by user, the best first."""

    indptr: Array
    numbers: Array

    @classmethod
    def of(cls, users: Array, numbers: Array, n_users: int) -> "Lists":
        """From pairs in order."""
        return cls(np.concatenate([[0], np.cumsum(np.bincount(users, minlength=n_users))]), numbers)


def unrated(users: Array, numbers: Array, past: discreet.Interactions, n: int) -> Lists:
    """The first n of each user's items that are not in their history."""
    seen = past.user_numbers().astype(np.int64) * past.n_items + past.indices
    new = ~np.isin(users * past.n_items + numbers, seen)
    users, numbers = users[new], numbers[new]
    starts = np.concatenate([[0], np.cumsum(np.bincount(users, minlength=past.n_users))])[:-1]
    first = np.arange(len(users)) - starts[users] < n
    return Lists.of(users[first], numbers[first], past.n_users)


@dataclass(frozen=True)
class OnLiked:
    """A model of clicks that is asked with ratings: what is liked is its history, and nothing rated is recommended."""

    model: Any
    liked: float

    @property
    def items_(self) -> Any:
        """The model's."""
        return self.model.items_

    def predict(self, *_: Any, **__: Any) -> Any:
        """It predicts no ratings."""
        raise NotImplementedError

    def recommend(self, past: discreet.Interactions, *, n: int, **options: Any) -> Lists:
        """Lists without rated items."""
        liked = past.to_implicit(self.liked)
        more = int((np.diff(past.indptr) - np.diff(liked.indptr)).max(initial=0))
        found = self.model.recommend(liked, n=min(n + more, past.n_items), **options)
        users = np.repeat(np.arange(past.n_users), np.diff(found.indptr))
        return unrated(users, found.numbers.astype(np.int64), past, n)


@dataclass(frozen=True)
class Scored:
    """A model that gives a score to each item, of users in blocks; nothing in their history is recommended."""

    items_: Any
    score: Callable[[discreet.Interactions], Array]
    predict: Any = None

    def recommend(self, past: discreet.Interactions, *, n: int, **_: Any) -> Lists:
        """The items with the highest scores."""
        best = []
        for start in range(0, past.n_users, 1024):
            part = past.of_users(np.arange(start, min(start + 1024, past.n_users)))
            scores = self.score(part)
            scores[part.user_numbers(), part.indices] = -np.inf
            top = np.argpartition(-scores, min(n, scores.shape[1] - 1), axis=1)[:, :n]
            order = np.argsort(-np.take_along_axis(scores, top, axis=1), axis=1, kind="stable")
            best.append(np.take_along_axis(top, order, axis=1))
        numbers = np.concatenate(best)
        users = np.repeat(np.arange(past.n_users), numbers.shape[1])
        return unrated(users, numbers.ravel(), past, n)


def ease(clicks: discreet.Interactions, seed: int, *, penalty: float) -> Callable[[Array, Any], Array]:
    """EASE: the item-item weights with a zero diagonal that predict each user's clicks best (Steck 2019)."""
    x = clicks.to_scipy().astype(np.float32)
    if x.shape[0] < x.shape[1]:  # by way of the smaller of X X^T and X^T X
        gram = (x @ x.T).toarray()
        gram[np.diag_indices_from(gram)] += penalty
        half = linalg.solve(gram, x.toarray(), assume_a="pos", overwrite_a=True)
        inverse = x.T @ half
        inverse *= np.float32(-1 / penalty)
        inverse[np.diag_indices_from(inverse)] += np.float32(1 / penalty)
    else:
        gram = (x.T @ x).toarray()
        gram[np.diag_indices_from(gram)] += penalty
        factor, _ = linalg.lapack.spotrf(np.asfortranarray(gram), lower=1, overwrite_a=1)
        inverse, _ = linalg.lapack.spotri(factor, lower=1, overwrite_c=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
    weights = inverse / -np.diag(inverse)
    weights[np.diag_indices_from(weights)] = 0
    return lambda users, history: history @ weights


def factorized(
    clicks: discreet.Interactions, seed: int, *, kind: str, **settings: Any
) -> Callable[[Array, Any], Array]:
    """The ALS or BPR of implicit."""
    from implicit.cpu.als import AlternatingLeastSquares
    from implicit.cpu.bpr import BayesianPersonalizedRanking
    from scipy.sparse import csr_matrix

    make = {"als": AlternatingLeastSquares, "bpr": BayesianPersonalizedRanking}[kind]
    with threadpool_limits(1, "blas"):  # as implicit asks for: it has threads of its own
        model = make(random_state=seed, **settings)
        model.fit(csr_matrix(clicks.to_scipy()), show_progress=False)
    return lambda users, history: model.user_factors[users] @ model.item_factors.T


GRIDS: dict[str, tuple[Callable[..., Any], list[dict[str, Any]]]] = {
    "implicit ALS": (
        partial(factorized, kind="als"),
        [
            {"factors": factors, "alpha": alpha, "regularization": penalty}
            for factors in (32, 64, 128)
            for alpha, penalty in ((3.0, 3.0), (3.0, 30.0), (10.0, 10.0), (10.0, 100.0), (40.0, 40.0))
        ],
    ),
    "implicit BPR": (
        partial(factorized, kind="bpr"),
        [
            {"factors": factors, "learning_rate": rate, "regularization": penalty, "iterations": iterations}
            for factors, penalty in product((32, 128), (0.001, 0.01))
            for rate, iterations in ((0.01, 25), (0.01, 50), (0.01, 100), (0.03, 25))
        ],
    ),
    "EASE": (ease, [{"penalty": penalty} for penalty in (20.0, 100.0, 400.0, 1500.0)]),
}


def fitted_peer(case: Case, make: Callable[..., Any], settings: dict[str, Any], seed: int) -> Scored:
    """A peer fitted to the clicks of a case."""
    clicks = case.clicks
    answer = make(clicks, seed, **settings)

    def score(past: discreet.Interactions) -> Array:
        history = past if case.liked is None else past.to_implicit(case.liked)
        users = clicks.users.numbers(past.users.to_arrow(), "users") if case.knows_users else np.zeros(0, np.int64)
        found: Array = np.asarray(answer(users, history.to_scipy().astype(np.float32)))
        return found

    return Scored(clicks.items, score)


# -- measuring


def measured(model: Any, case: Case, metrics: list[str]) -> dict[str, float]:
    """The metrics of one fit."""
    found = discreet.evaluate(
        model,
        case.test,
        history=case.history,
        metrics=metrics,
        relevant=case.liked,
        confidence=None,
        popularity=case.train,
    )
    return dict(found)


def private(name: str, case: Case, epsilon: float, seed: int) -> dict[str, float]:
    """The metrics of a private model, with one draw of the noise."""
    ledger = discreet.Ledger(delta=DELTA, noise_source=InsecureSeededNoise(seed))
    settings = {"objective": "lists"} if name == ONLY_LISTS else {}
    model = getattr(discreet, name.partition(" ")[0])(epsilon=epsilon, delta=DELTA, **settings)
    if name.endswith("clicks") and case.liked is not None:
        return measured(OnLiked(model.fit(case.clicks, ledger=ledger), case.liked), case, LISTS)
    model.fit(case.train, ledger=ledger)
    predicts = case.liked is not None and name not in ("DPPopularity", ONLY_LISTS)
    return measured(model, case, [*LISTS, "rmse"] if predicts else LISTS)


def exact(name: str, case: Case) -> dict[str, float]:
    """The metrics of a model of the library without privacy."""
    model = discreet.MeanRating("both") if name == "MeanRating" else getattr(discreet, name.partition(" ")[0])()
    if name.endswith("clicks") and case.liked is not None:
        return measured(OnLiked(model.fit(case.clicks), case.liked), case, LISTS)
    predicts = case.liked is not None and name != "Popularity"
    return measured(model.fit(case.train), case, [*LISTS, "rmse"] if predicts else LISTS)


def chosen(case: Case, name: str) -> dict[str, Any]:
    """The settings of a peer that are best on the part for that."""
    make, grid = GRIDS[name]
    inner = case.inner()
    tried = [(measured(fitted_peer(inner, make, each, 0), inner, LISTS[:1])[LISTS[0]], each) for each in grid]
    return max(tried, key=lambda pair: pair[0])[1]


PRIVATE = ("Recommender", ONLY_LISTS, "DPALS", "DPSVD on liked clicks", "DPPopularity", "DPMeanRating")
EXACT = ("Popularity", "MeanRating", "ALS", "ALS on liked clicks")
OF_RATINGS = (ONLY_LISTS, "DPALS", "DPSVD on liked clicks", "DPMeanRating", "MeanRating", "ALS on liked clicks")


def rows(case: Case, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The figures of each model and epsilon."""
    for name in options.models:
        if case.liked is None and name in OF_RATINGS:
            continue
        if name in PRIVATE:
            for epsilon in options.epsilons:
                yield summary(name, epsilon, partial(private, name, case, epsilon), options.draws)
        elif name in EXACT:
            yield summary(name, None, lambda seed, name=name: exact(name, case), 1)
        elif case.knows_users and (name == "EASE" or has_implicit()):
            settings = chosen(case, name)
            make = GRIDS[name][0]
            draws = 1 if name == "EASE" else options.draws
            run = partial(
                lambda make, settings, seed: measured(fitted_peer(case, make, settings, seed), case, LISTS),
                make,
                settings,
            )
            yield {**summary(name, None, run, draws), "settings": settings}


def has_implicit() -> bool:
    """Whether the library is installed."""
    try:
        import implicit  # noqa: F401
    except ImportError:
        print("implicit is not installed: left out")
        return False
    return True


def summary(name: str, epsilon: float | None, run: Callable[[int], dict[str, float]], draws: int) -> dict[str, Any]:
    """Mean and standard deviation of each metric over draws."""
    start = time.perf_counter()
    found = [run(seed) for seed in range(draws)]
    seconds = (time.perf_counter() - start) / draws
    metrics = {
        metric: [round(statistics.mean(values), 5), round(statistics.stdev(values), 5) if draws > 1 else 0.0]
        for metric in found[0]
        for values in [[one[metric] for one in found]]
    }
    return {"model": name, "epsilon": epsilon, "draws": draws, **metrics, "seconds": round(seconds, 1)}


def main() -> None:
    """Print the tables, and write them if asked."""
    names = (*PRIVATE, *EXACT, *GRIDS)
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", default=list(cases(Path())), choices=list(cases(Path())))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 5.0, 10.0, 20.0])
    parser.add_argument("--models", nargs="+", default=list(names), choices=list(names))
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(os.environ.get("DISCREET_DATA", "data")))
    parser.add_argument("--out", type=Path, help="where to write; figures of other data and models stay there")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "delta: ")  # it is large for some of these data; the same for all, as in papers
    shown = [*LISTS[:3], "rmse"]
    for name in options.data:
        case = cases(options.folder)[name]()
        print(
            f"\n{name}: {case.train.n_users:,} users, {case.train.n_items:,} items, {len(case.train):,} to learn from"
        )
        print(f"{'':<30}{'epsilon':>8}" + "".join(f"{metric:>18}" for metric in shown) + f"{'seconds':>9}")
        for row in rows(case, options):
            cells = (f"{row[m][0]:.4f} ({row[m][1]:.4f})" if m in row else "-" for m in shown)
            at = "-" if row["epsilon"] is None else f"{row['epsilon']:g}"
            line = f"{row['model']:<30}{at:>8}" + "".join(f"{cell:>18}" for cell in cells)
            print(line + f"{row['seconds']:>9.1f}  {row.get('settings', '')}", flush=True)
            if options.out:
                merge(options.out, name, case, row, names)


def merge(path: Path, data: str, case: Case, row: dict[str, Any], names: tuple[str, ...]) -> None:
    """Write a row in the place of an older one; all others stay in the file."""
    tables = json.loads(path.read_text(encoding="utf-8"))["tables"] if path.exists() else {}
    about = {"users": case.train.n_users, "items": case.train.n_items, "interactions": len(case.train)}
    old = tables.get(data, {}).get("rows", [])
    kept = [one for one in old if (one["model"], one["epsilon"]) != (row["model"], row["epsilon"])]
    new = sorted([*kept, row], key=lambda one: (names.index(one["model"]), one["epsilon"] or 0))
    tables[data] = {**about, "liked": case.liked, "rows": new}
    ordered = {name: tables[name] for name in cases(Path()) if name in tables}
    document = {"version": discreet.__version__, "delta": DELTA, "tables": ordered}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
