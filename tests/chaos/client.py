"""Asks the server for a process and speaks for it: signals are passed on, its exit code becomes this one's.

As a program it stands for python in rl_loop.sh (``MUGO_PYTHON``): main.py goes to the server, all else to the real
python.
"""

from __future__ import annotations

import os
import signal
import sys

EARLY: list[int] = []  # signals before there is a process to pass them on to
BEFORE = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}  # a shell may ignore them
if __name__ == "__main__":
    for early in (signal.SIGINT, signal.SIGTERM):
        signal.signal(early, lambda number, frame: EARLY.append(number))

import json  # noqa: E402
import socket  # noqa: E402


def ask(server: str, request: dict, fds: list[int]) -> tuple[socket.socket, int]:
    """(the connection, the number of the process)."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(server)
    socket.send_fds(connection, [json.dumps(request).encode()], fds)
    line = b""
    while not line.endswith(b"\n"):
        byte = connection.recv(1)
        if not byte:
            raise ConnectionError("the server is gone")
        line += byte
    return connection, int(line)


def exit_code(connection: socket.socket) -> int:
    """Waits for the end of the process."""
    with connection, connection.makefile() as lines:
        return int(lines.readline())


def main() -> None:
    script, arguments = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    if os.path.basename(script) != "main.py":
        for number, handler in BEFORE.items():
            signal.signal(number, handler)
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
    fds = [fd for fd in (0, 1, 2) if _is_open(fd)]
    fault = os.environ.get("CHAOS_FAULT")
    request = {
        "arguments": arguments, "cwd": os.getcwd(), "env": dict(os.environ), "fds": fds, "session": False,
        "fault": json.loads(fault) if fault else None, "log": os.environ.get("CHAOS_LOG"),
    }  # fmt: skip
    connection, pid = ask(os.environ["CHAOS_SERVER"], request, fds)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: os.kill(pid, number))
    for number in EARLY:
        os.kill(pid, number)
    code = exit_code(connection)
    if code < 0:
        if -code in (signal.SIGINT, signal.SIGTERM):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
