# SPDX-License-Identifier: BSD-3-Clause
"""The non-matmul parts of a 32-layer transformer: planning and compiling, cold and from disk.

    python benchmarks/transformer.py                       forward and backward, as one definition
    python benchmarks/transformer.py --form pieces         each part of each layer by itself
    python benchmarks/transformer.py --layers 8 --forward

A layer is Llama's: RMS norm, rotary embedding, residual, RMS norm, SwiGLU, residual. In the place
of products and attention stand boundaries between kernels (segment_set), with all widths equal. A
process of its own defines and runs everything once with an empty kernel cache, another one with the
plans and kernels that the first one left on disk. CPU time is that of the process and of the
compilers; half of it is what the wall clock would show on two cores with nothing else to do, if all
of it could be done side by side. The kernels are compiled by NVRTC too, which needs no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from scaling import are_for_gpus, kernels_of, nvrtc_seconds

TOKENS, HEADS, HEAD = 64, 8, 64
WIDTH = HEADS * HEAD
EPSILON = 1e-5

Tv = Any


class Layer:
    """Builds the parts of a layer, forward and backward; all tensors between them are bf16."""

    def __init__(self, fd: Any) -> None:
        from nvfuse_direct import DataType

        self.fd, self.ops = fd, fd.ops
        self.float, self.bf16 = DataType.Float, DataType.BFloat16

    def wide(self, x: Tv) -> Tv:
        return self.ops.cast(x, self.float)

    def narrow(self, x: Tv) -> Tv:
        return self.ops.cast(x, self.bf16)

    def product(self, x: Tv) -> Tv:
        return self.ops.segment_set(x)

    def scale(self, h: Tv) -> Tv:
        """1 / the root mean square of each row."""
        ops = self.ops
        squares = ops.mul(ops.sum(ops.mul(h, h), [1], keepdim=True), 1.0 / WIDTH)
        return ops.rsqrt(ops.add(squares, EPSILON))

    def norm(self, h: Tv, weight: Tv) -> Tv:
        ops, h = self.ops, self.wide(h)
        weight = ops.broadcast(self.wide(weight), [True, False])
        return self.narrow(ops.mul(ops.mul(h, self.scale(h)), weight))

    def norm_backward(self, grad: Tv, h: Tv, weight: Tv) -> tuple[Tv, Tv]:
        ops = self.ops
        grad, h = self.wide(grad), self.wide(h)
        scale = self.scale(h)
        straight = ops.mul(h, scale)
        weighted = ops.mul(grad, ops.broadcast(self.wide(weight), [True, False]))
        mean = ops.mul(ops.sum(ops.mul(weighted, straight), [1], keepdim=True), 1.0 / WIDTH)
        grad_h = ops.mul(ops.sub(weighted, ops.mul(straight, mean)), scale)
        grad_weight = ops.sum(ops.mul(grad, straight), [0])
        return self.narrow(grad_h), self.narrow(grad_weight)

    def rope(self, x: Tv, cos: Tv, sin: Tv, backward: bool = False) -> Tv:
        ops = self.ops
        x = self.wide(ops.reshape(x, [TOKENS, HEADS, HEAD]))
        low = ops.slice(x, [0, 0, 0], [TOKENS, HEADS, HEAD // 2])
        high = ops.slice(x, [0, 0, HEAD // 2], [TOKENS, HEADS, HEAD])
        parts = [high, ops.neg(low)] if backward else [ops.neg(high), low]
        turned = ops.mul(ops.cat(parts, -1), ops.broadcast(self.wide(sin), [False, True, False]))
        out = ops.add(ops.mul(x, ops.broadcast(self.wide(cos), [False, True, False])), turned)
        return ops.reshape(self.narrow(out), [TOKENS, WIDTH])

    def add(self, a: Tv, b: Tv) -> Tv:
        return self.narrow(self.ops.add(self.wide(a), self.wide(b)))

    def swiglu(self, gate: Tv, up: Tv) -> Tv:
        ops = self.ops
        gate = self.wide(gate)
        return self.narrow(ops.mul(ops.mul(gate, ops.sigmoid(gate)), self.wide(up)))

    def swiglu_backward(self, grad: Tv, gate: Tv, up: Tv) -> tuple[Tv, Tv]:
        ops = self.ops
        grad, gate, up = self.wide(grad), self.wide(gate), self.wide(up)
        sigmoid = ops.sigmoid(gate)
        silu = ops.mul(gate, sigmoid)
        slope = ops.add(sigmoid, ops.mul(silu, ops.sub(1.0, sigmoid)))
        return self.narrow(ops.mul(ops.mul(grad, up), slope)), self.narrow(ops.mul(grad, silu))


def forward(layer: Layer, h: Tv, weights: tuple[Tv, Tv], cos: Tv, sin: Tv) -> dict[str, Tv]:
    """One layer; what backward needs, and the keys and values for the cache."""
    first = layer.norm(h, weights[0])
    q, k, v = (layer.product(first) for _ in range(3))
    q, k = layer.rope(q, cos, sin), layer.rope(k, cos, sin)
    middle = layer.add(h, layer.product(layer.product(q)))
    second = layer.norm(middle, weights[1])
    gate, up = layer.product(second), layer.product(second)
    out = layer.add(middle, layer.product(layer.swiglu(gate, up)))
    return {"h": h, "k": k, "v": v, "middle": middle, "gate": gate, "up": up, "out": out}


def backward(
    layer: Layer, grad: Tv, saved: dict[str, Tv], weights: tuple[Tv, Tv], cos: Tv, sin: Tv
) -> tuple[Tv, list[Tv]]:
    """Gradients of a layer's input and of its weights."""
    grad_gate, grad_up = layer.swiglu_backward(layer.product(grad), saved["gate"], saved["up"])
    grad_norm = layer.add(layer.product(grad_gate), layer.product(grad_up))
    through, second = layer.norm_backward(grad_norm, saved["middle"], weights[1])
    grad = layer.add(grad, through)
    heads = layer.product(layer.product(grad))
    grad_q, grad_k = (layer.rope(layer.product(heads), cos, sin, True) for _ in range(2))
    grad_norm = layer.add(layer.product(grad_q), layer.product(grad_k))
    through, first = layer.norm_backward(grad_norm, saved["h"], weights[0])
    return layer.add(grad, through), [first, second]


def define_whole(fd: Any, inputs: list[Any], layers: int, with_backward: bool) -> None:
    h, grad, cos, sin, *weights = (fd.from_pytorch(x) for x in inputs)
    pairs = [(weights[2 * i], weights[2 * i + 1]) for i in range(layers)]
    layer = Layer(fd)
    saved = []
    for pair in pairs:
        saved.append(forward(layer, h, pair, cos, sin))
        h = saved[-1]["out"]
    fd.add_output(h)
    if not with_backward:
        for each in saved:
            fd.add_output(each["k"])
            fd.add_output(each["v"])
        return
    for each, pair in zip(reversed(saved), reversed(pairs), strict=True):
        grad, of_weights = backward(layer, grad, each, pair, cos, sin)
        for tv in of_weights:
            fd.add_output(tv)
    fd.add_output(grad)


# Definitions of single parts: arguments by name, and what they make.
PIECES: dict[str, tuple[str, Callable[..., Any]]] = {
    "norm": ("h w", lambda layer, h, w: layer.norm(h, w)),
    "rope": ("h cos sin", lambda layer, *a: layer.rope(*a)),
    "add_norm": ("h h w", lambda layer, h, o, w: (s := layer.add(h, o), layer.norm(s, w))),
    "swiglu": ("h h", lambda layer, *a: layer.swiglu(*a)),
    "swiglu_backward": ("h h h", lambda layer, *a: layer.swiglu_backward(*a)),
    "norm_backward": ("h h w", lambda layer, *a: layer.norm_backward(*a)),
    "rope_backward": ("h cos sin", lambda layer, *a: layer.rope(*a, backward=True)),
    "add": ("h h", lambda layer, *a: layer.add(*a)),
}
FORWARD_PIECES = ("norm", "rope", "rope", "add_norm", "swiglu", "add")
BACKWARD_PIECES = (
    "swiglu_backward",
    "add",
    "norm_backward",
    "add",
    "rope_backward",
    "rope_backward",
    "add",
    "norm_backward",
    "add",
)


def run_pieces(tensors: dict[str, Any], layers: int, with_backward: bool) -> list[Any]:
    from nvfuse_direct import FusionDefinition

    names = FORWARD_PIECES + (BACKWARD_PIECES if with_backward else ())
    definitions = []
    for name in names * layers:
        arguments, build = PIECES[name]
        inputs = [tensors[argument] for argument in arguments.split()]
        with FusionDefinition() as fd:
            made = build(Layer(fd), *(fd.from_pytorch(x) for x in inputs))
            for tv in made if isinstance(made, tuple) else (made,):
                fd.add_output(tv)
        fd.execute(inputs)
        definitions.append((fd, inputs))
    return definitions


def run_once(
    form: str, layers: int, with_backward: bool, device: str, nvrtc: bool
) -> dict[str, float]:
    """Defines and runs everything for the first time in this process."""
    import torch
    from nvfuse_direct import FusionDefinition

    def made(*sizes: int) -> Any:
        return (
            torch.linspace(-1, 1, sizes[0] * (sizes[1] if len(sizes) > 1 else 1))
            .reshape(sizes)
            .to(device, torch.bfloat16)
        )

    tensors = {
        "h": made(TOKENS, WIDTH),
        "w": made(WIDTH),
        "cos": made(TOKENS, HEAD),
        "sin": made(TOKENS, HEAD),
    }
    start = time.perf_counter()
    own, children = time.process_time(), seconds_of_children()
    if form == "whole":
        inputs = [tensors[name] for name in ("h", "h", "cos", "sin")] + [tensors["w"]] * 2 * layers
        with FusionDefinition() as fd:
            define_whole(fd, inputs, layers, with_backward)
        defined = time.process_time() - own
        fd.execute(inputs)
        definitions = [(fd, inputs)]
    else:
        definitions = run_pieces(tensors, layers, with_backward)
        defined = 0.0
    figures = {
        "wall": time.perf_counter() - start,
        "own": time.process_time() - own,
        "defining": defined,
        "compilers": seconds_of_children() - children,
    }
    kernels = [kernel for fd, i in definitions for kernel in kernels_of(fd.fec.get_cuda_kernel(i))]
    figures["kernels"] = len(kernels)
    figures["distinct"] = len(set(kernels))
    wants_nvrtc = nvrtc and are_for_gpus(device)
    figures["nvrtc"] = nvrtc_seconds(set(kernels)) if wants_nvrtc else 0.0
    figures["operations"] = sum(
        len(report["operations"]) for fd, i in definitions for report in fd.fec._segment_reports(i)
    )
    return figures


def seconds_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--form", choices=("whole", "pieces"), default="whole")
    parser.add_argument("--forward", action="store_true", help="without the backward pass")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--no-nvrtc", action="store_true")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        figures = run_once(
            arguments.form,
            arguments.layers,
            not arguments.forward,
            arguments.device,
            not arguments.no_nvrtc,
        )
        print(json.dumps(figures))
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in ("cold", "from disk", "from disk"):
            once = ["--once"] if name == "cold" else ["--once", "--no-nvrtc"]
            finished = subprocess.run(
                [sys.executable, *sys.argv, *once],
                env=dict(os.environ, NVFUSER_CACHE_DIR=folder),
                capture_output=True,
                text=True,
                check=False,
            )
            if finished.returncode != 0:
                sys.exit(finished.stdout + finished.stderr)
            f = json.loads(finished.stdout.splitlines()[-1])
            both = f["own"] + f["compilers"]
            print(
                f"{name:10} {f['wall']:6.2f} s wall, {both:6.2f} s of CPU, half {both / 2:5.2f}:"
                f" {f['own']:5.2f} here (defining {f['defining']:.2f}),"
                f" {f['compilers']:5.2f} in compilers; {f['operations']} operations,"
                f" {f['kernels']} kernels, {f['distinct']} of them different"
                + (f", NVRTC {f['nvrtc']:.2f} s" if f["nvrtc"] else ""),
                flush=True,
            )


if __name__ == "__main__":
    main()
