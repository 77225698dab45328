"""A server that has imported and compiled everything, and forks a process for every command that it is asked to run.

Importing torch and loading kernels takes seconds, a fork some milliseconds. What it forks is a process of its own in
every other respect: its own memory, files, signals and exit code. Nothing here runs a thread, so that forking is safe.

A request is one line of JSON on a Unix socket, with the file descriptors that the process shall have as 0, 1, 2, … The
answer is the process's number in a line, and, when it has ended, its exit code in another: negative for a signal. When
the one who asked is gone, the process is killed, as a shell's job is with its terminal.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import io
import json
import os
import selectors
import signal
import socket
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.chaos.faults import Fault, Injector

MOST_FDS = 16
INTERRUPTS = (signal.SIGINT, signal.SIGTERM)
CLONE_NEWPID, CLONE_NEWUTS, CLONE_NEWNS = 0x20000000, 0x04000000, 0x00020000
MS_REC, MS_PRIVATE = 0x4000, 0x40000


def warm_up(folder: Path) -> None:
    """Import and compile whatever the commands need, by a small run in this process.

    On one core: with more of them torch makes a pool of threads, which a fork loses and then waits for.
    """
    cores, number = sorted(os.sched_getaffinity(0)), int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    os.sched_setaffinity(0, {cores[number % len(cores)]})  # another one beside another server
    from pipeline import main  # noqa: F401
    from pipeline.ratings.command import ratings  # noqa: F401
    from pipeline.upkeep.config import VerifyConfig
    from pipeline.upkeep.verify.command import verify
    from tests.runs import make_run

    make_run(folder)
    verify(VerifyConfig(directory=folder))
    gc.collect()
    gc.freeze()  # so that no process looks at, and copies, what all of them have


class Server:
    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, None)

    def serve(self) -> None:
        """Until standard input ends: whoever started the server is gone then."""
        self._selector.register(sys.stdin, selectors.EVENT_READ, None)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is sys.stdin:
                    return
                if key.fileobj is self._listener:
                    self._start(self._listener.accept()[0])
                elif isinstance(key.fileobj, int):
                    self._ended(key.fileobj, *key.data)
                elif key.fileobj in self._selector.get_map():  # _ended may have taken it out just now
                    self._asker_left(key.fileobj, key.data)  # type: ignore[arg-type]

    def _start(self, connection: socket.socket) -> None:
        data, fds, _, _ = socket.recv_fds(connection, 1 << 20, MOST_FDS)
        if not data:  # the one who asks was killed before it could
            connection.close()
            return
        request = json.loads(data)
        signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)  # until the process has its handlers
        pid = os.fork()
        if pid == 0:
            try:
                self._selector.close()
                self._listener.close()
                connection.close()
                run_child(request, fds)
            finally:
                os._exit(70)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
        for fd in fds:
            os.close(fd)
        with suppress(OSError):  # killed while it waited for the answer: its end is seen below, as at any later moment
            connection.sendall(f"{pid}\n".encode())
        pidfd = os.pidfd_open(pid)
        self._selector.register(pidfd, selectors.EVENT_READ, (pid, connection))
        self._selector.register(connection, selectors.EVENT_READ, pid)

    def _ended(self, pidfd: int, pid: int, connection: socket.socket) -> None:
        _, status = os.waitpid(pid, 0)
        self._selector.unregister(pidfd)
        os.close(pidfd)
        if connection in self._selector.get_map():
            self._selector.unregister(connection)
        with suppress(OSError):
            connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
        connection.close()

    def _asker_left(self, connection: socket.socket, pid: int) -> None:
        self._selector.unregister(connection)
        os.kill(pid, signal.SIGKILL)


def run_child(request: dict[str, Any], fds: list[int]) -> None:
    """In the forked process: become what `python main.py ARGUMENTS` is there, and end."""
    for wanted, fd in zip(request["fds"], fds, strict=True):
        os.dup2(fd, wanted + 100)
        os.close(fd)
    for wanted in request["fds"]:
        os.dup2(wanted + 100, wanted, inheritable=True)
        os.close(wanted + 100)
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.FileIO(number, mode, closefd=False), "utf-8", "replace", line_buffering=True)  # type: ignore
        for number, mode in ((0, "r"), (1, "w"), (2, "w"))
    )
    if request.get("session", True):
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    from pipeline import main

    main.take_interrupts(main.quit_at_once)  # as main.py does while it imports
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
    if request.get("host"):
        _on_another_host(request["host"])
    code = _run_main(request)
    _end(code)


def _on_another_host(name: str) -> None:
    """Go on as the first process of another machine: numbers of processes and the machine's name of its own.

    This process only waits for that one. Raises OSError where the system doesn't permit it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWPID | CLONE_NEWUTS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    pid = os.fork()
    if pid:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, frame: os.kill(pid, number))
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            os.kill(os.getpid(), -code)
        os._exit(code)
    libc.prctl(1, signal.SIGKILL)  # die with the one who waits
    if libc.unshare(CLONE_NEWNS) == 0:  # its own /proc, as containers have
        libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None)
        libc.mount(b"proc", b"/proc", b"proc", 0, None)
    socket.sethostname(name)
    from pipeline.run import layout

    layout.this_host.cache_clear()


def _run_main(request: dict[str, Any]) -> int:
    from pipeline import machine, main

    machine.LOWEST = 0  # what stands back is not to wait for all else that runs here
    if request.get("fault") is not None:
        Injector(Fault(**request["fault"]), request["log"]).install()
    sys.argv = ["main.py", *request["arguments"]]
    try:
        main.run_program(request["arguments"])
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1


def _end(code: int) -> None:
    """What the interpreter does at its end."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    os._exit(code)


if __name__ == "__main__":
    socket_path, warm_folder = map(Path, sys.argv[1:])
    warm_up(warm_folder)
    server = Server(socket_path)
    print("ready", flush=True)
    server.serve()
