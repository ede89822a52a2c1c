"""One-bit completion: who is above and who below a threshold, learned from noisy bits."""

from discreet.completion.one_bit.perturbing import perturb
from discreet.completion.one_bit.private import OneBit

__all__ = ["OneBit", "perturb"]
