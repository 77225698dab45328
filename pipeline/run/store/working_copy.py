"""Making and opening working copies: folders that are copies of runs in object storage.

    .mugo-copy.json in the folder: the run's address, and a random id that identifies the copy in locks

A command that begins in such a folder works on that run; see bucket.py. An address among a command's options makes the
whole command work on the run at that address, in this machine's working copy of it in ~/.cache/mugo/runs/.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from pipeline.caches import cache_folder
from pipeline.errors import FileError, UsageError
from pipeline.presets import is_engine
from pipeline.run import atomic, layout
from pipeline.run.store.base import Store, using
from pipeline.run.store.bucket import BucketStore
from pipeline.run.store.requests import PROTOCOLS, RETRY_SECONDS, Conflict, Objects, parse_address

FIRST_SECONDS = 10.0  # for reaching a store before anything is done
_IN_TEXT = re.compile(r"[a-z][a-z0-9+.-]*://[^\s,@]+")
_LOCAL = re.compile(  # a preset or a player spec (players/player_specs.py), but no word without a slash or suffix
    r"(?P<before>([A-Za-z0-9][A-Za-z0-9._@-]*=)?(handicap:\d+:)?(policy:)?)(?P<path>[^>]*?/[^>]*?|[^>]+\.ya?ml)"
    r"(?P<behind>(@\d+)?(>=.*)?)"
)
WANTED = "the address of a run's working copy; remove the folder, and attach it again"


class CopyInfo(BaseModel, frozen=True, extra="forbid"):
    """.mugo-copy.json."""

    format: Literal["mugo-copy"] = "mugo-copy"
    version: Literal[1] = 1
    address: str = Field(description="Of the run's folder in the bucket.")
    copy_id: str = Field(description="Random; identifies the copy in locks.")


def default_folder(address: str) -> Path:
    """This machine's working copy of an address."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", address.partition("://")[2]).strip("-")[-60:]
    return cache_folder() / "runs" / f"{readable}-{hashlib.sha256(address.encode()).hexdigest()[:8]}"


def make(address: str, folder: Path | None = None) -> Path:
    """Make a folder (None: default_folder) the working copy of an address, if it isn't yet; returns the folder.

    Checks first that the store answers and honours conditional writes. Raises UsageError for an invalid address or a
    folder that holds something else, FileError for an unusable store.
    """
    objects = Objects(address, FIRST_SECONDS)
    folder = default_folder(objects.address) if folder is None else folder
    found = _read(folder)
    if found is not None and found.address != objects.address:
        raise UsageError(f"{folder}: it is the working copy of {found.address}; wanted another folder")
    if found is None:
        if any((folder / name).exists() for name in (layout.DATA, layout.SAVED_MODELS.name)):
            raise UsageError(f"{folder}: it holds a run of its own; wanted a new folder")
        check(objects)
        atomic.make_folder(folder)
        info = CopyInfo(address=objects.address, copy_id=secrets.token_hex(8))
        atomic.write_json(folder / layout.WORKING_COPY, info.model_dump())
    return folder


def check(objects: Objects) -> None:
    """Raises FileError unless the store honours the conditions of writes, on which promotions depend."""
    key = f".trial-{secrets.token_hex(8)}"
    objects.put(key, b"one")
    try:
        for replaces in (None, objects.no_tag):
            try:
                objects.put(key, b"other", replaces)
            except Conflict:
                continue
            raise FileError(
                objects.address,
                "this store ignores the conditions of writes (If-None-Match or If-Match), so two machines could "
                "overwrite each other's promotions; wanted one that honours them, like Amazon S3",
            )
    finally:
        objects.delete([key])


@contextmanager
def opened(folder: Path) -> Iterator[Store]:
    """The store of the run in this folder, in force while the block runs. Raises like connected."""
    with connected(folder) as store, using(store):
        yield store


@contextmanager
def connected(folder: Path) -> Iterator[Store]:
    """The store of the run in this folder. Uploads what is left at the end of the block.

    Raises FileError before the block if the store can't be reached, and after it if something couldn't be uploaded.
    """
    info = _read(folder)
    if info is None:
        yield Store()
        return
    objects = Objects(info.address, FIRST_SECONDS)
    store = BucketStore(folder, objects, info.copy_id)
    try:
        store.want(store.root / layout.SAVED_MODELS / layout.CHAMPION)
        objects.patience = RETRY_SECONDS
        yield store
    except BaseException:
        objects.patience = FIRST_SECONDS
        with suppress(FileError):  # the next command here uploads the rest
            store.close()
        raise
    store.close()


def _read(folder: Path) -> CopyInfo | None:
    path = folder / layout.WORKING_COPY
    return atomic.read_record(path, CopyInfo, WANTED) if path.exists() else None


def attach(address: str, folder: Path | None = None, whole: bool = False) -> Path:
    """Make a working copy, as make does, and fetch the names in the run, or for `whole` all its files."""
    folder = make(address, folder)
    with opened(folder) as store:
        store.fetch_names()
        if whole:
            store.fetch_whole()
    return folder


# Addresses among options


def moved(given: Mapping[str, Any], is_run: bool) -> tuple[dict[str, Any], Path | None]:
    """(options with paths instead of addresses, the working copy to which they are relative; None: no address).

    is_run: an address may be that of a run; otherwise it must lead into its data/ or saved_models/. Other relative
    paths become absolute, also those of presets and players. Raises UsageError for addresses of several runs, or for
    an address together with files of the working copy in the present folder.
    """
    runs: set[str] = set()

    def in_copy(text: str) -> str:
        found = parse_address(text)
        assert found is not None
        protocol, rest = found
        parts = rest.split("/")
        where = layout.end_of_run(tuple(parts), is_run)
        if where is None and not is_run and protocol in PROTOCOLS:
            raise UsageError(
                f"{protocol}://{rest}: wanted a folder of a run, e.g. {protocol}://BUCKET/FOLDER/{layout.DATA}/"
                f"{layout.SELFPLAY} or {protocol}://BUCKET/FOLDER/{layout.SAVED_MODELS.name}/{layout.CHAMPION}"
            )
        runs.add(f"{protocol}://{'/'.join(parts[:where])}")
        return "/".join(parts[where:]) if where is not None else "."

    def taken(value: Any, absolute: bool) -> Any:
        """absolute: whether a relative path becomes absolute."""
        if isinstance(value, list | tuple):
            return [taken(one, absolute) for one in value]
        if isinstance(value, Path):
            if parse_address(str(value)):
                return Path(in_copy(str(value)))
            return Path(_absolute(str(value))) if absolute else value
        if isinstance(value, str):
            new = value if is_engine(value) else _IN_TEXT.sub(lambda match: in_copy(match[0]), value)
            return _absolute_player(value) if absolute and new == value else new
        return value

    options = {name: taken(value, absolute=False) for name, value in given.items()}
    if not runs:
        return options, None
    if len(runs) > 1:
        raise UsageError(f"addresses of {len(runs)} runs: {', '.join(sorted(runs))}; wanted those of one")
    return {name: taken(value, absolute=True) for name, value in given.items()}, make(runs.pop())


def _absolute_player(text: str) -> str:
    """A preset or player with its absolute path, if it is a file or folder here; otherwise text."""
    match = _LOCAL.fullmatch(text)
    if match is None or not os.path.lexists(match["path"]):
        return text
    return match["before"] + _absolute(match["path"]) + match["behind"]


def _absolute(path: str) -> str:
    found = os.path.abspath(path)
    if os.path.exists(layout.WORKING_COPY) and layout.is_shared(Path(os.path.relpath(found)).parts):
        raise UsageError(f"{path}: it is in the working copy of another run; wanted files of one run")
    return found
