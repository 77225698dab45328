"""``PipedEngine``: a program behind pipes that answers lines with lines: what engines of all protocols have in common.

The caller waits for an answer, but never longer than a limit: the pipes are polled, never read blindly. The engine's
standard error is drained meanwhile; its last lines are part of every fault.

Three faults are kept apart (PlayerFault.kind): "broken", the process ended, closed its pipe or took too long;
"protocol", an answer that isn't the protocol's; "refusal", which some protocols know. After the first two the engine
can't be used any more.

An engine leads a session of its own, so the processes that it starts end with it, and Ctrl-C in a terminal reaches only
this process, which then closes it. If this process is killed, the engine ends all the same: at once if util-linux'
``setpriv --pdeathsig`` is installed (then it also ends with the *thread* that started it), otherwise when it next reads
its standard input, which is closed by then. Processes started by the engine must notice that by themselves.
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import ClassVar

from pipeline.errors import UsageError
from pipeline.players.player import PlayerFault
from pipeline.priority import share_niceness

GAMES_FOLDER = "/usr/games"  # Debian installs engines there, and many a PATH lacks it
START_SECONDS = 20.0  # an engine may load a network before it answers for the first time
GRACE_SECONDS = 1.0  # for quitting when asked, and again for ending on SIGTERM
MOST_MILLISECONDS = 3_600_000  # of one look at the pipes; the system counts them in an int
MAX_REPLY_BYTES = 1 << 20
MAX_STDERR_BYTES = 4096
MAX_QUOTED = 200  # characters of an engine's output in a message
LAST_LINES = 3  # of standard error in a message

_CONTROLS = bytes(code for code in (*range(32), 127) if code not in b"\t\n")
_TAB_TO_BLANK = bytes.maketrans(b"\t", b" ")


def find_program(command: str, engine: type[PipedEngine]) -> list[str]:
    """A command line's words, split as by a shell, with the path of the program first. engine: what it is to be.

    Raises UsageError if there are no words, or the program doesn't exist or can't be run.
    """
    protocol, example = engine.protocol, engine.example
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"{protocol}:{command}: {error}; wanted a command line, e.g. {protocol}:{example}") from error
    if not words:
        raise UsageError(f"{protocol}: no program; wanted a command line, e.g. {protocol}:{example}")
    program = words[0]
    path = shutil.which(program) or ("/" not in program and shutil.which(program, path=GAMES_FOLDER)) or None
    if path is None:
        begin = f"{protocol}:{command}: "
        if "/" not in program:
            package = example.split()[0].rstrip(";")
            raise UsageError(
                f"{begin}no program {program!r} that may be run, neither on the PATH nor in {GAMES_FOLDER}; "
                f"install it (Debian: apt install {package}) or give its whole path"
            )
        if os.path.exists(program):
            raise UsageError(f"{begin}{program} is no program that may be run; chmod +x it or name another")
        raise UsageError(f"{begin}{program} doesn't exist; give the path of an engine that speaks {protocol.upper()}")
    return [path, *words[1:]]


class PipedEngine:
    """A running engine. One thread uses it, except for interrupt(). pid: of its process."""

    protocol: ClassVar[str]  # as specs name it
    example: ClassVar[str]  # what may stand behind that in a spec, the program first

    def __init__(self, command: str, name: str, seconds: float) -> None:
        """Start the process. seconds: limit of each command that is sent without a limit of its own.

        Raises UsageError if there is no such program, PlayerFault "broken" if the system won't start it.
        """
        self.name = name
        self.seconds = seconds
        self._speaks = False  # whether it has answered as its protocol wants
        self._pending = bytearray()  # of standard output: received, not yet read as lines
        self._stderr = b""
        self._lock = threading.RLock()  # between ending the process and interrupt()
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
        self._open = {self._out, self._err}  # not yet at their end
        for fd in self._open:
            os.set_blocking(fd, False)
            self._poll.register(fd, select.POLLIN)

    @property
    def start_seconds(self) -> float:
        """Limit of what may make it load something."""
        return max(self.seconds, START_SECONDS)

    def interrupt(self) -> None:
        """Kill the engine from another thread: a send() under way ends as "broken". close() must still follow."""
        self._signal(signal.SIGKILL)

    def kill(self) -> None:
        """End the process and those it started at once, and release everything. May be called twice."""
        with self._lock:
            self._signal(signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # stuck in the kernel: subprocess reaps it later
                self._process.wait(GRACE_SECONDS)
        for fd in list(self._open):
            self._stop_reading(fd)
        for pipe in (self._stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def close(self) -> None:
        """Ask it to quit, then send SIGTERM, then kill it. Takes 2 GRACE_SECONDS at most, besides the killing."""
        close_engines([self])

    def _ask_to_quit(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # it has ended, or we have closed it
            self._stdin.write(f"{self._line('quit')}\n".encode())
            self._stdin.close()

    def _line(self, command: str) -> str:
        """A command as it is written."""
        return command

    def _write(self, command: str) -> None:
        """Raises PlayerFault "broken"."""
        try:
            self._stdin.write(f"{self._line(command)}\n".encode())
        except (OSError, ValueError):  # ValueError: we have closed it
            raise self._fault("broken", f"{self._how_it_ended()} before {command!r}") from None

    def _wait_until_silent(self, deadline: float) -> bool:
        """Whether it and its children closed their output in time; output until then is drained and lost."""
        while self._out in self._open:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._receive(left)
            self._pending.clear()
        return True

    def _signal(self, number: signal.Signals) -> None:
        """Signal the whole group. The lock: until the leader is reaped, its number can't be reused."""
        with self._lock, contextlib.suppress(ProcessLookupError):
            if self._process.returncode is None:
                os.killpg(self.pid, number)

    def _read_line(self, command: str, deadline: float, limit: float) -> str:
        """The next line of its output, cleaned, without its end."""
        while (end := self._pending.find(b"\n")) < 0:
            left = deadline - time.monotonic()
            if left <= 0:
                speaks = f"does it speak {self.protocol.upper()}?"
                hint = "" if self._speaks else f"; {speaks} if it starts slowly, raise --engine-seconds"
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
        for fd, _ in self._poll.poll(min(max(1.0, seconds * 1000), MOST_MILLISECONDS)):
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
        while self._open and time.monotonic() < deadline:  # its last words may be on their way
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
        """As Popen's returncode, of a process that isn't reaped; None while it runs.

        Its number must stay taken until its group has ended, which kill() sees to later. Where nobody can look at a
        process without reaping it (Python before 3.13 on macOS), its group is ended here.
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
        self._receive(0.0)  # it may have written why before it answered
        lines = [line for line in self._stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        if lines:
            problem += f"; its standard error ends with {quote(' | '.join(lines[-LAST_LINES:]), tail=True)}"
        return PlayerFault(kind, self.name, problem)


def close_engines(engines: Sequence[PipedEngine]) -> None:
    """PipedEngine.close() of all at the same time, so that many stubborn engines take no longer than one."""
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
    """Words before a command line that make the kernel end the process with the thread that started it; or ().

    setpriv becomes the program after prctl(PR_SET_PDEATHSIG): no Python code runs between fork and exec, where a
    process with threads can lock up. It is tried first, because not every setpriv knows the option (busybox).
    """
    words = ("setpriv", "--pdeathsig", "KILL")
    if shutil.which(words[0]) is None:
        return ()
    tried = subprocess.run([*words, "true"], stdin=subprocess.DEVNULL, capture_output=True)
    return words if tried.returncode == 0 else ()


def quote(text: str, tail: bool = False) -> str:
    """An engine's output in one line, cut to its beginning or its end."""
    line = " ".join(text.split())
    if len(line) > MAX_QUOTED:
        line = "…" + line[-MAX_QUOTED:] if tail else line[:MAX_QUOTED] + "…"
    return repr(line)
