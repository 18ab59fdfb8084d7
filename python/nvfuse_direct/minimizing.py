# SPDX-License-Identifier: BSD-3-Clause
"""minimize(): shrinks a definition that fails to a few operations on small tensors.

The definition is taken apart into the statements of its translation to Python. A change (an output
or an operation less, smaller sizes, a simpler layout) is kept if what is left still fails in the
same way.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from . import _C_DIRECT
from ._C_DIRECT import DataType
from .definition import FusionDefinition
from .pytorch_utils import nvfuser_dtype_to_torch_dtype, torch_dtype_to_nvfuser_dtype
from .reference import Evaluator

_SECONDS_A_RUN = 120.0  # after which a run in a process of its own counts as hanging

Fails = Callable[[FusionDefinition, list[Any]], bool]


# ------------------------------------------------------------------------------------ definitions


@dataclass(frozen=True)
class _Statement:
    """`names = fd...(...)`."""

    names: tuple[str, ...]
    call: str

    @property
    def text(self) -> str:
        return f"{', '.join(self.names)} = {self.call}"

    @cached_property
    def reads(self) -> frozenset[str]:
        nodes = ast.walk(ast.parse(self.call))
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        return frozenset(names - {"fd", "DataType", "float"})

    @property
    def op(self) -> str:
        return self.call.split("(", 1)[0].rsplit(".", 1)[-1]

    @property
    def is_input(self) -> bool:
        return self.op == "define_tensor" or self.call.startswith("fd.define_scalar(None")

    def renamed(self, names: dict[str, str]) -> _Statement:
        """With other operands; a replacement may be any expression."""
        if not self.reads & names.keys():
            return self
        pattern = r"\b(" + "|".join(map(re.escape, names)) + r")\b"
        return _Statement(self.names, re.sub(pattern, lambda m: names[m[1]], self.call))


@dataclass(frozen=True)
class _Candidate:
    """A definition with its inputs, by name. outputs: with the input that is updated, if any."""

    statements: tuple[_Statement, ...]
    outputs: tuple[tuple[str, str | None], ...]
    inputs: dict[str, Any]

    def without_dead_code(self) -> _Candidate:
        alive = {name for pair in self.outputs for name in pair if name is not None}
        kept = []
        for statement in reversed(self.statements):
            if alive & set(statement.names):
                kept.append(statement)
                alive |= statement.reads
        statements = tuple(reversed(kept))
        inputs = {s.names[0]: self.inputs[s.names[0]] for s in statements if s.is_input}
        return _Candidate(statements, self.outputs, inputs)

    def substituted(self, names: dict[str, str]) -> _Candidate:
        """With other names for some values wherever these are read."""
        return replace(
            self,
            statements=tuple(s.renamed(names) for s in self.statements),
            outputs=tuple((names.get(out, out), alias) for out, alias in self.outputs),
        )

    def with_statement(self, index: int, statement: _Statement) -> _Candidate:
        statements = list(self.statements)
        statements[index] = statement
        return replace(self, statements=tuple(statements))

    def with_input(self, name: str, value: Any, call: str) -> _Candidate:
        """With `name` declared by `call`, whatever it was before."""
        index = next(i for i, s in enumerate(self.statements) if name in s.names)
        changed = self.with_statement(index, _Statement((name,), call))
        return replace(changed, inputs={**self.inputs, name: value})

    @property
    def text(self) -> str:
        lines = [s.text for s in self.statements]
        for out, alias in self.outputs:
            lines.append(
                f"fd.add_output({out})" if alias is None else f"fd.add_output({out}, {alias})"
            )
        return "def nvfuser_fusion(fd):\n" + "".join(f"    {line}\n" for line in lines)

    def build(self) -> tuple[FusionDefinition, dict[str, Any]]:
        """The definition, and its values by name."""
        fd = FusionDefinition()
        scope: dict[str, Any] = {"fd": fd, "DataType": DataType, "float": float}
        unheard = io.StringIO()  # a definition prints the error that it is left with
        with contextlib.redirect_stdout(unheard), contextlib.redirect_stderr(unheard), fd:
            for statement in self.statements:
                exec(statement.text, scope)
            for out, alias in self.outputs:
                fd.add_output(scope[out], None if alias is None else scope[alias])
        return fd, scope

    def arguments(self) -> list[Any]:
        """Inputs in the order of the definition, copied with their layout."""
        return [_copied(self.inputs[s.names[0]]) for s in self.statements if s.is_input]

    def values(self) -> dict[str, Any]:
        """What torch computes for each tensor that is read, by name; empty if it can't."""
        fd, scope = self.build()
        evaluator = Evaluator(fd.fusion, self.arguments(), rng=(0, 0))
        try:
            evaluator.run()
        except Exception:
            return {}
        names = [name for s in self.statements for name in s.names if name != "_"]
        tensors = {n: scope[n] for n in names if scope[n].is_tensor()}
        return {n: evaluator.values[x] for n, x in tensors.items() if x in evaluator.values}


def _parsed(text: str, inputs: Sequence[Any]) -> _Candidate:
    """The candidate for a translation (spec: FusionDefinition.__repr__) and inputs in order."""
    statements: list[_Statement] = []
    outputs: list[tuple[str, str | None]] = []
    for node in ast.parse(text).body[0].body:  # type: ignore[attr-defined]
        if isinstance(node, ast.Assign):
            target = node.targets[0]
            elements = target.elts if isinstance(target, ast.Tuple) else [target]
            names = tuple(ast.unparse(element) for element in elements)
            statements.append(_Statement(names, ast.unparse(node.value)))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            first, *rest = (ast.unparse(a) for a in node.value.args)
            outputs.append((first, rest[0] if rest else None))
    declared = [s.names[0] for s in statements if s.is_input]
    return _Candidate(tuple(statements), tuple(outputs), dict(zip(declared, inputs, strict=True)))


def _copied(value: Any) -> Any:
    """With the same layout; elements that share memory still do."""
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    sizes, strides = value.size(), value.stride()
    reach = sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    if value.numel() == 0:
        return value.clone()
    # Offsets count: kernels choose vectors by the alignment of an address.
    offset = value.storage_offset()
    storage = value.new_empty(offset + reach + 1)
    storage.as_strided((reach + 1,), (1,), offset).copy_(value.as_strided((reach + 1,), (1,)))
    return storage.as_strided(sizes, strides, offset)


# ------------------------------------------------------------------------------------- predicates


def _shortened(error: BaseException) -> str:
    """The beginning of a message without its numbers, which tells one error from another."""
    first = str(error).split("\n")[0]
    return f"{type(error).__name__}: {re.sub('[0-9]+', '#', first)[:60]}"


def outcome(fd: FusionDefinition, inputs: list[Any]) -> str | None:
    """How running it fails: `differs` (from its evaluation by torch), or an error; None if not."""
    from .validation import check_outputs

    before = [_copied(x) for x in inputs]
    try:
        outputs = fd.execute(inputs)
    except Exception as error:
        return _shortened(error)
    try:
        check_outputs(fd.fusion, outputs, before, None)
    except AssertionError:
        return "differs"
    return None


def _serve() -> None:
    """In a process of its own: for each file named on a line of input, a line with the outcome."""
    import os

    import torch

    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what is printed elsewhere does not come between
    for line in sys.stdin:
        text, inputs = torch.load(line.strip(), weights_only=False)
        fd, _ = _parsed(text, inputs).build()
        out.write(json.dumps(outcome(fd, inputs)) + "\n")
        out.flush()


class _Isolated:
    """outcome() in a process of its own, which may die or hang."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.folder = tempfile.TemporaryDirectory()

    def outcome(self, candidate: _Candidate) -> str | None:
        import select

        import torch

        path = Path(self.folder.name) / "candidate.pt"
        torch.save((candidate.text, candidate.arguments()), path)
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-c", "from nvfuse_direct.minimizing import _serve; _serve()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], _SECONDS_A_RUN)
        line = self.process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        self.close()
        return "dies" if ready else "hangs"

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


# ---------------------------------------------------------------------------------------- changes


def _fewer_outputs(candidate: _Candidate) -> Iterator[_Candidate]:
    outputs = candidate.outputs
    if len(outputs) > 1:
        for output in outputs:
            yield replace(candidate, outputs=(output,))
        for i in range(len(outputs)):
            yield replace(candidate, outputs=outputs[:i] + outputs[i + 1 :])
    for i, (out, alias) in enumerate(outputs):
        if alias is not None:
            yield replace(candidate, outputs=(*outputs[:i], (out, None), *outputs[i + 1 :]))


def _declaration(tv: Any, value: Any) -> str:
    """define_tensor() for a contiguous tensor like an intermediate one."""
    constants = [_C_DIRECT._constant(extent) for extent in _C_DIRECT._logical_extents(tv)]
    shape = [1 if constant == 1 else -1 for constant in constants]
    return _declared(shape, value)


def _declared(shape: list[int], value: Any) -> str:
    contiguity = [None if n == 1 else True for n in shape]
    dtype = torch_dtype_to_nvfuser_dtype(value.dtype)
    return f"fd.define_tensor(shape={shape}, contiguity={contiguity}, dtype=DataType.{dtype.name})"


def _cuts(candidate: _Candidate) -> Iterator[_Candidate]:
    """What is computed before some statement becomes inputs; then each value alone."""
    values = candidate.values()
    _, scope = candidate.build()

    def cut(names: list[str]) -> _Candidate:
        result = candidate
        for name in names:
            value = values[name].contiguous()
            result = result.with_input(name, value, _declaration(scope[name], value))
        return result

    def computed(statement: _Statement) -> list[str]:
        if statement.is_input:
            return []
        return [n for n in statement.names if n in values]

    def is_single(statement: _Statement) -> bool:
        return len(statement.names) == 1

    statements = candidate.statements
    for numerator in (7, 6, 5, 4, 3, 2, 1):
        position = len(statements) * numerator // 8
        later = {n for s in statements[position:] for n in s.reads}
        names = [
            n for s in statements[:position] if is_single(s) for n in computed(s) if n in later
        ]
        if names:
            yield cut(names)
    for statement in reversed(statements):
        if is_single(statement) and computed(statement):
            yield cut(computed(statement))


def _bypasses(candidate: _Candidate) -> Iterator[_Candidate]:
    """An operation replaced by one of its operands, converted if need be."""
    values = candidate.values()
    for i, statement in reversed(list(enumerate(candidate.statements))):
        name = statement.names[0]
        if statement.is_input or len(statement.names) > 1 or name not in values:
            continue
        for operand in sorted(statement.reads):
            value = values.get(operand)
            if value is None or value.shape != values[name].shape:
                continue
            if value.dtype == values[name].dtype:
                yield candidate.substituted({name: operand})
            elif statement.op != "cast":
                dtype = torch_dtype_to_nvfuser_dtype(values[name].dtype)
                call = f"fd.ops.cast({operand}, dtype=DataType.{dtype.name})"
                yield candidate.with_statement(i, _Statement((name,), call))


def _sizes_of_others(candidate: _Candidate) -> Iterator[_Candidate]:
    """Sizes of inputs that are there for nothing else taken from inputs that are read anyway."""
    import torch

    def is_size(statement: _Statement) -> bool:
        return statement.op == "size"

    read = {n for s in candidate.statements if not is_size(s) for n in s.reads}
    read |= {out for out, _ in candidate.outputs}
    tensors = {n: x for n, x in candidate.inputs.items() if isinstance(x, torch.Tensor)}
    for i, statement in enumerate(candidate.statements):
        match = re.match(r"fd\.ops\.size\((\w+), dim=(\d+)\)", statement.call)
        if match is None or match[1] not in tensors or match[1] in read:
            continue
        size = tensors[match[1]].shape[int(match[2])]
        for name in read & tensors.keys():
            for d, n in enumerate(tensors[name].shape):
                if n == size:
                    call = f"fd.ops.size({name}, dim={d})"
                    moved = candidate.with_statement(i, _Statement(statement.names, call))
                    # Inputs come first, so that the size can be read here.
                    yield replace(
                        moved,
                        statements=tuple(sorted(moved.statements, key=lambda s: not s.is_input)),
                    )


def _simpler_operations(candidate: _Candidate) -> Iterator[_Candidate]:
    """Scalars as numbers, concatenations without the padding of their parts, plain arithmetic."""
    fd, scope = candidate.build()
    evaluator = Evaluator(fd.fusion, candidate.arguments(), rng=(0, 0))
    by_name = {s.names[0]: s for s in candidate.statements}
    for i, statement in enumerate(candidate.statements):
        name = statement.names[0]
        if not statement.is_input and not scope[name].is_tensor():
            with contextlib.suppress(Exception):
                number = evaluator.scalar(scope[name])
                yield candidate.substituted({name: repr(number)})
        if statement.op == "cat" and "manual_padding=True" in statement.call:
            call = statement.call.replace(", manual_padding=True", "")
            padded = {n: by_name[n].call for n in statement.reads if by_name[n].op == "pad"}
            sources = {n: re.match(r"fd\.ops\.pad\((\w+)", c)[1] for n, c in padded.items()}  # type: ignore[index]
            yield candidate.with_statement(i, _Statement((name,), call).renamed(sources))


def _merged_inputs(candidate: _Candidate) -> Iterator[_Candidate]:
    """One input for two of the same declaration; numbers as constants."""
    declared = [s for s in candidate.statements if s.is_input]
    for i, later in enumerate(declared):
        value = candidate.inputs[later.names[0]]
        if later.op == "define_scalar":
            yield candidate.substituted({later.names[0]: repr(value)})
            continue
        for earlier in declared[:i]:
            other = candidate.inputs[earlier.names[0]]
            if earlier.call == later.call and other.shape == value.shape:
                yield candidate.substituted({later.names[0]: earlier.names[0]})


def _like(value: Any, original: Any) -> Any:
    """`value`, a narrowed `original`, dense again if that was."""
    import torch

    order = sorted(range(original.dim()), key=lambda d: -original.stride(d))
    dense = original.permute(order).is_contiguous() and 0 not in original.stride()
    if not dense:
        return value
    inverse = torch.argsort(torch.tensor(order)).tolist() if order else []
    return value.permute(order).contiguous().permute(inverse)


def _smaller_sizes(candidate: _Candidate) -> Iterator[_Candidate]:
    """All dimensions of one size made smaller, and the same numbers in the text."""
    import torch

    tensors = {n: x for n, x in candidate.inputs.items() if isinstance(x, torch.Tensor)}
    sizes = sorted({n for x in tensors.values() for n in x.shape if n > 1}, reverse=True)
    for size in sizes:
        for smaller in sorted({1, 2, 3, size // 8, size // 2, size - 1} - {0}):
            if smaller >= size:
                continue
            inputs = dict(candidate.inputs)
            for name, x in tensors.items():
                for d, n in enumerate(x.shape):
                    if n == size:
                        inputs[name] = _like(inputs[name].narrow(d, 0, smaller), x)
            yield replace(candidate, inputs=inputs)
            pattern = rf"(?<=[\[ (]){size}(?=[,\])])"
            statements = tuple(
                _Statement(s.names, re.sub(pattern, str(smaller), s.call))
                for s in candidate.statements
            )
            if statements != candidate.statements:
                yield _Candidate(statements, candidate.outputs, inputs)


def _simpler_layouts(candidate: _Candidate) -> Iterator[_Candidate]:
    import torch

    for statement in candidate.statements:
        name = statement.names[0]
        value = candidate.inputs.get(name) if statement.is_input else None
        if not isinstance(value, torch.Tensor):
            continue
        shape = ast.literal_eval(re.search(r"shape=(\[[^]]*\])", statement.call)[1])  # type: ignore[index]
        call = _declared(shape, value)
        if call != statement.call.replace(", is_cpu=False", ""):
            yield candidate.with_input(name, value.contiguous().clone(), call)
        if not value.is_contiguous() or value.storage_offset():
            yield candidate.with_input(name, value.contiguous().clone(), statement.call)


def _simpler_dtypes(candidate: _Candidate) -> Iterator[_Candidate]:
    """Float for each other floating-point dtype in all of the text."""
    import torch

    for name in ("BFloat16", "Half", "Double"):
        dtype = nvfuser_dtype_to_torch_dtype(getattr(DataType, name))
        statements = tuple(
            _Statement(s.names, re.sub(rf"DataType\.{name}\b", "DataType.Float", s.call))
            for s in candidate.statements
        )
        if statements == candidate.statements:
            continue
        inputs = {
            n: _like(x.float(), x) if isinstance(x, torch.Tensor) and x.dtype == dtype else x
            for n, x in candidate.inputs.items()
        }
        yield _Candidate(statements, candidate.outputs, inputs)


def _simpler_values(candidate: _Candidate) -> Iterator[_Candidate]:
    import torch

    for name, value in candidate.inputs.items():
        if not isinstance(value, torch.Tensor) or value.numel() == 0:
            continue
        if bool((value == 1).all()):
            continue
        for simple in (
            torch.ones_like(value),
            value.round() if value.is_floating_point() else value,
        ):
            if not torch.equal(simple, value):
                yield replace(candidate, inputs={**candidate.inputs, name: simple})


_CHANGES = (
    _fewer_outputs,
    _cuts,
    _bypasses,
    _sizes_of_others,
    _simpler_dtypes,
    _smaller_sizes,
    _simpler_layouts,
    _merged_inputs,
    _simpler_operations,
    _simpler_values,
)


# ----------------------------------------------------------------------------------------- search


@dataclass
class Minimized:
    """What minimize() found. `str()` gives the script.

    fd, inputs: the smallest definition that still fails, and tensors for it. failure: how it fails
    (`differs`, `dies`, `hangs`, an error, or `fails` by the caller's predicate). operations: what
    is left of `operations_before`. tries: candidates that were run.
    """

    fd: FusionDefinition
    inputs: list[Any]
    script: str
    failure: str
    operations: int
    operations_before: int
    tries: int

    def __str__(self) -> str:
        return self.script


class _Search:
    """Keeps the smallest candidate that fails as the first one did."""

    def __init__(self, fails: Fails | None, isolated: _Isolated | None, seconds: float) -> None:
        self.fails = fails
        self.isolated = isolated
        self.deadline = time.monotonic() + seconds
        self.tries = 0
        self.failure: str | None = None
        self.evaluates = True  # torch can, so that candidates which it can't are mistakes
        self.seen: set[tuple[str, str]] = set()

    def outcome(self, candidate: _Candidate) -> str | None:
        self.tries += 1
        if self.isolated is not None:
            return self.isolated.outcome(candidate)
        fd, _ = candidate.build()
        if self.fails is not None:
            return "fails" if self.fails(fd, candidate.arguments()) else None
        return outcome(fd, candidate.arguments())

    def accepts(self, candidate: _Candidate) -> bool:
        """Whether it is a valid definition, not tried before, that fails in the same way."""
        described = {
            n: (
                tuple(x.shape),
                x.stride(),
                float(x.double().nan_to_num().sum()) if not x.is_complex() else 0,
            )
            if hasattr(x, "stride")
            else x
            for n, x in candidate.inputs.items()
        }
        key = (candidate.text, str(described))
        if key in self.seen:
            return False
        self.seen.add(key)
        try:
            if self.fails is None and self.evaluates and not candidate.values():
                return False  # torch does not take it
            candidate.build()
        except Exception:
            return False  # not a definition any more
        return self.outcome(candidate) == self.failure

    def run(self, candidate: _Candidate) -> _Candidate:
        self.failure = self.outcome(candidate)
        if self.failure is None:
            raise ValueError("minimize: the definition does not fail for these inputs")
        candidate = candidate.without_dead_code()
        self.evaluates = bool(candidate.values())
        again = True
        while again:
            again = False
            for change in _CHANGES:
                while time.monotonic() < self.deadline:
                    better = self.first(change, candidate)
                    if better is None:
                        break
                    candidate, again = better, True
        return candidate

    def first(
        self, change: Callable[[_Candidate], Iterator[_Candidate]], candidate: _Candidate
    ) -> _Candidate | None:
        for each in change(candidate):
            if time.monotonic() > self.deadline:
                return None
            each = each.without_dead_code()
            if self.accepts(each):
                return each
        return None


def minimize(
    fd: FusionDefinition,
    inputs: Sequence[Any],
    fails: Fails | None = None,
    seconds: float = 60.0,
    isolate: bool = False,
) -> Minimized:
    """Shrinks a definition that fails for `inputs`; see Minimized.

    Args:
        fails: called with a definition and inputs (fresh ones each time); whether that is still the
            failure that is looked for. Default: running it raises the same error, or its results
            differ from the definition evaluated op by op with torch (as FusionDefinition.validate).
        seconds: after which no more changes are tried.
        isolate: run every candidate in a process of its own, so that a crash or a hang is a failure
            as well. Not with `fails`.

    ValueError: the definition does not fail; isolate together with fails.
    """
    if isolate and fails is not None:
        raise ValueError("minimize: isolate runs the default predicate, not a given one")
    flat: list[Any] = []
    for x in inputs:
        flat.extend(x if isinstance(x, list | tuple) else [x])
    start = _parsed(repr(fd), [_copied(x) for x in flat])
    isolated = _Isolated() if isolate else None
    search = _Search(fails, isolated, seconds)
    try:
        found = search.run(start)
    finally:
        if isolated is not None:
            isolated.close()
    smallest, _ = found.build()
    return Minimized(
        fd=smallest,
        inputs=found.arguments(),
        script=_script(found),
        failure=search.failure or "",
        operations=_operations(found),
        operations_before=_operations(start.without_dead_code()),
        tries=search.tries,
    )


def _operations(candidate: _Candidate) -> int:
    """Those that have tensors as results."""
    return sum(not s.is_input and s.names[0].startswith("tv") for s in candidate.statements)


# ----------------------------------------------------------------------------------------- script


def _expression(value: Any) -> str:
    """Python for an input, with its values where these are few."""
    import torch

    if not isinstance(value, torch.Tensor):
        return (
            f'float("{value}")' if isinstance(value, float) and value - value != 0 else repr(value)
        )
    device = "" if value.device.type == "cpu" else f", device='{value.device}'"
    sizes, strides, offset = tuple(value.shape), value.stride(), value.storage_offset()
    dtype = f"dtype={value.dtype}{device}"
    if value.numel() and bool((value == 1).all()) and value.is_contiguous():
        return f"torch.ones({sizes}, {dtype})"
    if value.is_contiguous() and offset == 0:
        data = value.tolist() if value.numel() else None
        return (
            f"torch.tensor({data}, {dtype})"
            if data is not None
            else f"torch.empty({sizes}, {dtype})"
        )
    if value.numel() == 0:
        return f"torch.empty(64, {dtype}).as_strided({sizes}, {strides}, {offset})"
    reach = 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    memory = [0] * offset + value.as_strided((reach,), (1,)).tolist()
    return f"torch.tensor({memory}, {dtype}).as_strided({sizes}, {strides}, {offset})"


def _script(candidate: _Candidate) -> str:
    """Definition, inputs, call and comparison."""
    entries = "".join(f"    {_expression(x)},\n" for x in candidate.arguments())
    return (
        "import torch\nfrom nvfuse_direct import DataType, FusionDefinition\n\n\n"
        f"{candidate.text}\n\nwith FusionDefinition() as fd:\n    nvfuser_fusion(fd)\n\n"
        f"inf, nan = float('inf'), float('nan')\ninputs = [\n{entries}]\nfd.validate(inputs)\n"
    )
