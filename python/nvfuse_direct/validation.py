# SPDX-License-Identifier: BSD-3-Clause
"""Checks of outputs against references, with tolerances by dtype and length of reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _C_DIRECT
from ._C_DIRECT import DataType, Fusion


def get_val_tolerances(fusion: Fusion, args: Sequence[Any]) -> list[tuple[float, float]]:
    """(atol, rtol) for each output that is not an in-place update.

    They grow with the number of elements that an output accumulates for these arguments: the
    extents that are reduced or scanned on the way from the inputs to it. RuntimeError: the
    arguments do not fit the fusion.
    """
    aliases = _C_DIRECT._output_aliases(fusion)
    return [
        pair
        for pair, (alias, _) in zip(
            _C_DIRECT._output_tolerances(fusion, args), aliases, strict=True
        )
        if alias is None
    ]


def _visible(fusion: Fusion) -> list[int]:
    """Positions of the outputs that are returned."""
    return [i for i, (_, hidden) in enumerate(_C_DIRECT._output_aliases(fusion)) if not hidden]


def _comparable(x: Any, unpack: bool) -> Any:
    import torch

    from .block_scaled import unpack_float4

    if not isinstance(x, torch.Tensor):
        x = torch.as_tensor(x)
    if getattr(torch, "float4_e2m1fn_x2", None) == x.dtype:
        return unpack_float4(x) if unpack else x.view(torch.uint8)
    if x.is_floating_point() and x.dtype.itemsize == 1:
        return x.float()
    return x


def check_outputs(
    fusion: Fusion,
    outputs: Sequence[Any],
    inputs: Sequence[Any],
    reference_outputs: Sequence[Any] | None,
) -> None:
    """AssertionError if an output differs from its reference.

    Without references the definition is evaluated on `inputs`, NaN equals NaN, and results that
    have fp8 e8m0 may differ by a factor of 2.
    """
    import torch

    positions = _visible(fusion)
    inferred = reference_outputs is None
    if reference_outputs is None:
        from .reference import evaluate

        flat: list[Any] = []
        for x in inputs:
            flat.extend(x if isinstance(x, list | tuple) else [x])
        everything = evaluate(fusion, flat)
        reference_outputs = [everything[i] for i in positions]
    if len(outputs) != len(reference_outputs):
        raise AssertionError(
            f"{len(outputs)} outputs, but {len(reference_outputs)} reference outputs"
        )
    declared: list[Any] = fusion.outputs()
    tolerances = _C_DIRECT._output_tolerances(fusion, list(inputs))
    for k, (out, reference) in enumerate(zip(outputs, reference_outputs, strict=True)):
        dtype = declared[positions[k]].dtype()
        atol, rtol = tolerances[positions[k]]
        out = _comparable(out, unpack=inferred)
        reference = _comparable(reference, unpack=inferred).to(out.device)
        if out.shape != reference.shape:
            raise AssertionError(
                f"output {k} has the shape {tuple(out.shape)}, "
                f"the reference {tuple(reference.shape)}"
            )
        if inferred and dtype == DataType.Float8_e8m0fnu:
            ratio = out / reference
            same = bool(
                (((ratio >= 0.5) & (ratio <= 2.0)) | (out.isnan() & reference.isnan())).all()
            )
        elif out.is_floating_point() or out.is_complex():
            same = torch.allclose(
                out, reference.to(out.dtype), atol=atol, rtol=rtol, equal_nan=inferred
            )
        else:
            same = torch.equal(out, reference.to(out.dtype))
        if not same:
            difference = (out.to(torch.complex128) - reference.to(torch.complex128)).abs()
            worst = difference.nan_to_num(float("inf")).max().item() if out.numel() else 0.0
            raise AssertionError(
                f"output {k} differs from its reference by up to {worst:g} "
                f"(atol {atol:g}, rtol {rtol:g})"
            )


def validate_with_auto_inferred_outputs(
    fusion: Fusion, fusion_outputs: Sequence[Any], args: Sequence[Any]
) -> None:
    """Compares outputs with the definition evaluated by torch. RuntimeError: a mismatch."""
    try:
        check_outputs(fusion, fusion_outputs, args, None)
    except AssertionError as error:
        raise RuntimeError(str(error)) from None
