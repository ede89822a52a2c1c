"""Whether the bits of a result depend on where its operands are."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import discreet
from discreet.errors import PrivacyError
from discreet.privacy import determinism


def test_placed_where_it_says() -> None:
    for at in range(determinism.PLACES):
        placed = determinism._placed(np.arange(6.0).reshape(2, 3), at)
        assert placed.ctypes.data % 64 == 8 * at
        assert np.array_equal(placed, np.arange(6.0).reshape(2, 3))


def test_single_precision_is_placed_too() -> None:
    for at in range(2 * determinism.PLACES):
        assert determinism._placed(np.arange(6, dtype=np.float32), at).ctypes.data % 64 == 4 * at


def test_single_precision_is_tried_as_double_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operation that depends on addresses for one of the two kinds of numbers alone is found."""
    for kind in (np.float32, np.float64):

        def peels(X: Any, t: Any, z: Any, kind: Any = kind) -> Any:
            return X * (1 + X.ctypes.data % 64) if X.dtype == kind else X

        monkeypatch.setitem(determinism.OPERATIONS, "peels", peels)
        assert determinism.address_dependent() == ("peels",)


def test_a_kernel_that_peels_is_found() -> None:
    """An old kernel, which OpenBLAS can be told to use, treats unaligned numbers apart."""
    code = "from discreet.privacy.determinism import address_dependent; print(*address_dependent())"
    environment = {**os.environ, "OPENBLAS_CORETYPE": "Sandybridge"}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    if not found.stdout.strip():
        pytest.skip("this BLAS is not an OpenBLAS with that kernel, or the kernel does not depend on addresses")
    assert any(name in found.stdout for name in determinism.OPERATIONS)


def test_no_private_fit_where_bits_depend_on_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    determinism.require_sound_arithmetic.cache_clear()
    monkeypatch.setattr("discreet.privacy.determinism.address_dependent", lambda: ("X z",))
    ledger = discreet.Ledger(epsilon=5, delta=1e-6)
    data = discreet.datasets.movielens_like(50, 20, 500, random_state=0)
    with pytest.raises(PrivacyError, match="OPENBLAS_CORETYPE"):
        discreet.DPALS(epsilon=1, delta=1e-6).fit(data, ledger=ledger)
    assert not ledger.events


def test_this_machine_is_sound_and_says_what_it_computes_with() -> None:
    determinism.require_sound_arithmetic()
    words = determinism.machine_kernels()
    assert words == determinism.machine_kernels.__wrapped__()
    assert f"discreet {discreet.__version__} v" in words
    assert f"numpy {np.__version__}" in words
    assert "results " in words
