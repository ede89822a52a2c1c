"""The runs of a trade-off: each is a row of a DuckDB file, committed before the next begins.

Its key is a digest of everything the result depends on (class and parameters of the model, training and test data,
metrics, version). So a call that was killed continues where it stopped, and a changed question never gets an old
answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from discreet.data import Interactions
from discreet.data.catalogue import Catalogue, catalogue_sha256, sha256_of
from discreet.errors import DataError
from discreet.models.base import Model
from discreet.privacy.statement import Statement
from discreet.privacy.store import canonical
from discreet.version import __version__

COLUMNS = ("key", "repeat", "model", "epsilon", "parameters", "metrics", "certificate")


@dataclass(frozen=True)
class Run:
    """One fit and its exact scores on the test data."""

    model: str  # the name that the caller gave it
    epsilon: float | None  # None for a model that is not private
    repeat: int  # the number of the noise draw, from 0
    metrics: dict[str, float]
    certificate: dict[str, Any]

    @property
    def title(self) -> str:
        """The model and its epsilon."""
        return self.model if self.epsilon is None else f"{self.model}, epsilon {self.epsilon:g}"

    @property
    def statement(self) -> Statement:
        """The privacy statement of this fit, checked."""
        return Statement.parse(json.dumps(self.certificate))


@dataclass(frozen=True)
class Question:
    """A run to make: an unfitted model, and the number of the noise draw."""

    name: str
    model: Model
    epsilon: float | None
    repeat: int
    metrics: tuple[str, ...]
    context: str

    @property
    def parameters(self) -> str:
        """The parameters that the result depends on, as JSON: all but the number of threads."""
        given = self.model.get_params(deep=False)
        return json.dumps({k: v for k, v in given.items() if k != "n_jobs"}, sort_keys=True, default=repr)

    @property
    def key(self) -> str:
        """A digest of everything that the result depends on, except the noise."""
        about = [__version__, type(self.model).__qualname__, self.parameters, list(self.metrics), self.context]
        return sha256_of(canonical({"about": about}).encode())


def context_of(train: Interactions, test: Interactions, options: dict[str, Any]) -> str:
    """A digest of the data and the options. It is as private as the data, and stays in the owner's file."""
    about = [
        [
            part.value_range,
            part.implicit,
            catalogue_sha256(part.catalogue),
            catalogue_sha256(Catalogue(part.users)),  # test users are matched with their histories by their ids
            sha256_of(*(np.ascontiguousarray(array) for array in (part.indptr, part.indices, part.values))),
        ]
        for part in (train, test)
    ]
    return sha256_of(canonical({"options": options, "data": about}).encode())


class Store:
    """The rows, in a DuckDB file that one process at a time can open, or in memory."""

    def __init__(self, path: str | PathLike[str] | None) -> None:
        import duckdb

        file = None if path is None else Path(path)
        if file is not None and file.exists():  # DuckDB also opens tables in other formats, to read them
            head = file.read_bytes()[:12] if file.is_file() else b"a folder"
            if head and head[8:] != b"DUCK":
                raise DataError(f"results: {str(file)!r} exists and is not a DuckDB file; give another name")
        try:
            self._rows = duckdb.connect(":memory:" if file is None else str(file))
            kinds = {"repeat": "INTEGER", "epsilon": "DOUBLE"}
            columns = ", ".join(f"{name} {kinds.get(name, 'VARCHAR')}" for name in COLUMNS)
            self._rows.execute(f"CREATE TABLE IF NOT EXISTS runs ({columns}, PRIMARY KEY (key, repeat))")
            found = tuple(row[0] for row in self._rows.execute("DESCRIBE runs").fetchall())
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise DataError(
                f"results: {str(file)!r} cannot be opened as a DuckDB file ({reason}); if another run is using it, "
                "wait until it has finished, or give another name"
            ) from None
        if found != COLUMNS:
            self._rows.close()
            raise DataError(f"results: {str(file)!r} has a table 'runs' that is not of a trade-off; give another name")

    def close(self) -> None:
        """Close the file."""
        self._rows.close()

    def run(self, question: Question, measured: Callable[[], tuple[dict[str, float], dict[str, Any]]]) -> Run:
        """The run from the file, or made now; it is on disk when this returns."""
        key, q = question.key, question
        found = self._rows.execute(
            "SELECT metrics, certificate FROM runs WHERE key = ? AND repeat = ?", [key, q.repeat]
        ).fetchone()
        if found is not None:
            return Run(q.name, q.epsilon, q.repeat, json.loads(found[0]), json.loads(found[1]))
        metrics, certificate = measured()
        row = [key, q.repeat, q.name, q.epsilon, q.parameters, json.dumps(metrics), json.dumps(certificate)]
        self._rows.execute(f"INSERT INTO runs VALUES ({', '.join('?' * len(COLUMNS))})", row)
        return Run(q.name, q.epsilon, q.repeat, metrics, certificate)
