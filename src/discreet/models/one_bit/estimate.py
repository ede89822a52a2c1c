"""The public side: from noisy bits to effects of rows and columns, a low-rank matrix, and item vectors.

Maximum likelihood in the nuclear-norm ball uses a spectral projected gradient method (Birgin, Martinez, Raydan 2000).
Iterates are kept as singular vectors and values, and the gradient is sparse, so a step never forms all entries. Steps
have the Barzilai-Borwein length. The loss may rise for a while: only the worst of the last few values must fall. A step
is projected on the ball (`matrices`).

The method of multipliers bounds all entries, |x| <= alpha: the loss gets a term for entries beyond the bound, and is
minimized again from the same place, with updated multipliers. The entries beyond the bound are sparse.

Everything here is post-processing of releases. Nothing uses a true bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from discreet.models.fold_in import Penalty, Ridge
from discreet.models.one_bit.likelihood import Counts, Loss, Observed
from discreet.models.one_bit.matrices import Excess, Factored, Moved, nuclear_ball
from discreet.parallel import single_threaded_blas
from discreet.typing import Array

MEMORY = 10  # number of earlier losses that a step is compared with
DECREASE = 1e-4  # fraction of the predicted decrease that a step must achieve
SHORTEST, LONGEST = 1e-10, 1e10  # steps
SEED = 0  # of the random start of subspace iteration
STIFF = 12.0  # weight of the term for entries beyond the bound, times the curvature of the loss
MULTIPLIER_ROUNDS = 20  # the most rounds
MOST_DENSE = 400  # up to this number of rows or columns, LAPACK finds the largest singular value faster
UP = 1 + 1e-9  # covers rounding errors in the largest singular value
FACTOR_SWEEPS = 12  # sweeps over both sides
FACTOR_RIDGE = 0.1  # ridge, times the curvature of the loss, so that rows with few entries have a solution
FACTOR_START = 0.1  # initial length of rows, relative to the bound
EFFECT_ROUNDS = 3  # alternating between effects and matrix
EFFECT_SWEEPS = (30, 10)  # over the effects, in the first round and in each later one
EFFECT_PENALTY = 2.0  # 1 / the prior variance of effects of rows and columns
COUNT_SWEEPS = 30  # over the effects of columns, if these follow from counts
LONGEST_EFFECT = 2.0  # the longest step of an effect
SHARE = 0.5  # factor of tau if there are effects, which explain part of the matrix
LEAST_PENALTY = 1e-3  # the least penalty of users' vectors
MAX_RANK = 64  # more would fit noise, and be too slow for large matrices


@dataclass(frozen=True)
class Problem:
    """The loss of base + X at observed entries, for |X|_* <= radius and, if alpha is given, |x| <= alpha."""

    observed: Observed
    loss: Loss
    radius: float
    base: Array | float = 0.0
    alpha: float | None = None
    max_rank: int | None = None
    multipliers: Excess = field(default_factory=Excess.none)

    def at(self, matrix: Factored, excess: Excess | None = None) -> Solution:
        """The loss and its derivatives at a matrix; `excess`, if it is known already."""
        x = matrix.at(self.observed.rows, self.observed.columns)
        loss, slopes = self.loss(self.base + x)
        if excess is None and self.alpha is not None:
            excess = Excess.of(matrix, self.alpha, self.multipliers, STIFF * self.loss.curvature)
        return Solution(matrix, x, loss, slopes, excess or Excess.none())

    def step(self, now: Solution, length: float, rng: np.random.Generator) -> Solution:
        """A step against the gradient, projected on the ball."""
        moved = Moved(now.matrix, now.gradient(self.observed, -length))
        return self.at(nuclear_ball(moved, self.radius, now.matrix, rng, self.max_rank))


@dataclass(frozen=True)
class Solution:
    """A matrix, its observed entries x, their loss and its derivatives, and the entries beyond the bound."""

    matrix: Factored
    x: Array
    loss: float
    slopes: Array
    excess: Excess
    steps: int = 0

    @property
    def value(self) -> float:
        """The objective: the loss, plus the term for entries beyond the bound."""
        return self.loss + self.excess.penalty

    def gradient(self, observed: Observed, factor: float = 1.0) -> csr_array:
        """The gradient of the objective, times a factor."""
        data = np.concatenate([self.slopes, self.excess.pulls]) * factor
        rows = np.concatenate([observed.rows, self.excess.rows])
        columns = np.concatenate([observed.columns, self.excess.columns])
        return csr_array((data, (rows, columns)), shape=observed.shape)

    def along(self, start: Solution, end: Solution) -> float:
        """The inner product of the gradient here with end - start."""
        at = (self.excess.rows, self.excess.columns)
        way = end.matrix.at(*at) - start.matrix.at(*at)
        return float(self.slopes @ (end.x - start.x) + self.excess.pulls @ way)

    def multiplier(self, problem: Problem) -> float:
        """How fast the loss falls with the radius: the weight of an equivalent nuclear-norm penalty."""
        fall = -float(self.slopes @ self.x)
        fall -= (problem.alpha or 0.0) * float(np.abs(self.excess.pulls).sum())
        return max(fall / max(float(self.matrix.values.sum()), 1e-300), 0.0)

    def gap(self, problem: Problem) -> float:
        """No feasible matrix has a loss that is lower by more than this, if the loss is convex.

        With the gradient G at X, the loss of a matrix Z is at least the loss of X plus <G, Z - X>. For any B, such as
        the multipliers, <-G, Z> = <-G - B, Z> + <B, Z> is at most radius |G + B| + alpha sum |B_ij|.
        """
        outside = (problem.alpha or 0.0) * float(np.abs(self.excess.pulls).sum())
        gradient = self.gradient(problem.observed)
        if min(gradient.shape) <= MOST_DENSE:
            norm = float(np.linalg.norm(gradient.toarray(), 2))
        else:
            start = np.random.default_rng(SEED).standard_normal(min(gradient.shape))
            norm = float(svds(gradient, 1, v0=start, return_singular_vectors=False)[0])
        return max(float(self.slopes @ self.x) + problem.radius * norm * UP + outside, 0.0)


def minimize(
    problem: Problem, *, start: Factored | None = None, tolerance: float = 1e-3, max_steps: int = 200, gap: float = 1e-3
) -> Solution:
    """Minimize the loss, from `start` on. With `max_rank`, time is bounded, but the problem is not convex.

    It stops when a step changes X by at most `tolerance`, relative to its length. With a bound on entries this ends a
    round, and the last round has a certified gap of at most `gap` for each observed entry.
    """
    now, steps = problem.at(start or Factored.zeros(problem.observed.shape)), 0
    for _ in range(1 if problem.alpha is None else MULTIPLIER_ROUNDS):
        now, more = _descend(problem, problem.at(now.matrix), tolerance, max_steps)
        steps += more
        found = now
        if problem.alpha is not None and now.excess.largest > problem.alpha:  # shrink all entries to alpha
            found = problem.at(now.matrix.scaled(problem.alpha / now.excess.largest), now.excess)
        if problem.alpha is None or found.gap(problem) <= gap * len(problem.observed):
            break
        problem = replace(problem, multipliers=now.excess)
    return replace(found, steps=steps)


def _descend(problem: Problem, now: Solution, tolerance: float, max_steps: int) -> tuple[Solution, int]:
    """Make spectral projected gradient steps. Returns the solution and the number of steps."""
    rng = np.random.default_rng(SEED)
    recent, length, steps = [now.value], 1 / problem.loss.curvature, 0
    while steps < max_steps:
        steps += 1
        while True:
            trial = problem.step(now, length, rng)
            promised = now.along(now, trial)
            if trial.value <= max(recent) + DECREASE * promised or length <= SHORTEST:
                break
            length /= 2
        apart = trial.matrix.distance(now.matrix) ** 2
        bent = trial.along(now, trial) - promised
        length = min(max(apart / bent, SHORTEST), LONGEST) if bent > 0 else LONGEST
        now = trial
        recent = [*recent, now.value][-MEMORY:]
        if apart <= (tolerance**2) * max(now.matrix.inner(now.matrix), 1e-300):
            break
    return now, steps


def factorize(problem: Problem, bound: float, rank: int, start: Factored, n_jobs: int | None) -> Factored:
    """For matrices too large for singular vectors: U V^T with a low loss and rows of length at most sqrt(bound).

    The bound is on the max-norm, the least max |u_i| max |v_j| over all factorizations, instead of the nuclear norm. A
    matrix of rank r with entries up to alpha satisfies the bound alpha sqrt(r), which implies a nuclear norm of at most
    alpha sqrt(d1 d2 r). The problem is not convex: the result depends on the start, and no gap is certified.

    Rows of U and V are updated in turn, each by a ridge regression on the minima of tangent parabolas with the largest
    curvature of the loss. Rows that are too long are shortened.
    """
    observed, loss, length = problem.observed, problem.loss, math.sqrt(bound)
    rng, roots = np.random.default_rng(SEED), np.sqrt(start.values[:rank])
    factors = []
    for vectors in (start.left, start.right):  # padded with random columns
        random = rng.standard_normal((len(vectors), rank - len(roots))) * (FACTOR_START * length / math.sqrt(rank))
        factors.append(np.hstack([vectors[:, :rank] * roots, random]).astype(np.float32))
    by_column = np.lexsort((observed.rows, observed.columns))
    sides = (
        (np.arange(len(observed)), observed.rows, observed.columns, observed.shape[0]),
        (by_column, observed.columns, observed.rows, observed.shape[1]),
    )
    for turn in range(2 * FACTOR_SWEEPS):
        order, owners, others, size = sides[turn % 2]
        mine, theirs = factors[turn % 2], factors[1 - turn % 2]
        x = np.zeros(len(owners))
        for k in range(rank):  # column by column: no array of entries x rank
            x += mine[owners, k] * theirs[others, k]
        slopes = loss(problem.base + x)[1]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=size))])
        ridge = Ridge(theirs, np.zeros(len(theirs), np.float32), Penalty(FACTOR_RIDGE))
        found = ridge.solve(indptr, others[order], (x - slopes / loss.curvature)[order], n_jobs=n_jobs)[1]
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        factors[turn % 2] = found * np.minimum(1, length / np.maximum(lengths, 1e-30)).astype(found.dtype)
    return Factored.product(factors[0].astype(np.float64), factors[1].astype(np.float64))


@dataclass(frozen=True)
class Effects:
    """level + rows_i + columns_j: the main effects of an entry's row and column."""

    level: float
    rows: Array
    columns: Array

    @classmethod
    def none(cls, shape: tuple[int, int]) -> Effects:
        return cls(0.0, np.zeros(shape[0]), np.zeros(shape[1]))

    def at(self, rows: Array, columns: Array) -> Array:
        return np.asarray(self.level + self.rows[rows] + self.columns[columns])

    @classmethod
    def by_counts(cls, observed: Observed, counts: Counts) -> Effects:
        """Effects of columns only, from the number of ones in each column."""
        effects, nothing = cls.none(observed.shape), np.zeros(len(observed))
        for _ in range(COUNT_SWEEPS):
            effects = effects._counted(observed, counts, nothing)
        return effects

    def _counted(self, observed: Observed, counts: Counts, x: Array) -> Effects:
        """Better level and effects of columns, so that expected numbers of ones approach the noisy counts.

        Each gets one step of Newton's method. Noise of a count raises the penalty on the effect of its column.
        """
        link, size = counts.link, len(self.columns)
        n = np.bincount(observed.columns, minlength=size)
        penalty = EFFECT_PENALTY * (1 + 4 * counts.variance / np.maximum(n, 1)) / (4 * link.slope)
        fitted = x + self.at(observed.rows, observed.columns)
        expected, bends = (np.bincount(observed.columns, f(fitted), size) for f in (link.probability, link.density))
        left = counts.ones - expected
        noise = float(np.broadcast_to(counts.variance, size).sum())  # of the total, which says how high the level is
        pull = EFFECT_PENALTY * (1 + 4 * noise / max(len(x), 1)) / (4 * link.slope)
        level = _limited((left.sum() - pull * self.level) / (float(bends.sum()) + pull))
        columns = _limited((left - level * bends - penalty * self.columns) / (bends + penalty))
        return Effects(self.level + float(level), self.rows, self.columns + columns)

    def refined(self, observed: Observed, loss: Loss, x: Array, sweeps: int, counts: Counts | None = None) -> Effects:
        """Better effects, given x: coordinate descent, with steps for the largest curvature.

        With counts, the level and effects of columns follow from these.
        """
        level, rows, columns = self.level, self.rows, self.columns
        bend, penalty = loss.curvature, EFFECT_PENALTY * loss.dispersion
        per_row, per_column = (
            bend * np.bincount(index, minlength=size) + penalty
            for index, size in zip((observed.rows, observed.columns), observed.shape, strict=True)
        )

        def slopes() -> Array:
            return loss(x + Effects(level, rows, columns).at(observed.rows, observed.columns))[1]

        for _ in range(sweeps):
            if counts is None:
                level -= float(slopes().mean()) / bend
                sums = np.bincount(observed.columns, slopes(), len(columns))
                columns = columns - (sums + penalty * columns) / per_column
            else:
                found = Effects(level, rows, columns)._counted(observed, counts, x)
                level, columns = found.level, found.columns
            sums = np.bincount(observed.rows, slopes(), len(rows))
            rows = rows - (sums + penalty * rows) / per_row
        return Effects(level, rows, columns)


def _limited(steps: Any) -> Any:
    """Steps of Newton's method, no longer than where it converges from anywhere nearby."""
    return np.clip(steps, -LONGEST_EFFECT, LONGEST_EFFECT)


@dataclass(frozen=True)
class Completed:
    """The result: x_ij = effects_ij + matrix_ij, and the penalty of users' vectors."""

    effects: Effects
    matrix: Factored
    penalty: float

    @classmethod
    def of_matrix(cls, matrix: Factored, penalty: float | None = None) -> Completed:
        """A matrix without effects.

        The penalty is by default 1 / the mean square of users' vectors: left singular vectors times the square roots of
        the singular values.
        """
        if penalty is None:
            penalty = matrix.shape[0] / float(matrix.values.mean()) if matrix.rank else 1.0
        return cls(Effects.none(matrix.shape), matrix, penalty)

    def item_vectors(self) -> Array:
        """Vectors v_j such that a user's vector u, in x_j = u . v_j, has the penalty |u|^2 / 2.

        The nuclear norm is the minimum of (|U|^2 + |V|^2) / 2 over all U V^T = X, attained by singular vectors times
        square roots of singular values. So a row of X minimizes its own loss plus penalty / 2 |u|^2, given V.
        """
        return self.matrix.right * np.sqrt(self.matrix.values / self.penalty)

    def at(self, rows: Array, columns: Array) -> Array:
        return self.effects.at(rows, columns) + self.matrix.at(rows, columns)


def default_radius(shape: tuple[int, int], alpha: float, rank: int, *, clarity: float, effects: bool) -> float:
    """The default of tau: alpha sqrt(d1 d2 r), the bound for rank r and entries up to alpha, times clarity^2.

    The less informative the noisy bits, the more of the fit would be noise. Effects of rows and columns explain part of
    the matrix, so with them it is half as much.
    """
    return alpha * math.sqrt(shape[0] * shape[1] * rank) * clarity**2 * (SHARE if effects else 1.0)


def complete(
    observed: Observed,
    loss: Loss,
    radius: float,
    *,
    effects: bool,
    counts: Counts | None = None,
    alpha: float | None = None,
    rank: int | None = None,
    n_jobs: int | None = 1,
) -> Completed:
    """The most likely matrix of nuclear norm at most `radius`; with `effects`, plus a number for each row and column.

    Effects have a penalty of their own, EFFECT_PENALTY / 2 times their squares (more, if the loss is dispersed). Those
    of columns follow from `counts` and the noisy bits, if there are counts. With
    `alpha`, the matrix has entries up to alpha. With `rank`, it is the result of `factorize` with a max-norm of
    radius / sqrt(d1 d2), which also bounds the nuclear norm.
    """
    effect = Effects.none(observed.shape)
    known = None if counts is None else counts.with_bits(observed, loss)
    start, x = Factored.zeros(observed.shape), np.zeros(len(observed))
    with single_threaded_blas():
        for turn in range(EFFECT_ROUNDS if effects else 1):
            if effects:
                effect = effect.refined(observed, loss, x, EFFECT_SWEEPS[turn > 0], known)
            problem = Problem(observed, loss, radius, effect.at(observed.rows, observed.columns), alpha, MAX_RANK)
            if rank is None:
                found = minimize(problem, start=start)
            else:
                bound = radius / math.sqrt(math.prod(observed.shape))
                found = problem.at(factorize(problem, bound, rank, start, n_jobs))
            start, x = found.matrix, found.x
    # The multiplier of the constraint, larger if item vectors come from noisier bits than a user's own.
    penalty = found.multiplier(problem) / loss.clarity
    return Completed(effect, found.matrix, max(penalty, LEAST_PENALTY))
