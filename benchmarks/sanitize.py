# SPDX-License-Identifier: BSD-3-Clause
"""Run a slice of all kinds of kernels under compute-sanitizer: memcheck, racecheck, synccheck.

    python benchmarks/sanitize.py                       # one line per tool and kernel
    python benchmarks/sanitize.py --run --device cpu    # the slice alone, checked against torch

Needs a GPU and CUDA's compute-sanitizer (on the path, or named by --sanitizer). Each tool watches
one process that runs the slice. The exit status is 1 if a tool reports anything, a result is wrong
or a kernel is not of the kind that it is here for.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import definitions as of
import scheduled
import torch
from cases import BY_NAME, Case, Tensors, definition_of, normals, whole
from definitions import Inputs, Sizes
from nvfuse_direct import FusionDefinition, SchedulerType
from run import TOLERANCE, relative_error

TOOLS = ("memcheck", "racecheck", "synccheck")
SECONDS = 900  # for a tool
REPORTED = 66  # exit status of a tool that has something to say
BEGIN = "=== "


def define_scan(fd: FusionDefinition, inputs: Inputs) -> None:
    fd.add_output(fd.ops.cumsum(of.load(fd, inputs[0]), 1))


def define_gather(fd: FusionDefinition, inputs: Inputs) -> None:
    table, positions = (fd.from_pytorch(tensor, static_sizes=True) for tensor in inputs)
    fd.add_output(fd.ops.gather(table, positions, 1))


def make_gather(tensors: Tensors, sizes: Sizes) -> list[torch.Tensor]:
    return [tensors.normal(*sizes), tensors.integers(sizes[1], *sizes)]


def eager_scan(x: torch.Tensor) -> torch.Tensor:
    return x.cumsum(1)


def eager_gather(table: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    return table.gather(1, positions)


def small(name: str, sizes: Sizes) -> Case:
    """A case of the benchmarks at a size that a sanitizer gets through."""
    return BY_NAME[name].at(sizes, torch.float)


@dataclass(frozen=True)
class Sample:
    """A computation, and what its kernels' text has if they are of the kind to be checked."""

    name: str
    case: Case
    marks: tuple[str, ...]
    capability: int = 0  # of GPUs that have this kind of kernel
    # Parameters that the heuristics choose otherwise.
    changes: Mapping[str, object] = field(default_factory=dict)

    def run(self, device: torch.device) -> str:
        """What is wrong with it, or nothing."""
        inputs = self.case.inputs(device, small=True)
        references = self.case.references(inputs)
        fd = definition_of(self.case.define, inputs)
        if self.changes:
            fd.execute(inputs)
            chosen = {r["segment_id"]: r["chosen"] for r in fd.fec._segment_reports(inputs)}
            edited = {i: p._with(dict(self.changes)) for i, p in chosen.items() if p is not None}
            fd.fec._set_params(edited)
        results = [*fd.execute(inputs), *(inputs[i] for i in self.case.updates)]
        if device.type == "cuda":
            torch.cuda.synchronize()
        for result, reference in zip(results, references, strict=True):
            error = relative_error(result, reference)
            if not error <= TOLERANCE[torch.float]:
                return f"wrong result, relative error {error:.1e}"
        text = fd.fec.get_cuda_kernel(inputs)
        if device.type == "cuda" and torch.cuda.get_device_capability()[0] < self.capability:
            return ""
        missing = [mark for mark in self.marks if mark not in text]
        return f"its kernels have no {', '.join(missing)}" if missing else ""


@dataclass(frozen=True)
class Scheduled:
    """The same for a kernel scheduled by hand (scheduled.py)."""

    name: str
    make: Callable[[], FusionDefinition]
    marks: tuple[str, ...]
    capability: int  # of GPUs that can run it

    def run(self, device: torch.device) -> str:
        if device.type == "cuda" and torch.cuda.get_device_capability()[0] < self.capability:
            return ""
        x = torch.randn(9, 300, device=device)
        fd = self.make()
        (result,) = fd.manual_execute([x])
        if device.type == "cuda":
            torch.cuda.synchronize()
        if not torch.equal(result, x * 2):
            return "wrong result"
        text = fd.fusion.print_kernel()
        missing = [mark for mark in self.marks if mark not in text]
        return f"its kernel has no {', '.join(missing)}" if missing else ""


@dataclass(frozen=True)
class Columns:
    """A softmax of columns that blocks share: those of a cluster, or all of the grid."""

    name: str
    blocks: int
    grid: bool
    mark: str
    capability: int = 0

    def run(self, device: torch.device) -> str:
        if device.type == "cuda" and torch.cuda.get_device_capability()[0] < self.capability:
            return ""
        x = torch.randn(330, 100, device=device)
        with FusionDefinition() as fd:
            ops, tv = fd.ops, fd.from_pytorch(x)
            exponential = ops.exp(ops.sub(tv, ops.max(tv, [0], keepdim=True)))
            fd.add_output(ops.div(exponential, ops.sum(exponential, [0], keepdim=True)))
            kind = SchedulerType.outer_persistent
            params = fd.sched.compute_heuristics(fd.fusion, kind, [x])
            params.cross_grid_outer_reduction = self.grid
            params.cluster_size = 1 if self.grid else self.blocks
            params.lparams.gdimy = self.blocks
            fd.sched.schedule(fd.fusion, kind, params)
        expected = torch.softmax(x.double(), 0)
        for _ in range(3):
            (result,) = fd.manual_execute([x], params)
            if not relative_error(result, expected) <= TOLERANCE[torch.float]:
                return "wrong result"
        return "" if self.mark in fd.fusion.print_kernel() else f"its kernel has no {self.mark}"


SCAN = Case("scan", "cumsum(x)", 0, (5, 300), (5, 300), normals(whole), define_scan, eager_scan)
GATHER = Case("gather", "x[i]", 0, (40, 70), (40, 70), make_gather, define_gather, eager_gather)

# Sizes that leave partly filled tiles wherever that is possible.
SAMPLES = [
    Sample("pointwise", small("pointwise_mul", (65, 96)), ("nvfuser_pointwise",)),
    Sample("transpose", small("transpose_add", (97, 65)), ("nvfuser_transpose", "syncBlock")),
    Sample("reduction_inner", small("reduce_inner", (130, 1000)), ("nvf::blockReduce",)),
    Sample("reduction_outer", small("reduce_outer", (1000, 130)), ("Reduce<",)),
    Sample("reduction_grid", small("reduce_all", (16, 65536)), ("nvf::gridReduce",)),
    Sample("inner_persistent", small("softmax_fwd", (33, 1000)), ("nvfuser_inner_persistent",)),
    Sample("aligned_rows", small("rmsnorm_fwd", (33, 3001)), ("nvf::loadUnaligned",)),
    Sample(
        "aligned_cluster", small("softmax_fwd", (3, 40001)), ("nvf::clusterReduce",), capability=9
    ),
    Sample("cluster", small("softmax_fwd", (3, 40000)), ("nvf::clusterReduce",), capability=9),
    Sample(
        "layernorm_bwd", small("layernorm_bwd", (140, 256)), ("nvfuser_inner_outer_persistent",)
    ),
    Sample(
        "row_groups_cluster", small("layernorm_bwd", (40, 20000)), ("cluster_phase",), capability=9
    ),
    Sample(
        "prefetching_reduction",
        small("layernorm_bwd", (40, 40000)),
        ("nvf::beginClusterReduce",),
        capability=9,
    ),
    Sample(
        "staged_weights", small("layernorm_fwd", (300, 8192)), ("CacheOp::AllLevels",), capability=8
    ),
    Sample("softmax_terms", small("cross_entropy_fwd", (33, 5000)), ("SoftmaxTerm", "blockReduce")),
    Sample(
        "softmax_over_grid",
        small("cross_entropy_fwd", (1, 60000)),
        ("nvf::SoftmaxTerm", "nvf::gridReduce"),
    ),
    Sample(
        "batch_norm",
        small("batchnorm_channels_last", (8, 64, 7, 9)),
        ("nvfuser_outer_persistent", "nvf::blockReduce"),
    ),
    Sample("copied_ahead", small("layernorm_bwd", (3000, 1000)), ("nvf::waitForCopies",), 8),
    Sample("columns_over_grid", small("reduce_outer", (60000, 130)), ("nvf::gridReduce",)),
    Columns("columns_in_block", 1, False, "nvf::blockReduce"),
    Columns("columns_in_cluster", 4, False, "nvf::clusterReduce", capability=9),
    Columns("columns_in_grid", 5, True, "nvf::gridAllReduce"),
    Sample("scan", SCAN.at(SCAN.sizes, torch.float), ("nvfuser_greedy",)),
    Sample("gather", GATHER.at(GATHER.sizes, torch.float), ()),
    Scheduled("tma_load", scheduled.tma_load, ("copyTileToShared",), 9),
    Scheduled("tma_store", scheduled.tma_store, ("copyTileToGlobal",), 9),
    Scheduled("circular_tma", scheduled.circular_tma_load, ("nvf::arrive(ring0 + 3",), 9),
    Scheduled("circular_cp_async", scheduled.circular_cp_async, ("waitForCopies<1>",), 8),
    Scheduled("warp_specialized", scheduled.warp_specialized, ("syncAllThreads",), 9),
    Sample(
        "bulk_pointwise",
        small("pointwise_mul", (65, 96)),
        ("BulkToShared",),
        9,
        {"bulk_loads": [0, 1]},
    ),
    Sample(
        "bulk_rows", small("softmax_fwd", (33, 1000)), ("BulkToShared",), 9, {"bulk_loads": True}
    ),
    Sample(
        "bulk_reduction",
        small("reduce_inner", (130, 30000)),
        ("announceBulkToShared",),
        9,
        {"bulk_loads": True, "circular_buffer_stages": 3},
    ),
    Sample(
        "bulk_row_groups",
        small("softmax_fwd", (30, 8192)),
        ("announceBulkToShared", "syncAllThreads"),
        9,
        {
            "bulk_loads": True,
            "row_groups": 4,
            "circular_buffer_stages": 3,
            "warp_specialized": True,
        },
    ),
]


def run_samples(names: Sequence[str], device: torch.device) -> int:
    failed = 0
    for sample in SAMPLES:
        if names and sample.name not in names:
            continue
        print(BEGIN + sample.name, flush=True)
        try:
            problem = sample.run(device)
        except Exception:
            problem = traceback.format_exc()
        if problem:
            failed += 1
            print(problem, flush=True)
    return 1 if failed else 0


def split_log(log: str) -> dict[str, list[str]]:
    """The lines of each sample; "" has those before the first one."""
    parts: dict[str, list[str]] = {"": []}
    lines = parts[""]
    for line in log.splitlines():
        if line.startswith(BEGIN):
            lines = parts.setdefault(line[len(BEGIN) :], [])
        else:
            lines.append(line)
    return parts


def is_noise(line: str) -> bool:
    """What a tool says when it has found nothing."""
    text = line.strip("= ")
    return not text or text.startswith("COMPUTE-SANITIZER") or "SUMMARY: 0 " in text


def check(tool: str, sanitizer: str, device: str, names: Sequence[str]) -> bool:
    command = [sanitizer, "--tool", tool, "--error-exitcode", str(REPORTED)]
    command += ["--kernel-name", "kernel_substring=nvfuser", sys.executable]
    command += [str(Path(__file__).resolve()), "--run", "--device", device, *names]
    # Every tensor is an allocation of its own: accesses past its end are seen.
    environment = dict(os.environ, PYTORCH_NO_CUDA_MEMORY_CACHING="1")
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=SECONDS,
        )
    except FileNotFoundError:
        print(f"{tool:10} {sanitizer} is not to be found")
        return False
    except subprocess.TimeoutExpired:
        print(f"{tool:10} took more than {SECONDS} seconds")
        return False
    found = False
    for name, lines in split_log(done.stdout).items():
        report = [line for line in lines if not is_noise(line)]
        found = found or bool(report)
        if name or report:
            print(f"{tool:10} {name or 'before the first':18} {'REPORTS' if report else 'ok'}")
        for line in report[:20]:
            print(f"    {line}")
    if done.returncode != 0 and not found:
        print(f"{tool:10} ended with status {done.returncode}")
    return done.returncode == 0 and not found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="samples, all by default")
    parser.add_argument("--run", action="store_true", help="run the samples without a sanitizer")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--sanitizer", default="compute-sanitizer", help="the program")
    args = parser.parse_args()
    known = [sample.name for sample in SAMPLES]
    if unknown := set(args.names) - set(known):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    if args.run:
        return run_samples(args.names, torch.device(args.device))
    passed = [
        check(tool, args.sanitizer, args.device, args.names) for tool in args.tools.split(",")
    ]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
