# SPDX-License-Identifier: BSD-3-Clause
"""One bad program, one documented message (sections 2 and 3); the fusion stays usable after it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from helpers import DEVICE, ON_CUDA, assert_same, data_type, define, row_major, tensor
from nvfuse_direct import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType

Definition = Callable[[FusionDefinition], object]


def check_message(error: BaseException, *names: str) -> None:
    text = str(error)
    assert text.strip(), "an error needs a message"
    assert not re.search(r"internal|assert|compiler error", text, re.IGNORECASE), text
    for name in names:
        assert re.search(name, text), f"{name!r} not in: {text}"


@dataclass(frozen=True)
class BadOp:
    """A definition that must raise RuntimeError (or `error`) with a message like `message`."""

    name: str
    build: Definition
    message: str = ""
    error: type[Exception] = RuntimeError


def floats(fd: FusionDefinition, rank: int = 2, dtype: str = "Float") -> object:
    return fd.define_tensor([-1] * rank, True, data_type(dtype))


SIZE_RULE = r"was neither symbolic\(-1\), zero_element\(0\), broadcast\(1\), or static\(>1\)\."

BAD_OPS = [
    # 2.0
    BadOp(
        "full_bad_size",
        lambda fd: fd.ops.full([2, -3], 1.0, DataType.Float),
        "The value -3 at index 1 " + SIZE_RULE,
    ),
    BadOp(
        "dim_out_of_range",
        lambda fd: fd.ops.size(floats(fd), 2),
        "Tried to access out of boundary index",
    ),
    BadOp(
        "dim_out_of_range_negative",
        lambda fd: fd.ops.size(floats(fd), -3),
        "Tried to access out of boundary index",
    ),
    # 2.1 - 2.3
    BadOp("bitwise_not_float", lambda fd: fd.ops.bitwise_not(floats(fd))),
    BadOp("bitwise_and_float", lambda fd: fd.ops.bitwise_and(floats(fd), floats(fd))),
    BadOp(
        "nextafter_half", lambda fd: fd.ops.nextafter(floats(fd, 1, "Half"), floats(fd, 1, "Half"))
    ),
    BadOp("imag_of_real", lambda fd: fd.ops.imag(floats(fd))),
    BadOp(
        "where_condition",
        lambda fd: fd.ops.where(floats(fd), floats(fd), floats(fd)),
        "Condition should be of DataType Bool",
    ),
    BadOp("complex_mixed", lambda fd: fd.ops.complex(floats(fd), floats(fd, 2, "Double"))),
    BadOp("uint64_mix", lambda fd: fd.ops.add(floats(fd, 1, "UInt64"), floats(fd, 1, "Int"))),
    # 2.7
    BadOp(
        "cast_fp8_to_fp8",
        lambda fd: fd.ops.cast(floats(fd, 1, "Float8_e4m3fn"), DataType.Float8_e5m2),
    ),
    BadOp("cast_int_to_fp8", lambda fd: fd.ops.cast(floats(fd, 1, "Int"), DataType.Float8_e4m3fn)),
    BadOp("cast_fp8_to_int", lambda fd: fd.ops.cast(floats(fd, 1, "Float8_e5m2"), DataType.Int)),
    # 2.8
    BadOp(
        "broadcast_count",
        lambda fd: fd.ops.broadcast(floats(fd), [True, False]),
        "Invalid broadcast, number of false entries",
    ),
    BadOp(
        "broadcast_in_dim_length", lambda fd: fd.ops.broadcast_in_dim(floats(fd), [2, 3, 4], [1])
    ),
    BadOp(
        "broadcast_in_dim_duplicate",
        lambda fd: fd.ops.broadcast_in_dim(floats(fd), [2, 3, 4], [1, 1]),
    ),
    BadOp(
        "broadcast_in_dim_range", lambda fd: fd.ops.broadcast_in_dim(floats(fd), [2, 3, 4], [1, 3])
    ),
    BadOp("expand_mismatch", lambda fd: fd.ops.expand(fd.define_tensor([3, 4], True), [3, 5])),
    BadOp("expand_rank", lambda fd: fd.ops.expand(floats(fd), [3])),
    BadOp(
        "reshape_two_unknown",
        lambda fd: fd.ops.reshape(floats(fd), [-1, -1]),
        "A maximum of one value of -1",
    ),
    BadOp(
        "permute_length",
        lambda fd: fd.ops.permute(floats(fd), [0]),
        "argument to have the same length as input",
    ),
    BadOp(
        "permute_duplicate",
        lambda fd: fd.ops.permute(floats(fd), [0, 0]),
        "duplicated dimension entries",
    ),
    BadOp(
        "permute_range",
        lambda fd: fd.ops.permute(floats(fd), [0, 2]),
        "dims argument is out of range, expects",
    ),
    BadOp("permute_float", lambda fd: fd.ops.permute(floats(fd), [0.0, 1.0]), error=TypeError),
    BadOp("squeeze_not_one", lambda fd: fd.ops.squeeze(fd.define_tensor([3, 4], True), [0])),
    BadOp(
        "squeeze_range",
        lambda fd: fd.ops.squeeze(fd.define_tensor([3, 1], True), [2]),
        "Squeeze dim is outside of Tensor size!",
    ),
    BadOp(
        "squeeze_too_many",
        lambda fd: fd.ops.squeeze(fd.define_tensor([1, 1], True), [0, 1, 1]),
        "The dims to squeeze must be <= the number of dims of the input tensor",
    ),
    BadOp(
        "squeeze_expanded",
        lambda fd: fd.ops.squeeze(fd.ops.expand(fd.define_tensor([3, 1], True), [3, 4]), [1]),
    ),
    BadOp(
        "slice_negative_start",
        lambda fd: fd.ops.slice(floats(fd), [-1, 0], [2, 2]),
        "Slice operation start_indices must be greater than or equal to 0.",
    ),
    BadOp(
        "slice_end_before_start",
        lambda fd: fd.ops.slice(floats(fd), [3, 0], [2, 2]),
        "Slice operation end_indices must be greater than or equal to start_indices.",
    ),
    BadOp(
        "slice_stride",
        lambda fd: fd.ops.slice(floats(fd), [0, 0], [2, 2], [1, 2]),
        "nvFuser Limitation: All slice operation strides must be of const size 1.",
    ),
    BadOp(
        "slice_rank",
        lambda fd: fd.ops.slice(floats(fd), [0, 0, 0], [2, 2, 2], [1, 1, 1]),
        "Number of tensor dimensions does not match slice dimensions!",
    ),
    BadOp(
        "slice_strides_length",
        lambda fd: fd.ops.slice(floats(fd), [0, 0], [2, 2], [1]),
        "Slice start_indices and strides don't match!",
    ),
    BadOp(
        "slice_ends_length",
        lambda fd: fd.ops.slice(floats(fd), [0, 0], [2, 2, 2]),
        "Slice indexing attribute dimensions don't match!",
    ),
    BadOp(
        "pad_odd", lambda fd: fd.ops.pad(floats(fd), [1, 2, 3]), "Invalid number of padding widths"
    ),
    BadOp(
        "pad_too_many",
        lambda fd: fd.ops.pad(floats(fd, 1), [1, 2, 3, 4]),
        "Number of pad widths must be at most twice the input dimension",
    ),
    BadOp(
        "pad_value_category",
        lambda fd: fd.ops.pad(floats(fd, 1, "Int"), [1, 1], 1.5),
        "Tensor arg and pad value must have the same dtype.",
    ),
    BadOp(
        "pad_negative_extent",
        lambda fd: fd.ops.pad(fd.define_tensor([4], True), [-3, -2]),
        "Invalid resized domain extent",
    ),
    BadOp(
        "cat_dtypes",
        lambda fd: fd.ops.cat([floats(fd), floats(fd, 2, "Half")], 0),
        "Can't concatenate tensors with different data types",
    ),
    BadOp(
        "cat_ranks",
        lambda fd: fd.ops.cat([floats(fd), floats(fd, 1)], 0),
        "Unexpected number of dimensions",
    ),
    BadOp(
        "cat_dim", lambda fd: fd.ops.cat([floats(fd), floats(fd)], 2), "Invalid dimension to cat"
    ),
    BadOp("cat_nothing", lambda fd: fd.ops.cat([], 0)),
    BadOp("stride_order_length", lambda fd: fd.ops.stride_order(floats(fd), [0])),
    BadOp("stride_order_duplicate", lambda fd: fd.ops.stride_order(floats(fd), [0, 0])),
    BadOp("stride_order_range", lambda fd: fd.ops.stride_order(floats(fd), [0, 2])),
    BadOp(
        "triu_rank",
        lambda fd: fd.ops.triu(floats(fd, 1), 0),
        "input tensor for triu must have 2 or more dims, but got 1 dims",
    ),
    # 2.10
    BadOp("iota_length", lambda fd: fd.ops.iota(1.5), "length must be integer"),
    BadOp(
        "iota_start_dtype",
        lambda fd: fd.ops.iota(3, 0.5, 1),
        "iota: start dtype does not match specified dtype argument",
    ),
    BadOp(
        "iota_step_dtype",
        lambda fd: fd.ops.iota(3, 0, 0.5),
        "iota: step dtype does not match specified dtype argument",
    ),
    BadOp(
        "iota_infinite",
        lambda fd: fd.ops.iota(3, float("inf"), 1.0, DataType.Double),
        "iota: length, start, step must be finite numbers.",
    ),
    BadOp(
        "iota_zero_step", lambda fd: fd.ops.iota(3, 0, 0), "iota: step value must not equal zero."
    ),
    # 3.3
    BadOp(
        "define_size",
        lambda fd: fd.define_tensor([-2, 3], True),
        "The value -2 at index 0 " + SIZE_RULE,
    ),
    BadOp("define_contiguity_length", lambda fd: fd.define_tensor([-1, -1], [True])),
    BadOp(
        "define_stride_order_range",
        lambda fd: fd.define_tensor([-1, -1], True, stride_order=[0, 2]),
        "stride_order argument is out of range",
    ),
    BadOp(
        "define_stride_order_duplicate",
        lambda fd: fd.define_tensor([-1, -1], True, stride_order=[1, 1]),
        "duplicated stride_order entries",
    ),
    BadOp("define_strides_length", lambda fd: fd.define_tensor(sizes=[2, 3], strides=[1])),
    BadOp("define_negative_stride", lambda fd: fd.define_tensor(sizes=[2, 3], strides=[3, -1])),
    BadOp("define_nothing", lambda fd: fd.define_tensor(), error=TypeError),
    BadOp("define_float_size", lambda fd: fd.define_tensor([2.0, 3], True), error=TypeError),
    BadOp("define_huge_size", lambda fd: fd.define_tensor([2**70], True), error=TypeError),
    # 3.5
    BadOp(
        "scalar_output",
        lambda fd: fd.add_output(fd.ops.add(1, 2)),
        "Non-TensorView outputs are not supported",
    ),
    BadOp(
        "alias_of_intermediate",
        lambda fd: fd.add_output(fd.ops.neg(floats(fd)), fd.ops.abs(floats(fd))),
    ),
]


@pytest.mark.parametrize("bad", BAD_OPS, ids=lambda bad: bad.name)
def test_bad_definition(bad: BadOp) -> None:
    """The good part around the bad call must still run."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        y = fd.ops.neg(x)
        count = len(fd.fusion.inputs())
        with pytest.raises(bad.error, match=bad.message) as info:
            bad.build(fd)
        if bad.error is RuntimeError:
            check_message(info.value)
        extra = len(fd.fusion.inputs()) - count
        if extra == 0:
            fd.add_output(fd.ops.add(y, 1.0))
    if extra == 0:
        a = tensor(3, 5)
        assert_same(fd.execute([a])[0], -a + 1.0)
    with FusionDefinition() as again:
        again.add_output(again.ops.neg(again.define_tensor([-1, -1], True)))
    a = tensor(3, 5)
    assert_same(again.execute([a])[0], -a)


# ------------------------------------------------------------------------------------- run time


def two_inputs(fd: FusionDefinition) -> None:
    x = fd.define_tensor([-1, -1], True)
    y = fd.define_tensor([-1, -1], True)
    fd.add_output(fd.ops.add(x, y))


def tensor_and_scalar(fd: FusionDefinition) -> None:
    x = fd.define_tensor([-1, -1], True)
    fd.add_output(fd.ops.mul(x, fd.define_scalar(DataType.Double)))


A = (3, 4)


@dataclass(frozen=True)
class BadCall:
    name: str
    build: Definition
    bad: Callable[[], list[object]]
    good: Callable[[], list[object]]
    message: str = ""
    input_name: str = ""
    error: type[Exception] = RuntimeError


def good_pair() -> list[object]:
    return [tensor(*A), tensor(*A, seed=1)]


BAD_CALLS = [
    BadCall(
        "scalar_for_tensor",
        two_inputs,
        lambda: [2, tensor(*A)],
        good_pair,
        "Expected input 0, .*, to be an at::Tensor but got scalar 2",
    ),
    BadCall(
        "tensor_for_scalar",
        tensor_and_scalar,
        lambda: [tensor(*A), tensor(4)],
        lambda: [tensor(*A), 2.0],
        "Expected input 1, d[0-9]+, to be a scalar but got float tensor of rank 1",
    ),
    BadCall(
        "dtype",
        two_inputs,
        lambda: [tensor(*A).half(), tensor(*A)],
        good_pair,
        "Expected input 0, .*, to be bound to a tensor of dtype float, "
        "but got a tensor of dtype __half",
    ),
    BadCall(
        "dtype_int32",
        two_inputs,
        lambda: [tensor(*A), tensor(*A).int()],
        good_pair,
        "Expected input 1, .*, to be bound to a tensor of dtype float, "
        "but got a tensor of dtype int",
    ),
    BadCall(
        "complex_for_double",
        tensor_and_scalar,
        lambda: [tensor(*A), 2 + 1j],
        lambda: [tensor(*A), 2.0],
        r"Scalar value \(2,1\) is not compatible with the expected data type: double\.",
    ),
    BadCall(
        "rank_too_small", two_inputs, lambda: [tensor(*A), tensor(12)], good_pair, "", "T1|input 1"
    ),
    BadCall(
        "rank_too_large",
        two_inputs,
        lambda: [tensor(1, *A), tensor(*A)],
        good_pair,
        "",
        "T0|input 0",
    ),
    BadCall("too_few", two_inputs, lambda: [tensor(*A)], good_pair, "2"),
    BadCall("too_many", two_inputs, lambda: [*good_pair(), tensor(*A)], good_pair, "3"),
    BadCall(
        "extents_disagree", two_inputs, lambda: [tensor(3, 4), tensor(3, 5)], good_pair, "4.*5|5.*4"
    ),
    BadCall("one_is_not_a_broadcast", two_inputs, lambda: [tensor(3, 4), tensor(1, 4)], good_pair),
    BadCall(
        "not_contiguous",
        two_inputs,
        lambda: [tensor(4, 3).t(), tensor(*A)],
        good_pair,
        "contig",
        "T0|input 0",
    ),
    BadCall(
        "not_contiguous_padded",
        two_inputs,
        lambda: [tensor(*A), tensor(3, 8)[:, :4]],
        good_pair,
        "contig",
        "T1|input 1",
    ),
    BadCall(
        "expanded_for_contiguous",
        two_inputs,
        lambda: [tensor(1, 4).expand(3, 4), tensor(*A)],
        good_pair,
        "contig",
        "T0|input 0",
    ),
    BadCall("a_string", two_inputs, lambda: ["x", tensor(*A)], good_pair),
    BadCall("none", two_inputs, lambda: [None, tensor(*A)], good_pair),
    BadCall(
        "static_extent",
        lambda fd: fd.add_output(fd.ops.neg(fd.define_tensor([3, 4], True))),
        lambda: [tensor(3, 5)],
        lambda: [tensor(3, 4)],
        "4",
        "T0|input 0",
    ),
    BadCall(
        "broadcast_extent",
        lambda fd: fd.add_output(fd.ops.neg(fd.define_tensor([-1, 1], True))),
        lambda: [tensor(3, 2)],
        lambda: [tensor(3, 1)],
        "",
        "T0|input 0",
    ),
    BadCall(
        "reshape_elements",
        lambda fd: fd.add_output(
            fd.ops.reshape(fd.ops.neg(fd.define_tensor([-1, -1], True)), [3, 4])
        ),
        lambda: [tensor(3, 5)],
        lambda: [tensor(6, 2)],
        "Total element counts across view operation must match",
    ),
    BadCall(
        "cat_other_extent",
        lambda fd: fd.add_output(
            fd.ops.cat([fd.define_tensor([-1, -1], True) for _ in range(2)], 0)
        ),
        lambda: [tensor(2, 3), tensor(2, 4)],
        lambda: [tensor(2, 3), tensor(5, 3)],
    ),
    BadCall(
        "symbolic_pad_negative_extent",
        lambda fd: fd.add_output(fd.ops.pad(fd.define_tensor([-1], True), [-3, -2])),
        lambda: [tensor(4)],
        lambda: [tensor(9)],
        "Invalid resized domain extent",
    ),
]


@pytest.mark.parametrize("case", BAD_CALLS, ids=lambda case: case.name)
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_bad_inputs(case: BadCall, warm: bool) -> None:
    """The error names the input; good inputs work before (warm: a launch plan exists) and after."""
    fd = define(case.build)
    if warm:
        fd.execute(case.good())
    with pytest.raises(case.error, match=case.message) as info:
        fd.execute(case.bad())
    check_message(info.value, *([case.input_name] if case.input_name else []))
    (output,) = fd.execute(case.good())
    (reference,) = define(case.build).execute(case.good())
    assert_same(output, reference)


def test_inputs_of_two_devices() -> None:
    fd = define(two_inputs)
    other = torch.device("cpu") if ON_CUDA else torch.device("meta")
    with pytest.raises(RuntimeError) as info:
        fd.execute([tensor(*A), torch.empty(A, device=other)])
    check_message(info.value)
    a, b = tensor(*A), tensor(*A, seed=1)
    assert_same(fd.execute([a, b])[0], a + b)


@pytest.mark.parametrize("which", ["enable", "disable"])
def test_unknown_option(which: str) -> None:
    fd = define(two_inputs)
    a, b = tensor(*A), tensor(*A, seed=1)
    with pytest.raises(RuntimeError, match=f"Unrecognized {which}_option: no_such_option"):
        fd.execute([a, b], **{f"_{which}_options": ["no_such_option"]})
    assert_same(fd.execute([a, b])[0], a + b)


def test_known_options_are_accepted_for_one_call() -> None:
    fd = define(two_inputs)
    a, b = tensor(*A), tensor(*A, seed=1)
    outputs = fd.execute(
        [a, b],
        _enable_options=["id_model_extra_validation", "fuse_matmul"],
        _disable_options=["kernel_reuse", "expr_simplify", "index_hoist"],
    )
    assert_same(outputs[0], a + b)


def test_never_entered() -> None:
    fd = FusionDefinition()
    assert fd.validate_definition()[0] is False
    with pytest.raises(
        NotImplementedError, match="Fusion does not exist! Use `with FusionDefinition"
    ) as info:
        fd.execute([])
    assert str(info.value) == (
        "Fusion does not exist! Use `with FusionDefinition() as fd: ...` to define a fusion."
    )


@pytest.mark.parametrize("how", ["nothing", "inputs_only", "no_outputs"])
def test_empty_fusion(how: str) -> None:
    with FusionDefinition() as fd:
        if how != "nothing":
            x = fd.define_tensor([-1], True)
            if how == "no_outputs":
                fd.ops.neg(x)
    with pytest.raises(NotImplementedError, match="Fusion is empty!"):
        fd.execute([])
    valid, why_not = fd.validate_definition()
    assert valid is False and why_not is not None
    assert why_not.startswith("Fusion is empty!") and "fd.add_output(" in why_not


def test_wrong_device_argument() -> None:
    fd = define(two_inputs)
    inputs = good_pair()
    for device in ("meta", "cuda:300"):
        with pytest.raises((AssertionError, RuntimeError)):
            fd.execute(inputs, device=device)
    for device in ("cuda:", "cuda:x", "cuda:0x", "cuda:99999999999999999999"):
        with pytest.raises(AssertionError, match=f"^Unsupported device {device},"):
            fd.execute(inputs, device=device)
    assert_same(fd.execute(inputs)[0], inputs[0] + inputs[1])


def test_execute_and_manual_execute_exclude_each_other() -> None:
    inputs = good_pair()
    automatic, manual = define(two_inputs), define(two_inputs)
    automatic.execute(inputs)
    with pytest.raises(AssertionError) as info:
        automatic.manual_execute(inputs)
    assert str(info.value) == (
        "FusionExecutorCache already exists! Use execute() to execute the fusion."
    )
    manual.manual_execute(inputs)
    with pytest.raises(AssertionError) as info:
        manual.execute(inputs)
    assert str(info.value) == (
        "KernelExecutor already exists! Use manual_execute() to execute the fusion."
    )


def test_ops_outside_a_definition() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        fd.add_output(fd.ops.neg(x))
    with pytest.raises(RuntimeError) as info:
        fd.ops.neg(x)
    check_message(info.value)
    with pytest.raises(RuntimeError):
        fd.define_tensor([-1], True)
    with pytest.raises(RuntimeError):
        fd.define_scalar(1.0)
    a = tensor(5)
    assert_same(fd.execute([a])[0], -a)


def test_handles_of_another_fusion() -> None:
    with FusionDefinition() as first:
        x = first.define_tensor([-1], True)
        first.add_output(first.ops.neg(x))
    with FusionDefinition() as second:
        y = second.define_tensor([-1], True)
        with pytest.raises(RuntimeError) as info:
            second.ops.add(x, y)
        check_message(info.value)
        with pytest.raises(RuntimeError):
            second.add_output(x)
        second.add_output(second.ops.abs(y))
    a = tensor(5)
    assert_same(first.execute([a])[0], -a)
    assert_same(second.execute([a])[0], a.abs())


def test_an_exception_in_the_definition_propagates(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), FusionDefinition() as fd:
        fd.define_tensor([-1], True)
        raise ZeroDivisionError("in the definition")
    assert capsys.readouterr().out == ""


# ------------------------------------------------------------------------------ manual schedules


def scheduled(edit: Callable[..., object]) -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        y = fd.ops.neg(x)
        z = fd.ops.abs(y)
        fd.add_output(z)
        edit(fd, x, y, z)
    return fd


def block_too_large(fd: FusionDefinition, x, y, z) -> None:
    z.merge(0, 1)
    z.split(0, 4096)
    z.axis(1).parallelize(ParallelType.block_x)


def vectorize_not_innermost(fd: FusionDefinition, x, y, z) -> None:
    z.split(0, 4)
    z.axis(1).parallelize(ParallelType.vectorize)


def vectorize_symbolic_extent(fd: FusionDefinition, x, y, z) -> None:
    z.axis(1).parallelize(ParallelType.vectorize)


def block_twice(fd: FusionDefinition, x, y, z) -> None:
    z.axis(0).parallelize(ParallelType.block_x)
    z.axis(1).parallelize(ParallelType.block_x)


def threads_need_shared_memory(fd: FusionDefinition, x, y, z) -> None:
    """y stays in registers although the threads that read it are not those that wrote it."""
    y.axis(0).parallelize(ParallelType.block_x)
    z.axis(1).parallelize(ParallelType.block_x)


@pytest.mark.parametrize(
    "edit",
    [
        block_too_large,
        vectorize_not_innermost,
        vectorize_symbolic_extent,
        block_twice,
        threads_need_shared_memory,
    ],
    ids=lambda edit: edit.__name__,
)
def test_unschedulable_manual_schedule(edit: Callable[..., object]) -> None:
    fd = scheduled(edit)
    with pytest.raises(RuntimeError) as info:
        fd.manual_execute([tensor(40, 50)])
    check_message(info.value)


BAD_EDITS: dict[str, Callable[..., object]] = {
    "split_zero": lambda fd, x, y, z: z.split(0, 0),
    "split_negative": lambda fd, x, y, z: z.split(0, -4),
    "split_axis": lambda fd, x, y, z: z.split(2, 4),
    "merge_axis": lambda fd, x, y, z: z.merge(0, 5),
    "merge_same": lambda fd, x, y, z: z.merge(1, 1),
    "reorder_range": lambda fd, x, y, z: z.reorder({0: 7}),
    "reorder_duplicate": lambda fd, x, y, z: z.reorder({0: 1, 1: 1}),
    "axis_range": lambda fd, x, y, z: z.axis(2),
    "axis_negative": lambda fd, x, y, z: z.axis(-3),
    "swizzle_symbolic": lambda fd, x, y, z: z.swizzle(0, 1),
    "rfactor_pointwise": lambda fd, x, y, z: z.rfactor([0]),
    "cache_before_input": lambda fd, x, y, z: x.cache_before(),
    "cache_after_no_uses": lambda fd, x, y, z: z.cache_after(),
    "output_in_shared_memory": lambda fd, x, y, z: z.set_memory_type(MemoryType.shared),
    "input_in_registers": lambda fd, x, y, z: x.set_memory_type(MemoryType.local),
    "split_parallel_axis": lambda fd, x, y, z: (
        z.axis(0).parallelize(ParallelType.block_x),
        z.split(0, 4),
    ),
    "inline_too_deep": lambda fd, x, y, z: fd.sched.inline_at(z, 9),
}


@pytest.mark.parametrize("name", BAD_EDITS)
def test_bad_schedule_call(name: str) -> None:
    """The call raises and leaves a fusion that still runs as it was."""
    failure: list[BaseException] = []

    def edit(fd: FusionDefinition, *tvs: object) -> None:
        with pytest.raises((RuntimeError, TypeError, IndexError)) as info:
            BAD_EDITS[name](fd, *tvs)
        failure.append(info.value)
        fd.sched.inline_most()

    fd = scheduled(edit)
    check_message(failure[0])
    a = tensor(6, 7)
    assert_same(fd.manual_execute([a])[0], a.abs())


def test_schedule_of_an_unsuitable_scheduler() -> None:
    from nvfuse_direct import SchedulerType

    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        fd.add_output(fd.ops.neg(x))
        inputs = [tensor(6, 7)]
        ok, reason = fd.sched.can_schedule(fd.fusion, SchedulerType.reduction, inputs)
        assert not ok
        assert re.search(r"Scheduler _reduction_ \*\*\*rejected\*\*\* because : .+", reason)
        with pytest.raises(RuntimeError):
            fd.sched.compute_heuristics(fd.fusion, SchedulerType.reduction, inputs)
        ok, reason = fd.sched.can_schedule(fd.fusion, SchedulerType.pointwise, inputs)
        assert ok, reason


def test_load_store_types_that_pointwise_copies_accept() -> None:
    def edit(fd: FusionDefinition, x, y, z) -> None:
        x.cache_after(LoadStoreOpType.set)
        z.cache_before()
        fd.sched.inline_most()

    a = tensor(6, 7)
    assert_same(scheduled(edit).manual_execute([a])[0], a.abs())


def test_unknown_environment_keys_are_refused() -> None:
    from helpers import run_python

    source = """
        import torch
        from helpers import *
        try:
            run(lambda fd: fd.add_output(fd.ops.neg(fd.define_tensor([-1], True))), [tensor(4)])
        except RuntimeError as error:
            print("refused", error)
    """
    for variable in ("NVFUSER_ENABLE", "NVFUSER_DISABLE", "NVFUSER_DUMP"):
        done = run_python(source, {variable: "no_such_key"})
        text = done.stdout + done.stderr
        assert "no_such_key" in text, text
        assert done.returncode >= 0, text
        assert DEVICE.type in ("cpu", "cuda")


def test_row_major_inputs_with_huge_strides_of_ones() -> None:
    """Size-1 dimensions ignore their strides, so this is no broken promise."""
    a = tensor(4, 1).as_strided((4, 1), (1, 999))
    fd = define(lambda fd: fd.add_output(fd.ops.neg(fd.define_tensor([-1, -1], True))))
    assert_same(fd.execute([a])[0], -a)
    assert row_major((4, 1)).sizes == (4, 1)
