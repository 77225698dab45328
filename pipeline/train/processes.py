"""Several processes that train one model together: how many there are and which of them this is.

torchrun starts the processes and says so in the environment of each; this module reads that, and nothing else. Doesn't
import torch: the command line asks it before a command begins. What the processes tell each other is the business of
``process_group.py``.

    RANK, WORLD_SIZE                which process this is, and of how many
    LOCAL_RANK, LOCAL_WORLD_SIZE    the same among those of this machine
    MASTER_ADDR, MASTER_PORT        where all of them meet
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.errors import Elsewhere, UsageError

DIVIDED = "train"  # the command whose work several processes share
HOW = f"`torchrun --nproc-per-node=2 main.py {DIVIDED} …`"


@dataclass(frozen=True)
class Processes:
    """This process among those that train the same model. rank 0 is the *first*: it alone writes and prints."""

    rank: int = 0
    count: int = 1
    local_rank: int = 0
    local_count: int = 1  # on this machine
    address: str = ""
    port: int = 0

    @property
    def first(self) -> bool:
        return self.rank == 0

    def named(self, rank: int) -> str:
        return f"process {rank} of {self.count}"


ALONE = Processes()


def processes_here(command: str, environment: Mapping[str, str] = os.environ) -> Processes:
    """What the environment says. ALONE without WORLD_SIZE, or where it is 1.

    Raises UsageError for other commands than train, which would all do the same work at once, and for variables that
    are missing or contradict each other.
    """
    count = _number(environment, "WORLD_SIZE", 1, 1)
    if count == 1:
        return ALONE
    if command != DIVIDED:
        if is_quiet(environment):
            raise Elsewhere("", UsageError.exit_code)
        raise UsageError(
            f"{command}: WORLD_SIZE={count} means that {count} processes run this command at once, which only "
            f"{DIVIDED} shares among them; wanted it without torchrun (unset WORLD_SIZE); several workers: see "
            "docs/machines.md"
        )
    missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if not environment.get(name)]
    if missing:
        raise UsageError(
            f"{command}: WORLD_SIZE={count} but {' and '.join(missing)} not set; wanted what torchrun sets; start "
            f"it by {HOW}, or unset WORLD_SIZE to train in one process"
        )
    rank = _number(environment, "RANK", 0, 0)
    local_count = _number(environment, "LOCAL_WORLD_SIZE", 1, 1)
    local_rank = _number(environment, "LOCAL_RANK", rank % local_count, 0)
    if rank >= count or local_rank >= local_count or local_count > count:
        raise UsageError(
            f"{command}: RANK={rank} of WORLD_SIZE={count}, LOCAL_RANK={local_rank} of LOCAL_WORLD_SIZE={local_count}; "
            f"wanted each below the number of processes; start it by {HOW}"
        )
    # Before torch is imported: its warnings of connections that end come with a page of stack frames.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    port = _number(environment, "MASTER_PORT", 0, 1, 2**16 - 1)
    return Processes(rank, count, local_rank, local_count, environment["MASTER_ADDR"], port)


def is_quiet(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether another process prints what all of them would print."""
    return environment.get("WORLD_SIZE", "1") not in ("", "1") and environment.get("RANK", "0") not in ("", "0")


def _number(environment: Mapping[str, str], name: str, default: int, least: int, most: int = 2**20) -> int:
    text = environment.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise UsageError(f"{name}={text[:40]}: wanted a number from {least} to {most}, as torchrun sets it; unset it")
    return int(text)
