# SPDX-License-Identifier: BSD-3-Clause
"""Maps between torch's and this package's dtypes, device properties, out-of-memory retry."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any, Union

import torch

from ._C_DIRECT import DataType

NumberTypeType = Union[type[bool], type[int], type[float], type[complex]]  # noqa: UP007

_TORCH_TO_NVFUSER: dict[torch.dtype | NumberTypeType, DataType] = {
    torch.cdouble: DataType.ComplexDouble,
    torch.cfloat: DataType.ComplexFloat,
    torch.double: DataType.Double,
    torch.float: DataType.Float,
    torch.half: DataType.Half,
    torch.bfloat16: DataType.BFloat16,
    torch.float8_e4m3fn: DataType.Float8_e4m3fn,
    torch.float8_e5m2: DataType.Float8_e5m2,
    torch.long: DataType.Int,
    torch.int: DataType.Int32,
    torch.bool: DataType.Bool,
    complex: DataType.ComplexDouble,
    float: DataType.Double,
    int: DataType.Int,
    bool: DataType.Bool,
}
for _name, _dtype in (
    ("float8_e8m0fnu", DataType.Float8_e8m0fnu),
    ("float4_e2m1fn_x2", DataType.Float4_e2m1fn_x2),
):
    if hasattr(torch, _name):
        _TORCH_TO_NVFUSER[getattr(torch, _name)] = _dtype


def torch_dtype_to_nvfuser_dtype(dtype: Any) -> DataType:
    """The DataType of a torch dtype or of a Python number type. KeyError if there is none."""
    return _TORCH_TO_NVFUSER[dtype]


def python_scalar_to_nvfuser_dtype(a: complex) -> DataType:
    """The DataType of a Python number. KeyError if there is none."""
    return _TORCH_TO_NVFUSER[type(a)]


def nvfuser_dtype_to_torch_dtype(dtype: DataType) -> torch.dtype:
    """The torch dtype of a DataType. KeyError if torch has none."""
    for torch_dtype, nvfuser_dtype in _TORCH_TO_NVFUSER.items():
        if nvfuser_dtype == dtype and isinstance(torch_dtype, torch.dtype):
            return torch_dtype
    raise KeyError(dtype)


def retry_on_oom_or_skip_test(func: Callable) -> Callable:
    """Runs a test again with an empty cache when memory runs out; skips it if that fails."""

    @functools.wraps(func)
    def retried(*args: Any, **kwargs: Any) -> Any:
        try:
            return func(*args, **kwargs)
        except torch.OutOfMemoryError:
            pass
        gc.collect()
        torch.cuda.empty_cache()
        try:
            return func(*args, **kwargs)
        except torch.OutOfMemoryError as error:
            import pytest

            pytest.skip(f"out of device memory: {error}")

    return retried


def get_device_properties() -> dict[str, Any]:
    """Name, limits and peak rates of the current CUDA device.

    Clocks in kHz, memory in bytes, bandwidth in GB/s (2 * bus width * memory clock / 8e6).
    """
    p = torch.cuda.get_device_properties(torch.cuda.current_device())
    memory_clock = getattr(p, "memory_clock_rate", 0)
    bus_width = getattr(p, "memory_bus_width", 0)
    return {
        "gpu_name": p.name,
        "gpu_compute_capability_major": p.major,
        "gpu_compute_capability_minor": p.minor,
        "gpu_gmem_bytes": p.total_memory,
        "gpu_sm_count": p.multi_processor_count,
        "gpu_max_threads_per_block": getattr(p, "max_threads_per_block", 1024),
        "gpu_smem_bytes_per_block": getattr(p, "shared_memory_per_block", 0),
        "gpu_regs_per_block": getattr(p, "regs_per_multiprocessor", 0),
        "gpu_clock_rate_khz": getattr(p, "clock_rate", 0),
        "gpu_l2_bytes": getattr(p, "L2_cache_size", 0),
        "gpu_mem_clock_khz": memory_clock,
        "gpu_mem_bus_width": bus_width,
        "gpu_max_threads_per_sm": p.max_threads_per_multi_processor,
        "gpu_peak_bandwidth_gbps": 2 * bus_width * memory_clock / 8e6,
    }


@functools.cache
def _device_properties_or_none() -> dict[str, Any] | None:
    return get_device_properties() if torch.cuda.is_available() else None


def __getattr__(name: str) -> Any:
    """DEVICE_PROPERTIES: get_device_properties(), or None without CUDA.

    Asked for when somebody reads it: importing this module must not initialize CUDA.
    """
    if name == "DEVICE_PROPERTIES":
        return _device_properties_or_none()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
