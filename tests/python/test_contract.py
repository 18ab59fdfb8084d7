# SPDX-License-Identifier: BSD-3-Clause
"""The contract: every name of the Python API, with its parameters and defaults, and nothing else.

What the lists below name must be there under that name, and what is exported beyond them must be
listed as this package's own addition.
"""

from __future__ import annotations

import importlib
import inspect
import re
from types import ModuleType

import nvfuse_direct
import nvfuser_direct
import pytest
from nvfuse_direct import idm, multidevice, ops, schedule

# ---------------------------------------------------------------------------------- operations

UNARY = """
abs acos acosh asin asinh atan atanh ceil cos cosh sin sinh tan tanh exp exp2 expm1 erf erfc erfinv
erfcinv floor frac lgamma log log10 log1p log2 neg logical_not bitwise_not relu rand_like randn_like
reciprocal round rsqrt sqrt set segment_set sign sigmoid signbit silu trunc isfinite isinf isnan
isneginf isposinf isreal real imag
""".split()
BINARY = """
add sub mul div truediv fmod mod remainder pow minimum maximum atan2 nextafter eq ne ge gt le lt
logical_and logical_or bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift
logical_right_shift gcd complex
""".split()
TERNARY = "lerp where clamp threshold".split()

_REDUCTION = [
    "arg, dtype=Null",
    "arg, dim, keepdim=False, dtype=Null",
    "arg, dims, keepdim=False, dtype=Null",
]
_SCALED = (
    "scale1, scale2, alpha=None, bias=None, beta=None, dtype=BFloat16,"
    " output_block_scale_size=0, output_block_scale_dtype=BFloat16, output_gamma=False"
)
# Signatures: one string, or one for each overload.
OPS: dict[str, str | list[str]] = {
    **dict.fromkeys(UNARY, "_, /"),
    **dict.fromkeys(BINARY, "_, _, /"),
    **dict.fromkeys(TERNARY, "_, _, _, /"),
    "addcmul": "_, _, _, _, /",
    "shape": "_, /",
    **dict.fromkeys(("sum", "prod", "max", "min"), _REDUCTION),
    **dict.fromkeys(("cumsum", "cumprod", "cummin", "cummax"), "arg, dim, init=None"),
    "var": "arg, dims, correction=1, keepdim=False",
    "var_mean": "arg, dims, correction=1, keepdim=False",
    "welford": "arg, dims",
    "cast": "arg, dtype",
    "broadcast": "arg, is_broadcast_dim",
    "broadcast_in_dim": "arg, shape, broadcast_dims",
    "expand": "arg, shape",
    "reshape": "arg, new_shape",
    "permute": "arg, dims",
    "squeeze": "arg, dims, squeeze_expanded=False",
    "slice": "arg, start_indices, end_indices, strides=None, manual_normalization=False",
    "pad": "arg, pad_widths, value=None",
    "cat": "tensors, dim=0, manual_padding=False",
    "stride_order": "arg, stride_order",
    "triu": "arg, diagonal=0",
    "size": "arg, dim",
    "index_select": "arg, index, dim",
    "select": "arg, index, dim",
    "gather": "arg, index, dim",
    "take_along_axis": "arg, index, dim",
    "scatter": "arg, index, src, dim",
    "embedding_fwd": (
        "input, weight, padding_idx=None, max_norm=None, norm_type=None, scale_grad_by_freq=None,"
        " sparse=None"
    ),
    "full": "shape, fill_value, dtype",
    "iota": "length, start=None, step=None, dtype=Int",
    "uniform": "minval, maxval, shape, *, rng_seed=None, rng_offset=None, dtype=Float",
    "normal": "mean, std, shape, *, rng_seed=None, rng_offset=None, dtype=Float",
    "topk": "arg, k, dim=-1, largest=True, sorted=False",
    "argsort": "arg, dim, descending=False, stable=False",
    "matmul": "arg1, arg2",
    "linear": "arg1, arg2, bias=None",
    "grouped_mm": ["mat1, mat2, offsets", f"mat1, mat2, offsets, {_SCALED}"],
    "cutlass_nvfp4_grouped_mm": (
        "mat1, mat2, scale1, scale2, alpha, problem_sizes, expert_offsets, sf_offsets,"
        " dtype=BFloat16"
    ),
    "scaled_mm": f"mat1, mat2, {_SCALED}",
    "nv_block_quantize": (
        "input, global_scale=None, swizzle_block_scales=False, block_size=16, dtype=Float4_e2m1fn"
    ),
    "nv_grouped_block_quantize": (
        "input, input_offsets, output_offsets, global_scale=None, block_size=16,"
        " dtype=Float4_e2m1fn"
    ),
    "preprocess_grouped_matmul_input_sf": "input, input_offsets, output_offsets",
    "sdpfa_fwd": (
        "query, key, value, bias=None, mask=None, dropout_p=None, is_causal=None, scale=None"
    ),
    "sdpfa_bwd": (
        "grad_output, query, key, value, output, logsumexp, dropout_p, is_causal, philox_seed,"
        " philox_offset, scale"
    ),
}

SCHEDULE: dict[str, str | list[str]] = {
    "bounded_transform_backward": "from, pos, to, propagate_parallel_type=False",
    "transform_like": "reference_tv, selected_tensors=[]",
    "parallelize_like": (
        "reference_tv, pos=-1, selected_tensors=[], selected_parallel_types=set(),"
        " propagate_padding=True"
    ),
    "inline_most": "selected_tensors=[]",
    "inline_at": "reference_tv, pos=-1, best_effort=False, selected_tensors=[]",
    "can_schedule": "fusion, scheduler_type, inputs",
    "find_compatible_schedulers": "fusion, inputs",
    "compute_heuristics": "fusion, scheduler_type, inputs",
    "schedule": ["fusion, scheduler_type, inputs", "fusion, scheduler_type, heuristic_params"],
    "warp_specialize": (
        "tv, number_of_stages, prefetch_distance, parallel_type, num_registers=None"
    ),
}

# ------------------------------------------------------------------------------------- functions

FUNCTIONS: dict[str, str] = {
    "translate_fusion": "fusion",
    "compute_tensor_descriptor": "sizes, strides",
    "validate_with_auto_inferred_outputs": "fusion, fusion_outputs, args",
    "get_val_tolerances": "fusion, args",
    "get_fusion_profile": "",
    "reset_profiler": "",
    "version": "",
    "execute_with_dtensors": "fd, in_dtensors",
}
# Told apart by their arguments; the overloads of the contract are tested by calls.
OVERLOADED = ["define_tensor", "define_scalar"]

# --------------------------------------------------------------------------------------- classes

_TV = {
    "ndim": None,
    "size": "dim",
    "shape": "",
    "dtype": "",
    "has_root": "",
    "domain": "",
    "get_root_domain": "",
    "get_logical_domain": "",
    "get_loop_domain": "",
    "axis": "index",
    "split": "axis, factor, inner_split=True",
    "inner_split": "axis, factor",
    "outer_split": "axis, factor",
    "merge": "axis_o, axis_i",
    "reorder": "old2new={}",
    "swizzle": "x, y",
    "swizzle1d": "x, parallel_type",
    "rfactor": "axes",
    "cache_after": (
        "op_type=set, cache_op=unspecified, propagate_allocation_domain=True, cached_uses=[]"
    ),
    "cache_before": "op_type=set",
    "set_memory_type": "memory_type",
    "set_allocation_domain": "new_allocation_domain, new_contiguity",
    "set_device_mesh": "mesh",
}
_LAUNCH = dict.fromkeys("bdimx bdimy bdimz gdimx gdimy gdimz".split())
_COMPILE = dict.fromkeys(
    "index_type maxrregcount enable_magic_zero enable_ptxas_verbose device include_paths".split()
)
_HEURISTIC = {**dict.fromkeys("lparams cparams scheduler_type".split()), "hash": ""}
_POINTWISE = dict.fromkeys(
    "break_point split_block split_grid_y_dim flip_grid_binding vectorization_factor"
    " unroll_factor_inner unroll_factor_outer".split()
)
_REDUCTION_PARAMS = dict.fromkeys(
    """
    fastest_dim persistent_kernel project_persistent_buffers schedule_3d flip_grid
    cross_block_inner_reduction cross_grid_inner_reduction unroll_factor_inner_reduction
    unroll_factor_top_of_vectorization vectorize_inner_reduction split_grid_dim_inner_reduction
    pad_inner_reduction_to_warp batches_per_block_inner_reduction block_dim_inner_reduction
    grid_dim_inner_reduction multiple_reds_per_blk unroll_factor_iter_dom vectorize_iter_dom
    split_grid_dim_iter_dom_inner split_grid_dim_iter_dom_outer block_dim_iter_dom grid_dim_iter_dom
    cross_block_outer_reduction cross_grid_outer_reduction batches_per_block_outer_reduction
    unroll_factor_outer_reduction block_dim_outer_reduction grid_dim_outer_reduction
    compute_persistent_buffer_with_first_consumer static_bdimx static_bdimy combined_inner_outer
    tidx_for_outer_reduction pad_outer_reduction_to_warp combined_split_grid_inner_dim
    vectorization_factor_outer vectorization_factor_tmp_gmem_write block_dim_inner_reduction_extra
    """.split()
)
_MATMUL_PARAMS = dict.fromkeys(
    """
    tile_sizes circular_buffer_options supported_vec_size async_gmem_load_operands
    grid_traversal_factor use_smem_epilogue use_ldst_matrix promote_prologue_smem_reuse
    splitk_factor tiling_strategy buffering_loop_level circular_buffering_strategy cta_order
    cluster_dims mma_macro
    """.split()
)
_KERNEL_PROFILE = dict.fromkeys(
    """
    name segment_id device stream correlation_id compile_time_ms time_ms effective_bandwidth_gbs
    percentage_peak_bandwidth grid_str block_str cluster_str shared_mem_str registers input_bytes
    output_bytes scheduler
    """.split()
)
_FUSION_PROFILE = dict.fromkeys(
    """
    verbose fusion_id segments cuda_evt_time_ms host_time_ms compile_time_ms kernel_time_ms
    effective_bandwidth_gbs percentage_peak_bandwith input_bytes output_bytes kernel_profiles
    """.split()
)
# Members with their signatures; None: a property or field.
CLASSES: dict[str, dict[str, str | None]] = {
    "Statement": {},
    "Val": {"is_symbolic": "", "is_tensor": "", "definition": "", "uses": ""},
    "Expr": {"input": "index", "output": "index"},
    "IterDomain": {"is_reduction": "", "extent": "", "parallelize": "parallel_type"},
    "TensorDomain": {},
    "TensorView": _TV,
    "Split": {"outer": "", "inner": ""},
    "Merge": {"outer": "", "inner": ""},
    "BroadcastOp": {},
    "ReshapeOp": {},
    "SqueezeOp": {},
    "Fusion": {
        "__init__": "",
        "inputs": "",
        "outputs": "",
        "vals": "",
        "add_input": "input",
        "add_output": "output, alias_input=None",
        "print_math": "from_outputs_only=True",
        "print_kernel": "compile_params=...",
    },
    "FusionGuard": {"__init__": "fusion"},
    "FusionExecutorCache": {
        "__init__": "fusion, fusion_id=0, auto_schedule=True",
        "execute": "inputs, *, device=None, _enable_options=[], _disable_options=[]",
        "is_compiled": "inputs, device=0",
        "fusion": "",
        "get_cuda_kernel": "inputs, intrinsic_code=False, device=0",
        "get_scheduled_ir": "inputs, tensor_transforms=False, device=0",
        "get_most_recent_scheduled_ir": "tensor_transforms=False",
        "get_output_shardings": "",
    },
    "KernelExecutor": {
        "__init__": "fusion_id=0, concrete_id=0, runtime_id=0, group_id=0",
        "compile": (
            "fusion, args=[], launch_constraints=None, compile_params=..., scheduler_type=none"
        ),
        "run": "args, launch_constraints=None, compile_params=...",
        "is_compiled": "",
        "is_programmatic_dependent_launch_enabled": "",
    },
    "LRUCache": {
        "__init__": "max_fusions",
        "cache_compile": "fusion",
        "num_fusions": "",
        "stats": "",
    },
    "LaunchParams": {**_LAUNCH},
    "CompileParams": {
        "__init__": (
            "*, index_type=None, maxrregcount=255, enable_magic_zero=True,"
            " enable_ptxas_verbose=False, device=None, include_paths=[]"
        ),
        **_COMPILE,
    },
    "HeuristicParams": _HEURISTIC,
    "PointwiseParams": {"__init__": "", **_POINTWISE},
    "ReductionParams": {"__init__": "", **_REDUCTION_PARAMS},
    "MatmulParams": {"__init__": "", **_MATMUL_PARAMS},
    "GemmTile": {"__init__": "m, n, k", "m": None, "n": None, "k": None},
    "MatMulTileOptions": {"__init__": "cta_tile, warp_tile", "cta_tile": None, "warp_tile": None},
    "CircularBufferOptions": dict.fromkeys(
        "circular_buffer_smem_write circular_buffer_smem_read smem_circular_buffer_stage"
        " smem_circular_buffer_prefetch_gap".split()
    ),
    "SupportedVectorization": {
        "__init__": "a, b, epilogue",
        "a": None,
        "b": None,
        "epilogue": None,
    },
    "ClusterDims": {"__init__": "m, n", "m": None, "n": None},
    "MmaMacroEncode": {
        "__init__": "arch, m, n, k",
        **dict.fromkeys("arch m n k".split()),
        "mma_macro": "",
    },
    "MmaMacro": dict.fromkeys("arch m n k".split()),
    "KernelProfile": _KERNEL_PROFILE,
    "FusionProfile": _FUSION_PROFILE,
}
MULTIDEVICE_CLASSES: dict[str, dict[str, str | None]] = {
    "Communicator": dict.fromkeys("instance size rank local_size local_rank barrier".split(), ""),
    "DeviceMesh": {
        "__init__": "devices",
        "size": None,
        "shape": None,
        "shard_tensor": "tensor, axis",
    },
    "Sharding": {"mesh": None, "axis_sharded_on": "parallel_type"},
    "MultiDeviceExecutorParams": {
        "__init__": "",
        **dict.fromkeys(
            "use_allocation_cache number_of_streams backend_type offset_stream_indexing_by_rank"
            " inter_stream_synchronization".split()
        ),
    },
    "MultiDeviceExecutor": {"__init__": "fusion, params=...", "run": "args"},
}
IDM_CLASSES: dict[str, dict[str, str | None]] = {
    "IdModel": {
        "__init__": "fusion, build_graphs=False, allow_self_mapping=True, validate=False",
        "maybe_build_graph": "mode",
    },
    "ValGraph": {"disjoint_val_sets": "", "map_vals": "val0, val1"},
    "DisjointValSets": {"strict_are_mapped": "entry0, entry1"},
}
# Classes written in Python.
PYTHON_CLASSES: dict[str, dict[str, str]] = {
    "FusionDefinition": {
        "__init__": "",
        "define_vector": "size",
        "from_pytorch": "tensor, static_sizes=False",
        "add_output": "output, alias_input=None",
        "validate_definition": "",
        "execute": (
            "inputs, *, device=None, save_repro_inputs=False, _enable_options=[],"
            " _disable_options=[]"
        ),
        "manual_execute": "inputs, heuristic_params=None",
        "validate": "inputs, reference_outputs=None, device=None, **kwargs",
        "manual_validate": "inputs, reference_outputs=None",
        "repro_script_for": "inputs=None",
        "last_repro_script": "",
        "_get_device_index": "device",
    },
    "LruFusionCache": {"__init__": "max_fusions=16384"},
    "PythonProfiler": {"__init__": "auto_scheduled=True"},
    "Explanation": {},
    "TuningReport": {},
}

ENUMS: dict[str, str] = {
    "DataType": (
        "Double Float Half Int Int32 UInt64 Index Bool BFloat16 Float8_e4m3fn Float8_e5m2"
        " Float8_e8m0fnu Float4_e2m1fn Float4_e2m1fn_x2 ComplexFloat ComplexDouble Null"
    ),
    "ParallelType": (
        "mesh_x mesh_y mesh_z grid_x grid_y grid_z block_x block_y block_z mma serial tma unroll"
        " unswitch vectorize stream"
    ),
    "CommunicatorBackend": "nccl ucc cuda",
    "SchedulerType": (
        "none no_op pointwise matmul reduction inner_persistent inner_outer_persistent"
        " outer_persistent transpose expr_eval resize"
    ),
    "LoadStoreOpType": "set load_matrix cp_async tma",
    "MemoryType": "tensor local shared global symmetric",
    "CacheOp": "unspecified all_levels streaming global",
    "IdMappingMode": "exact almost_exact broadcast permissive loop",
    "MatmulTilingStrategy": (
        "one_tile_per_cta distribute_tiles_across_sms distribute_stages_across_sms"
    ),
    "MatmulBufferingLoopLevel": "cta_tiles warp_tiles",
    "MatmulCircularBufferingStrategy": "pipelined warp_specialized",
    "MatmulTileRasterizationOrder": "column_major row_major",
    "MmaMacroArch": "no_mma volta turing ampere hopper blackwell_1cta blackwell_2cta",
}
MODULES = ["ops", "schedule", "multidevice", "idm"]

# What this package has beyond the contract.
OWN_NAMES = {
    "Explanation",
    "Minimized",
    "TransposeParams",
    "TuningReport",
    "__version__",
    "autotune",
    "explain",
    "minimize",
}
OWN_MEMBERS = {
    "TensorView": {"circular_buffer", "cache_fork"},
    "HeuristicParams": {"evict_inputs_last", "stream_outputs"},
    "PointwiseParams": {
        "align_rows",
        "aligned_inputs",
        "bulk_loads",
        "tile_axes",
        "tile_columns",
        "tile_rows",
    },
    "ReductionParams": {
        "align_rows",
        "any_extent",
        "bulk_loads",
        "circular_buffer_stages",
        "exchanged",
        "extents_within_row",
        "has_subrows",
        "keep_computed",
        "cluster_size",
        "open_batches",
        "load_parts_ahead",
        "load_rows_early",
        "load_shared_inputs_early",
        "prefetch_reduction",
        "reduced_extents",
        "stage_rows",
        "stage_shared_inputs",
        "threads_in_loops",
        "vector_widths",
        "row_groups",
        "warp_pieces",
        "warp_specialized",
    },
    "FusionProfile": {"percentage_peak_bandwidth"},
    "Communicator": {"is_available"},
}

# ------------------------------------------------------------------------------------- reading

# "name(a: type, b: type = default, /, *, c: type) -> result", perhaps after the number of an
# overload; a default may contain commas inside brackets.
_SIGNATURE = re.compile(r"^(?:\d+\. )?\w+\((.*)\)(?: -> .*)?$")


def split_parameters(text: str) -> list[str]:
    parts, depth = [""], 0
    for character in text:
        depth += character in "([{<"
        depth -= character in ")]}>"
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def plain_default(text: str) -> str:
    """<DataType.Null: 21> as Null; the default of a class of ours as "..."."""
    if enum := re.fullmatch(r"<\w+\.(\w+): \d+>", text):
        return enum[1]
    return text if re.fullmatch(r"[\w\[\]{}().-]+", text) else "..."


def parameters(signature: str) -> list[str]:
    """Names with defaults, as in the lists above."""
    names = []
    for part in split_parameters(signature):
        name, _, rest = part.partition(":")
        default = rest.rpartition(" = ")[2] if " = " in rest else ""
        name = name.strip()
        if name != "self":
            names.append(f"{name}={plain_default(default)}" if default else name)
    return names


def signatures(function: object) -> list[list[str]]:
    """Of a function of the extension, from the first lines of its documentation; else as Python
    knows it."""
    try:
        known = inspect.signature(function)
    except (TypeError, ValueError):
        lines = (function.__doc__ or "").splitlines()
        numbered = [line for line in lines if re.match(r"\d+\. \w+\(.*\) -> ", line)]
        found = [_SIGNATURE.match(line) for line in numbered or lines[:1]]
        return [parameters(match[1]) for match in found if match]
    names, keyword_only = [], False
    for parameter in known.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            names.append(f"**{parameter.name}")
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            names.append("*")
        has_default = parameter.default is not parameter.empty
        names.append(f"{parameter.name}={parameter.default!r}" if has_default else parameter.name)
    return [names]


def without_receiver(names: list[str]) -> list[str]:
    """Methods of the extension have a first parameter of the class, called self or arg0."""
    return names[1:] if names and names[0] == "arg0" else names


def expected_signatures(expected: str | list[str]) -> list[list[str]]:
    overloads = [expected] if isinstance(expected, str) else expected
    return [split_parameters(overload) for overload in overloads]


def fits(actual: list[str], expected: list[str]) -> bool:
    """The names and defaults of the contract in their order; `_` is a positional parameter of any
    name. Further parameters must have defaults, and more parameters may."""
    if len(actual) < len(expected):
        return False
    for a, e in zip(actual, expected, strict=False):
        if e == "_" and "=" not in a:
            continue
        name, _, default = e.partition("=")
        own_name, _, own_default = a.partition("=")
        if name != own_name or (default and default not in ("...", own_default)):
            return False
    return all("=" in extra for extra in actual[len(expected) :])


def check(function: object, expected: str | list[str], name: str) -> None:
    actual = [without_receiver(names) for names in signatures(function)]
    for wanted in expected_signatures(expected):
        assert any(fits(overload, wanted) for overload in actual), (
            f"{name}: expected ({', '.join(wanted)}), got {actual}"
        )


def public(module: ModuleType) -> set[str]:
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }


# --------------------------------------------------------------------------------------- tests


@pytest.mark.parametrize("name", OPS)
def test_op(name: str) -> None:
    assert hasattr(ops, name), f"there is no fd.ops.{name}"
    check(getattr(ops, name), OPS[name], name)


def test_no_other_ops() -> None:
    assert public(ops) - set(OPS) == set()


@pytest.mark.parametrize("name", SCHEDULE)
def test_schedule_operator(name: str) -> None:
    check(getattr(schedule, name), SCHEDULE[name], name)


def test_no_other_schedule_operators() -> None:
    assert public(schedule) == set(SCHEDULE)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str) -> None:
    check(getattr(nvfuse_direct, name), FUNCTIONS[name], name)


def check_class(kind: type, members: dict[str, str | None], name: str) -> None:
    for member, signature in members.items():
        assert hasattr(kind, member), f"{name} has no {member}"
        value = inspect.getattr_static(kind, member)
        is_property = isinstance(value, property)
        assert is_property == (signature is None), f"{name}.{member}"
        if signature is not None:
            check(getattr(kind, member), signature, f"{name}.{member}")
    own = OWN_MEMBERS.get(name, set())
    others = {m for m in vars(kind) if not m.startswith("_")} - set(members) - own
    assert others == set(), f"{name} has members that no list names"


ALL_CLASSES = [
    *((nvfuse_direct, name, members) for name, members in CLASSES.items()),
    *((multidevice, name, members) for name, members in MULTIDEVICE_CLASSES.items()),
    *((idm, name, members) for name, members in IDM_CLASSES.items()),
]


@pytest.mark.parametrize(
    ("module", "name", "members"), ALL_CLASSES, ids=[name for _, name, _ in ALL_CLASSES]
)
def test_class(module: ModuleType, name: str, members: dict[str, str | None]) -> None:
    check_class(getattr(module, name), members, name)


@pytest.mark.parametrize("name", PYTHON_CLASSES)
def test_python_class(name: str) -> None:
    kind = getattr(nvfuse_direct, name)
    for member, signature in PYTHON_CLASSES[name].items():
        check(getattr(kind, member), signature, f"{name}.{member}")


def test_classes_derive_from_each_other() -> None:
    n = nvfuse_direct
    assert issubclass(n.Val, n.Statement) and issubclass(n.Expr, n.Statement)
    for name in ("IterDomain", "TensorDomain", "TensorView"):
        assert issubclass(getattr(n, name), n.Val)
    for name in ("Split", "Merge", "BroadcastOp", "ReshapeOp", "SqueezeOp"):
        assert issubclass(getattr(n, name), n.Expr)
    for name in ("PointwiseParams", "ReductionParams", "MatmulParams"):
        assert issubclass(getattr(n, name), n.HeuristicParams)


@pytest.mark.parametrize("name", ENUMS)
def test_enum(name: str) -> None:
    enum = getattr(nvfuse_direct, name)
    members = ENUMS[name].split()
    assert sorted(enum.__members__) == sorted(members)
    for member in members:
        value = getattr(enum, member)
        assert value.name == member
        assert int(value) == value.value
        assert value is getattr(enum, member) or value == getattr(enum, member)
        assert hash(value) == hash(getattr(enum, member))
    entries = vars(enum)["__entries"]
    assert {key: entry[0] for key, entry in entries.items()} == dict(enum.__members__)


def test_submodules_and_no_other_names() -> None:
    assert public(multidevice) == {*MULTIDEVICE_CLASSES, "shard_tensor"}
    check(multidevice.shard_tensor, "tensor, tv", "shard_tensor")
    assert public(idm) == set(IDM_CLASSES)
    expected = {*FUNCTIONS, *OVERLOADED, *CLASSES, *PYTHON_CLASSES, *ENUMS, *MODULES}
    assert set(nvfuse_direct.__all__) == expected | OWN_NAMES
    for name in nvfuse_direct.__all__:
        assert getattr(nvfuser_direct, name) is getattr(nvfuse_direct, name)
    fd = nvfuse_direct.FusionDefinition()
    assert fd.ops is ops and fd.sched is schedule


PYTHON_MODULES = {
    "pytorch_utils": (
        "torch_dtype_to_nvfuser_dtype python_scalar_to_nvfuser_dtype retry_on_oom_or_skip_test"
        " get_device_properties DEVICE_PROPERTIES NumberTypeType"
    ),
    "benchmark_utils": (
        "Timer demangle_kernel_name cupti_call_safe CuptiProfiler CuptiTimer FusionProfileTimer"
    ),
    "nvfuser_direct_version": "Version NvfuserVersion __version__",
    "version": "_version_str",
}


@pytest.mark.parametrize("package", ["nvfuse_direct", "nvfuser_direct"])
@pytest.mark.parametrize("module", PYTHON_MODULES)
def test_python_module(package: str, module: str) -> None:
    imported = importlib.import_module(f"{package}.{module}")
    for name in PYTHON_MODULES[module].split():
        assert hasattr(imported, name), f"{package}.{module} has no {name}"


def test_members_of_benchmark_classes() -> None:
    from nvfuse_direct import benchmark_utils as b

    for kind in (b.Timer, b.CuptiTimer, b.FusionProfileTimer):
        assert callable(kind.cleanup) and callable(kind.__call__)
        assert issubclass(kind, b.Timer)
    for name in ("start", "stop", "teardown_cupti"):
        assert callable(getattr(b.CuptiProfiler, name))
    assert callable(b.FusionProfileTimer.set_fd)


def test_common_package_of_the_original() -> None:
    """Where C++ users find headers and the CMake package."""
    utils = importlib.import_module("nvfuser_common.utils")
    assert isinstance(utils.cmake_prefix_path, str)


def test_package_has_a_profiler_as_context_manager_and_statistics() -> None:
    assert hasattr(nvfuse_direct.PythonProfiler, "__enter__")
    assert isinstance(nvfuse_direct.PythonProfiler.profile, property)

    @nvfuse_direct.LruFusionCache(max_fusions=2)
    def nothing() -> object: ...

    assert callable(nothing.stats) and nothing.num_fusions() == 0
