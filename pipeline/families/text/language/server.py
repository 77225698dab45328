"""The generation server (--backend server): one process holds the base model and answers for all threads of another.

The threads of self-play then share one copy of the model, and their simultaneous requests form one batch. The playing
process (the client) starts the server, which ends with it: ``python -m pipeline.families.text.language.server SOCKET``.
Requests refer to adapters by number. The server keeps the most recent ones and asks for others again.

Both sides use a Unix socket in a folder private to the user, authenticated by a secret key; it isn't meant for
networks. A message is a JSON object followed by arrays in safetensors format. A request has a kind and an adapter's
number:
    load     base, fingerprint, rank, alpha, targets, template, reading; arrays: the weights
    answer   prompts, temperature, most, top_p; arrays: keys, counters
A reply has a status: done (for an answer with texts; arrays: tokens, values), unknown (the adapter must be loaded
first), or failed (with why).
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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener, wait
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from pipeline.errors import MuGoError
from pipeline.families.text.language.adapters import LoraShape
from pipeline.families.text.language.base_model import Tokenizer
from pipeline.families.text.language.generation import Answers, Questions, TextGenerator, TorchGenerator
from pipeline.families.text.language.players import SHARED_BASES
from pipeline.machine import share_niceness

ADAPTERS_KEPT = 32
LONGEST_FOLDER = 70  # bytes of the temporary folder's path; a socket's path has at most 103 on macOS, 107 on Linux
MOST_TRIES = 100  # for a request whose adapter other requests evict

Arrays = Mapping[str, NDArray[Any]]
Message = tuple[dict[str, Any], Arrays]
_numbers = itertools.count()


def send(connection: Connection, message: Mapping[str, Any], arrays: Arrays) -> None:
    connection.send_bytes(json.dumps(message).encode())
    connection.send_bytes(safetensors.numpy.save({name: np.ascontiguousarray(one) for name, one in arrays.items()}))


def receive(connection: Connection) -> Message:
    """Raises EOFError if the other side has ended."""
    message = json.loads(connection.recv_bytes())
    return message, safetensors.numpy.load(connection.recv_bytes())


class GenerationServer:
    """The client's side: the server's process, and a connection for each thread."""

    def __init__(self, module: str = "pipeline.families.text.language.server") -> None:
        """module: the server's main module."""
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._connections: dict[int, tuple[Connection, threading.Lock]] = {}
        self._lock = threading.Lock()
        self._key = b""

    def ask(self, thread: int, message: Mapping[str, Any], arrays: Arrays) -> Message:
        """Send a request, starting the server if necessary. Raises MuGoError if it has ended or fails."""
        try:
            connection, lock = self._connection(thread)
            with lock:
                send(connection, message, arrays)
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
        """Raises MuGoError if it doesn't start; the next request tries again."""
        too_long = len(os.fsencode(tempfile.gettempdir())) > LONGEST_FOLDER
        folder = tempfile.TemporaryDirectory(prefix="mugo-server-", dir="/tmp" if too_long else None)
        self._key = os.urandom(16)
        # A separate session: Ctrl-C goes to the client only. The server ends when its standard input is closed.
        process = subprocess.Popen(
            [sys.executable, "-m", self._module, str(Path(folder.name) / "socket")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[4],
            start_new_session=True,
        )
        share_niceness(process.pid)
        assert process.stdin is not None and process.stdout is not None
        with suppress(BrokenPipeError):  # it has ended; reading from it reports this
            process.stdin.write(self._key.hex().encode() + b"\n")
            process.stdin.flush()
        if process.stdout.readline().strip() != b"ready":
            folder.cleanup()
            raise MuGoError(f"the generation server didn't start (exit code {process.wait()})")
        self._folder, self._process = folder, process
        atexit.register(self.close)

    def close(self) -> None:
        """End the server; the next request starts another."""
        with self._lock:
            process, self._process = self._process, None
            for connection, _ in self._connections.values():
                connection.close()
            self._connections = {}
            if process is not None and process.stdin is not None:
                process.stdin.close()  # ends the server
                process.wait()
            if self._folder is not None:
                self._folder.cleanup()


class RemoteAdapter:
    """An adapter in the server, shared by all threads of a player to form one batch of their requests."""

    def __init__(
        self,
        server: GenerationServer,
        base: tuple[Path, str],
        shape: LoraShape,
        weights: Mapping[str, NDArray[Any]],
        template: str,
        reading: str,
    ) -> None:
        """base: folder and fingerprint. Raises MuGoError if the server can't load it."""
        self._server, self._number, self._weights = server, next(_numbers), dict(weights)
        self._facts = {
            "kind": "load", "number": self._number, "base": str(base[0]), "fingerprint": base[1], "rank": shape.rank,
            "alpha": shape.alpha, "targets": list(shape.targets), "template": template, "reading": reading,
        }  # fmt: skip
        self._load(0)

    def _load(self, thread: int) -> None:
        self._server.ask(thread, self._facts, self._weights)

    def ask(self, thread: int, request: Mapping[str, Any], arrays: Arrays) -> Message:
        """The reply to a request for this adapter. Raises MuGoError like GenerationServer.ask."""
        for _ in range(MOST_TRIES):
            reply = self._server.ask(thread, {**request, "number": self._number}, arrays)
            if reply[0]["status"] != "unknown":
                return reply
            self._load(thread)  # other requests may evict it again before the next try
        raise MuGoError(
            f"the generation server: more than {ADAPTERS_KEPT} adapters answer at the same time; wanted fewer "
            "threads or opponents, or --backend auto"
        )


class RemoteGenerator(TextGenerator):
    """An adapter in the server, for one thread."""

    def __init__(self, adapter: RemoteAdapter, thread: int, tokenizer: Tokenizer, template: str, reading: str) -> None:
        super().__init__(tokenizer, template, reading)
        self._adapter, self._thread = adapter, thread

    def answer(self, asked: Questions) -> Answers:
        request = {
            "kind": "answer", "prompts": [list(map(int, prompt)) for prompt in asked.prompts],
            "temperature": asked.temperature, "most": asked.most, "top_p": asked.top_p,
        }  # fmt: skip
        arrays: Arrays = {"keys": asked.keys, "counters": np.asarray(asked.counters)}
        message, arrays = self._adapter.ask(self._thread, request, arrays)
        return Answers(arrays["tokens"], arrays["values"], message["texts"])


# The server's side


class _Server:
    def __init__(self) -> None:
        self._generators: OrderedDict[int, TorchGenerator] = OrderedDict()

    def serve(self, listener: Listener) -> None:
        """Answer requests forever."""
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
            for connection, message, arrays in self.replies(requests):
                send(connection, message, arrays)

    def replies(
        self, requests: Sequence[tuple[Any, dict[str, Any], Arrays]]
    ) -> list[tuple[Any, dict[str, Any], Arrays]]:
        """(connection, reply, arrays) for each request. Requests for the same adapter form one batch."""
        found: list[tuple[Any, dict[str, Any], Arrays]] = []
        together: dict[tuple[int, float, int, float], list[tuple[Any, dict[str, Any], Arrays]]] = {}
        generators: dict[int, TorchGenerator] = {}  # a later load request may evict one that is still needed
        for connection, message, arrays in requests:
            if message["kind"] == "load":
                found.append((connection, self._load(message, arrays), {}))
            elif message["number"] not in self._generators:
                found.append((connection, {"status": "unknown"}, {}))
            else:
                alike = message["number"], message["temperature"], message["most"], message["top_p"]
                generators[message["number"]] = self._generators[message["number"]]
                self._generators.move_to_end(message["number"])
                together.setdefault(alike, []).append((connection, message, arrays))
        for (number, temperature, most, top_p), asked in together.items():
            prompts = [prompt for _, message, _ in asked for prompt in message["prompts"]]
            keys, counters = (np.concatenate([arrays[name] for _, _, arrays in asked]) for name in ("keys", "counters"))
            try:
                answers = generators[number].answer(Questions(prompts, keys, counters, temperature, most, top_p))
            except Exception as error:  # reported to the client
                failed = {"status": "failed", "why": f"{type(error).__name__}: {error}"}
                found += [(connection, failed, {}) for connection, _, _ in asked]
                continue
            start = 0
            for connection, message, _ in asked:
                rows = slice(start, start + len(message["prompts"]))
                start = rows.stop
                reply = {"status": "done", "texts": answers.texts[rows]}
                found.append((connection, reply, {"tokens": answers.tokens[rows], "values": answers.values[rows]}))
        return found

    def _load(self, message: Mapping[str, Any], weights: Arrays) -> dict[str, Any]:
        shape = LoraShape(message["rank"], message["alpha"], message["targets"])
        try:
            shared = SHARED_BASES.get(Path(message["base"]), message["fingerprint"], shape.targets, 0)
            generator = TorchGenerator(shared, shape, weights, message["template"], message["reading"])
            self._generators[message["number"]] = generator
        except Exception as error:
            return {"status": "failed", "why": str(error)}
        self._generators.move_to_end(message["number"])
        while len(self._generators) > ADAPTERS_KEPT:
            self._generators.popitem(last=False)
        return {"status": "done"}


def _accept(listener: Listener, connections: list[Connection]) -> None:
    while True:
        connections.append(listener.accept())


def _end_with_parent() -> None:
    sys.stdin.buffer.read()  # blocks until the client closes it or ends
    os._exit(0)


def main() -> None:
    key = bytes.fromhex(sys.stdin.buffer.readline().decode())
    listener = Listener(sys.argv[1], "AF_UNIX", authkey=key)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    print("ready", flush=True)
    os.dup2(2, 1)  # nobody reads the pipe any more: what libraries print would fill it
    _Server().serve(listener)


if __name__ == "__main__":
    main()
