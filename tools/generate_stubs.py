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
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

SIGNATURE = re.compile(r"^(?:\d+\. )?(\w+)\((.*)\)(?: -> (.+))?$")
# Private classes that public ones derive from.
PRIVATE_BASES = {"_FusionDefinitionBase"}
ENUM_NOISE = {"__members__", "__entries", "name", "value"}
SPECIAL_METHODS = {
    "__init__", "__call__", "__enter__", "__exit__", "__len__", "__iter__", "__next__",
    "__getitem__", "__setitem__", "__contains__", "__eq__", "__ne__", "__hash__", "__bool__",
    "__int__", "__index__", "__float__", "__repr__", "__str__", "__lt__", "__le__", "__gt__",
    "__ge__", "__add__", "__sub__", "__mul__", "__truediv__", "__neg__",
}  # fmt: skip


class StubWriter:
    """Stubs of one extension; types are written relative to `root`."""

    def __init__(self, root: ModuleType) -> None:
        self.root = root
        self.classes = {cls.__name__ for cls in self._classes(root)}

    def _classes(self, module: ModuleType) -> Iterator[type]:
        for value in vars(module).values():
            if inspect.isclass(value) and value.__module__.startswith(self.root.__name__):
                yield value
            elif inspect.ismodule(value) and value is not module:
                yield from self._classes(value)

    # ---------------------------------------------------------------------------------- signatures

    def _type(self, text: str) -> str:
        """A type as it may stand in a stub; C++ names that were never bound become Any."""
        text = text.replace(self.root.__name__ + ".", "")
        text = re.sub(r"Annotated\[(\w+), [^\]]*\]", r"\1", text)
        return "typing.Any" if "::" in text else text

    def _arguments(self, text: str) -> str:
        """Arguments with defaults that are no literals written as `...`."""
        parts = []
        for part in split_arguments(text):
            name, _, default = part.partition(" = ")
            name, _, kind = name.partition(": ")
            if keyword.iskeyword(name.lstrip("*")):
                name += "_"
            kind = self._type(kind) if kind else ""
            if default and not re.fullmatch(
                r"None|True|False|-?[\d.e+-]+|'[^']*'|\[\]|\(\)", default
            ):
                default = "..."
            parts.append(
                name + (f": {kind}" if kind else "") + (f" = {default}" if default else "")
            )
        return ", ".join(parts)

    def signatures(self, function: Any) -> list[tuple[str, str, str]]:
        """(arguments, result, description) of each overload in a pybind11 docstring."""
        lines = (inspect.getdoc(function) or "").splitlines()
        overloaded = len(lines) > 1 and lines[1].strip() == "Overloaded function."
        found: list[tuple[str, str, list[str]]] = []
        for index, line in enumerate(lines):
            match = SIGNATURE.match(line)
            starts = match and (re.match(r"\d+\. ", line) if overloaded else index == 0)
            if match and starts:
                result = self._type(match[3] or "typing.Any")
                found.append((self._arguments(match[2]), result, []))
            elif found:
                found[-1][2].append(line)
        return [(args, result, "\n".join(doc).strip()) for args, result, doc in found]

    @staticmethod
    def _unknown(name: str) -> tuple[str, str, str]:
        """Signature of a function without one, such as the constructor of a class that has none."""
        return "*args, **kwargs", "None" if name == "__init__" else "typing.Any", ""

    def function(self, name: str, function: Any, indent: str = "", decorator: str = "") -> str:
        overloads = self.signatures(function) or [self._unknown(name)]
        blocks = []
        for arguments, result, doc in overloads:
            block = f"{indent}@typing.overload\n" if len(overloads) > 1 else ""
            block += f"{indent}{decorator}\n" if decorator else ""
            block += f"{indent}def {name}({arguments}) -> {result}:"
            block += docstring(doc, indent + "    ") if doc else " ..."
            blocks.append(block)
        return "\n".join(blocks)

    # -------------------------------------------------------------------------------------- classes

    def class_(self, cls: type) -> str:
        bases = [base.__name__ for base in cls.__bases__ if base.__name__ in self.classes]
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
        for name, value in vars(cls).items():
            if name in skipped or (name.startswith("_") and name not in SPECIAL_METHODS):
                continue
            if inspect.isclass(value) and value.__name__ in self.classes:
                lines.append(textwrap.indent(self.class_(value), "    "))
            elif isinstance(value, property):
                lines.append(self._property(name, value))
            elif isinstance(value, staticmethod):
                lines.append(self.function(name, value.__func__, "    ", "@staticmethod"))
            elif name == "__hash__" and value is None:
                lines.append("    __hash__: typing.ClassVar[None]")
            elif callable(value):
                lines.append(self.function(name, value, "    "))
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
            text += f"\n    @{name}.setter\n    def {name}(self, value: {kind}) -> None: ..."
        return text

    # -------------------------------------------------------------------------------------- modules

    def module(self, module: ModuleType) -> str:
        blocks = []
        submodules = []
        for name, value in sorted(vars(module).items()):
            if name.startswith("_"):
                continue
            if inspect.ismodule(value):
                submodules.append(name)
            elif inspect.isclass(value):
                continue
            elif callable(value):
                blocks.append(self.function(name, value))
            else:
                blocks.append(f"{name}: {type(value).__name__}")
        classes = [self.class_(cls) for cls in ordered(own_classes(module))]
        head = ["import collections.abc", "import typing"]
        if module is not self.root:
            head.append(f"from . import {', '.join(sorted(self.classes))}")
        if submodules:
            head.append(f"from . import {', '.join(submodules)}")
        doc = (module.__doc__ or "").strip()
        text = f'"""{doc}"""\n\n' if doc else ""
        return text + "\n".join(head) + "\n\n" + "\n\n".join([*classes, *blocks]) + "\n"


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
    for name, value in vars(root).items():
        if inspect.ismodule(value) and not name.startswith("_"):
            (folder / f"{name}.pyi").write_text(writer.module(value))


if __name__ == "__main__":
    main()
