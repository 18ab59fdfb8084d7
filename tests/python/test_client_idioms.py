# SPDX-License-Identifier: BSD-3-Clause
"""The call forms that Lightning Thunder uses (within pointwise and shape ops)."""

from __future__ import annotations

import pytest
import torch
from helpers import DEVICE, assert_same, define, run, tensor
from nvfuse_direct import DataType, FusionDefinition


class IntegerProxy:
    """Not an int, but usable as one."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


def thunder_tensor(fd: FusionDefinition, *sizes: int, dtype: DataType = DataType.Float) -> object:
    return fd.define_tensor(
        shape=tuple(sizes),
        contiguity=tuple(None if n == 1 else True for n in sizes),
        dtype=dtype,
        stride_order=tuple(range(len(sizes) - 1, -1, -1)),
        is_cpu=False,
    )


def test_definition_and_execution_as_thunder_calls_them() -> None:
    fd = FusionDefinition()
    fd._selected_device = None
    with fd:
        x = thunder_tensor(fd, 3, 4)
        s = fd.define_scalar(DataType.Double)
        c = fd.define_scalar(2.0, DataType.Double)
        y = fd.ops.mul(x, fd.ops.reciprocal(c))
        y = fd.ops.add(y, s)
        fd.add_output(y)
        fd.add_output(x)
        fd.add_output(y)
        assert x.ndim == 2
        assert len(fd.fusion.inputs()) == 2
    a = tensor(3, 4)
    for save in (None, False, True):
        first, same, second = fd.execute(
            (a, 0.25),
            device=fd._selected_device,
            save_repro_inputs=save,
            _enable_options=[],
            _disable_options=[],
        )
        assert_same(first, a * 0.5 + 0.25)
        assert_same(second, first)
        assert same is a or same.data_ptr() == a.data_ptr()
    assert len(fd.fake_inputs) == 2


def test_sizes_that_only_have_an_index() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(
            shape=(IntegerProxy(1), -1), contiguity=(None, True), dtype=DataType.Float
        )
        fd.add_output(fd.ops.neg(x))
    a = tensor(1, 5)
    assert_same(fd.execute([a])[0], -a)


def test_zero_dim_tensors_have_empty_tuples() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=(), contiguity=(), dtype=DataType.Float, stride_order=())
        fd.add_output(fd.ops.broadcast_in_dim(fd.ops.neg(x), shape=[2, 3], broadcast_dims=[]))
    a = torch.tensor(1.5, device=DEVICE)
    assert_same(fd.execute([a])[0], (-a).expand(2, 3))


def test_scalar_math_is_done_in_double() -> None:
    def build(fd: FusionDefinition) -> None:
        x = thunder_tensor(fd, 4)
        third = fd.ops.reciprocal(fd.define_scalar(3.0, DataType.Double))
        fd.add_output(fd.ops.mul(fd.ops.cast(x, DataType.Double), third))
        n = fd.ops.cast(fd.ops.ceil(fd.define_scalar(2.5, DataType.Double)), DataType.Int)
        fd.add_output(fd.ops.mul(fd.ops.cast(x, dtype=DataType.Int), n))

    a = torch.tensor([1.0, 2.0, 3.0, 4.0], device=DEVICE)
    thirds, integers = run(build, [a])
    assert_same(thirds, a.double() * (1 / 3))
    assert_same(integers, a.long() * 3)


def test_where_of_another_category_then_cast() -> None:
    def build(fd: FusionDefinition) -> None:
        condition = thunder_tensor(fd, 3, dtype=DataType.Bool)
        x = thunder_tensor(fd, 3, dtype=DataType.Int)
        y = fd.ops.where(condition, x, fd.define_scalar(0.0, DataType.Float))
        fd.add_output(fd.ops.cast(y, DataType.Int))
        z = fd.ops.where(condition, fd.define_scalar(1.5, DataType.Double), x)
        fd.add_output(fd.ops.cast(z, DataType.BFloat16))

    c = torch.tensor([True, False, True], device=DEVICE)
    a = torch.tensor([5, 6, 7], device=DEVICE)
    first, second = run(build, [c, a])
    assert_same(first, torch.where(c, a, 0))
    assert_same(second, torch.where(c, 1.5, a.float()).bfloat16())


def test_shapes_of_scalars_ints_and_both() -> None:
    def build(fd: FusionDefinition) -> None:
        x = fd.define_tensor(shape=(-1, -1), contiguity=(True, True), dtype=DataType.Float)
        rows, columns = x.size(0), x.size(1)
        zero, one = fd.define_scalar(0), fd.define_scalar(1)
        y = fd.ops.neg(x)
        fd.add_output(fd.ops.broadcast_in_dim(y, shape=[2, rows, columns], broadcast_dims=[1, 2]))
        fd.add_output(fd.ops.broadcast_in_dim(y, shape=[2, -1, -1], broadcast_dims=(1, 2)))
        fd.add_output(fd.ops.reshape(y, [-1]))
        fd.add_output(fd.ops.reshape(y, new_shape=[columns, rows]))
        fd.add_output(fd.ops.slice(y, (zero, one), (rows, columns), (one, one)))
        fd.add_output(fd.ops.squeeze(y, ()))
        fd.add_output(fd.ops.permute(y, (1, 0)))
        fd.add_output(fd.ops.pad(y, [1, 2, 0, 0], fd.define_scalar(2.5, DataType.Double)))
        fd.add_output(fd.ops.full((rows, 3), fd.define_scalar(7, DataType.Int), DataType.Int))

    fusion = define(build)
    for rows, columns in ((3, 5), (8, 4)):
        a = tensor(rows, columns)
        outputs = fusion.execute([a])
        n = -a
        expected = [
            n.expand(2, rows, columns),
            n.expand(2, rows, columns),
            n.reshape(-1),
            n.reshape(columns, rows),
            n[:, 1:],
            n,
            n.t(),
            torch.nn.functional.pad(n, (1, 2), value=2.5),
            torch.full((rows, 3), 7, device=DEVICE),
        ]
        for position, (got, want) in enumerate(zip(outputs, expected, strict=True)):
            assert_same(got, want, what=f"output {position}")


def test_reshape_to_and_from_no_dimensions() -> None:
    def build(fd: FusionDefinition) -> None:
        x = thunder_tensor(fd, 1, 1)
        y = fd.ops.reshape(fd.ops.neg(x), ())
        fd.add_output(y)
        fd.add_output(fd.ops.reshape(fd.ops.abs(y), (1, 1, 1)))

    a = tensor(1, 1)
    first, second = run(build, [a])
    assert_same(first, (-a).reshape(()))
    assert_same(second, a.abs().reshape(1, 1, 1))


def test_creation_with_wrapped_scalars() -> None:
    def build(fd: FusionDefinition) -> None:
        def wrap(value: float, dtype: DataType) -> object:
            return fd.define_scalar(value, dtype)

        integer, double = DataType.Int, DataType.Double
        fd.add_output(fd.ops.iota(wrap(5, integer), wrap(2, integer), wrap(3, integer), integer))
        fd.add_output(
            fd.ops.uniform(
                wrap(0.0, double),
                wrap(1.0, double),
                [wrap(4, integer), wrap(5, integer)],
                dtype=DataType.Float,
                rng_seed=wrap(-17, integer),
                rng_offset=wrap(3, integer),
            )
        )
        fd.add_output(fd.ops.full((2, 3), wrap(1.5, double), DataType.BFloat16))

    numbers, random, filled = run(build)
    assert_same(numbers, torch.arange(5, device=DEVICE) * 3 + 2)
    assert random.shape == (4, 5)
    assert ((random >= 0) & (random < 1)).all()
    assert_same(filled, torch.full((2, 3), 1.5, dtype=torch.bfloat16, device=DEVICE))


@pytest.mark.parametrize("name", ["seed as tensors", "seed as scalars"])
def test_uniform_with_a_seed_known_at_run_time(name: str) -> None:
    tensors = name == "seed as tensors"

    def build(fd: FusionDefinition) -> None:
        if tensors:
            seed, offset = (fd.define_tensor((), (), DataType.Int) for _ in range(2))
        else:
            seed, offset = (fd.define_scalar(DataType.Int) for _ in range(2))
        fd.add_output(fd.ops.uniform(0.0, 1.0, [33], rng_seed=seed, rng_offset=offset))

    fusion = define(build)
    reference = define(
        lambda fd: fd.add_output(
            fd.ops.uniform(
                0.0, 1.0, [33], rng_seed=fd.define_scalar(5), rng_offset=fd.define_scalar(2)
            )
        )
    ).execute([], device=DEVICE)[0]
    inputs = [torch.tensor(n, device=DEVICE) for n in (5, 2)] if tensors else [5, 2]
    assert_same(fusion.execute(inputs, device=DEVICE)[0], reference)


def test_only_integers_as_inputs() -> None:
    def build(fd: FusionDefinition) -> None:
        n = fd.define_scalar(DataType.Int)
        fd.add_output(fd.ops.full((n,), 1.0, DataType.Float))

    assert_same(define(build).execute((3,), device=DEVICE)[0], torch.ones(3, device=DEVICE))


def test_batch_norm_running_statistics() -> None:
    """copy_ of a computed value into an input that other outputs still read."""
    mean, x = tensor(7), tensor(5, 7, seed=1)
    old = mean.clone()

    def build(fd: FusionDefinition) -> None:
        m = thunder_tensor(fd, 7)
        t = thunder_tensor(fd, 5, 7)
        centered = fd.ops.sub(t, fd.ops.broadcast_in_dim(m, [5, 7], [1]))
        momentum = fd.ops.mul(m, 0.9)
        fresh = fd.ops.add(momentum, 0.1)
        fd.add_output(fd.ops.set(fresh), alias_input=m)
        fd.add_output(centered)

    (centered,) = run(build, [mean, x])
    assert_same(centered, x - old)
    assert_same(mean, old * 0.9 + 0.1, rtol=1e-6)
