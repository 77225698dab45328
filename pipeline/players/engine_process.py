"""Programs behind pipes that answer lines with lines: ``PipedEngine`` for any protocol, ``NumberedEngine`` for
numbered commands. Neither knows a specific command.

The caller waits for an answer, but never beyond a time limit: the pipes are polled. The engine's standard error is
drained meanwhile; its last lines are quoted in every fault.

After a fault of the kinds "broken" and "protocol" (PlayerFault.kind) the engine can't be used any more.

An engine leads its own session, so the processes that it starts end with it, and Ctrl-C in a terminal reaches only
this process, which then closes the engine. If this process is killed, the engine ends too: at once if util-linux'
``setpriv --pdeathsig`` is installed (then it also ends with the *thread* that started it), otherwise when it next reads
its closed standard input. Processes started by the engine must notice that by themselves.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import ClassVar

from pipeline.errors import UsageError
from pipeline.machine import share_niceness
from pipeline.players.kinds import command_words
from pipeline.players.player import PlayerFault

GAMES_FOLDER = "/usr/games"  # where Debian installs engines; often missing from PATH
START_SECONDS = 20.0  # an engine may load a network before its first answer
GRACE_SECONDS = 1.0  # for quitting when asked, and again for ending on SIGTERM
MAX_POLL_MILLISECONDS = 3_600_000  # poll() takes a C int
MAX_REPLY_BYTES = 1 << 20
MAX_STDERR_BYTES = 4096
MAX_QUOTED = 200  # characters of an engine's output in a message
LAST_LINES = 3  # of standard error in a message

_REPLY = re.compile(r"([=?])(\d*)(?: (.*))?")  # of a NumberedEngine
_CONTROLS = bytes(code for code in (*range(32), 127) if code not in b"\t\n")
_TAB_TO_BLANK = bytes.maketrans(b"\t", b" ")


def find_program(command: str, engine: type[PipedEngine]) -> list[str]:
    """The words of a command line, with the program's path first. engine: gives the protocol.

    Raises UsageError as command_words does, and if the program doesn't exist or can't be run.
    """
    protocol, example = engine.protocol, engine.example
    words = command_words(command, f"{protocol}:{command}", f"{protocol}:{example}")
    program = words[0]
    path = shutil.which(program) or ("/" not in program and shutil.which(program, path=GAMES_FOLDER)) or None
    if path is None:
        begin = f"{protocol}:{command}: "
        if "/" not in program:
            package = example.split()[0].rstrip(";")
            raise UsageError(
                f"{begin}no program {program!r} on the PATH or in {GAMES_FOLDER}; "
                f"install it (Debian: apt install {package}) or give its full path"
            )
        if os.path.exists(program):
            raise UsageError(f"{begin}{program} isn't executable; chmod +x it or name another")
        raise UsageError(f"{begin}{program} doesn't exist; give the path of an engine that speaks {protocol.upper()}")
    return [path, *words[1:]]


class PipedEngine:
    """A running engine. One thread uses it, except for interrupt(). pid: of its process."""

    protocol: ClassVar[str]  # its name in specs
    example: ClassVar[str]  # of a command line

    def __init__(self, command: str, name: str, seconds: float) -> None:
        """Start the process. seconds: time limit of commands sent without their own.

        Raises UsageError if there is no such program, PlayerFault "broken" if the system can't start it.
        """
        self.name = name
        self.seconds = seconds
        self._speaks = False  # whether it has given a valid answer
        self._pending = bytearray()  # standard output received but not yet read as lines
        self._stderr = b""
        self._lock = threading.RLock()  # held while the process is signalled or reaped
        words = find_program(command, type(self))
        try:
            self._process = subprocess.Popen(
                [*_ends_with_us(), *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise PlayerFault("broken", name, f"{words[0]} can't be started: {error.strerror}") from error
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self.pid = self._process.pid
        share_niceness(self.pid)
        self._stdin = self._process.stdin
        self._out, self._err = self._process.stdout.fileno(), self._process.stderr.fileno()
        self._poll = select.poll()
        self._open = {self._out, self._err}  # pipes not yet at their end
        for fd in self._open:
            os.set_blocking(fd, False)
            self._poll.register(fd, select.POLLIN)

    @property
    def start_seconds(self) -> float:
        """Time limit of commands that may make it load a network."""
        return max(self.seconds, START_SECONDS)

    def interrupt(self) -> None:
        """Kill the engine from another thread: a running send() fails with "broken". close() must still follow."""
        self._signal(signal.SIGKILL)

    def kill(self) -> None:
        """End the process group at once and release everything. May be called twice."""
        with self._lock:
            self._signal(signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # stuck in the kernel; subprocess reaps it later
                self._process.wait(GRACE_SECONDS)
        for fd in list(self._open):
            self._stop_reading(fd)
        for pipe in (self._stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def close(self) -> None:
        """Ask it to quit, then send SIGTERM, then kill it. Waits GRACE_SECONDS at most after each."""
        close_engines([self])

    def _ask_to_quit(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # it has ended, or we have closed it
            self._stdin.write(f"{self._line('quit')}\n".encode())
            self._stdin.close()

    def _line(self, command: str) -> str:
        """The line that is written for a command."""
        return command

    def _write(self, command: str) -> None:
        """Raises PlayerFault "broken"."""
        try:
            self._stdin.write(f"{self._line(command)}\n".encode())
        except (OSError, ValueError):  # ValueError: we have closed it
            raise self._fault("broken", f"{self._how_it_ended()} before {command!r}") from None

    def _wait_until_silent(self, deadline: float) -> bool:
        """Whether it and its children closed their output in time. Discards all output until then."""
        while self._out in self._open:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._receive(left)
            self._pending.clear()
        return True

    def _signal(self, number: signal.Signals) -> None:
        """Signal the process group. Under the lock, as the group's number may be reused once the leader is reaped."""
        with self._lock, contextlib.suppress(ProcessLookupError):
            if self._process.returncode is None:
                os.killpg(self.pid, number)

    def _read_line(self, command: str, deadline: float, limit: float) -> str:
        """The next line of output, without control characters and line end. Raises PlayerFault."""
        while (end := self._pending.find(b"\n")) < 0:
            left = deadline - time.monotonic()
            if left <= 0:
                speaks = f"does it speak {self.protocol.upper()}?"
                hint = "" if self._speaks else f"; {speaks} If it starts slowly, raise --engine-seconds"
                problem = f"gave no answer to {command!r} within {limit:g} s, so it was ended{hint}"
                fault = self._fault("broken", problem)
                self.kill()
                raise fault
            if self._out not in self._open:
                raise self._fault("broken", f"{self._how_it_ended()} while it was asked {command!r}")
            if len(self._pending) > MAX_REPLY_BYTES:
                raise self._fault("protocol", f"answered {command!r} with a line of over {MAX_REPLY_BYTES} bytes")
            self._receive(left)
        line = self._pending[:end].decode("utf-8", "replace")
        del self._pending[: end + 1]
        return line

    def _receive(self, seconds: float) -> None:
        """Read what is in the pipes; wait at most this long for it, and at most an hour."""
        for fd, _ in self._poll.poll(min(max(1.0, seconds * 1000), MAX_POLL_MILLISECONDS)):
            try:
                chunk = os.read(fd, 1 << 16)
            except BlockingIOError:
                continue
            if not chunk:
                self._stop_reading(fd)
            text = chunk.translate(_TAB_TO_BLANK, delete=_CONTROLS)
            if fd == self._out:
                self._pending += text
            else:
                self._stderr = (self._stderr + text)[-MAX_STDERR_BYTES:]

    def _stop_reading(self, fd: int) -> None:
        self._poll.unregister(fd)
        self._open.discard(fd)

    def _how_it_ended(self) -> str:
        """Why a pipe is at its end: "ended with status 1", "was ended by SIGSEGV", "closed its pipe"."""
        deadline = time.monotonic() + GRACE_SECONDS
        while self._open and time.monotonic() < deadline:  # its last output may still arrive
            self._receive(deadline - time.monotonic())
        while self._process.returncode is None:
            code = self._exit_code()
            if code is not None:
                return f"ended with status {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"
            if time.monotonic() >= deadline:
                return "closed its pipe"
            time.sleep(0.01)
        return "was closed"

    def _exit_code(self) -> int | None:
        """As Popen's returncode, but without reaping the process; None while it runs.

        An unreaped process keeps the group's number from being reused until kill() has ended the group. On systems that
        can't wait without reaping (macOS, with Python before 3.13) the group is ended here.
        """
        if hasattr(os, "waitid"):
            ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            if ended is None:
                return None
            return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(self.pid)], capture_output=True).stdout
        if not state.startswith(b"Z"):
            return None
        with self._lock:
            self._signal(signal.SIGKILL)
            return self._process.wait()

    def _fault(self, kind: str, problem: str) -> PlayerFault:
        self._receive(0.0)  # the reason may be on its standard error
        lines = [line for line in self._stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        if lines:
            problem += f"; its standard error ends with {quote(' | '.join(lines[-LAST_LINES:]), tail=True)}"
        return PlayerFault(kind, self.name, problem)


class NumberedEngine(PipedEngine):
    """A running engine that answers numbered commands.

    A command is one line, ``7 genmove black``. The answer is ``=7 D4`` or ``?7 why not``, any number of further lines,
    and an empty line. A ``?`` answer is the fault "refusal".
    """

    _next_id = 1

    def send(self, command: str, seconds: float | None = None) -> str:
        """The answer to one command, without marker, number, comments and control characters; keeps line breaks.

        seconds: time limit, after which the engine is killed. Raises PlayerFault "broken", "protocol" and "refusal".
        """
        limit = self.seconds if seconds is None else seconds
        deadline = time.monotonic() + limit
        number = str(self._next_id)
        self._write(command)
        self._next_id += 1
        lines: list[str] = []
        num_bytes = 0
        while (line := self._read_line(command, deadline, limit)) or not lines:
            num_bytes += len(line)
            if num_bytes > MAX_REPLY_BYTES:
                raise self._fault("protocol", f"answered {command!r} with more than {MAX_REPLY_BYTES} bytes")
            if not line:
                continue  # no answer has begun
            text, comment, _ = line.partition("#")
            if comment and not text.strip():
                continue  # a line with only a comment doesn't end an answer
            if not lines and text[0] not in "=?":
                problem = f"answered {command!r} with {quote(line)}; wanted a line that begins with = or ?"
                raise self._fault("protocol", problem)
            lines.append(text)
        parts = _REPLY.fullmatch(lines[0])
        if parts is None or parts[2] != number:
            problem = f"answered {command!r}, number {number}, with {quote(lines[0])}; wanted ={number} or ?{number}"
            raise self._fault("protocol", problem)
        self._speaks = True
        answer = "\n".join([parts[3] or "", *lines[1:]]).strip()
        if parts[1] == "?":
            raise self._fault("refusal", f"refused {command!r}: {quote(answer)}")
        return answer

    def _line(self, command: str) -> str:
        return f"{self._next_id} {command}"


def close_engines(engines: Sequence[PipedEngine]) -> None:
    """PipedEngine.close() of all in parallel, so that many slow engines take no longer than one."""
    left = list(engines)
    for ask in (PipedEngine._ask_to_quit, lambda engine: engine._signal(signal.SIGTERM)):
        for engine in left:
            ask(engine)
        deadline = time.monotonic() + GRACE_SECONDS
        left = [engine for engine in left if not engine._wait_until_silent(deadline)]
    for engine in engines:
        engine.kill()


@functools.cache
def _ends_with_us() -> tuple[str, ...]:
    """A command prefix that makes the kernel end the process with the thread that started it; () if there is none.

    No Python code may do that between fork and exec, where a process with threads can deadlock.
    """
    words = ("setpriv", "--pdeathsig", "KILL")
    if shutil.which(words[0]) is None:
        return ()
    # Not every setpriv has the option (busybox).
    tried = subprocess.run([*words, "true"], stdin=subprocess.DEVNULL, capture_output=True)
    return words if tried.returncode == 0 else ()


def quote(text: str, tail: bool = False) -> str:
    """An engine's output in one line, cut to its beginning or, with tail, its end."""
    line = " ".join(text.split())
    if len(line) > MAX_QUOTED:
        line = "…" + line[-MAX_QUOTED:] if tail else line[:MAX_QUOTED] + "…"
    return repr(line)
