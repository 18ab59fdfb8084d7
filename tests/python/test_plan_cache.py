"""What is kept of a definition: plans and kernels, for many threads, within limits, on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

DEVICE = os.environ.get("NVFUSER_TEST_DEVICE", "cpu")
on_host = pytest.mark.skipif(DEVICE != "cpu", reason="watches the host compiler")

# Stands for the host compiler. Each call leaves a line in the file `log`. The call that finds the
# file `hold` takes it away and waits until the file `held` that it becomes is removed.
COMPILER = """\
#!/bin/sh
case "$*" in *nvfuser*) echo compile >> "{folder}/log";; esac
if mv "{folder}/hold" "{folder}/held" 2>/dev/null; then
  while [ -e "{folder}/held" ]; do sleep 0.02; done
fi
exec g++ "$@"
"""

PRELUDE = """\
import sys, threading, time
from pathlib import Path
import torch
from nvfuse_direct import _C_DIRECT as extension
from nvfuse_direct import DataType, FusionDefinition
folder = Path(sys.argv[1])

def definition(ops=lambda fd, x: fd.ops.sum(fd.ops.exp(x), [1])):
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True])
        fd.add_output(ops(fd, x))
    return fd

def scaled(factor):
    # Each factor takes a kernel of its own.
    return definition(lambda fd, x: fd.ops.sum(fd.ops.mul(fd.ops.exp(x), factor), [1]))

def run(fd, *sizes, factor=1.0):
    x = torch.randn(sizes)
    torch.testing.assert_close(fd.execute([x])[0], x.exp().sum(1) * factor, rtol=1e-4, atol=1e-4)

def compiles():
    log = folder / "log"
    return len(log.read_text().split()) if log.exists() else 0

def maps():
    return len(Path("/proc/self/maps").read_text().splitlines())

def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    compiler = tmp_path / "compiler"
    compiler.write_text(COMPILER.format(folder=tmp_path))
    compiler.chmod(0o755)
    return tmp_path


def run_script(folder: Path, script: str, **environment: str) -> str:
    """Runs a script in a process of its own, with a kernel cache of its own in the folder."""
    result = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(script), str(folder)],
        env={
            **os.environ,
            "NVFUSER_HOST_CXX": str(folder / "compiler"),
            "NVFUSER_CACHE_DIR": str(folder / "cache"),
            "NVFUSER_HOST_OPT_LEVEL": "0",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@on_host
def test_others_go_on_while_one_thread_compiles(folder: Path) -> None:
    run_script(
        folder,
        """
        fd = definition()
        (folder / "hold").touch()
        first = threading.Thread(target=run, args=(fd, 8, 1000))
        first.start()
        wait_for((folder / "held").exists)
        for width in (3, 64):
            other = threading.Thread(target=run, args=(fd, 8, width))
            other.start()
            other.join(60)
            assert not other.is_alive(), "waits for somebody else's kernel"
        # The same kernel for another shape is waited for, not compiled again.
        before = compiles()
        same = threading.Thread(target=run, args=(fd, 7, 1000))
        same.start()
        same.join(0.5)
        assert same.is_alive() and first.is_alive()
        (folder / "held").unlink()
        first.join(60), same.join(60)
        assert not first.is_alive() and not same.is_alive()
        assert compiles() == before, "compiled twice"
        """,
    )


@on_host
def test_a_refused_kernel_is_made_simpler_by_the_first_that_notices(folder: Path) -> None:
    """All threads wait for a kernel that the compiler does not take."""
    (folder / "compiler").write_text(
        '#!/bin/sh\ncase "$*" in *nvfuser_pointwise*)\n'
        f'  if mkdir "{folder}/refused" 2>/dev/null; then sleep 0.5; exit 1; fi;; esac\n'
        'exec g++ "$@"\n'
    )
    run_script(
        folder,
        """
        fd = definition(lambda fd, x: fd.ops.exp(x))
        wrong = []
        def work(rows):
            x = torch.randn(rows, 64)
            if not torch.allclose(fd.execute([x])[0], x.exp(), rtol=1e-4):
                wrong.append(rows)
        threads = [threading.Thread(target=work, args=(rows,)) for rows in (8, 8, 16, 24, 32)]
        for thread in threads: thread.start()
        for thread in threads: thread.join(60)
        assert not any(thread.is_alive() for thread in threads) and not wrong
        assert fd.fec._num_fallbacks == 1, fd.fec._num_fallbacks
        """,
    )


@on_host
def test_kernels_that_were_not_used_for_long_are_given_up(folder: Path) -> None:
    run_script(
        folder,
        """
        fds = {factor: scaled(float(factor)) for factor in range(1, 31)}
        extension._set_kernel_limits(8, 1 << 30, 1000)
        def use(factor):
            run(fds[factor], 3, 40, factor=factor)
        for factor in fds:
            use(factor)
            assert extension._loaded_kernels()[0] <= 8
            if factor == 15:
                halfway = maps()
            use(1)  # is used again and again, so that it stays
        assert compiles() == 30
        assert maps() <= halfway + 10, "maps of dropped kernels stay"
        assert [fds[factor].fec._num_plans for factor in (1, 2, 30)] == [1, 0, 1]
        for factor in (1, 30, 2, 3):
            use(factor)
        assert compiles() == 30, "what was given up comes back from the disk"
        """,
    )


@on_host
def test_the_size_of_kernels_is_limited_too(folder: Path) -> None:
    run_script(
        folder,
        """
        run(scaled(1.0), 3, 40)
        fds = [scaled(float(factor)) for factor in range(2, 14)]
        run(fds[0], 3, 40, factor=2.0)
        size = extension._loaded_kernels()[1]
        assert size > 0
        extension._set_kernel_limits(1000, 4 * size, 1000)
        for factor, fd in enumerate(fds, 2):
            run(fd, 3, 40, factor=factor)
            assert extension._loaded_kernels()[1] <= 4 * size
        assert sum(fd.fec._num_plans for fd in fds) < len(fds)
        """,
    )


@on_host
def test_plans_that_were_not_used_for_long_are_given_up(folder: Path) -> None:
    run_script(
        folder,
        """
        extension._set_kernel_limits(1000, 1 << 30, 40)
        fd = definition(lambda fd, x: fd.ops.exp(x))
        def use(rows):
            x = torch.randn(rows, 8)
            torch.testing.assert_close(fd.execute([x])[0], x.exp())
        for rows in range(2, 400):
            use(rows)
            use(2)
            assert fd.fec._num_plans <= 40
        assert fd.fec._num_kernels < 10
        assert fd.fec.is_compiled([torch.randn(399, 8)])
        """,
    )


@on_host
def test_threads_run_while_kernels_are_given_up(folder: Path) -> None:
    run_script(
        folder,
        """
        fds = [scaled(float(factor)) for factor in range(6)]
        extension._set_kernel_limits(3, 1 << 30, 6)
        errors = []
        def work(seed):
            try:
                for i in range(20):
                    factor = (seed + i) % 6
                    run(fds[factor], 2 + i % 3, 40 + i % 5, factor=factor)
            except Exception as error:
                errors.append(error)
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join(200)
        assert not any(thread.is_alive() for thread in threads)
        assert not errors, errors
        """,
    )


@on_host
def test_reports_of_what_was_given_up(folder: Path) -> None:
    run_script(
        folder,
        """
        fd = definition()
        run(fd, 3, 40)
        extension._set_kernel_limits(1, 1 << 30, 10)
        for factor in (2.0, 3.0):
            run(scaled(factor), 3, 40, factor=factor)
        try:
            fd.fec.get_most_recent_scheduled_ir()
        except RuntimeError as error:
            assert "run it again" in str(error)
        else:
            raise AssertionError("the plan is still there")
        run(fd, 3, 40)
        assert fd.fec.get_most_recent_scheduled_ir()
        """,
    )
