"""Compiles the kernels for every platform that wheels are made for, with zig, and looks at what came out.

    pip install ziglang
    python scripts/cross_compile.py [--out FOLDER]

Nothing is run. For each platform it checks that the library exports what `kernels/__init__.py` calls, and that
products are computed with vector instructions. The tests can be run with the arm64 library under `qemu-aarch64`, with
a Python and a NumPy for arm64: put the library beside the sources (`--out`), and run tests/kernels.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from hatch_build import FLAGS, FOLDER, SETS

ZIG = [sys.executable, "-m", "ziglang"]
TARGETS = {
    "x86_64-linux-gnu": "kernels.so",
    "aarch64-linux-gnu": "kernels.so",
    "x86_64-macos": "kernels.dylib",
    "aarch64-macos": "kernels.dylib",
    "x86_64-windows-gnu": "kernels.dll",
}
VECTOR = {
    "v0": r"\bfmla(\.4s|\.2d|\s+v\d+\.4s|\s+v\d+\.2d)",
    "v2": r"\bmulp[sd]\b",
    "v3": r"\bvfmadd.*%ymm",
    "v4": r"\bvfmadd.*%zmm",
}
EXPORTED = ("ridge", "item_step", "add_gram", "systems", "equations", "top_n", "panel")
EXACT = (
    *("truncate_rows", "rising_rows", "add_up", "sum_rows", "placed_rows", "contributions"),
    *("weights", "moments", "standing", "instruction_set"),
)


def compiled(target: str, out: Path) -> str:
    """Compile and link for one platform; what was found, in words."""
    sources, arm = Path(__file__).parents[1] / FOLDER, target.startswith("aarch64")
    position = [] if "windows" in target else ["-fPIC"]
    sets = {"v0": "baseline"} if arm else {name: f"x86_64_{name}" for name in SETS}
    jobs = [("kernels.c", name, [f"-DSET={name}", f"-mcpu={cpu}"]) for name, cpu in sets.items()]
    jobs += [(f"{name}.c", name, ["-mcpu=baseline", "-ffp-contract=off"]) for name in ("exact", "users", "cpu")]
    objects, counts, names = [], {}, set()
    with tempfile.TemporaryDirectory() as scratch:
        for source, name, flags in jobs:
            command = [
                *ZIG,
                "cc",
                "-target",
                target,
                *FLAGS,
                "-Werror",
                "-Wno-unused-command-line-argument",
                *position,
                *flags,
                str(sources / source),
            ]
            subprocess.run([*command, "-S", "-o", f"{scratch}/{name}.s"], check=True)
            assembly = Path(scratch, f"{name}.s").read_text("utf-8")
            names |= set(re.findall(r"^_?(\w+):", assembly, re.M))
            if name in VECTOR:
                counts[name] = len(re.findall(VECTOR[name], assembly))
            subprocess.run([*command, "-c", "-o", f"{scratch}/{name}.o"], check=True)
            objects.append(f"{scratch}/{name}.o")
        library = out / target / TARGETS[target]
        library.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([*ZIG, "cc", "-target", target, "-shared", *objects, "-o", str(library)], check=True)
    wanted = {f"{name}_{kind}_{each}" for name in EXPORTED for kind in ("f32", "f64") for each in sets} | set(EXACT)
    if missing := wanted - names:
        raise SystemExit(f"{target}: {', '.join(sorted(missing))} is missing")
    if plain := [name for name, count in counts.items() if count < 50]:
        raise SystemExit(f"{target}: {', '.join(plain)} hardly has vector instructions")
    found = ", ".join(f"{name} {count}" for name, count in counts.items())
    return f"{target:20}{library.stat().st_size:>10,} bytes; vector products: {found}"


def main() -> None:
    """Compile for all platforms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--out", type=Path, help="where to leave the libraries; by default nowhere")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(2) as pool:
        for line in pool.map(lambda target: compiled(target, options.out or Path(scratch)), options.targets):
            sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
