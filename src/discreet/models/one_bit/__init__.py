"""One-bit completion: who is above and who below a threshold, learned from noisy bits."""

from discreet.models.one_bit.model import OneBit, perturb

__all__ = ["OneBit", "perturb"]
