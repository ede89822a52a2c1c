"""The only way from users' contributions to public arrays: a statistic, summed exactly, is released under a plan."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from discreet import kernels
from discreet.errors import PrivacyError
from discreet.kernels import RowFunction, SharedRows
from discreet.privacy.entries import AsPrinted, EntryStatistic, Minimizer, PerturbedMinimizer, matrix_noise, noise_std
from discreet.privacy.guarantee import Adjacency, Cost, require_adjacency
from discreet.privacy.ledger import Reservation
from discreet.privacy.noise import Gaussian, GridArray, Noise
from discreet.privacy.selection import poisson_sample
from discreet.privacy.set_union import SetUnion, Threshold
from discreet.privacy.statistics import ExactSum, Stacked, Statistic
from discreet.typing import Array
from discreet.validation import positive

Contribution = Callable[[Any], Any]  # computed for a batch of users, from their own rows and public values


@dataclass(frozen=True)
class Encoded:
    """Computes a batch's contribution in grid units; it can be sent to other machines."""

    encoder: ExactSum  # with grids
    contribution: Contribution

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the sum."""
        return self.encoder.shape

    def __call__(self, batch: Any) -> Any:
        """The encoded contributions of a batch."""
        if isinstance(self.contribution, RowFunction):
            total = np.zeros(self.shape, np.int64)
            self.add_batch(total, batch)
            return total
        return self.encoder.encode(batch, self.contribution(batch))

    def add(self, total: Array, encoded: Any, n_jobs: int | None) -> Array:
        """The total with one batch added."""
        return self.encoder.add(total, encoded, n_jobs)

    def add_batch(self, total: Array, batch: Any) -> None:
        """Add a batch's contribution to the total, in place; for `SharedRows`, that of the blocks a thread takes."""
        if not isinstance(self.contribution, RowFunction):
            self.encoder.add_batch(total, batch, self.contribution(batch))
            return
        totals = self.encoder.totals(total, self.contribution.kind)
        shared = isinstance(batch, SharedRows)
        for rows in (batch,) if shared else SharedRows(batch.indptr, batch.indices, batch.values).turns:
            kernels.add_up(rows, self.contribution, *totals)


class Users(Protocol):
    """All users' rows, a batch at a time, on this or other machines."""

    def add_up(self, work: Encoded, n_jobs: int | None) -> Array:
        """The exact sum over batches of `work(batch)`, added up with `work.add`."""
        ...


@dataclass(frozen=True)
class Noisy:
    """A released array and its noise's standard deviation (over sqrt 2 off the diagonal of a symmetric matrix)."""

    values: Array
    std: float


def mean_of(releases: Sequence[Noisy]) -> Noisy:
    """The mean of several releases of the same sums, weighted by inverse variance."""
    std = sum(one.std**-2 for one in releases) ** -0.5
    return Noisy(sum(one.values / one.std**2 for one in releases) * std**2, std)


def noise_edge(std: float, n_items: Any) -> Any:
    """The asymptotic largest eigenvalue of symmetric noise with variance std^2 on the diagonal, std^2 / 2 elsewhere."""
    return std * np.sqrt(2.0 * n_items)


def edge_of_rows(squares: Array) -> float:
    """The largest eigenvalue, asymptotically, of symmetric noise with entries of variance a_i a_j.

    `squares` has the sum of variances of each row. By the resolvent of the noise, the spectrum ends at the minimum of
    u sqrt(sum over i of a_i / (u - a_i)) over u above the largest a_i. With n items whose a_i are 1, this is 2 sqrt(n).
    Items that many users rate, or rate strongly, move it up.
    """
    total = float(squares.sum())
    if not total:
        return 0.0
    a = squares / total**0.5
    u = a.max() * (1 + np.geomspace(1e-4, 1e4, 300))  # flat about its least value: this is near enough
    return float((u * np.sqrt((a / (u[:, None] - a)).sum(axis=1))).min())


def clear_of(edge: Any, n: Any) -> Any:
    """The level that the largest of n noise eigenvalues exceeds with probability 1% (Tracy-Widom law)."""
    return edge * (1 + n ** (-2 / 3))


def without_noise(values: Any, edge: float) -> Any:
    """Invert how noise with this edge inflates eigenvalues above it: it turns t into t + edge^2 / 4t."""
    return (values + np.sqrt(values**2 - edge**2)) / 2


@dataclass(frozen=True)
class Releaser:
    """Releases statistics of users under a plan whose cost is set aside. Private models learn only through it.

    Contributions are computed a batch of users at a time, and may use only a user's own rows and public values. In all
    of its methods, `label` is a line of the plan.

    Attributes:
        reservation: Pays for the releases.
        adjacency: The adjacency of the guarantee.
        n_jobs: Number of threads, as in scikit-learn.
        progress: Called after each release with 1 (or the fraction of a planned release that it is) and the label.
        unproved: Whether to accept sensitivities that a paper prints but that are wrong. Then there is no guarantee.
    """

    reservation: Reservation
    adjacency: str
    n_jobs: int | None
    progress: Callable[[int | Fraction, str], None] | None = None
    unproved: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", require_adjacency(self.adjacency, *Adjacency))

    def noise(self, label: str, statistic: Statistic) -> Gaussian:
        """The noise that the plan pays for under this label."""
        return self._calibrated(label, statistic)[1]

    def _calibrated(self, label: str, statistic: Statistic, parts: int = 1) -> tuple[float, Gaussian]:
        plan = self.reservation.plan

        def noise_for(sensitivity: float) -> Gaussian:
            return plan.noise(label, sensitivity=sensitivity, symmetric=statistic.symmetric, parts=parts)

        return statistic.calibrated(self.adjacency, noise_for)

    def release(self, label: str, statistic: Statistic, users: Users, contribution: Contribution) -> Noisy:
        """Make the sum over all users of their contributions public, with the noise that the plan pays for."""
        sensitivity, noise = self._calibrated(label, statistic)
        encoder = statistic.encoder(noise.std)
        total = self._sum(encoder, users, contribution)
        return self._released(label, encoder, total, (sensitivity, noise))

    def release_repeatedly(
        self,
        labels: Sequence[str],
        statistic: Statistic,
        users: Users,
        contribution: Contribution,
        *,
        what: str = "",
        parts: int = 1,
    ) -> Iterator[Noisy]:
        """Make one sum public under several labels, each with independent noise that its line of the plan pays for.

        The sum is computed once, on the grid that suits the largest noise. Labels are released as the iterator reaches
        them, so a caller may stop early. If the lines were planned for something else, `what` names the statistic in
        the record and the certificate. With `parts`, each release costs that fraction of a planned one.
        """
        calibrated = [self._calibrated(label, statistic, parts) for label in labels]
        encoder = statistic.encoder(max(noise.std for _, noise in calibrated))
        total = self._sum(encoder, users, contribution)
        for label, declared in zip(labels, calibrated, strict=True):
            yield self._released(label, encoder, total.copy(), declared, what=what, parts=parts)

    def release_together(
        self, statistics: Sequence[tuple[str, Statistic]], users: Users, contribution: Contribution, *, parts: int = 1
    ) -> list[Noisy]:
        """Make several statistics with the same number of columns public, each with its label, in one pass over users.

        `contribution` returns a tuple with the contribution to each. With `parts`, each release costs only that
        fraction of a planned one, so that `parts` releases take the place of one.
        """
        calibrated = [self._calibrated(label, statistic, parts) for label, statistic in statistics]
        pairs = zip(statistics, calibrated, strict=True)
        stacked = Stacked(tuple(statistic.encoder(noise.std) for (_, statistic), (_, noise) in pairs))
        sums = stacked.split(self._sum(stacked, users, contribution))
        return [
            self._released(label, encoder, total.copy(), declared, parts=parts)
            for (label, _), (encoder, total), declared in zip(statistics, sums, calibrated, strict=True)
        ]

    def release_sampled(
        self,
        label: str,
        statistic: Statistic,
        n_users: int,
        users_of: Callable[[npt.NDArray[np.intp]], Users],
        contribution: Contribution,
        *,
        mu: float,
        rate: float,
    ) -> Noisy:
        """Make a statistic of a fresh, secret Poisson sample of the users public. For add-remove adjacency only.

        Each of `n_users` is in the sample with probability `rate`; `users_of` returns the users with the drawn numbers.
        `mu` is the sensitivity divided by the standard deviation of the noise.
        """
        require_adjacency(self.adjacency, Adjacency.ADD_REMOVE)
        sensitivity = statistic.sensitivity(self.adjacency)
        noise = Gaussian.for_cost(Cost.of_mu(mu), sensitivity=sensitivity, symmetric=statistic.symmetric)
        users = users_of(poisson_sample(n_users, rate, self.reservation.noise_source))
        encoder = statistic.encoder(noise.std)
        total = self._sum(encoder, users, contribution)
        return self._released(label, encoder, total, (sensitivity, noise), None if rate == 1 else rate)

    def release_items(
        self, label: str, users: Users, contribution: Contribution, *, n_items: int, most: int
    ) -> tuple[npt.NDArray[np.int64], Array]:
        """Make public which items users have, with the noise and the threshold that the plan pays for.

        Returns the numbers of the items that pass, and their noisy weights. Items that do not pass are numbered, too,
        so the numbers reveal something about them: translate them to ids at once and discard them.
        """
        planned, statistic = self.reservation.plan[label].cost, SetUnion(n_items, most)
        threshold = Threshold(positive("cost.exposure", planned.exposure), most)
        sensitivity = statistic.sensitivity(self.adjacency)
        noise = Gaussian.for_cost(Cost(planned.gaussian, 1), sensitivity=sensitivity)
        encoder = statistic.encoder(noise.std)
        total = GridArray(self._sum(encoder, users, contribution), encoder.grid)
        places, noisy = self._public(label, total, sensitivity, noise, threshold=threshold)
        return places.astype(np.int64), noisy

    def _sum(self, encoder: ExactSum, users: Users, contribution: Contribution) -> Array:
        return users.add_up(Encoded(encoder, contribution), self.n_jobs)

    def _released(
        self,
        label: str,
        encoder: Statistic,
        total: Array,
        declared: tuple[float, Gaussian],
        rate: float | None = None,
        *,
        what: str = "",
        parts: int = 1,
    ) -> Noisy:
        if total.shape != encoder.shape or total.dtype != np.int64:
            raise PrivacyError(f"label: {label!r} was added up to another shape or type than its statistic has")
        sums, (sensitivity, noise) = GridArray(encoder.finish(total), encoder.grid, spare=True), declared
        return Noisy(self._public(label, sums, sensitivity, noise, parts, rate=rate, what=what), noise.std)

    def release_entries(self, label: str, statistic: EntryStatistic, bits: Array, noise: Noise) -> Array:
        """Make a statistic of the secret bits of all entries public, with noise that the plan pays for.

        If the statistic is `secret`, the result is for the caller alone, who must not pass it on.
        """
        if isinstance(statistic, AsPrinted) and not self.unproved:
            raise PrivacyError(f"label: {label!r} has no proof; nothing was released")
        if statistic.secret and self.reservation.keeps_releases:
            raise PrivacyError(f"checkpoint: {label!r} must stay secret, but a checkpoint would keep it")
        sensitivity = statistic.sensitivity(self.adjacency, noise)
        return self._public(label, statistic.integers(bits, noise), sensitivity, noise)

    def release_matrix(self, label: str, statistic: Minimizer | PerturbedMinimizer, matrix: Array) -> Noisy:
        """Make public a matrix that a solver computed from the bits of entries, within the gap of the statistic."""
        require_adjacency(self.adjacency, Adjacency.FLIP)
        cost = self.reservation.plan[label].cost
        grid, sensitivity, noise = matrix_noise(cost, statistic.distance, matrix.size)
        units = GridArray(np.rint(matrix / grid.step).astype(np.int64), grid)
        return Noisy(self._public(label, units, sensitivity, noise), noise_std(noise, matrix.size))

    def _public(
        self, label: str, statistic: GridArray, sensitivity: float, noise: Noise, parts: int = 1, **options: Any
    ) -> Array:
        released = self.reservation.release(statistic, sensitivity, noise, label, **options)
        if self.progress is not None:
            self.progress(1 if parts == 1 else Fraction(1, parts), label)
        return released
