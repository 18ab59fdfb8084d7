# SPDX-License-Identifier: BSD-3-Clause
"""Time the spellings of each family of tests/python/spellings: all should take as long.

    python benchmarks/spelling_times.py                       all, on the GPU if there is one
    python benchmarks/spelling_times.py --families rope,norm  those whose names contain one of these
    python benchmarks/spelling_times.py --plan                no times: kernels, bytes, memory on an
                                                              H200
    python benchmarks/spelling_times.py --small --device cpu  tiny sizes: does everything run?
    python benchmarks/spelling_times.py --out benchmarks/results --stem h200_spellings

A family is one computation as frontends, model code and papers spell it; here its tensors are as
large as those of models. Spellings take turns; times are medians with a cold L2, and each result is
compared with float64 first. Spellings of a family that have the same letter have the same kernels:
texts, but for the names of variables, and launches. With --plan nothing is compiled or run, and
tensors have no values; memory is then what the plan says that a call allocates.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--families", default="", help="parts of names, separated by commas")
    parser.add_argument("--device", help="cuda or cpu")
    parser.add_argument("--plan", action="store_true", help="kernels, bytes, memory; no times")
    parser.add_argument("--small", action="store_true", help="tiny sizes, few samples")
    parser.add_argument(
        "--budget", type=float, default=math.inf, help="seconds after which none is started"
    )
    parser.add_argument("--out", type=Path, help="folder for the JSON and text files")
    parser.add_argument("--stem", default="spellings", help="name of those files, without suffix")
    return parser.parse_args()


# Before the imports below: the package and the families read the environment once.
ARGS = arguments()
os.environ["NVFUSER_SPELLING_SIZES"] = "small" if ARGS.small else "model"
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "python"))
if ARGS.plan:
    import chosen  # sets what planning for an H200 takes, without a compiler

import hashlib  # noqa: E402
import re  # noqa: E402
from typing import Any  # noqa: E402

import report as reports  # noqa: E402
import torch  # noqa: E402
from cases import as_list  # noqa: E402
from nvfuse_direct import FusionDefinition  # noqa: E402
from spellings import FAMILIES, Family  # noqa: E402
from spellings.measure import define, error_of  # noqa: E402
from timing import Call, Stopwatch  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

# Of the fastest spelling's time, beyond which one counts as slower.
MOST = 1.03
VARIABLE = re.compile(r"\b(T|j|idx|scalar)(\d+)\b")


def with_variables_in_order(text: str) -> str:
    """A kernel's text with its variables numbered as they appear in it."""
    numbers: dict[str, int] = {}
    return VARIABLE.sub(lambda m: f"{m[1]}{numbers.setdefault(m[0], len(numbers))}", text)


def digest_of(segments: list[dict[str, Any]]) -> str:
    digest = hashlib.sha256()
    for each in segments:
        name = each["kernel_name"] or "-"
        text = with_variables_in_order(each["kernel_text"].replace(name, "kernel"))
        digest.update((text + each["launch"].replace(name, "kernel")).encode())
    return digest.hexdigest()[:16]


def planned(fd: FusionDefinition, inputs: list[torch.Tensor]) -> dict[str, Any]:
    """Kernels, what they move, and what a call allocates."""
    cache = getattr(fd, "fec", None) or fd._make_executor_cache()
    segments = [each for each in cache._segment_reports(inputs) if each["segment_id"] >= 0]
    return {
        "kernels": len(segments),
        "bytes": sum(each["input_bytes"] + each["output_bytes"] for each in segments),
        "memory": cache._peak_bytes(inputs),
        "schedulers": [each["scheduler"] for each in segments],
        "launches": [each["launch"] for each in segments],
        "text": digest_of(segments),
    }


class SpellingRunner(Stopwatch):
    turns = (15, 3)  # short ones, so that all spellings find the device as warm

    def inputs(self, family: Family) -> list[torch.Tensor]:
        if not self.args.plan:
            with self.device:
                return family.inputs()
        with FakeTensorMode():
            fakes = family.inputs()
        return [chosen.untouched(each) for each in fakes]

    def rows(self, family: Family) -> list[dict[str, Any]]:
        """The spellings of a family by name; what goes wrong is part of the row."""
        row: dict[str, Any] = {"name": family.name, "spellings": {}}
        try:
            self.fill(row["spellings"], family)
        except Exception as error:
            row["error"] = reports.one_line(error)
        for name, found in row["spellings"].items():
            if "error" in found:
                row["error"] = f"{name}: {found['error']}"
        return [row]

    def fill(self, spellings: dict[str, dict[str, Any]], family: Family) -> None:
        inputs = self.inputs(family)
        definitions = {name: define(each, inputs) for name, each in family.spellings.items()}
        expected = [] if self.timer is None else in_float64(family, inputs)
        calls: dict[str, Call] = {}
        for name, fd in definitions.items():
            try:
                spellings[name] = planned(fd, inputs)
                if self.timer is not None:
                    error = error_of(fd.execute(inputs), expected)
                    spellings[name]["max_error"] = error
                    if not error <= family.tolerance:
                        raise ValueError(f"wrong result: error {error:.3g}")
                    calls[name] = lambda fd=fd: fd.execute(inputs)
            except Exception as error:
                spellings.setdefault(name, {})["error"] = reports.one_line(error)
        if not calls:
            return
        figures = self.measure(calls)
        fastest = min(each["microseconds"] for each in figures.values())
        for name, each in figures.items():
            spellings[name] |= each | {"ratio": each["microseconds"] / fastest}


def in_float64(family: Family, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    expected = family.reference(*(x.double() for x in inputs))
    return [each.detach() for each in as_list(expected)]


# ------------------------------------------------------------------------------------------- output


def text(report: dict[str, Any]) -> str:
    parts = [", ".join(f"{name} {value}" for name, value in report["environment"].items())]
    if report["small"]:
        parts.append("Tiny sizes: the figures mean nothing.")
    header = ["family, spelling", "kernels", "MB moved", "memory MB", "alike", "us", "x fastest"]
    cells = []
    for row in report["rows"]:
        cells.append([row["name"], *[""] * 6, row.get("error", "")])
        cells += spelling_cells(row.get("spellings", {}))
    parts.append(reports.table([*header, ""], cells))
    parts.append(summary(report["rows"]))
    return "\n\n".join(parts) + "\n"


def spelling_cells(spellings: dict[str, dict[str, Any]]) -> list[list[str]]:
    letters: dict[str, str] = {}
    cells = []
    for name, found in spellings.items():
        if "kernels" not in found:
            cells.append([f"  {name}", *["-"] * 6, found["error"]])
            continue
        letter = letters.setdefault(found["text"], chr(ord("a") + len(letters)))
        cells.append(
            [
                f"  {name}",
                str(found["kernels"]),
                f"{found['bytes'] / 1e6:.2f}",
                f"{found['memory'] / 1e6:.2f}",
                letter,
                reports.number(found.get("microseconds"), ".1f"),
                reports.number(found.get("ratio"), ".3f"),
                found.get("error", ""),
            ]
        )
    return cells


def summary(rows: list[dict[str, Any]]) -> str:
    """Where spellings differ: in kernels and bytes, in texts of kernels, in time."""
    found = {row["name"]: list(row.get("spellings", {}).values()) for row in rows}
    total = sum(map(len, found.values()))
    lines = []
    for what, keys in (("kernels or bytes", ["kernels", "bytes"]), ("texts", ["text"])):
        kinds = {name: {tuple(s.get(key) for key in keys) for s in found[name]} for name in found}
        several = [f"{name} {len(kinds[name])}" for name in found if len(kinds[name]) > 1]
        lines.append(f"Families with several {what}: " + (", ".join(several) or "none"))
    ratios = {name: [s["ratio"] for s in found[name] if "ratio" in s] for name in found}
    worst = sorted(((max(each), name) for name, each in ratios.items() if each), reverse=True)
    if worst:
        late = sum(ratio > MOST for each in ratios.values() for ratio in each)
        lines.append("The slowest spelling of each family, x fastest:")
        lines += [f"{ratio:.3f} {name}" for ratio, name in worst]
        percent = f"{100 * (MOST - 1):.0f} %"
        lines.append(f"{late} of {total} spellings take over {percent} longer than the fastest")
    return "\n".join(lines)


def main() -> int:
    if ARGS.plan:
        ARGS.device = "cpu"
    ARGS.device = ARGS.device or ("cuda" if torch.cuda.is_available() else "cpu")
    families = reports.named(FAMILIES.values(), ARGS.families)
    return SpellingRunner(ARGS).run(families, text)


if __name__ == "__main__":
    sys.exit(main())
