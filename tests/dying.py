"""What a process leaves on the disk when it is killed, at every line of some files.

A forked child does the work and stands still before each line, until it is let on. A SIGKILL at that line would leave
what is in its files then: all that it handed to the operating system, and nothing that it still keeps to itself. So
every line is looked at in one run of the child, and lines between which no file changed need no kill of their own.
"""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


def at_every_line(files: tuple[str, ...], work: Callable[[], object], look: Callable[[], T]) -> list[T]:
    """What `look` sees while a child that does the work stands still before each line, and when it is done."""
    (stopped, stop), (go, let_go) = os.pipe(), os.pipe()

    def stand_still() -> None:
        os.write(stop, b".")
        os.read(go, 1)

    child = os.fork()
    if child == 0:
        try:
            sys.settrace(_tracer(files, stand_still))
            work()
        finally:
            os._exit(0)
    os.close(stop)
    os.close(go)
    seen = []
    while os.read(stopped, 1):
        seen.append(look())
        os.write(let_go, b".")
    os.close(stopped)
    os.close(let_go)
    os.waitpid(child, 0)
    return [*seen, look()]


def killed(
    files: tuple[str, ...],
    work: Callable[[], object],
    line: int,
    kill: Callable[[], object] = lambda: os.kill(os.getpid(), signal.SIGKILL),
) -> bool:
    """Whether a child that does the work died at the given line, counted from 0, before it was done.

    Something else may happen to it there.
    """
    left = line

    def count() -> None:
        nonlocal left
        left -= 1
        if left == -1:
            kill()

    child = os.fork()
    if child == 0:
        try:
            sys.settrace(_tracer(files, count))
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def changes(states: list[Any]) -> list[int]:
    """The lines before which something changed: the first of each run of equal states."""
    return [line for line, state in enumerate(states) if line == 0 or state != states[line - 1]]


def _tracer(files: tuple[str, ...], at_line: Callable[[], None]) -> Callable[[FrameType, str, object], Any]:
    def trace(frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.endswith(files):
            return None
        if event == "line":
            at_line()
        return trace

    return trace
