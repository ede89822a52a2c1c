"""The runs of a trade-off: what is asked, what identifies it, and where the answers are kept.

Each run is one row, written and committed before the next one begins, in a DuckDB file: a parquet file cannot be added
to, and a folder of them is not one thing to copy or query. A row is found again by a digest of all that its answer
depends on (class and parameters of the model, training and test data, metrics, version), so that a run that was killed
goes on where it was, and a question that has changed is never given an old answer.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from types import TracebackType
from typing import Any

from discreet.data import Interactions
from discreet.errors import DataError
from discreet.privacy.statement import Statement
from discreet.privacy.store import canonical
from discreet.version import __version__

COLUMNS = {
    "key": "VARCHAR",
    "repeat": "INTEGER",
    "model": "VARCHAR",
    "epsilon": "DOUBLE",
    "parameters": "VARCHAR",
    "metrics": "VARCHAR",
    "certificate": "VARCHAR",
}
IRRELEVANT = ("n_jobs",)  # results are the same for any number of threads


@dataclass(frozen=True)
class Run:
    """One fit and what it scored on the test data.

    Attributes:
        model: The name that the caller gave the model.
        epsilon: Its budget; None for a model that is not private.
        repeat: The number of the noise draw, from 0.
        metrics: Metric -> value, exact.
        certificate: The privacy statement of this very fit.
    """

    model: str
    epsilon: float | None
    repeat: int
    metrics: dict[str, float]
    certificate: dict[str, Any]

    @property
    def statement(self) -> Statement:
        """The privacy statement of this fit, checked."""
        return Statement.parse(json.dumps(self.certificate))


@dataclass(frozen=True)
class Question:
    """A run that is wanted: a model, not yet fitted, and the number of the noise draw."""

    name: str
    model: Any
    epsilon: float | None
    repeat: int
    metrics: tuple[str, ...]
    context: str

    @property
    def parameters(self) -> str:
        """The model's parameters that its result depends on, as JSON. What has no JSON form is told by its `repr`."""
        given = self.model.get_params(deep=False)
        return json.dumps({k: v for k, v in given.items() if k not in IRRELEVANT}, sort_keys=True, default=repr)

    @property
    def key(self) -> str:
        """A digest of all that the answer depends on, but for the noise."""
        about = [__version__, type(self.model).__qualname__, self.parameters, list(self.metrics), self.context]
        return hashlib.sha256(canonical({"about": about}).encode()).hexdigest()


def context_of(train: Interactions, test: Interactions, options: dict[str, Any]) -> str:
    """A digest of the data and of how they are used. It is as private as the data: it stays in the owner's file."""
    import pyarrow as pa

    digest = hashlib.sha256(canonical({"options": options}).encode())
    for part in (train, test):
        digest.update(canonical({"range": part.value_range, "implicit": part.implicit}).encode())
        for array in (part.indptr, part.indices, part.values):
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(array.tobytes())
        # By their ids users of the test data find their own histories.
        for table in (part.catalogue.to_arrow(), pa.table({"user": part.users.to_arrow()})):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            digest.update(sink.getvalue())
    return digest.hexdigest()


def _is_database(path: Path) -> bool:
    """Whether DuckDB would open a file as its own, or make one; it opens tables in other formats too, to read them."""
    if not path.exists() or (path.is_file() and not path.stat().st_size):
        return True
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(12)[8:] == b"DUCK"


class Store:
    """The rows: in a DuckDB file, or in memory if there is none. One process at a time has the file open."""

    def __init__(self, path: str | PathLike[str] | None) -> None:
        import duckdb

        self.path = None if path is None else fspath(path)
        if self.path is not None and not _is_database(Path(self.path)):
            raise DataError(f"results: {self.path!r} exists and is not a DuckDB file; give another name")
        try:
            self._rows = duckdb.connect(":memory:" if self.path is None else self.path)
            columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
            self._rows.execute(f"CREATE TABLE IF NOT EXISTS runs ({columns}, PRIMARY KEY (key, repeat))")
            found = [row[0] for row in self._rows.execute("DESCRIBE runs").fetchall()]
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise DataError(
                f"results: {self.path!r} cannot be opened as a DuckDB file ({reason}); if another run is using it, let "
                "that finish, else give another name"
            ) from None
        if found != list(COLUMNS):
            self._rows.close()
            raise DataError(f"results: {self.path!r} has a table 'runs' that is not of a trade-off; give another name")

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._rows.close()

    def find(self, question: Question) -> Run | None:
        """The answer to a question, if it was asked before; under the name that the model has now."""
        found = self._rows.execute(
            "SELECT metrics, certificate FROM runs WHERE key = ? AND repeat = ?", [question.key, question.repeat]
        ).fetchone()
        if found is None:
            return None
        return Run(question.name, question.epsilon, question.repeat, json.loads(found[0]), json.loads(found[1]))

    def add(self, question: Question, metrics: dict[str, float], certificate: dict[str, Any]) -> Run:
        """Keep an answer. It is on disk when this returns."""
        q = question
        texts = [q.parameters, json.dumps(metrics), json.dumps(certificate)]
        places = ", ".join("?" * len(COLUMNS))
        self._rows.execute(f"INSERT INTO runs VALUES ({places})", [q.key, q.repeat, q.name, q.epsilon, *texts])
        return Run(q.name, q.epsilon, q.repeat, metrics, certificate)
