# SPDX-License-Identifier: BSD-3-Clause
"""What a kernel computes again of inputs and results that are in memory anyway: the losses of rows,
which the kernel that adds them up looks up once more, take no memory between the two."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import DataType, FusionDefinition, explain


class Loss:
    """Cross entropy of rows with a label each (-100: the row does not count), and what is saved
    for the backward pass."""

    def __init__(self, fd: FusionDefinition, x: Any, label: Any) -> None:
        ops = fd.ops
        self.x = x
        self.counts = ops.ne(label, -100)
        index = ops.broadcast(ops.where(self.counts, label, 0), [False, True])
        self.top = ops.broadcast(ops.max(x, [1]), [False, True])
        shifted = ops.sub(x, self.top)
        total = ops.sum(ops.exp(shifted), [1])
        self.log_total = ops.log(ops.broadcast(total, [False, True]))
        chosen = ops.take_along_axis(ops.sub(shifted, self.log_total), index, 1)
        losses = ops.where(self.counts, ops.neg(ops.squeeze(chosen, [1])), 0.0)
        self.number = ops.sum(ops.cast(self.counts, DataType.Float), [0])
        self.mean = ops.div(ops.sum(losses, [0]), self.number)


def logits_and_labels(rows: int, width: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    x = torch.randn(rows, width, device=DEVICE).to(dtype)
    label = torch.randint(0, width, (rows,), device=DEVICE)
    label[::7] = -100
    return x, label


def loss_of(x: torch.Tensor, label: torch.Tensor, *more: str) -> FusionDefinition:
    """Returns the mean, and what is saved for the backward pass; more of a Loss by name."""
    with FusionDefinition() as fd:
        loss = Loss(fd, fd.from_pytorch(x), fd.from_pytorch(label))
        for name in ("mean", "top", "log_total", *more):
            fd.add_output(getattr(loss, name))
    return fd


def run(fd: FusionDefinition, inputs: list[torch.Tensor]) -> tuple[list[torch.Tensor], int]:
    """Results, and the bytes at the peak beyond those of the results."""
    outputs = fd.execute(inputs)
    report = explain(fd, inputs, measure=False)
    assert len(report.segments) == 2, str(report)
    return outputs, report.peak_bytes - sum(out.nbytes for out in outputs)


def close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual.double(), expected.double(), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", [torch.float, torch.bfloat16])
@pytest.mark.parametrize("rows, width", [(256, 3000), (1200, 4001)])
def test_losses_are_looked_up_again(dtype: torch.dtype, rows: int, width: int) -> None:
    x, label = logits_and_labels(rows, width, dtype)
    with FusionDefinition() as fd:
        logits, target = fd.from_pytorch(x), fd.from_pytorch(label)
        loss = Loss(fd, fd.ops.cast(logits, DataType.Float), target)
        for out in (loss.mean, loss.top, loss.log_total, loss.number):
            fd.add_output(out)
    (mean, top, log_total, number), beyond = run(fd, [x, label])
    wide = x.double()
    close(mean, torch.nn.functional.cross_entropy(wide, label))
    close(top, wide.amax(1, keepdim=True))
    close(log_total, wide.logsumexp(1, keepdim=True) - wide.amax(1, keepdim=True))
    assert number.item() == (label != -100).sum().item()
    assert beyond == 0


@pytest.mark.machine("hopper")
def test_blocks_of_a_cluster_share_lookups() -> None:
    x, label = logits_and_labels(2048, 3000, torch.float)
    fd = loss_of(x, label)
    (mean, _, _), beyond = run(fd, [x, label])
    close(mean, torch.nn.functional.cross_entropy(x.double(), label))
    assert beyond == 0
    second = explain(fd, [x, label], measure=False).segments[1]
    assert "cluster [1, 2, 1]" in str(second.launch), second


def test_a_mask_that_is_returned_leaves_the_kernel_of_the_rows() -> None:
    """Nothing of the rows is computed with it once the losses are not."""
    x, label = logits_and_labels(256, 4000, torch.float)
    (mean, _, _, counts), beyond = run(loss_of(x, label, "counts"), [x, label])
    close(mean, torch.nn.functional.cross_entropy(x.double(), label))
    assert torch.equal(counts, label != -100)
    assert beyond == 0


def test_losses_of_two_tensors_at_the_same_positions() -> None:
    """As of images and texts: the statistics of both are computed by the kernel of the rows."""
    x, y = (torch.randn(256, 4000, device=DEVICE) for _ in range(2))
    scale = torch.tensor([0.3], device=DEVICE)
    with FusionDefinition() as fd:
        label = fd.ops.iota(256, 0, 1, DataType.Int)
        a, b, log_scale = (fd.from_pytorch(t) for t in (x, y, scale))
        factor = fd.ops.broadcast(fd.ops.exp(log_scale), [True, False])
        losses = [Loss(fd, fd.ops.mul(factor, t), label) for t in (a, b)]
        fd.add_output(fd.ops.add(losses[0].mean, losses[1].mean))
        for loss in losses:
            fd.add_output(loss.top)
            fd.add_output(loss.log_total)
    outputs, beyond = run(fd, [x, y, scale])
    scaled = [t.double() * scale.double().exp() for t in (x, y)]
    label = torch.arange(256, device=DEVICE)
    close(outputs[0], sum(torch.nn.functional.cross_entropy(t, label) for t in scaled))
    for t, top in zip(scaled, (outputs[1], outputs[3]), strict=True):
        close(top, t.amax(1, keepdim=True))
    assert beyond == 0


def test_short_rows_are_not_looked_up_again() -> None:
    """A lookup would move as much as the row."""
    x, label = logits_and_labels(4096, 8, torch.float)
    (mean, _, _), beyond = run(loss_of(x, label), [x, label])
    close(mean, torch.nn.functional.cross_entropy(x.double(), label))
    assert beyond >= 4 * 4096


def test_what_is_returned_rounded_is_not_computed_with() -> None:
    """The sum of bfloat16 losses has other digits than that of the losses."""
    x, label = logits_and_labels(256, 3000, torch.float)
    with FusionDefinition() as fd:
        loss = Loss(fd, fd.from_pytorch(x), fd.from_pytorch(label))
        fd.add_output(loss.mean)
        for out in (loss.top, loss.log_total):
            fd.add_output(fd.ops.cast(out, DataType.BFloat16))
    (mean, top, _), beyond = run(fd, [x, label])
    close(mean, torch.nn.functional.cross_entropy(x.double(), label))
    assert torch.equal(top, x.amax(1, keepdim=True).bfloat16())
    assert beyond == 4 * 256


def test_an_input_that_is_written_over_is_not_read_later() -> None:
    x, label = logits_and_labels(256, 3000, torch.float)
    before = x.clone()
    with FusionDefinition() as fd:
        logits, target = fd.from_pytorch(x), fd.from_pytorch(label)
        loss = Loss(fd, logits, target)
        for out in (loss.mean, loss.top, loss.log_total):
            fd.add_output(out)
        fd.add_output(fd.ops.mul(logits, 2.0), logits)
    mean = fd.execute([x, label])[0]
    close(mean, torch.nn.functional.cross_entropy(before.double(), label))
    assert torch.equal(x, before * 2)


def test_what_a_library_read_is_not_kept_for_a_later_kernel() -> None:
    """While the mask of the groups is there, the scores are not: they are computed again."""
    x, gate = torch.randn(256, 512, device=DEVICE), torch.randn(256, 8, device=DEVICE)
    bias = torch.randn(512, device=DEVICE)
    with FusionDefinition() as fd:
        ops = fd.ops
        logits, gates, shift = (fd.from_pytorch(t) for t in (x, gate, bias))
        scores = ops.add(ops.sigmoid(logits), ops.broadcast(shift, [True, False]))
        best, _ = ops.topk(scores, 12, 1, True, True)
        least = ops.broadcast(ops.min(best, [1]), [False, True])
        groups = ops.broadcast(ops.gt(gates, least), [False, False, True])
        mask = ops.reshape(ops.expand(groups, [256, 8, 64]), [256, 512])
        kept = ops.where(mask, scores, 0.0)
        top = ops.broadcast(ops.max(kept, [1]), [False, True])
        fd.add_output(ops.sum(ops.exp(ops.sub(kept, top)), [1]))
    (out,) = fd.execute([x, gate, bias])
    wide = x.double().sigmoid() + bias.double()
    least = wide.topk(12, 1).values.amin(1, keepdim=True)
    chosen = (gate.double() > least).repeat_interleave(64, 1)
    values = torch.where(chosen, wide, 0.0)
    close(out, (values - values.amax(1, keepdim=True)).exp().sum(1))
    report = explain(fd, [x, gate, bias], measure=False)
    assert report.peak_bytes < x.nbytes + chosen.nbytes, str(report)


def test_sines_that_heads_share_are_handed_on() -> None:
    """Two kernels rotate a tensor each. Each head would compute the sines again."""
    q, k = (torch.randn(256, 4, 80, device=DEVICE) for _ in range(2))
    angle = torch.randn(256, 40, device=DEVICE)
    with FusionDefinition() as fd:
        ops = fd.ops
        a, b, angles = (fd.from_pytorch(t, static_sizes=True) for t in (q, k, angle))

        def repeated(tv: Any) -> Any:
            twice = ops.expand(ops.broadcast(tv, [False, True, False]), [256, 2, 40])
            return ops.broadcast(ops.reshape(twice, [256, 80]), [False, True, False])

        cosine, sine = repeated(ops.cos(angles)), repeated(ops.sin(angles))
        for tv in (a, b):
            first, second = (ops.slice(tv, [0, 0, s], [256, 4, s + 40]) for s in (0, 40))
            turned = ops.cat([ops.neg(second), first], 2)
            fd.add_output(ops.add(ops.mul(tv, cosine), ops.mul(turned, sine)))
    outputs, beyond = run(fd, [q, k, angle])
    for out, tv in zip(outputs, (q.double(), k.double()), strict=True):
        cosine, sine = (f(angle.double()).repeat(1, 2)[:, None] for f in (torch.cos, torch.sin))
        turned = torch.cat([-tv[..., 40:], tv[..., :40]], 2)
        close(out, tv * cosine + turned * sine)
    assert beyond > 0
