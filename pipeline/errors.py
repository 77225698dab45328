"""The exceptions a user may meet, and the exit code of each.

    MuGoError                 exit 1   something failed; the message says where, found, wanted, next step
    ├── UsageError            exit 2   a wrong option, preset or game spec
    ├── NotYet                exit 75  nothing to do yet; says which number is missing
    ├── Elsewhere             exit code of another process of the same command, which failed or ended
    ├── FileError             exit 1   a file is missing, damaged, or of another version or game
    │   └── GamesDiffer       exit 1   some of a file's games aren't what they were when they were recorded
    └── IllegalMove           exit 1   an action the rules forbid
        └── GameFault         exit 1   the game's own program failed, through no fault of the players

Anything else that escapes is a bug and shows its traceback.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

MOST_CHARACTERS = 2_000  # of a message: a quotation may be as long as a file
_BREAKS = re.compile(r"[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")


class MuGoError(Exception):
    """Base of every error whose message is meant for a user: one line without traceback.

    Line breaks in quotations become blanks, and a long message lacks its middle.
    """

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        text = _BREAKS.sub(" ", message)
        half = MOST_CHARACTERS // 2
        super().__init__(text if len(text) <= MOST_CHARACTERS else f"{text[:half]} … {text[-half:]}")


class UsageError(MuGoError):
    """The command line, a preset or a spec string is wrong."""

    exit_code = 2


class NotYet(MuGoError):
    """There is nothing to do yet (sysexits.h EX_TEMPFAIL): try again when there is more data.

    missing: the number missing, in the message's unit.
    """

    exit_code = 75

    def __init__(self, message: str, missing: int = 0) -> None:
        super().__init__(message)
        self.missing = missing


class Elsewhere(MuGoError):
    """Another process of the same command, e.g. a worker, ended or failed; this one ends with the same exit code.

    message: empty where the other process has printed the reason.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class FileError(MuGoError):
    """A file can't be used. Its text is always ``path: found; wanted; next step``."""

    def __init__(self, path: Path | str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = Path(path)
        self.problem = problem


class GamesDiffer(FileError):
    """Some games of a file can't be replayed as they were recorded; its others can.

    games: what is wrong with each, by index
    """

    def __init__(self, path: Path, games: Mapping[int, str]) -> None:
        first = min(games)
        more = f"; {len(games) - 1} more of its games differ likewise" if len(games) > 1 else ""
        super().__init__(path, f"game {first}, {games[first]}{more}")
        self.games = frozenset(games)


# Errors of the system about a path, as problem; wanted; next step.
SYSTEM_PROBLEMS = {
    errno.ENOSPC: "the disk is full; wanted room to write; free some and run again",
    errno.EDQUOT: "the disk quota is used up; wanted room to write; free some and run again",
    errno.EFBIG: "the file grew past the largest size allowed here; raise the limit (ulimit -f) and run again",
    errno.EROFS: "the disk is read-only; wanted to write; make it writable or choose another directory",
    errno.EACCES: "permission denied; change its permissions or choose another directory",
    errno.EPERM: "the system does not permit it; change its permissions or choose another directory",
    errno.ENOTDIR: "a part of its path is a file; wanted a directory; choose another path",
    errno.EISDIR: "it is a directory; wanted a file; choose another path",
    errno.EIO: "the disk reports a fault; check it and run again",
    errno.EMFILE: "this process has too many files open; raise the limit (ulimit -n) and run again",
    errno.ENFILE: "this machine has too many files open; end other programs and run again",
    errno.ENAMETOOLONG: "its name or path is too long for this disk; choose a shorter one",
    errno.ELOOP: "links lead in a circle; wanted a path that ends; re-point them",
    errno.ESTALE: "the network disk lost it; mount it again and run again",
    errno.ENOLCK: "this disk gives no locks; wanted one that does; mount it with locks or choose another",
}


def explain(path: Path | str, error: OSError) -> FileError:
    """The one-line error for the system's error about this path."""
    problem = SYSTEM_PROBLEMS.get(error.errno or 0, f"{error.strerror or error}; check the disk and run again")
    return FileError(path, problem)


class IllegalMove(MuGoError):
    """An action that the rules forbid in that state."""


class GameFault(IllegalMove):
    """The program that holds the rules failed at an action: the game can't continue, and counts for neither player."""


@contextmanager
def named_in(path: Path | str) -> Iterator[None]:
    """Put a file's path before the UsageError about an unknown game or method that the file names."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Put a file's path before errors of code that doesn't know the file."""
    try:
        yield
    except (FileError, UsageError, Elsewhere):
        raise
    except MuGoError as error:
        raise FileError(path, str(error)) from error
