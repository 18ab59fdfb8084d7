# SPDX-License-Identifier: BSD-3-Clause
"""Processes whose host kernels are built with a sanitizer: their environment, and what it reports.

Python, torch and the compiler are as they are: what is checked are the kernels, and for addresses
what the C library's allocator and copies do with memory. The sanitizer's runtime has to be there
first (LD_PRELOAD), and the C++ library after it, whose exceptions it looks up when it starts.
"""

from __future__ import annotations

import contextlib
import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

RUNTIMES = {"address": "libasan.so", "undefined": "libubsan.so", "thread": "libtsan.so"}
SANITIZERS = tuple(RUNTIMES)

# What the kernel calls personality() with: no random addresses, and to ask what holds.
_NO_RANDOM_ADDRESSES, _ASK = 0x0040000, 0xFFFFFFFF


def runtime_libraries(sanitizer: str) -> list[Path]:
    """Those of g++ for one sanitizer or several ("address,undefined"), and its C++ library.

    Empty where there is none.
    """
    compiler = shutil.which("g++")
    found = []
    for name in (*(RUNTIMES[each] for each in sanitizer.split(",")), "libstdc++.so.6"):
        if compiler is None:
            return []
        command = [compiler, f"-print-file-name={name}"]
        path = Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout[:-1])
        if not path.is_absolute():  # g++ repeats names that it does not find
            return []
        found.append(path)
    return found


def environment_of(sanitizer: str, folder: Path) -> dict[str, str]:
    """For a process with two threads for kernels, which are scheduled for the host itself.

    `folder` gets the compiled kernels, and the reports; what has one ends in the same moment.
    """
    # What is too large to be allocated is torch's error.
    options = f"allocator_may_return_null=1:log_path={folder / 'report'}"
    return {
        "LD_PRELOAD": " ".join(map(str, runtime_libraries(sanitizer))),
        "NVFUSER_HOST_CXX": "g++",
        "NVFUSER_HOST_SANITIZE": sanitizer,
        "NVFUSER_HOST_THREADS": "2",
        # Of torch: many such processes may run beside each other on a machine of many cores.
        "OMP_NUM_THREADS": "2",
        "NVFUSER_MACHINE": "host",
        "NVFUSER_CACHE_DIR": str(folder / "cache"),
        "ASAN_OPTIONS": f"detect_leaks=0:{options}",
        "UBSAN_OPTIONS": f"print_stacktrace=1:{options}",
        "TSAN_OPTIONS": f"halt_on_error=1:ignore_noninstrumented_modules=1:{options}",
    }


def reports(folder: Path) -> str:
    return "\n".join(path.read_text(errors="replace") for path in sorted(folder.glob("report*")))


@contextlib.contextmanager
def fixed_addresses() -> Iterator[None]:
    """Processes that begin meanwhile have no random addresses: not all suit libtsan."""
    personality = ctypes.CDLL(None).personality
    personality.argtypes = [ctypes.c_ulong]
    before = personality(_ASK)
    personality(before | _NO_RANDOM_ADDRESSES)
    try:
        yield
    finally:
        personality(before)
