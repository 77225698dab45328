"""``Texts``: a number for each text that a player says, so that it can be an action.

The number is a hash of the text, so it is the same in every process, unless two texts in use have the same hash: then
the later one gets the next free number. Therefore numbers are never stored: records hold the texts.

The texts used longest ago are forgotten when all together exceed a number of characters. Games in progress use theirs
at every move.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict

FIRST = 1 << 30  # numbers of texts go from here to 2^31 - 1
MOST_CHARACTERS = 16_384  # of a text; a longer one loses its beginning
KEPT_CHARACTERS = 256 << 20  # of all texts
OVERHEAD = 200  # of a text in memory, in characters

_UNFIT = re.compile("[\0\ud800-\udfff]")  # neither JSON nor UTF-8 carries them through every program


def clean(text: str) -> str:
    """The text as players see it and records hold it."""
    return _UNFIT.sub("\ufffd", text)[-MOST_CHARACTERS:]


class Texts:
    """See the module docstring. Threads may share it."""

    def __init__(self, kept_characters: int = KEPT_CHARACTERS) -> None:
        self._kept = kept_characters
        self._size = 0
        self._lock = threading.Lock()
        self._texts: OrderedDict[int, str] = OrderedDict()  # the latest used last
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._texts)

    def __contains__(self, number: int) -> bool:
        return number in self._texts

    def number(self, text: str) -> int:
        """The number of a clean text."""
        with self._lock:
            known = self._numbers.get(text)
            if known is not None:
                self._texts.move_to_end(known)
                return known
            digest = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little")
            while (number := FIRST | digest & (FIRST - 1)) in self._texts:
                digest += 1
            self._texts[number], self._numbers[text] = text, number
            self._size += len(text) + OVERHEAD
            while self._size > self._kept and len(self._texts) > 1:
                _, old = self._texts.popitem(last=False)
                del self._numbers[old]
                self._size -= len(old) + OVERHEAD
            return number

    def text(self, number: int) -> str:
        """Raises KeyError for a number without a text, or with one that was forgotten."""
        with self._lock:
            self._texts.move_to_end(number)
            return self._texts[number]


TEXTS = Texts()  # of this process
