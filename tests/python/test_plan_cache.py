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
from nvfuse_direct import DataType, FusionDefinition
folder = Path(sys.argv[1])

def definition(ops=lambda fd, x: fd.ops.sum(fd.ops.exp(x), [1])):
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True])
        fd.add_output(ops(fd, x))
    return fd

def run(fd, *sizes):
    x = torch.randn(sizes)
    torch.testing.assert_close(fd.execute([x])[0], x.exp().sum(1), rtol=1e-4, atol=1e-4)

def compiles():
    log = folder / "log"
    return len(log.read_text().split()) if log.exists() else 0

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
