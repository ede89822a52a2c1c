"""The 20 best items of all users, side by side with implicit's recommender in one run; the approximate index; memory.

    python benchmarks/recommend.py [--ranks 32 128] [--repeats 3]

Data of MovieLens-10M's size, float32, two threads, what users have seen left out. Both libraries score with the same
vectors, and their lists are compared. implicit keeps users' vectors in its model; ours does not, and folds every user
in from their history first: "fold-in" is that alone, "best 20" the rest. "implicit, new" is implicit folding in too,
measured on some users. The two take turns, and the smallest time of each counts.
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as implicit asks for: it has threads of its own

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import implicit
import numpy as np

import discreet

THREADS, N, SOME = 2, 20, 4000
HEADINGS = (
    "rank",
    "fold-in",
    "best 20",
    "ours",
    "implicit",
    "implicit, new",
    "implicit/ours",
    "implicit/best",
    "new/ours",
)


def seconds(work: Callable[[], Any]) -> float:
    """How long it takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def theirs(model: Any, data: discreet.Interactions) -> Any:
    """A model of implicit's with our vectors."""
    rank = model.item_factors_.shape[1]
    other = implicit.cpu.als.AlternatingLeastSquares(factors=rank, num_threads=THREADS, random_state=0)
    other.item_factors = model.item_factors_.copy()
    other.user_factors = model.embed(data)
    return other


def speed(model: Any, data: discreet.Interactions, matrix: Any, repeats: int) -> list[float]:
    """Seconds of: folding in, all of ours, implicit's with known users, implicit's with new ones."""
    other, users = theirs(model, data), np.arange(data.n_users)
    options: dict[str, Any] = {"N": N, "filter_already_liked_items": True}
    works = [
        lambda: model.embed(data),
        lambda: model.recommend(data, N),
        lambda: other.recommend(users, matrix, **options),
        lambda: other.recommend(users[:SOME], matrix[:SOME], recalculate_user=True, **options),
    ]
    times = [[seconds(work) for work in works] for _ in range(repeats)]
    best = [min(column) for column in zip(*times, strict=True)]
    same = model.recommend(data, N).numbers.reshape(-1, N) == other.recommend(users, matrix, **options)[0]
    assert same.mean() > 0.999, "the two do not recommend the same"
    return [*best[:3], best[3] * data.n_users / SOME]


def index(model: Any, data: discreet.Interactions) -> str:
    """Recall and speed of the approximate index, against exact search with the same queries."""
    some = data.of_users(np.arange(0, data.n_users, max(1, data.n_users // SOME)))
    start = time.perf_counter()
    ann = model.ann_index()
    built = time.perf_counter() - start
    queries, (_, vectors) = model.query_vector(some), model.export_vectors()
    exact = model.recommend(some, N, exclude_seen=False).numbers.reshape(-1, N)
    found: list[Any] = []
    searching = min(seconds(lambda: found.append(ann.search(queries, N))) for _ in range(3))
    scanning = min(seconds(lambda: np.argpartition(queries @ vectors.T, -N, axis=1)) for _ in range(3))
    recall = np.mean([len(np.intersect1d(a, b)) / N for a, b in zip(exact, found[0], strict=True)])
    return (
        f"  usearch index: recall@{N} {recall:.3f}, {len(queries) / searching:,.0f} queries a second "
        f"(NumPy's product and argpartition: {len(queries) / scanning:,.0f}), built in {built:.1f} s"
    )


def memory(model: Any, data: discreet.Interactions) -> str:
    """The most memory that arrays of a batch took at once, those of the result included."""
    tracemalloc.start()
    model.recommend(data, N)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    scores = data.n_users * data.n_items * 4 / 1e6
    return f"  memory of a batch: peak {peak:.0f} MB, where all scores at once would be {scores:,.0f} MB"


def latency(model: Any, data: discreet.Interactions) -> float:
    """Milliseconds for one user with 20 items, the median of many."""
    items, rng = data.items.to_list(), np.random.default_rng(0)
    histories = [{items[at]: 4.0 for at in rng.choice(len(items), 20, replace=False)} for _ in range(200)]
    return float(np.median([seconds(lambda history=history: model.recommend(history)) for history in histories])) * 1e3


def main() -> None:
    """Print a table of seconds and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--users", type=int, default=69_878)
    parser.add_argument("--items", type=int, default=10_677)
    parser.add_argument("--ratings", type=int, default=10_000_000)
    options = parser.parse_args()
    data = discreet.datasets.movielens_like(options.users, options.items, options.ratings, random_state=0)
    matrix = data.to_scipy()
    print(f"{len(data):,} ratings, {data.n_users:,} users, {data.n_items:,} items; seconds, {THREADS} threads")
    print("".join(f"{heading:>15}" for heading in HEADINGS))
    for rank in options.ranks:
        model = discreet.ALS(rank, biases=False, n_steps=2, n_jobs=THREADS).fit(data)
        fold, ours, known, new = speed(model, data, matrix, options.repeats)
        best = ours - fold
        cells = [fold, best, ours, known, new, known / ours, known / best, new / ours]
        print(f"{rank:>15}" + "".join(f"{cell:15.2f}" for cell in cells), flush=True)
        print(memory(model, data))
        print(f"  one user with 20 items: {latency(model, data):.2f} ms")
        print(index(model, data), flush=True)


if __name__ == "__main__":
    main()
