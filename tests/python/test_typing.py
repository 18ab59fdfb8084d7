# SPDX-License-Identifier: BSD-3-Clause
"""Types of the API: mypy over the package, the examples and scripts of users."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from nvfuse_direct import _C_DIRECT

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPTS = Path(__file__).resolve().parent / "typed"
STUBS = REPOSITORY / "python" / "nvfuse_direct" / "_C_DIRECT"


@cache
def findings() -> tuple[str, ...]:
    """What mypy says of everything, in one run: most of its time goes to torch."""
    pytest.importorskip("mypy")
    done = subprocess.run(
        [
            sys.executable,
            *("-m", "mypy", "--no-error-summary", "--config-file", "pyproject.toml"),
            *("--cache-dir", REPOSITORY / "build" / "mypy", "--python-executable", sys.executable),
            *("python/nvfuse_direct", "python/nvfuser_direct", "examples", SCRIPTS),
        ],
        cwd=REPOSITORY,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return tuple(line for line in done.stdout.splitlines() if ": note:" not in line)


def test_package_examples_and_a_users_script_are_well_typed() -> None:
    assert [line for line in findings() if "wrong_script.py" not in line] == []


def test_mistakes_are_found() -> None:
    text = (SCRIPTS / "wrong_script.py").read_text().splitlines()
    expected = {number for number, line in enumerate(text, 1) if "# error:" in line}
    found = {
        int(re.search(r"wrong_script\.py:(\d+):", line)[1])  # type: ignore[index]
        for line in findings()
        if "wrong_script.py" in line
    }
    assert found == expected, "\n".join(findings())


def test_the_typed_script_runs() -> None:
    subprocess.run([sys.executable, SCRIPTS / "user_script.py"], check=True, timeout=600)


@pytest.mark.parametrize("name", ["ops", "schedule", "multidevice", "idm", "__init__"])
def test_public_functions_have_types(name: str) -> None:
    """No parameter or result of anything public is of any type, but for the inputs of a call."""
    stub = (STUBS / f"{name}.pyi").read_text()
    code = re.sub(r'r?"""(?:.|\n)*?"""', "", stub)
    lines = [
        line.strip()
        for line in code.splitlines()
        if re.match(r"\s*def (?!_)\w+\(", line)
        and "collections.abc.Iterable[typing.Any]" not in line
    ]
    assert lines
    vague = [line for line in lines if re.search(r"typing\.Any|\bobject\b|\*args|-> tuple:", line)]
    assert vague == []


def test_stubs_are_those_of_the_extension(tmp_path: Path) -> None:
    subprocess.run(
        [
            *(sys.executable, REPOSITORY / "tools" / "generate_stubs.py"),
            *("nvfuse_direct._C_DIRECT", "-o", tmp_path),
        ],
        check=True,
        timeout=120,
    )
    for path in sorted((tmp_path / "_C_DIRECT").glob("*.pyi")):
        assert (STUBS / path.name).read_text() == path.read_text(), f"{path.name}: run `make stubs`"
    assert _C_DIRECT.ops.add.__doc__.startswith("add(x: TensorView | Val | bool | int | float")
