"""Before anything is charged: noise can be drawn here, and a statement made of it. Tried once in each process."""

from functools import cache

import numpy as np

from discreet.errors import PrivacyError
from discreet.privacy.accounting import Cost
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.keystream import Stream, SystemNoise
from discreet.privacy.lattice import GridArray
from discreet.privacy.noise import Gaussian, L2Laplace, Laplace, RandomizedResponse

# AES-256 of the counters 0 and 1 under the key 0: H and E(K, Y0) of test case 13 in the specification of GCM.
KNOWN = bytes.fromhex("dc95c078a2408989ad48a21492842087530f8afbc74536b9a963b4f1c4cb738b")
KINDS = (Gaussian(1.0), Gaussian(1.0, symmetric=True), Laplace(1.0), L2Laplace(1.0), RandomizedResponse(1.0))


@cache  # what raised is tried again
def require_ready() -> None:
    """Raise unless the noise of every kind, and a statement, can be made on this machine: nothing is spent then.

    It says that the code runs, not that the noise has its law: `discreet doctor` draws a million numbers for that.
    """
    try:
        _try_noise()
        _try_statement()
    except Exception as error:  # whatever a library of another version says
        what = str(error) if isinstance(error, PrivacyError) else f"{type(error).__name__}: {error}"
        raise PrivacyError(
            f"noise: the test of what a release needs has failed on this machine ({what}); nothing was spent. "
            "`discreet doctor` shows the versions of the libraries in question"
        ) from error


def _try_noise() -> None:
    if Stream(bytes(32)).words(4).tobytes() != KNOWN:
        raise PrivacyError("the keystream is not that of AES-256-CTR")
    for noise in KINDS:
        drawn = noise.add(GridArray(np.zeros((3, 3), np.int64), noise.grid()), SystemNoise())
        if drawn.shape != (3, 3) or not np.isfinite(drawn).all():
            raise PrivacyError(f"noise of the kind {noise.kind!r} is not finite, or has another shape")


def _try_statement() -> None:
    from discreet.privacy.statement import Statement

    Statement.parse(Statement.of("test", Guarantee(Cost(), 0.0), [], public_inputs={}).json())
