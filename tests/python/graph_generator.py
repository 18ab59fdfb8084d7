"""Random graphs by seed, compared with torch, with an error bound per element.

The "pointwise" mix has elementwise and shape ops, the "reduction" mix also reductions, patterns of
normalizations, scans and lookups, the "sizes" mix also what depends on sizes (graphs/sizes.py).

A graph is data (inputs, nodes, outputs). Its text is a Python definition that is executed to build
the fusion and printed when it fails, so the script is what ran. The reference is evaluated in
float64 together with a bound on the rounding error that a correct kernel may have; ops that jump
(comparisons, floor, casts to int) are only put where that bound is zero.

As a program: `python graph_generator.py --count 2000 --device cuda --workers 16` runs that many
seeds in worker processes, shows a progress bar, prints a script for each seed that fails, shrunk,
and ends with one line of JSON (count, failures, fallbacks, seconds). `--adversary 1` runs host
kernels with threads in random order, on seeds of its own; with `--no-fallbacks` a kernel that was
refused and replaced is a failure.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from graphs import MIXES, generate
from graphs.model import FLOATS, TORCH, Graph, Tensor, Value

# A kernel that a scheduler promised and lowering refused is replaced by simpler ones; with this
# switch that counts as a failure.
NO_FALLBACKS = bool(os.environ.get("NVFUSER_TEST_NO_FALLBACKS"))


# ------------------------------------------------------------------------------------------ running


class Mismatch(Exception):
    """The fusion computed something else than torch."""


def check(actual: Tensor, value: Value, what: str) -> None:
    if actual.dtype != TORCH[value.dtype]:
        raise Mismatch(f"{what}: dtype {actual.dtype}, expected {TORCH[value.dtype]}")
    if tuple(actual.shape) != value.sizes:
        raise Mismatch(f"{what}: shape {tuple(actual.shape)}, expected {value.sizes}")
    got = actual.cpu()
    if value.dtype in FLOATS:
        bound = 2 * value.error
        wrong = ~(((got.double() - value.data).abs() <= bound) | (got == value.data))
    elif value.dtype == "ComplexFloat":
        wrong = ~((got.to(torch.complex128) - value.data).abs() <= 4 * value.error)
    else:
        wrong = got != value.data
    if bool(wrong.any()):
        at = tuple(wrong.nonzero()[0].tolist())
        raise Mismatch(
            f"{what}: {int(wrong.sum())} of {wrong.numel()} elements differ, first at {at}: "
            f"{got[at].item()!r}, expected {value.data[at].item()!r}"
        )


def run_graph(graph: Graph, device: torch.device) -> int:
    """Raises `Mismatch`, or whatever the compiler raised. Returns how many kernels were refused."""
    from nvfuse_direct import DataType, FusionDefinition

    scope: dict[str, object] = {"DataType": DataType, "torch": torch}
    exec(graph.definition_text(), scope)
    with FusionDefinition() as fd:
        scope["nvfuser_fusion"](fd)  # type: ignore[operator]
    values = graph.evaluate()
    for repeat in ("first run", "second run"):
        tensors = [each.make(device) for each in graph.inputs]
        copies = [each.clone() for each in tensors]
        outputs = fd.execute([*tensors, *graph.scalars], device=device)
        if NO_FALLBACKS and fd.fec._num_fallbacks:
            notes = [each["note"] for each in fd.fec._most_recent_segment_reports()]
            raise Mismatch(f"{repeat}: a kernel was refused: {notes}")
        if len(outputs) != len(graph.outputs):
            raise Mismatch(f"{len(outputs)} outputs, expected {len(graph.outputs)}")
        for position, (output, number) in enumerate(zip(outputs, graph.outputs, strict=False)):
            check(output, values[number], f"{repeat}: output {position} (t{number})")
        updated = {target: value for value, target in graph.aliases}
        for number, (now, before) in enumerate(zip(tensors, copies, strict=False)):
            if number in updated:
                check(now, values[updated[number]], f"{repeat}: updated input {number}")
            elif not torch.equal(now, before):
                raise Mismatch(f"{repeat}: input {number} was overwritten")
    return fd.fec._num_fallbacks


# ---------------------------------------------------------------------------------------- shrinking


def without_dead_code(graph: Graph) -> Graph:
    """Drops nodes and inputs that no output needs."""
    needed = {
        *graph.outputs,
        *(value for value, _ in graph.aliases),
        *(t for _, t in graph.aliases),
    }
    first = len(graph.inputs)
    for number in range(first + len(graph.nodes) - 1, first - 1, -1):
        if number in needed:
            needed |= set(graph.nodes[number - first].operands)
    kept = [i for i in range(first + len(graph.nodes)) if i in needed]
    new = {old: number for number, old in enumerate(kept)}
    return dataclasses.replace(
        graph,
        inputs=tuple(graph.inputs[i] for i in kept if i < first),
        nodes=tuple(
            dataclasses.replace(
                graph.nodes[i - first],
                operands=tuple(new[o] for o in graph.nodes[i - first].operands),
            )
            for i in kept
            if i >= first
        ),
        outputs=tuple(new[i] for i in graph.outputs),
        aliases=tuple((new[a], new[b]) for a, b in graph.aliases),
    )


def smaller(graph: Graph) -> Iterator[Graph]:
    """Candidates: fewer outputs, an inner value as output, a node bypassed, plainer inputs."""
    for index in range(len(graph.outputs)):
        if len(graph.outputs) > 1 or graph.aliases:
            yield dataclasses.replace(
                graph, outputs=graph.outputs[:index] + graph.outputs[index + 1 :]
            )
    if graph.aliases:
        yield dataclasses.replace(
            graph, aliases=(), outputs=graph.outputs or (graph.aliases[0][0],)
        )
    first = len(graph.inputs)
    for position, number in enumerate(graph.outputs):
        if number >= first:
            for operand in graph.nodes[number - first].operands:
                if operand >= first:
                    outputs = list(graph.outputs)
                    outputs[position] = operand
                    yield dataclasses.replace(graph, outputs=tuple(outputs))
    values = graph.evaluate()
    for index in range(len(graph.nodes)):
        number = first + index
        for operand in graph.nodes[index].operands:
            same = (values[operand].sizes, values[operand].dtype, values[operand].broadcast) == (
                values[number].sizes,
                values[number].dtype,
                values[number].broadcast,
            )
            if same:
                yield bypassed(graph, number, operand)
    for index, each in enumerate(graph.inputs):
        plain = dataclasses.replace(
            each,
            order=tuple(range(len(each.sizes))),
            expanded=(False,) * len(each.sizes),
            padding=0,
            step=1,
            offset=0,
            declaration="contiguous",
        )
        if plain != each:
            inputs = (*graph.inputs[:index], plain, *graph.inputs[index + 1 :])
            yield dataclasses.replace(graph, inputs=inputs)


def bypassed(graph: Graph, number: int, operand: int) -> Graph:
    def swap(i: int) -> int:
        return operand if i == number else i

    return dataclasses.replace(
        graph,
        nodes=tuple(
            dataclasses.replace(node, operands=tuple(map(swap, node.operands)))
            for node in graph.nodes
        ),
        outputs=tuple(map(swap, graph.outputs)),
    )


def shrink(graph: Graph, fails: Callable[[Graph], bool], seconds: float = 60.0) -> Graph:
    """A smaller graph that still fails (greedy, for at most `seconds`)."""
    deadline = time.monotonic() + seconds
    progress = True
    while progress:
        progress = False
        for candidate in smaller(graph):
            if time.monotonic() > deadline:
                return graph
            candidate = without_dead_code(candidate)
            if candidate != graph and fails(candidate):
                graph, progress = candidate, True
                break
    return graph


def failure(graph: Graph, device: torch.device) -> str | None:
    try:
        run_graph(graph, device)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def kind_of(message: str) -> str:
    """Failures of one kind are shrunk as one: a mismatch must not turn into another error."""
    return message.split(":", 1)[0]


def report(
    seed: int, device: torch.device, shrink_seconds: float, mix: str = "pointwise"
) -> tuple[str | None, int]:
    """None, or what fails at `seed` with a script; and how many kernels were refused."""
    try:
        graph = generate(seed, mix)
    except Exception as error:
        return f"seed {seed}: the generator itself failed: {error!r}", 0
    try:
        return None, run_graph(graph, device)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"

    def fails(candidate: Graph) -> bool:
        try:
            candidate.evaluate()
        except Exception:
            return False
        other = failure(candidate, device)
        return other is not None and kind_of(other) == kind_of(message)

    small = shrink(without_dead_code(graph), fails, shrink_seconds) if shrink_seconds else graph
    final = failure(small, device) or message
    commented = "\n".join(f"# {line}" for line in final.splitlines()[:12])
    return f"seed {seed}: {message[:400]}\n{commented}\n{small.script()}", 0


# ------------------------------------------------------------------------------------------ program


@dataclass
class Outcome:
    """What `run_seeds` found: seeds that passed, reports of those that did not, refused kernels."""

    passed: int = 0
    fallbacks: int = 0
    failures: list[str] = field(default_factory=list)


def run_seeds(
    seeds: Sequence[int],
    workers: int,
    device: str,
    shrink_seconds: float = 30.0,
    env: dict[str, str] | None = None,
    progress: bool = False,
    mix: str = "pointwise",
) -> Outcome:
    """Runs the seeds in worker processes; one that dies is reported with its seed and replaced."""
    outcome = Outcome()
    queues = [list(seeds[start::workers]) for start in range(workers)]
    running = {
        index: start_worker(queue, device, shrink_seconds, env, mix)
        for index, queue in enumerate(queues)
        if queue
    }
    while running:
        for index, process in list(running.items()):
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                process.wait()
                queue = queues[index]
                del running[index]
                if queue:
                    seed = queue.pop(0)
                    errors = process.stderr.read() if process.stderr else ""
                    outcome.failures.append(
                        f"seed {seed}: the process ended with {process.returncode}\n"
                        f"{errors[-3000:]}\n" + generate(seed, mix).script()
                    )
                    if queue:
                        running[index] = start_worker(queue, device, shrink_seconds, env, mix)
                continue
            message = json.loads(line)
            queues[index].remove(message["seed"])
            outcome.fallbacks += message["fallbacks"]
            if message["failure"] is None:
                outcome.passed += 1
            else:
                outcome.failures.append(message["failure"])
            if progress:
                show_progress(outcome, len(seeds))
    if progress:
        print(file=sys.stderr)
    return outcome


def show_progress(outcome: Outcome, total: int) -> None:
    done = outcome.passed + len(outcome.failures)
    if not sys.stderr.isatty() and done % max(1, total // 20) and done != total:
        return
    filled = 40 * done // total
    bar = "#" * filled + "." * (40 - filled)
    print(
        f"\r[{bar}] {done}/{total}, {len(outcome.failures)} failed",
        end="",
        file=sys.stderr,
        flush=True,
    )


def start_worker(
    seeds: Sequence[int],
    device: str,
    shrink_seconds: float,
    env: dict[str, str] | None,
    mix: str,
) -> subprocess.Popen[str]:
    environment = {**os.environ, **(env or {})}
    here = str(Path(__file__).resolve().parent)
    paths = [here, environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    arguments = ["--worker", "--device", device, "--shrink", str(shrink_seconds)]
    arguments += ["--mix", mix, "--list", ",".join(map(str, seeds))]
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", __file__, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def work(seeds: Sequence[int], device: torch.device, shrink_seconds: float, mix: str) -> None:
    """A worker: one JSON line a seed on the real stdout; what else is printed goes to stderr."""
    torch.set_num_threads(1)
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for seed in seeds:
        failed, fallbacks = report(seed, device, shrink_seconds, mix)
        line = json.dumps({"seed": seed, "failure": failed, "fallbacks": fallbacks})
        print(line, file=channel, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="", help="first:last")
    parser.add_argument("--count", type=int, default=200, help="number of seeds if none are given")
    parser.add_argument("--adversary", type=int, default=0, help="NVFUSER_HOST_ADVERSARIAL")
    parser.add_argument("--no-fallbacks", action="store_true", help="a refused kernel is a failure")
    parser.add_argument("--list", default="", help="seeds by number, with commas")
    parser.add_argument("--device", default=os.environ.get("NVFUSER_TEST_DEVICE", "cpu"))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--shrink", type=float, default=30.0, help="seconds to shrink each failure")
    parser.add_argument("--mix", default="pointwise", choices=[*MIXES])
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--show", action="store_true", help="print the scripts and run nothing")
    options = parser.parse_args()
    if options.list:
        seeds = [int(each) for each in options.list.split(",")]
    elif options.seeds:
        start, stop = map(int, options.seeds.split(":"))
        seeds = list(range(start, stop))
    else:
        first = 10_000 * options.adversary
        seeds = list(range(first, first + options.count))
    if options.show:
        for seed in seeds:
            print(generate(seed, options.mix).script())
        return 0
    if options.worker:
        work(seeds, torch.device(options.device), options.shrink, options.mix)
        return 0
    env: dict[str, str] = {}
    if options.adversary:
        env["NVFUSER_HOST_ADVERSARIAL"] = str(options.adversary)
    if options.no_fallbacks:
        env["NVFUSER_TEST_NO_FALLBACKS"] = "1"
    begin = time.monotonic()
    outcome = run_seeds(
        seeds, options.workers, options.device, options.shrink, env, progress=True, mix=options.mix
    )
    for each in outcome.failures:
        print(each)
    summary = {
        "count": len(seeds),
        "failures": len(outcome.failures),
        "fallbacks": outcome.fallbacks,
        "seconds": round(time.monotonic() - begin, 1),
    }
    print(json.dumps(summary))
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
