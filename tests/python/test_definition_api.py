# SPDX-License-Identifier: BSD-3-Clause
"""FusionDefinition from end to end (section 3): inputs, outputs, aliases, text, caches, checks."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable

import nvfuse_direct
import pytest
import torch
from helpers import (
    DEVICE,
    ON_CUDA,
    TORCH,
    Layout,
    assert_all_same,
    assert_same,
    data_type,
    define,
    row_major,
    run,
    run_python,
    supported_on_device,
    tensor,
)
from nvfuse_direct import (
    DataType,
    FusionDefinition,
    LRUCache,
    LruFusionCache,
    compute_tensor_descriptor,
    get_val_tolerances,
    translate_fusion,
    validate_with_auto_inferred_outputs,
    version,
)

T, F, N = True, False, None

# ------------------------------------------------------------------------------------- packages


def test_the_drop_in_name_gives_the_same_objects() -> None:
    drop_in = importlib.import_module("nvfuser_direct")
    for name in (
        "FusionDefinition",
        "DataType",
        "ops",
        "schedule",
        "ParallelType",
        "version",
        "LruFusionCache",
        "LRUCache",
        "multidevice",
        "compute_tensor_descriptor",
    ):
        assert getattr(drop_in, name) is getattr(nvfuse_direct, name), name
    extension = importlib.import_module("nvfuser_direct._C_DIRECT")
    assert extension.DataType is DataType
    utilities = importlib.import_module("nvfuser_direct.pytorch_utils")
    assert utilities.torch_dtype_to_nvfuser_dtype(torch.half) == DataType.Half
    legacy = importlib.import_module("nvfuser")
    assert legacy.compute_tensor_descriptor is compute_tensor_descriptor


def test_version() -> None:
    from packaging.version import Version

    text = version()
    assert isinstance(text, str)
    assert text.startswith("0.2.36")
    assert version() > "0.0.0"
    assert version() > Version("0.0.0")
    assert version() >= "0.2.34"
    assert version() < "0.3"
    assert nvfuse_direct.__version__ == version()
    with pytest.raises(ValueError):
        version() > 3  # noqa: B015


def test_pytorch_utils() -> None:
    from nvfuse_direct.pytorch_utils import (
        python_scalar_to_nvfuser_dtype,
        torch_dtype_to_nvfuser_dtype,
    )

    for name, dtype in TORCH.items():
        if name != "UInt64":
            assert torch_dtype_to_nvfuser_dtype(dtype) == data_type(name)
    assert torch_dtype_to_nvfuser_dtype(torch.float4_e2m1fn_x2) == DataType.Float4_e2m1fn_x2
    for number, kind in ((1, "Int"), (1.0, "Double"), (1j, "ComplexDouble"), (True, "Bool")):
        assert python_scalar_to_nvfuser_dtype(number) == data_type(kind)
    with pytest.raises(KeyError):
        torch_dtype_to_nvfuser_dtype(torch.int8)


ENUMS = {
    "DataType": "Double Float Half Int Int32 UInt64 Index Bool BFloat16 Float8_e4m3fn Float8_e5m2 "
    "Float8_e8m0fnu Float4_e2m1fn Float4_e2m1fn_x2 ComplexFloat ComplexDouble Null",
    "ParallelType": "mesh_x mesh_y mesh_z grid_x grid_y grid_z block_x block_y block_z mma serial "
    "tma unroll unswitch vectorize stream",
    "CommunicatorBackend": "nccl ucc cuda",
    "SchedulerType": "none no_op pointwise matmul reduction inner_persistent "
    "inner_outer_persistent outer_persistent transpose expr_eval resize",
    "LoadStoreOpType": "set load_matrix cp_async tma",
    "MemoryType": "tensor local shared global symmetric",
    "CacheOp": "unspecified all_levels streaming global",
    "IdMappingMode": "exact almost_exact broadcast permissive loop",
}


@pytest.mark.parametrize("name", ENUMS)
def test_enums(name: str) -> None:
    enum = getattr(nvfuse_direct, name)
    members = ENUMS[name].split()
    assert set(enum.__members__) == set(members)
    for member in members:
        value = getattr(enum, member)
        assert value.name == member
        assert value == getattr(enum, member)
        assert hash(value) == hash(getattr(enum, member))
        assert int(value) == value.value
    assert (
        getattr(nvfuse_direct.SchedulerType, "__entries")["pointwise"][0]
        == nvfuse_direct.SchedulerType.pointwise
    )


ELEMENTWISE_OPS = """
    abs acos acosh asin asinh atan atanh ceil cos cosh sin sinh tan tanh exp exp2 expm1 erf
    erfc erfinv erfcinv floor frac lgamma log log10 log1p log2 neg logical_not bitwise_not
    relu rand_like randn_like reciprocal round rsqrt sqrt set segment_set sign sigmoid
    signbit silu trunc isfinite isinf isnan isneginf isposinf isreal real imag add sub mul
    div truediv fmod mod remainder pow minimum maximum atan2 nextafter eq ne ge gt le lt
    logical_and logical_or bitwise_and bitwise_or bitwise_xor bitwise_left_shift
    bitwise_right_shift logical_right_shift gcd complex lerp where clamp threshold addcmul
    cast broadcast broadcast_in_dim expand reshape permute squeeze slice pad cat
    stride_order triu size shape full iota uniform normal
""".split()


def test_every_op_is_bound_and_documented() -> None:
    fd = FusionDefinition()
    missing = [name for name in ELEMENTWISE_OPS if not hasattr(fd.ops, name)]
    assert not missing
    undocumented = [
        name for name in ELEMENTWISE_OPS if not (getattr(fd.ops, name).__doc__ or "").strip()
    ]
    assert not undocumented


# --------------------------------------------------------------------------------- define_tensor


@pytest.mark.parametrize(
    ("sizes", "strides", "contiguity", "stride_order"),
    [
        ([2, 1, 3, 1, 4, 3], [12, 4, 4, 4, 1, 0], [T, N, T, N, T, N], [5, 4, 3, 2, 1, 0]),
        ([2, 3, 1, 5, 4], [28, 4, 14, 0, 1], [F, N, T, N, T], [4, 2, 3, 1, 0]),
        ([2, 2, 1, 2, 4, 2], [2, 32, 1, 8, 0, 4], [F, T, T, F, N, N], [2, 5, 0, 4, 1, 3]),
        ([2, 1, 3, 1, 4], [24, 4, 8, 4, 2], [T, T, N, N, F], [4, 2, 3, 1, 0]),
        ([2, 3, 4], [12, 1, 3], [T, T, T], [2, 0, 1]),
        ([], [], [], []),
        ([5], [1], [T], [0]),
        ([5], [2], [F], [0]),
        ([1], [1], [N], [0]),
        ([4, 5], [5, 1], [T, T], [1, 0]),
        ([4, 5], [1, 4], [T, T], [0, 1]),
        ([4, 5], [0, 0], [N, N], [1, 0]),
    ],
)
def test_compute_tensor_descriptor(
    sizes: list[int], strides: list[int], contiguity: list[bool | None], stride_order: list[int]
) -> None:
    got = compute_tensor_descriptor(sizes, strides)
    assert [list(each) for each in got] == [contiguity, stride_order]
    assert compute_tensor_descriptor(torch.Size(sizes), tuple(strides)) == got


def test_compute_tensor_descriptor_errors() -> None:
    for sizes, strides in (([2, 3], [1]), ([2, 3], [-3, 1])):
        with pytest.raises(RuntimeError):
            compute_tensor_descriptor(sizes, strides)


def declared(fd: FusionDefinition) -> list[str]:
    return [line.strip() for line in repr(fd).splitlines() if "define_tensor" in line]


DECLARATIONS: list[tuple[Callable[[FusionDefinition], object], str]] = [
    (
        lambda fd: fd.define_tensor([-1, -1], [True, True]),
        "shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float, is_cpu=False",
    ),
    (
        lambda fd: fd.define_tensor([2, -1, 1, 0]),
        "shape=[2, -1, 1, 0], contiguity=[False, False, None, False], dtype=DataType.Float, "
        "is_cpu=False",
    ),
    (
        lambda fd: fd.define_tensor((4, 5), True, DataType.Half),
        "shape=[4, 5], contiguity=[True, True], dtype=DataType.Half, is_cpu=False",
    ),
    (
        lambda fd: fd.define_tensor(shape=[4, 5], contiguity=[True, None], dtype=DataType.Int),
        "shape=[4, 5], contiguity=[True, None], dtype=DataType.Int, is_cpu=False",
    ),
    (
        lambda fd: fd.define_tensor(shape=[-1, -1], contiguity=True, stride_order=[0, 1]),
        "shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float, is_cpu=False, "
        "stride_order=[0, 1]",
    ),
    (
        lambda fd: fd.define_tensor(shape=[-1, -1], contiguity=True, stride_order=(1, 0)),
        "shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float, is_cpu=False",
    ),
    (
        lambda fd: fd.define_tensor([2, 3], [3, 1]),
        "shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float, is_cpu=False",
    ),
    (
        lambda fd: fd.define_tensor(sizes=[2, 3], strides=[1, 2], static_sizes=True),
        "shape=[2, 3], contiguity=[True, True], dtype=DataType.Float, is_cpu=False, "
        "stride_order=[0, 1]",
    ),
    (
        lambda fd: fd.define_tensor(sizes=[2, 1, 0], strides=[1, 1, 1], dtype=DataType.Bool),
        "shape=[-1, 1, -1], contiguity=",
    ),
    (
        lambda fd: fd.define_tensor(shape=(), contiguity=(), dtype=DataType.Double, is_cpu=True),
        "shape=[], contiguity=[], dtype=DataType.Double, is_cpu=True",
    ),
]


@pytest.mark.parametrize("case", range(len(DECLARATIONS)))
def test_define_tensor_overloads(case: int) -> None:
    build, text = DECLARATIONS[case]
    with FusionDefinition() as fd:
        tv = build(fd)
        fd.add_output(fd.ops.set(tv))
    (line,) = declared(fd)
    assert f"fd.define_tensor({text}" in line


def test_handles() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 4, 1], True)
        assert x.ndim == 3
        assert x.dtype() == DataType.Float
        assert len(x.shape) == 3 if isinstance(x.shape, list) else len(x.shape()) == 3
        assert x.is_tensor()
        assert not x.size(0).is_tensor()
        assert x.definition() is None
        y = fd.ops.neg(x)
        assert y.definition() is not None
        assert y.definition().input(0) == x
        assert y.definition().output(0) == y
        assert [use == y.definition() for use in x.uses()] == [True]
        assert not y.has_root()
        assert len(y.get_logical_domain()) == 3
        assert fd.fusion.inputs() == [x]
        fd.add_output(y)
        assert fd.fusion.outputs() == [y]
        tensors = [each for each in fd.fusion.vals() if each.is_tensor()]
        assert x in tensors
        assert y in tensors
        wide = fd.ops.broadcast(y, [True, False, False, False])
        assert type(wide.definition()) is nvfuse_direct.BroadcastOp
        assert type(fd.ops.squeeze(wide, [0]).definition()) is nvfuse_direct.SqueezeOp
        reshaped = fd.ops.reshape(y, [4, -1])
        assert reshaped.ndim == 2
    assert re.fullmatch(r"T0_g_float\[.*\]", str(x)), str(x)
    a = tensor(3, 4, 1)
    fd.execute([a])
    assert re.fullmatch(r"T0_g_float\[.*\]", str(x)), str(x)


def test_fusion_equality() -> None:
    def build(fd: FusionDefinition, constant: float = 2.0, swap: bool = False) -> None:
        x = fd.define_tensor([-1], True)
        y = fd.define_tensor([-1], True)
        a, b = (y, x) if swap else (x, y)
        fd.add_output(fd.ops.mul(fd.ops.sub(a, b), constant))

    base = define(build).fusion
    assert base == define(build).fusion
    assert not (base != define(build).fusion)
    assert base != define(lambda fd: build(fd, 3.0)).fusion
    assert base != define(lambda fd: build(fd, swap=True)).fusion
    with pytest.raises(TypeError):
        hash(base)


# -------------------------------------------------------------------------------- define_scalar


def test_define_scalar_kinds() -> None:
    with FusionDefinition() as fd:
        symbolic = [
            fd.define_scalar(),
            fd.define_scalar(DataType.Int),
            fd.define_scalar(None, dtype=DataType.ComplexDouble),
            fd.define_scalar(dtype=DataType.Bool),
            fd.define_scalar(DataType.Half),
        ]
        constants = [
            fd.define_scalar(3),
            fd.define_scalar(3.5),
            fd.define_scalar(1j),
            fd.define_scalar(True, DataType.Bool),
            fd.define_scalar(3, DataType.Float),
            fd.define_scalar(0, dtype=DataType.Int32),
        ]
        assert len(fd.fusion.inputs()) == len(symbolic)
        assert all(each.is_symbolic() for each in symbolic)
        assert not any(each.is_symbolic() for each in constants)
    text = repr(fd)
    for dtype in ("Double", "Int", "ComplexDouble", "Bool", "Half"):
        assert f"fd.define_scalar(None, dtype=DataType.{dtype})" in text


def test_scalar_inputs_of_every_kind() -> None:
    kinds: list[tuple[str, complex | float | int | bool]] = [
        ("Double", 2.5),
        ("Double", 2),
        ("Float", 1.5),
        ("Int", -3),
        ("Int", 2**40),
        ("Int32", 7),
        ("Bool", True),
        ("Bool", False),
        ("ComplexDouble", 1 + 2j),
        ("ComplexFloat", -1j),
        ("Half", 0.5),
        ("BFloat16", 0.25),
    ]

    def build(fd: FusionDefinition) -> None:
        for name, _ in kinds:
            fd.add_output(fd.ops.full([3], fd.define_scalar(data_type(name)), data_type(name)))

    outputs = define(build).execute([value for _, value in kinds], device=DEVICE)
    for output, (name, value) in zip(outputs, kinds, strict=False):
        assert_same(output, torch.full((3,), value, dtype=TORCH[name], device=DEVICE), what=name)


def test_define_vector_flattens() -> None:
    def build(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, -1], True)
        shape = fd.define_vector(3)
        assert len(shape) == 3
        fd.add_output(fd.ops.reshape(fd.ops.neg(x), shape))

    fusion = define(build)
    a = tensor(4, 6)
    for shape in ([2, 3, 4], (8, 1, 3), (24, 1, 1)):
        assert_same(fusion.execute([a, shape])[0], (-a).reshape(shape))
    assert_same(fusion.execute([a, 6, 2, 2])[0], (-a).reshape(6, 2, 2))
    assert_same(fusion.execute((a, 6, 2, 2))[0], (-a).reshape(6, 2, 2))
    assert_same(fusion.execute(iter([a, 6, 2, 2]))[0], (-a).reshape(6, 2, 2))


# ----------------------------------------------------------------------------------- from_pytorch


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize(
    "layout",
    [
        row_major((4, 6)),
        row_major(()),
        Layout((4, 6), (1, 4)),
        Layout((4, 6), (20, 2)),
        Layout((4, 6), (0, 1)),
        Layout((4, 1, 6), (6, 17, 1)),
        row_major((0, 3)),
    ],
    ids=str,
)
def test_from_pytorch(layout: Layout, static: bool) -> None:
    x = layout.fill(torch.float)

    def build(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.neg(fd.from_pytorch(x, static_sizes=static)))

    fusion = define(build)
    shape = "[" + ", ".join(str(n if static or n == 1 else -1) for n in layout.sizes) + "]"
    assert f"shape={shape}" in repr(fusion) or 0 in layout.strides
    assert_same(fusion.execute([x])[0], -x)


def test_from_pytorch_refuses_other_devices() -> None:
    with (
        FusionDefinition() as fd,
        pytest.raises(
            ValueError, match="Found unsupported device meta, only scalar CPU or CUDA tensors"
        ),
    ):
        fd.from_pytorch(torch.empty(3, device="meta"))


def test_cpu_scalar_tensor_next_to_device_tensors() -> None:
    x = tensor(5)
    scalar = torch.tensor(2.5)

    def build(fd: FusionDefinition) -> None:
        a = fd.from_pytorch(x)
        b = fd.define_tensor(shape=[], contiguity=[], dtype=DataType.Float, is_cpu=True)
        fd.add_output(fd.ops.mul(a, b))
        fd.add_output(b)

    product, same = run(build, [x, scalar])
    assert_same(product, x * 2.5)
    assert same.device.type == "cpu"
    assert same.data_ptr() == scalar.data_ptr()


def test_inputs_that_require_grad() -> None:
    x = tensor(5).requires_grad_()
    parameter = torch.nn.Parameter(tensor(5, seed=1))

    def build(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.add(fd.from_pytorch(x), fd.from_pytorch(parameter)))

    (output,) = run(build, [x, parameter])
    assert not output.requires_grad
    assert_same(output, (x + parameter).detach())


def test_numpy_and_dlpack_inputs() -> None:
    numpy = pytest.importorskip("numpy")
    if ON_CUDA:
        pytest.skip("CPU producers need the host target")

    class Producer:
        """A tensor that has nothing but the protocol."""

        def __init__(self, inner: torch.Tensor) -> None:
            self.inner = inner

        def __dlpack__(self, **options: object) -> object:
            return self.inner.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.inner.__dlpack_device__()

    array = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
    other = torch.randn(3, 4)

    def build(fd: FusionDefinition) -> None:
        x, y = (fd.define_tensor([-1, -1], False) for _ in range(2))
        fd.add_output(fd.ops.add(x, y))

    fusion = define(build)
    for a, b in ((array, other), (array, Producer(other)), (array.T.copy().T, array)):
        (output,) = fusion.execute([a, b])
        assert isinstance(output, torch.Tensor)
        left = torch.from_numpy(a)
        right = b.inner if isinstance(b, Producer) else torch.as_tensor(b)
        assert_same(output, left + right)


# -------------------------------------------------------------------------------- outputs, aliases


def shares_storage(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def test_output_twice_and_input_as_output() -> None:
    x = tensor(3, 4)

    def build(fd: FusionDefinition) -> None:
        a = fd.from_pytorch(x)
        b = fd.ops.neg(a)
        for each in (b, a, b):
            fd.add_output(each)

    first, same, second = run(build, [x])
    assert_same(first, -x)
    assert_same(second, -x)
    assert same.data_ptr() == x.data_ptr()
    assert same.stride() == x.stride()


def test_only_inputs_as_outputs() -> None:
    x, y = tensor(3, 4), tensor(5)

    def build(fd: FusionDefinition) -> None:
        a, b = fd.from_pytorch(x), fd.from_pytorch(y)
        fd.add_output(b)
        fd.add_output(a)

    first, second = run(build, [x, y])
    assert first.data_ptr() == y.data_ptr()
    assert second.data_ptr() == x.data_ptr()


@pytest.mark.parametrize(
    "layout", [row_major((4, 6)), Layout((4, 6), (1, 4)), Layout((4, 6), (20, 3), 1)], ids=str
)
def test_in_place_update_is_hidden(layout: Layout) -> None:
    x, y = layout.fill(torch.float), tensor(4, 6, seed=1)
    expected = x + y

    def build(fd: FusionDefinition) -> None:
        a, b = fd.from_pytorch(x), fd.from_pytorch(y)
        fd.add_output(fd.ops.add(a, b), a)

    address, strides = x.data_ptr(), x.stride()
    assert run(build, [x, y]) == []
    assert x.data_ptr() == address
    assert x.stride() == strides
    assert_same(x, expected)


def test_in_place_update_leaves_the_gaps_alone() -> None:
    storage = torch.arange(100, dtype=torch.float, device=DEVICE)
    before = storage.clone()
    x = storage.as_strided((4, 6), (20, 3), 1)

    def build(fd: FusionDefinition) -> None:
        a = fd.from_pytorch(x)
        fd.add_output(fd.ops.neg(a), alias_input=a)

    run(build, [x])
    expected = before.clone()
    expected.as_strided((4, 6), (20, 3), 1).neg_()
    assert_same(storage, expected)


def test_alias_pinned_sequence() -> None:
    """T4, (T4 alias T0), T4, T0: three tensors, all on T0's storage."""
    x = tensor(3, 4)
    expected = x + 1.0

    def build(fd: FusionDefinition) -> None:
        a = fd.from_pytorch(x)
        b = fd.ops.add(a, 1.0)
        fd.add_output(b)
        fd.add_output(b, a)
        fd.add_output(b)
        fd.add_output(a)

    outputs = run(build, [x])
    assert len(outputs) == 3
    for output in outputs:
        assert output.data_ptr() == x.data_ptr()
        assert_same(output, expected)


def test_alias_output_is_the_input_object() -> None:
    x, source = tensor(3, 4), tensor(3, 4, seed=1)

    def build(fd: FusionDefinition) -> None:
        a, b = fd.from_pytorch(x), fd.from_pytorch(source)
        copied = fd.ops.set(b)
        fd.add_output(copied, alias_input=a)
        fd.add_output(fd.ops.neg(copied))
        fd.add_output(copied)

    negated, output = run(build, [x, source])
    assert output is x
    assert_same(x, source)
    assert_same(negated, -source)
    assert not shares_storage(negated, x)
    assert not shares_storage(x, source)


def test_visible_alias_when_plain_comes_first() -> None:
    x = tensor(3, 4)
    expected = x * 2.0

    def build(fd: FusionDefinition) -> None:
        a = fd.from_pytorch(x)
        b = fd.ops.mul(a, 2.0)
        fd.add_output(b)
        fd.add_output(fd.ops.neg(b))
        fd.add_output(b, a)

    visible, negated = run(build, [x])
    assert visible.data_ptr() == x.data_ptr()
    assert_same(x, expected)
    assert_same(negated, -expected)


def test_old_value_is_read_before_the_update() -> None:
    """Other outputs read the aliased input through shifts, so an early write would show."""
    x = tensor(64, 65)
    old = x.clone()

    def build(fd: FusionDefinition) -> None:
        a = fd.from_pytorch(x)
        fd.add_output(fd.ops.neg(a), a)
        fd.add_output(fd.ops.add(fd.ops.permute(a, [1, 0]), 1.0))
        fd.add_output(fd.ops.pad(fd.ops.slice(a, [1, 2], [64, 65]), [1, 1]))

    transposed, padded = run(build, [x])
    assert_same(x, -old)
    assert_same(transposed, old.t() + 1.0)
    assert_same(padded, torch.nn.functional.pad(old[1:, 2:], (1, 1)))


def test_update_from_a_shifted_self() -> None:
    """Every element is written from another one of the same buffer."""
    x = tensor(257)
    old = x.clone()

    def build(fd: FusionDefinition) -> None:
        a = fd.from_pytorch(x)
        tail = fd.ops.slice(a, [1], [257])
        head = fd.ops.slice(a, [0], [1])
        fd.add_output(fd.ops.cat([tail, head], 0), a)

    run(build, [x])
    assert_same(x, old.roll(-1))


def test_update_broadcast_in_place() -> None:
    """Issue-2664 pattern: the updated 0-d input is also broadcast into another output."""
    x, total = tensor(4, 7), torch.tensor(3.0, device=DEVICE)

    def build(fd: FusionDefinition) -> None:
        a = fd.from_pytorch(x)
        s = fd.define_tensor([], [], DataType.Float)
        fd.add_output(fd.ops.add(a, s))
        fd.add_output(fd.ops.add(s, 1.0), s)

    (shifted,) = run(build, [x, total])
    assert_same(shifted, x + 3.0)
    assert_same(total, torch.tensor(4.0, device=DEVICE))


def test_swap_two_inputs_in_place() -> None:
    x, y = tensor(33, 5), tensor(33, 5, seed=1)
    old_x, old_y = x.clone(), y.clone()

    def build(fd: FusionDefinition) -> None:
        a, b = fd.from_pytorch(x), fd.from_pytorch(y)
        fd.add_output(fd.ops.set(b), a)
        fd.add_output(fd.ops.set(a), b)

    run(build, [x, y])
    assert_same(x, old_y)
    assert_same(y, old_x)


def test_input_as_alias_of_another_input_is_copied() -> None:
    x, y = tensor(8), tensor(8, seed=1)

    def build(fd: FusionDefinition) -> None:
        a, b = fd.from_pytorch(x), fd.from_pytorch(y)
        fd.add_output(b, a)

    run(build, [x, y])
    assert_same(x, y)
    assert not shares_storage(x, y)


def test_repeated_in_place_updates() -> None:
    x = torch.zeros(17, device=DEVICE)

    def build(fd: FusionDefinition) -> None:
        a = fd.define_tensor([-1], True)
        fd.add_output(fd.ops.add(a, 1.0), a)

    fusion = define(build)
    for _ in range(5):
        assert fusion.execute([x]) == []
    assert_same(x, torch.full((17,), 5.0, device=DEVICE))


VIEWS: dict[str, tuple[Callable[..., object], Callable[[torch.Tensor], torch.Tensor]]] = {
    "reshape": (lambda fd, x: fd.ops.reshape(x, [6, 20]), lambda x: x.view(6, 20)),
    "reshape_split": (lambda fd, x: fd.ops.reshape(x, [2, 2, 30]), lambda x: x.view(2, 2, 30)),
    "permute": (lambda fd, x: fd.ops.permute(x, [1, 0]), lambda x: x.t()),
    "slice": (lambda fd, x: fd.ops.slice(x, [1, 5], [3, 20]), lambda x: x[1:3, 5:20]),
    "set": (lambda fd, x: fd.ops.set(x), lambda x: x),
    "chain": (
        lambda fd, x: fd.ops.permute(fd.ops.slice(x, [0, 3], [2, 30]), [1, 0]),
        lambda x: x[0:2, 3:30].t(),
    ),
}


@pytest.mark.parametrize("name", VIEWS)
def test_pure_views_share_storage_and_launch_nothing(name: str) -> None:
    build_view, reference = VIEWS[name]
    x = tensor(4, 30)

    def build(fd: FusionDefinition) -> None:
        fd.add_output(build_view(fd, fd.from_pytorch(x)))

    fusion = define(build)
    (output,) = fusion.execute([x])
    expected = reference(x)
    assert_same(output, expected)
    assert output.data_ptr() == expected.data_ptr()
    assert output.stride() == expected.stride()
    assert "NVF_KERNEL" not in fusion.fec.get_cuda_kernel([x])


def test_a_view_next_to_computed_outputs() -> None:
    x = tensor(4, 30)

    def build(fd: FusionDefinition) -> None:
        a = fd.from_pytorch(x)
        fd.add_output(fd.ops.reshape(a, [120]))
        fd.add_output(fd.ops.neg(a))

    view, negated = run(build, [x])
    assert view.data_ptr() == x.data_ptr()
    assert_same(view, x.view(120))
    assert_same(negated, -x)
    assert not shares_storage(negated, x)


def test_a_reshape_that_cannot_be_a_view_is_copied() -> None:
    x = Layout((4, 6), (1, 4)).fill(torch.float)

    def build(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.reshape(fd.from_pytorch(x), [24]))

    (output,) = run(build, [x])
    assert_same(output, x.reshape(24))
    assert not shares_storage(output, x)


def test_results_of_one_call_survive_the_next() -> None:
    fusion = define(lambda fd: fd.add_output(fd.ops.neg(fd.define_tensor([-1], True))))
    a, b = tensor(100), tensor(100, seed=1)
    first = fusion.execute([a])[0]
    second = fusion.execute([b])[0]
    assert_same(first, -a)
    assert_same(second, -b)


# ------------------------------------------------------------------------------------- symbolic


def test_one_definition_serves_every_shape() -> None:
    def build(fd: FusionDefinition) -> None:
        x, y = (fd.define_tensor([-1, -1], True) for _ in range(2))
        fd.add_output(fd.ops.mul(fd.ops.relu(fd.ops.add(x, y)), 2.0))

    fusion = define(build)
    for rows, columns in (
        (3, 4),
        (1, 4),
        (3, 1),
        (1, 1),
        (0, 4),
        (4, 0),
        (37, 129),
        (512, 256),
        (3, 4),
    ):
        x, y = tensor(rows, columns), tensor(rows, columns, seed=1)
        assert_same(fusion.execute([x, y])[0], torch.relu(x + y) * 2.0)


def test_static_sizes() -> None:
    def build(fd: FusionDefinition) -> None:
        x = fd.define_tensor([3, 4], True)
        fd.add_output(fd.ops.add(x, fd.define_tensor([4], True)))

    x, y = tensor(3, 4), tensor(4)
    assert_same(run(build, [x, y])[0], x + y)


# ------------------------------------------------------------------------------ repr, translation

ROUND_TRIPS: dict[str, tuple[Callable[[FusionDefinition], object], Callable[[], list[object]]]] = {
    "pointwise": (
        lambda fd: fd.add_output(
            fd.ops.mul(fd.ops.relu(fd.ops.add(fd.define_tensor([-1, -1], True), 3.0)), 1e-5)
        ),
        lambda: [tensor(3, 4)],
    ),
    "scalars": (
        lambda fd: fd.add_output(
            fd.ops.add(
                fd.define_tensor([-1], True),
                fd.ops.mul(fd.define_scalar(DataType.Double), fd.define_scalar(DataType.Int)),
            )
        ),
        lambda: [tensor(5), 1.5, 3],
    ),
    "special_constants": (
        lambda fd: fd.add_output(
            fd.ops.where(
                fd.ops.lt(fd.define_tensor([-1], True), float("inf")), float("-inf"), float("nan")
            )
        ),
        lambda: [tensor(5)],
    ),
    "complex": (
        lambda fd: fd.add_output(
            fd.ops.mul(fd.define_tensor([-1], True, DataType.ComplexFloat), 1 - 2j)
        ),
        lambda: [tensor(5, dtype=torch.complex64)],
    ),
    "casts": (
        lambda fd: fd.add_output(
            fd.ops.cast(fd.ops.neg(fd.define_tensor([-1], True, DataType.Half)), DataType.BFloat16)
        ),
        lambda: [tensor(5, dtype=torch.half)],
    ),
    "set": (
        lambda fd: fd.add_output(
            fd.ops.segment_set(fd.ops.set(fd.ops.neg(fd.define_tensor([-1], True))))
        ),
        lambda: [tensor(5)],
    ),
    "shape_ops": (
        lambda fd: fd.add_output(
            fd.ops.expand(
                fd.ops.broadcast(
                    fd.ops.reshape(
                        fd.ops.permute(fd.define_tensor([-1, -1], True), [1, 0]), [2, 6]
                    ),
                    [False, True, False],
                ),
                [2, 5, 6],
            )
        ),
        lambda: [tensor(3, 4)],
    ),
    "squeeze": (
        lambda fd: fd.add_output(fd.ops.neg(fd.ops.squeeze(fd.define_tensor([-1, 1], True), [1]))),
        lambda: [tensor(3, 1)],
    ),
    "slice_pad_cat": (
        lambda fd: (
            lambda x: fd.add_output(
                fd.ops.cat(
                    [fd.ops.pad(fd.ops.slice(x, [0, 1], [2, 4]), [1, 2], 0.5), fd.ops.neg(x)], 0
                )
            )
        )(fd.define_tensor([-1, 6], True)),
        lambda: [tensor(3, 6)],
    ),
    "stride_order": (
        lambda fd: fd.add_output(
            fd.ops.stride_order(fd.ops.neg(fd.define_tensor([-1, -1, -1], True)), [1, 2, 0])
        ),
        lambda: [tensor(2, 3, 4)],
    ),
    "creation": (
        lambda fd: fd.add_output(
            fd.ops.add(fd.ops.full([6], 2.5, DataType.Float), fd.ops.iota(6, 1, 2))
        ),
        list,
    ),
    "symbolic_sizes": (
        lambda fd: (
            lambda x: fd.add_output(
                fd.ops.reshape(fd.ops.neg(x), [fd.ops.size(x, 1), fd.ops.size(x, 0)])
            )
        )(fd.define_tensor([-1, -1], True)),
        lambda: [tensor(3, 4)],
    ),
    "layout": (
        lambda fd: fd.add_output(
            fd.ops.neg(fd.define_tensor([-1, -1, 5], [True, True, None], stride_order=[1, 2, 0]))
        ),
        lambda: [Layout((2, 3, 5), (1, 2, 0)).fill(torch.float)],
    ),
    "ternary": (
        lambda fd: (
            lambda x: fd.add_output(
                fd.ops.lerp(fd.ops.clamp(x, -1.0, None), fd.ops.threshold(x, 0.5, 2.0), 0.25)
            )
        )(fd.define_tensor([-1], True)),
        lambda: [tensor(7)],
    ),
    "views_and_inputs": (
        lambda fd: (lambda x: (fd.add_output(x), fd.add_output(fd.ops.permute(x, [1, 0]))))(
            fd.define_tensor([-1, -1], True)
        ),
        lambda: [tensor(3, 4)],
    ),
    "triu": (
        lambda fd: fd.add_output(fd.ops.triu(fd.define_tensor([-1, -1], True), 1)),
        lambda: [tensor(4, 5)],
    ),
    "uint64_and_bool": (
        lambda fd: fd.add_output(
            fd.ops.bitwise_xor(
                fd.define_tensor([-1], True, DataType.Bool), fd.ops.full([3], True, DataType.Bool)
            )
        ),
        lambda: [tensor(3, dtype=torch.bool)],
    ),
}


def rebuilt(text: str) -> FusionDefinition:
    scope: dict[str, object] = {
        "FusionDefinition": FusionDefinition,
        "DataType": DataType,
        "torch": torch,
    }
    exec(text, scope)
    return define(scope["nvfuser_fusion"])  # type: ignore[arg-type]


def renumbered(text: str) -> str:
    """Values numbered as they appear: a rebuilt fusion may count its constants differently."""
    names: dict[str, str] = {}
    return re.sub(r"\b(c|tv)\d+\b", lambda m: names.setdefault(m[0], f"v{len(names)}"), text)


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_repr_rebuilds_the_fusion(name: str) -> None:
    build, make_inputs = ROUND_TRIPS[name]
    fd = define(build)
    text = repr(fd)
    assert text == str(fd)
    assert text == translate_fusion(fd.fusion)
    assert text.startswith("def nvfuser_fusion(fd : FusionDefinition) -> None :\n    ")
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    copy = rebuilt(text)
    assert renumbered(repr(copy)) == renumbered(text)
    inputs = make_inputs()
    outputs, again = (each.execute(inputs, device=DEVICE) for each in (fd, copy))
    assert [each.stride() for each in outputs] == [each.stride() for each in again]
    for output, other in zip(outputs, again, strict=False):
        torch.testing.assert_close(other, output, equal_nan=True)
    assert repr(fd) == text, "execution must not change the text"


def test_repr_exact_text() -> None:
    def build(fd: FusionDefinition) -> None:
        x = fd.define_tensor(shape=[2, 4, 8], contiguity=[True, True, True], dtype=DataType.Float)
        y = fd.define_tensor(
            shape=[-1, 1], contiguity=True, dtype=DataType.Half, stride_order=[0, 1]
        )
        s = fd.define_scalar(DataType.Int)
        a = fd.ops.add(x, fd.define_scalar(3.0))
        fd.add_output(fd.ops.mul(a, s))
        fd.add_output(fd.ops.cast(y, DataType.Float))
        fd.add_output(fd.ops.neg(x), x)

    lines = repr(define(build)).splitlines()
    assert lines[0] == "def nvfuser_fusion(fd : FusionDefinition) -> None :"
    assert lines[1] == (
        "    tv0 = fd.define_tensor(shape=[2, 4, 8], contiguity=[True, True, True], "
        "dtype=DataType.Float, is_cpu=False)"
    )
    assert re.fullmatch(
        r"    tv1 = fd\.define_tensor\(shape=\[-1, 1\], contiguity=\[None, True\], "
        r"dtype=DataType\.Half, is_cpu=False, stride_order=\[0, 1\]\)",
        lines[2],
    ), lines[2]
    assert re.fullmatch(r"    c\d+ = fd\.define_scalar\(None, dtype=DataType\.Int\)", lines[3]), (
        lines[3]
    )
    body = "\n".join(lines[4:])
    assert re.search(r"    tv\d+ = fd\.ops\.add\(tv0, 3\.00000\)", body), body
    assert re.search(r"    tv\d+ = fd\.ops\.mul\(tv\d+, c\d+\)", body), body
    assert re.search(r"    tv\d+ = fd\.ops\.cast\(tv1, dtype=DataType\.Float\)", body), body
    assert re.search(r"    fd\.add_output\(tv\d+, tv0\)", body), body
    assert all(line.startswith("    ") for line in lines[1:])


def test_broadcast_in_dim_and_expand_print_alike() -> None:
    def first(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, 1], True)
        fd.add_output(fd.ops.broadcast_in_dim(fd.ops.neg(x), [3, 4], [0, 1]))

    def second(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, 1], True)
        fd.add_output(fd.ops.expand(fd.ops.neg(x), [3, 4]))

    assert repr(define(first)) == repr(define(second))


def test_repro_script() -> None:
    x = tensor(2, 4)
    strided = Layout((3, 4), (10, 2)).fill(torch.float)
    integers = Layout((3, 4), (0, 1)).fill(torch.int64)

    def build(fd: FusionDefinition) -> None:
        a, b, c = (fd.from_pytorch(each) for each in (x, strided, integers))
        s = fd.define_scalar(DataType.Double)
        fd.add_output(fd.ops.mul(a, s))
        fd.add_output(fd.ops.add(b, c))

    fd = define(build)
    inputs = [x, strided, integers, 1.5]
    plain = fd.repro_script_for()
    assert "CUDA devices" in plain.splitlines()[0] + plain.splitlines()[1]
    assert "import torch" in plain
    assert re.search(r"from nvfuse\w*_direct import FusionDefinition, DataType", plain)
    assert repr(fd) + "with FusionDefinition() as fd:\n    nvfuser_fusion(fd)\n" in plain.replace(
        "\n\n", "\n"
    )
    script = fd.repro_script_for(inputs)
    assert script.startswith(plain.rstrip("\n"))
    assert "\ninputs = [\n" in script
    assert script.endswith("]\nfd.execute(inputs)\n")
    assert (
        f"    torch.testing.make_tensor((2, 4), dtype=torch.float32, device='{DEVICE}'),\n"
        in script
    )
    assert "as_strided" in script
    assert "    1.5,\n" in script
    with pytest.raises(AssertionError) as info:
        fd.last_repro_script()
    assert str(info.value) == (
        "fd.last_repro_script() cannot provide a repro because "
        "fd.execute(inputs, save_repro_inputs=True) was not executed!"
    )
    fd.execute(inputs, save_repro_inputs=True)
    assert fd.last_repro_script() == fd.repro_script_for(inputs)
    assert len(fd.fake_inputs) == len(inputs)
    scope: dict[str, object] = {}
    exec(script, scope)


def test_repro_script_with_special_scalars() -> None:
    fd = define(lambda fd: fd.add_output(fd.ops.full([2], fd.define_scalar(), DataType.Float)))
    for value in (float("inf"), float("-inf"), float("nan")):
        scope: dict[str, list[float]] = {}
        exec(fd.repro_script_for([value]).replace("fd.execute(inputs)", "inputs"), scope)
        (kept,) = scope["inputs"]
        assert kept == value or (math.isnan(kept) and math.isnan(value))


def test_print_math() -> None:
    def build(fd: FusionDefinition) -> None:
        x = fd.define_tensor(shape=[-1], contiguity=True)
        y = fd.define_tensor(shape=[-1], contiguity=True)
        fd.add_output(fd.ops.set(fd.ops.add(x, y)))

    text = define(build).fusion.print_math()
    assert re.match(
        r"Inputs:\n  T0_g_float\[.*\]\n  T1_g_float\[.*\]\nOutputs:\n  T3_g_float\[.*\]\n\n"
        r"%kernel_math \{\n",
        text,
    ), text
    assert re.search(
        r"\nT2_l_float\[.*\]\n   = T0_g_float\[.*\]\n   \+ T1_g_float\[.*\];\n", text
    ), text
    assert re.search(r"\nT3_g_float\[.*\]\n   = Set\( T2_l_float\[.*\], cache_op=\w+ ?\)", text), (
        text
    )
    assert text.endswith("} // %kernel_math \n\n")


def test_print_kernel_leaves_the_fusion_alone() -> None:
    fd = define(lambda fd: fd.add_output(fd.ops.neg(fd.define_tensor([-1], True))))
    before = fd.fusion.print_math()
    text = fd.fusion.print_kernel()
    assert "CUDAGeneratedKernel" in text
    assert fd.fusion.print_math() == before
    a = tensor(9)
    assert_same(fd.execute([a])[0], -a)


# ------------------------------------------------------------------------------- executor caches


def test_executor_cache_reports() -> None:
    fd = define(lambda fd: fd.add_output(fd.ops.neg(fd.define_tensor([-1], True))))
    assert not hasattr(fd, "fec")
    a = tensor(1000)
    fd.execute([a])
    assert fd.fec.is_compiled([a])
    kernel = fd.fec.get_cuda_kernel([a])
    assert re.search(r"nvfuser_pointwise_f\d+_c\d+_r\d+_g\d+", kernel), kernel
    assert len(fd.fec.get_cuda_kernel([a], True)) > len(kernel)
    assert "%kernel {" in fd.fec.get_scheduled_ir([a])
    assert fd.fec.get_most_recent_scheduled_ir() == fd.fec.get_scheduled_ir([a])
    assert fd.fec.fusion() == fd.fusion
    assert fd.fec.get_output_shardings() == []


def test_kernels_are_reused_across_shapes() -> None:
    def build(fd: FusionDefinition) -> None:
        x, y = (fd.define_tensor([-1, -1], True) for _ in range(2))
        fd.add_output(fd.ops.add(x, y))

    fusion = define(build)
    symbols = set()
    for rows in (128, 256, 192, 320):
        x, y = tensor(rows, 256), tensor(rows, 256, seed=1)
        assert_same(fusion.execute([x, y])[0], x + y)
        kernel = fusion.fec.get_cuda_kernel([x, y])
        symbols |= set(re.findall(r"nvfuser_pointwise_\w+", kernel))
    assert len(symbols) == 1, symbols


def test_lru_cache_statistics() -> None:
    cache = LRUCache(max_fusions=2)
    assert cache.num_fusions() == 0
    assert cache.stats() == "Max Fusions Allowed: 2\nThe fusion cache is empty.\n"

    def fusion(constant: float) -> object:
        return define(
            lambda fd: fd.add_output(fd.ops.mul(fd.define_tensor([-1], True), constant))
        )._fusion

    first = cache.cache_compile(fusion(2.0))
    for _ in range(4):
        assert cache.cache_compile(fusion(2.0)) is first
    assert cache.num_fusions() == 1
    assert cache.stats() == (
        "Max Fusions Allowed: 2\n"
        "Total Fusions in Cache: 1\n"
        "Total Unique Fusions Compiled: 1\n"
        "Cache Hits by LRU ordering:\n"
        "\t0 -> 4 hits\n"
        "Cache Lookups: 5\n"
        "Cache Hits: 4\n"
        "Hit Rate: 80%\n"
    )
    cache.cache_compile(fusion(3.0))
    cache.cache_compile(fusion(4.0))  # evicts the first
    assert cache.num_fusions() == 2
    assert "Total Unique Fusions Compiled: 3\n" in cache.stats()
    cache.cache_compile(fusion(2.0))
    assert cache.num_fusions() == 2
    a = tensor(4)
    assert_same(first.execute([a])[0], a * 2.0)


def test_lru_decorator() -> None:
    @LruFusionCache(max_fusions=8)
    def make(constant: float, swapped: bool = False) -> FusionDefinition:
        with FusionDefinition() as fd:
            x = fd.define_tensor([-1], True)
            y = fd.define_tensor([-1], True)
            fd.add_output(fd.ops.sub(*((y, x) if swapped else (x, y))))
            fd.add_output(fd.ops.mul(x, constant))
        return fd

    a, b = tensor(5), tensor(5, seed=1)
    for _ in range(3):
        assert_all_same(make(2.0).execute([a, b]), [a - b, a * 2.0])
    assert make.num_fusions() == 1
    assert_all_same(make(2.0, swapped=True).execute([a, b]), [b - a, a * 2.0])
    assert make.num_fusions() == 2
    assert "Cache Hits: 2\n" in make.stats()
    assert make(2.0).fec is make(2.0).fec


# ------------------------------------------------------------------------------------- validation


def test_validate() -> None:
    x = tensor(33, 5)

    def build(fd: FusionDefinition) -> None:
        a = fd.from_pytorch(x)
        fd.add_output(fd.ops.sigmoid(a))
        fd.add_output(fd.ops.gt(a, 0.0))

    fd = define(build)
    good = [torch.sigmoid(x), x > 0]
    assert_same(fd.validate([x], good)[0], good[0], atol=1e-6)
    fd.validate([x])
    validate_with_auto_inferred_outputs(fd.fusion, fd.execute([x]), [x])
    bad: list[list[torch.Tensor]] = [
        [torch.sigmoid(x) + 1e-3, x > 0],
        [torch.sigmoid(x), x <= 0],
        [torch.sigmoid(x)],
        [torch.sigmoid(x)[:3], x > 0],
    ]
    for reference in bad:
        with pytest.raises(AssertionError):
            fd.validate([x], reference)
    with pytest.raises(RuntimeError):
        validate_with_auto_inferred_outputs(fd.fusion, bad[0], [x])


def test_manual_validate() -> None:
    x = tensor(33, 5)
    fd = define(lambda fd: fd.add_output(fd.ops.tanh(fd.from_pytorch(x))))
    assert_same(fd.manual_validate([x], [torch.tanh(x)])[0], torch.tanh(x), atol=1e-6)
    fd.manual_validate([x])
    with pytest.raises(AssertionError):
        fd.manual_validate([x], [torch.tanh(x) + 1.0])


TOLERANCES = {
    "Float": (1.68222e-6, 2.23704e-6),
    "Double": (1.68222e-6, 2.23704e-6),
    "ComplexFloat": (1.68222e-6, 2.23704e-6),
    "Half": (0.00390625, 0.0078125),
    "BFloat16": (0.0390625, 0.078125),
    "Int": (0.0, 0.0),
    "Bool": (0.0, 0.0),
}


def test_tolerances_without_reductions() -> None:
    inputs = [tensor(5, dtype=TORCH[name]) for name in TOLERANCES]

    def build(fd: FusionDefinition) -> None:
        for name in TOLERANCES:
            fd.add_output(fd.ops.set(fd.define_tensor([-1], True, data_type(name))))

    pairs = get_val_tolerances(define(build).fusion, inputs)
    for pair, (name, expected) in zip(pairs, TOLERANCES.items(), strict=False):
        assert pair == pytest.approx(expected, rel=1e-5), name


@pytest.mark.skipif(not supported_on_device("Float8_e4m3fn"), reason="the device has no fp8")
def test_validate_fp8() -> None:
    x = tensor(64)
    fd = define(lambda fd: fd.add_output(fd.ops.cast(fd.from_pytorch(x), DataType.Float8_e4m3fn)))
    fd.validate([x])


# ------------------------------------------------------------------------------------ definitions


def test_attributes_before_and_after() -> None:
    fd = FusionDefinition()
    assert fd._fusion is None
    assert fd._fusion_guard is None
    fd._selected_device = None
    with fd as same:
        assert same is fd
        x = fd.define_tensor([-1], True)
        fd.add_output(fd.ops.neg(x))
    assert fd.validate_definition() == (True, None)
    a = tensor(4)
    assert_same(fd.execute((a,), device=fd._selected_device)[0], -a)


def test_reentering_starts_from_scratch() -> None:
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.neg(fd.define_tensor([-1], True)))
    with fd:
        fd.add_output(fd.ops.abs(fd.define_tensor([-1], True)))
    a = tensor(4)
    outputs = fd.execute([a])
    assert len(outputs) == 1
    assert_same(outputs[0], a.abs())


def test_nested_definitions() -> None:
    with FusionDefinition() as outer:
        x = outer.define_tensor([-1], True)
        with FusionDefinition() as inner:
            inner.add_output(inner.ops.abs(inner.define_tensor([-1], True)))
        outer.add_output(outer.ops.neg(x))
    a = tensor(4)
    assert_same(outer.execute([a])[0], -a)
    assert_same(inner.execute([a])[0], a.abs())


def test_seed_example() -> None:
    def build(fd: FusionDefinition) -> None:
        t0 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)
        t1 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)
        fd.add_output(fd.ops.add(t0, fd.ops.add(t1, 2.0)))

    a, b = tensor(33, 65), tensor(33, 65, seed=1)
    assert_same(run(build, [a, b])[0], a + (b + 2.0))


def test_import_needs_nothing_running() -> None:
    done = run_python(
        """
        import sys
        import nvfuse_direct
        assert "nvfuser_direct" not in sys.modules
        import nvfuser_direct
        print(nvfuser_direct.version())
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("0.2.36")


def test_dump_keys_print_something() -> None:
    source = """
        from helpers import *
        run(lambda fd: fd.add_output(fd.ops.neg(fd.define_tensor([-1], True))), [tensor(4)])
    """
    for key, text in (
        ("cuda_kernel", "nvfuser_pointwise"),
        ("python_definition", "def nvfuser_fusion"),
        ("fusion_ir_math", "%kernel_math"),
        ("scheduler_params", "ointwise"),
        ("launch_param", "rid"),
    ):
        done = run_python(source, {"NVFUSER_DUMP": key})
        assert done.returncode == 0, done.stderr
        assert text in done.stdout + done.stderr, f"NVFUSER_DUMP={key}: {done.stdout}{done.stderr}"


def test_reshape_of_a_reshape_to_constant_sizes() -> None:
    x = tensor(20, 2, 4)
    with FusionDefinition() as fd:
        wide = fd.ops.reshape(fd.ops.neg(fd.from_pytorch(x)), [40, 4])
        fd.add_output(fd.ops.mul(fd.ops.reshape(wide, [160]), 2.0))
    (actual,) = fd.execute([x], device=DEVICE)
    assert_same(actual, -x.reshape(160) * 2.0)
