# SPDX-License-Identifier: BSD-3-Clause
"""Every source file names the license of the project, in the form that tools read."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ["csrc", "python", "tests", "benchmarks", "examples", "tools"]
LINE = "SPDX-License-Identifier: BSD-3-Clause"


def test_source_files_name_the_license():
    files = [
        file
        for folder in FOLDERS
        for file in (ROOT / folder).rglob("*")
        if file.suffix in (".cpp", ".h", ".py") and "__pycache__" not in file.parts
    ]
    assert len(files) > 500
    missing = [
        str(file.relative_to(ROOT))
        for file in files
        if not any(line.endswith(LINE) for line in file.read_text().splitlines()[:2])
    ]
    assert not missing
    assert (ROOT / "LICENSE").read_text().startswith("BSD 3-Clause License")
