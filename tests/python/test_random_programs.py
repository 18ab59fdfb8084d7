# SPDX-License-Identifier: BSD-3-Clause
"""Random programs over torch functions, traced into fusions, against torch: the second generator.

Each program runs at four shapes, two of them twice in another layout, from one definition.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

import pytest
import torch
from helpers import DEVICE, LONG, ON_CUDA
from nvfuse_direct import FusionDefinition
from program_generator.check import check, realize, run_shadows
from program_generator.program import Input, Layout, Program
from program_generator.statements import Unsuitable, Writer, generate
from program_generator.templates import outer
from program_generator.translate import translate
from program_generator.workers import run_seeds

WORKERS = max(1, min(os.cpu_count() or 1, 8))


def find_nothing(seeds: Sequence[int], environment: dict[str, str] | None = None) -> None:
    results = run_seeds(seeds, WORKERS, DEVICE.type, environment)
    findings = [result for result in results if "finding" in result]
    texts = [f"{each['finding']}\n{generate(each['done']).description()}" for each in findings[:5]]
    assert not findings, "\n\n".join([f"{len(findings)} of {len(seeds)} programs", *texts])
    assert sum(result["runs"] for result in results) == 6 * len(seeds)


def test_programs_equal_torch() -> None:
    find_nothing(range(5000) if LONG else range(40))


@pytest.mark.skipif(ON_CUDA, reason="a switch of the host target")
def test_programs_equal_torch_under_an_adversary() -> None:
    """Threads in random order, shared memory poisoned, accesses checked for races."""
    count = 1000 if LONG else 12
    find_nothing(range(10_000, 10_000 + count), {"NVFUSER_HOST_ADVERSARIAL": "7"})


@pytest.mark.skipif(ON_CUDA, reason="kernels of CPU tensors")
def test_programs_equal_torch_in_kernels_for_the_host() -> None:
    find_nothing(range(20_000, 22_000 if LONG else 20_020), {"NVFUSER_MACHINE": "host"})


def test_programs_that_found_something() -> None:
    """One product less its mean, squares that underflow, sizes that are 1, chunks of what is
    empty.
    """
    find_nothing([204607, 400492, 401832, 402653, 813211, 9103016, 9106034])


# ---- the generator itself


def test_the_generator_repeats_itself() -> None:
    for seed in range(20):
        assert generate(seed).description() == generate(seed).description()


def test_the_generator_reaches_what_it_is_for() -> None:
    programs = [generate(seed) for seed in range(300)]
    text = "\n".join(program.source() for program in programs)
    for call in (
        "softmax(",
        "layer_norm(",
        "rms_norm(",
        "var_mean(",
        "cumsum(",
        "gather(",
        "index_select(",
        "F.pad(",
        "reshape(",
        ".expand",
        ".chunk(",
        "torch.cat(",
        "torch.where(",
        "scatter(",
        "unflatten(",
        ".permute(",
        "mul_(",
        "copy_(",
        ".to(",
        "torch.full(",
        "tril(",
        "amax(",
        ".size(",
        "torch.arange(",
    ):
        assert call in text, call
    layouts = {x.layout.kind for program in programs for x in program.inputs}
    assert layouts == {"contiguous", "permuted", "padded", "expanded", "strided"}
    sizes = {n for program in programs for case in program.cases for n in case.values()}
    assert {0, 1} <= sizes and any(n > 128 for n in sizes)
    assert any(x.updated for program in programs for x in program.inputs)


def test_what_happens_to_be_one_meets_no_other_size() -> None:
    """A slice of one element has none where its dimension is short, and the dimension then one."""
    whole, part, one = (4, 1, 101, 211), (1, 0, 1, 1), (1, 1, 1, 1)
    written = 0
    for seed in range(100):
        program = Program(seed, [{"A": 4}, {"A": 1}])
        program.inputs = [Input("a", ("A", "A"), torch.float32, Layout("contiguous"))]
        writer = Writer(program, random.Random(seed))
        a = writer.variables.pop("a")
        writer.write(f"{writer.fresh()} = a[3:4]", [a], exact=True)
        try:
            outer(writer)
        except Unsuitable:
            continue
        written += 1
        assert set(writer.variables["t2"].shape) <= {whole, part, one}, program.source()
    assert written > 0


def small_program(statement: str) -> Program:
    program = Program(0, [{"A": 5}, {"A": 33}])
    program.inputs = [
        Input("a", ("A", "7"), torch.float32, Layout("contiguous")),
        Input("b", ("7",), torch.float32, Layout("strided")),
    ]
    program.statements, program.outputs = [statement], ["y"]
    return program


@pytest.mark.parametrize(
    ("said", "done"),
    [
        ("y = a + b", "y = a - b"),
        ("y = a.sum(0)", "y = a[1:].sum(0)"),
        ("y = a.softmax(1)", "y = a.softmax(1) * 1.0001"),
        ("y = a.cumsum(0)", "y = a.clone()"),
        ("y = a.to(torch.bfloat16)", "y = (a * 1.05).to(torch.bfloat16)"),
        ("y = (a * 3).sum(1).float()", "y = (a * 3).sum(1).double()"),
        ("y = a > b", "y = a >= b.abs()"),
        ("y = a.var(1)", "y = a.var(1, correction=0)"),
    ],
)
def test_the_check_sees_a_difference(said: str, done: str) -> None:
    """A definition that computes something else than the program."""
    finding, _ = check(small_program(said), str(DEVICE))
    assert finding is None, finding
    finding, _ = check(small_program(said), str(DEVICE), definition=translate(small_program(done)))
    assert finding is not None and finding.kind == "wrong"


def test_the_check_sees_what_changes_inputs() -> None:
    program = small_program("y = a + 1")
    with FusionDefinition() as fd:
        a = fd.define_tensor([-1, 7], [True, True])
        b = fd.define_tensor([7], False)
        fd.add_output(fd.ops.add(a, 1.0))
        fd.add_output(fd.ops.add(b, 1.0), b)
    finding, _ = check(program, str(DEVICE), definition=fd)
    assert finding is not None and finding.message.startswith("b: ")


def test_cancellation_widens_what_is_accepted() -> None:
    """What the noise does: (a + 1e4) - 1e4 has no more than three digits left."""
    plain, cancelled = small_program("y = a + b"), small_program("y = (a + 1e4) - 1e4")
    spreads = []
    for program in (plain, cancelled):
        y = run_shadows(program, realize(program, 0, 0), 0)[0]
        spreads.append(max((x - y.tensors[1]).abs().max().item() for x in y.tensors[2:]))
    assert spreads[0] < 1e-6 < 1e-4 < spreads[1] < 1e-2


@pytest.mark.parametrize("root", ["std", "norm"])
def test_roots_of_squares_that_underflow(root: str) -> None:
    """Zero in float32, as torch has it on a GPU; on a CPU it computes them in float64."""
    for scale in ("1e-20", "1e-30", "1e-36"):
        program = small_program(f"y = (a * {scale}).{root}(dim=0)")
        finding, _ = check(program, str(DEVICE))
        assert finding is None, finding
    twice = translate(small_program(f"y = (a * 2e-15).{root}(dim=0)"))
    finding, _ = check(
        small_program(f"y = (a * 1e-15).{root}(dim=0)"), str(DEVICE), definition=twice
    )
    assert finding is not None and finding.kind == "wrong"


@pytest.mark.parametrize("widths", [(3, 0), (0, 3)])
def test_means_of_infinite_elements(widths: tuple[int, int]) -> None:
    """Torch's updates make infinity or NaN of them, by their places; sums make infinity."""
    padded = f"F.pad(a[:, :0].logsumexp(1), {widths})"
    said = small_program(f"y = torch.var_mean({padded}, (0,), correction=0)[1]")
    for seed in range(4):  # ways of the definition
        said.seed = seed
        finding, _ = check(said, str(DEVICE))
        assert finding is None, finding


def long_program(statement: str) -> Program:
    program = Program(0, [{"A": 300_000}])
    program.inputs = [Input("a", ("A",), torch.float64, Layout("contiguous"))]
    program.statements, program.outputs = [statement], ["y"]
    return program


@pytest.mark.parametrize("name", ["var", "std"])
def test_deviations_of_many_elements_in_float64(name: str) -> None:
    """Torch is off by 1e-12 here."""
    said = long_program(f"y = torch.{name}(F.relu(a), 0, correction=0)")
    finding, _ = check(said, str(DEVICE))
    assert finding is None, finding
    done = translate(long_program(f"y = torch.{name}(F.relu(a), 0, correction=0) * (1 + 1e-10)"))
    finding, _ = check(said, str(DEVICE), definition=done)
    assert finding is not None and finding.kind == "wrong"


@pytest.mark.parametrize(
    "statement",
    ["y = a[:, :0].unflatten(0, (-1, 1))", "y = a[:0].unflatten(1, (7, -1)) + 1"],
)
def test_a_dimension_is_split_beside_an_empty_one(statement: str) -> None:
    """Torch finds the size from the dimension alone."""
    for seed in range(6):  # ways of the definition
        program = small_program(statement)
        program.seed = seed
        finding, _ = check(program, str(DEVICE))
        assert finding is None, finding


def test_a_process_that_dies_is_a_finding() -> None:
    """Or takes too long; another one goes on."""
    results = run_seeds([0, 1], 1, DEVICE.type, seconds=0.01)
    assert [result["finding"]["kind"] for result in results] == ["hang", "hang"]
    environment = {"PYTHONHOME": "/nowhere"}  # Python does not start
    results = run_seeds([0], 1, DEVICE.type, environment)
    assert results[0]["finding"]["kind"] == "crash"
