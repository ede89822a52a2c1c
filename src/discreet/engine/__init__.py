"""Where the users are: in this process (`batches`), or in a Spark cluster (`spark`).

A private model maps functions over its users, and asks for the exact sum of their contributions, in integers. Engines
have the same operations (`Blocks`), and no bit of a sum depends on the engine or on the order of addition.
"""

from discreet.engine.batches import Blocks, LocalBlocks

__all__ = ["Blocks", "LocalBlocks"]
