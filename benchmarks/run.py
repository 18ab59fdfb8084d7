# SPDX-License-Identifier: BSD-3-Clause
"""Time this compiler, eager torch and torch.compile in one process, against copy speed.

    python benchmarks/run.py                       everything, on the GPU if there is one
    python benchmarks/run.py bias_gelu host        only these (also --cases bias_gelu,host)
    python benchmarks/run.py --no-peers            only ours
    python benchmarks/run.py --tune 20             also with what autotune finds in 20 s
    python benchmarks/run.py --budget 200          starts no case after 200 seconds
    python benchmarks/run.py --small               tiny sizes: does everything run?

Device times are medians with a cold L2. `%cp` is bytes (every input read once, every output written
once) over time, in percent of the bandwidth of a device copy measured in the same run. Every result
is checked against float64 torch before it is timed. A case that fails is a line of the report.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import report as reports
import torch
from cases import BY_NAME, CASES, Case, as_list, bytes_moved, definition_of
from nvfuse_direct import FusionDefinition, TuningReport, autotune
from timing import Call, DeviceTimer, enqueue_seconds, host_seconds, wall_seconds

# Errors that a result may have, as relative_error() counts them: one rounding, and for float32 and
# float64 the roundings of a long sum.
TOLERANCE = {
    torch.bfloat16: 2.0**-6,
    torch.half: 2.0**-9,
    torch.float: 2e-4,
    torch.double: 1e-12,
    torch.int64: 0.0,
}


def relative_error(result: torch.Tensor, reference: torch.Tensor) -> float:
    """Largest error, relative to the value or the root mean square of all values."""
    if reference.numel() == 0:
        return 0.0
    reference = reference.double()
    scale = reference.abs().clamp(min=reference.square().mean().sqrt().item())
    return ((result.double() - reference).abs() / scale).nan_to_num(math.inf).max().item()


class Runner:
    """One benchmark run on one device."""

    def __init__(
        self,
        device: torch.device,
        small: bool = False,
        peers: Sequence[str] = ("eager", "compile"),
        budget: float = math.inf,
        tune_seconds: float = 0.0,
    ) -> None:
        self.device = device
        self.tune_seconds = tune_seconds
        self.small = small
        self.providers = ["ours", *(["tuned"] if tune_seconds else []), *peers]
        self.deadline = time.monotonic() + budget
        self.timer = DeviceTimer(device)
        # Samples are taken in rounds over all providers, so that a drift of the clocks hits all
        # alike.
        fast = small or device.type == "cpu"
        self.rounds, self.samples = (1, 2) if fast else (3, 20)
        copy_bytes = 1 << (20 if small or device.type == "cpu" else 30)
        self.copy_bandwidth = self.timer.copy_bandwidth(copy_bytes, 5 if small else 40)

    # ---------------------------------------------------------------------------------- device time

    def case(self, case: Case) -> dict[str, Any]:
        """Check and time one case; what goes wrong is part of the result, the run goes on."""
        sizes = "x".join(map(str, case.small if self.small else case.sizes))
        row: dict[str, Any] = {
            "name": case.name,
            "formula": case.formula,
            "sizes": sizes,
            "target": case.target,
        }
        if time.monotonic() > self.deadline:
            return row | {"error": "not run: the time budget is spent"}
        try:
            # What a failing definition prints is not part of the report.
            with contextlib.redirect_stdout(io.StringIO()):
                return row | self._measure(case)
        except Exception as error:
            return row | {"error": reports.one_line(error)}
        finally:
            if self.device.type == "cuda":
                torch.cuda.empty_cache()

    def _measure(self, case: Case) -> dict[str, Any]:
        inputs = case.inputs(self.device, self.small)
        calls = self.calls(case, inputs, self.providers)
        tuning = None
        if "tuned" in self.providers:
            calls["tuned"], tuning = self._tuned(case, inputs)
        references = self._references(case, inputs)
        results: dict[str, dict[str, Any]] = {}
        for name, call in calls.items():
            try:
                results[name] = {"max_error": self._check(name, case, inputs, call, references)}
            except Exception as error:
                if name == "ours":
                    raise
                results[name] = {"error": reports.one_line(error)}
        size = bytes_moved(inputs, as_list(calls["ours"]()))
        del references

        working = {name: call for name, call in calls.items() if "error" not in results[name]}
        for name, values in self.timer.in_turns(working, self.rounds, self.samples).items():
            results[name] |= self._figures(values, size)
        if tuning is not None:
            results["tuned"]["report"] = str(tuning)
        return {"bytes": size, "results": results} | self._verdict(case, results)

    def _tuned(self, case: Case, inputs: list[Any]) -> tuple[Call, TuningReport]:
        """Ours with the parameters that autotune finds; nothing is kept on disk."""
        fd = definition_of(case.define, inputs)
        tuning = autotune(fd, inputs, seconds=self.tune_seconds, keep=False)
        fd.execute(inputs)
        fd.fec._set_params(tuning.params)
        return lambda: fd.execute(inputs), tuning

    @staticmethod
    def calls(case: Case, inputs: list[Any], providers: Sequence[str]) -> dict[str, Call]:
        """What is timed, by provider."""
        fd = definition_of(case.define, inputs)
        eager = case.eager
        calls: dict[str, Call] = {"ours": lambda: fd.execute(inputs)}
        if "eager" in providers:
            calls["eager"] = lambda: eager(*inputs)
        if "compile" in providers:
            torch.compiler.reset()
            compiled = torch.compile(eager, fullgraph=True, dynamic=False)
            calls["compile"] = lambda: compiled(*inputs)
        return calls

    def _verdict(self, case: Case, results: dict[str, dict[str, Any]]) -> dict[str, Any]:
        peers = [
            result["microseconds"]
            for name, result in results.items()
            if name in ("eager", "compile") and "microseconds" in result
        ]
        ours = results["ours"]
        met = ours["percent_of_copy"] >= case.target
        meaningful = self.device.type == "cuda" and not self.small
        return {
            "verdict": ("met" if met else "missed") if meaningful else "",
            "ratio_to_best_peer": min(peers) / ours["microseconds"] if peers else None,
        }

    @staticmethod
    def _references(case: Case, inputs: list[Any]) -> list[torch.Tensor]:
        return case.references(inputs)

    def _check(
        self,
        name: str,
        case: Case,
        inputs: list[Any],
        call: Call,
        references: list[torch.Tensor],
    ) -> float:
        """Largest error of all outputs; ours may have no more than rounding."""
        before = {position: inputs[position].clone() for position in case.updates}
        results = as_list(call()) + [inputs[position].clone() for position in case.updates]
        for position, value in before.items():
            inputs[position].copy_(value)
        if len(results) != len(references):
            raise ValueError(f"{len(results)} outputs, expected {len(references)}")
        worst = 0.0
        for index, (result, reference) in enumerate(zip(results, references, strict=True)):
            if result.shape != reference.shape:
                raise ValueError(f"shape {tuple(result.shape)}, expected {tuple(reference.shape)}")
            error = relative_error(result, reference)
            if name == "ours" and not error <= TOLERANCE[result.dtype]:
                raise ValueError(f"wrong result: output {index}, error {error:.3g} against float64")
            worst = max(worst, error)
        return worst

    def _figures(self, seconds: list[float], size: int) -> dict[str, float]:
        median = statistics.median(seconds)
        return {
            "microseconds": median * 1e6,
            "gb_per_s": size / median / 1e9,
            "percent_of_copy": 100 * size / median / self.copy_bandwidth,
        }

    # ------------------------------------------------------------------------------------ host time

    def host_rows(self, announce: Callable[[str], None]) -> list[dict[str, Any]]:
        """Host cost of a cached call beside its peers, of a cold compile, of a new shape."""
        rows = []
        for name, measure in [
            ("cost of a call", self._call_costs),
            ("cold compile", self._cold_compile),
            ("new shape", self._new_shape),
        ]:
            announce(f"host: {name}")
            try:
                rows += measure()
            except Exception as error:
                rows.append({"name": name, "microseconds": None, "note": reports.one_line(error)})
        return rows

    def _pair(self, rows: int = 64) -> list[torch.Tensor]:
        return [torch.randn(rows, 64, device=self.device) for _ in range(2)]

    def _relu_fusion(self, inputs: list[torch.Tensor], factor: float = 2.0) -> FusionDefinition:
        with FusionDefinition() as fd:
            a, b = (fd.define_tensor(shape=[-1, -1], contiguity=[True, True]) for _ in inputs)
            fd.add_output(fd.ops.mul(fd.ops.relu(fd.ops.add(a, b)), factor))
        return fd

    def _call_costs(self) -> list[dict[str, Any]]:
        inputs = self._pair()
        a, b = inputs
        fd = self._relu_fusion(inputs)
        torch.testing.assert_close(fd.execute(inputs)[0], torch.relu(a + b) * 2)
        calls: dict[str, Call] = {
            "fd.execute relu(a+b)*2": lambda: fd.execute(inputs),
            "eager a+b": lambda: a + b,
            "eager relu(a+b)*2": lambda: torch.relu(a + b) * 2,
            "torch.empty_like": lambda: torch.empty_like(a),
        }
        if "compile" in self.providers:
            compiled = torch.compile(lambda x, y: torch.relu(x + y) * 2)
            calls["torch.compile relu(a+b)*2"] = lambda: compiled(a, b)
        batches, count = (3, 10) if self.small else (25, 400)
        seconds = host_seconds(calls, self.device, batches, count)
        reference = seconds["eager a+b"]
        return [
            {
                "name": name,
                "microseconds": value * 1e6,
                "note": f"{value / reference:.2f} x eager a+b",
            }
            for name, value in seconds.items()
        ]

    def _cold_compile(self) -> list[dict[str, Any]]:
        inputs = self._pair()

        def define_and_run() -> None:
            # A constant that no kernel had before: no cache, in memory or on disk, can hold it.
            self._relu_fusion(inputs, factor=1.0 + random.SystemRandom().random()).execute(inputs)

        define_and_run()
        seconds = [
            wall_seconds(define_and_run, self.device) for _ in range(2 if self.small else 10)
        ]
        note = f"define to result, nothing cached; worst {max(seconds) * 1e3:.0f} ms"
        return [
            {"name": "cold compile", "microseconds": statistics.median(seconds) * 1e6, "note": note}
        ]

    def _new_shape(self) -> list[dict[str, Any]]:
        fd = self._relu_fusion(self._pair())
        fd.execute(self._pair(128))
        seconds = []
        for rows in range(129, 133 if self.small else 193):
            inputs = self._pair(rows)
            seconds.append(enqueue_seconds(lambda inputs=inputs: fd.execute(inputs), self.device))
        note = f"first call with it; worst {max(seconds) * 1e6:.0f} us"
        return [
            {
                "name": "new shape, kernel reused",
                "microseconds": statistics.median(seconds) * 1e6,
                "note": note,
            }
        ]

    def report(self, names: Sequence[str]) -> dict[str, Any]:
        """Run what was asked for."""
        cases = [case for case in CASES if not names or case.name in names]
        wants_host = not names or "host" in names
        progress = reports.Progress(len(cases) + 3 * wants_host)
        rows = []
        for case in cases:
            progress.step(case.name)
            rows.append(self.case(case))
        host = self.host_rows(progress.step) if wants_host else []
        progress.close()
        return {
            "environment": reports.environment(self.device),
            "small": self.small,
            "providers": self.providers,
            "copy_gb_per_s": self.copy_bandwidth / 1e9,
            "cases": rows,
            "host": host,
        }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", help="cases to run, and 'host' for host costs; all by default"
    )
    parser.add_argument("--cases", default="", help="more names, separated by commas")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--small", "--smoke", action="store_true", help="tiny sizes and few samples"
    )
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--no-peers", action="store_true", help="only ours")
    parser.add_argument(
        "--budget", type=float, default=math.inf, help="seconds after which no case is started"
    )
    parser.add_argument(
        "--tune", type=float, default=0.0, help="seconds of autotune for each case; 0: none"
    )
    parser.add_argument("--out", type=Path, help="folder for the JSON, text and plot files")
    parser.add_argument("--stem", default="benchmarks", help="name of those files, without suffix")
    args = parser.parse_args()
    names = [*args.names, *filter(None, args.cases.split(","))]
    known = {*BY_NAME, "host"}
    if unknown := set(names) - known:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(sorted(known))}")

    peers = [] if args.no_peers else ["eager"] if args.no_compile else ["eager", "compile"]
    runner = Runner(torch.device(args.device), args.small, peers, args.budget, args.tune)
    report = runner.report(names)
    print(reports.text(report))
    if args.out:
        for path in reports.write(report, args.out, args.stem):
            print(f"wrote {path}", file=sys.stderr)
    failed = [case["name"] for case in report["cases"] if "error" in case]
    failed += [row["name"] for row in report["host"] if row["microseconds"] is None]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
