# SPDX-License-Identifier: BSD-3-Clause
"""What is kept of a definition: plans and kernels, for many threads, within limits, on disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import processes
import pytest

DEVICE = os.environ.get("NVFUSER_TEST_DEVICE", "cpu")
on_host = pytest.mark.skipif(DEVICE != "cpu", reason="watches the host compiler")

# Stands for the host compiler. Each call leaves a line in the file `log`. The call that finds the
# file `hold` takes it away, waits until the file `held` that it becomes is removed, and leaves the
# file `released` when it is done.
COMPILER = """\
#!/bin/sh
case "$*" in *nvfuser*) echo compile >> "{folder}/log";; esac
if mv "{folder}/hold" "{folder}/held" 2>/dev/null; then
  while [ -e "{folder}/held" ]; do sleep 0.02; done
  g++ "$@"
  status=$?
  touch "{folder}/released"
  exit $status
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
    result = processes.run_script(
        PRELUDE + textwrap.dedent(script),
        folder,
        env={
            "NVFUSER_HOST_CXX": str(folder / "compiler"),
            "NVFUSER_CACHE_DIR": str(folder / "cache"),
            "NVFUSER_HOST_OPT_LEVEL": "0",
            **environment,
        },
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.machine("hopper")  # which widths share a kernel
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


# --- on disk ---

CHAIN = """
import gc
def make_chain():
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True])
        y = fd.ops.segment_set(fd.ops.exp(x))
        z = fd.ops.sum(y, [1])
        fd.add_output(fd.ops.add(y, fd.ops.broadcast(fd.ops.segment_set(z), [False, True])))
        fd.add_output(z)
        fd.add_output(x)
        fd.add_output(fd.ops.permute(x, [1, 0]))
    return fd

def check(chain, *sizes):
    x = torch.randn(sizes)
    got = chain.execute([x])
    e = x.exp()
    want = [e + e.sum(1, keepdim=True), e.sum(1), x, x.t()]
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    assert got[2] is x and got[3].data_ptr() == x.data_ptr()
    return x

# Whether a definition that is new in this process had to be planned.
def is_planned(*sizes):
    chain = make_chain()
    check(chain, *sizes)
    return chain.fec._num_planned == 1
"""


@on_host
def test_a_second_process_neither_compiles_nor_plans(folder: Path) -> None:
    run_script(folder, CHAIN + "assert is_planned(6, 40) and compiles() > 0")
    run_script(
        folder,
        CHAIN
        + textwrap.dedent(
            """
            before = compiles()
            chain = make_chain()
            x = check(chain, 6, 40)
            assert chain.fec._num_planned == 0 and compiles() == before
            kernels = chain.fec._num_kernels
            assert kernels > 1 and chain.fec._num_plans == 1
            # Somebody asks what became of it: the plan is made again.
            assert chain.fec.get_most_recent_scheduled_ir()
            assert chain.fec._num_planned == 1 and compiles() == before
            assert "NVF_KERNEL" in chain.fec.get_cuda_kernel([x])
            check(chain, 6, 40)
            assert chain.fec._num_plans == 1 and chain.fec._num_kernels == kernels
            # Every part of the key counts.
            assert is_planned(7, 40) and not is_planned(6, 40)
            chain = make_chain()
            chain.execute([x], _disable_options=["fma"])
            assert chain.fec._num_planned == 1
            x = torch.randn(40, 6).t()
            with FusionDefinition() as other:
                y = other.define_tensor(shape=[-1, -1], contiguity=[True, True])
                other.add_output(other.ops.segment_set(other.ops.exp(y)))
            other.execute([torch.randn(6, 40)])
            assert other.fec._num_planned == 1
            """
        ),
    )
    # What is made again has the options of its call.
    run_script(
        folder,
        CHAIN
        + textwrap.dedent(
            """
            before = compiles()
            chain = make_chain()
            chain.execute([torch.randn(6, 40)], _disable_options=["fma"])
            assert chain.fec._num_planned == 0
            assert chain.fec.get_most_recent_scheduled_ir()
            assert chain.fec._num_planned == 1 and compiles() == before
            """
        ),
    )
    for name, value in (
        ("NVFUSER_HOST_OPT_LEVEL", "1"),
        ("NVFUSER_DUMP", "launch_param"),
        ("NVFUSER_STORE_PLANS", "0"),
    ):
        run_script(folder, CHAIN + "assert is_planned(6, 40)", **{name: value})


@on_host
def test_a_kernel_from_a_file_is_compiled_once(folder: Path) -> None:
    """What it is compiled to is kept by the file's content, whatever file that is."""
    printed = run_script(folder, "run(definition(), 6, 40)", NVFUSER_DUMP="cuda_kernel")
    # The line after the heading and an empty one.
    begin = printed.index(" =======\n") + len(" =======\n\n")
    kernel = printed[begin : printed.index("\n}\n") + 3]
    other = kernel.replace("NVF_KERNEL(", "// The same in other words.\nNVF_KERNEL(", 1)
    script = """
        before = compiles()
        fd = definition()
        for rows in (6, 6, 7):
            run(fd, rows, 40)
        assert compiles() == before + {}, (before, compiles())
        """
    for name, text, expected in (
        ("same.cu", kernel, 0),
        ("doubled.cu", kernel.replace("{", "{ ;", 1), 1),
        ("copy.cu", kernel.replace("{", "{ ;", 1), 0),
        ("doubled.cu", other.replace("{", "{ ;;", 1), 1),
    ):
        (folder / name).write_text(text)
        run_script(folder, script.format(expected), NVFUSER_EXTERNAL_SRC=str(folder / name))


STORED = """
import os
def stored_plans():
    paths = (p for p in (folder / "cache").rglob("*") if len(p.name) == 64)
    return sum(b"nvfuser plan 8" in p.read_bytes() for p in paths)
"""


@on_host
def test_plans_for_known_kernels_are_written_in_the_background(folder: Path) -> None:
    """Whether the process goes on, ends, or is killed a little later."""
    script = """
        chain = make_chain()
        for rows in range(6, 12):
            check(chain, rows, 40)
        # Those that were not written yet are found as well.
        assert not any(is_planned(rows, 40) for rows in range(6, 12))
        wait_for(lambda: stored_plans() == 6)
        os._exit(0)
        """
    run_script(folder, STORED + CHAIN + textwrap.dedent(script))
    run_script(
        folder,
        STORED
        + CHAIN
        + textwrap.dedent(
            """
            assert not any(is_planned(rows, 40) for rows in range(6, 12))
            chain = make_chain()
            check(chain, 20, 40), check(chain, 21, 40), check(chain, 22, 40)
            """
        ),
    )
    run_script(folder, CHAIN + "assert not any(is_planned(rows, 40) for rows in (20, 21, 22))")


@on_host
def test_a_child_of_fork_plans_and_writes_for_itself(folder: Path) -> None:
    run_script(
        folder,
        STORED
        + CHAIN
        + textwrap.dedent(
            """
            chain = make_chain()
            check(chain, 6, 40), check(chain, 7, 40)
            if os.fork() == 0:
                check(chain, 8, 40)
                wait_for(lambda: stored_plans() == 3)
                os._exit(0)
            assert os.wait()[1] == 0
            """
        ),
    )
    run_script(folder, CHAIN + "assert not any(is_planned(rows, 40) for rows in (6, 7, 8))")


@on_host
def test_few_plans_for_known_kernels_are_written(folder: Path) -> None:
    """Others are planned again; the first of them as the first shapes of a definition are."""
    run_script(
        folder,
        CHAIN + "chain = make_chain()\nfor rows in range(2, 402): check(chain, rows, 40)",
    )
    run_script(
        folder,
        STORED
        + CHAIN
        + textwrap.dedent(
            """
            assert 256 <= stored_plans() < 300
            before = compiles()
            assert not is_planned(3, 40) and is_planned(400, 40)
            assert compiles() <= before + 1
            """
        ),
    )


@on_host
def test_damaged_files_are_made_anew(folder: Path) -> None:
    run_script(
        folder,
        CHAIN
        + textwrap.dedent(
            """
            assert is_planned(6, 40) and not is_planned(6, 40)
            good = {p: p.read_bytes() for p in (folder / "cache").rglob("*") if len(p.name) == 64}
            plan = next(path for path, data in good.items() if b"nvfuser plan 8" in data)
            data = good[plan]
            damaged = {
                "truncated": data[: len(data) // 2],
                "empty": b"",
                "flipped": data[:200] + bytes([data[200] ^ 4]) + data[201:],
                "other version": data.replace(b"nvfuser plan 8", b"nvfuser plan 0"),
                "longer": data + b"x",
            }
            for name, contents in damaged.items():
                plan.write_bytes(contents)
                assert is_planned(6, 40), name
                assert plan.read_bytes() == data, name
                assert not is_planned(6, 40), name
            # Kernels of the plan are gone: one, then all.
            kernels = [path for path in good if path != plan]
            for gone in (kernels[:1], kernels):
                gc.collect()
                assert extension._loaded_kernels()[0] == 0
                for path in gone:
                    path.unlink()
                before = compiles()
                assert is_planned(6, 40) and compiles() == before + len(gone)
                assert not is_planned(6, 40)
            """
        ),
    )


@on_host
def test_processes_at_once_share_a_cache(folder: Path) -> None:
    script = PRELUDE + CHAIN + "chain = make_chain()\nfor n in range(2, 12): check(chain, n, 40)"
    environment = {
        **os.environ,
        "NVFUSER_HOST_CXX": str(folder / "compiler"),
        "NVFUSER_CACHE_DIR": str(folder / "cache"),
        "NVFUSER_HOST_OPT_LEVEL": "0",
    }
    processes = [
        subprocess.Popen([sys.executable, "-c", script, str(folder)], env=environment)
        for _ in range(3)
    ]
    assert [process.wait(timeout=300) for process in processes] == [0, 0, 0]
    run_script(folder, CHAIN + "assert not any(is_planned(n, 40) for n in range(2, 12))")
    assert not list((folder / "cache").rglob(".tmp-*"))


@on_host
def test_plans_from_the_disk_know_scalars_updates_and_random_numbers(folder: Path) -> None:
    script = """
        with FusionDefinition() as fd:
            x = fd.define_tensor(shape=[-1], contiguity=[True])
            s = fd.define_scalar(None, dtype=DataType.Double)
            n = fd.define_scalar(None, dtype=DataType.Int)
            fd.add_output(fd.ops.mul(x, s), x)
            fd.add_output(fd.ops.full([n], 2.0, dtype=DataType.Float))
            fd.add_output(fd.ops.uniform(0.0, 1.0, [n], dtype=DataType.Float))
        for s, n in ((2.0, 3), (5.0, 3), (5.0, 4)):
            x = torch.arange(10.0)
            torch.manual_seed(3)
            full, first = fd.execute([x, s, n])
            assert torch.equal(x, torch.arange(10.0) * s)
            assert torch.equal(full, torch.full((n,), 2.0))
            _, other = fd.execute([x, s, n])
            torch.manual_seed(3)
            _, again = fd.execute([x, s, n])
            assert torch.equal(first, again) and not torch.equal(first, other)
        print(fd.fec._num_planned, first.tolist())
        """
    cold = run_script(folder, script).split(maxsplit=1)
    warm = run_script(folder, script).split(maxsplit=1)
    assert cold[0] == "2" and warm[0] == "0" and cold[1] == warm[1]


@on_host
def test_what_is_evaluated_comes_back_too(folder: Path) -> None:
    """Products by torch between kernels, twice the same and with scalar and random operands."""
    script = """
        def define():
            with FusionDefinition() as fd:
                x, w = (fd.define_tensor(shape=[-1, -1], contiguity=[True, True]) for _ in "xw")
                b = fd.define_tensor(shape=[-1], contiguity=[True])
                y = fd.ops.relu(fd.ops.linear(fd.ops.exp(x), w, b))
                z = fd.ops.matmul(fd.ops.neg(y), w)
                fd.add_output(fd.ops.add(fd.ops.matmul(z, w), 1.0))
                fd.add_output(fd.ops.sum(z, [0]))
            return fd
        fd = define()
        torch.manual_seed(1)
        x, w, b = torch.randn(6, 8), torch.randn(8, 8), torch.randn(8)
        before = compiles()
        got = fd.execute([x, w, b])
        z = -torch.relu(torch.nn.functional.linear(x.exp(), w, b)) @ w
        for a, e in zip(got, (z @ w + 1, z.sum(0)), strict=True):
            torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-3)
        print(fd.fec._num_planned, compiles() - before)
        """
    cold, warm = (run_script(folder, script).split() for _ in range(2))
    assert cold[0] == "1" and int(cold[1]) > 0
    assert warm == ["0", "0"]


# --- mistakes of ours ---

FAILING = """
import warnings
def define(factor):
    return definition(lambda fd, x: fd.ops.add(fd.ops.mul(fd.ops.exp(x), factor), x))

def check(fd, factor, *sizes):
    x = torch.randn(sizes)
    got = fd.execute([x])[0]
    torch.testing.assert_close(got, x.exp() * factor + x, rtol=1e-4, atol=1e-4)

def warnings_of(factor, failures):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fd = define(factor)
        extension._fail_to_lower(failures)
        check(fd, factor, 6, 40)
        assert fd.fec._num_fallbacks >= 1
        extension._fail_to_lower(failures)
        check(fd, factor, 9, 801)
        extension._fail_to_lower(0)
    return [str(w.message) for w in caught if "internal error" in str(w.message)]

def script_named(text):
    return next(word for word in text.split() if word.endswith(".py"))
"""


@on_host
def test_a_mistake_is_warned_of_with_a_script_that_shows_it(folder: Path) -> None:
    out = run_script(
        folder,
        FAILING
        + textwrap.dedent(
            """
            # Up to kernels of none of the operations, all of which are evaluated then.
            for factor, failures in ((2.0, 1), (3.0, 2), (4.0, 20)):
                (words,) = warnings_of(factor, failures)
                assert "a test asked for this failure" in words
                print(script_named(words))
            # As in this project's tests.
            warnings.filterwarnings("error", "An internal error", RuntimeWarning)
            fd = define(5.0)
            extension._fail_to_lower(1)
            try:
                check(fd, 5.0, 6, 40)
            except RuntimeWarning as error:
                assert "internal error" in str(error)
            else:
                raise AssertionError("no error")
            check(fd, 5.0, 6, 40)
            # No plan of a definition that went wrong is kept: other processes are to hear of it.
            fd = define(2.0)
            check(fd, 2.0, 6, 40)
            assert fd.fec._num_planned == 1
            """
        ),
    )
    paths = [Path(line) for line in out.split()]
    assert len(set(paths)) == 3
    for path in paths:
        assert path.parent == folder / "cache"
        text = path.read_text()
        assert "(6, 40)" in text and "fd.ops.exp" in text and "a test asked for" in text
    subprocess.run([sys.executable, str(paths[0])], check=True, timeout=200)


@on_host
def test_where_a_script_goes_without_a_cache(folder: Path) -> None:
    (folder / "blocked").touch()  # no folder can be made of it
    out = run_script(
        folder,
        FAILING + "print(script_named(warnings_of(2.0, 1)[0]))",
        NVFUSER_CACHE_DIR=str(folder / "blocked" / "cache"),
        TMPDIR=str(folder),
    )
    assert Path(out.strip()).parent == folder


# --- interrupted compiles ---

# Whoever runs the tests in the background may have interrupts ignored, which processes inherit.
INTERRUPTED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
fd = definition(lambda fd, x: fd.ops.exp(x))
(folder / "hold").touch()
try:
    fd.execute([torch.randn(6, 40)])
    time.sleep(60)  # until the interrupt is delivered
except KeyboardInterrupt:
    assert fd.fec._num_fallbacks == 0
    print("interrupted")
"""


def wait_for_file(path: Path, process: subprocess.Popen[str] | None = None) -> None:
    """That another process leaves, this one for instance while it runs."""
    end = time.monotonic() + 100
    while not path.exists():
        assert time.monotonic() < end and (process is None or process.poll() is None)
        time.sleep(0.02)


def start_and_wait_for_the_compiler(folder: Path) -> subprocess.Popen[str]:
    (folder / "temporary").mkdir(exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + INTERRUPTED, str(folder)],
        env={
            **os.environ,
            "NVFUSER_HOST_CXX": str(folder / "compiler"),
            "NVFUSER_CACHE_DIR": str(folder / "cache"),
            "TMPDIR": str(folder / "temporary"),
        },
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for_file(folder / "held", process)
    return process


@on_host
def test_an_interrupt_lets_the_compiler_finish(folder: Path) -> None:
    process = start_and_wait_for_the_compiler(folder)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    time.sleep(0.2)
    (folder / "held").unlink()
    out, _ = process.communicate(timeout=100)
    assert (out, process.returncode) == ("interrupted\n", 0)
    assert list((folder / "temporary").iterdir()) == []


@on_host
@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM], ids=["kill", "terminate"])
def test_what_a_killed_process_left_is_removed_by_the_next(folder: Path, kill: int) -> None:
    process = start_and_wait_for_the_compiler(folder)
    process.send_signal(kill)
    process.wait()
    temporary = folder / "temporary"
    assert list(temporary.iterdir()) != []
    # The compiler goes on without the process, and writes into the folder until it is done.
    (folder / "held").unlink()
    wait_for_file(folder / "released")
    namespace = os.stat("/proc/self/ns/pid").st_ino
    alive = temporary / f"nvfuser-{namespace}-{os.getpid()}-x"
    other = temporary / "nvfuser-1-999999-x"  # of another container
    # The number of whoever made it may be another process's by now.
    old = [temporary / f"nvfuser-{namespace}-{os.getpid()}-y", temporary / "nvfuser-1-999999-y"]
    foreign = [temporary / "nvfuser-notes", temporary / "nvfuser-1-2"]
    for each in (alive, other, *old, *foreign):
        each.mkdir()
    for each in (*old, *foreign):
        os.utime(each, (time.time() - 100_000,) * 2)
    run_script(
        folder,
        """
        fd = definition(lambda fd, x: fd.ops.exp(x))
        fd.execute([torch.randn(6, 40)])
        """,
        TMPDIR=str(temporary),
    )
    assert sorted(temporary.iterdir()) == sorted([alive, other, *foreign])


@on_host
def test_a_process_that_compiles_nothing_removes_what_was_left(folder: Path) -> None:
    warm = """
        fd = definition(lambda fd, x: fd.ops.exp(x))
        fd.execute([torch.randn(6, 40)])
        """
    run_script(folder, warm, TMPDIR=str(folder))
    (folder / "temporary").mkdir()
    left = folder / "temporary" / f"nvfuser-{os.stat('/proc/self/ns/pid').st_ino}-99999999-x"
    left.mkdir()
    compiled = (folder / "log").read_text()
    run_script(folder, warm, TMPDIR=str(folder / "temporary"))
    assert (folder / "log").read_text() == compiled
    assert list((folder / "temporary").iterdir()) == []
