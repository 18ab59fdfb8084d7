# SPDX-License-Identifier: BSD-3-Clause
"""Make or update the project's virtual environment; run by the Makefile with the interpreter that
the user chose.

Uses that interpreter's torch when it is new enough, and installs one otherwise. Does nothing when
the environment already fits, so it can run before every target.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

OLDEST_TORCH = (2, 10)
REQUIREMENTS = [
    "scikit-build-core>=0.10",
    "pybind11>=3.0",
    "numpy",
    "nvidia-cuda-nvrtc>=13.0,<14",
    "pytest>=8",
    "pytest-xdist>=3",
    "mypy==2.4.1",
]
# (module or program that proves it is there, requirement)
BUILD_PROGRAMS = [("cmake", "cmake>=3.24"), ("ninja", "ninja>=1.11")]


def usable_torch() -> str | None:
    """Version of this interpreter's torch if it is new enough, without importing it."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None
    major, minor = (int(part) for part in version.split(".")[:2])
    return version if (major, minor) >= OLDEST_TORCH else None


def run(*command: str | Path) -> None:
    print("+", " ".join(map(str, command)), flush=True)
    subprocess.run([str(part) for part in command], check=True)


def create(venv: Path, share_packages: bool) -> None:
    if venv.exists():
        shutil.rmtree(venv)
    options = ["--system-site-packages"] if share_packages else []
    try:
        run(sys.executable, "-m", "venv", *options, venv)
    except subprocess.CalledProcessError:
        sys.exit(
            f"{sys.executable} cannot make virtual environments"
            " (on Debian and Ubuntu: apt install python3-venv)."
        )
    if share_packages and sys.prefix != sys.base_prefix:
        # --system-site-packages reaches the base interpreter only; torch may live in the
        # environment we run in.
        site_packages = next((venv / "lib").glob("python*/site-packages"))
        paths = dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
        (site_packages / "outer_environment.pth").write_text("\n".join(paths) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("venv", type=Path)
    parser.add_argument(
        "--torch",
        default="torch==2.13.0",
        help="requirement to install when there is no usable torch",
    )
    args = parser.parse_args()
    if sys.version_info < (3, 10):  # noqa: UP036 (run before any check by pip)
        sys.exit(
            f"Python 3.10 or newer is needed; {sys.executable} is {sys.version.split()[0]}."
            " Another one: make PYTHON=python3.12 ..."
        )

    if Path(sys.prefix).resolve() == args.venv.resolve():
        # The environment is active: what it was made from decides.
        base = os.path.realpath(sys.executable)
        os.execv(base, [base, *sys.argv])

    torch = usable_torch()
    requirements = REQUIREMENTS + [
        name for program, name in BUILD_PROGRAMS if not shutil.which(program)
    ]
    wanted = {
        "python": os.path.realpath(sys.executable),
        "version": sys.version,
        "torch": torch or args.torch,
        "shared": torch is not None,
        "requirements": requirements,
    }
    stamp = args.venv / "setup.json"
    have = json.loads(stamp.read_text()) if stamp.exists() else {}
    if have == wanted:
        return
    if any(have.get(key) != wanted[key] for key in ("python", "version", "shared")):
        create(args.venv, share_packages=torch is not None)
    stamp.unlink(missing_ok=True)
    python = args.venv / "bin" / "python"
    if torch:
        print(f"Using torch {torch} of {sys.executable}")
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check"]
    run(*pip, *requirements, *([] if torch else [args.torch]))
    stamp.write_text(json.dumps(wanted, indent=1) + "\n")


if __name__ == "__main__":
    main()
