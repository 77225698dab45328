"""What processes that train one model tell each other: outputs, gradients, signals, and why one of them ended.

They meet at a *store*, a table of short texts that torchrun keeps (rank 0 does, where processes were started by hand).
There each says who it is before any work, and those that don't agree end. Tensors go by torch's collectives: gloo on
processors, NCCL between GPUs; nothing else differs between the two. All sums are made in the order of the ranks,
whoever is faster: the same run gives the same bits.

A process that ends early leaves its reason in the store. The others notice that it is gone at the next exchange, and
end by the same exit code, or by the same signal; the reason is printed once for each machine with a terminal of its
own. A process that was killed leaves none: then the others say which one is missing.

Never pickles: texts are JSON. Knows neither networks nor files.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from pipeline.errors import Elsewhere, MuGoError, UsageError
from pipeline.interrupts import held_back, noted
from pipeline.machine import available_cores
from pipeline.run import layout
from pipeline.run.provenance import library_versions, source_digest
from pipeline.stalls import HANG_SECONDS
from pipeline.train.processes import HOW, Processes

JOIN_SECONDS = 300.0  # until all processes have come: on a cluster, machines start one after the other
LOOK_SECONDS = 0.05
REASON_SECONDS = 2.0  # for a process that ends to say why
END, FAILURES, DONE = "end", "failures", "done"  # names in the store


class ProcessGroup:
    """The processes that train together, as one of them sees it.

    device  where this process trains         cores  of each process, for its own replicas
    """

    def __init__(self, processes: Processes, store: Any, device: torch.device, cores: int) -> None:
        self.processes, self.device, self.cores = processes, device, cores
        self.rank, self.count = processes.rank, processes.count
        self._store = store

    @property
    def first(self) -> bool:
        return self.processes.first

    # Tensors

    def gather(self, mine: Tensor, lengths: Sequence[int]) -> list[Tensor]:
        """By rank, the tensors [lengths[rank]] that all processes have; mine [lengths[self.rank]]."""
        longest = max(lengths)
        padded = mine.new_zeros(longest)
        padded[: len(mine)] = mine
        found = [torch.empty_like(padded) for _ in lengths]
        self._exchange(lambda: dist.all_gather(found, padded))
        return [one[:length] for one, length in zip(found, lengths, strict=True)]

    def summed(self, mine: Tensor) -> Tensor:
        """[n]: the sum of all processes' tensors [n], added up in the order of ranks.

        Each process adds up its part of the numbers, and gathers the sums of the others: 2·n are sent, however many
        processes there are.
        """
        part = -(-len(mine) // self.count)
        padded = mine.new_zeros(part * self.count)
        padded[: len(mine)] = mine
        parts = torch.empty_like(padded)
        self._exchange(lambda: dist.all_to_all_single(parts, padded))
        total, *others = parts.view(self.count, part)
        for other in others:
            total += other
        return torch.cat(self.gather(total, [part] * self.count))[: len(mine)]

    def largest(self, number: int) -> int:
        """Of the numbers that all processes have."""
        found = torch.tensor([number], dtype=torch.int64)
        self._exchange(lambda: dist.all_reduce(found, dist.ReduceOp.MAX))
        return int(found.item())

    def _exchange(self, collective: Callable[[], Any]) -> None:
        try:
            collective()
        except RuntimeError as error:  # torch's for a connection that is gone, and for one that hangs
            with held_back():  # torchrun ends those that are left at once, but they still have something to say
                number = self._lost(error)
            self._take(number)

    # Texts

    def say(self, name: str, value: Any) -> None:
        """Put JSON under this name into the store, for all processes."""
        self._store.set(name, json.dumps(value))

    def hear(self, name: str, of: int = 0, seconds: float = HANG_SECONDS) -> Any:
        """What a process has said under this name, once it has. of: that process. Raises MuGoError if it doesn't."""
        self._wait(name, seconds, f"{self.processes.named(of)} has said nothing for {seconds:.0f} seconds")
        return json.loads(self._store.get(name))

    def same(self, what: str, value: Any) -> None:
        """Raises MuGoError unless value is the same in all processes, which all must ask for."""
        _agree(self, what, {what: value}, HANG_SECONDS)

    def _wait(self, name: str, seconds: float, problem: str) -> None:
        """Until the name is in the store; looks up now and then, so that interrupts and ends of others arrive."""
        until = time.monotonic() + seconds
        while True:
            try:
                if self._store.check([name]):
                    return
                number = self._told_to_end() if self._store.check([END]) else 0
            except RuntimeError as error:
                number = self._lost(error)
            if number:
                self._take(number)
            if time.monotonic() > until:
                raise MuGoError(f"{problem}; look for why it hangs or never began, then start all of them again")
            time.sleep(LOOK_SECONDS)

    # Ends

    def _told_to_end(self) -> int:
        """The signal that ended another process and shall end this one. Raises Elsewhere if it was something else."""
        end = json.loads(self._store.get(END))
        self.say(f"gone {self.rank}", True)
        if end["signal"]:
            return end["signal"]
        shown = self.first and end["host"] != layout.this_host()  # else it stands on this terminal already
        text = f"{self.processes.named(end['rank'])} on {end['host']}: {end['text']}" if shown else ""
        raise Elsewhere(text, end["code"])

    def _lost(self, error: Exception) -> int:
        """Another process is gone, or the store: like _told_to_end, or Elsewhere that says which one it is."""
        until = time.monotonic() + REASON_SECONDS
        try:
            self.say(f"alive {self.rank}", True)
            while time.monotonic() < until:
                if self._store.check([END]):
                    return self._told_to_end()
                time.sleep(LOOK_SECONDS)
            if self._store.add(FAILURES, 1) > 1:
                raise Elsewhere("", 1) from error
            gone = [rank for rank in range(self.count) if not self._store.check([f"alive {rank}"])]
        except RuntimeError:
            gone = [0]  # it keeps the store, where torchrun doesn't
        missing = " and ".join(self.processes.named(rank) for rank in gone) or "one of the processes"
        hung = "timed out" in str(error).lower() or "timeout" in str(error).lower()
        problem = f"made no step for {HANG_SECONDS:.0f} seconds" if hung else "ended without a word"
        text = f"{missing} {problem} (killed, or out of memory?); run the same command again to go on"
        with suppress(RuntimeError):
            self._put_end(text, 1)
        raise Elsewhere(text, 1) from error

    def _take(self, number: int) -> None:
        """End by the signal that ended another process. In the middle of a step, where it is held back, by its code."""
        signal.raise_signal(number)
        raise Elsewhere("interrupted; run the same command again to go on" if self.first else "", 128 + number)

    def _put_end(self, text: str, code: int, number: int = 0) -> None:
        self.say(END, {"rank": self.rank, "host": layout.this_host(), "text": text, "code": code, "signal": number})

    def failed(self, error: BaseException, signals: Sequence[int]) -> None:
        """Tell the others why this process ends. Raises Elsewhere if that is for another one to print.

        signals: that came to this process.
        """
        if isinstance(error, Elsewhere):
            return
        interrupted, code = isinstance(error, KeyboardInterrupt), getattr(error, "exit_code", 1)
        with suppress(RuntimeError):
            self.say(f"gone {self.rank}", True)
        with suppress(RuntimeError):  # the store is gone: this process speaks for itself
            if self._store.add(FAILURES, 1) == 1:
                text = str(error) if isinstance(error, MuGoError) else f"{type(error).__name__}: {error}"
                self._put_end(text, code, (signals or [signal.SIGINT])[0] if interrupted else 0)
                self._wait_for_others()
            elif isinstance(error, MuGoError):
                self._wait(END, REASON_SECONDS, str(error))
                self._told_to_end()
        if isinstance(error, MuGoError) and not self.first:
            where = f"{self.processes.named(self.rank)} on {layout.this_host()}"
            raise Elsewhere(f"{where}: {error}", code) from error

    def finish(self) -> None:
        """All is done and written: rank 0 says so, the others wait for it."""
        if self.first:
            self.say(DONE, True)
            self._wait_for_others()
            return
        self.hear(DONE)
        with suppress(RuntimeError):
            self.say(f"gone {self.rank}", True)

    def _wait_for_others(self) -> None:
        """A while, until they have heard what was said last: this process may be the one that keeps the store."""
        until = time.monotonic() + REASON_SECONDS
        with suppress(RuntimeError):
            while time.monotonic() < until:
                if all(self._store.check([f"gone {rank}"]) for rank in range(self.count) if rank != self.rank):
                    return
                time.sleep(LOOK_SECONDS)


@contextmanager
def process_group(processes: Processes, settings: dict[str, Any]) -> Iterator[ProcessGroup]:
    """Meet the other processes, end together with them. settings: JSON that must be the same in all of them.

    Raises MuGoError if they don't all come or don't agree, and Elsewhere if another process ends this one.
    """
    device = _device(processes)
    with noted() as signals:
        store = dist.PrefixStore(f"mugo/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", _store(processes))
        cores = max(1, available_cores() // processes.local_count)
        group = ProcessGroup(processes, store, device, cores)
        try:
            group.cores = _agree(group, "processes", _identity(device, settings), JOIN_SECONDS, cores)
            backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
            with _connecting(processes):
                dist.init_process_group(
                    backend,
                    store=dist.PrefixStore("collectives", store),
                    rank=processes.rank,
                    world_size=processes.count,
                    timeout=timedelta(seconds=HANG_SECONDS),
                )
            try:
                yield group
                group.finish()
            finally:
                _leave()
        except BaseException as error:
            with held_back():
                group.failed(error, signals)
                raise


def _leave() -> None:
    with suppress(RuntimeError):
        dist.destroy_process_group()


def _device(processes: Processes) -> torch.device:
    """Each process has a GPU of its own, if there are any."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    if processes.local_count > torch.cuda.device_count():
        raise UsageError(
            f"train: {processes.local_count} processes on a machine with {torch.cuda.device_count()} GPUs; wanted one "
            "for each; lower --nproc-per-node, or hide the GPUs by CUDA_VISIBLE_DEVICES= to train on its processor"
        )
    torch.cuda.set_device(processes.local_rank)
    return torch.device("cuda", processes.local_rank)


def _store(processes: Processes) -> Any:
    """The store, once it answers; looks up now and then, so that an interrupt arrives."""
    kept_by_torchrun = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    keeps_it = processes.first and not kept_by_torchrun
    with _connecting(processes):
        if not keeps_it:
            _wait_for_address(processes)
        return dist.TCPStore(
            processes.address,
            processes.port,
            processes.count,
            is_master=keeps_it,
            timeout=timedelta(seconds=JOIN_SECONDS),
            wait_for_workers=False,
        )


def _wait_for_address(processes: Processes) -> None:
    """Until somebody listens there: torch's own waiting can't be interrupted, and fills the terminal."""
    until = time.monotonic() + JOIN_SECONDS
    while True:
        try:
            socket.create_connection((processes.address, processes.port), timeout=LOOK_SECONDS * 20).close()
            return
        except OSError as error:
            if time.monotonic() > until:
                raise RuntimeError(f"{error.strerror or error}, for {JOIN_SECONDS:.0f} seconds") from error
        time.sleep(LOOK_SECONDS)


@contextmanager
def _connecting(processes: Processes) -> Iterator[None]:
    """Turn torch's errors into one line."""
    try:
        yield
    except RuntimeError as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise MuGoError(
            f"{processes.named(processes.rank)} can't meet the others at {processes.address}:{processes.port} "
            f"({said}); wanted an address that all machines reach and a free port; start them by {HOW}"
        ) from error


def _identity(device: torch.device, settings: dict[str, Any]) -> dict[str, Any]:
    """What processes must have in common to reach the same bits, by the name that an error gives it."""
    capability = (
        torch.cuda.get_device_name(device) if device.type == "cuda" else torch.backends.cpu.get_cpu_capability()
    )
    return {
        "version of the code": source_digest(),
        **{f"version of {name}": version for name, version in library_versions().items()},
        "processor": f"{platform.machine()} {device.type} {capability}",
        **settings,
    }


def _agree(group: ProcessGroup, name: str, mine: dict[str, Any], seconds: float, cores: int = 0) -> int:
    """The fewest cores that any process has. Raises MuGoError, printed by the first, unless all say the same."""
    processes = group.processes
    group.say(f"{name} {group.rank}", {"facts": mine, "cores": cores, "host": layout.this_host()})
    if group.first:
        said = [group.hear(f"{name} {rank}", rank, seconds) for rank in range(group.count)]
        for rank, other in enumerate(said):
            for fact in {**mine, **other["facts"]}:
                one, another = (_shown(facts.get(fact)) for facts in (mine, other["facts"]))
                if one != another:
                    raise MuGoError(
                        f"{fact} differs: {one} in {processes.named(0)}, {another} in {processes.named(rank)} on "
                        f"{other['host']}; wanted the same in all; start them alike"
                    )
        group.say(f"{name} agreed", min(one["cores"] for one in said))
    return group.hear(f"{name} agreed", 0, seconds)


def _shown(value: Any) -> str:
    return "nothing" if value is None else value if isinstance(value, str) else json.dumps(value)
