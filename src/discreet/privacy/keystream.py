"""Secret uniform bits: an AES-256-CTR keystream keyed by the operating system.

The system's source has no state that could be copied: each release asks it for a fresh 256-bit key. So there is
nothing to re-key after a fork, in a worker process or after unpickling, and threads that release at the same
time read the keystreams of different keys.
"""

import hashlib
import itertools
import os
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from discreet.errors import PrivacyError
from discreet.typing import Words

_ZEROS = memoryview(bytes(1 << 17))


class Stream:
    """Part `number` of the keystream of `key`: the 2^64 AES blocks whose counter starts with that number.

    Two streams with different keys or different numbers never share a block.
    """

    def __init__(self, key: bytes, number: int = 0) -> None:
        counter = number.to_bytes(8, "big") + bytes(8)
        self._encryptor = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()
        self._process = os.getpid()

    def fill(self, words: Words) -> None:
        """Overwrite a contiguous array with uniform 64-bit words."""
        if self._process != os.getpid():
            raise PrivacyError("a noise stream cannot be used in a forked process: ask the source for a new one")
        view = words.view(np.uint8).data
        for start in range(0, len(view), len(_ZEROS)):
            part = view[start : start + len(_ZEROS)]
            self._encryptor.update_into(_ZEROS[: len(part)], part)

    def words(self, size: int) -> Words:
        """`size` fresh uniform 64-bit words."""
        words = np.empty(size, np.uint64)
        self.fill(words)
        return words

    def __reduce__(self) -> str:
        raise PrivacyError("a noise stream cannot be copied or pickled: its bits must be used once")


class NoiseSource(Protocol):
    """Where the bits of a ledger's noise come from; unless they are secure, every guarantee says NOT PRIVATE."""

    name: str
    secure: bool

    def fresh_key(self) -> bytes:
        """A key for one release; never the same twice."""


class SystemNoise:
    """The default source: every release has its own key from the operating system's generator."""

    name = "AES-256-CTR keystream, a key per release from the operating system"
    secure = True

    def fresh_key(self) -> bytes:
        """32 bytes from the operating system."""
        return os.urandom(32)


class InsecureSeededNoise:
    """Reproducible noise, FOR TESTS ONLY: whoever knows the seed can subtract the noise.

    A ledger that uses it, and every model and statement that comes from that ledger, says NOT PRIVATE.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> from discreet.privacy.keystream import InsecureSeededNoise
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


@dataclass
class DeclaredNoise:
    """Randomness that was drawn where this process does not see it: that it was secret is the owner's word.

    Attributes:
        name: who drew it, and how, for the record; public.
    """

    name: str
    secure: bool = field(default=True, init=False)

    def fresh_key(self) -> bytes:
        """There is none: what was drawn elsewhere cannot be drawn here."""
        raise PrivacyError("source: declared noise was drawn elsewhere; it is for `Ledger.charge` only")


def described(source: NoiseSource) -> dict[str, Any]:
    """What is recorded of a source: its name, and whether it is plainly secure."""
    name = getattr(source, "name", None)
    if not isinstance(name, str) or not name.strip() or not hasattr(source, "secure"):
        raise PrivacyError(
            "source: say where the secret randomness comes from: the ledger's noise_source, or DeclaredNoise('...') "
            f"for what was drawn elsewhere, not {source!r}"
        )
    return {"source": name, "secure": source.secure is True}
