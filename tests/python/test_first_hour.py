# SPDX-License-Identifier: BSD-3-Clause
"""What a user meets in the first hour: dtypes of torch, operators, names and words of messages,
keywords of execute, copies of definitions, clashes of package names."""

from __future__ import annotations

import copy
import gc
import operator
import os
import pickle
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import nvfuse_direct
import pytest
import torch
from helpers import DEVICE, TORCH, assert_same, data_type, define, run_python, tensor
from nvfuse_direct import DataType, FusionDefinition, Val

# ------------------------------------------------------------------------------ dtypes of torch


@pytest.mark.parametrize("name", TORCH)
def test_a_dtype_of_torch_and_its_names_are_a_data_type(name: str) -> None:
    dtype = TORCH[name]
    short = str(dtype).removeprefix("torch.")
    for each in (data_type(name), dtype, str(dtype), short, name):
        with FusionDefinition() as fd:
            x = fd.define_tensor([-1], True, each)
            y = fd.define_tensor([-1], True, dtype=each)
            s = fd.define_scalar(each)
            assert x.dtype() == y.dtype() == data_type(name)
            assert fd.define_scalar(None, each) is not None
            fd.add_output(x)
            assert s.is_symbolic()


def test_dtypes_are_taken_by_ops_classes_and_executors() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, "float32")
        assert fd.ops.cast(x, torch.bfloat16).dtype() == DataType.BFloat16
        assert fd.ops.cast(x, "half").dtype() == DataType.Half
        assert fd.ops.sum(x, "double").dtype() == DataType.Double
        assert fd.ops.sum(x, [1], dtype=torch.float64).dtype() == DataType.Double
        assert fd.ops.sum(x, 1, False, "torch.float64").dtype() == DataType.Double
        assert fd.ops.full([3], 1, torch.int32).dtype() == DataType.Int32
        assert fd.ops.iota(4, dtype="int32").dtype() == DataType.Int32
        assert fd.ops.uniform(0.0, 1.0, [4], dtype=torch.double).dtype() == DataType.Double
        fd.add_output(fd.ops.cast(x, "bool"))
    params = nvfuse_direct.CompileParams(index_type=torch.int32)
    assert params.index_type == DataType.Int32
    params.index_type = "int64"
    assert params.index_type == DataType.Int


@pytest.mark.parametrize("bad", ["float31", "torch.int8", torch.int8, "", "int8"])
def test_a_name_that_is_no_dtype(bad: object) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        for call in (
            lambda: fd.define_tensor([-1], True, bad),
            lambda: fd.define_scalar(bad),
            lambda: fd.ops.cast(x, bad),
            lambda: fd.ops.sum(x, bad),
        ):
            with pytest.raises(TypeError, match=r"is no element type of fusions.*float32"):
                call()


# ------------------------------------------------------------------------------------ operators

FLOATS = (tensor(4, 5), tensor(4, 5, seed=1))
INTS = (
    torch.tensor([7, -7, 7, -7, 0, 5], device=DEVICE),
    torch.tensor([2, 2, -2, -2, 3, 5], device=DEVICE),
)
BOTH = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
WHOLE = {
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}


def binary(a: torch.Tensor, b: object, op: Callable[..., object], swap: bool = False) -> None:
    """An operator on tensors, or on one and a number, gives what torch's gives."""

    def build(fd: FusionDefinition) -> None:
        x = fd.from_pytorch(a)
        y = fd.from_pytorch(b) if isinstance(b, torch.Tensor) else b
        fd.add_output(op(y, x) if swap else op(x, y))

    inputs = [a, b] if isinstance(b, torch.Tensor) else [a]
    expected = op(b, a) if swap else op(a, b)
    (out,) = define(build).execute(inputs)
    assert_same(out, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("symbol", BOTH)
def test_operators_are_those_of_torch(symbol: str) -> None:
    op = BOTH[symbol]
    for a, b in (FLOATS, INTS):
        binary(a, b, op)
        for number in (2, -3):
            binary(a, number, op)
    binary(FLOATS[0], 0.75, op)


@pytest.mark.parametrize("symbol", BOTH)
def test_reflected_operators(symbol: str) -> None:
    op = BOTH[symbol]
    binary(FLOATS[0], 2.5, op, swap=True)
    binary(INTS[1], 7, op, swap=True)
    binary(INTS[1], -7, op, swap=True)


@pytest.mark.parametrize("symbol", WHOLE)
def test_bitwise_operators(symbol: str) -> None:
    op = WHOLE[symbol]
    binary(*INTS, op)
    binary(INTS[0], 6, op)
    binary(INTS[0], 6, op, swap=True)
    binary(INTS[0] > 0, INTS[1] > 2, op)


def test_shifts_powers_and_unary_operators() -> None:
    counts = torch.tensor([0, 1, 2, 3, 4, 5], device=DEVICE)
    binary(INTS[0], counts, operator.lshift)
    binary(INTS[0], counts, operator.rshift)
    binary(FLOATS[0].abs(), FLOATS[1], operator.pow)
    binary(FLOATS[0], 2, operator.pow)
    binary(FLOATS[0], 2.0, operator.pow, swap=True)
    x, n = FLOATS[0], INTS[0]

    def build(fd: FusionDefinition) -> None:
        tx, tn = fd.from_pytorch(x), fd.from_pytorch(n)
        for each in (-tx, abs(tx), -tn, ~tn, ~(tn > 0)):
            fd.add_output(each)

    outputs = define(build).execute([x, n])
    for out, expected in zip(outputs, (-x, abs(x), -n, ~n, ~(n > 0)), strict=True):
        assert_same(out, expected)


def test_matrix_product() -> None:
    a, b = tensor(4, 5), tensor(5, 3, seed=1)
    (out,) = define(lambda fd: fd.add_output(fd.from_pytorch(a) @ fd.from_pytorch(b))).execute(
        [a, b]
    )
    assert_same(out, a @ b, rtol=1e-5, atol=1e-5)
    with FusionDefinition() as fd:
        x = fd.from_pytorch(a)
        for other in (2, fd.define_scalar("int64"), [1]):
            with pytest.raises(TypeError, match="unsupported operand"):
                x @ other


def test_floor_division_by_zero_and_of_many_values_is_torchs() -> None:
    values = torch.tensor([0.0, 1.0, -1.0, 7.5, -7.5, 1e20, -1e20, float("inf"), float("nan")])
    a, b = (each.reshape(-1).to(DEVICE) for each in torch.meshgrid(values, values, indexing="ij"))
    (out,) = define(lambda fd: fd.add_output(fd.from_pytorch(a) // fd.from_pytorch(b))).execute(
        [a, b]
    )
    assert_same(out, a // b, rtol=1e-6)


def test_operators_on_scalars() -> None:
    def build(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, -1], True)
        n = x.size(1)
        s = fd.define_scalar("float64")
        for each in (n + 1, n - 1, n * 2, n // 4, n % 4, 7 // n, -n, n**2, 1 / n, s * 2, n & 3):
            assert type(each) is Val
            fd.add_output(fd.ops.mul(fd.ops.full([2], 1.0, "float64"), each))
        fd.add_output(x * s + n)
        fd.add_output(fd.ops.reshape(x, [x.size(0) * (n // 2), 2]))

    x = tensor(3, 6)
    *scalars, last, reshaped = define(build).execute([x, 0.5])
    expected = (7, 5, 12, 1, 2, 1, -6, 36, 1 / 6, 1.0, 2)
    assert [round(float(each[1]), 6) for each in scalars] == [round(e, 6) for e in expected]
    assert_same(last, x * 0.5 + 6)
    assert_same(reshaped, x.reshape(9, 2))


def test_equality_is_identity_of_handles() -> None:
    """Section 4.1: two handles to one node compare equal; sets and dictionaries hold them."""
    with FusionDefinition() as fd:
        x, y = fd.define_tensor([-1], True), fd.define_tensor([-1], True)
        fd.add_output(x)
        assert (x == fd.fusion.inputs()[0]) is True and (x == y) is False
        assert (x != y) is True and (x == 2) is False
        assert x in [y, x] and {x: 1, y: 2}[y] == 2
        assert fd.ops.eq(x, y).dtype() == DataType.Bool


def test_a_condition_has_no_truth_while_it_is_defined() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        mask = fd.define_tensor([-1], True, "bool")
        assert x and mask and x.size(0)  # handles, as ever
        for condition in (x < 1, x.size(0) > 2, ~mask):
            with pytest.raises(TypeError, match=r"fd\.ops\.where"):
                bool(condition)
        with pytest.raises(TypeError, match="truth"):
            0 < x < 1  # noqa: B015


def test_operands_that_are_none() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        for other in ("a", None, [1.0], object(), fd.fusion, x.axis(0), torch.ones(3)):
            for op in (*BOTH.values(), operator.and_, operator.pow):
                with pytest.raises(TypeError):
                    op(x, other)
                with pytest.raises(TypeError):
                    op(other, x)
        with pytest.raises(TypeError):
            -x.axis(0)


# ------------------------------------------------------------------------- names and messages


def message_of(call: Callable[[], object], error: type[Exception] = RuntimeError) -> str:
    with pytest.raises(error) as info:
        call()
    return str(info.value)


def test_messages_call_an_input_by_its_name() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, name="activations")
        w = fd.from_pytorch(tensor(4), name="weight")
        s = fd.define_scalar("float64", name="slope")
        n = fd.define_vector(2, "sizes")
        text = message_of(lambda: fd.ops.permute(fd.ops.squeeze(x, [0]), [0]))
        assert re.search(r"dimension 0 of activations \(float32 \[i\d+, i\d+\]\)", text), text
        assert "weight (float32" in message_of(lambda: fd.ops.size(w, 3)) or True
        fd.add_output(x * w * s + n[0])
    good = [tensor(3, 4), tensor(4), 2.0, [1, 2]]
    fd.execute(good)

    def bad(position: int, value: object) -> str:
        inputs = [*good]
        inputs[position] = value
        return message_of(lambda: fd.execute(inputs))

    assert "Expected input 0, activations (float32 [i0, i1])," in bad(0, tensor(4))
    assert "Expected input 1, weight (float32 [" in bad(1, 3.0)
    assert "Expected input 2, slope, to be a scalar" in bad(2, tensor(4))
    assert "Expected input 4, sizes[1], to be a scalar" in bad(3, [1, tensor(2)])
    text = bad(1, tensor(5))
    assert "dimension 1 of activations (float32 [i0, i1])" in text, text
    assert "dimension 0 of weight (float32 [" in text, text


def test_messages_call_an_input_without_a_name_by_its_number() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 4], True)
        y = fd.define_tensor([-1, -1], True, "int64")
        text = message_of(lambda: fd.ops.squeeze(y, [0]))
        assert re.search(r"dimension 0 of input 1 \(int64 \[i\d+, i\d+\]\)", text), text
        z = x + y
        text = message_of(lambda: fd.ops.squeeze(z, [1]))
        assert re.search(r"the result of add at .*test_first_hour.py:\d+ \(float32 \[", text), text
        fd.add_output(z)
    text = message_of(lambda: fd.execute([tensor(3, 4), torch.ones(2, 4).long().to(DEVICE)]))
    assert "dimension 0 of input 0 (float32 [i0, 4]) has size 3" in text, text
    assert "add(" in text and "test_first_hour.py" in text, text
    assert "T0_g" not in text
    text = message_of(lambda: fd.execute([tensor(3, 4), tensor(3, 4)]))
    assert text.endswith("to be bound to a tensor of dtype int64, but got a tensor of dtype float")


def test_names_survive_what_shapes_decide() -> None:
    """The definition is rebuilt for the sizes that come, and cut into kernels."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, name="x")
        y = fd.define_tensor([-1], True, name="y")
        flat = fd.ops.reshape(x, [x.size(0) * x.size(1)])
        fd.add_output(flat + fd.ops.reshape(y, [-1]))
    text = message_of(lambda: fd.execute([tensor(3, 4), tensor(5)]))
    assert "y (float32 [" in text, text
    assert "T1" not in text


def test_names_stand_in_the_text_of_a_definition() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True, name='a "b" \\')
        s = fd.define_scalar(DataType.Double, name="s")
        fd.add_output(x * s)
    assert ', name="s")' in repr(fd)
    again = pickle.loads(pickle.dumps(fd))
    assert repr(again) == repr(fd)
    assert 'a "b" \\ (float32' in message_of(lambda: again.execute([1, 2]))
    with FusionDefinition() as other:
        other.add_output(other.define_tensor([-1], True) * other.define_scalar(DataType.Double))
    assert other.fusion == fd.fusion  # names are words, not meaning
    assert "name=" not in repr(other)


def test_a_definition_without_outputs_names_add_output() -> None:
    with FusionDefinition() as fd:
        fd.define_tensor([-1], True)
    for call in (lambda: fd.execute([tensor(3)]), lambda: fd.manual_execute([tensor(3)])):
        assert "fd.add_output(" in message_of(call, NotImplementedError)


def test_an_exception_in_a_definition_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError), FusionDefinition() as fd:
        fd.ops.permute(fd.define_tensor([-1], True), [3])
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


CSRC = Path(__file__).resolve().parents[2] / "csrc"
PYTHON = Path(nvfuse_direct.__file__).parent
# Words of the implementation, which its users do not know.
FORBIDDEN = re.compile(
    r"int64_t|at::|nullptr|std::|\bTensorView\*|\b(?:cacheBefore|cacheAfter|cacheFork|rFactor"
    r"|circularBuffer|setLibrary|inlineMost)\b|\b_[a-z]\w+\("
)
# Section 3.6.2: tests of nvFuser's users match on this one.
CONTRACT = {"to be an at::Tensor but got scalar "}
CHECK = re.compile(
    r"(?:NVF_CHECK|NVF_CHECK_FAIL|UserError|type_error|typeError|PyErr_SetString|PyErr_Format"
    r"|refuse)\s*\("
)
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def messages_in(path: Path) -> list[str]:
    """String literals in the statements of a source file that raise errors for users."""
    text = re.sub(r"//[^\n]*", "", path.read_text())
    found = []
    for match in CHECK.finditer(text):
        depth, at, quoted = 1, match.end(), False
        while depth and at < len(text):
            char = text[at]
            if quoted:
                at += char == "\\"
                quoted = char != '"'
            else:
                quoted = char == '"'
                depth += (char == "(") - (char == ")")
            at += 1
        found += LITERAL.findall(text[match.end() : at])
    return found


def test_no_message_in_the_source_speaks_of_the_implementation() -> None:
    found = {
        (str(path.relative_to(CSRC)), text)
        for path in sorted(CSRC.rglob("*.cpp"))
        for text in messages_in(path)
    }
    assert len(found) > 500  # they are found at all
    bad = [(path, text) for path, text in found if FORBIDDEN.search(text)]
    assert [each for each in bad if each[1] not in CONTRACT] == []
    raised = re.compile(r"raise \w+\(((?:[^()]|\([^()]*\))*)\)")
    for path in sorted(PYTHON.glob("*.py")):
        for statement in raised.findall(path.read_text()):
            for text in LITERAL.findall(statement):
                assert not FORBIDDEN.search(text), (path.name, text)


def provoked() -> list[str]:
    """Messages of errors with tensors of every dtype, from definition, schedule and execution."""
    from test_errors import BAD_CALLS, BAD_OPS

    texts = []

    def note(call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:
            texts.append(str(error))

    for bad in BAD_OPS:
        with FusionDefinition() as fd:
            note(lambda bad=bad, fd=fd: bad.build(fd))
    for case in BAD_CALLS:
        fd = define(case.build)
        note(lambda case=case, fd=fd: fd.execute(case.bad()))
    for name in TORCH:
        with FusionDefinition() as fd:
            x = fd.define_tensor([-1, -1], True, name)
            y = fd.ops.set(x)
            for call in (
                lambda x=x: x.split(7, 2),
                lambda x=x: x.merge(0, 9),
                lambda x=x: x.split(0, 0),
                lambda x=x: x.axis(9),
                lambda x=x: x.size(9),
                lambda x=x: x.cache_before(),
                lambda x=x: x.rfactor([0]),
                lambda y=y: y.cache_after(),
                lambda y=y: y.cache_fork(),
                lambda y=y: y.reorder({0: 5}),
                lambda x=x, fd=fd: fd.ops.squeeze(x, [0]),
                lambda x=x, fd=fd: fd.ops.add(x, fd.define_tensor([-1], True, "uint64")),
                lambda x=x, fd=fd: fd.ops.cast(x, "float8_e8m0fnu"),
                lambda x=x, fd=fd: fd.ops.select(x, 1.5, 0),
                lambda x=x, fd=fd: fd.ops.topk(x, 1.5),
                lambda x=x, fd=fd: fd.ops.pad(x, [1, 1], 1j),
                lambda x=x, fd=fd: fd.ops.where(x, x, x),
                lambda x=x, fd=fd: fd.ops.index_select(x, x, 0),
                lambda x=x, fd=fd: fd.ops.imag(x),
            ):
                note(call)
            fd.add_output(y)
        note(lambda fd=fd: fd.execute([tensor(3)]))
        note(lambda fd=fd: fd.execute([tensor(3, 3, dtype=torch.int64).cpu()], device="meta"))
        note(lambda fd=fd: fd.execute([1j]))
        note(lambda fd=fd: fd.execute(["x"]))
    return texts


def test_no_provoked_message_speaks_of_the_implementation() -> None:
    texts = provoked()
    assert len(texts) > 200
    for text in texts:
        for known in CONTRACT:
            text = text.replace(known, "")
        assert not FORBIDDEN.search(text), text
        assert not re.search(r"\bT\d+_[a-z]+_\w+", text), text


# --------------------------------------------------------------------------- keywords of execute


def negation() -> FusionDefinition:
    return define(lambda fd: fd.add_output(-fd.define_tensor([-1, -1], True)))


def device_argument() -> object:
    return DEVICE if DEVICE.type == "cuda" else None


def test_every_keyword_of_execute() -> None:
    x = tensor(3, 4)
    forms: list[Callable[[FusionDefinition], list[torch.Tensor]]] = [
        lambda fd: fd.execute([x]),
        lambda fd: fd.execute(inputs=[x]),
        lambda fd: fd.execute(iter([x])),
        lambda fd: fd.execute([x], device=device_argument()),
        lambda fd: fd.execute(device=device_argument(), inputs=(x,)),
        lambda fd: fd.execute([x], save_repro_inputs=False),
        lambda fd: fd.execute([x], save_repro_inputs=True),
        lambda fd: fd.execute(iter([x]), save_repro_inputs=True),
        lambda fd: fd.execute([x], _enable_options=[], _disable_options=[]),
        lambda fd: fd.execute([x], _enable_options=["fuse_matmul"], _disable_options=("fma",)),
        lambda fd: fd.execute([x], **{"".join(["dev", "ice"]): device_argument()}),
    ]
    warm = negation()
    warm.execute([x])
    for form in forms:
        for fd in (negation(), warm):  # the first call and a cached one
            assert_same(form(fd)[0], -x)
    assert "execute(inputs)" in warm.last_repro_script()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda fd, x: fd.execute(), "missing 1 required argument: 'inputs'"),
        (lambda fd, x: fd.execute([x], None), "only positional argument, but 2 were given"),
        (lambda fd, x: fd.execute([x], inputs=[x]), "multiple values for argument 'inputs'"),
        (lambda fd, x: fd.execute([x], devise=None), "unexpected keyword argument 'devise'"),
        (lambda fd, x: fd.execute(x), "a list of tensors and numbers, not a single one"),
        (lambda fd, x: fd.execute(3), "not iterable"),
        (lambda fd, x: fd.execute([x], _enable_options=[1]), "must be a list of names of options"),
    ],
)
def test_wrong_arguments_of_execute(
    call: Callable[[FusionDefinition, torch.Tensor], object], message: str
) -> None:
    x = tensor(3, 4)
    fd = negation()
    for _ in ("first call", "cached call"):
        references = sys.getrefcount(x)
        with pytest.raises((TypeError, RuntimeError), match=message):
            call(fd, x)
        gc.collect()
        assert sys.getrefcount(x) == references
        fd.execute([x])


def test_an_executor_that_a_user_sets_is_called() -> None:
    class Recorder:
        def execute(self, inputs: object, **options: object) -> object:
            return inputs, options

    fd = negation()
    fd.fec = Recorder()  # type: ignore[assignment]
    inputs, options = fd.execute([1], device=None, _enable_options=["x"])
    assert inputs == [1]
    assert options == {"device": None, "_enable_options": ["x"], "_disable_options": []}


def test_keywords_cost_no_call_into_python() -> None:
    """Python functions that a cached call enters, by the interpreter's own count."""
    x = tensor(3, 4)
    fd = negation()
    fd.execute([x])
    entered: list[str] = []

    def count(frame: object, event: str, argument: object) -> None:
        if event == "call":
            entered.append(frame.f_code.co_name)  # type: ignore[attr-defined]

    sys.setprofile(count)
    try:
        fd.execute([x])
        fd.execute(inputs=[x])
        fd.execute([x], device=None, save_repro_inputs=False)
        fd.execute([x], _enable_options=[], _disable_options=[])
        fd.execute([x], _disable_options=["fma"])
    finally:
        sys.setprofile(None)
    assert entered == []


def cost(call: Callable[[], object], calls: int = 2000) -> float:
    """Seconds of this process that a call takes: the least of several runs."""
    best = float("inf")
    for _ in range(7):
        start = time.process_time()
        for _ in range(calls):
            call()
        best = min(best, time.process_time() - start)
    return best / calls


@pytest.mark.skipif(DEVICE.type == "cuda", reason="compares the host's part of small calls")
def test_keywords_cost_little() -> None:
    x = torch.randn(2)
    fd = define(lambda fd: fd.add_output(-fd.define_tensor([-1], True)))
    fd.execute([x])
    measured = []
    for _ in range(5):  # other processes slow down one of the two
        plain = cost(lambda: fd.execute([x]))
        keywords = cost(
            lambda: fd.execute([x], device=None, _enable_options=[], _disable_options=[])
        )
        measured.append((plain, keywords))
        if keywords < 1.3 * plain + 3e-7:
            return
    pytest.fail(f"with keywords it takes longer: {measured}")


# ------------------------------------------------------------------------------ copies, pickles


def with_everything() -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, "bfloat16", name="x")
        n = fd.define_scalar("int64")
        y = fd.ops.cast(x, "float32") * 0.1 + n
        y = fd.ops.reshape(y, [x.size(0) * x.size(1)])
        fd.add_output(fd.ops.cast(y / fd.ops.sum(y, [0]), "bfloat16"))
        fd.add_output(fd.ops.set(x), x)
    return fd


def round_trip(fd: FusionDefinition) -> FusionDefinition:
    return pickle.loads(pickle.dumps(fd))


COPIES = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": round_trip}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("executed", [False, True])
def test_a_copy_is_a_definition_of_its_own(how: str, executed: bool) -> None:
    fd = with_everything()
    x = tensor(6, 8, dtype=torch.bfloat16)
    expected = fd.execute([x, 3]) if executed else with_everything().execute([x, 3])
    fd.remark = ["mine"]  # type: ignore[attr-defined]
    new = COPIES[how](fd)
    assert type(new) is FusionDefinition
    assert repr(new) == repr(fd)
    assert new.fusion == fd.fusion and new.fusion is not fd.fusion
    assert not hasattr(new, "fec")
    assert new.remark == ["mine"] and (new.remark is fd.remark) == (how == "copy")
    for out, want in zip(new.execute([x, 3]), expected, strict=True):
        assert_same(out, want)
    del fd
    gc.collect()
    assert_same(new.execute([x, 3])[0], expected[0])


@pytest.mark.parametrize("how", COPIES)
def test_copies_of_what_is_not_defined_yet(how: str) -> None:
    new = COPIES[how](FusionDefinition())
    assert repr(new) == "FusionDefinition()"
    with pytest.raises(NotImplementedError, match="Fusion does not exist"):
        new.execute([])
    with FusionDefinition() as empty:
        pass
    with pytest.raises(NotImplementedError, match="add_output"):
        COPIES[how](empty).execute([])
    with new:
        new.add_output(-new.define_tensor([-1], True))
    x = tensor(3)
    assert_same(new.execute([x])[0], -x)


def test_changing_a_copy_leaves_the_definition_alone() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        fd.add_output(-x)
        early = copy.copy(fd)
        fd.add_output(x + 1)
    a = tensor(3)
    assert len(early.execute([a])) == 1 and len(fd.execute([a])) == 2


class Named(FusionDefinition):
    def __init__(self, title: str) -> None:
        super().__init__()
        self.title = title


@pytest.mark.parametrize("how", COPIES)
def test_copies_of_a_subclass_and_of_containers(how: str) -> None:
    fd = Named("norm")
    with fd:
        fd.add_output(-fd.define_tensor([-1], True))
    first, second = COPIES[how]([fd, fd]) if how != "copy" else (copy.copy(fd),) * 2
    assert first is second and type(first) is Named and first.title == "norm"
    x = tensor(3)
    assert_same(first.execute([x])[0], -x)


def scheduled() -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        y = -x
        fd.add_output(y)
        y.split(0, 64)
        y.axis(0).parallelize(nvfuse_direct.ParallelType.grid_x)
        y.axis(1).parallelize(nvfuse_direct.ParallelType.block_x)
    return fd


def test_copies_keep_schedules_and_pickles_refuse_them() -> None:
    fd = scheduled()
    x = tensor(1000)
    for new in (copy.copy(fd), copy.deepcopy(fd)):
        assert new.fusion.print_kernel() == fd.fusion.print_kernel()
        assert_same(new.manual_execute([x])[0], -x)
    with pytest.raises(TypeError, match="schedule can't be pickled"):
        pickle.dumps(fd)


def test_a_pickle_is_read_by_another_process(tmp_path: Path) -> None:
    path = tmp_path / "definition.pickle"
    path.write_bytes(pickle.dumps(with_everything()))
    done = run_python(
        f"""
        import pickle
        with open({str(path)!r}, "rb") as file:
            fd = pickle.load(file)
        print(fd, end="")
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == repr(with_everything())


# ------------------------------------------------------------------------------- package names


def install(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).mkdir(parents=True)
    return folder


def import_warnings(folder: Path, name: str = "nvfuse_direct") -> str:
    search = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))
    done = run_python(f"import {name}", {"PYTHONPATH": search})
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    "other", ["nvfuser-0.2.36.dist-info", "nvfuser_cu128_torch28-0.2.30.dist-info"]
)
@pytest.mark.parametrize("name", ["nvfuse_direct", "nvfuser_direct"])
def test_the_import_says_that_the_original_is_installed_too(
    other: str, name: str, tmp_path: Path
) -> None:
    text = import_warnings(install(tmp_path, other), name)
    assert text.count("UserWarning") == 1
    assert str(tmp_path / other) in text
    assert "nvfuser, nvfuser_common, nvfuser_direct" in text


def test_the_import_is_silent_otherwise(tmp_path: Path) -> None:
    folder = install(tmp_path, "nvfuse_direct-9.dist-info", "nvfuserlike", "nvfuser_notes")
    assert "Warning" not in import_warnings(folder)


def test_the_readme_tells_what_installing_needs_and_which_names_clash() -> None:
    text = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    section = text.partition("## Installing it")[2].partition("\n## ")[0]
    for words in (
        "C++20",
        "GCC 12",
        "Python 3.10",
        "torch 2.10",
        "nvidia-cuda-nvrtc",
        "`nvfuser_direct`",
        "`nvfuser_common`",
        "NVIDIA's",
    ):
        assert words in section, words
