# SPDX-License-Identifier: BSD-3-Clause
"""What a user is told when a mistake of the compiler's own keeps a kernel from being made."""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _C_DIRECT
from ._C_DIRECT import Fusion


@dataclass
class _Described:
    """A tensor of which only the metadata is known."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    device: Any

    def size(self) -> tuple[int, ...]:
        return self.sizes

    def stride(self) -> tuple[int, ...]:
        return self.strides


def _described(argument: Any) -> Any:
    if not isinstance(argument, tuple):
        return argument
    import torch

    from .pytorch_utils import nvfuser_dtype_to_torch_dtype

    sizes, strides, dtype, device = argument
    return _Described(
        tuple(sizes), tuple(strides), nvfuser_dtype_to_torch_dtype(dtype), torch.device(device)
    )


def _write(script: str) -> str:
    """Writes the script where kernels are kept, or else where temporary files are."""
    name = f"repro_{hashlib.sha256(script.encode()).hexdigest()[:16]}.py"
    for folder in (_C_DIRECT._kernel_cache_directory(), tempfile.gettempdir()):
        if not folder:
            continue
        path = Path(folder) / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # As a whole or not at all, whoever else writes it.
            part = path.with_suffix(f".{os.getpid()}")
            part.write_text(script)
            part.replace(path)
        except OSError:
            continue
        return str(path)
    return "(which could not be written)"


def report(fusion: Fusion, arguments: list[Any], words: str) -> None:
    """Warns (RuntimeWarning) that something simpler runs, and names a script that shows why."""
    from .repro import script_of

    comment = "".join(f"# {line}\n" for line in words.splitlines())
    try:
        inputs = [_described(argument) for argument in arguments]
        path = _write(comment + script_of(_C_DIRECT.translate_fusion(fusion), inputs))
    except (KeyError, RuntimeError) as error:  # a dtype that torch lacks, no torch at all
        path = f"(no script: {error})"
    warnings.warn(
        "An internal error kept a kernel of a fusion from being made. Something simpler runs in "
        f"its place: the values are right, but it is slower. Please report it with {path}\n"
        f"{words.splitlines()[0] if words else ''}",
        RuntimeWarning,
        stacklevel=2,
    )


def install() -> None:
    """To be called once, when the package is imported."""
    _C_DIRECT._set_internal_failure_handler(report)
