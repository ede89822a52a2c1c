"""One-bit matrix completion: which entries are above a threshold, learned from noisy bits."""

from discreet.models.one_bit.model import OneBit, perturb

__all__ = ["OneBit", "perturb"]
