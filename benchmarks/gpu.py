"""Whether a GPU would pay: one sweep of ALS, and the best items of all users, on one and on the processor beside it.

    python benchmarks/gpu.py [--copies 2 100] [--threads 16] [--private]

Needs PyTorch and a GPU of NVIDIA's. The library does not use one; here is a simple way to do its work on one
with PyTorch: the table stays in the GPU's memory, rows are cut into segments, Gram matrices are products of a batch in
TF32, systems are solved by a batched Cholesky or by three steps of conjugate gradients. Generated data of
MovieLens-10M's size, each user repeated as often as --copies says: 2 has the size of MovieLens 20M, 100 a billion
interactions. "recommend" folds every user in and finds their 20 best items, what they have seen left out. --private
fits `DPALS` and `DPSVD` on the processor, too, at epsilon 1.
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

try:
    import torch
except ModuleNotFoundError:
    print("PyTorch is not installed, so nothing is measured")
    raise SystemExit(0) from None

import discreet
from als import PENALTY, _seconds, ours
from cores import N, whole_fits

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
NUMBERS = 1 << 29  # of a batch of gathered vectors, or of Gram matrices


@dataclass(frozen=True)
class Rows:
    """A table in the GPU's memory, by rows of users or of items."""

    indptr: torch.Tensor
    indices: torch.Tensor
    values: torch.Tensor
    segment: int  # rows are cut into pieces of so many entries

    @classmethod
    def of(cls, indptr: Any, indices: Any, values: Any, segment: int) -> "Rows":
        """From arrays."""
        return cls(*(torch.tensor(each, device=DEVICE) for each in (indptr, indices, values)), segment)

    def transposed(self, n: int, segment: int) -> "Rows":
        """The same table by columns."""
        order = torch.argsort(self.indices, stable=True)
        ends = torch.cumsum(torch.bincount(self.indices, minlength=n), 0)
        counts = torch.diff(self.indptr)
        owners = torch.repeat_interleave(torch.arange(len(counts), device=DEVICE, dtype=torch.int32), counts)
        indptr = torch.cat([torch.zeros(1, dtype=torch.int64, device=DEVICE), ends])
        return Rows(indptr, owners[order], self.values[order], segment)

    def batches(self, k: int) -> Iterator[tuple[int, int]]:
        """Ranges of rows that fit, at least one row each."""
        segments = torch.cumsum((torch.diff(self.indptr) + self.segment - 1) // self.segment, 0).cpu().numpy()
        first, most = 0, NUMBERS // (self.segment * k)
        while first < len(segments):
            before = segments[first - 1] if first else 0
            last = int(np.searchsorted(segments, before + most, side="right"))
            last = min(max(last, first + 1), first + NUMBERS // (k * k))
            yield first, last
            first = last

    def gathered(self, first: int, last: int, vectors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
        """The row of each segment, its vectors and values; vectors end with a row of zeros."""
        starts, ends = self.indptr[first:last], self.indptr[first + 1 : last + 1]
        pieces = (ends - starts + self.segment - 1) // self.segment
        rows = torch.repeat_interleave(torch.arange(last - first, device=DEVICE), pieces)
        place = torch.arange(len(rows), device=DEVICE) - (torch.cumsum(pieces, 0) - pieces)[rows]
        begin = starts[rows] + self.segment * place
        steps = torch.arange(self.segment, device=DEVICE)
        for piece in torch.arange(len(rows), device=DEVICE).split(max(NUMBERS // (self.segment * vectors.shape[1]), 1)):
            at = begin[piece, None] + steps
            inside = at < ends[rows[piece], None]
            at = torch.where(inside, at, 0)
            columns = torch.where(inside, self.indices[at], len(vectors) - 1)
            yield rows[piece], vectors[columns.long()], torch.where(inside, self.values[at], 0.0)

    def solved(self, vectors: torch.Tensor, last_vectors: torch.Tensor | None) -> torch.Tensor:
        """Ridge regressions of all rows: exact, or by conjugate gradients from the last vectors."""
        k = vectors.shape[1]
        found = torch.zeros((len(self.indptr), k), device=DEVICE)  # and a row of zeros
        for first, last in self.batches(k):
            pieces = list(self.gathered(first, last, vectors))
            right = torch.zeros((last - first, k), device=DEVICE)
            for rows, gathered, values in pieces:
                right.index_add_(0, rows, torch.bmm(values[:, None], gathered)[:, 0])
            if last_vectors is None:
                gram = torch.zeros((last - first, k, k), device=DEVICE)
                for rows, gathered, _ in pieces:
                    gram.index_add_(0, rows, torch.bmm(gathered.mT, gathered))
                gram.diagonal(dim1=1, dim2=2).add_(PENALTY)
                factors = torch.linalg.cholesky_ex(gram).L
                found[first:last] = torch.cholesky_solve(right[:, :, None], factors)[:, :, 0]
            else:
                found[first:last] = _by_gradients(pieces, right, last_vectors[first:last].clone())
        return found


def _by_gradients(pieces: list[Any], right: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Three steps of conjugate gradients."""

    def times(p: torch.Tensor) -> torch.Tensor:
        product = PENALTY * p
        for rows, gathered, _ in pieces:
            product.index_add_(0, rows, torch.bmm(torch.bmm(gathered, p[rows, :, None]).mT, gathered)[:, 0])
        return product

    rest = right - times(x)
    p, size = rest.clone(), (rest * rest).sum(1)
    for _ in range(3):
        product = times(p)
        step = size / (p * product).sum(1).clamp_min(1e-20)
        x, rest = x + step[:, None] * p, rest - step[:, None] * product
        size, before = (rest * rest).sum(1), size
        p = rest + (size / before.clamp_min(1e-20))[:, None] * p
    return x


def sweep(users: Rows, items: Rows, vectors: torch.Tensor, warm: tuple[torch.Tensor | None, ...]) -> torch.Tensor:
    """One step of ALS, from vectors of items, and last vectors of both for conjugate gradients."""
    return items.solved(users.solved(vectors, warm[0]), warm[1])


def best_items(users: Rows, items: torch.Tensor, n: int) -> torch.Tensor:
    """Fold all users in, and find the numbers of their n best items but those they have."""
    vectors, scored = users.solved(items, None), items[:-1].T.contiguous()
    found = torch.empty((len(users.indptr) - 1, n), dtype=torch.int32)
    for first in range(0, len(found), 1 << 15):
        last = min(first + (1 << 15), len(found))
        scores = vectors[first:last] @ scored
        entries = slice(int(users.indptr[first]), int(users.indptr[last]))
        counts = torch.diff(users.indptr[first : last + 1])
        rows = torch.repeat_interleave(torch.arange(last - first, device=DEVICE), counts)
        scores[rows, users.indices[entries].long()] = -torch.inf
        found[first:last] = torch.topk(scores, n).indices.to("cpu", torch.int32)
    return found


def timed(work: Callable[[], Any], rounds: int = 2) -> float:
    """The smallest of some times, the GPU's work included."""

    def finished(_: int) -> None:
        work()
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()

    return min(_seconds(finished, 0) for _ in range(rounds))


def repeated(data: Any, copies: int) -> Any:
    """Each user as often."""
    indptr = np.concatenate([[0], np.cumsum(np.tile(np.diff(data.indptr), copies))])
    users = discreet.data.catalogue.Ids(np.arange(data.n_users * copies))
    arrays = {"indices": np.tile(data.indices, copies), "values": np.tile(data.values, copies)}
    return replace(data, users=users, indptr=indptr, **arrays)


def compare(data: Any, ranks: list[int], threads: int, *, private: bool) -> None:
    """Print seconds on the processor, on the GPU, and their ratio."""
    print(f"\n{len(data):,} interactions, {data.n_users:,} users, {data.n_items:,} items", flush=True)

    def line(what: str, here: float, there: float) -> None:
        ratio = f"{here / there:6.2f} times as fast"
        print(f"{what:24} {here:9.3f} s on {threads} threads {there:9.3f} s on {DEVICE}: {ratio}", flush=True)

    for name, fit in whole_fits(data).items() if private else ():
        print(f"{name:24} {timed(partial(fit, threads), 1):9.3f} s on {threads} threads", flush=True)
    data.by_item  # noqa: B018  # made when first asked for
    users = Rows.of(data.indptr, data.indices.astype(np.int32), data.values, 64)
    items = users.transposed(data.n_items, 512)
    few = 1 if len(data) > 1e8 else 2
    for rank in ranks:
        start = torch.randn((data.n_items + 1, rank), device=DEVICE) * 0.1
        start[-1] = 0
        seen = users.solved(start, None)
        for solver in ("exact", "cg"):
            steps = [timed(partial(ours, data, rank, solver, threads, n), 1) for n in (1, 1 + few)]
            warm = (None, None) if solver == "exact" else (seen, start)
            there = timed(partial(sweep, users, items, start, warm))
            line(f"sweep, rank {rank}, {solver}", (steps[1] - steps[0]) / few, there)
        model = discreet.ALS(rank, biases=False, n_steps=1, n_jobs=threads).fit(data)
        line(
            f"recommend, rank {rank}",
            timed(partial(model.recommend, data, n=N), 1),
            timed(partial(best_items, users, start, N), 1),
        )


def main() -> None:
    """Print a table."""
    if DEVICE.type == "cpu":
        print("There is no GPU here, so nothing is measured")
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--copies", type=int, nargs="+", default=[2, 100])
    parser.add_argument("--ratings", type=float, default=10e6)
    parser.add_argument("--ranks", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--private", action="store_true")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    n = int(options.ratings)
    data = discreet.datasets.movielens_like(int(n * 0.0069878), 10_677, n, random_state=0)
    for copies in options.copies:
        compare(repeated(data, copies), options.ranks, options.threads, private=options.private)


if __name__ == "__main__":
    main()
