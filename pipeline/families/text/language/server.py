"""A generation server: one process that holds the base model and answers for all threads of another (--backend server).

So self-play's threads need no copy of the model each, and what they ask at the same time is answered in one batch. The
process that plays starts it, and it ends when that process does. Adapters are exchanged by number; one that the server
has forgotten is sent again.

They speak through a socket in a folder that only this user can enter, with a key that only these two know; it isn't
meant for networks. A message is two: a JSON object, and arrays as safetensors. A request names its kind and the number
of an adapter:
    load     base, fingerprint, rank, alpha, targets, template, reading; arrays: the weights
    answer   prompts, temperature, most; arrays: keys, counters
A reply has a status: done (of an answer with texts; arrays: tokens, values), unknown, for an adapter that must be sent
first, or failed, with why.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener, wait
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from pipeline.errors import MuGoError
from pipeline.families.text.language.adapters import LoraShape
from pipeline.families.text.language.generation import Answering, Answers, Speaker
from pipeline.priority import share_niceness

ADAPTERS_KEPT = 32
LONGEST_FOLDER = 70  # bytes of the folder for temporary ones: a socket's path has 103 at most on macOS, 107 on Linux
MOST_TRIES = 100  # to ask an adapter that others push out of the server

Load = Callable[..., Speaker]
"""(folder of the base, its fingerprint, shape, weights, template, reading) → a speaker."""
Arrays = Mapping[str, NDArray[Any]]
Message = tuple[dict[str, Any], Arrays]
_numbers = itertools.count()


def send(connection: Connection, said: Mapping[str, Any], arrays: Arrays) -> None:
    connection.send_bytes(json.dumps(said).encode())
    connection.send_bytes(safetensors.numpy.save({name: np.ascontiguousarray(one) for name, one in arrays.items()}))


def receive(connection: Connection) -> Message:
    """Raises EOFError when the other side has ended."""
    said = json.loads(connection.recv_bytes())
    return said, safetensors.numpy.load(connection.recv_bytes())


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

    def ask(self, thread: int, said: Mapping[str, Any], arrays: Arrays) -> Message:
        """Starts the server if it isn't there. Raises MuGoError if it has ended, or couldn't do it."""
        try:
            connection, lock = self._connection(thread)
            with lock:
                send(connection, said, arrays)
                reply = receive(connection)
        except (EOFError, OSError) as error:
            code = self._process.poll() if self._process else None
            raise MuGoError(f"the generation server has ended (exit code {code}); run the command again") from error
        if reply[0]["status"] == "failed":
            raise MuGoError(f"the generation server: {reply[0]['why']}")
        return reply

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
        """Raises MuGoError if it doesn't start; the next question tries again."""
        too_long = len(os.fsencode(tempfile.gettempdir())) > LONGEST_FOLDER
        folder = tempfile.TemporaryDirectory(prefix="mugo-server-", dir="/tmp" if too_long else None)
        self._key = os.urandom(16)
        # In a session of its own: Ctrl-C is for the process that plays; the server ends when its standard input does.
        process = subprocess.Popen(
            [sys.executable, "-m", self._module, str(Path(folder.name) / "socket")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[3],
            start_new_session=True,
        )
        share_niceness(process.pid)
        assert process.stdin is not None and process.stdout is not None
        with suppress(BrokenPipeError):  # it has ended: the next line says so
            process.stdin.write(self._key.hex().encode() + b"\n")
            process.stdin.flush()
        if process.stdout.readline().strip() != b"ready":
            folder.cleanup()
            raise MuGoError(f"the generation server didn't start (exit code {process.wait()})")
        self._folder, self._process = folder, process
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


class RemoteAdapter:
    """An adapter in the server, one for all threads of a player: what they ask together is answered in one batch."""

    def __init__(
        self,
        server: GenerationServer,
        base: tuple[Path, str],
        shape: LoraShape,
        weights: Mapping[str, NDArray[Any]],
        template: str,
        reading: str,
    ) -> None:
        """base: its folder and fingerprint. Raises MuGoError if the server can't load it."""
        self._server, self._number, self._weights = server, next(_numbers), dict(weights)
        self._facts = {
            "kind": "load", "number": self._number, "base": str(base[0]), "fingerprint": base[1], "rank": shape.rank,
            "alpha": shape.alpha, "targets": list(shape.targets), "template": template, "reading": reading,
        }  # fmt: skip
        self._load(0)

    def _load(self, thread: int) -> None:
        self._server.ask(thread, self._facts, self._weights)

    def ask(self, thread: int, request: Mapping[str, Any], arrays: Arrays) -> Message:
        """The reply to this request, which gets the adapter's number. Raises MuGoError as GenerationServer.ask does."""
        for _ in range(MOST_TRIES):
            reply = self._server.ask(thread, {**request, "number": self._number}, arrays)
            if reply[0]["status"] != "unknown":
                return reply
            self._load(thread)  # others may come before the next question, and push it out again
        raise MuGoError(
            f"the generation server: more than {ADAPTERS_KEPT} adapters answer at the same time; wanted fewer "
            "threads or opponents, or --backend auto"
        )


class RemoteSpeaker(Answering):
    """An adapter in the server, for one thread."""

    def __init__(self, adapter: RemoteAdapter, thread: int, tokenizer: Any, template: str, reading: str) -> None:
        super().__init__(lambda text: list(tokenizer.encode(text, add_special_tokens=False)), template, reading)
        self._adapter, self._thread = adapter, thread

    def answer(
        self,
        prompts: Sequence[Sequence[int]],
        keys: NDArray[np.uint64],
        counters: NDArray[np.integer],
        temperature: float,
        most: int,
    ) -> Answers:
        """See Answering."""
        request = {
            "kind": "answer", "prompts": [list(map(int, prompt)) for prompt in prompts],
            "temperature": temperature, "most": most,
        }  # fmt: skip
        said, arrays = self._adapter.ask(self._thread, request, {"keys": keys, "counters": np.asarray(counters)})
        return Answers(arrays["tokens"], arrays["values"], said["texts"])


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
                    requests.append((ready, *receive(ready)))
                except (EOFError, OSError):
                    connections.remove(ready)
            for connection, said, arrays in self.replies(requests):
                send(connection, said, arrays)

    def replies(
        self, requests: Sequence[tuple[Any, dict[str, Any], Arrays]]
    ) -> list[tuple[Any, dict[str, Any], Arrays]]:
        """(connection, reply) of each request; questions to one adapter are answered in one batch."""
        found: list[tuple[Any, dict[str, Any], Arrays]] = []
        together: dict[tuple[int, float, int], list[tuple[Any, dict[str, Any], Arrays]]] = {}
        speakers: dict[int, Speaker] = {}  # one that is loaded after a question may push out another
        for connection, said, arrays in requests:
            if said["kind"] == "load":
                found.append((connection, self._load(said, arrays), {}))
            elif said["number"] not in self._speakers:
                found.append((connection, {"status": "unknown"}, {}))
            else:
                alike = said["number"], said["temperature"], said["most"]
                speakers[said["number"]] = self._speakers[said["number"]]
                self._speakers.move_to_end(said["number"])
                together.setdefault(alike, []).append((connection, said, arrays))
        for (number, temperature, most), asked in together.items():
            prompts = [prompt for _, said, _ in asked for prompt in said["prompts"]]
            keys, counters = (np.concatenate([arrays[name] for _, _, arrays in asked]) for name in ("keys", "counters"))
            try:
                answers = speakers[number].answer(prompts, keys, counters, temperature, most)
            except Exception as error:  # whatever goes wrong, who asked must hear of it
                failed = {"status": "failed", "why": f"{type(error).__name__}: {error}"}
                found += [(connection, failed, {}) for connection, _, _ in asked]
                continue
            start = 0
            for connection, said, _ in asked:
                rows = slice(start, start + len(said["prompts"]))
                start = rows.stop
                reply = {"status": "done", "texts": answers.texts[rows]}
                found.append((connection, reply, {"tokens": answers.tokens[rows], "values": answers.values[rows]}))
        return found

    def _load(self, said: Mapping[str, Any], weights: Arrays) -> dict[str, Any]:
        shape = LoraShape(said["rank"], said["alpha"], said["targets"])
        words = said["template"], said["reading"]
        try:
            self._speakers[said["number"]] = self._make(Path(said["base"]), said["fingerprint"], shape, weights, *words)
        except Exception as error:
            return {"status": "failed", "why": str(error)}
        self._speakers.move_to_end(said["number"])
        while len(self._speakers) > ADAPTERS_KEPT:
            self._speakers.popitem(last=False)
        return {"status": "done"}


def _accept(listener: Listener, connections: list[Connection]) -> None:
    while True:
        connections.append(listener.accept())


def _end_with_parent() -> None:
    sys.stdin.buffer.read()  # until who started this closes it, or ends
    os._exit(0)


def serve(address: str, key: bytes, load: Load) -> None:
    """Until standard input ends. load: what makes a speaker of what RemoteAdapter sends."""
    listener = Listener(address, "AF_UNIX", authkey=key)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    print("ready", flush=True)
    _Serving(load).serve(listener)
