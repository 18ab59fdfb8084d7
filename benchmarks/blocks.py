# SPDX-License-Identifier: BSD-3-Clause
"""Time whole transformer blocks, forward and backward, against torch.compile and eager torch.

    python benchmarks/blocks.py                       everything, on the GPU if there is one
    python benchmarks/blocks.py --blocks Llama        those whose names contain it
    python benchmarks/blocks.py --profile             also which kernels of a call take how long
    python benchmarks/blocks.py --flash               all sides with flash attention
    python benchmarks/blocks.py --recompute           ours keeps no results of norms and activations
    python benchmarks/blocks.py --workers 4           processes that warm up torch.compile
    python benchmarks/blocks.py --plan                no times: segments, and the bytes they move
    python benchmarks/blocks.py --small --device cpu  tiny sizes: does everything run?
    python benchmarks/blocks.py --out benchmarks/results --stem h200_blocks

Ours are definitions written by hand (`block_definitions.py`), the others the model's code in torch
(`block_cases.py`). A block has three rows: the forward pass with all that is kept for the backward
pass, the backward pass (gradients of the input and of all weights), and both in one call, of a
definition of its own, which returns nothing of what it keeps. Each side
keeps what it chooses to: what torch.compile keeps is what ahead-of-time autograd's partitioner
chose, whose graphs it gets for the first two rows; for the third it gets the function.

Device times are medians with a cold L2; memory is the most that a call allocates beside its inputs,
so that for both passes it includes what is kept. Outputs are compared with the same function in
float64 first: their errors may be little above those of eager torch in bf16.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import report as reports
import torch
from aten import AtenGraph, traced
from block_cases import BLOCKS, Block, Tensors
from block_definitions import Definition, define
from block_report import text
from layers import compiled, fill_cache, options
from nvfuse_direct import explain
from run import relative_error
from timing import Call, Stopwatch

# Of eager torch's errors: of the root mean square of all elements, and of the largest.
MOST_ERROR, MOST_LARGEST_ERROR = 1.5, 2.0
# Below these, relative to the root mean square of the values, no error is too large.
LEAST_ERROR, LEAST_LARGEST_ERROR = 2.0**-10, 2.0**-6


class Autograd:
    """A block as torch runs it: eagerly, or what torch.compile makes of it."""

    def __init__(
        self, function: Callable[..., torch.Tensor], tensors: Tensors, leaves: Sequence[str]
    ) -> None:
        self.function, self.grad = function, tensors["grad"]
        names = [name for name in tensors if name != "grad"]
        self.inputs = [tensors[name].detach().requires_grad_(name in leaves) for name in names]
        self.leaves = [x for x in self.inputs if x.requires_grad]

    def forward(self) -> torch.Tensor:
        return self.function(*self.inputs)

    def backward(self, out: torch.Tensor, keep: bool = False) -> Sequence[torch.Tensor]:
        return torch.autograd.grad(out, self.leaves, self.grad, retain_graph=keep)

    def both(self) -> Sequence[torch.Tensor]:
        out = self.forward()
        return [out, *self.backward(out)]


class Ours:
    """A block as its definitions run it. With `run` the forward pass is run for what it keeps."""

    def __init__(
        self, block: Block, tensors: Tensors, small: bool, run: bool, recompute: bool = False
    ) -> None:
        sizes = block.small if small else block.sizes
        self.tensors = tensors
        self.forward_definition = define(block.model.forward, sizes, tensors, recompute)
        self.results = (
            self.forward_definition(tensors) if run else self.forward_definition.empty_outputs()
        )
        everything = tensors | self.results
        self.backward_definition = define(block.model.backward, sizes, everything, recompute)
        self.read = {name: everything[name] for name in self.backward_definition.inputs}
        self.both_definition = define(block.model.both, sizes, tensors, recompute)

    def forward(self) -> Tensors:
        return self.forward_definition(self.tensors)

    def backward(self) -> Tensors:
        return self.backward_definition(self.read)

    def both(self) -> Tensors:
        return self.both_definition(self.tensors)

    def outputs(self, leaves: Sequence[str]) -> list[torch.Tensor]:
        gradients = self.backward()
        return [self.results["out"], *(gradients[name] for name in leaves)]

    def outputs_of_both(self, leaves: Sequence[str]) -> list[torch.Tensor]:
        results = self.both()
        return [results[name] for name in ("out", *leaves)]

    @property
    def kept_bytes(self) -> int:
        return sum(x.nbytes for name, x in self.read.items() if name in self.results)


def kept_bytes(graph: AtenGraph, inputs: Sequence[torch.Tensor]) -> int:
    """Of the memory that a backward graph reads, what the forward graph made; `inputs` are its."""
    names = [node.name for node in graph.module.graph.nodes if node.op == "placeholder"]
    storages = {
        x.untyped_storage().data_ptr(): x.untyped_storage().nbytes()
        for name, x in zip(names, graph.inputs, strict=True)
        if not name.startswith("tangents")
    }
    for x in inputs:
        storages.pop(x.untyped_storage().data_ptr(), None)
    return sum(storages.values())


def attention_of(graph: AtenGraph) -> str:
    """The operation that torch chose."""
    names = [str(node.target) for node in graph.module.graph.nodes]
    found = (name for name in names if "attention" in name)
    return next(found, "in parts").removeprefix("aten.").removesuffix(".default")


def tensors_of(block: Block, args: argparse.Namespace) -> Tensors:
    device = torch.device(args.device)
    tensors = block.make(device, args.small)
    generator = torch.Generator(device).manual_seed(99)
    return tensors | {"grad": torch.empty_like(tensors["x"]).normal_(generator=generator)}


def leaves_of(block: Block) -> list[str]:
    return list(block.model.shapes(block.small))


def compile_ahead(names: Sequence[str], device: str, only_flash: bool) -> None:
    """Leaves torch.compile's kernels of these blocks in its cache on disk."""
    args = argparse.Namespace(device=device, small=False)
    for block in BLOCKS:
        if block.name in names:
            try:
                with attention_backends(only_flash):
                    for call in compile_calls(block, tensors_of(block, args), False)[0].values():
                        call()
            except Exception as error:
                print(f"{block.name}: {reports.one_line(error)}", file=sys.stderr)


def compile_calls(
    block: Block, tensors: Tensors, small: bool
) -> tuple[dict[str, Call], dict[str, Any]]:
    """torch.compile's calls of each row, and what there is to say of its graphs."""
    function = block.torch_function([name for name in tensors if name != "grad"], small)
    autograd = Autograd(function, tensors, leaves_of(block))
    forward, backward = traced(block.name, function, autograd.inputs)
    facts = {"attention": attention_of(forward), "kept": kept_bytes(backward, autograd.inputs)}
    autograd.function = torch.compile(function, fullgraph=True, dynamic=False)
    # compiled() forgets what was compiled before, not the calls that there are.
    calls = {"forward": compiled(forward), "backward": compiled(backward), "both": autograd.both}
    return calls, facts


class BlockRunner(Stopwatch):
    # Short turns, so that all sides find the device as warm: the same product took 1 to 6 % longer
    # on the side whose turn came after a side of more products.
    turns = (15, 3)

    def rows(self, block: Block) -> list[dict[str, Any]]:
        """Rows of the passes of a block."""
        return self.planned(block) if self.args.plan else self.measured(block)

    def planned(self, block: Block) -> list[dict[str, Any]]:
        small = self.args.small
        tensors = tensors_of(block, self.args) if small else block.empty()
        tensors |= {"grad": torch.empty_like(tensors["x"])}
        return self.plans(block, Ours(block, tensors, small, False, self.args.recompute))

    @staticmethod
    def plans(block: Block, ours: Ours) -> list[dict[str, Any]]:
        """A row for each definition with its segments; library segments are operations of torch."""
        rows = []
        for name, definition, tensors in (
            ("forward", ours.forward_definition, ours.tensors),
            ("backward", ours.backward_definition, ours.read),
            ("both", ours.both_definition, ours.tensors),
        ):
            rows.append({"name": f"{block.name} {name}", "kept": ours.kept_bytes})
            rows[-1] |= segments_of(definition, tensors)
        return rows

    def measured(self, block: Block) -> list[dict[str, Any]]:
        small = self.args.small
        tensors = tensors_of(block, self.args)
        leaves = leaves_of(block)
        function = block.torch_function([name for name in tensors if name != "grad"], small)
        ours = Ours(block, tensors, small, True, self.args.recompute)
        eager = Autograd(function, tensors, leaves)
        rows = self.plans(block, ours)
        errors = self.check(function, tensors, leaves, ours.outputs, eager)
        rows[0]["errors"] = {"out": errors["out"]}
        rows[1]["errors"] = {name: errors[name] for name in leaves}
        rows[2]["errors"] = self.check(function, tensors, leaves, ours.outputs_of_both, eager)
        del errors
        passes: dict[str, dict[str, Call]] = {
            "forward": {"ours": ours.forward},
            "backward": {"ours": ours.backward},
            "both": {"ours": ours.both},
        }
        if not self.args.no_peers:
            out = eager.forward()
            passes["forward"]["eager"] = eager.forward
            passes["backward"]["eager"] = lambda: eager.backward(out, keep=True)
            passes["both"]["eager"] = eager.both
            calls, facts = compile_calls(block, tensors, small)
            for name, call in calls.items():
                passes[name]["compile"] = call
            for row in rows:
                row["compile_graph"] = facts
        for row, calls in zip(rows, passes.values(), strict=True):
            row |= self.measure(calls)
            if "compile" in row:
                row["x_compile"] = row["compile"]["microseconds"] / row["ours"]["microseconds"]
            if self.args.profile:
                row["profile"] = {name: kernel_times(call) for name, call in calls.items()}
        return rows

    def check(
        self,
        function: Callable[..., torch.Tensor],
        tensors: Tensors,
        leaves: Sequence[str],
        outputs: Callable[[Sequence[str]], list[torch.Tensor]],
        eager: Autograd,
    ) -> dict[str, list[float]]:
        """Root mean square errors of ours and of eager torch, by output. ValueError: too large."""
        wide = {name: x.double() for name, x in tensors.items()}
        references = Autograd(function, wide, leaves).both()
        errors = {}
        for name, reference, one_by_one, result in zip(
            ["out", *leaves], references, eager.both(), outputs(leaves), strict=True
        ):
            if result.shape != reference.shape:
                raise ValueError(f"wrong result: {name} has the shape {tuple(result.shape)}")
            error, allowed = (mean_error(x, reference) for x in (result, one_by_one))
            largest, largest_allowed = (relative_error(x, reference) for x in (result, one_by_one))
            is_right = error <= max(MOST_ERROR * allowed, LEAST_ERROR)
            # Not the negation of >: nan is wrong.
            is_right &= largest <= max(MOST_LARGEST_ERROR * largest_allowed, LEAST_LARGEST_ERROR)
            if not is_right:
                raise ValueError(
                    f"wrong result: {name}, error {error:.3g} (eager torch: {allowed:.3g}), "
                    f"largest {largest:.3g} ({largest_allowed:.3g})"
                )
            errors[name] = [error, allowed]
        return errors


def mean_error(result: torch.Tensor, reference: torch.Tensor) -> float:
    """Root mean square of the error, relative to that of the values."""
    result, reference = result.detach(), reference.detach()
    return float((result.double() - reference).norm() / reference.norm())


def segments_of(definition: Definition, tensors: Tensors) -> dict[str, Any]:
    """How many kernels of ours a definition takes, what they move, the memory of a call, and all
    segments."""
    inputs = [tensors[name] for name in definition.inputs]
    explanation = explain(definition.fd, inputs, measure=False)
    segments = explanation.segments
    own = [s for s in segments if s.scheduler != "expr_eval"]
    return {
        "kernels": len(own),
        "bytes_moved": sum(s.input_bytes + s.output_bytes for s in own),
        "estimate": explanation.peak_bytes,
        "segments": [
            {
                "scheduler": "torch" if s.scheduler == "expr_eval" else s.scheduler,
                "operations": [each.kind for each in s.contents],
                "inputs": s.inputs,
                "outputs": s.outputs,
                "read": s.input_bytes,
                "written": s.output_bytes,
                "note": s.note,
            }
            for s in segments
        ],
    }


def kernel_times(call: Call) -> list[dict[str, Any]]:
    """Kernels of a call by name, those that take longest first; nothing without a GPU."""
    from torch.profiler import ProfilerActivity, profile

    if not torch.cuda.is_available():
        return []
    call()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        call()
        torch.cuda.synchronize()
    events = sorted(profiler.key_averages(), key=lambda event: -event.self_device_time_total)
    return [
        {"kernel": event.key, "count": event.count, "microseconds": event.self_device_time_total}
        for event in events
        if event.self_device_time_total > 0
    ]


def arguments() -> argparse.Namespace:
    parser = options(__doc__ or "", "blocks", "blocks")
    parser.add_argument("--profile", action="store_true", help="kernels of each call, by time")
    parser.add_argument("--flash", action="store_true", help="flash attention on all sides")
    parser.add_argument(
        "--recompute", action="store_true", help="ours keeps no results of norms and activations"
    )
    return parser.parse_args()


def attention_backends(only_flash: bool) -> contextlib.AbstractContextManager[Any]:
    """Those that torch may choose from; float64 needs formulas. Ours is flash attention unless that
    is switched off."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    kind = SDPBackend.FLASH_ATTENTION if only_flash else SDPBackend.CUDNN_ATTENTION
    return sdpa_kernel([kind, SDPBackend.MATH])


def main() -> int:
    args = arguments()
    chosen = reports.named(BLOCKS, args.blocks)
    if args.workers and not (args.no_peers or args.plan or args.small):
        ahead = functools.partial(compile_ahead, only_flash=args.flash)
        fill_cache([block.name for block in chosen], args.device, args.workers, ahead)
    with attention_backends(args.flash):
        return BlockRunner(args).run(chosen, text)


if __name__ == "__main__":
    sys.exit(main())
