"""The installed package: what it links, what it brings for C++, its names and its stubs."""

from __future__ import annotations

import ast
import inspect
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType

import nvfuse_direct
import pytest
from nvfuse_direct import _C_DIRECT, utils

REPOSITORY = Path(__file__).resolve().parents[2]
STUBS = REPOSITORY / "python" / "nvfuse_direct" / "_C_DIRECT"

SYSTEM_LIBRARIES = re.compile(
    r"(libnvfuser|libstdc\+\+|libgcc_s|libm|libc|libdl|libpthread|ld-linux.*)\.so(\.\d+)?"
)


def run_python(source: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


@pytest.mark.skipif(not shutil.which("readelf"), reason="needs readelf (binutils)")
@pytest.mark.parametrize(
    "library", [Path(_C_DIRECT.__file__), Path(utils.library_dir, "libnvfuser.so")]
)
def test_links_neither_torch_nor_cuda(library: Path) -> None:
    dynamic = subprocess.run(
        ["readelf", "-d", library], capture_output=True, text=True, check=True
    ).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)
    assert needed
    assert [name for name in needed if not SYSTEM_LIBRARIES.fullmatch(name)] == []


@pytest.mark.parametrize(
    "header", ["fusion.h", "type.h", "ir/builder.h", "ops/all_ops.h", "scheduler/utils.h"]
)
def test_brings_its_headers(header: str) -> None:
    assert Path(utils.include_dir, header).is_file()


def test_one_version_everywhere() -> None:
    cmake = (REPOSITORY / "CMakeLists.txt").read_text()
    pyproject = (REPOSITORY / "pyproject.toml").read_text()
    version = re.search(r"project\(nvfuser VERSION ([\d.]+)", cmake)
    assert version
    assert f'version = "{version[1]}"' in pyproject
    assert str(nvfuse_direct.version()).partition("+")[0] == version[1]


def test_legacy_name_gives_what_thunder_reads_without_a_warning() -> None:
    source = """if True:
        import warnings
        warnings.simplefilter("error", UserWarning)
        import nvfuser
        import nvfuser_direct
        assert nvfuser.compute_tensor_descriptor is nvfuser_direct.compute_tensor_descriptor
        assert nvfuser.version() == nvfuser_direct.version()
    """
    run_python(source)


def test_another_package_called_nvfuser_is_warned_about() -> None:
    source = """if True:
        import sys, types
        sys.modules["nvfuser"] = types.ModuleType("nvfuser")
        import nvfuser_direct
    """
    assert "UserWarning" in run_python(source)


def test_drop_in_name_gives_the_same_objects() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import nvfuser_direct
    for name in ("FusionDefinition", "DataType", "TensorView", "version", "ops"):
        assert getattr(nvfuser_direct, name) is getattr(nvfuse_direct, name)


def stub_names(path: Path) -> set[str]:
    """Functions and classes of a stub, and the members of the classes as `Class.member`."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{member}" for member in member_names(node)}
    return names


def member_names(node: ast.ClassDef) -> set[str]:
    names = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
    targets = [item.target for item in node.body if isinstance(item, ast.AnnAssign)]
    return names | {target.id for target in targets if isinstance(target, ast.Name)}


def public_names(module: ModuleType) -> set[str]:
    names = set()
    for name, value in vars(module).items():
        if name.startswith("_") or inspect.ismodule(value) or not callable(value):
            continue
        names.add(name)
        if inspect.isclass(value):
            members = [member for member in vars(value) if not member.startswith("_")]
            names |= {f"{name}.{member}" for member in members if member != "global"}
    return names


SUBMODULES = [
    name
    for name, value in vars(_C_DIRECT).items()
    if inspect.ismodule(value) and not name.startswith("_")
]


@pytest.mark.parametrize("submodule", ["__init__", *SUBMODULES])
def test_stubs_know_every_public_name(submodule: str) -> None:
    module = _C_DIRECT if submodule == "__init__" else getattr(_C_DIRECT, submodule)
    missing = public_names(module) - stub_names(STUBS / f"{submodule}.pyi")
    assert not missing, f"run `make stubs`: {sorted(missing)}"
