# SPDX-License-Identifier: BSD-3-Clause
"""PythonProfiler: times of the fusions that run inside a ``with`` block."""

from __future__ import annotations

from typing import Any

from . import _C_DIRECT
from ._C_DIRECT import FusionProfile


class PythonProfiler:
    """Records the last fusion call of its block.

    ``profile`` is a FusionProfile (RuntimeError if nothing ran). With auto_scheduled=False the
    scheduler of manual kernels reads "user".
    """

    def __init__(self, auto_scheduled: bool = True) -> None:
        self.auto_scheduled = auto_scheduled

    def __enter__(self) -> PythonProfiler:
        _C_DIRECT.reset_profiler()
        _C_DIRECT._enable_profiler()
        return self

    def __exit__(self, *exc: Any) -> None:
        _C_DIRECT._disable_profiler()

    @property
    def profile(self) -> FusionProfile:
        return _C_DIRECT.get_fusion_profile()
