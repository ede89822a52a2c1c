"""Compiles the kernels (src/discreet/kernels/*.c) into a shared library that the wheel carries.

The library is called through ctypes: it does not depend on the version of Python, so one wheel for each platform serves
them all. Any C compiler will do; where there is none, the build asks for the package `ziglang`, which is one. After a
change: python hatch_build.py
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run as a script
    BuildHookInterface = object  # type: ignore[assignment, misc]

FOLDER = Path("src", "discreet", "kernels")
LIBRARY = {"darwin": "kernels.dylib", "win32": "kernels.dll"}.get(sys.platform, "kernels.so")
SETS = {"v2": "x86-64-v2", "v3": "x86-64-v3", "v4": "x86-64-v4"}  # of x86-64; other processors have one
# No -ffast-math: a row's sums are taken in the order they are written in, whatever is beside it.
FLAGS = ["-O3", "-std=gnu11", "-fvisibility=hidden", "-ffp-contract=fast", "-fno-math-errno", "-Wall", "-g0"]


def target() -> str:
    """The processor that is compiled for."""
    machine = os.environ.get("ARCHFLAGS", "").rpartition("-arch ")[2].strip() or platform.machine()
    return {"AMD64": "x86_64", "aarch64": "arm64"}.get(machine, machine)


def compiler() -> list[str] | None:
    """The C compiler: $CC, or the first that is found; None if there is none."""
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    return [sys.executable, "-m", "ziglang", "cc"] if find_spec("ziglang") else None


def compile_kernels(root: Path) -> Path:
    """Compile all instruction sets into one library, beside the sources."""
    cc = compiler()
    if cc is None:
        raise RuntimeError("no C compiler was found: install gcc, clang or the package ziglang, or set CC")
    folder, x86 = root / FOLDER, target() == "x86_64"
    position = [] if sys.platform == "win32" else ["-fPIC"]
    with tempfile.TemporaryDirectory() as scratch:

        def compiled(job: tuple[str, str, list[str]]) -> str:
            source, name, flags = job
            out = str(Path(scratch, f"{name}.o"))
            subprocess.run([*cc, *FLAGS, *position, *flags, "-c", str(folder / source), "-o", out], check=True)
            return out

        zig = "ziglang" in cc  # which has names of its own for processors, and compiles for this one if none is given
        sets = {name: [f"-march={machine}"] for name, machine in SETS.items()} if x86 else {"v0": []}
        if x86 and not zig:
            sets["v4"].append("-mprefer-vector-width=512")
        if zig:
            sets = {name: [f"-mcpu=x86_64_{name}"] for name in SETS} if x86 else {"v0": ["-mcpu=baseline"]}
        plain = ["-mcpu=baseline"] if zig else []
        jobs = [("kernels.c", name, [f"-DSET={name}", *flags]) for name, flags in sets.items()]
        with ThreadPoolExecutor() as pool:
            exact = [*plain, "-ffp-contract=off"]  # bit for bit what NumPy computes
            jobs += [(f"{name}.c", name, exact) for name in ("exact", "users", "cpu")]
            objects = list(pool.map(compiled, jobs))
        made = Path(scratch, LIBRARY)
        subprocess.run(
            [*cc, "-shared", *objects, "-o", str(made), *([] if sys.platform == "win32" else ["-lm"])], check=True
        )
        os.replace(shutil.copy(made, folder / f".{LIBRARY}"), folder / LIBRARY)
    return folder / LIBRARY


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc, valid-type]
    """Compiles before a wheel is built, or an editable install made."""

    def dependencies(self) -> list[str]:
        """A compiler, only where there is none."""
        return [] if compiler() else ["ziglang>=0.13"]

    def initialize(self, version: str, build_data: dict[str, object]) -> None:
        """Compile, and name the platform in the wheel's tag."""
        if self.target_name != "wheel":
            return
        made = compile_kernels(Path(self.root))
        build_data["pure_python"] = False
        system = sysconfig.get_platform().replace("-", "_").replace(".", "_").replace("universal2", target())
        build_data["tag"] = f"py3-none-{system}"
        build_data["artifacts"] = [str(made.relative_to(self.root).as_posix())]


if __name__ == "__main__":
    compile_kernels(Path(__file__).parent)
