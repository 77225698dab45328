"""A place to run commands in: the server, and processes made by it."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.chaos.client import ask, exit_code
from tests.chaos.faults import Fault

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 120.0  # a command that takes longer hangs: it is killed, and said to


@dataclass
class Done:
    """A command that has ended. code: negative for a signal; said: all that it printed; log: of its fault points."""

    code: int
    said: str
    seconds: float
    log: list[tuple[int, str, str]]  # number, name and what follows of the calls that succeeded

    @property
    def calls(self) -> int:
        return 1 + max((number for number, _, _ in self.log), default=-1)


@dataclass
class Running:
    """A command that is running."""

    pid: int
    connection: socket.socket
    output: Path
    log: Path
    started: float = field(default_factory=time.monotonic)

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self, seconds: float = PATIENCE_SECONDS) -> Done:
        self.connection.settimeout(seconds)
        try:
            code = exit_code(self.connection)
        except TimeoutError:
            self.signal(signal.SIGKILL)
            raise AssertionError(f"it hangs:\n{self.output.read_text(errors='replace')[-2000:]}") from None
        return done(code, self.output, self.started, self.log)


def done(code: int, output: Path, started: float, log: Path) -> Done:
    """What has ended just now, with what it wrote into the files output and log."""
    took = time.monotonic() - started
    lines = log.read_text(errors="surrogateescape").splitlines() if log.exists() else []
    calls = [(int(number), name, rest) for number, name, rest in (line.split(" ", 2) for line in lines)]
    return Done(code, output.read_text(errors="replace"), took, calls)


def environment_here(**more: str) -> dict[str, str]:
    """This process's, without its GPUs: a forked process can't use one that the process before it has used."""
    return {**os.environ, "CUDA_VISIBLE_DEVICES": "", **more}


class Workshop:
    """A server that runs commands, with a folder for its own things. Use it as a context."""

    def __init__(self, folder: Path, **environment: str) -> None:
        """environment: more variables, of the server and of all that it runs."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._environment = environment
        self.socket = folder / "socket"
        self._numbers = itertools.count()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.server", str(self.socket), str(folder / "warm")],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            # as train/rank.py has it before torch is imported
            env=environment_here(TORCH_CPP_LOG_LEVEL="ERROR", **environment),
        )  # fmt: skip
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n", "the server did not start"

    def __enter__(self) -> Workshop:
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=PATIENCE_SECONDS)

    def start(
        self,
        arguments: Sequence[str],
        folder: Path,
        fault: Fault | None = None,
        host: str | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
        text: str = "",
    ) -> Running:
        """Run main.py with these arguments in this folder. host: on another machine of that name; environment: more
        variables; text: what it reads from standard input.
        """
        number = next(self._numbers)
        output, log = self.folder / f"{number}.out", self.folder / f"{number}.log"
        request = {
            "arguments": list(arguments), "cwd": str(folder), "fds": [0, 1, 2],
            "env": environment_here(**{**self._environment, **environment}),
            "fault": None if fault is None else fault.to_json(), "log": str(log), "host": host,
        }  # fmt: skip
        with tempfile.TemporaryFile() as typed, open(output, "wb") as written:
            typed.write(text.encode())
            typed.seek(0)
            fds = [typed.fileno(), written.fileno(), written.fileno()]
            connection, pid = ask(str(self.socket), request, fds)
        return Running(pid, connection, output, log)

    def run(
        self, arguments: Sequence[str], folder: Path, fault: Fault | None = None, host: str | None = None, **more: Any
    ) -> Done:
        """more: as for start."""
        running = self.start(arguments, folder, fault, host, **more)
        try:
            return running.wait()
        finally:
            for path in (running.output, running.log):
                path.unlink(missing_ok=True)

    def run_loop(
        self, folder: Path, fault: Fault | None = None, after: tuple[float, int, bool] | None = None
    ) -> Done:
        """rl_loop.sh, which makes one generation of folder/tiny.yaml. Without a fault there is no log.

        after: (seconds, a signal, whether all that the loop has started gets it, too)
        """
        output, log = folder / "said", self.folder / f"{next(self._numbers)}.log"
        command = [str(ROOT / "rl_loop.sh"), "--preset", "tiny.yaml", "--generations", "1", "--directory", str(folder)]
        started = time.monotonic()
        with open(output, "wb") as written:
            process = subprocess.Popen(
                command, cwd=folder, env=self.loop_environment(fault, log), stdout=written, stderr=written,
                start_new_session=True,
            )  # fmt: skip
        if after is not None:
            seconds, number, whole = after
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
            with suppress(ProcessLookupError):
                (os.killpg if whole else os.kill)(process.pid, number)
        try:
            process.wait(2 * PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise AssertionError(f"it hangs:\n{output.read_text(errors='replace')[-2000:]}") from None
        try:
            return done(process.returncode, output, started, log)
        finally:
            log.unlink(missing_ok=True)

    def loop_environment(self, fault: Fault | None = None, log: Path | None = None) -> dict[str, str]:
        """For rl_loop.sh: its python is the client, which asks the server for the loop."""
        python = self.folder / "python"
        if not python.exists():
            code = f'#!/bin/sh\nexec "{sys.executable}" -S -E "{ROOT}/tests/chaos/client.py" "$@"\n'
            python.write_text(code)
            python.chmod(0o755)
        given = {} if fault is None else {"CHAOS_FAULT": json.dumps(fault.to_json()), "CHAOS_LOG": str(log)}
        own = {"MUGO_PYTHON": str(python), "CHAOS_SERVER": str(self.socket)}
        return environment_here(**{**self._environment, **own, **given})
