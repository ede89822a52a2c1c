"""A progress bar for long work: only on a terminal, and only after a while."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from typing import Any

PATIENCE = 1.5  # seconds before a bar appears

_quiet = ContextVar("quiet", default=False)
Callback = Callable[[str, float, "float | None", str], None]
_callback: ContextVar[Callback | None] = ContextVar("callback", default=None)


@contextmanager
def on_progress(callback: Callback) -> Iterator[None]:
    """Call a function whenever a piece of long work inside is done, instead of showing a bar on the terminal.

    Fits count releases, each of which is a pass over the data, or steps; reading counts rows, recommending users. These
    are numbers for the owner of the data. Work whose progress is private does not call it.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> with discreet.on_progress(lambda what, done, total, doing: print(what, int(done), "of", total, doing)):
        ...     model = discreet.DPPopularity(epsilon=1, delta=1e-6).fit(ratings)
        DPPopularity 1 of 1 item popularity

    Args:
        callback: Called with what is being done, how much is done, of how much (None: not known), and the last piece.
    """
    token = _callback.set(callback)
    try:
        yield
    finally:
        _callback.reset(token)


@contextmanager
def quiet() -> Iterator[None]:
    """Show no bars inside: for work that has its own bar, or whose progress is private."""
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


class Bar:
    """A context manager; `advance(n)` after each piece of work. Silent when stderr is not a terminal."""

    def __init__(self, what: str, total: float | None = None, unit: str = "rows") -> None:
        self._what, self.total, self._unit = what, total, unit
        self._done: float | Fraction = 0
        self._start = time.monotonic()
        self._progress: Any = None
        self._callback = None if _quiet.get() else _callback.get()
        shown = sys.stderr is not None and sys.stderr.isatty()
        self._wanted = shown and self._callback is None and not _quiet.get()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def advance(self, amount: float | Fraction, doing: str = "") -> None:
        """Record that more is done, and what."""
        self._done += amount
        if self._callback is not None:
            self._callback(self._what, float(self._done), self.total, doing)
        if self._wanted and self._progress is None and time.monotonic() - self._start > PATIENCE:
            self._show()
        if self._progress is not None:
            description = f"{self._what}: {doing}" if doing else self._what
            self._progress.update(self._task, completed=float(self._done), total=self.total, description=description)

    def close(self) -> None:
        """Remove the bar."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        amount = DownloadColumn() if self._unit == "bytes" else TextColumn("{task.completed:,.0f} " + self._unit)
        columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(self._what, total=self.total)
        self._progress.start()
