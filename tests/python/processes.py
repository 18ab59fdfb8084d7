# SPDX-License-Identifier: BSD-3-Clause
"""Python scripts in processes of their own.

Importing torch and pytest is most of what a short script takes. So they are forked from a process
that has done that and nothing else: what reads the environment when a process starts, or when
nvfuse_direct is loaded, reads the script's. One whose environment matters before that, as it
preloads a library or names other folders of modules, is started from scratch.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).resolve().parent
# What the interpreter, the loader and the libraries under torch read when they start.
_READ_AT_START = ("PYTHON", "LD_", "OMP_", "MKL_", "OPENBLAS_", "KMP_")


@dataclass
class _Script:
    source: str
    arguments: list[str]
    environment: dict[str, str]
    folder: str
    output: str  # file names
    errors: str


def run_script(
    source: str,
    *arguments: object,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float = 300,
) -> subprocess.CompletedProcess[str]:
    """As `python -X faulthandler -c source arguments...`, which can import the tests' modules.

    `env`: variables beside those of this process. Raises subprocess.TimeoutExpired.
    """
    usual = _with_tests(os.environ)
    environment = {**usual, **(env or {})}
    words = [str(each) for each in arguments]
    folder = str(cwd or Path.cwd())
    if "LD_PRELOAD" in usual or _at_start(environment) != _at_start(usual):
        command = [sys.executable, "-X", "faulthandler", "-c", source, *words]
        return subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, timeout=timeout
        )
    with tempfile.NamedTemporaryFile() as output, tempfile.NamedTemporaryFile() as errors:
        script = _Script(source, words, environment, folder, output.name, errors.name)
        status = _Origin.get().run(script, timeout)
        texts = [Path(file.name).read_text(errors="replace") for file in (output, errors)]
    return subprocess.CompletedProcess(["python", "-c", source, *words], status, *texts)


def _with_tests(environment: Mapping[str, str]) -> dict[str, str]:
    path = [str(HERE), environment.get("PYTHONPATH", "")]
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in environment.items() if k.startswith(_READ_AT_START)}


class _Origin:
    """The process that scripts are forked from."""

    _started: _Origin | None = None

    @classmethod
    def get(cls) -> _Origin:
        if cls._started is None or cls._started.process.poll() is not None:
            cls._started = cls()
        return cls._started

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            env=_with_tests(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def run(self, script: _Script, timeout: float) -> int:
        requests, replies = self.process.stdin, self.process.stdout
        assert requests is not None and replies is not None
        _send(requests, script)
        pid = _received(replies)
        try:
            if select.select([replies], [], [], timeout)[0]:
                return _received(replies)
        except BaseException:
            self._end(pid)
            raise
        self._end(pid)
        raise subprocess.TimeoutExpired(["python", "-c", script.source], timeout)

    def _end(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        assert self.process.stdout is not None
        _received(self.process.stdout)


def _send(stream: IO[bytes], message: Any) -> None:
    pickle.dump(message, stream)
    stream.flush()


def _received(stream: IO[bytes]) -> Any:
    return pickle.load(stream)


def _serve() -> None:
    """Returns in a forked process whose script has ended, too: it ends as any other."""
    import pytest  # noqa: F401
    import torch  # noqa: F401

    # The garbage collector leaves what is there alone, which takes most of the time that a script
    # ends in: all these objects are visited, and their memory is copied.
    gc.freeze()

    # Scripts have nothing to do with these.
    requests, replies = (os.fdopen(os.dup(fd), mode) for fd, mode in ((0, "rb"), (1, "wb")))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    while True:
        try:
            script = _received(requests)
        except EOFError:
            return
        pid = os.fork()
        if pid == 0:
            requests.close()
            replies.close()
            _become(script)
            return
        _send(replies, pid)
        _send(replies, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _become(script: _Script) -> None:
    for fd, name in ((1, script.output), (2, script.errors)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_APPEND), fd)
    os.environ.clear()
    os.environ.update(script.environment)
    os.chdir(script.folder)
    faulthandler.enable()
    sys.argv = ["-c", *script.arguments]
    sys.path[0] = ""
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(script.source, "<string>", "exec"), main.__dict__)


if __name__ == "__main__":
    _serve()
