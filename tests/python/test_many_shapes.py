# SPDX-License-Identifier: BSD-3-Clause
"""A definition that sees many shapes: threads that compile side by side, and memory."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from test_plan_cache import folder, on_host, run_script

__all__ = ["folder"]  # the fixture

# Each compile waits until as many threads as there are compile at the same time.
MEETING_COMPILER = """\
#!/bin/sh
case "$*" in *nvfuser*)
  mkdir -p "{folder}/started"
  touch "{folder}/started/$$"
  count=$(ls "{folder}/started" | wc -l)
  awaited=$(( (count + {threads} - 1) / {threads} * {threads} ))
  while [ "$(ls "{folder}/started" | wc -l)" -lt $awaited ]; do sleep 0.02; done
esac
exec g++ "$@"
"""

SOFTMAX = """
import random
def softmax(fd, x):
    e = fd.ops.exp(fd.ops.sub(x, fd.ops.max(x, [1], keepdim=True)))
    return fd.ops.div(e, fd.ops.sum(e, [1], keepdim=True))

def run_softmax(fd, rows, width, **options):
    x = torch.randn(rows, width)
    torch.testing.assert_close(fd.execute([x], **options)[0], x.softmax(1), rtol=1e-4, atol=1e-6)

# Each thread has widths of its own.
def in_threads(count, widths, work):
    errors = []
    def one(number):
        try:
            for width in widths[number::count]:
                work(width)
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads: thread.start()
    for thread in threads: thread.join(250)
    assert not any(thread.is_alive() for thread in threads), "threads wait for each other"
    assert not errors, errors
"""


@on_host
def test_eight_threads_compile_at_the_same_time(folder: Path) -> None:
    """Every width takes a kernel of its own; a thread that waited for another one's would wait for
    ever."""
    threads, rounds = 8, 4
    (folder / "compiler").write_text(MEETING_COMPILER.format(folder=folder, threads=threads))
    run_script(
        folder,
        SOFTMAX
        + textwrap.dedent(
            f"""
            fd = definition(softmax)
            widths = list(range(40, 40 + 8 * {threads * rounds}, 8))
            in_threads({threads}, widths, lambda width: run_softmax(
                fd, 3, width, _disable_options=["dynamic_extents"]))
            assert fd.fec._num_kernels == {threads * rounds}
            assert len(list((folder / "started").iterdir())) == {threads * rounds}
            """
        ),
    )


@on_host
def test_eight_threads_share_kernels_for_any_width(folder: Path) -> None:
    """Sixty widths each: those that come first compile kernels of their own, and nobody compiles
    what another one has or is compiling."""
    run_script(
        folder,
        SOFTMAX
        + textwrap.dedent(
            """
            fd = definition(softmax)
            widths = random.Random(1).sample(range(1, 4001), 480)
            in_threads(8, widths, lambda width: run_softmax(fd, 2, width))
            assert fd.fec._num_plans == 480
            assert fd.fec._num_kernels <= 8 + 6
            assert compiles() == fd.fec._num_kernels
            """
        ),
    )


@pytest.mark.machine("hopper")
@on_host
def test_ten_thousand_widths_take_bounded_memory(folder: Path) -> None:
    """Plans, kernels, memory maps and bytes in use; softmax, and a reshape with scalar sizes."""
    run_script(
        folder,
        SOFTMAX
        + textwrap.dedent(
            """
            import ctypes
            class Mallinfo(ctypes.Structure):
                names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keep"
                _fields_ = [(name, ctypes.c_size_t) for name in names.split()]
            libc = ctypes.CDLL(None)
            libc.mallinfo2.restype = Mallinfo

            def bytes_in_use():
                info = libc.mallinfo2()
                return info.uordblks + info.hblkhd

            with FusionDefinition() as reshaped:
                x = reshaped.define_tensor(shape=[-1], contiguity=[True])
                sizes = [reshaped.define_scalar(None, dtype=DataType.Int) for _ in range(2)]
                y = reshaped.ops.reshape(reshaped.ops.exp(x), sizes)
                reshaped.add_output(reshaped.ops.sum(y, [1]))
            normalized = definition(softmax)
            values = torch.randn(20000)
            used = {}
            for count, width in enumerate(random.Random(1).sample(range(1, 10001), 10000), 1):
                x = values[: 2 * width]
                rows = normalized.execute([x.view(2, width)])[0]
                sums = reshaped.execute([x, 2, width])[0]
                if count % 500 == 0:
                    x = x.view(2, width)
                    torch.testing.assert_close(rows, x.softmax(1), rtol=1e-3, atol=1e-6)
                    torch.testing.assert_close(sums, x.exp().sum(1), rtol=1e-3, atol=1e-3)
                if count in (2000, 6000, 10000):
                    used[count] = bytes_in_use()
                    for fd in (normalized, reshaped):
                        assert fd.fec._num_plans <= 4096 and fd.fec._num_kernels <= 8
                    assert extension._loaded_kernels()[0] <= 16
                    print(count, "widths:", used[count] >> 20, "MB in use,", maps(), "maps")
            # All plans that are kept are there long before; those that come take their places.
            assert used[10000] <= used[6000] + (2 << 20), used
            # A plan takes some kilobytes.
            assert used[6000] - used[2000] <= 2 * 2100 * 12 << 10, used
            """
        ),
        NVFUSER_HOST_OPT_LEVEL="2",
    )
