"""Runs of self-play with a seed, and what they wrote, to compare threads and workers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pipeline.progress import Progress
from pipeline.run.shards import newest_shards
from pipeline.selfplay.config import SelfplayConfig


class Acting(Progress):
    """Calls act() once this many games have ended, again and again until it returns True."""

    def __init__(self, number=10**9, act=lambda: True) -> None:
        self.remaining, self.act, self.done = number, act, False
        self.warnings: list[str] = []

    def advance(self, count=1) -> None:
        self.remaining -= count
        self.done = self.done or (self.remaining <= 0 and self.act())

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def shards(folder: Path) -> Counter[bytes]:
    """The contents of the shards in a folder; each has one game."""
    return Counter(meta.path.read_bytes() for meta in newest_shards(folder))


def numbers(folder: Path) -> list[int]:
    return sorted(number for meta in newest_shards(folder) for number in meta.numbers.tolist())


def selfplay_config(folder: Path, name: str, **options) -> SelfplayConfig:
    """Of 32 games at once, or 16 in each of two workers, so that batches have 16, 24 or 32 rows.

    In other batches, such as those of 18 rows, torch may compute the values of the last rows by other code, which
    rounds differently. Runs that divide the games in another way could then differ in the last bit.
    """
    settings = {
        "network": folder / "saved_models" / "best_model", "output_dir": folder / name, "games": 60, "readouts": 8,
        "parallel_games": 32, "backend": "torch", "seed": 5, "commit_seconds": 0, "threads": 1,
        "opponents": "mirror=2,random=1,previous=1", "pool": folder / "pool.json",
    }  # fmt: skip
    return SelfplayConfig(**(settings | options))
