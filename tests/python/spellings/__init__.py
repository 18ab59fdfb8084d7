# SPDX-License-Identifier: BSD-3-Clause
"""Families of layers in the spellings that frontends, model code and papers use."""

from . import (  # noqa: F401
    channel_norm_gradients,
    channel_norms,
    layer_norms,
    pointwise,
    pointwise_gradients,
    softmax_gradients,
    softmaxes,
)
from .family import FAMILIES, Family, Math

__all__ = ["FAMILIES", "Family", "Math"]
