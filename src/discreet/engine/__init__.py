"""Where users' rows are, in this process (`batches`) or in a Spark cluster (`spark`), and how sums over them are made.

A private model maps functions over its users and asks for the exact integer sum of their contributions. All engines
have the same operations (`Blocks`), and their sums are identical to the last bit, whatever the order of addition.
"""

from discreet.engine.batches import Blocks, LocalBlocks

__all__ = ["Blocks", "LocalBlocks"]
