"""Where the files of a run live: the store in force in this process.

atomic.py calls the store before it reads, lists, renames into place, removes or locks a file. The files that a process
opens are always on this disk: a store only fetches them before they are read, and uploads them before they are renamed
into place.

``Store`` itself is this disk, so its methods do nothing. It is in force unless a command begins in a working copy
(working_copy.py): then a BucketStore (bucket.py) keeps the working copy and the run in object storage in step. Worker
processes write no files of a run, and read only what the process that leads has fetched; there ``Store`` is in force.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from pipeline.errors import NotYet


class Busy(NotYet):
    """Another process holds the lock of a file or folder."""


class Store:
    """This disk. Every method takes any path; a subclass ignores paths outside its run, raises FileError and may be
    called from any thread.
    """

    shared = False  # whether other machines may work on the same run

    # Reading

    def want(self, path: Path) -> None:
        """Fetch a file that is about to be read, if it is missing here or may have changed."""

    def fetch(self, paths: Sequence[Path]) -> None:
        """Fetch those of these files that are missing here. They never change."""

    def names(self, folder: Path) -> set[str]:
        """The names of files that belong in this folder and may not be here. Makes the folder's missing subfolders."""
        return set()

    def is_listed(self, folder: Path) -> bool:
        """Whether the store has a model or match of this name, whether its files are here or not."""
        return False

    def look_at_place(self, folder: Path) -> None:
        """Update a worker's folder of games with what other machines packed or pruned."""

    def fetch_names(self) -> None:
        """Make the folders of all models, generations and matches."""

    def fetch_whole(self) -> None:
        """Fetch all files of the run."""

    # Writing

    def commit(self, path: Path, temporary: Path) -> None:
        """Upload a file or symlink that is about to be renamed from temporary to path."""

    def appended(self, path: Path) -> None:
        """Upload a file to which a line was added, now or later."""

    def share(self, path: Path) -> None:
        """Upload a file that nothing depends on. A failure has no consequences for later commits."""

    def removing(self, paths: Sequence[Path]) -> None:
        """Remove from the store the files that are about to be removed here."""

    def forget_shards(self, directory: Path, before: int) -> None:
        """Remove the local copies of shards of generations before this one. directory: of all games."""

    def hold(self, path: Path, on_wait: Callable[[], None] | None, busy: str | None) -> AbstractContextManager[None]:
        """Hold the lock of a file or folder that the other copies of the run respect. Parameters as in file_lock."""
        return nullcontext()

    # Showing

    def traffic(self) -> str:
        """One line about the requests to a server; empty without a server."""
        return ""


_current = Store()


def current_store() -> Store:
    """The store in force in this process."""
    return _current


@contextmanager
def using(store: Store) -> Iterator[None]:
    """Put this store in force, in all threads, while the block runs."""
    global _current
    before, _current = _current, store
    try:
        yield
    finally:
        _current = before
