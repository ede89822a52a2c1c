"""`discreet doctor`: check the installation, and that noise and accounting work on this machine."""

import os
import platform
import shutil
from collections.abc import Callable
from importlib import util
from typing import Any

import typer

from discreet.cli.output import pairs, show

EXTRAS = {
    "postgres": "psycopg",
    "excel": "xlrd",
    "plot": "matplotlib",
    "spark": "pyspark",
    "serve": "starlette",
    "ann": "usearch",
}


def keystream_known_answer() -> bool:
    """The counter-mode test vector of NIST SP 800-38A, section F.5.5, for the cipher that all noise comes from."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    counter = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
    encryptor = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()
    found = encryptor.update(bytes.fromhex("6bc1bee22e409f96e93d7e117393172a"))
    return found.hex() == "601ec313775789a5b7a7f504bbf3d228"


def noise_has_its_law() -> bool:
    """A million draws of each kind against their standard deviations; a false alarm happens once in 10^9 times."""
    import numpy as np

    from discreet.privacy import Gaussian, GridArray, Laplace, SystemNoise

    n = 10**6
    zeros = GridArray(np.zeros(n, np.int64), Gaussian(1.0).grid())
    normal = Gaussian(1.0).add(zeros, SystemNoise())
    laplace = Laplace(1.0).add(zeros, SystemNoise())
    return bool(
        abs(normal.mean()) < 6.2 / n**0.5
        and abs((normal**2).mean() - 1) < 6.2 * (2 / n) ** 0.5
        and abs((laplace**2).mean() - 2) < 6.2 * (20 / n) ** 0.5
    )


def accountant_known_answer() -> bool:
    """The noise of epsilon 1 at delta 1e-5, known to 60 digits."""
    from discreet.privacy.guarantee import gaussian_mu

    return abs(gaussian_mu(1.0, 1e-5) - 0.26805112323) < 1e-8


CHECKS: dict[str, Callable[[], bool]] = {
    "keystream (AES-256-CTR known answer)": keystream_known_answer,
    "noise (a million draws of each law)": noise_has_its_law,
    "accountant (known answer)": accountant_known_answer,
}


def doctor() -> None:
    """Check versions, optional dependencies, and that noise and accounting work on this machine.

    Example: discreet doctor
    """
    import numpy as np

    from discreet.data.archives import folders
    from discreet.kernels import instruction_set
    from discreet.parallel import n_threads
    from discreet.privacy.statement import PACKAGES, installed

    results = {name: check() for name, check in CHECKS.items()}
    versions = {name: installed(name) for name in (*PACKAGES, "duckdb", "pyarrow")}
    extras = {name: util.find_spec(module) is not None for name, module in EXTRAS.items()}
    built: Any = np.show_config(mode="dicts")
    blas = built.get("Build Dependencies", {}).get("blas", {})
    machine = {
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "threads": n_threads(-1),
        "kernels": f"{platform.machine()} {instruction_set()}",
        "blas": f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip(),
        "java": shutil.which("java") is not None,
        "data": ", ".join(map(str, folders())),
    }
    words = {True: "[green]ok[/green]", False: "[red]FAILED[/red]"}
    optional = {name: "installed" if there else f"pip install 'discreet\\[{name}]'" for name, there in extras.items()}
    said = {name: ("yes" if value else "no") if isinstance(value, bool) else value for name, value in machine.items()}
    show(
        {"ok": all(results.values()), "checks": results, "versions": versions, "extras": extras, "machine": machine},
        pairs({name: words[good] for name, good in results.items()}),
        "",
        pairs({**versions, **said}),
        "",
        "optional dependencies:",
        pairs(optional),
    )
    if not all(results.values()):
        raise typer.Exit(1)
