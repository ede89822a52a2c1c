"""A table that stays in Spark: what the driver knows of it, and how settings of a session are changed for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from discreet.data.catalogue import Catalogue
from discreet.data.interactions import Declared
from discreet.data.report import Report
from discreet.errors import PrivacyError


@contextmanager
def settings(session: Any, wanted: dict[str, str]) -> Iterator[None]:
    """Change settings of a session for a while."""
    before = {name: session.conf.get(name) for name in wanted}
    try:
        for name, value in wanted.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            session.conf.set(name, value)


@dataclass(frozen=True, eq=False, repr=False)
class SparkInteractions(Declared):
    """A table of users, items and values that stays in Spark, checked, numbered and compressed there.

    Made by `discreet.read(..., engine="spark")`. Users are partitioned by their ids; a partition keeps its users' rows
    as `Interactions` would, 6 to 8 bytes each, cached in memory and on disk. The driver knows what is public of them,
    and `report`, which is for the owner. `DPALS`, `DPALS.as_published` and `DPFrankWolfe` can be fitted to it.

    Attributes:
        rows: The cached partitions.
        n_partitions: How many there are.
        catalogue: The items, and what is publicly known about them.
        value_range: The public range of values.
        implicit: Whether every interaction counts 1, because there are no values.
        report: What happened when the table was read.
        kernels: What its users' numbers were computed with so far; a second kind is refused.
    """

    rows: Any
    n_partitions: int
    catalogue: Catalogue
    value_range: tuple[float, float] | None = None
    implicit: bool = False
    report: Report = field(default_factory=Report)
    kernels: set[str] = field(default_factory=set)

    def __repr__(self) -> str:
        return f"SparkInteractions({self.n_items:,} items, users in {self.n_partitions} partitions)"

    def unpersist(self) -> None:
        """Remove what Spark keeps of it in memory and on disk."""
        self.rows.unpersist()

    def require_equal_kernels(self, used: set[str]) -> None:
        """Raise unless all that was ever computed of this table was computed alike, wherever that was."""
        self.kernels.update(used)
        if len(self.kernels) > 1:
            raise PrivacyError(
                "ratings: the machines of this cluster round differently, so that one person's numbers would depend on "
                "where Spark computes them, and their sum would not have the sensitivity that is declared. Nothing of "
                "it was released. Use machines of one kind with the same packages, or the same kernels on all of them "
                "(for instance spark.executorEnv.OPENBLAS_CORETYPE=Haswell). They are: "
                + "; or ".join(sorted(self.kernels))
            )
