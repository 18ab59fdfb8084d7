# SPDX-License-Identifier: BSD-3-Clause
"""Rows of the op suite for what libraries evaluate: products, selection, attention, block scaling
(sections 2.12 to 2.15). A row is collected once `fd.ops` has the op.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from helpers import (
    DEVICE,
    EPSILON,
    FLOATS,
    INTS,
    TORCH,
    Layout,
    data_type,
    difference,
    row_major,
    widen,
)
from nvfuse_direct import DataType, FusionDefinition, block_scaled
from op_infos import Arg, BadCall, OpInfo, Sample, equals, operand, sizes_of, tensor_arg

Tensor = torch.Tensor
Check = Callable[[Sequence[Tensor], Sequence[Tensor]], str | None]

FP4 = torch.float4_e2m1fn_x2
E4M3, E5M2 = "Float8_e4m3fn", "Float8_e5m2"


def near(
    reference: Callable[..., object],
    out: torch.dtype | None = None,
    loose: float = 4.0,
    least: float = 0.0,
) -> Check:
    """Outputs are what the reference makes of the widened operands, but for rounding.

    Sums have as many terms as an operand has elements, at most. `least` is the smallest relative
    error that is allowed.
    """

    def check(outputs: Sequence[Tensor], operands: Sequence[Tensor]) -> str | None:
        expected = reference(*(widen(x) for x in operands))
        expected = expected if isinstance(expected, tuple) else (expected,)
        terms = max((x.numel() for x in operands), default=1)
        for index, (got, want) in enumerate(zip(outputs, expected, strict=True)):
            dtype = out or operands[0].dtype
            if got.dtype != dtype and index == 0:
                return f"dtype {got.dtype}, expected {dtype}"
            small = 2.0**-50 if got.dtype == torch.double else 2.0**-22
            bound = max(loose * EPSILON[got.dtype] + terms**0.5 * small, least)
            scale = float(want.abs().max()) if want.numel() else 0.0
            message = difference(got, want.to(got.dtype), bound, bound * max(scale, 1.0))
            if message is not None:
                return f"output {index}: {message}"
        return None

    return check


def arg(layout: Layout | Sequence[int], dtype: str, seed: int) -> Arg:
    layout = layout if isinstance(layout, Layout) else row_major(tuple(layout))
    return tensor_arg(layout, dtype, seed, -1.0, 1.0)


def fixed(name: str, make: Callable[[], Tensor]) -> Arg:
    return Arg(name, make)


# ---------------------------------------------------------------------------------------- products

# Operands of matmul: [..., m, k] and [..., k, n].
PRODUCTS: dict[str, list[tuple[Layout | Sequence[int], Layout | Sequence[int]]]] = {
    "odd": [((37,), (37,)), ((37,), (37, 3)), ((3, 37), (37,))],
    "matrix": [((6, 33), (33, 5))],
    "both_sides": [((5, 1, 6, 11), (7, 11, 4)), ((3, 6, 11), (11, 4)), ((6, 11), (3, 11, 4))],
    "empty": [((0, 3), (3, 4)), ((3, 0), (0, 4)), ((2, 3, 0), (2, 0, 4))],
    "ones": [((1, 1), (1, 1)), ((1,), (1,))],
    "strided": [(Layout((5, 7), (28, 2)), (7, 6))],
    "transposed": [(Layout((5, 7), (1, 5)), Layout((7, 6), (1, 7)))],
    "expanded": [(Layout((3, 5, 7), (0, 7, 1)), (7, 6)), (Layout((5, 7), (0, 1)), (7, 6))],
    "offset": [(row_major((4, 32), 1), row_major((32, 6), 3))],
}


def matmul_samples(dtype: str, shape: str) -> Iterator[Sample]:
    for k, (a, b) in enumerate(PRODUCTS.get(shape, [])):
        yield Sample(
            (arg(a, dtype, 1), arg(b, dtype, 2)),
            lambda fd, x, y: fd.ops.matmul(x, y),
            near(torch.matmul),
            f"matmul {k}",
        )


def linear_samples(dtype: str, shape: str) -> Iterator[Sample]:
    layouts = [pair for pair in PRODUCTS.get(shape, []) if len(sizes(pair[1])) == 2]
    for k, (a, b) in enumerate(layouts):
        depth, columns = sizes(b)
        weight = arg((columns, depth), dtype, 2)
        bias = arg((columns,), dtype, 3)
        function = torch.nn.functional.linear
        yield Sample(
            (arg(a, dtype, 1), weight),
            lambda fd, x, w: fd.ops.linear(x, w),
            near(function),
            f"linear {k}",
        )
        yield Sample(
            (arg(a, dtype, 1), weight, bias),
            lambda fd, x, w, b: fd.ops.linear(x, w, b),
            near(function),
            f"linear {k} with bias",
        )


def sizes(layout: Layout | Sequence[int]) -> tuple[int, ...]:
    return layout.sizes if isinstance(layout, Layout) else tuple(layout)


ENDS = {"matrix": [16, 32, 48], "empty": [0, 16, 16], "ones": [16], "odd": [16, 48, 48]}


def offsets_arg(values: Sequence[int]) -> Arg:
    return fixed(f"offsets{values}", lambda: torch.tensor(values, dtype=torch.int32))


def grouped_reference(a: Tensor, b: Tensor, ends: Tensor) -> Tensor:
    parts = [slice(s, e) for s, e in zip([0, *ends.tolist()[:-1]], ends.tolist(), strict=True)]
    if a.dim() == b.dim():
        return torch.stack([a[:, part] @ b[part] for part in parts])
    out = a.new_zeros(a.shape[-2], b.shape[-1])
    for g, part in enumerate(parts):
        if a.dim() == 3:
            out[:, part] = a[g] @ b[:, part]
        else:
            out[part] = a[part] @ b[g]
    return out


def grouped_samples(dtype: str, shape: str) -> Iterator[Sample]:
    ends = ENDS.get(shape)
    if ends is None:
        return
    g, length = len(ends), ends[-1]
    forms = {
        "along k": ((8, length), (length, 24), (g, 8, 1), (g, 1, 24)),
        "columns": ((g, 8, 32), (32, length), (g, 8, 1), (1, length)),
        "rows": ((length, 32), (g, 32, 24), (length, 1), (g, 1, 24)),
    }
    for label, (a, b, scale_a, scale_b) in forms.items():
        operands = (arg(a, dtype, 1), arg(b, dtype, 2), offsets_arg(ends))
        if dtype != E4M3:
            yield Sample(
                operands,
                lambda fd, x, y, o: fd.ops.grouped_mm(x, y, o),
                near(grouped_reference),
                f"grouped_mm {label}",
            )
            continue
        scales = (
            tensor_arg(row_major(scale_a), "Float", 4, 0.5, 1.5),
            tensor_arg(row_major(scale_b), "Float", 5, 0.5, 1.5),
        )

        def reference(a, b, o, sa, sb) -> Tensor:
            if a.dim() == b.dim():
                return grouped_reference(a, b, o) * sa * sb
            return grouped_reference(a * sa, b * sb, o)

        yield Sample(
            (*operands, *scales),
            lambda fd, *x: fd.ops.grouped_mm(*x)[0],
            near(reference, torch.bfloat16),
            f"scaled grouped_mm {label}",
        )


def bad_products(fd: FusionDefinition) -> tuple[object, object]:
    return fd.define_tensor([2, 3], True), fd.define_tensor([4, 5], True)


def product_infos() -> Iterator[OpInfo]:
    yield OpInfo(
        "matmul",
        FLOATS,
        matmul_samples,
        "library products",
        (
            BadCall("sizes", lambda fd: fd.ops.matmul(*bad_products(fd)), "matmul: sizes do not"),
            BadCall(
                "dtypes",
                lambda fd: fd.ops.matmul(
                    fd.define_tensor([2, 3], True), fd.define_tensor([3, 4], True, DataType.Half)
                ),
                "matmul: .*same dtype",
            ),
        ),
    )
    yield OpInfo(
        "linear",
        FLOATS,
        linear_samples,
        "library products",
        (BadCall("sizes", lambda fd: fd.ops.linear(*bad_products(fd)), "linear: sizes do not"),),
    )

    def two_batches(fd: FusionDefinition) -> object:
        a, b = fd.define_tensor([2, 3, 4], True), fd.define_tensor([2, 4, 5], True)
        return fd.ops.grouped_mm(a, b, fd.define_tensor([2], True, DataType.Int32))

    yield OpInfo(
        "grouped_mm",
        ("Float", "BFloat16", E4M3),
        grouped_samples,
        "library groups",
        (BadCall("two batches", two_batches, "grouped_mm"),),
    )


# --------------------------------------------------------------------------------------- selection


def topk_samples(dtype: str, shape: str) -> Iterator[Sample]:
    extents = sizes_of(shape)
    for dim in sorted({0, max(len(extents) - 1, 0)}):
        length = extents[dim] if extents else 1
        for k, largest in ((min(2, length), True), (length, False)):

            def check(outputs, operands, dim=dim, k=k, largest=largest) -> str | None:
                values, indices = (x.cpu() for x in outputs)
                x = widen(operands[0])
                want = torch.topk(x, k, dim, largest, True).values
                if indices.dtype != torch.int64:
                    return f"indices of {indices.dtype}"
                message = difference(values, want.to(operands[0].dtype))
                # Which of equal elements is taken is open.
                found = x.gather(dim, indices) if x.dim() else x
                return message or difference(found, want)

            yield Sample(
                (operand(dtype, shape),),
                lambda fd, x, dim=dim, k=k, largest=largest: fd.ops.topk(x, k, dim, largest, True),
                check,
                f"topk({k}, {dim}, {largest})",
            )


def argsort_samples(dtype: str, shape: str) -> Iterator[Sample]:
    for dim in sorted({0, max(len(sizes_of(shape)) - 1, 0)}):
        for down in (False, True):
            yield Sample(
                (operand(dtype, shape),),
                lambda fd, x, dim=dim, down=down: fd.ops.argsort(x, dim, down, True),
                equals(
                    lambda x, dim=dim, down=down: torch.argsort(
                        x, dim=dim, descending=down, stable=True
                    )
                ),
                f"argsort({dim}, {down})",
            )


def selection_infos() -> Iterator[OpInfo]:
    def matrix(fd: FusionDefinition) -> object:
        return fd.define_tensor([4, 5], True)

    yield OpInfo(
        "topk",
        (*FLOATS, *INTS),
        topk_samples,
        "library selection",
        (
            BadCall("k", lambda fd: fd.ops.topk(matrix(fd), -1), "Invalid resized domain extent"),
            BadCall("kind of k", lambda fd: fd.ops.topk(matrix(fd), 1.5), "k must be an integer"),
            BadCall("dim", lambda fd: fd.ops.topk(matrix(fd), 1, 2), "out of boundary index"),
        ),
    )
    yield OpInfo(
        "argsort",
        (*FLOATS, *INTS, "Bool"),
        argsort_samples,
        "library selection",
        (
            BadCall("dim", lambda fd: fd.ops.argsort(matrix(fd), 2), "out of boundary index"),
            BadCall("no dim", lambda fd: fd.ops.argsort(matrix(fd)), "", TypeError),
        ),
    )


# --------------------------------------------------------------------------------------- attention

# Query, and key and value.
ATTENTIONS: dict[str, tuple[Layout, Layout]] = {
    "matrix": (row_major((2, 3, 7, 16)), row_major((2, 3, 9, 16))),
    "odd": (row_major((1, 1, 5, 8)), row_major((1, 1, 3, 8))),
    "ones": (row_major((1, 1, 1, 8)), row_major((1, 1, 1, 8))),
    "transposed": (
        Layout((2, 3, 7, 16), (336, 16, 48, 1)),
        Layout((2, 3, 9, 16), (432, 16, 48, 1)),
    ),
    "both_sides": (row_major((2, 2, 3, 7, 8)), row_major((2, 2, 3, 9, 8))),
    "offset": (row_major((2, 3, 8, 16), 16), row_major((2, 3, 8, 16), 32)),
}


def attention(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if causal:
        keep = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~keep, -torch.inf)
    return torch.softmax(scores, -1) @ v, scores.logsumexp(-1)


def attention_gradients(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, causal: bool
) -> tuple[Tensor, ...]:
    leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    attention(*leaves, causal)[0].backward(grad)
    return tuple(x.grad for x in leaves)


def attention_samples(op: str) -> Callable[[str, str], Iterator[Sample]]:
    def samples(dtype: str, shape: str) -> Iterator[Sample]:
        if shape not in ATTENTIONS:
            return
        query, key = ATTENTIONS[shape]
        q, k, v = arg(query, dtype, 1), arg(key, dtype, 2), arg(key, dtype, 3)
        # With AVX2 torch's CPU kernel of 16 bits gives a logsumexp in Float that is off by 2**-15.
        least = 2.0**-13 if dtype in ("Half", "BFloat16") else 0.0
        for causal in (False, True):
            if op == "sdpfa_fwd":
                yield Sample(
                    (q, k, v),
                    lambda fd, *x, causal=causal: fd.ops.sdpfa_fwd(*x, is_causal=causal)[:2],
                    near(lambda *x, causal=causal: attention(*x, causal), None, 8, least),
                    f"sdpfa_fwd(causal={causal})",
                )
                continue

            def backward(fd, grad, q, k, v, causal=causal) -> object:
                out, lse, seed, offset = fd.ops.sdpfa_fwd(q, k, v, is_causal=causal)
                return fd.ops.sdpfa_bwd(grad, q, k, v, out, lse, None, causal, seed, offset, None)

            yield Sample(
                (arg(query.sizes, dtype, 4), q, k, v),
                backward,
                # The logsumexp in between is Float for every dtype.
                near(lambda *x, causal=causal: attention_gradients(*x, causal), None, 16, 2.0**-20),
                f"sdpfa_bwd(causal={causal})",
            )

    return samples


def attention_infos() -> Iterator[OpInfo]:
    def rank_3(fd: FusionDefinition) -> object:
        return fd.ops.sdpfa_fwd(*[fd.define_tensor([2, 3, 8], True)] * 3)

    def two_dtypes(fd: FusionDefinition) -> object:
        q = fd.define_tensor([2, 3, 4, 8], True)
        return fd.ops.sdpfa_fwd(q, q, fd.define_tensor([2, 3, 4, 8], True, DataType.Half))

    # CUDA has no flash attention in float32; there the kernels without it serve.
    forward = (BadCall("rank", rank_3, "sdpfa_fwd"), BadCall("dtypes", two_dtypes, "sdpfa_fwd"))
    yield OpInfo("sdpfa_fwd", FLOATS, attention_samples("sdpfa_fwd"), "library attention", forward)
    few = BadCall("few", lambda fd: fd.ops.sdpfa_bwd(None), "", TypeError)
    dtypes = ("Half", "BFloat16") if DEVICE.type == "cuda" else ("Float", "Double")
    yield OpInfo("sdpfa_bwd", dtypes, attention_samples("sdpfa_bwd"), "library attention", (few,))


# ----------------------------------------------------------------------------------- block scaling


def exactly(reference: Callable[..., Sequence[Tensor]]) -> Check:
    """Bytes equal; swizzled scales have the logical shape and the rest of the storage after it."""

    def check(outputs: Sequence[Tensor], operands: Sequence[Tensor]) -> str | None:
        for index, (got, want) in enumerate(zip(outputs, reference(*operands), strict=True)):
            if got.dtype != want.dtype:
                return f"output {index}: dtype {got.dtype}, expected {want.dtype}"
            if got.shape != want.shape:
                storage = got.untyped_storage()
                memory = torch.empty(0, dtype=torch.uint8, device=got.device).set_(storage)
                got, want = memory[got.storage_offset() :][: want.numel()], want.flatten()
            if not torch.equal(got.view(torch.uint8).cpu(), want.view(torch.uint8).cpu()):
                return f"output {index}: bytes differ"
        return None

    return check


def quantize_samples(dtype: str, shape: str) -> Iterator[Sample]:
    extents = {
        "odd": (48,),
        "matrix": (6, 96),
        "both_sides": (3, 5, 64),
        "empty": (0, 64),
        "ones": (1, 32),
        "offset": (128, 64),
    }.get(shape)
    if extents is None:
        return
    x = tensor_arg(row_major(extents, 16 * (shape == "offset")), dtype, 1)
    factor = fixed("global scale", lambda: torch.tensor(3.5))
    quantize = block_scaled.block_quantize
    yield Sample(
        (x,), lambda fd, x: fd.ops.nv_block_quantize(x), exactly(quantize), "nv_block_quantize"
    )
    yield Sample(
        (x, factor),
        lambda fd, x, s: fd.ops.nv_block_quantize(x, s),
        exactly(quantize),
        "nv_block_quantize with a global scale",
    )
    if len(extents) == 2:
        yield Sample(
            (x,),
            lambda fd, x: fd.ops.nv_block_quantize(x, None, True),
            exactly(lambda x: quantize(x, swizzle=True)),
            "nv_block_quantize, swizzled",
        )
    if extents[-1] % 32 == 0:
        yield Sample(
            (x,),
            lambda fd, x: fd.ops.nv_block_quantize(x, None, False, 32, data_type("Float8_e4m3fn")),
            exactly(lambda x: quantize(x, block_size=32, dtype="e4m3")),
            "nv_block_quantize to e4m3",
        )


GROUPS = {
    "matrix": ([0, 100, 130], [0, 128, 256], 140),
    "empty": ([0, 5, 5], [0, 128, 128], 9),
    "ones": ([0], [0], 1),
}


def grouped_args(shape: str) -> tuple[Arg, Arg, int]:
    starts, firsts, rows = GROUPS[shape]
    return offsets_arg(starts), offsets_arg(firsts), rows


def grouped_quantize_samples(dtype: str, shape: str) -> Iterator[Sample]:
    if shape in GROUPS:
        starts, firsts, rows = grouped_args(shape)
        yield Sample(
            (arg((rows, 80), dtype, 1), starts, firsts),
            lambda fd, *x: fd.ops.nv_grouped_block_quantize(*x),
            exactly(block_scaled.grouped_block_quantize),
            "nv_grouped_block_quantize",
        )


def preprocess_samples(dtype: str, shape: str) -> Iterator[Sample]:
    if shape in GROUPS:
        starts, firsts, rows = grouped_args(shape)
        yield Sample(
            (tensor_arg(row_major((rows, 5)), dtype, 1, 0.5, 2.0), starts, firsts),
            lambda fd, *x: fd.ops.preprocess_grouped_matmul_input_sf(*x),
            exactly(lambda *x: [block_scaled.preprocess_grouped_scales(*x)]),
            "preprocess_grouped_matmul_input_sf",
        )


def codes(name: str, rows: Sequence[int], k: int) -> Arg:
    """Packed fp4 [*rows, k / 2]."""

    def make() -> Tensor:
        generator = torch.Generator().manual_seed(len(name) + k)
        return torch.randint(0, 256, (*rows, k // 2), generator=generator).byte().view(FP4)

    return fixed(f"{name}{rows}{k}", make)


def swizzled(name: str, rows: int, columns: int, dtype: torch.dtype) -> Arg:
    """Scales between 2^-3 and 2^3, swizzled."""

    def make() -> Tensor:
        generator = torch.Generator().manual_seed(rows + columns)
        exponents = torch.randint(-3, 4, (rows, columns), generator=generator)
        return block_scaled.swizzle_scales(torch.exp2(exponents.float()).to(dtype))

    return fixed(f"{name}{rows}{columns}{dtype}", make)


def transposed(source: Arg) -> Arg:
    return fixed(f"{source.name}T", lambda: source.make().mT)


def like_the_function(outputs: Sequence[Tensor], operands: Sequence[Tensor]) -> str | None:
    want = block_scaled.scaled_mm(*operands)
    return difference(outputs[0], want, EPSILON[want.dtype], 1e-3)


def scaled_samples(dtype: str, shape: str) -> Iterator[Sample]:
    extents = {"matrix": (6, 16, 32), "odd": (130, 48, 96), "ones": (1, 16, 32)}.get(shape)
    if extents is None:
        return
    m, n, k = extents
    a, b = arg((m, k), dtype, 1), transposed(arg((n, k), E4M3, 2))
    rows = [tensor_arg(row_major(s), "Float", 3, 0.5, 1.5) for s in ((m, 1), (1, n))]
    whole = [tensor_arg(row_major(s), "Float", 4, 0.5, 1.5) for s in ((), (1,))]
    blocks = [swizzled("e8m0", r, k // 32, TORCH["Float8_e8m0fnu"]) for r in (m, n)]
    for label, scales in (("rows", rows), ("tensor", whole), ("mxfp8", blocks)):
        yield Sample(
            (a, b, *scales),
            lambda fd, *x: fd.ops.scaled_mm(*x)[0],
            like_the_function,
            f"scaled_mm, {label}",
        )
    fp4 = codes("a", (m,), k), transposed(codes("b", (n,), k))
    scales = [swizzled("e4m3", r, k // 16, TORCH[E4M3]) for r in (m, n)]
    yield Sample(
        (*fp4, *scales),
        lambda fd, *x: fd.ops.scaled_mm(*x)[0],
        like_the_function,
        "scaled_mm, nvfp4",
    )


def nvfp4_grouped_samples(dtype: str, shape: str) -> Iterator[Sample]:
    if shape not in GROUPS:
        return
    starts, firsts, rows = GROUPS[shape]
    g, n, k = len(starts), 24, 64
    counts = [end - start for start, end in zip(starts, [*starts[1:], rows], strict=True)]

    def scales_a() -> Tensor:
        linear = torch.full((rows, k // 16), 0.5).to(TORCH[E4M3])
        offsets = (torch.tensor(x, dtype=torch.int32) for x in (starts, firsts))
        return block_scaled.preprocess_grouped_scales(linear, *offsets)

    def scales_b() -> Tensor:
        one = block_scaled.swizzle_scales(torch.full((n, k // 16), 2.0).to(TORCH[E4M3]))
        return one.view(torch.uint8).repeat(g, 1, 1).view(TORCH[E4M3])

    operands = (
        codes("a", (rows,), k),
        transposed(codes("b", (g, n), k)),
        fixed(f"scales a {shape}", scales_a),
        fixed(f"scales b {shape}", scales_b),
        tensor_arg(row_major((g,)), "Float", 5, 0.5, 1.5),
        fixed(
            f"sizes {shape}", lambda: torch.tensor([[c, n, k] for c in counts], dtype=torch.int32)
        ),
        offsets_arg(starts),
        offsets_arg(firsts),
    )

    def check(outputs: Sequence[Tensor], tensors: Sequence[Tensor]) -> str | None:
        want = block_scaled.nvfp4_grouped_mm(*tensors)
        return difference(outputs[0], want, EPSILON[want.dtype], 1e-3)

    yield Sample(
        operands,
        lambda fd, *x: fd.ops.cutlass_nvfp4_grouped_mm(*x),
        check,
        "cutlass_nvfp4_grouped_mm",
    )


def block_scaled_infos() -> Iterator[OpInfo]:
    def matrix(fd: FusionDefinition, columns: int = 48, dtype: str = "Float") -> object:
        return fd.define_tensor([4, columns], True, data_type(dtype))

    def offsets(fd: FusionDefinition) -> list[object]:
        return [fd.define_tensor([2], True, DataType.Int32) for _ in range(2)]

    quantized = ("Float", "BFloat16", "Half")
    op = "nv_block_quantize"
    yield OpInfo(
        op,
        quantized,
        quantize_samples,
        "library blocks",
        (
            BadCall("size", lambda fd: fd.ops.nv_block_quantize(matrix(fd, 20)), op),
            BadCall("dtype", lambda fd: fd.ops.nv_block_quantize(matrix(fd, 32, "Double")), op),
        ),
    )
    op = "nv_grouped_block_quantize"
    grouped = BadCall(
        "rank",
        lambda fd: fd.ops.nv_grouped_block_quantize(fd.define_tensor([16], True), *offsets(fd)),
        op,
    )
    yield OpInfo(op, quantized, grouped_quantize_samples, "library blocks", (grouped,))
    op = "preprocess_grouped_matmul_input_sf"
    rank = BadCall(
        "rank",
        lambda fd: fd.ops.preprocess_grouped_matmul_input_sf(
            fd.define_tensor([16], True, data_type(E4M3)), *offsets(fd)
        ),
        op,
    )
    yield OpInfo(op, (E4M3, "Float8_e8m0fnu"), preprocess_samples, "library blocks", (rank,))

    def beta_alone(fd: FusionDefinition) -> object:
        one = fd.define_tensor([], [])
        a, b = matrix(fd, 32, E4M3), fd.define_tensor([32, 16], True, data_type(E4M3))
        return fd.ops.scaled_mm(a, b, one, one, beta=one)

    bad = BadCall("beta alone", beta_alone, "bias")
    yield OpInfo("scaled_mm", (E4M3, E5M2), scaled_samples, "library blocks", (bad,))
    few = BadCall("few", lambda fd: fd.ops.cutlass_nvfp4_grouped_mm(None), "", TypeError)
    op = "cutlass_nvfp4_grouped_mm"
    yield OpInfo(op, (E4M3,), nvfp4_grouped_samples, "library blocks", (few,))


def library_infos() -> list[OpInfo]:
    ops = FusionDefinition().ops
    rows = [*product_infos(), *selection_infos(), *attention_infos(), *block_scaled_infos()]
    return [info for info in rows if hasattr(ops, info.name)]
