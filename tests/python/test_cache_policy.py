# SPDX-License-Identifier: BSD-3-Clause
"""Large kernels that write about as much as they read have what they read evicted last from the
L2; the others leave the cache alone. On the host results that do not fit into its caches go past
them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import DataType, FusionDefinition

LAST = "nvf::CacheOp::EvictLast"
# Several times what L2 holds, on a GPU too.
ROWS = 1 << 10 if DEVICE.type == "cpu" else 1 << 15


def scaled(fd: FusionDefinition, x):
    return fd.ops.mul(x, 2.0)


def softmax(fd: FusionDefinition, x):
    e = fd.ops.exp(fd.ops.sub(x, fd.ops.max(x, [1], keepdim=True)))
    return fd.ops.div(e, fd.ops.sum(e, [1], keepdim=True))


def row_sums(fd: FusionDefinition, x):
    return fd.ops.sum(x, [1])


def dropout(fd: FusionDefinition, x):
    zero, one = fd.define_scalar(0.0), fd.define_scalar(1.0)
    noise = fd.ops.uniform(zero, one, [x.size(0), x.size(1)], dtype=DataType.Float)
    return fd.ops.where(fd.ops.lt(noise, 0.5), x, 0.0)


def transposed(fd: FusionDefinition, x):
    return fd.ops.permute(x, [1, 0])


def run(build: Callable, x: torch.Tensor) -> tuple[FusionDefinition, torch.Tensor, str]:
    with FusionDefinition() as fd:
        fd.add_output(build(fd, fd.from_pytorch(x)))
    (out,) = fd.execute([x])
    (report,) = fd.fec._segment_reports([x])
    assert report["params"].evict_inputs_last == (LAST in report["kernel_text"])
    return fd, out, report["kernel_text"]


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("build", [scaled, softmax])
def test_large_kernels_that_write_what_they_read(build: Callable) -> None:
    x = torch.randn(ROWS, 2048, device=DEVICE)
    _, out, text = run(build, x)
    assert LAST in text
    torch.testing.assert_close(out, torch.softmax(x, 1) if build is softmax else x * 2)


@pytest.mark.parametrize("build", [row_sums, dropout])
def test_other_kernels(build: Callable) -> None:
    assert LAST not in run(build, torch.randn(ROWS, 2048, device=DEVICE))[2]


def test_small_tensors() -> None:
    assert LAST not in run(scaled, torch.randn(64, 2048, device=DEVICE))[2]


def test_what_the_kernel_writes_in_place() -> None:
    x, y = (torch.randn(ROWS, 2048, device=DEVICE) for _ in range(2))
    expected = x * 2 + y
    with FusionDefinition() as fd:
        a, b = fd.from_pytorch(x), fd.from_pytorch(y)
        fd.add_output(fd.ops.add(fd.ops.mul(a, 2.0), b), a)
    fd.execute([x, y])
    torch.testing.assert_close(x, expected)


@pytest.mark.machine("hopper")
def test_the_parameter_can_be_changed() -> None:
    x = torch.randn(64, 2048, device=DEVICE)
    fd, out, _ = run(scaled, x)
    (report,) = fd.fec._segment_reports([x])
    changed = report["params"]._with({"evict_inputs_last": True})
    assert changed != report["params"]
    assert "evict_inputs_last" in repr(changed)
    fd.fec._set_params({report["segment_id"]: changed})
    assert torch.equal(fd.execute([x])[0], out)
    (report,) = fd.fec._segment_reports([x])
    assert LAST in report["kernel_text"]


# --- the host: results past the caches ---

STREAMS = "nvf::streamOut("


def layer_norm(fd: FusionDefinition, x):
    var, mean = fd.ops.var_mean(x, [1], correction=0, keepdim=True)
    return fd.ops.mul(fd.ops.sub(x, mean), fd.ops.rsqrt(fd.ops.add(var, 1e-5)))


def rounded(fd: FusionDefinition, x):
    return fd.ops.cast(fd.ops.mul(x, 2.0), DataType.BFloat16)


def doubled_in_parts(fd: FusionDefinition, x):
    return fd.ops.cat([fd.ops.mul(x, 2.0), fd.ops.neg(x)], 1)


WANTED: dict[Callable, Callable] = {
    scaled: lambda x: x * 2,
    rounded: lambda x: (x * 2).bfloat16(),
    softmax: lambda x: torch.softmax(x, 1),
    layer_norm: lambda x: torch.layer_norm(x, x.shape[1:]),
    doubled_in_parts: lambda x: torch.cat([x * 2, -x], 1),
}


def streaming(build: Callable, x: torch.Tensor) -> tuple[FusionDefinition, str]:
    with FusionDefinition() as fd:
        fd.add_output(build(fd, fd.from_pytorch(x)))
    fd.execute([x])
    changed = {}
    for report in fd.fec._segment_reports([x]):
        assert STREAMS not in report["kernel_text"]
        changed[report["segment_id"]] = report["params"]._with({"stream_outputs": True})
        assert "stream_outputs" in repr(changed[report["segment_id"]])
    fd.fec._set_params(changed)
    return fd, "".join(report["kernel_text"] for report in fd.fec._segment_reports([x]))


@pytest.mark.machine("host")
@pytest.mark.parametrize("width", [1, 3, 17, 64, 100, 1000, 1023, 2048, 2055])
@pytest.mark.parametrize("build", WANTED)
def test_results_past_the_caches(build: Callable, width: int) -> None:
    # Rows begin anywhere in a line, and so does the tensor.
    for shift in (0, 3):
        x = torch.randn(37 * width + shift)[shift:].view(37, width)
        fd, text = streaming(build, x)
        assert STREAMS in text or build is doubled_in_parts or width < 64
        for _ in range(2):
            torch.testing.assert_close(fd.execute([x])[0], WANTED[build](x), rtol=2e-5, atol=2e-5)


@pytest.mark.machine("host")
def test_the_next_row_is_fetched_ahead() -> None:
    """Where the row is read for the second time; of what is read once nothing is."""
    x = torch.randn(40, 2048)
    for build in (softmax, layer_norm):
        assert streaming(build, x)[1].count("nvf::fetchAhead(") == 1
    assert "nvf::fetchAhead(" not in streaming(scaled, x)[1]


@pytest.mark.machine("host")
def test_results_past_the_caches_in_place() -> None:
    x = torch.randn(50, 1000)
    expected = x * 2 + 1
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output(fd.ops.add(fd.ops.mul(t, 2.0), 1.0), t)
    fd.execute([x.clone()])
    (report,) = fd.fec._segment_reports([x])
    fd.fec._set_params({report["segment_id"]: report["params"]._with({"stream_outputs": True})})
    fd.execute([x])
    torch.testing.assert_close(x, expected)
