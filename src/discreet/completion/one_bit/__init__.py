"""One-bit completion: who is above and who below a threshold, learned from noisy bits."""

from discreet.completion.one_bit.private import OneBit, perturb

__all__ = ["OneBit", "perturb"]
