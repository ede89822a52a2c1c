"""One-bit completion: who is above and who below a threshold, learned from noisy bits."""

from discreet.models.one_bit.model import OneBit
from discreet.models.one_bit.perturbing import perturb

__all__ = ["OneBit", "perturb"]
