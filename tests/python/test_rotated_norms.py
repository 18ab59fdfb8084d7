# SPDX-License-Identifier: BSD-3-Clause
"""Gradients of norms whose results are rotated: row groups that read parts of rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import DataType, FusionDefinition

TOKENS, WIDTH = 260, 64
# What is chosen depends on how many multiprocessors there are: few, of the machine that is
# simulated for tensors of the CPU.
CPU = torch.device("cpu")


class Heads:
    """Of queries and keys, which the same angles rotate after a norm over all heads."""

    def __init__(self, heads: int, tokens: int = TOKENS, device: torch.device = DEVICE) -> None:
        torch.manual_seed(heads)
        size = heads * WIDTH
        self.heads, self.tokens = heads, tokens
        self.x = torch.randn(2, tokens, size, device=device)
        self.grad = torch.randn(2, heads, tokens, WIDTH, device=device)
        self.weight = torch.randn(size, device=device)
        self.scale = (self.x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()

    def inputs(self) -> list[torch.Tensor]:
        return [self.x, self.grad, self.weight, self.scale]

    def gradients(self, ops: Any, tensors: list[Any], cos: Any, sin: Any) -> list[Any]:
        x, grad, weight, scale = tensors
        tokens, size = self.tokens, self.heads * WIDTH
        shape, half = [2, self.heads, tokens, WIDTH], WIDTH // 2
        of_sin = ops.mul(grad, ops.broadcast_in_dim(sin, shape, [2, 3]))
        second = ops.slice(of_sin, [0, 0, 0, half], shape)
        first = ops.slice(of_sin, [0, 0, 0, 0], [*shape[:-1], half])
        turned = ops.cat([second, ops.neg(first)], 3)
        rotated = ops.add(turned, ops.mul(grad, ops.broadcast_in_dim(cos, shape, [2, 3])))
        rows = ops.reshape(ops.permute(rotated, [0, 2, 1, 3]), [2, tokens, size])
        weighted = ops.mul(rows, ops.broadcast_in_dim(weight, [2, tokens, size], [2]))
        total = ops.broadcast(ops.sum(ops.mul(weighted, x), [2]), [False, False, True])
        cube = ops.mul(ops.mul(scale, scale), scale)
        share = ops.mul(ops.mul(total, cube), -1.0 / size)
        of_weight = ops.sum(ops.mul(rows, ops.mul(x, scale)), [0, 1])
        return [ops.add(ops.mul(weighted, scale), ops.mul(share, x)), of_weight]

    def expected(self, cos: torch.Tensor, sin: torch.Tensor) -> list[torch.Tensor]:
        x, weight = (t.double().requires_grad_() for t in (self.x, self.weight))
        normed = x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * weight
        heads = normed.unflatten(-1, (self.heads, WIDTH)).transpose(1, 2)
        first, second = heads.chunk(2, -1)
        out = heads * cos.double() + torch.cat([-second, first], -1) * sin.double()
        return list(torch.autograd.grad(out, [x, weight], self.grad.double()))


class Pair:
    def __init__(self, groups: list[Heads]) -> None:
        angles = torch.randn(groups[0].tokens, WIDTH, device=groups[0].x.device)
        self.groups, self.cos, self.sin = groups, angles.cos(), angles.sin()
        self.inputs = [t for g in groups for t in g.inputs()] + [self.cos, self.sin]
        with FusionDefinition() as fd:
            tensors = [fd.from_pytorch(t, static_sizes=True) for t in self.inputs]
            for i, group in enumerate(groups):
                for out in group.gradients(fd.ops, tensors[4 * i : 4 * i + 4], *tensors[-2:]):
                    fd.add_output(out)
        self.fd = fd

    def check(self) -> None:
        expected = [t for g in self.groups for t in g.expected(self.cos, self.sin)]
        for ours, theirs in zip(self.fd.execute(self.inputs), expected, strict=True):
            torch.testing.assert_close(ours.double(), theirs, rtol=2e-4, atol=2e-3)

    def row_groups(self) -> list[dict[str, Any]]:
        reports = self.fd.fec._segment_reports(self.inputs)
        return [r for r in reports if r["scheduler"] == "inner_outer_persistent"]


@pytest.mark.machine("hopper")
def test_norms_that_share_angles_have_threads_of_their_own() -> None:
    """1536 and 128 columns: the narrow ones' rows have few threads, and a block has many rows."""
    pair = Pair([Heads(24, device=CPU), Heads(2, device=CPU)])
    pair.check()
    wide, narrow = (r["chosen"].lparams for r in pair.row_groups())
    assert narrow.bdimx == 16 and narrow.bdimy > wide.bdimy
    assert wide.bdimx > 100


@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize("heads", [2, 9])
def test_parts_of_rows_are_loaded_ahead(heads: int, ahead: bool) -> None:
    """Halves of heads, cosines and sines."""
    pair = Pair([Heads(heads)])
    pair.check()
    chosen = {r["segment_id"]: r["chosen"] for r in pair.row_groups()}
    assert chosen
    pair.fd.fec._set_params({i: p._with({"load_parts_ahead": ahead}) for i, p in chosen.items()})
    pair.check()


@pytest.mark.machine("hopper")
@pytest.mark.parametrize(("tokens", "ahead"), [(12, True), (TOKENS, False)])
def test_registers_have_room_if_threads_are_few(tokens: int, ahead: bool) -> None:
    pair = Pair([Heads(2, tokens, CPU)])
    pair.check()
    assert [r["chosen"].load_parts_ahead for r in pair.row_groups()] == [ahead]


def test_repetitions_are_read_once() -> None:
    """Of a stack of encodings that one scale weights: its halves are added up and reduced."""
    x, scale = torch.randn(300, 60, device=DEVICE), torch.randn(300, 30, device=DEVICE)
    with FusionDefinition() as fd:
        tv, small = (fd.from_pytorch(t, static_sizes=True) for t in (x, scale))
        ops = fd.ops
        twice = ops.expand(ops.broadcast(ops.exp(small), [False, True, False]), [300, 2, 30])
        product = ops.mul(tv, ops.reshape(twice, [300, 60]))
        halves = [ops.slice(product, [0, i], [300, i + 30]) for i in (0, 30)]
        both = ops.reshape(ops.add(*halves), [300, 10, 3])
        fd.add_output(ops.sum(ops.cast(both, DataType.Double), [1]))
    (ours,) = fd.execute([x, scale])
    product = (x.unflatten(1, (2, 30)).double() * scale.double().exp()[:, None]).sum(1)
    torch.testing.assert_close(ours, product.unflatten(1, (10, 3)).sum(1), rtol=1e-4, atol=1e-4)
    assert len(fd.fec._segment_reports([x, scale])) == 1
