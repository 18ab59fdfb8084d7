# SPDX-License-Identifier: BSD-3-Clause
"""Other forms in which the inputs and results of layers come: the same computation for a compiler.

In most of them all inputs are given with other sizes and viewed back by the function, and its
results are viewed likewise, as model code does with tokens and heads: with a dimension of size 1 in
front (one), behind (behind) or after the first (second), with the first axis in two parts (first),
or with the last one in parts of 64 (last). In one (product) large inputs are results of linear
layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from aten import traced
from layer_cases import Layer, Tensor

AS_IT_IS = "as it is"
PART = 64


def _first(x: Tensor) -> Tensor:
    divisor = next((d for d in (2, 3, 5, 7) if x.dim() > 1 and x.shape[0] % d == 0), 0)
    is_split = divisor and x.shape[0] > divisor and x.is_contiguous()
    return x.unflatten(0, (divisor, -1)) if is_split else x


def _last(x: Tensor) -> Tensor:
    is_split = x.dim() and x.is_contiguous() and x.shape[-1] > PART and x.shape[-1] % PART == 0
    return x.unflatten(-1, (-1, PART)) if is_split else x


def _same(x: Tensor) -> Tensor:
    return x


def _of_product(x: Tensor) -> list[Tensor]:
    """What it is a linear layer of; itself if it is small."""
    is_made = x.dim() > 1 and x.is_floating_point() and x.dtype.itemsize > 1
    if not (is_made and x.is_contiguous() and x.numel() > 1 << 20):
        return [x]
    # The product's elements are normal numbers.
    width, std = 16, 0.5
    sizes = [(*x.shape[:-1], width), (x.shape[-1], width)]
    return [x.new_empty(each).normal_(std=std) for each in sizes]


@dataclass(frozen=True)
class Form:
    """What is given for an input, how the function makes the input of that, and results."""

    give: Callable[[Tensor], list[Tensor]]
    take: Callable[[list[Tensor], Tensor], Tensor]
    result: Callable[[Tensor], Tensor]


def _viewed(view: Callable[[Tensor], Tensor]) -> Form:
    def take(given: list[Tensor], x: Tensor) -> Tensor:
        # What is viewed back to the sizes that it has is a new tensor for torch all the same.
        return given[0] if given[0].shape == x.shape else given[0].reshape(x.shape)

    return Form(lambda x: [view(x)], take, view)


FORMS: dict[str, Form] = {
    AS_IT_IS: _viewed(_same),
    "one": _viewed(lambda x: x.unsqueeze(0)),
    "behind": _viewed(lambda x: x.unsqueeze(-1)),
    "second": _viewed(lambda x: x.unsqueeze(1) if x.dim() > 1 else x),
    "first": _viewed(_first),
    "last": _viewed(_last),
    "product": Form(_of_product, lambda g, x: g[0] if len(g) == 1 else F.linear(*g), _same),
}


def in_form(layer: Layer, form: Form, inputs: list[Tensor]) -> list[Any]:
    """The layer's graphs, of inputs like these."""
    given = [form.give(x) for x in inputs]
    flat = [
        t.detach().requires_grad_(x.requires_grad)
        for each, x in zip(given, inputs, strict=True)
        for t in each
    ]

    def function(*tensors: Tensor) -> Any:
        rest = list(tensors)
        same = []
        for each, x in zip(given, inputs, strict=True):
            same.append(form.take(rest[: len(each)], x))
            del rest[: len(each)]
        results = layer.function(*same)
        if isinstance(results, torch.Tensor):
            return form.result(results)
        return type(results)(form.result(y) if isinstance(y, Tensor) else y for y in results)

    return traced(layer.name, function, flat)
