"""This process's place among the processes that train one model together.

Reads the environment variables that torchrun sets, nothing else. Doesn't import torch, because main.py calls it before
any command. ``process_group.py`` has the communication.

    RANK, WORLD_SIZE                this process's number, and how many processes there are
    LOCAL_RANK, LOCAL_WORLD_SIZE    the same among the processes of this machine
    MASTER_ADDR, MASTER_PORT        where all of them connect
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.errors import Elsewhere, UsageError

SHARED_COMMAND = "train"  # the only command whose work several processes share
HOW = f"`torchrun --nproc-per-node=2 main.py {SHARED_COMMAND} …`"


@dataclass(frozen=True)
class Processes:
    """This process among those that train the same model. Only the *first*, of rank 0, writes and prints."""

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
    """Read the environment; ALONE if WORLD_SIZE is missing or 1.

    Raises UsageError for any other command than train, because all processes would do the same work, and for variables
    that are missing or contradict each other.
    """
    count = _number(environment, "WORLD_SIZE", 1, 1)
    if count == 1:
        return ALONE
    if command != SHARED_COMMAND:
        if is_quiet(environment):
            raise Elsewhere("", UsageError.exit_code)
        raise UsageError(
            f"{command}: WORLD_SIZE={count} means that {count} processes run this command at once, but only "
            f"{SHARED_COMMAND} divides its work; run it without torchrun (unset WORLD_SIZE); for several workers see "
            "docs/machines.md"
        )
    missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if not environment.get(name)]
    if missing:
        raise UsageError(
            f"{command}: WORLD_SIZE={count} but {' and '.join(missing)} not set; start it by {HOW}, which sets them, "
            "or unset WORLD_SIZE to train in one process"
        )
    rank = _number(environment, "RANK", 0, 0)
    local_count = _number(environment, "LOCAL_WORLD_SIZE", 1, 1)
    local_rank = _number(environment, "LOCAL_RANK", rank % local_count, 0)
    if rank >= count or local_rank >= local_count or local_count > count:
        raise UsageError(
            f"{command}: RANK={rank} of WORLD_SIZE={count}, LOCAL_RANK={local_rank} of LOCAL_WORLD_SIZE={local_count}; "
            f"wanted each below the number of processes; start it by {HOW}"
        )
    # Before torch is imported: its warnings about closed connections print a page of stack frames.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    port = _number(environment, "MASTER_PORT", 0, 1, 2**16 - 1)
    return Processes(rank, count, local_rank, local_count, environment["MASTER_ADDR"], port)


def is_quiet(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether another process prints for all."""
    return environment.get("WORLD_SIZE", "1") not in ("", "1") and environment.get("RANK", "0") not in ("", "0")


def _number(environment: Mapping[str, str], name: str, default: int, least: int, most: int = 2**20) -> int:
    text = environment.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise UsageError(f"{name}={text[:40]}: wanted a number from {least} to {most}, as torchrun sets it; unset it")
    return int(text)
