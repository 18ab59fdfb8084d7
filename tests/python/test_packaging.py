# SPDX-License-Identifier: BSD-3-Clause
"""The installed package: what it links, what it brings for C++, its names and its stubs."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
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


def exported_symbols(library: Path) -> list[str]:
    table = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    ).stdout
    return [line.split()[-1] for line in table.splitlines()]


@pytest.mark.skipif(not shutil.which("nm"), reason="needs nm (binutils)")
def test_library_exports_its_own_namespace_only() -> None:
    """What else it exported could be replaced by another library's, half of libstdc++ included."""
    symbols = exported_symbols(Path(utils.library_dir, "libnvfuser.so"))
    # Prefixes of a mangled name say what kind of entity it is; its namespaces come first.
    own = re.compile(r"_Z(Z|G[VR]Z?|T[VTCISHW]|T[hv].*_)?NK?[OR]?7nvfuser")
    assert [name for name in symbols if not own.match(name)] == []
    for needed in ("_ZTIN7nvfuser9UserErrorE", "_ZTVN7nvfuser10TensorViewE"):
        assert needed in symbols


@pytest.mark.skipif(not shutil.which("nm"), reason="needs nm (binutils)")
def test_extension_exports_what_python_looks_up() -> None:
    assert exported_symbols(Path(_C_DIRECT.__file__)) == ["PyInit__C_DIRECT"]


LINKED_ANEW = """if True:
    import torch, sys
    sys.path.insert(0, sys.argv[1])
    import nvfuse_direct as nvf
    assert nvf.__file__.startswith(sys.argv[1]), nvf.__file__
    x = torch.randn(4, 8)
    with nvf.FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output(fd.ops.sum(fd.ops.exp(t), [1]))
    print(fd)
    torch.testing.assert_close(fd.execute([x])[0], x.exp().sum(1))
    try:
        fd.execute([x, x])
    except RuntimeError as error:
        print(error)
    else:
        raise AssertionError("an error of the library did not reach Python")
"""


def link_command(build: Path, target: str) -> list[str]:
    """How the build tree links a target, with the C++ library linked statically."""
    ninja = shutil.which("ninja") or Path(sys.executable).with_name("ninja")
    commands = subprocess.run(
        [ninja, "-C", build, "-t", "commands", "-s", target],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (command,) = re.findall(r"^: && (.*-shared.*?) && ", commands, re.MULTILINE)
    return [*shlex.split(command), "-static-libstdc++", "-static-libgcc"]


@pytest.mark.skipif(not (REPOSITORY / "build/dev/build.ninja").exists(), reason="needs build/dev")
def test_imports_after_torch_with_the_cpp_library_linked_statically(tmp_path: Path) -> None:
    """As the default g++ of some systems does; the objects of the build tree are linked anew."""
    build = REPOSITORY / "build" / "dev"
    installed = Path(nvfuse_direct.__file__).parent
    package = shutil.copytree(installed, tmp_path / "nvfuse_direct")
    extension = Path(_C_DIRECT.__file__).name
    for target, path in (("libnvfuser.so", "lib/libnvfuser.so"), (extension, extension)):
        command = link_command(build, target)
        command[command.index("-o") + 1] = str(package / path)
        command.append("-Wl,-rpath,$ORIGIN/lib")
        subprocess.run(command, cwd=build, check=True, timeout=60)
        needed = subprocess.run(
            ["readelf", "-d", package / path], capture_output=True, text=True, check=True
        ).stdout
        assert "libstdc++" not in needed
    result = subprocess.run(
        [sys.executable, "-c", LINKED_ANEW, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr


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
