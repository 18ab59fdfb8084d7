# SPDX-License-Identifier: BSD-3-Clause
"""Write .pyi stubs of a pybind11 extension from the signatures in its docstrings.

    python tools/generate_stubs.py nvfuse_direct._C_DIRECT -o python/nvfuse_direct

The module becomes a folder of stubs, one file for each of its submodules, which type checkers read
and the interpreter does not.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import keyword
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

SIGNATURE = re.compile(r"^(?:\d+\. )?(\w+)\((.*)\)(?: -> (.+))?$")
# Private classes that public ones derive from.
PRIVATE_BASES = {"_FusionDefinitionBase"}
ENUM_NOISE = {"__members__", "__entries", "name", "value"}
ARITHMETIC = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
SPECIAL_METHODS = {
    "__init__", "__call__", "__enter__", "__exit__", "__len__", "__iter__", "__next__",
    "__getitem__", "__setitem__", "__contains__", "__eq__", "__ne__", "__hash__", "__bool__",
    "__int__", "__index__", "__float__", "__repr__", "__str__", "__lt__", "__le__", "__gt__",
    "__ge__", "__neg__", "__abs__", "__invert__",
    *(f"__{name}__" for name in ARITHMETIC), *(f"__r{name}__" for name in ARITHMETIC),
}  # fmt: skip
# Types as C++ bindings name them, and as a caller may read them.
REPLACED = (
    (r"Annotated\[(\w+), [^\]]*\]", r"\1"),
    # The bindings take what has __index__; floats, which have __int__, they refuse.
    (r"Mapping\[typing\.SupportsInt \| typing\.SupportsIndex,", "Mapping[int,"),
    (r"typing\.SupportsInt \| typing\.SupportsIndex", "typing.SupportsIndex"),
    (r"typing\.SupportsFloat \| typing\.SupportsIndex", "float"),
)
# Operands of ops on tensors or scalars, and their results, which are tensors if an operand is.
OPERAND = "TensorView | Val | bool | int | float | complex"
NUMBER = "Val | bool | int | float | complex"
PROMOTED = "TensorView | Val"


@dataclass
class Signature:
    """One overload: parameters as (name, type, default), where the markers have a name only."""

    parameters: list[tuple[str, str, str]]
    result: str
    doc: str

    def text(self, method: bool) -> str:
        parts = []
        for index, (name, kind, default) in enumerate(self.parameters):
            if method and index == 0:
                kind = ""  # self
            if keyword.iskeyword(name):
                name = f"__{name}"  # can be passed by position only
            parts.append(
                name + (f": {kind}" if kind else "") + (f" = {default}" if default else "")
            )
        return ", ".join(parts)

    def with_types(self, kinds: dict[int, str], result: str) -> Signature:
        parameters = [
            (name, kinds.get(index, kind), default)
            for index, (name, kind, default) in enumerate(self.parameters)
        ]
        return Signature(parameters, result, "")


def expanded(signature: Signature) -> list[Signature]:
    """Overloads that tell from the operands whether the result is a tensor or a scalar."""
    operands = [i for i, (_, kind, _) in enumerate(signature.parameters) if kind == OPERAND]
    if signature.result != PROMOTED or not operands:
        return [signature]
    overloads = [signature.with_types({i: "TensorView"}, "TensorView") for i in operands]
    overloads.append(signature.with_types(dict.fromkeys(operands, NUMBER), "Val"))
    overloads[0].doc = signature.doc
    return overloads


class StubWriter:
    """Stubs of one extension; types are written relative to `root`."""

    def __init__(self, root: ModuleType) -> None:
        self.root = root
        self.modules = {
            name: value
            for name, value in vars(root).items()
            if inspect.ismodule(value) and not name.startswith("__")
        }
        self.classes = {cls.__name__ for cls in own_classes(root)}

    # ---------------------------------------------------------------------------------- signatures

    def _type(self, text: str) -> str:
        """A type as it may stand in a stub; C++ names that were never bound become Any."""
        text = text.replace(self.root.__name__ + ".", "")
        for pattern, replacement in REPLACED:
            text = re.sub(pattern, replacement, text)
        return "typing.Any" if "::" in text else text

    def _parameters(self, text: str) -> list[tuple[str, str, str]]:
        """Defaults that are no literals are written as `...`."""
        parameters = []
        for part in split_arguments(text):
            name, _, default = part.partition(" = ")
            name, _, kind = name.partition(": ")
            if default and not re.fullmatch(
                r"None|True|False|-?[\d.e+-]+|'[^']*'|\[\]|\(\)", default
            ):
                default = "..."
            kind = self._type(kind) if kind else ""
            if default == "None" and kind not in ("", "object") and "None" not in kind:
                kind += " | None"
            parameters.append((name, kind, default))
        return parameters

    def signatures(self, function: Any) -> list[Signature]:
        """Each overload in a pybind11 docstring."""
        lines = (inspect.getdoc(function) or "").splitlines()
        overloaded = len(lines) > 1 and lines[1].strip() == "Overloaded function."
        found: list[tuple[list[tuple[str, str, str]], str, list[str]]] = []
        for index, line in enumerate(lines):
            match = SIGNATURE.match(line)
            starts = match and (re.match(r"\d+\. ", line) if overloaded else index == 0)
            if match and starts:
                result = self._type(match[3] or "typing.Any")
                result = "typing.Any" if result == "object" else result
                found.append((self._parameters(match[2]), result, []))
            elif found:
                found[-1][2].append(line)
        return [
            each
            for parameters, result, doc in found
            for each in expanded(Signature(parameters, result, "\n".join(doc).strip()))
        ]

    def function(
        self, name: str, function: Any, indent: str = "", decorator: str = "", method: bool = False
    ) -> str:
        overloads = self.signatures(function)
        if not overloads:  # not of pybind11
            first = [("self", "", "")] if method else []
            rest = [("*args", "typing.Any", ""), ("**kwargs", "typing.Any", "")]
            overloads = [Signature(first + rest, "typing.Any", "")]
        blocks = []
        for each in overloads:
            block = f"{indent}@typing.overload\n" if len(overloads) > 1 else ""
            block += f"{indent}{decorator}\n" if decorator else ""
            block += f"{indent}def {name}({each.text(method)}) -> {each.result}:"
            block += docstring(each.doc, indent + "    ") if each.doc else " ..."
            blocks.append(block)
        return "\n".join(blocks)

    # -------------------------------------------------------------------------------------- classes

    def class_(self, cls: type) -> str:
        names = {each.__name__ for each in own_classes(self.root)}
        bases = [base.__name__ for base in cls.__bases__ if base.__name__ in names]
        head = f"class {cls.__name__}{'(' + ', '.join(bases) + ')' if bases else ''}:"
        members = getattr(cls, "__members__", None)
        lines = []
        if members is not None:
            lines += [
                f"    {name}: {cls.__name__}" for name in members if not keyword.iskeyword(name)
            ]
            lines += [f"    __members__: typing.ClassVar[dict[str, {cls.__name__}]]"]
            lines += ["    @property\n    def name(self) -> str: ..."]
            lines += ["    @property\n    def value(self) -> int: ..."]
        skipped = set(members or ()) | (ENUM_NOISE if members is not None else set())
        for name, value in {} if cls.__name__ in PRIVATE_BASES else vars(cls).items():
            special = name.startswith("__")
            if name in skipped or name.startswith("_pybind11_"):
                continue
            if special and name not in SPECIAL_METHODS:
                continue
            if inspect.isclass(value) and value.__name__ in names:
                lines.append(textwrap.indent(self.class_(value), "    "))
            elif isinstance(value, property):
                lines.append(self._property(name, value))
            elif isinstance(value, staticmethod):
                lines.append(self.function(name, value.__func__, "    ", "@staticmethod"))
            elif name == "__hash__" and value is None:
                lines.append("    __hash__: typing.ClassVar[None]  # type: ignore[assignment]")
            elif name == "__init__" and not self.signatures(value):
                continue  # no constructor
            elif callable(value):
                lines.append(self.function(name, value, "    ", method=True))
        doc = (cls.__doc__ or "").strip()
        if members is not None:
            doc = doc.split("Members:")[0].strip()
        body = (docstring(doc, "    ") if doc else "") + "\n" + "\n".join(lines)
        return head + (body if body.strip() else " ...")

    def _property(self, name: str, value: property) -> str:
        # The docstring of a getter is "(self: Class) -> type", without a name.
        getter = ((value.fget and value.fget.__doc__) or "").strip().split("\n")[0]
        match = re.search(r"-> (.+)$", getter)
        kind = self._type(match[1]) if match else "typing.Any"
        doc = docstring(value.__doc__.strip(), "        ") if value.__doc__ else " ..."
        text = f"    @property\n    def {name}(self) -> {kind}:{doc}"
        if value.fset:
            # "(self: Class, arg0: type) -> None": what may be assigned is more than what is read.
            setter = (value.fset.__doc__ or "").strip().split("\n")[0]
            assigned = re.search(r".*arg\d: (.+)\) -> None$", setter)
            taken = self._type(assigned[1]) if assigned else kind
            text += f"\n    @{name}.setter\n    def {name}(self, value: {taken}) -> None: ..."
        return text

    # -------------------------------------------------------------------------------------- modules

    def functions(self, module: ModuleType) -> dict[str, Any]:
        return {
            name: value
            for name, value in sorted(vars(module).items())
            if callable(value) and not inspect.isclass(value) and not name.startswith("__")
        }

    def module(self, module: ModuleType) -> str:
        blocks = []
        submodules = sorted(self.modules) if module is self.root else []
        for name, value in sorted(vars(module).items()):
            if name.startswith("_") or inspect.ismodule(value) or callable(value):
                continue
            blocks.append(f"{name}: {type(value).__name__}")
        blocks += [self.function(name, value) for name, value in self.functions(module).items()]
        classes = [self.class_(cls) for cls in ordered(own_classes(module))]
        return self._file(module, (module.__doc__ or "").strip(), submodules, [*classes, *blocks])

    def namespace(self, name: str, module: ModuleType) -> str:
        """The functions of a module as a class: what attributes that hold the module are."""
        lines = [
            self.function(each, value, "    ", "@staticmethod")
            for each, value in self.functions(module).items()
        ]
        return f"class {name}:\n" + "\n".join(lines)

    def namespaces(self, names: dict[str, ModuleType]) -> str:
        blocks = [self.namespace(name, module) for name, module in names.items()]
        doc = "What fd.ops and fd.sched are to type checkers; there is no such module at run time."
        return self._file(None, doc, [], blocks)

    def _file(
        self, module: ModuleType | None, doc: str, submodules: list[str], blocks: list[str]
    ) -> str:
        body = "\n\n".join(blocks) + "\n"
        # An op of this name hides the type.
        body = re.sub(r"(?<=\| )complex\b", "builtins.complex", body)
        own = module.__name__.rpartition(".")[2] if module not in (None, self.root) else ""
        if own:
            body = re.sub(rf"\b{own}\.(?=[A-Z])", "", body)
        head = [
            f"import {name}"
            for name in ("builtins", "collections.abc", "torch", "typing")
            if re.search(rf"\b{re.escape(name)}\.", body)
        ]
        if module is not self.root:
            used = sorted(name for name in self.classes if re.search(rf"\b{name}\b", body))
            if used:
                head.append(f"from . import {', '.join(used)}")
        others = [
            name
            for name in self.modules
            if name != own and name not in submodules and re.search(rf"\b{name}\.[A-Z]", body)
        ]
        if submodules or others:
            names = (f"{name} as {name}" for name in sorted([*submodules, *others]))
            head.append(f"from . import {', '.join(names)}")
        start = f'"""{doc}"""\n\n' if doc else ""
        return start + "\n".join(head) + "\n\n" + body


def own_classes(module: ModuleType) -> list[type]:
    return [
        value
        for name, value in vars(module).items()
        if inspect.isclass(value) and (not name.startswith("_") or name in PRIVATE_BASES)
    ]


def ordered(classes: list[type]) -> list[type]:
    """Bases before what derives from them, otherwise by name."""
    return sorted(classes, key=lambda cls: (len(cls.__mro__), cls.__name__))


def split_arguments(text: str) -> list[str]:
    """Split at the commas that are not inside brackets or quotes."""
    parts, depth, start, quoted = [], 0, 0, False
    for index, char in enumerate(text):
        if char == "'":
            quoted = not quoted
        elif quoted:
            continue
        elif char in "[({<":
            depth += 1
        elif char in "])}" or (char == ">" and text[index - 1] != "-"):
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [part for part in [*parts, text[start:].strip()] if part]


def docstring(doc: str, indent: str) -> str:
    quoted = 'r"""' + doc.replace('"""', "'''") + '"""' if "\\" in doc else '"""' + doc + '"""'
    if "\n" in doc or len(indent) + len(quoted) > 100:
        quoted = quoted[:-3] + '\n"""'
    return "\n" + textwrap.indent(quoted, indent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the package")
    args = parser.parse_args()
    root = importlib.import_module(args.module)
    writer = StubWriter(root)
    folder = args.output / args.module.rpartition(".")[2]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.pyi").write_text(writer.module(root))
    for name, value in writer.modules.items():
        (folder / f"{name}.pyi").write_text(writer.module(value))
    (folder / "_namespaces.pyi").write_text(
        writer.namespaces({"Operations": root.ops, "ScheduleOperators": root.schedule})
    )


if __name__ == "__main__":
    main()
