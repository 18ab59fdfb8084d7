# SPDX-License-Identifier: BSD-3-Clause
"""Says so when NVIDIA's nvFuser is installed as well, whose packages have names of this wheel's."""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from collections.abc import Iterable

# The packages of this wheel that NVIDIA's brings too.
SHARED_NAMES = ("nvfuser", "nvfuser_common", "nvfuser_direct")


def other_distributions(folders: Iterable[str]) -> list[str]:
    """Paths of the metadata of NVIDIA's wheels (nvfuser, nvfuser-cu128-torch28, ...) in folders.

    Folder listings only: reading the metadata of everything installed would take longer than the
    rest of the import.
    """
    found = []
    for folder in dict.fromkeys(folders):
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        found += [
            os.path.join(folder, name)
            for name in sorted(names)
            if name.startswith("nvfuser") and name.endswith((".dist-info", ".egg-info"))
        ]
    return found


def warn_about_others() -> None:
    """UserWarning if a distribution of NVIDIA's is installed. To be called at import."""
    others = other_distributions(sys.path)
    if not others:
        return
    spec = importlib.util.find_spec("nvfuser_direct")
    origin = "nothing" if spec is None else spec.origin
    warnings.warn(
        f"NVIDIA's nvFuser is installed too ({', '.join(others)}). Its wheel and nvfuse-direct "
        f"both bring the packages {', '.join(SHARED_NAMES)}: in one folder the wheel that was "
        "installed last has replaced files of the other, and uninstalling either removes them. "
        f"`import nvfuser_direct` finds {origin}. Use two environments, or uninstall both and "
        "install the one you want again; `import nvfuse_direct` is this project's own name.",
        UserWarning,
        stacklevel=3,
    )
