# SPDX-License-Identifier: BSD-3-Clause
"""Every source and build file names the license of the project, in the form that tools read."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ["csrc", "python", "tests", "benchmarks", "examples", "tools", "cmake"]
SUFFIXES = {".cpp", ".h", ".py", ".cmake", ".in", ".map", ".sh"}
BUILD_FILES = {"Makefile", "CMakeLists.txt"}
LINE = "SPDX-License-Identifier: BSD-3-Clause"


def test_source_files_name_the_license():
    folders = [ROOT / folder for folder in FOLDERS]
    files = [
        file
        for file in [*ROOT.iterdir(), *(f for folder in folders for f in folder.rglob("*"))]
        if (file.suffix in SUFFIXES or file.name in BUILD_FILES) and "__pycache__" not in file.parts
    ]
    assert len(files) > 500
    assert {ROOT / name for name in BUILD_FILES} <= set(files)
    missing = [
        str(file.relative_to(ROOT))
        for file in files
        if not any(line.endswith(LINE) for line in file.read_text().splitlines()[:2])
    ]
    assert not missing
    assert (ROOT / "LICENSE").read_text().startswith("BSD 3-Clause License")
