"""Where the users are: in this process (`local`), or in the partitions of a Spark cluster (`spark`).

A private model asks one thing of its users: the exact sum of what each of them contributes, in integers. So that is all
that an engine does (`Blocks.add_up`). Who is where, and in which order sums are taken, changes no bit of it.
"""

from discreet.engine.local import Blocks, LocalBlocks, added

__all__ = ["Blocks", "LocalBlocks", "added"]
