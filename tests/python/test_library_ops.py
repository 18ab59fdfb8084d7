# SPDX-License-Identifier: BSD-3-Clause
"""Operations that torch evaluates, in a plan with generated kernels: values against eager torch,
shapes, layouts, dynamic sizes, what is fused around them, text, errors, in-place updates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from helpers import DEVICE, assert_all_same
from nvfuse_direct import DataType, FusionDefinition, explain
from nvfuse_direct.reference import evaluate

Tensor = torch.Tensor
Ops = Callable[..., Sequence[object]]

FLOATS = [torch.float, torch.double, torch.half, torch.bfloat16]


def values(*sizes: int, dtype: torch.dtype = torch.float, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(sizes, generator=generator).to(dtype).to(DEVICE)


def defined(ops: Ops, inputs: Sequence[Tensor], static: bool = False) -> FusionDefinition:
    with FusionDefinition() as fd:
        for out in ops(fd, *(fd.from_pytorch(x, static_sizes=static) for x in inputs)):
            fd.add_output(out)
    return fd


def rebuilt(fd: FusionDefinition) -> FusionDefinition:
    scope: dict[str, object] = {"FusionDefinition": FusionDefinition, "DataType": DataType}
    exec(repr(fd), scope)
    with FusionDefinition() as copy:
        scope["nvfuser_fusion"](copy)
    return copy


def check(ops: Ops, inputs: Sequence[Tensor], expected: Sequence[Tensor], **tolerance: float):
    """The plan's results, those of the definition's own text, and those of the reference."""
    for static in (False, True):
        fd = defined(ops, inputs, static)
        assert_all_same(fd.execute(inputs), expected, **tolerance)
    copy = rebuilt(fd)
    assert repr(rebuilt(copy)) == repr(copy)
    assert_all_same(copy.execute(inputs), expected, **tolerance)
    assert_all_same(evaluate(fd.fusion, list(inputs)), expected, **tolerance)


def segments(fd: FusionDefinition, inputs: Sequence[Tensor]) -> list[tuple[str, str]]:
    """Schedulers and notes."""
    report = explain(fd, inputs, measure=False)
    return [(segment.scheduler, segment.note) for segment in report.segments]


# ------------------------------------------------------------------------------------- products

MATMUL_SHAPES = [
    ((4, 5), (5, 6)),
    ((1, 5), (5, 1)),
    ((5,), (5,)),
    ((5,), (5, 6)),
    ((4, 5), (5,)),
    ((3, 4, 5), (5,)),
    ((5,), (3, 5, 6)),
    ((3, 4, 5), (3, 5, 6)),
    ((3, 4, 5), (5, 6)),
    ((4, 5), (3, 5, 6)),
    ((1, 4, 5), (3, 5, 6)),
    ((2, 1, 4, 5), (3, 5, 6)),
    ((2, 3, 4, 5), (2, 1, 5, 6)),
    ((4, 0), (0, 6)),
    ((0, 5), (5, 6)),
    ((3, 4, 0), (3, 0, 6)),
    ((0, 4, 5), (0, 5, 6)),
    ((0,), (0,)),
]


def product(fd: FusionDefinition, a: object, b: object) -> list[object]:
    return [fd.ops.matmul(a, b)]


@pytest.mark.parametrize("sizes", MATMUL_SHAPES, ids=str)
def test_matmul_shapes(sizes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (values(*size, seed=i) for i, size in enumerate(sizes))
    check(product, [a, b], [torch.matmul(a, b)])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_matmul_equals_torch_bit_for_bit(dtype: torch.dtype) -> None:
    a, b = values(33, 70, dtype=dtype), values(70, 41, dtype=dtype, seed=1)
    layouts = [
        (a, b),
        (a.mT.contiguous().mT, b),
        (a, b.mT.contiguous().mT),
        (values(66, 70, dtype=dtype)[::2], b),
    ]
    for x, y in layouts:
        check(product, [x, y], [torch.matmul(x, y)])


def test_matmul_of_one_tensor_with_itself() -> None:
    x = values(6, 6)
    check(lambda fd, t: [fd.ops.matmul(t, t)], [x], [x @ x])


def test_one_matmul_definition_serves_all_sizes() -> None:
    with FusionDefinition() as fd:
        a = fd.define_tensor([-1, -1, -1], [True] * 3)
        b = fd.define_tensor([-1, -1, -1], [True] * 3)
        fd.add_output(fd.ops.relu(fd.ops.matmul(a, b)))
    for n, m, k, p in [(2, 3, 4, 5), (1, 1, 1, 1), (0, 3, 4, 5), (2, 3, 0, 5), (7, 8, 9, 10)]:
        x, y = values(n, m, k), values(n, k, p, seed=1)
        assert_all_same(fd.execute([x, y]), [torch.relu(x @ y)])


def test_sizes_that_are_computed() -> None:
    """The domains of a product follow from those of reshapes and expands."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True, True])
        rows = fd.ops.size(x, 0)
        square = fd.ops.reshape(x, [2, fd.ops.div(rows, 2), -1])
        fd.add_output(fd.ops.add(fd.ops.matmul(square, fd.ops.permute(square, [0, 2, 1])), 1.0))
    for sizes in [(6, 4), (2, 4), (2, 1), (8, 0)]:
        t = values(*sizes)
        y = t.reshape(2, sizes[0] // 2, sizes[1])
        assert_all_same(fd.execute([t]), [y @ y.mT + 1.0], rtol=1e-6, atol=1e-6)


LINEAR_SHAPES = [
    ((5,), (6, 5), None),
    ((5,), (6, 5), (6,)),
    ((4, 5), (6, 5), None),
    ((4, 5), (6, 5), (6,)),
    ((2, 4, 5), (6, 5), (6,)),
    ((2, 3, 4, 5), (6, 5), (6,)),
    ((2, 3, 4, 5), (6, 5), None),
    ((0, 5), (6, 5), (6,)),
    ((2, 0, 5), (6, 5), (6,)),
    ((4, 0), (6, 0), (6,)),
    ((4, 5), (1, 5), (1,)),
]


def linear(fd: FusionDefinition, x: object, w: object, bias: object = None) -> list[object]:
    return [fd.ops.linear(x, w, bias)]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("sizes", LINEAR_SHAPES, ids=str)
def test_linear(sizes: tuple[tuple[int, ...] | None, ...], dtype: torch.dtype) -> None:
    inputs = [
        values(*size, dtype=dtype, seed=i) for i, size in enumerate(sizes) if size is not None
    ]
    check(linear, inputs, [torch.nn.functional.linear(*inputs)])


def test_linear_of_strided_input() -> None:
    x = values(3, 5, 4).mT
    w, b = values(6, 5, seed=1), values(6, seed=2)
    check(linear, [x, w, b], [torch.nn.functional.linear(x, w, b)])


def test_linear_with_a_batch_of_weights() -> None:
    x, w, b = values(2, 3, 5), values(4, 6, 5, seed=1), values(4, 6, seed=2)
    want = torch.einsum("abk,wnk->wabn", x, w)
    check(linear, [x, w], [want], rtol=1e-5, atol=1e-5)
    check(linear, [x, w, b], [want + b[:, None, None]], rtol=1e-5, atol=1e-5)


# ------------------------------------------------------------------------------------ selection


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32], ids=str)
def test_topk(dtype: torch.dtype) -> None:
    x = (values(7, 9) * 100).to(dtype)
    for k, dim, largest in [
        (3, -1, True),
        (1, 1, True),
        (9, 1, False),
        (0, 0, True),
        (4, 0, False),
    ]:
        want = torch.topk(x, k, dim, largest, True)
        check(
            lambda fd, t, k=k, dim=dim, largest=largest: fd.ops.topk(t, k, dim, largest, True),
            [x],
            list(want),
        )


def test_topk_of_one_element() -> None:
    x = values()
    check(lambda fd, t: fd.ops.topk(t, 1, dim=0), [x], list(torch.topk(x, 1, 0)))


def test_topk_by_a_size_of_the_call() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True, True])
        k = fd.define_scalar(DataType.Int)
        best, where = fd.ops.topk(x, k, 1, True, True)
        fd.add_output(fd.ops.mul(best, 2.0))
        fd.add_output(where)
    for sizes, k in [((4, 8), 3), ((4, 8), 1), ((2, 5), 5), ((1, 1), 1), ((4, 8), 0)]:
        t = values(*sizes)
        want = torch.topk(t, k, 1)
        assert_all_same(fd.execute([t, k]), [want.values * 2.0, want.indices])
    with pytest.raises(RuntimeError, match=r"k .* range"):
        fd.execute([values(4, 8), 9])
    with pytest.raises(RuntimeError, match="Invalid resized domain extent"):
        fd.execute([values(4, 8), -1])


def test_topk_by_a_computed_size() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True, True])
        half = fd.ops.div(fd.ops.size(x, 1), 2)
        fd.add_output(fd.ops.topk(x, half, 1, True, True)[0])
    for n in (8, 5):
        t = values(3, n)
        assert_all_same(fd.execute([t]), [torch.topk(t, n // 2, 1).values])


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32, torch.bool], ids=str)
def test_argsort(dtype: torch.dtype) -> None:
    x = (values(7, 9) * 100).to(dtype)
    for dim, descending in [(1, False), (0, True), (-1, True)]:
        check(
            lambda fd, t, dim=dim, down=descending: [fd.ops.argsort(t, dim, down, True)],
            [x],
            [torch.argsort(x, dim=dim, descending=descending, stable=True)],
        )


def test_argsort_of_one_element_and_of_none() -> None:
    check(lambda fd, t: [fd.ops.argsort(t, 0)], [values()], [torch.zeros((), dtype=torch.int64)])
    x = values(3, 0)
    check(lambda fd, t: [fd.ops.argsort(t, 1)], [x], [torch.argsort(x, 1)])


# ------------------------------------------------------------------------------- what is around


def test_prologues_and_epilogues_are_generated() -> None:
    x, w, b = values(16, 8), values(12, 8, seed=1), values(12, seed=2)
    r = values(16, 12, seed=3)

    def ops(fd, x, w, b, r):
        h = fd.ops.linear(fd.ops.mul(x, x), w, b)
        return [fd.ops.add(fd.ops.relu(h), fd.ops.mul(r, r))]

    want = torch.relu(torch.nn.functional.linear(x * x, w, b)) + r * r
    fd = defined(ops, [x, w, b, r])
    assert_all_same(fd.execute([x, w, b, r]), [want], rtol=1e-6, atol=1e-6)
    # What only the epilogue needs is computed there.
    cut = "cut at what a library evaluates"
    assert segments(fd, [x, w, b, r]) == [
        ("pointwise", cut),
        ("expr_eval", "torch evaluates linear"),
        ("pointwise", cut),
    ]


def test_matmul_of_casts() -> None:
    x, y = values(8, 16), values(16, 4, seed=1)

    def ops(fd, a, b):
        half = [fd.ops.cast(t, dtype=DataType.BFloat16) for t in (a, b)]
        return [fd.ops.cast(fd.ops.matmul(*half), dtype=DataType.Float)]

    check(ops, [x, y], [(x.bfloat16() @ y.bfloat16()).float()])


def test_views_cost_no_kernel() -> None:
    """Transposed weights, heads of a fused projection: torch takes strides."""
    x, w = values(4, 6, 8), values(24, 8, seed=1)

    def ops(fd, x, w):
        qkv = fd.ops.matmul(x, fd.ops.permute(w, [1, 0]))
        parts = []
        for i in range(3):
            part = fd.ops.slice(qkv, [0, 0, 8 * i], [4, 6, 8 * i + 8])
            heads = fd.ops.reshape(part, [4, 6, 2, 4])
            parts.append(fd.ops.permute(heads, [0, 2, 1, 3]))
        return [fd.ops.sdpfa_fwd(*parts)[0]]

    qkv = (x @ w.t()).view(4, 6, 3, 2, 4).permute(2, 0, 3, 1, 4)
    want = torch.nn.functional.scaled_dot_product_attention(*qkv)
    check(ops, [x, w], [want], rtol=1e-5, atol=1e-5)
    fd = defined(ops, [x, w])
    assert [kind for kind, _ in segments(fd, [x, w])] == ["expr_eval", "expr_eval"]


def test_views_that_others_need_too() -> None:
    x, w = values(5, 6), values(7, 6, seed=1)

    def ops(fd, x, w):
        t = fd.ops.permute(w, [1, 0])
        top = fd.ops.squeeze(
            fd.ops.slice(fd.ops.broadcast(t, [True, False, False]), [0, 0, 0], [1, 6, 3]), [0]
        )
        return [fd.ops.matmul(x, t), fd.ops.exp(t), fd.ops.matmul(x, top), t]

    check(ops, [x, w], [x @ w.t(), w.t().exp(), x @ w.t()[:, :3], w.t()], rtol=1e-6, atol=1e-6)


def test_views_of_changing_sizes() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1, -1], [True] * 3)
        w = fd.define_tensor([-1, -1], [True, True])
        rows = fd.ops.reshape(x, [-1, fd.ops.size(x, 2)])
        half = fd.ops.div(fd.ops.size(rows, 0), 2)
        part = fd.ops.slice(
            rows, [fd.define_scalar(0), fd.define_scalar(0)], [half, fd.ops.size(rows, 1)]
        )
        fd.add_output(fd.ops.linear(part, w))
    for a, b, c, n in [(2, 3, 4, 5), (1, 2, 4, 5), (4, 1, 1, 1), (0, 3, 4, 5)]:
        t, u = values(a, b, c), values(n, c, seed=1)
        want = torch.nn.functional.linear(t.view(a * b, c)[: a * b // 2], u)
        assert_all_same(fd.execute([t, u]), [want])


def test_what_a_kernel_makes_is_written_once() -> None:
    """Libraries read it in whichever order and shape they want."""
    x, w, v = values(2, 3, 5), values(6, 7, seed=1), values(5, 4, seed=2)

    def ops(fd, x, w, v):
        made = fd.ops.relu(x)
        flat = fd.ops.reshape(made, [6, 5])
        products = [fd.ops.matmul(fd.ops.permute(flat, [1, 0]), w), fd.ops.matmul(made, v)]
        return [*products, fd.ops.matmul(fd.ops.permute(made, [0, 2, 1]), made)]

    r = torch.relu(x)
    want = [r.flatten(0, 1).t() @ w, r @ v, r.transpose(1, 2) @ r]
    check(ops, [x, w, v], want, rtol=1e-5, atol=1e-5)
    fd = defined(ops, [x, w, v], static=True)
    assert len(segments(fd, [x, w, v])) == 4
    first = explain(fd, [x, w, v], measure=False).segments[0]
    assert first.output_bytes == r.numel() * r.element_size()


def test_what_is_repeated_is_written_for_a_library() -> None:
    """Grouped heads: the kernel that makes them writes them expanded."""
    x, y = values(2, 3, 5, 4), values(2, 6, 4, 5, seed=1)

    def ops(fd, x, y):
        made = fd.ops.permute(fd.ops.relu(x), [0, 1, 3, 2])
        groups = fd.ops.expand(
            fd.ops.broadcast(made, [False] * 2 + [True] + [False] * 2), [2, 3, 2, 4, 5]
        )
        heads = fd.ops.reshape(groups, [2, 6, 4, 5])
        return [made, fd.ops.matmul(y, fd.ops.permute(heads, [0, 1, 3, 2]))]

    made = torch.relu(x).transpose(2, 3)
    want = y @ made.repeat_interleave(2, 1).transpose(2, 3)
    check(ops, [x, y], [made, want], rtol=1e-5, atol=1e-5)
    fd = defined(ops, [x, y], static=True)
    kinds = [kind for kind, _ in segments(fd, [x, y])]
    assert kinds[0] in ("pointwise", "transpose") and kinds[1:] == ["expr_eval"]


def test_a_sum_of_an_input_is_taken_where_the_input_is_read_again() -> None:
    """The bias gradient of the layer behind a norm, with the norm's backward pass."""
    g, w, x = values(640, 64), values(64, 256, seed=1), values(640, 256, seed=2)
    residual = values(640, 256, seed=3)

    def ops(fd, g, w, x, residual):
        inner = fd.ops.matmul(g, w)
        mean = fd.ops.mul(fd.ops.sum(fd.ops.mul(inner, x), [1], keepdim=True), 1 / 256)
        out = fd.ops.add(fd.ops.sub(inner, fd.ops.mul(x, mean)), residual)
        return [fd.ops.sum(residual, [0]), out, fd.ops.sum(fd.ops.mul(inner, x), [0])]

    inner = g @ w
    out = inner - x * (inner * x).mean(1, keepdim=True) + residual
    want = [residual.sum(0), out, (inner * x).sum(0)]
    check(ops, [g, w, x, residual], want, rtol=1e-4, atol=1e-4)
    fd = defined(ops, [g, w, x, residual], static=True)
    readers = [
        segment.scheduler
        for segment in explain(fd, [g, w, x, residual], measure=False).segments
        if segment.input_bytes >= residual.numel() * residual.element_size()
    ]
    assert readers.count("expr_eval") == len(readers) - 1, readers


def test_topk_of_a_softmax() -> None:
    x = values(6, 40)

    def ops(fd, t):
        top = fd.ops.max(t, [1], keepdim=True)
        power = fd.ops.exp(fd.ops.sub(t, top))
        softmax = fd.ops.div(power, fd.ops.sum(power, [1], keepdim=True))
        best, where = fd.ops.topk(softmax, 3, 1, True, True)
        return [fd.ops.div(best, fd.ops.sum(best, [1], keepdim=True)), where]

    want = torch.topk(torch.softmax(x, 1), 3, 1)
    best = want.values / want.values.sum(1, keepdim=True)
    check(ops, [x], [best, want.indices], rtol=1e-5, atol=1e-6)


def test_layers_of_products_and_norms() -> None:
    """Reductions before, between and after products, over rows and over columns."""
    x, w1, w2 = values(12, 16), values(24, 16, seed=1), values(16, 24, seed=2)

    def norm(fd, t):
        var, mean = fd.ops.var_mean(t, [1], correction=0, keepdim=True)
        return fd.ops.mul(fd.ops.sub(t, mean), fd.ops.rsqrt(fd.ops.add(var, 1e-5)))

    def ops(fd, x, w1, w2):
        h = fd.ops.relu(fd.ops.linear(norm(fd, x), w1))
        y = fd.ops.add(x, fd.ops.linear(h, w2))
        return [norm(fd, y), fd.ops.sum(h, [0])]

    def norm_by_torch(t):
        return torch.nn.functional.layer_norm(t, t.shape[1:])

    h = torch.relu(torch.nn.functional.linear(norm_by_torch(x), w1))
    y = x + torch.nn.functional.linear(h, w2)
    check(ops, [x, w1, w2], [norm_by_torch(y), h.sum(0)], rtol=1e-4, atol=1e-4)


def test_results_that_nobody_needs() -> None:
    x = values(5, 6)
    check(lambda fd, t: [fd.ops.topk(t, 2, 1)[1]], [x], [torch.topk(x, 2, 1).indices])
    check(lambda fd, t: [fd.ops.topk(t, 2, 1)[0]], [x], [torch.topk(x, 2, 1).values])


def test_independent_products_and_shared_inputs() -> None:
    x, w1, w2 = values(5, 6), values(6, 7, seed=1), values(6, 8, seed=2)

    def ops(fd, x, w1, w2):
        return [fd.ops.matmul(x, w1), fd.ops.relu(x), fd.ops.neg(fd.ops.matmul(x, w2))]

    check(ops, [x, w1, w2], [x @ w1, x.relu(), -(x @ w2)])


def test_autocast_does_not_reach_into_a_fusion() -> None:
    x, y = values(8, 16), values(16, 4, seed=1)
    fd = defined(product, [x, y])
    with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
        (out,) = fd.execute([x, y])
    assert_all_same([out], [x @ y])


def test_inputs_with_gradients() -> None:
    x, y = values(8, 16).requires_grad_(), values(16, 4, seed=1).requires_grad_()
    (out,) = defined(product, [x, y]).execute([x, y])
    assert not out.requires_grad
    assert_all_same([out], [(x @ y).detach()])


# -------------------------------------------------------------------------------------- in place


def test_a_product_written_into_an_input() -> None:
    a, b = values(6, 6), values(6, 6, seed=1)
    with FusionDefinition() as fd:
        x, y = fd.from_pytorch(a), fd.from_pytorch(b)
        fd.add_output(fd.ops.matmul(x, y), alias_input=x)
    want = a @ b
    assert fd.execute([a, b]) == []
    assert_all_same([a], [want])


def test_a_product_written_into_a_strided_input_that_it_does_not_read() -> None:
    a, b = values(4, 6), values(6, 5, seed=1)
    target = torch.zeros(8, 10, device=DEVICE)[::2, ::2]
    with FusionDefinition() as fd:
        x, y, z = (fd.from_pytorch(t) for t in (a, b, target))
        out = fd.ops.matmul(x, y)
        fd.add_output(out, alias_input=z)
        fd.add_output(fd.ops.relu(out))
    (relu,) = fd.execute([a, b, target])
    assert_all_same([target, relu], [a @ b, torch.relu(a @ b)])


# ---------------------------------------------------------------------------------- text, errors


def test_text_of_library_ops() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True, True])
        w = fd.define_tensor([-1, -1], [True, True])
        b = fd.define_tensor([-1], [True])
        fd.ops.matmul(x, w)
        plain = fd.ops.linear(x, w)
        biased = fd.ops.linear(x, w, bias=b)
        best, _ = fd.ops.topk(x, 3, -1)
        order = fd.ops.argsort(x, 0, descending=True)
        for out in (plain, biased, best, order):
            fd.add_output(out)
    lines = repr(fd).splitlines()
    assert "    tv4 = fd.ops.linear(tv0, tv1)" in lines
    assert "    tv5 = fd.ops.linear(tv0, tv1, bias=tv2)" in lines
    assert "    tv6, _ = fd.ops.topk(tv0, 3, dim=1)" in lines
    assert "    tv8 = fd.ops.argsort(tv0, dim=0, descending=True)" in lines


def test_errors_at_definition() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([2, 3], [True, True])
        y = fd.define_tensor([4, 5], [True, True])
        h = fd.define_tensor([3, 5], [True, True], dtype=DataType.Half)
        s = fd.define_tensor([], [])
        cases = [
            (lambda: fd.ops.matmul(x, y), "matmul: sizes do not agree.* is 3, but .* is 4"),
            (lambda: fd.ops.matmul(x, h), "matmul: .*same dtype.*float32 and float16"),
            (lambda: fd.ops.matmul(x, s), "matmul: arg2 must have at least 1 dimension"),
            (lambda: fd.ops.linear(x, y), "linear: sizes do not agree"),
            (lambda: fd.ops.linear(x, s), "linear: the weight must have at least 2 dimensions"),
            (lambda: fd.ops.linear(x, x, x), "linear: the bias must have fewer dimensions"),
            (lambda: fd.ops.topk(x, -1), "Invalid resized domain extent"),
            (lambda: fd.ops.topk(x, 1.5), "k must be an integer"),
            (lambda: fd.ops.topk(x, 1, 2), "out of boundary index"),
            (lambda: fd.ops.argsort(x, -3), "out of boundary index"),
        ]
        for make, message in cases:
            with pytest.raises(RuntimeError, match=message):
                make()
        with pytest.raises(TypeError):
            fd.ops.argsort(x)


def test_sizes_that_disagree_when_the_fusion_runs() -> None:
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, -1], [True, True]) for _ in range(2))
        c = fd.define_tensor([-1], [True])
        fd.add_output(fd.ops.linear(a, b, c))
    fd.execute([values(2, 3), values(4, 3), values(4)])
    with pytest.raises(RuntimeError, match=r"(?s)Sizes do not agree.*size 5.*size 3.*linear"):
        fd.execute([values(2, 3), values(4, 5), values(4)])
    with pytest.raises(RuntimeError, match=r"(?s)Sizes do not agree.*linear"):
        fd.execute([values(2, 3), values(4, 3), values(5)])


def test_a_library_op_can_be_excluded() -> None:
    x, y = values(4, 4), values(4, 4)
    fd = defined(product, [x, y])
    fd.execute([x, y])
    with pytest.raises(RuntimeError, match="Can not find a scheduler to schedule fusion segment"):
        fd.execute([x, y], _enable_options=["fuse_matmul"], _disable_options=["matmul_expr_eval"])
    assert_all_same(fd.execute([x, y]), [x @ y])


def test_no_schedule_by_hand() -> None:
    x = values(4, 4)
    fd = defined(lambda fd, t: [fd.ops.matmul(t, t)], [x])
    with pytest.raises(RuntimeError, match="matmul is evaluated by a library"):
        fd.manual_execute([x])


def test_compatible_schedulers() -> None:
    from nvfuse_direct import SchedulerType, schedule

    with FusionDefinition() as fd:
        x = fd.define_tensor([4, 4], [True, True])
        fd.add_output(fd.ops.matmul(x, x))
        inputs = [values(4, 4)]
        kinds = schedule.find_compatible_schedulers(fd.fusion, inputs)
        assert kinds == [SchedulerType.expr_eval]
        can, why = schedule.can_schedule(fd.fusion, SchedulerType.pointwise, inputs)
        assert not can
        assert "a library evaluates matmul" in why


def test_profile_of_library_segments() -> None:
    from nvfuse_direct import PythonProfiler

    x, y = values(4, 4, dtype=torch.bfloat16), values(4, 4, dtype=torch.bfloat16)
    fd = defined(lambda fd, a, b: [fd.ops.add(fd.ops.linear(a, b), 1.0)], [x, y])
    with PythonProfiler() as profiler:
        fd.execute([x, y])
    kernels = profiler.profile.kernel_profiles
    assert [k.scheduler for k in kernels] == ["expr_eval", "pointwise"]
    assert all(k.name for k in kernels)


# ---------------------------------------------------------------------------- products of groups


def grouped(fd: FusionDefinition, a: object, b: object, offsets: object) -> list[object]:
    return [fd.ops.grouped_mm(a, b, offsets)]


@pytest.mark.parametrize("dtype", [torch.float, torch.bfloat16], ids=str)
def test_grouped_mm(dtype: torch.dtype) -> None:
    ends = torch.tensor([16, 16, 48], dtype=torch.int32, device=DEVICE)
    parts = [slice(0, 16), slice(16, 16), slice(16, 48)]

    def close(inputs: list[Tensor], want: Tensor) -> None:
        check(grouped, inputs, [want.to(dtype)], rtol=1e-2, atol=1e-2)

    a, b = values(8, 48, dtype=dtype), values(48, 16, dtype=dtype, seed=1)
    close([a, b, ends], torch.stack([a[:, p].float() @ b[p].float() for p in parts]))
    a, b = values(3, 8, 16, dtype=dtype), values(16, 48, dtype=dtype, seed=1)
    columns = [a[g].float() @ b[:, p].float() for g, p in enumerate(parts)]
    close([a, b, ends], torch.cat(columns, 1))
    a, b = values(48, 16, dtype=dtype), values(3, 16, 8, dtype=dtype, seed=1)
    rows = [a[p].float() @ b[g].float() for g, p in enumerate(parts)]
    close([a, b, ends], torch.cat(rows, 0))


# ------------------------------------------------------------------------------------- attention


def sdpa(fd: FusionDefinition, q: object, k: object, v: object, **options: object) -> list[object]:
    return list(fd.ops.sdpfa_fwd(q, k, v, **options)[:2])


def attention(q: Tensor, k: Tensor, v: Tensor, mask=None, causal: bool = False, scale=None):
    """Output and logsumexp in float64."""
    scores = q.double() @ k.double().mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        keep = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~keep, -torch.inf)
    if mask is not None:
        scores = (
            scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
        )
    return (torch.softmax(scores, -1) @ v.double()).to(q.dtype), scores.logsumexp(-1).float()


SDPA_TOLERANCE = {
    torch.float: 1e-5,
    torch.double: 1e-5,
    torch.half: 4e-3,
    torch.bfloat16: 3e-2,
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_sdpa_forward(dtype: torch.dtype, causal: bool) -> None:
    q = values(2, 3, 7, 16, dtype=dtype)
    k, v = (values(2, 3, 9, 16, dtype=dtype, seed=i) for i in (1, 2))
    tolerance = SDPA_TOLERANCE[dtype]
    want = attention(q, k, v, causal=causal)
    check(
        lambda fd, *x: sdpa(fd, *x, is_causal=causal),
        [q, k, v],
        want,
        rtol=tolerance,
        atol=tolerance,
    )


def test_sdpa_options() -> None:
    q = values(2, 3, 7, 12)
    k, v = (values(2, 3, 9, 12, seed=i) for i in (1, 2))
    bias, mask = values(1, 3, 7, 9, seed=3), values(2, 1, 7, 9, seed=4) > -1.0
    close = {"rtol": 1e-5, "atol": 1e-5}
    check(lambda fd, *x: sdpa(fd, *x, scale=0.3), [q, k, v], attention(q, k, v, scale=0.3), **close)
    check(
        lambda fd, q, k, v, bias: sdpa(fd, q, k, v, bias=bias),
        [q, k, v, bias],
        attention(q, k, v, mask=bias),
        **close,
    )
    check(
        lambda fd, q, k, v, bias, mask: sdpa(fd, q, k, v, bias=bias, mask=mask),
        [q, k, v, bias, mask],
        attention(q, k, v, mask=bias.masked_fill(~mask, -torch.inf)),
        **close,
    )


def test_sdpa_arguments_of_thunder() -> None:
    """Lightning Thunder 0.2.6 passes dropout_p, is_causal and scale as the fourth to the sixth."""
    q, k, v = (values(2, 3, 7, 16, seed=i) for i in range(3))

    def ops(fd, q, k, v):
        dropout_p = fd.define_scalar(0.0, dtype=DataType.Double)
        is_causal = fd.define_scalar(True, dtype=DataType.Bool)
        scale = fd.define_scalar(0.5, dtype=DataType.Double)
        return [
            *fd.ops.sdpfa_fwd(q, k, v, dropout_p, is_causal, None)[:2],
            *fd.ops.sdpfa_fwd(q, k, v, dropout_p, is_causal, scale)[:2],
        ]

    want = [*attention(q, k, v, causal=True), *attention(q, k, v, causal=True, scale=0.5)]
    check(ops, [q, k, v], want, rtol=1e-5, atol=1e-5)
    with FusionDefinition() as fd, pytest.raises(TypeError, match="bias must be a TensorView"):
        t = fd.from_pytorch(q)
        fd.ops.sdpfa_fwd(t, t, t, 0.5, is_causal=True)


def test_sdpa_of_five_dimensions() -> None:
    q, k, v = (values(2, 2, 3, 7, 16, seed=i) for i in range(3))
    check(sdpa, [q, k, v], attention(q, k, v), rtol=1e-5, atol=1e-5)


def test_sdpa_output_has_the_layout_of_the_query() -> None:
    q, k, v = (values(2, 7, 3, 16, seed=i).permute(0, 2, 1, 3) for i in range(3))
    out, _ = defined(sdpa, [q, k, v]).execute([q, k, v])
    assert out.stride() == q.stride()
    assert_all_same([out], [attention(q, k, v)[0]], rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(DEVICE.type != "cuda", reason="on a CPU there is one way")
@pytest.mark.parametrize("backward", ["FLASH_ATTENTION", "CUDNN_ATTENTION"])
@pytest.mark.parametrize("forward", ["FLASH_ATTENTION", "CUDNN_ATTENTION"])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_any_kind_follows_any_other(causal: bool, forward: str, backward: str) -> None:
    """cuDNN and flash attention leave the same logsumexp."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    sizes = (2, 3, 128, 64)
    q, k, v, grad = (values(*sizes, dtype=torch.bfloat16, seed=i) for i in range(4))
    with FusionDefinition() as fd:
        operands = [fd.from_pytorch(x) for x in (q, k, v)]
        for out in fd.ops.sdpfa_fwd(*operands, is_causal=causal):
            fd.add_output(out)
    with sdpa_kernel([getattr(SDPBackend, forward)]):
        out, lse, seed, offset = fd.execute([q, k, v])
    saved = [grad, q, k, v, out, lse]
    with FusionDefinition() as fd:
        tensors = [fd.from_pytorch(x) for x in (*saved, seed, offset)]
        for gradient in fd.ops.sdpfa_bwd(*tensors[:6], None, causal, *tensors[6:], None):
            fd.add_output(gradient)
    with sdpa_kernel([getattr(SDPBackend, backward)]):
        gradients = fd.execute([*saved, seed, offset])
    leaves = [x.detach().double().requires_grad_() for x in (q, k, v)]
    want = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal)
    want.backward(grad.double())
    assert_all_same([out], [want.detach().bfloat16()], rtol=2e-2, atol=2e-2)
    assert_all_same(gradients, [x.grad.bfloat16() for x in leaves], rtol=5e-2, atol=5e-2)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", [(2, 3, 8, 16), (2, 2, 3, 8, 16)], ids=str)
def test_sdpa_backward(causal: bool, sizes: tuple[int, ...]) -> None:
    dtype = torch.bfloat16 if DEVICE.type == "cuda" else torch.float
    q, k, v, grad = (values(*sizes, dtype=dtype, seed=i) for i in range(4))

    def ops(fd, grad, q, k, v):
        out, lse, seed, offset = fd.ops.sdpfa_fwd(q, k, v, is_causal=causal)
        return fd.ops.sdpfa_bwd(grad, q, k, v, out, lse, None, causal, seed, offset, None)

    leaves = [x.detach().double().requires_grad_() for x in (q, k, v)]
    scores = leaves[0] @ leaves[1].mT * sizes[-1] ** -0.5
    if causal:
        keep = torch.ones(scores.shape[-2:], dtype=torch.bool, device=DEVICE).tril()
        scores = scores.masked_fill(~keep, -torch.inf)
    (torch.softmax(scores, -1) @ leaves[2]).backward(grad.double())
    want = [x.grad.to(dtype) for x in leaves]
    tolerance = 1e-4 if dtype == torch.float else 5e-2
    check(ops, [grad, q, k, v], want, rtol=tolerance, atol=tolerance)


def test_text_of_attention() -> None:
    with FusionDefinition() as fd:
        q = fd.define_tensor([2, 3, 8, 16], [True] * 4)
        out, lse, seed, offset = fd.ops.sdpfa_fwd(q, q, q, dropout_p=0.0, is_causal=True)
        grads = fd.ops.sdpfa_bwd(out, q, q, q, out, lse, 0.0, True, seed, offset, None)
        for grad in grads:
            fd.add_output(grad)
    lines = repr(fd).splitlines()
    assert "    tv1, tv2, tv3, tv4 = fd.ops.sdpfa_fwd(tv0, tv0, tv0, is_causal=True)" in lines
    assert (
        "    tv5, tv6, tv7 = fd.ops.sdpfa_bwd(tv1, tv0, tv0, tv0, tv1, tv2, dropout_p=None, "
        "is_causal=True, philox_seed=tv3, philox_offset=tv4, scale=None)" in lines
    )


@pytest.mark.skipif(DEVICE.type != "cuda", reason="flash attention draws on a GPU only")
@pytest.mark.parametrize("width", [64, 20])
def test_sdpa_draws_as_torch_does(width: int) -> None:
    q, k, v = (values(2, 4, 64, width, dtype=torch.bfloat16, seed=i) for i in range(3))
    fd = defined(lambda fd, *x: sdpa(fd, *x, dropout_p=0.2)[:1], [q, k, v])
    fd.execute([q, k, v])
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        torch.manual_seed(3)
        want = torch.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.2)
        after = torch.rand(4, device=DEVICE)
    torch.manual_seed(3)
    (out,) = fd.execute([q, k, v])
    assert_all_same([out, torch.rand(4, device=DEVICE)], [want, after])


@pytest.mark.parametrize("batch", [1, 2])
def test_attention_of_heads_in_a_projection_keeps_their_order(batch: int) -> None:
    """Results lie as query, key and value do, so that joining the heads again needs no copy."""
    heads, length, width = 3, 16, 8
    with FusionDefinition() as fd:
        shape = [batch, length, heads * width]
        inputs = [fd.define_tensor(shape, [True] * 3, DataType.Float) for _ in range(4)]
        q, k, v, grad = (
            fd.ops.permute(fd.ops.reshape(x, [batch, length, heads, width]), [0, 2, 1, 3])
            for x in inputs
        )
        out, logsumexp, seed, offset = fd.ops.sdpfa_fwd(q, k, v, is_causal=True)
        grads = fd.ops.sdpfa_bwd(grad, q, k, v, out, logsumexp, None, True, seed, offset, None)
        for each in (out, *grads):
            fd.add_output(each)
    tensors = [torch.randn(*shape, device=DEVICE) for _ in range(4)]
    results = fd.execute(tensors)
    q, k, v, grad = (x.view(batch, length, heads, width).transpose(1, 2) for x in tensors)
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=True)
    references = [expected, *torch.autograd.grad(expected, leaves, grad)]
    for result, reference in zip(results, references, strict=True):
        assert result.stride() == q.stride()
        torch.testing.assert_close(result, reference, rtol=1e-3, atol=1e-3)
