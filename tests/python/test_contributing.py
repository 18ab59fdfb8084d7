# SPDX-License-Identifier: BSD-3-Clause
"""What contributors are told holds: make help, CONTRIBUTING.md, the tools' versions."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["CONTRIBUTING.md", "README.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
MORE_PAGES = ["CHANGELOG.md", "benchmarks/README.md", "csrc/device/README.md"]
MORE_PAGES += [f"docs/measurements/{p.name}" for p in (ROOT / "docs/measurements").glob("*.md")]


def test_make_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.M)
    assert phony is not None
    targets = set(re.findall(r"^([a-z][\w-]*):(?!=)", makefile, re.M))
    assert targets == set(phony.group(1).split()) - {"FORCE"}
    text = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert set(re.findall(r"^  ([a-z][\w-]*)  ", text, re.M)) == targets
    variables = {"PYTHON", "TORCH", "JOBS", "PYTEST_ARGS", "GTEST_ARGS", "DEVICE"}
    for variable in variables | {"INSTALL_PACKAGES", "SANITIZE"}:
        assert variable in text and f"{variable} ?=" in makefile


def test_what_sanitized_runs_leave_out_exists() -> None:
    from run_sanitized import DESELECTED, TESTS

    for name in DESELECTED:
        file, *functions = name.split("::")
        text = (ROOT / TESTS / file).read_text()
        assert all(f"\ndef {function}(" in text for function in functions), name


def test_tools_of_lint_have_one_version() -> None:
    lines = (ROOT / "tools/lint_requirements.txt").read_text().splitlines()
    tools = {line.split("==")[0] for line in lines if re.fullmatch(r"[a-z-]+==[\d.]+", line)}
    assert tools == {"ruff", "clang-format", "clang-tidy", "mypy"}
    ci = (ROOT / ".ci/run").read_text()
    assert "make lint" in ci and "make test" in ci


def test_nothing_is_installed_without_a_word(tmp_path: Path) -> None:
    for program in ("bash", "id", "env"):
        (tmp_path / program).symlink_to(f"/usr/bin/{program}")
    # Stands for apt-get: says what it was asked for.
    apt = tmp_path / "apt-get"
    apt.write_text('#!/bin/bash\necho "apt-get called: $*"\n')
    apt.chmod(0o755)

    def need(**environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/bash", ROOT / "tools/need_packages.sh", "compiler"],
            env={"PATH": str(tmp_path), **environment},
            capture_output=True,
            text=True,
        )

    forbidden = need(INSTALL_PACKAGES="0")
    assert forbidden.returncode == 1 and "apt-get called" not in forbidden.stdout
    assert "Missing: g++" in forbidden.stderr
    if os.geteuid() != 0:
        pytest.skip("only root is offered an installation")
    first, *calls = need().stdout.splitlines()
    assert first.startswith("Missing on this system: g++. Running: apt-get update")
    assert calls == ["apt-get called: update -qq", "apt-get called: install -y -qq g++"]


@pytest.mark.parametrize("page", PAGES)
def test_files_that_the_pages_name_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    named = set(
        re.findall(r"`((?:csrc|tests|docs|tools|python|benchmarks|examples)/[\w./-]*)`", text)
    )
    named |= {
        str(Path(page).parent / link)
        for link in re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", text)
        if not link.startswith("http")
    }
    missing = sorted(path for path in named if not (ROOT / path).exists())
    assert named and not missing


def anchors(page: Path) -> set[str]:
    """Of a page's headings, as they are made of their texts."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES + MORE_PAGES)
def test_links_lead_to_files_and_sections(page: str) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text())
    for link in links:
        name, _, section = link.partition("#")
        if not name.startswith("http"):
            target = (ROOT / page).parent / name if name else ROOT / page
            assert target.exists(), link
            assert not section or section in anchors(target), link


def test_pages_that_the_sources_name_exist() -> None:
    folders = ["csrc", "python", "tests", "benchmarks", "examples", "tools"]
    files = [
        file
        for folder in folders
        for file in (ROOT / folder).rglob("*")
        if file.suffix in (".cpp", ".h", ".py") and "__pycache__" not in file.parts
    ]
    named = {
        page
        for file in files
        for page in re.findall(r"(?<![\w/])(?:docs|spec)/[\w/]+\.md\b", file.read_text())
    }
    assert len(named) > 5
    assert [page for page in sorted(named) if not (ROOT / page).exists()] == []


def test_the_map_lists_the_folders_from_the_ground_up() -> None:
    from test_layers import CSRC, LAYERS

    text = (ROOT / "docs/design.md").read_text()
    listed = re.findall(r"^\| `csrc/([\w.]+)/?` \|", text, re.M)
    there = [layer for layer in LAYERS if (CSRC / layer).is_dir() or (CSRC / f"{layer}.h").exists()]
    assert [name.removesuffix(".h") for name in listed] == there


def test_every_pass_of_lowering_has_tests_that_contributors_find() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = dict(re.findall(r"^\| `csrc/lower/(\w+\.cpp)`[^|]*\| ([^|]*) \|", text, re.M))
    passes = {path.name for path in (ROOT / "csrc/lower").glob("*.cpp")}
    assert set(table) == passes
    for tests in table.values():
        for name in re.findall(r"`(\w+)`", tests):
            assert list(ROOT.glob(f"tests/*/{name}.*")), name


def golden(pattern: str) -> str:
    return "".join(path.read_text() for path in sorted((ROOT / "tests/cpp").glob(pattern)))


def test_every_pass_of_lowering_has_a_golden_test() -> None:
    passes = re.findall(r'pass\("([^"]+)"', (ROOT / "csrc/lower/lower.cpp").read_text())
    shown = re.findall(r'\b(?:after|changesOf)\(\s*"([^"]+)"', golden("test_*.cpp"))
    # It changes nothing: test_lower_check_schedule.cpp has what it refuses.
    assert passes and set(passes) - set(shown) == {"check the schedule"}


def test_every_rewrite_of_a_definition_has_a_golden_test() -> None:
    folder = ROOT / "csrc/preseg_passes"
    declared = "".join((folder / name).read_text() for name in ("passes.h", "canonical_form.h"))
    rewrites = re.findall(r"^(?:void|Val\*|MovedViews) (\w+)\(Fusion\*", declared, re.M)
    listed = re.findall(r"\b([a-z]\w+)\(fusion, wanted", (folder / "preseg_passes.cpp").read_text())
    tests = golden("test_preseg_*.cpp")
    missing = {name for name in rewrites + listed if f"{name}(" not in tests}
    assert len(rewrites) > 20 and missing == {"makeCanonical"}  # the list of them
