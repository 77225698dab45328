"""Communication between the processes that train one model: outputs, gradients, signals, and reasons for ending.

The *store* is a table of short JSON texts, kept by torchrun, or by rank 0 if the processes were started by hand. Before
any work each process publishes its settings and versions there; if they differ, all end. Tensors go through torch's
collectives, never pickled. Sums are always made in the order of ranks, so equal runs give equal bits.

A process that ends early publishes its reason. The others notice at the next exchange, and end by the same exit code or
signal. The reason is printed once on each machine. If a process was killed, the others print which one is missing.
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
from pipeline.train.rank import HOW, Processes

JOIN_SECONDS = 300.0  # for all processes to connect: on a cluster, machines start one after the other
LOOK_SECONDS = 0.05
REASON_SECONDS = 2.0  # for a process that ends to publish why
END, FAILURES, DONE = "end", "failures", "done"  # names in the store


class ProcessGroup:
    """One process's view of the processes that train together.

    device  where this process trains         cores  that each process uses for its replicas
    """

    def __init__(self, processes: Processes, store: Any, device: torch.device, cores: int) -> None:
        self.processes, self.device, self.cores = processes, device, cores
        self.rank, self.count, self.first = processes.rank, processes.count, processes.first
        self._store = store

    # Tensors

    def gather(self, mine: Sequence[Tensor], sizes: Sequence[int], dtype: torch.dtype = torch.float32) -> list[Tensor]:
        """Tensor i, flat, of sizes[i] numbers, from process i mod count, for every i. mine: those of this process."""
        lengths = [sum(sizes[rank :: self.count]) for rank in range(self.count)]
        padded = torch.zeros(max(lengths), dtype=dtype, device=self.device)
        if mine:
            padded[: lengths[self.rank]] = torch.cat([one.flatten() for one in mine])
        found = [torch.empty_like(padded) for _ in lengths]
        self._exchange(lambda: dist.all_gather(found, padded))
        parts = [
            iter(one[:length].split(list(sizes[rank :: self.count])))
            for rank, (one, length) in enumerate(zip(found, lengths, strict=True))
        ]
        return [next(parts[index % self.count]) for index in range(len(sizes))]

    def summed(self, mine: Tensor) -> Tensor:
        """[n] the sum of all processes' tensors [n], added in the order of ranks; each process sums one part."""
        part = -(-len(mine) // self.count)
        padded = mine.new_zeros(part * self.count)
        padded[: len(mine)] = mine
        parts = torch.empty_like(padded)
        self._exchange(lambda: dist.all_to_all_single(parts, padded))
        total, *others = parts.view(self.count, part)
        for other in others:
            total += other
        return torch.cat(self.gather([total], [part] * self.count))[: len(mine)]

    def largest(self, number: int) -> int:
        found = torch.tensor([number], dtype=torch.int64)
        self._exchange(lambda: dist.all_reduce(found, dist.ReduceOp.MAX))
        return int(found.item())

    def _exchange(self, collective: Callable[[], Any]) -> None:
        try:
            collective()
        except RuntimeError as error:  # torch's for a closed or hanging connection
            with held_back():  # torchrun signals the remaining processes at once, but they must still find the reason
                number = self._peer_lost(error)
            self._end_by(number)

    # Texts

    def publish(self, name: str, value: Any) -> None:
        """Store a JSON value under this name, for all processes."""
        self._store.set(name, json.dumps(value))

    def receive(self, name: str, of: int = 0, seconds: float = HANG_SECONDS) -> Any:
        """Wait for the value that process `of` publishes under this name. Raises MuGoError if it doesn't in time."""
        self._wait(name, seconds, f"{self.processes.named(of)} hasn't answered for {seconds:.0f} seconds")
        return json.loads(self._store.get(name))

    def agree(self, name: str, mine: dict[str, Any], seconds: float = HANG_SECONDS, cores: int = 0) -> int:
        """Raises MuGoError, printed by the first, unless all facts are equal in all processes. All must call it.

        Returns the fewest cores of any process.
        """
        self.publish(f"{name} {self.rank}", {"facts": mine, "cores": cores, "host": layout.this_host()})
        if self.first:
            all_facts = [self.receive(f"{name} {rank}", rank, seconds) for rank in range(self.count)]
            for rank, other in enumerate(all_facts):
                for fact in {**mine, **other["facts"]}:
                    one, another = (_shown(facts.get(fact)) for facts in (mine, other["facts"]))
                    if one != another:
                        raise MuGoError(
                            f"{fact} differs: {one} in {self.processes.named(0)}, {another} in "
                            f"{self.processes.named(rank)} on {other['host']}; wanted the same in all; start them alike"
                        )
            self.publish(f"{name} agreed", min(one["cores"] for one in all_facts))
        return self.receive(f"{name} agreed", 0, seconds)

    def _wait(self, name: str, seconds: float, problem: str) -> None:
        """Wait until the name is in the store, but end if another process does."""

        def is_stored() -> bool:
            try:
                if self._store.check([name]):
                    return True
                number = self._published_end() if self._store.check([END]) else 0
            except RuntimeError as error:
                number = self._peer_lost(error)
            if number:
                self._end_by(number)
            return False

        if not _poll(is_stored, seconds):
            raise MuGoError(f"{problem}; find out why it hangs or never started, then start all processes again")

    # Ends

    def _published_end(self) -> int:
        """The signal that ended another process, to end this one too. Raises Elsewhere for any other reason."""
        end = json.loads(self._store.get(END))
        self._publish_gone()
        if end["signal"]:
            return end["signal"]
        shown = self.first and end["host"] != layout.this_host()  # otherwise it is on this terminal already
        text = f"{self.processes.named(end['rank'])} on {end['host']}: {end['text']}" if shown else ""
        raise Elsewhere(text, end["code"])

    def _peer_lost(self, error: Exception) -> int:
        """Find out why another process, or the store, is gone: as _published_end, or Elsewhere naming the process."""
        try:
            self.publish(f"alive {self.rank}", True)
            if _poll(lambda: self._store.check([END]), REASON_SECONDS):
                return self._published_end()
            if self._store.add(FAILURES, 1) > 1:
                raise Elsewhere("", 1) from error
            gone = [rank for rank in range(self.count) if not self._store.check([f"alive {rank}"])]
        except RuntimeError:
            gone = [0]  # it keeps the store unless torchrun does
        missing = " and ".join(self.processes.named(rank) for rank in gone) or "one of the processes"
        hung = "timed out" in str(error).lower() or "timeout" in str(error).lower()
        problem = f"made no step for {HANG_SECONDS:.0f} seconds" if hung else "ended without giving a reason"
        text = f"{missing} {problem} (killed, or out of memory?); run the same command again to continue"
        with suppress(RuntimeError):
            self._publish_end(text, 1)
        raise Elsewhere(text, 1) from error

    def _end_by(self, number: int) -> None:
        """End by the signal that ended another process; during a step, which holds signals back, by its exit code."""
        signal.raise_signal(number)
        raise Elsewhere("interrupted; run the same command again to continue" if self.first else "", 128 + number)

    def _publish_end(self, text: str, code: int, number: int = 0) -> None:
        end = {"rank": self.rank, "host": layout.this_host(), "text": text, "code": code, "signal": number}
        self.publish(END, end)

    def _publish_gone(self) -> None:
        with suppress(RuntimeError):
            self.publish(f"gone {self.rank}", True)

    def failed(self, error: BaseException, signals: Sequence[int]) -> None:
        """Publish why this process ends. Raises Elsewhere if another process prints the reason.

        signals: those that this process received.
        """
        if isinstance(error, Elsewhere):
            return
        interrupted, code = isinstance(error, KeyboardInterrupt), getattr(error, "exit_code", 1)
        self._publish_gone()
        with suppress(RuntimeError):  # without the store this process prints its own reason
            if self._store.add(FAILURES, 1) == 1:
                text = str(error) if isinstance(error, MuGoError) else f"{type(error).__name__}: {error}"
                self._publish_end(text, code, (signals or [signal.SIGINT])[0] if interrupted else 0)
                self._wait_for_others()
            elif isinstance(error, MuGoError):
                self._wait(END, REASON_SECONDS, str(error))
                self._published_end()
        if isinstance(error, MuGoError) and not self.first:
            where = f"{self.processes.named(self.rank)} on {layout.this_host()}"
            raise Elsewhere(f"{where}: {error}", code) from error

    def finish(self) -> None:
        """Wait until rank 0 has written everything."""
        if self.first:
            self.publish(DONE, True)
            self._wait_for_others()
            return
        self.receive(DONE)
        self._publish_gone()

    def _wait_for_others(self) -> None:
        """Give the others time to read the store, which may end with this process."""
        others = [f"gone {rank}" for rank in range(self.count) if rank != self.rank]
        with suppress(RuntimeError):
            _poll(lambda: self._store.check(others), REASON_SECONDS)


def _poll(is_done: Callable[[], bool], seconds: float) -> bool:
    """Ask until it is done, at most this long; returns whether it is. Unlike torch's waiting, it can be interrupted."""
    until = time.monotonic() + seconds
    while not (done := is_done()) and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
    return done


@contextmanager
def process_group(processes: Processes, settings: dict[str, Any]) -> Iterator[ProcessGroup]:
    """Connect to the other processes, and end together with them. settings: JSON that must be the same in all.

    Raises MuGoError if not all connect or their settings differ, and Elsewhere if another process ends this one.
    """
    device = _device(processes)
    with noted() as signals:
        store = dist.PrefixStore(f"mugo/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", _store(processes))
        cores = max(1, available_cores() // processes.local_count)
        group = ProcessGroup(processes, store, device, cores)
        try:
            group.cores = group.agree("processes", _identity(device, settings), JOIN_SECONDS, cores)
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
                with suppress(RuntimeError):
                    dist.destroy_process_group()
        except BaseException as error:
            with held_back():
                group.failed(error, signals)
                raise


def _device(processes: Processes) -> torch.device:
    """A GPU for each process if there are any."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    if processes.local_count > torch.cuda.device_count():
        raise UsageError(
            f"train: {processes.local_count} processes on a machine with {torch.cuda.device_count()} GPUs; wanted a "
            "GPU for each; lower --nproc-per-node, or hide the GPUs by CUDA_VISIBLE_DEVICES= to train on the CPU"
        )
    torch.cuda.set_device(processes.local_rank)
    return torch.device("cuda", processes.local_rank)


def _store(processes: Processes) -> Any:
    """Create the store or connect to it."""
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
    """Wait until the store listens: torch's own waiting fills the terminal."""
    problem = ""

    def listens() -> bool:
        nonlocal problem
        try:
            socket.create_connection((processes.address, processes.port), timeout=LOOK_SECONDS * 20).close()
        except OSError as error:
            problem = error.strerror or str(error)
            return False
        return True

    if not _poll(listens, JOIN_SECONDS):
        raise RuntimeError(f"{problem}, for {JOIN_SECONDS:.0f} seconds")


@contextmanager
def _connecting(processes: Processes) -> Iterator[None]:
    """Turn torch's errors into a one-line MuGoError."""
    try:
        yield
    except RuntimeError as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise MuGoError(
            f"{processes.named(processes.rank)} can't connect to the others at {processes.address}:{processes.port} "
            f"({said}); wanted an address that all machines can reach and a free port; start them by {HOW}"
        ) from error


def _identity(device: torch.device, settings: dict[str, Any]) -> dict[str, Any]:
    """What must be equal in all processes for equal bits, by its name in error messages."""
    cpu = torch.backends.cpu.get_cpu_capability()
    capability = torch.cuda.get_device_name(device) if device.type == "cuda" else cpu
    return {
        "version of the code": source_digest(),
        **{f"version of {name}": version for name, version in library_versions().items()},
        "processor": f"{platform.machine()} {device.type} {capability}",
        **settings,
    }


def _shown(value: Any) -> str:
    return "nothing" if value is None else value if isinstance(value, str) else json.dumps(value)
