"""Noise that can be repeated, for tests."""

import hashlib
import itertools


class InsecureSeededNoise:
    """Reproducible noise, FOR TESTS ONLY: whoever knows the seed can subtract the noise.

    A ledger that uses it, and every model and statement that comes from that ledger, says NOT PRIVATE.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> from discreet.testing import InsecureSeededNoise
        >>> ledger = discreet.Ledger(epsilon=1, delta=1e-6, noise_source=InsecureSeededNoise(0))
        >>> discreet.DPALS(epsilon=1, delta=1e-6).fit(ratings, ledger=ledger).guarantee_.holds
        False
    """

    name = "INSECURE seeded noise for tests"
    secure = False

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._count = itertools.count()

    def fresh_key(self) -> bytes:
        """The next key of the sequence that the seed determines."""
        return hashlib.sha256(f"{self.seed}/{next(self._count)}".encode()).digest()
