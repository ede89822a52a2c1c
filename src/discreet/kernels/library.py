"""The compiled library: which of its functions fit this processor, and how to call them.

`hatch_build.py` compiles it from the C files beside this one. Calls release the interpreter lock.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from discreet.typing import Array

NAME = {"darwin": "kernels.dylib", "win32": "kernels.dll"}.get(sys.platform, "kernels.so")
KINDS: dict[Any, Any] = {np.dtype(np.float32): ("f32", ctypes.c_float), np.dtype(np.float64): ("f64", ctypes.c_double)}
POINTER, INTEGER = ctypes.c_void_p, ctypes.c_int64
SIGNATURES: dict[str, Any] = {  # what is returned, and what is taken
    "ridge": (None, [POINTER, INTEGER, INTEGER, INTEGER, POINTER]),
    "leave_fold_out": (None, [POINTER, POINTER, INTEGER, INTEGER, INTEGER, POINTER]),
    "item_step": (None, [POINTER, POINTER, POINTER, INTEGER, INTEGER, INTEGER, POINTER]),
    "systems": (None, [POINTER, POINTER, INTEGER, INTEGER, INTEGER, INTEGER, POINTER]),
    "equations": (None, [POINTER, INTEGER, INTEGER, POINTER]),
    "top_n": (None, [POINTER, INTEGER, INTEGER]),
    "panel": (INTEGER, []),
}
PAD = 16  # numbers that the rows of a table are a multiple of
LINE = 64  # bytes of a cache line, and of the widest register


@cache
def _library() -> ctypes.CDLL:
    path = Path(__file__).with_name(NAME)
    if not path.exists():
        raise ImportError(f"{path} is missing: install discreet with pip, or run python hatch_build.py in its folder")
    return ctypes.CDLL(str(path))


@cache
def instruction_set() -> str:
    """The instruction set that the kernels use here: "v2", "v3" or "v4" of x86-64, "v0" for other processors."""
    return f"v{_library().instruction_set()}"


@cache
def function(name: str, dtype: Any) -> Any:
    """A function of the library for numbers of a type. It returns nothing, or a 64-bit integer."""
    found = getattr(_library(), f"{name}_{KINDS[np.dtype(dtype)][0]}_{instruction_set()}")
    found.restype, found.argtypes = SIGNATURES[name]
    return found


@cache
def _layout(fields: tuple[tuple[str, Any], ...]) -> Any:
    return type("Arguments", (ctypes.Structure,), {"_fields_": fields})


@cache
def _exported(name: str, taken: tuple[Any, ...], returned: Any) -> Any:
    found = getattr(_library(), name)
    found.argtypes, found.restype = list(taken), returned
    return found


def exported(name: str, taken: list[Any], returned: Any = None) -> Any:
    """A function that is the same for all instruction sets."""
    return _exported(name, tuple(taken), returned)


class Struct:
    """A C struct of pointers and numbers, in the order in which they are given; it keeps the arrays alive."""

    def __init__(self, dtype: Any, **fields: Any) -> None:
        kinds = {float: KINDS[np.dtype(dtype)][1], int: ctypes.c_int64}
        layout = tuple((name, kinds.get(type(value), ctypes.c_void_p)) for name, value in fields.items())
        self._kept = {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}
        if not all(value.flags.c_contiguous for value in self._kept.values()):
            raise ValueError("kernels take contiguous arrays")
        places = {name: value.ctypes.data for name, value in self._kept.items()}
        self._struct = _layout(layout)(**{**fields, **places})
        self._as_parameter_ = ctypes.byref(self._struct)


def address(array: Array) -> ctypes.c_void_p:
    """Where an array begins."""
    return ctypes.c_void_p(array.ctypes.data)


def aligned(shape: tuple[int, ...], dtype: Any) -> Array:
    """Zeros that begin with a cache line."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + LINE, np.uint8)
    first = -memory.ctypes.data % LINE
    found: Array = memory[first : first + size].view(dtype).reshape(shape)
    return found
