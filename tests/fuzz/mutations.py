"""Bytes as a program that damages a file: what a fuzzer varies, and what hypothesis makes smaller.

A file is a list of *parts*, those that its checksums cover one by one (the header and the arrays of a shard, the lines
of a match). Parts that are JSON are changed as such: a value by one of VALUES, two values swapped, a name removed. Any
part may have bits flipped, pieces cut out, doubled or taken from another file. The empty program changes little.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.damage import VALUES, changed, places

Parts = list[bytes]

NUMBERS = (0, 1, 127, 128, 255)  # bytes that stand at the ends of what numbers can be
WORDS = (*(bytes.fromhex(word) for word in ("00" * 8, "ff" * 8, "ff" * 7 + "7f", "00" * 6 + "f07f")), b"9" * 5000)
NAMES = "BF16 F8_E5M2 I64 U16 <i8 |O gtp:x go:19 - 1e9 random ../x ٣"  # that mean something in one file or another
TOKENS = (*NAMES.split(), "\n", "", "x" * 300)
MOST_CHANGES = 4


class Choices:
    """Numbers from bytes; 0 when they are used up."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def below(self, count: int) -> int:
        """From 0 to count - 1; 0 for a count of 0."""
        num_bytes = max(1, (count - 1).bit_length() + 7 >> 3)
        taken = self._data[self._at : self._at + num_bytes]
        self._at += num_bytes
        return int.from_bytes(taken, "little") % max(1, count)

    def rest(self) -> bytes:
        taken = self._data[self._at :]
        self._at = len(self._data)
        return taken


def damaged(parts: Sequence[bytes], others: Sequence[bytes], choices: Choices) -> Parts:
    """These parts with a few changes. others: parts of any files, to take pieces from."""
    found = list(parts)
    for _ in range(1 + choices.below(MOST_CHANGES)):
        at = choices.below(len(found))
        kind = choices.below(12)
        if kind == 0 and len(found) > 1:  # the list itself
            del found[at]
        elif kind == 1:
            found.insert(choices.below(len(found) + 1), found[at])
        elif kind == 2 and others:
            found[at] = others[choices.below(len(others))]
        else:
            found[at] = _part(found[at], others, choices)
    return found


def damage_bytes(data: bytes, others: Sequence[bytes], choices: Choices) -> bytes:
    """One change of a file as it lies there, whatever it says."""
    return BYTES[choices.below(len(BYTES))](data, others, choices)


def _part(part: bytes, others: Sequence[bytes], choices: Choices) -> bytes:
    try:
        value = json.loads(part)
    except (ValueError, RecursionError):
        return damage_bytes(part, others, choices)
    if not isinstance(value, dict | list) or choices.below(8) == 7:
        return damage_bytes(part, others, choices)
    try:
        return _json(part.decode(), value, choices)
    except (ValueError, RecursionError):  # an earlier change left what can't be written
        return part


def _json(text: str, value: Any, choices: Choices) -> bytes:
    found = list(places(value))
    at = found[choices.below(len(found))]
    kind = choices.below(8)
    if kind == 0 and at:  # gone
        _inside(value, at[:-1]).pop(at[-1])
        return json.dumps(value).encode()
    if kind == 1:  # what stands elsewhere in it
        return changed(text, at, json.dumps(_inside(value, found[choices.below(len(found))]))).encode()
    if kind == 2:  # nearly the same
        return changed(text, at, _near(_inside(value, at), choices)).encode()
    if kind == 3:  # a name that nobody knows
        inside = _inside(value, at)
        if isinstance(inside, dict):
            inside["strange"] = 1
            return json.dumps(value).encode()
    return changed(text, at, VALUES[choices.below(len(VALUES))]).encode()


def _near(value: Any, choices: Choices) -> str:
    if isinstance(value, bool) or value is None:
        return json.dumps(not value)
    if isinstance(value, int | float):
        return json.dumps((value + 1, value - 1, -value, value * 2, value + 0.5, str(value), [value])[choices.below(7)])
    if isinstance(value, str):
        if choices.below(3) == 2:
            return json.dumps(TOKENS[choices.below(len(TOKENS))])
        at = choices.below(len(value) + 1)
        added = ("/", "..", "\n", "\t", "²", "=", ":", "9" * 30, "\x7f", "@", "A", "")[choices.below(12)]
        return json.dumps(value[:at] + added + value[at + choices.below(3) :])
    if isinstance(value, list):
        return json.dumps((value[1:], value * 2, [value], value[::-1])[choices.below(4)])
    return json.dumps([value])


def _inside(value: Any, at: tuple[Any, ...]) -> Any:
    for key in at:
        value = value[key]
    return value


def _flip(part: bytes, others: Sequence[bytes], choices: Choices) -> bytes:
    data = bytearray(part)
    for _ in range(1 + choices.below(4)):
        if data:
            data[choices.below(len(data))] ^= 1 << choices.below(8)
    return bytes(data)


def _set(part: bytes, others: Sequence[bytes], choices: Choices) -> bytes:
    at, byte = choices.below(len(part)), choices.below(256 + len(NUMBERS))
    return part[:at] + bytes([byte if byte < 256 else NUMBERS[byte - 256]]) + part[at + 1 :]


def _cut(part: bytes, others: Sequence[bytes], choices: Choices) -> bytes:
    return part[: choices.below(len(part))]


def _without(part: bytes, others: Sequence[bytes], choices: Choices) -> bytes:
    at = choices.below(len(part))
    return part[:at] + part[at + 1 + choices.below(64) :]


def _doubled(part: bytes, others: Sequence[bytes], choices: Choices) -> bytes:
    at = choices.below(len(part))
    piece = part[at : at + 1 + choices.below(64)]
    return part[:at] + piece * (1 + choices.below(200)) + part[at:]


def _word(part: bytes, others: Sequence[bytes], choices: Choices) -> bytes:
    at, word = choices.below(len(part)), WORDS[choices.below(len(WORDS))]
    return part[:at] + word + part[at + len(word) * choices.below(2) :]


def _spliced(part: bytes, others: Sequence[bytes], choices: Choices) -> bytes:
    other = others[choices.below(len(others))] if others else b""
    return part[: choices.below(len(part))] + other[choices.below(len(other)) :]


def _replaced(part: bytes, others: Sequence[bytes], choices: Choices) -> bytes:
    """By whatever the fuzzer has left."""
    return choices.rest()


BYTES: tuple[Callable[[bytes, Sequence[bytes], Choices], bytes], ...] = (
    _flip, _set, _cut, _without, _doubled, _word, _spliced, _replaced,
)  # fmt: skip
