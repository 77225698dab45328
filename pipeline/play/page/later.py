"""``LoadedLater``: a model, or another thing that takes long, loaded in the background when it is first wanted."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

from pipeline.errors import MuGoError

LOOK_SECONDS = 0.2  # how often a waiting request looks whether the server ends
_ALONE = threading.Lock()

Thing = TypeVar("Thing")


class LoadedLater(Generic[Thing]):
    """Thread-safe.

    name      for messages
    load      loads it; may raise. After a failure, the next request for it starts another try
    stopping  set when the server ends; nobody waits after that
    alone     whether nothing else may be loaded meanwhile: loading a model may measure how fast the machine is
    """

    def __init__(
        self, name: str, load: Callable[[], Thing], stopping: threading.Event | None = None, alone: bool = True
    ) -> None:
        self.name = name
        self._load, self._stopping = load, stopping or threading.Event()
        self._turn = _ALONE if alone else contextlib.nullcontext()
        self._lock = threading.Lock()
        self._try: Future[Thing] | None = None

    @property
    def is_ready(self) -> bool:
        return self._try is not None and self._try.done() and self._failure() is None

    @property
    def problem(self) -> str | None:
        """What get() would have said of the last try; None if it didn't fail."""
        return None if (failure := self._failure()) is None else str(self._refusal(failure))

    def wait(self, seconds: float) -> bool:
        """Whether it is loaded, or can't be, after at most this time."""
        return bool(wait([self.prepare()], seconds).done)

    def prepare(self) -> Future[Thing]:
        """Begin to load it, unless that has been done."""
        with self._lock:
            if self._try is None or self._failure() is not None:
                self._try = Future()
                threading.Thread(target=self._run, args=(self._try,), daemon=True).start()
            return self._try

    def get(self) -> Thing:
        """Wait for it. Raises MuGoError if it can't be loaded or the server ends."""
        begun = self.prepare()
        while not wait([begun], LOOK_SECONDS).done:
            if self._stopping.is_set():
                raise MuGoError("the server is ending")
        try:
            return begun.result()
        except MuGoError as error:
            raise self._refusal(error) from error

    def _run(self, begun: Future[Thing]) -> None:
        try:
            with self._turn:
                begun.set_result(self._load())
        except BaseException as error:
            begun.set_exception(error)

    def _failure(self) -> BaseException | None:
        return self._try.exception() if self._try is not None and self._try.done() else None

    def _refusal(self, failure: BaseException) -> MuGoError:
        return MuGoError(f"{self.name} can't be loaded: {failure}")
