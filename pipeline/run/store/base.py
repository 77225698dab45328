"""Where the files of a run live: the store that is in force in this process.

atomic.py tells the store what it reads, lists, writes, removes and locks. The files themselves are always on this disk:
a store only fetches them before they are read, and passes them on before they are renamed into place.

LocalStore, which is in force unless a command begins in a working copy (working_copy.py), does nothing. BucketStore
(bucket.py) keeps a working copy of a run in object storage up to date.

Worker processes read and write no run, so they have a LocalStore.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from pipeline.errors import FileError


class Held(FileError):
    """A process with another copy of the run has the lock."""


class Store(ABC):
    """Takes any path, and leaves alone those outside its run. All methods raise FileError. For any thread.

    shared: whether other machines may work on the same run.
    """

    shared: bool

    # Reading

    @abstractmethod
    def want(self, path: Path) -> None:
        """A file will be read: bring it here, if it is missing or may have changed."""

    @abstractmethod
    def fetch(self, paths: Sequence[Path]) -> None:
        """Bring files here that never change, many at once; those that are here stay."""

    @abstractmethod
    def names(self, folder: Path) -> set[str]:
        """The names of files elsewhere that belong in this folder. Makes its missing folders here."""

    @abstractmethod
    def is_listed(self, folder: Path) -> bool:
        """Whether a model or match of this name is elsewhere, whether its files are here or not."""

    @abstractmethod
    def look_at_place(self, folder: Path) -> None:
        """Bring a worker's folder of games up to date with what others packed or pruned."""

    @abstractmethod
    def fetch_names(self) -> None:
        """Make the folders of all models, generations and matches."""

    @abstractmethod
    def fetch_whole(self) -> None:
        """Bring all files of the run here."""

    # Writing

    @abstractmethod
    def commit(self, path: Path, temporary: Path) -> None:
        """A file or symlink will be renamed from temporary to path."""

    @abstractmethod
    def commit_folder(self, path: Path, temporary: Path) -> bool:
        """A folder will be renamed from temporary to path. True: it is committed already, so another process of this
        copy may have found and made it meanwhile.
        """

    @abstractmethod
    def appended(self, path: Path) -> None:
        """A line was added to a file."""

    @abstractmethod
    def removing(self, paths: Sequence[Path]) -> None:
        """Files will be removed."""

    @abstractmethod
    def forget_shards(self, directory: Path, before: int) -> None:
        """No window needs the shards of generations before this one. directory: of all games."""

    @abstractmethod
    def hold(
        self, path: Path, on_wait: Callable[[], None] | None = None, wait: bool = True
    ) -> AbstractContextManager[None]:
        """The lock of a file or folder, for the other copies of the run. on_wait: called once before waiting.

        Raises Held with wait=False.
        """

    # Using

    @abstractmethod
    def traffic(self) -> str:
        """What was asked of a server, in a line; "": there is none."""


class LocalStore(Store):
    """This disk, and nothing else."""

    shared = False

    def want(self, path: Path) -> None: ...

    def fetch(self, paths: Sequence[Path]) -> None: ...

    def names(self, folder: Path) -> set[str]:
        return set()

    def is_listed(self, folder: Path) -> bool:
        return False

    def look_at_place(self, folder: Path) -> None: ...

    def fetch_names(self) -> None: ...

    def fetch_whole(self) -> None: ...

    def commit(self, path: Path, temporary: Path) -> None: ...

    def commit_folder(self, path: Path, temporary: Path) -> bool:
        return False

    def appended(self, path: Path) -> None: ...

    def removing(self, paths: Sequence[Path]) -> None: ...

    def forget_shards(self, directory: Path, before: int) -> None: ...

    def hold(
        self, path: Path, on_wait: Callable[[], None] | None = None, wait: bool = True
    ) -> AbstractContextManager[None]:
        return nullcontext()

    def traffic(self) -> str:
        return ""


_current: Store = LocalStore()


def current_store() -> Store:
    """The store that is in force in this process."""
    return _current


@contextmanager
def using(store: Store) -> Iterator[None]:
    """While the block runs, this store is in force, in all threads."""
    global _current
    before, _current = _current, store
    try:
        yield
    finally:
        _current = before
