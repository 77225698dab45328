"""A generation server: one process that holds the base model and answers for all threads of another (--backend server).

So self-play's threads need no copy of the model each, and what they ask at the same time is answered in one batch. The
process that plays starts it, and it ends when that process does. Adapters are exchanged by name; one that the server
has forgotten is sent again.

They speak through a socket in a folder that only this user can enter, with pickles and a key that only these two know;
it isn't meant for networks. A request is (kind, adapter's number, arguments), a reply ("done", result), ("unknown",
None) for an adapter that must be sent first, or ("failed", text).
"""

from __future__ import annotations

import atexit
import itertools
import os
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Client, Connection, Listener, wait
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import MuGoError
from pipeline.networks.language.adapters import LoraShape
from pipeline.networks.language.generation import Answering, Answers, Speaker

ADAPTERS_KEPT = 32

Load = Callable[..., Speaker]
"""(folder of the base, its fingerprint, shape, weights, template, reading) → a speaker."""
_numbers = itertools.count()


class GenerationServer:
    """The server as who plays sees it: a process, and a connection for each of its threads."""

    def __init__(self, module: str) -> None:
        """module: what is run as the server, with the socket's path; it calls serve()."""
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._connections: dict[int, tuple[Connection, threading.Lock]] = {}
        self._lock = threading.Lock()
        self._key = b""

    def ask(self, thread: int, request: tuple[str, int, tuple[Any, ...]]) -> tuple[str, Any]:
        """Starts the server if it isn't there. Raises MuGoError if it has ended, or couldn't do it."""
        connection, lock = self._connection(thread)
        try:
            with lock:
                connection.send(request)
                status, found = connection.recv()
        except (EOFError, OSError) as error:
            code = self._process.poll() if self._process else None
            raise MuGoError(f"the generation server has ended (exit code {code}); run the command again") from error
        if status == "failed":
            raise MuGoError(f"the generation server: {found}")
        return status, found

    def _connection(self, thread: int) -> tuple[Connection, threading.Lock]:
        with self._lock:
            if self._process is None:
                self._start()
            if thread not in self._connections:
                assert self._folder is not None
                made = Client(str(Path(self._folder.name) / "socket"), "AF_UNIX", authkey=self._key)
                self._connections[thread] = made, threading.Lock()
            return self._connections[thread]

    def _start(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mugo-server-")
        self._key = os.urandom(16)
        self._process = subprocess.Popen(
            [sys.executable, "-m", self._module, str(Path(self._folder.name) / "socket")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[3],
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(self._key.hex().encode() + b"\n")
        self._process.stdin.flush()
        if self._process.stdout.readline().strip() != b"ready":
            raise MuGoError(f"the generation server didn't start (exit code {self._process.wait()})")
        atexit.register(self.close)

    def close(self) -> None:
        """End it; the next question starts another."""
        with self._lock:
            process, self._process = self._process, None
            for connection, _ in self._connections.values():
                connection.close()
            self._connections = {}
            if process is not None and process.stdin is not None:
                process.stdin.close()  # by which it ends
                process.wait()
            if self._folder is not None:
                self._folder.cleanup()


class RemoteSpeaker(Answering):
    """An adapter in the server, for one thread."""

    def __init__(
        self,
        server: GenerationServer,
        thread: int,
        tokenizer: Any,
        base: tuple[Path, str],
        shape: LoraShape,
        weights: Mapping[str, NDArray[Any]],
        template: str,
        reading: str,
    ) -> None:
        """base: its folder and fingerprint. Raises MuGoError if the server can't load it."""
        super().__init__(lambda text: list(tokenizer.encode(text, add_special_tokens=False)), template, reading)
        self._server, self._thread, self._number = server, thread, next(_numbers)
        self._made = (*base, shape, dict(weights), template, reading)
        server.ask(thread, ("load", self._number, self._made))

    def answer(
        self,
        prompts: Sequence[Sequence[int]],
        keys: NDArray[np.uint64],
        counters: NDArray[np.integer],
        temperature: float,
        most: int,
    ) -> Answers:
        """See Answering."""
        request = ("answer", self._number, (list(map(list, prompts)), keys, counters, temperature, most))
        status, found = self._server.ask(self._thread, request)
        if status == "unknown":
            self._server.ask(self._thread, ("load", self._number, self._made))
            _, found = self._server.ask(self._thread, request)
        assert isinstance(found, Answers)
        return found


# The server itself


class _Serving:
    def __init__(self, load: Load) -> None:
        self._make = load
        self._speakers: OrderedDict[int, Speaker] = OrderedDict()

    def serve(self, listener: Listener) -> None:
        """For ever."""
        connections: list[Connection] = []
        threading.Thread(target=_accept, args=(listener, connections), daemon=True).start()
        while True:
            requests = []
            for ready in wait(list(connections), timeout=0.02):
                assert isinstance(ready, Connection)
                try:
                    requests.append((ready, ready.recv()))
                except (EOFError, OSError):
                    connections.remove(ready)
            for connection, reply in self.replies(requests):
                connection.send(reply)

    def replies(self, requests: Sequence[tuple[Any, tuple[str, int, tuple[Any, ...]]]]) -> list[tuple[Any, Any]]:
        """(connection, reply) of each request; questions to one adapter are answered in one batch."""
        found: list[tuple[Any, tuple[str, Any]]] = []
        together: dict[tuple[int, float, int], list[tuple[Any, tuple[Any, ...]]]] = {}
        for connection, (kind, number, arguments) in requests:
            if kind == "load":
                found.append((connection, self._load(number, arguments)))
            elif number not in self._speakers:
                found.append((connection, ("unknown", None)))
            else:
                together.setdefault((number, *arguments[3:]), []).append((connection, arguments))
        for (number, temperature, most), asked in together.items():
            prompts = [prompt for _, arguments in asked for prompt in arguments[0]]
            keys, counters = (np.concatenate([arguments[i] for _, arguments in asked]) for i in (1, 2))
            self._speakers.move_to_end(number)
            try:
                said = self._speakers[number].answer(prompts, keys, counters, temperature, most)
            except Exception as error:  # whatever goes wrong, who asked must hear of it
                found += [(connection, ("failed", f"{type(error).__name__}: {error}")) for connection, _ in asked]
                continue
            start = 0
            for connection, arguments in asked:
                rows = slice(start, start + len(arguments[0]))
                start = rows.stop
                found.append((connection, ("done", Answers(said.tokens[rows], said.values[rows], said.texts[rows]))))
        return found

    def _load(self, number: int, made: tuple[Any, ...]) -> tuple[str, str | None]:
        try:
            self._speakers[number] = self._make(*made)
        except Exception as error:
            return "failed", str(error)
        while len(self._speakers) > ADAPTERS_KEPT:
            self._speakers.popitem(last=False)
        return "done", None


def _accept(listener: Listener, connections: list[Connection]) -> None:
    while True:
        connections.append(listener.accept())


def _end_with_parent() -> None:
    sys.stdin.buffer.read()  # until who started this closes it, or ends
    os._exit(0)


def serve(address: str, key: bytes, load: Load) -> None:
    """Until standard input ends. load: what makes a speaker of what RemoteSpeaker sends."""
    listener = Listener(address, "AF_UNIX", authkey=key)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    print("ready", flush=True)
    _Serving(load).serve(listener)
