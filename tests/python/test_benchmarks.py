# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark runner runs and checks its results; every case computes what torch computes."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import DEVICE, ON_CUDA

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(1, str(FOLDER))

import cases  # noqa: E402
import cpu  # noqa: E402
import cpu_cases  # noqa: E402
import layer_cases  # noqa: E402
import line_plot  # noqa: E402
import run as benchmark  # noqa: E402
import sanitize  # noqa: E402
import sweep  # noqa: E402
import unseen_layer_cases  # noqa: E402

NAMES = [case.name for case in cases.CASES]


def run(*arguments: str | Path, script: str = "run.py") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, FOLDER / script, "--small", "--device", DEVICE, *arguments]
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, timeout=300
    )


def runner(**options: Any) -> benchmark.Runner:
    return benchmark.Runner(DEVICE, small=True, peers=[], **options)


def test_run_writes_a_report(tmp_path: Path) -> None:
    result = run("pointwise_mul", "bias_gelu", "host", "--no-compile", "--out", tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads((tmp_path / "benchmarks.json").read_text())
    assert {"date", "torch", "device", "version"} <= report["environment"].keys()
    assert [case["name"] for case in report["cases"]] == ["pointwise_mul", "bias_gelu"]
    for case in report["cases"]:
        assert case["results"]["ours"]["microseconds"] > 0
        assert case["results"]["eager"]["percent_of_copy"] > 0
    assert {row["name"] for row in report["host"]} >= {
        "fd.execute relu(a+b)*2",
        "eager a+b",
        "cold compile",
        "new shape, kernel reused",
    }
    assert "bias_gelu" in (tmp_path / "benchmarks.txt").read_text()


def test_cases_are_chosen_by_option_and_run_without_peers(tmp_path: Path) -> None:
    result = run("--cases", "silu_mul,rope", "--no-peers", "--out", tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads((tmp_path / "benchmarks.json").read_text())
    assert [case["name"] for case in report["cases"]] == ["silu_mul", "rope"]
    assert all(list(case["results"]) == ["ours"] for case in report["cases"])
    assert report["host"] == []


def test_unknown_case_is_named() -> None:
    result = run("no_such_case")
    assert result.returncode == 2
    assert "no_such_case" in result.stderr


def rows_of_layers(tmp_path: Path, chosen: str, *options: str) -> list[dict[str, Any]]:
    named = ["--layers", chosen, "--no-peers", "--plan", "--out", tmp_path]
    result = run(*options, *named, script="layers.py")
    assert result.returncode == 0, result.stdout + result.stderr
    return json.loads((tmp_path / "layers.json").read_text())["rows"]


def test_layers_are_right_whoever_spells_them(tmp_path: Path) -> None:
    """Graphs of torch's operations: losses with gathers and scatters, rotations, norms, a step."""
    chosen = "cross entropy 32,group norm SiLU 320,torchtune,GPT-J,norm ReLU 512 7,one tensor,GPT-2"
    rows = rows_of_layers(tmp_path, chosen)
    assert len(rows) == 15
    assert not [row for row in rows if "error" in row]
    kernels = {row["name"]: row["kernels"] for row in rows}
    assert kernels["cross entropy 32000 backward"] == 1


def test_unseen_layers_are_right(tmp_path: Path) -> None:
    """Lookups, rotations, cells, clipped losses, routing, fp8 blocks, packed integers, a step."""
    chosen = "BERT,vision rope,GRU,WaveNet,VAE,GIoU,PPO,router,repetition,fp8 of b,GPTQ,Adafactor"
    rows = rows_of_layers(tmp_path, chosen, "--set", "unseen")
    assert len(rows) == 21
    assert not [row for row in rows if "error" in row]


def test_further_layers_are_right(tmp_path: Path) -> None:
    """Statistics of flattened pixels, spectra, a loss of policies."""
    chosen = "AdaIN,Whisper log,GRPO"
    rows = rows_of_layers(tmp_path, chosen, "--set", "further", "--form", "first")
    assert len(rows) == 5
    assert not [row for row in rows if "error" in row]


def test_blind_layers_are_right(tmp_path: Path) -> None:
    """Rotated pairs of normed heads, parts of gated halves, scans of chunks, adjusted logits."""
    chosen = "LTX,Boltz,Mamba-2 segment,gated linear,in-batch softmax"
    rows = rows_of_layers(tmp_path, chosen, "--set", "blind")
    assert len(rows) == 10
    # Backward, scans go from the end on, which the graphs of torch say by flips.
    assert all("_rev" in row["error"] for row in rows if "error" in row)


def test_fresh_layers_are_right(tmp_path: Path) -> None:
    """Gates of one parameter, losses of images of three colours, updates of matrices, tokens."""
    chosen = "xIELU,Charbonnier,Muon,Flux flow,TFT,batch-hard"
    rows = rows_of_layers(tmp_path, chosen, "--set", "fresh")
    assert len(rows) == 11
    assert not [row for row in rows if "error" in row]


def test_patch_layers_are_right(tmp_path: Path) -> None:
    """Pixels of patches in rows, also of odd numbers of patches; wavelets."""
    chosen = "Flux unpacked,Flux packed,Cosmos Haar,MobileViT unfolding"
    rows = rows_of_layers(tmp_path, chosen, "--set", "patches")
    assert len(rows) == 8
    assert not [row for row in rows if "error" in row]


def test_loss_layers_are_right(tmp_path: Path) -> None:
    """Of logits: of each row one element is left, or one of all."""
    rows = rows_of_layers(tmp_path, "entropy,smoothing,z-loss", "--set", "losses")
    assert len(rows) == 10
    assert not [row for row in rows if "error" in row]


def test_layers_in_other_forms_take_as_few_kernels() -> None:
    """Tokens that are flattened, heads that are split, dimensions of size 1; behind a product."""
    command = [sys.executable, FOLDER / "forms.py", "--only", "^MoE router 8|^Qwen3|^GPT-J"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout == "0 of 5 graphs differ\n"


def test_layers_take_as_few_kernels_as_they_did(tmp_path: Path) -> None:
    """At their full sizes, on an H200: nothing is run."""
    out = tmp_path / "chosen.json"
    names = "layer/(maxout|GIoU|U-Net skip|ViT emb)"
    command = [sys.executable, FOLDER / "chosen.py", "--layers", "--only", names, "--out", out]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    kernels = {name: len(each) for name, each in json.loads(out.read_text()).items()}
    assert kernels == {
        "layer/maxout 3 x 96": 1,
        "layer/maxout 3 x 96 backward": 2,
        "layer/U-Net skip group norm 1920 32": 3,
        "layer/U-Net skip group norm 1920 32 backward": 5,
        "layer/ViT embeddings 197": 1,
        "layer/ViT embeddings 197 backward": 3,
        "layer/GIoU loss": 9,  # eight of them views that take no time
        "layer/GIoU loss backward": 1,
    }


def test_spellings_are_timed_beside_each_other(tmp_path: Path) -> None:
    options = ("--families", "swiglu,softmax_backward", "--out", tmp_path)
    result = run(*options, script="spelling_times.py")
    assert result.returncode == 0, result.stdout + result.stderr
    rows = json.loads((tmp_path / "spellings.json").read_text())["rows"]
    names = ["swiglu", "swiglu_backward", "softmax_backward"]
    assert {row["name"] for row in rows} == {
        *names,
        "log_softmax_backward",
        "masked_softmax_backward",
    }
    for row in rows:
        assert "error" not in row, row
        ratios = [each["ratio"] for each in row["spellings"].values()]
        assert len(ratios) >= 6 and min(ratios) == 1
    assert "x fastest" in (tmp_path / "spellings.txt").read_text()


def test_spellings_are_planned_at_the_sizes_of_models(tmp_path: Path) -> None:
    command = [sys.executable, FOLDER / "spelling_times.py", "--plan", "--families", "rms_norm"]
    result = subprocess.run(
        list(map(str, [*command, "--out", tmp_path])),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    rows = json.loads((tmp_path / "spellings.json").read_text())["rows"]
    forward = next(row["spellings"] for row in rows if row["name"] == "rms_norm")
    assert all(each["bytes"] == 2 * 2 * (2 << 24) + 2 * 4096 for each in forward.values())
    assert forward["thunder"]["text"] == forward["llama_pow"]["text"]
    assert forward["thunder"]["memory"] == 2 * (2 << 24)


def test_the_sets_of_layers_are_whole() -> None:
    names = [layer.name for layer in layer_cases.LAYERS + unseen_layer_cases.UNSEEN_LAYERS]
    assert len(layer_cases.LAYERS) == 71
    assert len(unseen_layer_cases.UNSEEN_LAYERS) == 60
    assert len(set(names)) == 131


def test_the_table_is_whole() -> None:
    assert len(NAMES) == len(set(NAMES)) == 19


@pytest.mark.parametrize("name", NAMES)
def test_case_agrees_with_its_reference(name: str) -> None:
    row = runner().case(cases.BY_NAME[name])
    assert "error" not in row, row
    assert row["bytes"] > 0
    assert row["results"]["ours"]["microseconds"] > 0


@pytest.mark.parametrize("dtype", [torch.half, torch.float])
@pytest.mark.parametrize("name", ["softmax_fwd", "layernorm_fwd", "rmsnorm_bwd", "reduce_outer"])
def test_case_at_another_size_and_dtype(name: str, dtype: torch.dtype) -> None:
    row = runner().case(cases.BY_NAME[name].at((7, 1000), dtype))
    assert "error" not in row, row
    assert row["sizes"] == "7x1000"


# But for those whose torch function draws random numbers of its own.
@pytest.mark.parametrize("name", [case.name for case in cases.CASES if not case.hidden])
def test_torch_function_agrees_with_the_reference(name: str) -> None:
    """Peers are timed for computing the same thing."""
    case = dataclasses.replace(cases.BY_NAME[name], dtype=torch.float)
    inputs = case.inputs(torch.device("cpu"), small=True)
    references = case.references(inputs)
    results = cases.as_list(case.eager(*inputs)) + [inputs[i] for i in case.updates]
    assert len(results) == len(references)
    for result, reference in zip(results, references, strict=True):
        assert benchmark.relative_error(result, reference) < 1e-4


def test_a_wrong_result_is_not_timed() -> None:
    def define_wrong(fd: Any, inputs: Any) -> None:
        a, b = (fd.from_pytorch(tensor) for tensor in inputs)
        fd.add_output(fd.ops.cast(fd.ops.add(a, b), cases.of.DataType.BFloat16))

    row = runner().case(dataclasses.replace(cases.CASES[0], define=define_wrong))
    assert "wrong result" in row["error"]
    assert "results" not in row


def test_a_failing_case_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def define_badly(fd: Any, inputs: Any) -> None:
        raise RuntimeError("first line\nsecond line")

    row = runner().case(dataclasses.replace(cases.CASES[0], define=define_badly))
    assert row["error"] == "RuntimeError: first line"
    assert capsys.readouterr().out == ""


def test_a_failing_peer_does_not_hide_ours() -> None:
    def fail(*inputs: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no such kernel")

    case = dataclasses.replace(
        cases.CASES[0], eager=fail, reference=cases.BY_NAME["pointwise_mul"].eager
    )
    row = benchmark.Runner(DEVICE, small=True, peers=["eager"]).case(case)
    assert row["results"]["eager"] == {"error": "RuntimeError: no such kernel"}
    assert row["results"]["ours"]["microseconds"] > 0


def test_tuned_parameters_are_timed_beside_the_others() -> None:
    row = runner(tune_seconds=2.0).case(cases.BY_NAME["silu_mul"])
    assert row["results"]["tuned"]["microseconds"] > 0
    assert "as the heuristics choose" in row["results"]["tuned"]["report"]


def test_a_spent_budget_starts_nothing() -> None:
    row = runner(budget=-1.0).case(cases.CASES[0])
    assert "budget" in row["error"]


def test_sweep_writes_points_table_and_plot(tmp_path: Path) -> None:
    options = ("--families", "softmax,reduce_outer", "--levels", "1", "--no-compile")
    result = run(*options, "--out", tmp_path, script="sweep.py")
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads((tmp_path / "sweep.json").read_text())
    assert {(row["family"], row["width"]) for row in report["points"]} == {
        (family, width)
        for family in ("softmax", "reduce_outer")
        for width in (16, 64, 256, 1024, 4096)
    }
    assert "x best peer" in (tmp_path / "sweep.txt").read_text()
    xml.etree.ElementTree.parse(tmp_path / "sweep.svg")


def test_sweep_covers_every_family_before_it_repeats_one() -> None:
    families = list(sweep.FAMILIES)
    order = list(sweep.points(families, len(sweep.LEVELS), small=False))
    assert [point.family for point in order[: len(families)]] == families
    assert len(order) == len(set(order))
    widths = {point.width for point in order}
    assert min(widths) <= 1024 and max(widths) >= 256 * 1024
    assert any(width & (width - 1) for width in widths)
    assert {point.dtype for point in order} == set(sweep.DTYPES)


def test_line_plot_holds_every_point() -> None:
    curve = line_plot.Series("ours", [(1024, 10.0), (4096, 20.0)])
    text = line_plot.line_plot("a < b", [line_plot.Panel("one", [curve])], 25.0, "copy")
    root = xml.etree.ElementTree.fromstring(text)
    assert len(root.findall("{*}circle")) == 2
    assert "a < b" in [node.text for node in root.findall("{*}text")]


def sanitizer_slice(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(FOLDER / "sanitize.py"), "--device", str(DEVICE), *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **environment},
    )


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("seed", ["0", "3"])
def test_slice_for_the_sanitizer(seed: str) -> None:
    """Right results and the kinds of kernels it is there for; on the host also adversarially."""
    done = sanitizer_slice("--run", NVFUSER_HOST_ADVERSARIAL=seed)
    assert done.returncode == 0, done.stdout + done.stderr
    names = [sample.name for sample in sanitize.SAMPLES]
    assert done.stdout.splitlines() == [sanitize.BEGIN + name for name in names]


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        ("========= ERROR SUMMARY: 0 errors", 0),
        ("========= Invalid __global__ read of size 4 bytes", 1),
    ],
)
def test_reports_of_the_sanitizer(tmp_path: Path, report: str, expected: int) -> None:
    """Of a program that takes the sanitizer's place."""
    stand_in = tmp_path / "sanitizer"
    stand_in.write_text(f"#!/bin/sh\nshift 6\n\"$@\" && echo '{report}'\n")
    stand_in.chmod(0o755)
    done = sanitizer_slice("--sanitizer", str(stand_in), "--tools", "racecheck", "pointwise")
    assert done.returncode == expected, done.stdout + done.stderr
    first = done.stdout.splitlines()[0].split()
    assert first == ["racecheck", "pointwise", "REPORTS" if expected else "ok"]


def test_a_missing_sanitizer_is_said() -> None:
    done = sanitizer_slice("--sanitizer", "/no/such/program", "--tools", "memcheck")
    assert done.returncode == 1
    assert "is not to be found" in done.stdout


def test_chosen_parameters_are_compared(tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    script = [sys.executable, FOLDER / "chosen.py", "--only", "^case/(softmax_fwd|silu_mul)$"]

    def chosen(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = list(map(str, [*script, *arguments]))
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    assert chosen("--out", before).returncode == 0
    kernels = json.loads(before.read_text())
    assert set(kernels) == {"case/softmax_fwd", "case/silu_mul"}
    assert kernels["case/softmax_fwd"][0]["scheduler"] == "inner_persistent"
    same = chosen("--compare", before)
    assert same.returncode == 0 and "2 definitions, 0 kernels differ" in same.stdout, same.stderr
    kernels["case/silu_mul"][0]["launch"] = "grid [1, 1, 1]"
    before.write_text(json.dumps(kernels))
    other = chosen("--compare", before)
    assert other.returncode == 1 and "case/silu_mul, kernel 0: grid [1, 1, 1]" in other.stdout


@pytest.mark.skipif(ON_CUDA, reason="of CPU tensors")
@pytest.mark.parametrize("family", [*cpu_cases.TABLE, *cpu_cases.MORE], ids=lambda f: f.name)
def test_cases_of_the_cpu_compute_what_torch_does(family: cpu_cases.Family) -> None:
    """Runs the definition and eager torch; both are checked against float64."""
    for dtype in (torch.float, torch.bfloat16) if family.dtype is None else (family.dtype,):
        row = cpu.CpuRunner(True, ["eager"], 60, 0).case(family.at(1000, dtype))
        assert "error" not in row, row
        assert "error" not in row["results"]["eager"], row


def test_pages_get_the_table_of_a_cpu_run(tmp_path: Path) -> None:
    result = {"microseconds": 2000.0, "percent_of_copy": 90.0, "gb_per_s": 9.0}
    row = {"family": "a * b", "elements": 8, "dtype": "float32", "sizes": "2x4"}
    row |= {"results": {"ours": result, "eager": result | {"microseconds": 3000.0}}}
    report = {
        "environment": {"threads": "2", "device": "a", "torch": "b", "date": "c"},
        "copy_gb_per_s": 10.0,
        "points": [cpu.add_speedups(row)],
    }
    report["means"] = cpu.means(report["points"])
    (tmp_path / "cpu.json").write_text(json.dumps(report))
    (tmp_path / "docs" / "measurements").mkdir(parents=True)
    for name in cpu.PAGES:
        (tmp_path / name).write_text(
            "before\n<!-- figures: cpu -->\nold\n<!-- end of figures -->\nafter\n"
        )
    assert len(cpu.fill(tmp_path / "cpu.json", tmp_path)) == len(cpu.PAGES)
    text = (tmp_path / "README.md").read_text()
    assert "| a * b, 2 x 4 | 2.00 | 90 % | 1.50 | - |" in text
    assert "old" not in text and text.startswith("before") and text.endswith("after\n")


def test_odd_widths(tmp_path: Path) -> None:
    out = tmp_path / "odd.json"
    options = ["--device", DEVICE, "--elements", "4096", "--samples", "4", "--widths", "70"]
    command = [sys.executable, FOLDER / "odd_widths.py", *options, "--out", out]
    result = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, timeout=300
    )
    assert result.returncode == 0, result.stdout + result.stderr
    points = json.loads(out.read_text())["points"]
    assert [point["next"] for point in points] == [128] * 8
    assert all(point["speed"] > 0 for point in points)
