# SPDX-License-Identifier: BSD-3-Clause
"""Tells the extension where the NVRTC of the pip package nvidia-cuda-nvrtc lies."""

import importlib.util
from pathlib import Path
from types import ModuleType


def nvrtc_directory() -> str | None:
    """The folder with libnvrtc in site-packages, or None if no such package is installed."""
    spec = importlib.util.find_spec("nvidia")
    if spec is None:
        return None
    for location in spec.submodule_search_locations or ():
        for folder in ("cu13/lib", "cuda_nvrtc/lib"):
            directory = Path(location) / folder
            if any(directory.glob("libnvrtc.so.*")):
                return str(directory)
    return None


def configure(extension: ModuleType) -> None:
    """To be called once, when the package is imported. Opens nothing yet."""
    directory = nvrtc_directory()
    if directory is not None:
        extension._interop.set_nvrtc_path(directory)
