"""The tables and figures of three papers: a module per paper declares what it shows and how it is measured here.

A table or figure is a function that makes its points, decorated with the published values, in the module of its paper;
its name is in `_SHOWN`. Only the command `discreet reproduce` imports this package.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

from discreet.errors import DataError

if TYPE_CHECKING:
    from discreet.papers.reproduction import Reproduction

_SHOWN = {
    "frank_wolfe": "fig2a fig2b fig2c fig2d fig2e",
    "dpals": "fig2 fig3a fig3b fig3c fig4 fig5 fig7 fig8 fig9 fig10 fig11 fig12 table4 table5",
    "one_bit": "fig1 fig2 fig3 fig4 fig5",
}
# Name -> module and attribute. Modules are imported on demand, so that shell completion of names is fast.
NAMES = {
    f"{module}-{shown}".replace("_", "-"): (module, shown) for module, all_ in _SHOWN.items() for shown in all_.split()
}


def find(name: str) -> Reproduction:
    """A table or figure by its name."""
    if name not in NAMES:
        raise DataError(f"name: there is no {name!r}; there are {', '.join(NAMES)}")
    module, shown = NAMES[name]
    reproduction: Reproduction = getattr(import_module(f"discreet.papers.{module}"), shown)
    return reproduction


def every() -> Iterator[Reproduction]:
    """All tables and figures."""
    return map(find, NAMES)
