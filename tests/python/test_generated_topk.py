# SPDX-License-Identifier: BSD-3-Clause
"""topk of short rows as generated code: values against torch, and what it shares a kernel with.
Torch leaves the order of equal elements open, so positions are held by what they lead to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import DataType, FusionDefinition, explain

Tensor = torch.Tensor

DTYPES = [torch.float, torch.half, torch.bfloat16, torch.int32]
IN_LIBRARY = [torch.double, torch.int64]
INF = float("inf")
NAN = float("nan")


def values(*sizes: int, dtype: torch.dtype = torch.float, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(sizes, generator=generator) * 50).abs().to(dtype).to(DEVICE)


def defined(
    x: Tensor, k: int, dim: int, largest: bool = True, static: bool = False
) -> FusionDefinition:
    with FusionDefinition() as fd:
        best, where = fd.ops.topk(fd.from_pytorch(x, static_sizes=static), k, dim, largest, True)
        fd.add_output(best)
        fd.add_output(where)
    return fd


def schedulers(fd: FusionDefinition, inputs: Sequence[Any]) -> list[str]:
    return [segment.scheduler for segment in explain(fd, inputs, measure=False).segments]


def is_generated(fd: FusionDefinition, inputs: Sequence[Any]) -> bool:
    return "expr_eval" not in schedulers(fd, inputs)


def check_results(results: Sequence[Tensor], x: Tensor, k: int, dim: int, largest: bool) -> None:
    best, where = results
    want = torch.topk(x, k, dim, largest, True).values
    torch.testing.assert_close(best, want, rtol=0, atol=0, equal_nan=True)
    assert where.dtype == torch.int64
    torch.testing.assert_close(torch.gather(x, dim, where), want, rtol=0, atol=0, equal_nan=True)
    assert bool((where.sort(dim).values.diff(dim=dim) > 0).all()), "a position comes twice"


def check(x: Tensor, k: int, dim: int = -1, largest: bool = True) -> None:
    for static in (False, True):
        fd = defined(x, k, dim, largest, static)
        check_results(fd.execute([x]), x, k, dim, largest)
        assert is_generated(fd, [x])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("k", range(1, 9))
def test_dtypes(dtype: torch.dtype, k: int) -> None:
    x = values(5, 40, dtype=dtype, seed=k)
    check(x, k, largest=k % 2 == 0)


@pytest.mark.parametrize("dtype", IN_LIBRARY, ids=str)
def test_elements_of_64_bits_stay_in_the_library(dtype: torch.dtype) -> None:
    x = values(5, 40, dtype=dtype)
    fd = defined(x, 3, 1)
    check_results(fd.execute([x]), x, 3, 1, True)
    assert not is_generated(fd, [x])


@pytest.mark.parametrize(
    ("sizes", "dim"),
    [((9,), 0), ((9, 33), 0), ((9, 33), 1), ((4, 9, 5), 1), ((4, 9, 5), 0), ((1, 9, 1), 1)],
    ids=str,
)
@pytest.mark.parametrize("largest", [True, False], ids=["largest", "smallest"])
def test_dims(sizes: tuple[int, ...], dim: int, largest: bool) -> None:
    x = values(*sizes)
    check(x, 3, dim, largest)
    check(x.neg(), 4, dim - x.dim(), largest)


@pytest.mark.parametrize("sizes", [(64, 8), (300, 64), (33, 160), (7, 256), (3, 1000)], ids=str)
@pytest.mark.parametrize("k", [2, 8])
def test_widths_of_rows(sizes: tuple[int, ...], k: int) -> None:
    check(values(*sizes), k)


def test_layouts() -> None:
    x = values(24, 40)
    check(x.t(), 3, 1)
    check(x[:, ::2], 3, 1)
    check(values(4, 6, 8).permute(2, 0, 1), 3, 1)


@pytest.mark.parametrize("dtype", [torch.float, torch.half, torch.bfloat16], ids=str)
@pytest.mark.parametrize("largest", [True, False], ids=["largest", "smallest"])
def test_nan_and_infinity(dtype: torch.dtype, largest: bool) -> None:
    rows = [
        [NAN, 1.0, -INF, INF, NAN, 0.0, -1.0, 2.0],
        [-INF] * 8,
        [INF] * 8,
        [NAN] * 8,
        [-INF, -INF, 3.0, -INF, -INF, -INF, -INF, -INF],
        [0.0, -0.0, 1e-45, -1e-45, 0.0, -0.0, 5.0, -5.0],
        [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0],
        [-NAN, NAN, -NAN, NAN, INF, -INF, 1.0, 2.0],
    ]
    x = torch.tensor(rows).to(dtype).to(DEVICE)
    for k in (1, 2, 3, 5, 8):
        check(x, k, 1, largest)


def test_negative_nan_is_as_large_as_any() -> None:
    x = torch.tensor([-1.0, 2.0, 7.0], device=DEVICE)
    x[1] = torch.tensor(-4194304, dtype=torch.int32).view(torch.float)  # sign and quiet bit
    best, where = defined(x, 2, 0).execute([x])
    assert bool(best[0].isnan()) and best[1] == 7.0
    assert where.tolist() == [1, 2]


def test_extreme_integers() -> None:
    low, high = -(2**31), 2**31 - 1
    row = [low, high, low, 1, high, 0, low + 1, high - 1]
    x = torch.tensor([row] * 3, dtype=torch.int32, device=DEVICE)
    for k in (1, 3, 8):
        for largest in (True, False):
            check(x, k, 1, largest)


def test_the_first_of_equal_elements_comes_first() -> None:
    x = torch.tensor([2, 5, 5, 1, 5, 2], dtype=torch.int32, device=DEVICE)
    assert defined(x, 5, 0).execute([x])[1].tolist() == [1, 2, 4, 0, 5]
    assert defined(x, 4, 0, largest=False).execute([x])[1].tolist() == [3, 0, 5, 1]


def test_one_result_alone() -> None:
    x = values(6, 32)
    want = torch.topk(x, 3, 1)
    for i in range(2):
        with FusionDefinition() as fd:
            fd.add_output(fd.ops.topk(fd.from_pytorch(x), 3, 1, True, True)[i])
        torch.testing.assert_close(fd.execute([x])[0], want[i])
        assert is_generated(fd, [x])


def test_no_rows_and_no_elements() -> None:
    x = values(0, 8)
    best, where = defined(x, 3, 1).execute([x])
    assert best.shape == where.shape == (0, 3)
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True, True])
        fd.add_output(fd.ops.topk(x, 3, 1, True, True)[0])
    with pytest.raises(RuntimeError, match=r"k .* range"):
        fd.execute([values(4, 0)])


def test_more_than_there_are() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True, True])
        fd.add_output(fd.ops.topk(x, 4, 1, True, True)[0])
    for n in (8, 4, 5):
        t = values(3, n)
        torch.testing.assert_close(fd.execute([t])[0], torch.topk(t, 4, 1).values)
    with pytest.raises(RuntimeError, match=r"k .* range"):
        fd.execute([values(3, 3)])
    with pytest.raises(RuntimeError, match=r"k .* range"):
        fd.execute([values(3, 1)])


def test_long_rows_and_large_k_stay_in_the_library() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True, True])
        for out in fd.ops.topk(x, 3, 1, True, True):
            fd.add_output(out)
    # One definition, in both ways and back.
    for n, generated in [(64, True), (100000, False), (64, True), (1024, True), (1025, False)]:
        t = values(3, n)
        check_results(fd.execute([t]), t, 3, 1, True)
        assert is_generated(fd, [t]) == generated, n
    t = values(3, 64)
    assert not is_generated(defined(t, 9, 1), [t])
    with FusionDefinition() as of_call:
        x = of_call.define_tensor([-1, -1], [True, True])
        k = of_call.define_scalar(DataType.Int)
        of_call.add_output(of_call.ops.topk(x, k, 1, True, True)[0])
    assert not is_generated(of_call, [t, 3])
    with FusionDefinition() as unsorted:
        unsorted.add_output(unsorted.ops.topk(unsorted.from_pytorch(t), 3, 1)[0])
    assert not is_generated(unsorted, [t])


def test_reshaped_rows_stay_in_the_library() -> None:
    """Which reads them where they are, if the input is read in other ways too."""
    x = values(3, 4, 16)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x, static_sizes=True)
        for out in fd.ops.topk(fd.ops.reshape(t, [12, 16]), 2, 1, True, True):
            fd.add_output(out)
        fd.add_output(fd.ops.neg(t))
    *results, negative = fd.execute([x])
    check_results(results, x.reshape(12, 16), 2, 1, True)
    assert torch.equal(negative, -x)
    assert sorted(schedulers(fd, [x])) == ["expr_eval", "pointwise"]


def test_views_at_the_ends_make_no_difference() -> None:
    x = values(3, 4, 16)
    with FusionDefinition() as fd:
        rows = fd.ops.reshape(fd.from_pytorch(x, static_sizes=True), [12, 16])
        for out in fd.ops.topk(rows, 2, 1, True, True):
            fd.add_output(fd.ops.reshape(out, [3, 4, 2]))
    results = [y.reshape(12, 2) for y in fd.execute([x])]
    check_results(results, x.reshape(12, 16), 2, 1, True)
    rows = x.reshape(12, 16)
    assert schedulers(fd, [x]) == schedulers(defined(rows, 2, 1), [rows])


def test_the_option_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    x = values(3, 64)
    of_torch = torch.topk
    calls = []

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return of_torch(*args, **kwargs)

    fd = defined(x, 3, 1)
    monkeypatch.setattr(torch, "topk", counted)
    generated = fd.execute([x])
    assert not calls
    by_library = fd.execute([x], _disable_options=["generate_topk"])
    assert len(calls) == 1
    for a, b in zip(generated, by_library, strict=True):
        torch.testing.assert_close(a, b)


def router(ops: Any, x: Any, k: int) -> list[Any]:
    """The experts of each token and their shares, as mixtures of experts choose them."""
    e = ops.exp(ops.sub(x, ops.max(x, [1], keepdim=True)))
    share = ops.div(e, ops.sum(e, [1], keepdim=True))
    best, where = ops.topk(share, k, 1, True, True)
    return [ops.div(best, ops.sum(best, [1], keepdim=True)), where]


@pytest.mark.parametrize("static", [True, False], ids=["static", "symbolic"])
@pytest.mark.parametrize(("experts", "k"), [(8, 2), (64, 6), (128, 8), (256, 8)], ids=str)
def test_router(experts: int, k: int, static: bool) -> None:
    """A kernel for the rows and one for their results; the probabilities are never in memory."""
    x = values(96, experts) / 20
    with FusionDefinition() as fd:
        for out in router(fd.ops, fd.from_pytorch(x, static_sizes=static), k):
            fd.add_output(out)
    share, where = fd.execute([x])
    of_all = torch.softmax(x, 1)
    want = torch.topk(of_all, k, 1).values
    torch.testing.assert_close(share, want / want.sum(1, keepdim=True))
    torch.testing.assert_close(torch.gather(of_all, 1, where), want, rtol=1e-5, atol=1e-7)
    report = explain(fd, [x], measure=False)
    assert len(report.segments) == 2
    assert all(segment.scheduler != "expr_eval" for segment in report.segments)


def test_router_of_products_with_a_bias() -> None:
    """Experts are chosen by biased scores and weighted by those without the bias."""
    x, weight, bias = values(40, 24) / 50, values(32, 24, seed=1) / 50, values(32, seed=2) / 50
    with FusionDefinition() as fd:
        tokens, w, b = (fd.from_pytorch(each) for each in (x, weight, bias))
        score = fd.ops.sigmoid(fd.ops.linear(tokens, w))
        biased = fd.ops.add(score, fd.ops.broadcast(b, [True, False]))
        _, where = fd.ops.topk(biased, 4, 1, True, True)
        found = fd.ops.take_along_axis(score, where, 1)
        fd.add_output(fd.ops.div(found, fd.ops.sum(found, [1], keepdim=True)))
        fd.add_output(where)
    score = torch.sigmoid(torch.nn.functional.linear(x, weight))
    share, where = fd.execute([x, weight, bias])
    found = score.gather(1, where)
    torch.testing.assert_close(share, found / found.sum(1, keepdim=True))
    want = torch.topk(score + bias, 4, 1).values
    torch.testing.assert_close((score + bias).gather(1, where), want)
    assert schedulers(fd, [x, weight, bias]).count("expr_eval") == 1


def test_shares_scattered_over_the_experts() -> None:
    x = values(64, 32) / 20
    with FusionDefinition() as fd:
        share, where = router(fd.ops, fd.from_pytorch(x, static_sizes=True), 4)
        zeros = fd.ops.full([64, 32], 0.0, DataType.Float)
        fd.add_output(fd.ops.scatter(zeros, where, share, 1))
    best, where = torch.topk(torch.softmax(x, 1), 4, 1)
    want = torch.zeros_like(x).scatter(1, where, best / best.sum(1, keepdim=True))
    torch.testing.assert_close(fd.execute([x])[0], want)
    assert "expr_eval" not in schedulers(fd, [x])


@pytest.mark.parametrize("k", [2, 8])
def test_bytes_of_a_router(k: int) -> None:
    """What passes between the kernels is a key for each result, not the probabilities."""
    rows, experts = 512, 128
    x = values(rows, experts) / 20
    with FusionDefinition() as fd:
        for out in router(fd.ops, fd.from_pytorch(x, static_sizes=True), k):
            fd.add_output(out)
    segments = explain(fd, [x], measure=False).segments
    moved = sum(segment.input_bytes + segment.output_bytes for segment in segments)
    key, element, position = 8, 4, 8
    assert moved == rows * (experts * element + k * (2 * key + element + position))
