"""All tables and figures, by name; a module is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from discreet.errors import DataError
from discreet.papers.reproduction import Reproduction

MODULES = (
    *(f"frank_wolfe.fig2{letter}" for letter in "abcde"),
    *(f"dpals.fig{number}" for number in ("2", "3a", "3b", "3c", "4", "5", "7", "8", "9", "10", "11", "12")),
    "dpals.table4",
    "dpals.table5",
    *(f"one_bit.fig{number}" for number in range(1, 6)),
)
NAMES = {module.replace("_", "-").replace(".", "-"): module for module in MODULES}


def find(name: str) -> Reproduction:
    """A table or figure by its name."""
    if name not in NAMES:
        raise DataError(f"name: there is no {name!r}; there are {', '.join(NAMES)}")
    reproduction: Reproduction = import_module(f"discreet.papers.{NAMES[name]}").REPRODUCTION
    return reproduction


def every() -> Iterator[Reproduction]:
    """All of them."""
    return map(find, NAMES)
