# SPDX-License-Identifier: BSD-3-Clause
"""Families of layers in the spellings that frontends, model code and papers use."""

from . import channel_norms, layer_norms, pointwise, softmaxes  # noqa: F401
from .family import FAMILIES, Family, Math

__all__ = ["FAMILIES", "Family", "Math"]
