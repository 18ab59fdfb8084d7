# SPDX-License-Identifier: BSD-3-Clause
"""Include layers of csrc/: a folder includes from itself and from those above it in LAYERS."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parents[2] / "csrc"

# From the ground up. `type` and `fusion` are files in the root of csrc/, with their parts
# (fusion.h, fusion/printer.h). `target` holds what both targets, cuda and host, share; tensors
# come after these as a tensor on a device is allocated and copied by its driver.
LAYERS = [
    "base",
    "type",
    "machine",
    "ir",
    "algebra",
    "fusion",
    "ops",
    "definition",
    "id_model",
    "transform",
    "kernel",
    "device",
    "lower",
    "codegen",
    "target",
    "cuda",
    "host",
    "tensor",
    "runtime",
    "preseg_passes",
    "segment",
    "scheduler",
    "library",
    "executor",
    "cutlass",
    "multidevice",
    "bindings",
]
RANK = {layer: rank for rank, layer in enumerate(LAYERS)}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def layer_of(path: Path) -> str:
    """Layer of a path relative to csrc/: its first folder, or its name when it lies in the root."""
    return path.parts[0] if len(path.parts) > 1 else path.stem.partition("_")[0]


def violations(csrc: Path) -> list[str]:
    """One line for each include that goes down a layer, and for each file that belongs to none."""
    found = []
    files = [path for path in sorted(csrc.rglob("*")) if path.suffix in (".h", ".cpp", ".cuh")]
    for path in files:
        name = path.relative_to(csrc)
        if layer_of(name) not in RANK:
            found.append(f"{name}: '{layer_of(name)}' is not a layer")
            continue
        for include in INCLUDE.findall(path.read_text()):
            target = Path(include)
            if include.startswith("."):
                found.append(f"{name} includes {include}: write the path from csrc/")
            ours = len(target.parts) > 1 and target.parts[0] in RANK
            if not ours and not (csrc / target).exists():
                continue  # the standard library, pybind11, ...
            if layer_of(target) not in RANK:
                found.append(f"{name} includes {include}: '{layer_of(target)}' is not a layer")
            elif RANK[layer_of(target)] > RANK[layer_of(name)]:
                found.append(f"{name} includes {include}, from a layer below it")
    return found


def test_csrc_respects_the_layers() -> None:
    assert any(CSRC.rglob("*.h")), f"no headers under {CSRC}"
    assert violations(CSRC) == []


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    def write(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    write("base/error.h", "#include <string>\n")
    write("type.h", "#include <base/error.h>\n")
    write("type.cpp", '#include "type.h"\n')
    write("ir/nodes.h", "#include <type.h>\n#include <ir/node_kinds.h>\n")
    write("fusion.h", "#include <ir/nodes.h>\n")
    write("fusion_printer.cpp", "#include <fusion.h>\n")
    return tmp_path


def test_checker_accepts_includes_from_above(sample: Path) -> None:
    assert violations(sample) == []


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("ir/bad.cpp", "#include <fusion.h>\n", "ir/bad.cpp includes fusion.h, from a layer below"),
        ("base/bad.h", "#include <type.h>\n", "base/bad.h includes type.h, from a layer below"),
        ("ops/bad.h", "  #  include <lower/lower.h>", "ops/bad.h includes lower/lower.h, from"),
        ("ir/bad.h", '#include "../fusion.h"\n', "write the path from csrc/"),
        ("misc/x.h", "", "'misc' is not a layer"),
        ("util.cpp", "", "'util' is not a layer"),
    ],
)
def test_checker_finds(sample: Path, file: str, text: str, message: str) -> None:
    (sample / file).parent.mkdir(exist_ok=True)
    (sample / file).write_text(text)
    assert any(message in line for line in violations(sample))
