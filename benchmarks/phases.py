"""Where the seconds of a fit go: for each phase, what runs on threads, what waits, and what runs on one thread alone.

A phase is the innermost of the functions in PHASES that the main thread is in; a region is a call of `over_blocks`
or `each_block`, which run blocks on threads. Of each phase:

    wall      milliseconds by the clock
    serial    of these, outside all regions: no other core works
    own       the same of the processor: what `serial` has more is waiting, for a file or for a core
    region    by the clock, inside of a region
    work      what the threads spend in blocks, by the clock, added up
    cpu       the same of the processor: what `work` has more is waiting, for the interpreter's lock or for a core
    longest   the longest block: a region cannot be shorter
"""

from __future__ import annotations

import cProfile
import importlib
import profile
import pstats
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial, wraps
from typing import Any

from discreet import parallel

PHASES: dict[str, str | int] = {  # of "module:function", the name of the phase, or the argument that has it
    "discreet.models.private:require_sound": "check the table",
    "discreet.models.private:PrivateModel._under": "plan, ledger, certificate",
    "discreet.privacy.releaser:Releaser.release": 1,
    "discreet.privacy.releaser:Releaser.release_together": "item step",
    "discreet.privacy.noise:Gaussian.add": "noise",
    "discreet.models.als.estimate:ItemPosterior.probed": "probe columns",
    "discreet.models.als.estimate:ItemPosterior.updated": "Kalman updates",
    "discreet.models.als.estimate:ItemEstimate.updated": "item estimate",
    "discreet.models.taste:Spectrum.of": "eigenvectors",
    "discreet.models.spectral.model:exploration": "exploration",
    "discreet.models.als.baseline:_Training.__init__": "ALS, preparing",
    "discreet.models.als.baseline:_Training._side": "ALS, a side",
}


@dataclass
class Phase:
    """Seconds, and the number of blocks."""

    wall: float = 0.0
    own: float = 0.0
    region: float = 0.0
    work: float = 0.0
    cpu: float = 0.0
    longest: float = 0.0
    blocks: int = 0

    @property
    def serial(self) -> float:
        """Seconds outside all regions."""
        return self.wall - self.region


class Profile:
    """Measures while its `measuring` is entered."""

    def __init__(self) -> None:
        self.phases: dict[str, Phase] = {}
        self._stack: list[str] = []
        self._since = (0.0, 0.0)
        self._depth = 0
        self._lock = threading.Lock()
        self._main = threading.get_ident()
        # From Python 3.12 on, cProfile sees the calls of all threads as if they were one.
        self.calls: Any = cProfile.Profile() if sys.version_info < (3, 12) else profile.Profile()

    def _at(self, name: str) -> Phase:
        return self.phases.setdefault(name, Phase())

    def _count(self) -> None:
        """What has passed since it was last called is the innermost phase's."""
        now = time.perf_counter(), time.thread_time()
        if self._stack:
            phase = self._at(self._stack[-1])
            phase.wall += now[0] - self._since[0]
            phase.own += now[1] - self._since[1]
        self._since = now

    @contextmanager
    def _inside(self, name: str) -> Iterator[None]:
        self._count()
        self._stack.append(name)
        try:
            yield
        finally:
            self._count()
            self._stack.pop()

    def phase(self, function: Callable[..., Any], name: str | int) -> Callable[..., Any]:
        """The function, as a phase."""

        @wraps(function)
        def run(*args: Any, **options: Any) -> Any:
            if threading.get_ident() != self._main or self._depth:
                return function(*args, **options)
            with self._inside(str(args[name]) if isinstance(name, int) else name):
                return function(*args, **options)

        return run

    @contextmanager
    def _region(self) -> Iterator[Callable[[Any], Any]]:
        """Gives what measures the work on a block."""
        phase = self._at(self._stack[-1])

        def timed(work: Callable[[Any], Any]) -> Callable[[Any], Any]:
            def run(block: Any) -> Any:
                clock, processor = time.perf_counter(), time.thread_time()
                try:
                    return work(block)
                finally:
                    clock, processor = time.perf_counter() - clock, time.thread_time() - processor
                    with self._lock:
                        phase.work += clock
                        phase.cpu += processor
                        phase.longest = max(phase.longest, clock)
                        phase.blocks += 1

            return run

        self._count()
        own, start, self._depth = phase.own, time.perf_counter(), 1
        try:
            yield timed
        finally:
            self._count()
            phase.own = own
            phase.region += time.perf_counter() - start
            self._depth = 0

    def over_blocks(self, work: Any, blocks: Any, n_jobs: Any) -> Iterator[Any]:
        """As the library's."""
        if threading.get_ident() != self._main or self._depth:
            yield from parallel.over_blocks(work, blocks, n_jobs)
            return
        with self._region() as timed:
            yield from parallel.over_blocks(timed(work), blocks, n_jobs)

    def each_block(self, work: Any, blocks: Any, n_jobs: Any) -> None:
        """As the library's."""
        if threading.get_ident() != self._main or self._depth:
            parallel.each_block(work, blocks, n_jobs)
            return
        with self._region() as timed:
            parallel.each_block(timed(work), blocks, n_jobs)

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Replace the functions, and give them back."""
        places: list[tuple[Any, str, Any]] = []
        for path, phase in PHASES.items():
            module, _, qualified = path.partition(":")
            try:
                holder: Any = importlib.import_module(module)
            except ImportError:
                continue
            *outer, last = qualified.split(".")
            for part in outer:
                holder = getattr(holder, part, None)
            found = vars(holder).get(last) if holder is not None else None
            if found is None:
                continue  # it has another name by now: its time is that of the phase around it
            wrapped = self.phase(found.__func__ if isinstance(found, classmethod) else found, phase)
            places.append((holder, last, found))
            setattr(holder, last, classmethod(wrapped) if isinstance(found, classmethod) else wrapped)
        replaced = {"over_blocks": self.over_blocks, "each_block": self.each_block}
        for module in [m for n, m in sys.modules.items() if n.startswith("discreet") and m is not parallel]:
            for name, ours in replaced.items():
                if getattr(module, name, None) is getattr(parallel, name):
                    places.append((module, name, getattr(parallel, name)))
                    setattr(module, name, ours)
        try:
            yield
        finally:
            for holder, last, found in reversed(places):
                setattr(holder, last, found)

    def run(self, work: Callable[[], Any], rounds: int) -> None:
        """Measure some rounds; all seconds are means."""
        with self.measuring():
            for _ in range(rounds):
                with self._inside("the rest"):
                    work()
        for phase in self.phases.values():
            for field in fields(Phase):
                if field.name != "longest":
                    setattr(phase, field.name, getattr(phase, field.name) / rounds)
        self.calls.runcall(work)  # apart: it makes Python's own calls slower


def report(name: str, work: Callable[[int], Any], threads: Sequence[int], rounds: int, top: int = 15) -> None:
    """Print what is serial, and what does not grow with threads."""
    found: dict[int, Profile] = {}
    for n in threads:
        work(n)  # what is done once in a process
        found[n] = Profile()
        found[n].run(partial(work, n), rounds)
    print(f"\n{name}: milliseconds")
    columns = ("wall", "serial", "own", "region", "work", "cpu", "longest")
    for n, measured in found.items():
        total = Phase()
        print(f"  {n} thread(s){'':22}" + "".join(f"{column:>9}" for column in columns) + "   blocks")
        for phase_name, phase in sorted(measured.phases.items(), key=lambda pair: -pair[1].wall):
            figures = "".join(f"{1000 * getattr(phase, column):9.1f}" for column in columns)
            print(f"    {phase_name:32}{figures}{phase.blocks:9.0f}")
            for field in fields(Phase):
                setattr(total, field.name, getattr(total, field.name) + getattr(phase, field.name))
        figures = "".join(f"{1000 * getattr(total, column):9.1f}" for column in columns[:-1])
        print(f"    {'all':32}{figures}")
        idle = n * total.region - total.work
        parts = {
            "serial": n * total.serial,
            "idle in regions": idle,
            "waiting in blocks": total.work - total.cpu,
            "computing": total.cpu,
        }
        print(f"    {n} x {total.wall:.3f} s: " + ", ".join(f"{key} {value:.3f}" for key, value in parts.items()))
    print(f"  outside of regions, {threads[-1]} thread(s), main thread, own milliseconds of functions")
    stats: Any = pstats.Stats(found[threads[-1]].calls)
    rows = [(own, calls, where) for where, (_, calls, own, _, _) in stats.stats.items() if "acquire" not in where[2]]
    for own, calls, (file, line, function) in sorted(rows, reverse=True)[:top]:
        print(f"    {1000 * own:9.1f}{calls:8}  {'/'.join(file.split('/')[-2:])}:{line} {function}", flush=True)
