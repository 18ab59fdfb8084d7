# SPDX-License-Identifier: BSD-3-Clause
"""Names that the source declares and nothing reads: options, parameters, kinds, enum values.

The lists come from the sources in csrc/. A name that nothing reads does nothing: it goes, or the
contract (the Python API, test_contract.py) asks for it, and then it is in a list below with the
reason and says so when it is used (a warning, or an error in lower/check_schedule.cpp). A name that
is in a list below and is read, or is gone, fails as well. docs/environment.md is such a list of the
environment variables that are read.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parents[2] / "csrc"

# The bindings offer everything by name, and these files give names to values: no use of them.
NAMING = {"type.cpp", "options.cpp"}

ENUM_VALUES = {
    "IdMappingMode::AlmostExact": "contract: the bindings build the exact graph for it",
    "SchedulerType::Resize": "contract: find_compatible_schedulers never has it",
    "MatmulTilingStrategy::DistributeTilesAcrossSMs": "contract: values of MatmulParams",
    "MatmulTilingStrategy::DistributeStagesAcrossSMs": "contract: values of MatmulParams",
    "MatmulBufferingLoopLevel::WarpTiles": "contract: values of MatmulParams",
    "MatmulCircularBufferingStrategy::WarpSpecialized": "contract: values of MatmulParams",
    "MatmulTileRasterizationOrder::ColumnMajor": "contract: values of MatmulParams",
    "TensorMapSwizzle::Bytes32": "cuda: made from the number of bytes",
    "TensorMapSwizzle::Bytes64": "cuda: made from the number of bytes",
    "TensorMapSwizzle::Bytes128": "cuda: made from the number of bytes",
}

KINDS = {
    "Swizzle1D": "contract: TensorView.swizzle1d; it rotates by the index of the only device",
}

# Classes of which every field is there for the contract alone.
UNREAD_CLASSES = {
    "MatmulParams": "contract: products are evaluated by torch",
    "MatMulTileOptions": "contract: a field of MatmulParams",
    "CircularBufferOptions": "contract: a field of MatmulParams",
    "SupportedVectorization": "contract: a field of MatmulParams",
    "GemmTile": "contract: a field of MatmulParams",
    "ClusterDims": "contract: a field of MatmulParams",
    "MmaMacroEncode": "contract: a field of MatmulParams",
}

# Fields of ReductionParams that the contract names. They follow from others of them, or say what no
# schedule does.
CONTRACT_FIELDS = set(
    """
    schedule_3d flip_grid cross_block_inner_reduction vectorize_inner_reduction
    split_grid_dim_inner_reduction pad_inner_reduction_to_warp block_dim_inner_reduction
    grid_dim_inner_reduction multiple_reds_per_blk vectorize_iter_dom split_grid_dim_iter_dom_inner
    split_grid_dim_iter_dom_outer block_dim_iter_dom grid_dim_iter_dom cross_block_outer_reduction
    batches_per_block_outer_reduction block_dim_outer_reduction grid_dim_outer_reduction
    compute_persistent_buffer_with_first_consumer static_bdimx static_bdimy
    tidx_for_outer_reduction pad_outer_reduction_to_warp combined_split_grid_inner_dim
    vectorization_factor_outer vectorization_factor_tmp_gmem_write block_dim_inner_reduction_extra
    """.split()
)


@functools.cache
def sources() -> dict[Path, str]:
    """Texts without comments; of the device library's, which are programs of their own, none."""
    return {
        path: re.sub(r"//.*", "", path.read_text())
        for path in sorted(CSRC.rglob("*"))
        if path.suffix in (".h", ".cpp") and "device" not in path.relative_to(CSRC).parts[:1]
    }


def readers() -> dict[Path, str]:
    return {
        path: text
        for path, text in sources().items()
        if path.name not in NAMING and "bindings" not in path.parts
    }


def enums() -> dict[str, list[str]]:
    found = {}
    for path, text in sources().items():
        if "bindings" in path.parts:
            continue
        for name, body in re.findall(r"enum class (\w+)[^{;]*\{([^}]*)\}", text):
            values = [v.split("=")[0].strip() for v in body.split(",") if v.strip()]
            found[name] = [v for v in values if re.fullmatch(r"\w+", v)]
    return found


@functools.cache
def qualified() -> set[tuple[str, str]]:
    """Every Scope::Name that is written somewhere."""
    return {pair for text in readers().values() for pair in re.findall(r"\b(\w+)(?=::(\w+))", text)}


def unread(enum: str, values: list[str]) -> set[str]:
    return {value for value in values if (enum, value) not in qualified()}


@pytest.mark.parametrize("kind", ["Enable", "Disable", "Dump", "Profiler"])
def test_options_that_nothing_reads_say_so(kind: str) -> None:
    values = enums()[f"{kind}Option"]
    assert values.pop() == "EndOfOptions"
    table = (CSRC / "base/options.cpp").read_text()
    table = table[table.index(f"k{kind}Rows = ") :].split("}};")[0]
    rows = re.findall(r'\{"([\w.]+)"(,)?', table)
    assert len(rows) == len(values)
    ignored = {value for value, (_, reason) in zip(values, rows, strict=True) if reason}
    nothing_reads = unread(f"{kind}Option", values)
    if kind == "Disable":
        nothing_reads -= {"Multidevice"}  # read where the multi-device names are bound
    if kind == "Profiler":
        nothing_reads -= {"Enable", "EnableNoCupti"}  # any of the key words turns profiling on
    assert nothing_reads == ignored


def test_every_other_enum_value_is_read() -> None:
    found = {
        f"{enum}::{value}"
        for enum, values in enums().items()
        if not enum.endswith("Option")
        for value in unread(enum, values)
    }
    assert len(enums()) > 20
    assert found == set(ENUM_VALUES)


def test_every_kind_of_node_is_made_and_read() -> None:
    kinds = re.findall(r"F\((\w+)\)", (CSRC / "ir/node_kinds.h").read_text())
    assert len(kinds) > 40
    texts = readers()
    # Handling of every kind alike: printing, cloning, replaying of transforms.
    of_ir = ("printer.cpp", "exprs.h", "exprs.cpp", "domain_exprs.h", "domain.cpp", "nodes.h")
    alike = {CSRC / "ir" / name for name in of_ir}
    alike |= {CSRC / "kernel/nodes.cpp", CSRC / "kernel/nodes.h"}
    made = {
        kind
        for text in texts.values()
        for kind in re.findall(r"\b(?:create|createIn|createVal)<(\w+)>\(", text)
    }
    read = {
        next(filter(None, found))
        for path, text in texts.items()
        if path not in alike
        for found in re.findall(r"<(?:const )?(\w+)\*?>|\bExprKind::(\w+)|\bconst (\w+)[&*]", text)
    }
    assert set(kinds) - (made & read) == set(KINDS)


def fields() -> dict[str, set[str]]:
    """Parameter structs that list their fields, by class."""
    found: dict[str, set[str]] = {}
    for path, text in sources().items():
        if "scheduler" not in path.parts or path.suffix != ".h":
            continue
        name = ""
        for line in text.splitlines():
            if match := re.match(r"(?:class|struct) (\w+)(?: :.*)? \{", line):
                name = match.group(1)
            for field in re.findall(r'visit\("(\w+)"', line):
                found.setdefault(name, set()).add(field)
    return found


def test_every_scheduler_parameter_is_read() -> None:
    listed = fields()
    assert {"PointwiseParams", "ReductionParams", "TransposeParams"} <= set(listed)
    # Members of values that are not the left side of an assignment.
    read = {
        member
        for path, text in readers().items()
        if not re.search(r"param(s|_fields|s_text)\.", path.name)
        for member in re.findall(r"(?:\.|->)(\w+)\b(?!\()(?!\s*=(?!=))", text)
    }
    found = {
        name: unused
        for name, own in listed.items()
        if (unused := own - read) and name not in UNREAD_CLASSES
    }
    assert found == {"ReductionParams": CONTRACT_FIELDS}


ENVIRONMENT = (CSRC.parent / "docs/environment.md").read_text()


def variables_read() -> set[str]:
    """Names of environment variables: ours are texts of their own, others are given to getenv."""
    python = sorted((CSRC.parent / "python").rglob("*.py"))
    texts = [*sources().values(), *(path.read_text() for path in python)]
    patterns = [
        r'"(NVFUSER_[A-Z_]+)"',
        r'environment(?:String|Int)\("(\w+)"',
        r'getenv\("(\w+)"',
        r'"(\w+)" (?:not )?in os\.environ',
        r'os\.environ(?:\.get\(|\[)"(\w+)"',
    ]
    return {name for text in texts for pattern in patterns for name in re.findall(pattern, text)}


def test_every_environment_variable_is_on_its_page() -> None:
    read = variables_read()
    ours = {name for name in read if name.startswith("NVFUSER_")}
    assert len(ours) > 15
    rows = re.findall(r"^\| `(\w+)` \|", ENVIRONMENT, re.M)
    assert rows == sorted(rows)
    assert set(rows) == ours
    named = set(re.findall(r"`([A-Z_]+)`", ENVIRONMENT))
    assert read - named == set()


def test_the_page_names_key_words_that_exist() -> None:
    options = (CSRC / "base/options.cpp").read_text()
    for kind in ("Disable", "Dump", "Enable"):
        (row,) = re.findall(rf"^\| `NVFUSER_{kind.upper()}` \|[^|]*\|(.*)\|$", ENVIRONMENT, re.M)
        table = options[options.index(f"k{kind}Rows = ") :].split("}};")[0]
        changing = set(re.findall(r'\{"([\w.]+)"\}', table))
        assert set(re.findall(r"`(\w+)`", row)) <= changing
