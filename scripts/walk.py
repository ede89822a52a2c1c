"""A guided walk through the code: which files a real run passes through, in their order, and what it calls there.

    python scripts/walk.py dpals     one DPALS fit
    python scripts/walk.py dpsvd     one DPSVD fit
    python scripts/walk.py page      from `read` to the exported page

Printed are the functions of the package that ran, by file, in the order of their first call; and how many files that
is, which tells how much there is to read.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import discreet
from discreet.web.site import export

HOME = Path(discreet.__file__).parent
SKIPPED = {"<module>", "<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"}


class Walk:
    """Functions of the package, by file, as they are first called; and how often a call enters another package."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, int]] = {}
        self.switches = 0
        self._package = ""

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call."""
        name, path = frame.f_code.co_name, frame.f_code.co_filename
        if event != "call" or name in SKIPPED or not path.startswith(str(HOME)):
            return
        file = str(Path(path).relative_to(HOME))
        functions = self.files.setdefault(file, {})
        if name not in functions:
            package = file.rpartition("/")[0]
            self.switches += package != self._package
            self._package = package
        functions[name] = functions.get(name, 0) + 1

    def around(self, work: Callable[[], Any]) -> None:
        """Walk through some work, in all its threads."""
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            work()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]

    def told(self) -> str:
        """The walk, as a text."""
        lines = [f"{file}\n    {', '.join(functions)}" for file, functions in self.files.items()]
        functions = sum(map(len, self.files.values()))
        lines.append(f"\n{len(self.files)} files, {functions} functions, {self.switches} switches between packages")
        return "\n".join(lines)


def fit(model: Any, implicit: bool) -> Callable[[], Any]:
    """One fit, on data that were read before."""
    ratings = discreet.datasets.movielens_like(400, 80, 8_000, random_state=0)
    data = ratings.to_implicit(4) if implicit else ratings
    model.fit(data)  # what is imported, tried out or cached once per process is no part of the walk
    return lambda: model.fit(data)


def page(folder: Path) -> Callable[[], Any]:
    """From a file to the page."""
    ratings = discreet.datasets.movielens_like(400, 80, 8_000, random_state=0)
    path = folder / "ratings.parquet"
    ratings.to_frame("pandas").to_parquet(path)

    def work() -> None:
        read = discreet.read(path, items=list(ratings.items), value_range=(0.5, 5))
        export(discreet.DPALS(epsilon=5, delta=1e-6).fit(read)).write(folder / "page")

    work()
    return work


def main() -> None:
    """Walk, and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("walk", choices=["dpals", "dpsvd", "page"])
    chosen = parser.parse_args().walk
    budget = {"epsilon": 5, "delta": 1e-6}
    with tempfile.TemporaryDirectory() as folder:
        work = {
            "dpals": lambda: fit(discreet.DPALS(**budget), False),
            "dpsvd": lambda: fit(discreet.DPSVD(**budget), True),
            "page": lambda: page(Path(folder)),
        }[chosen]()
        walk = Walk()
        walk.around(work)
    print(walk.told())  # noqa: T201


if __name__ == "__main__":
    main()
