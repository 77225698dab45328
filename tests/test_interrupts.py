"""Signals that wait, and signals that are noted."""

import os
import signal
import threading

import pytest

from pipeline.interrupts import held_back, noted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_until_it_is_delivered(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    handled: list[int] = []
    before = signal.signal(number, lambda *args: handled.append(args[0]))
    try:
        with held_back() as held:
            assert held.number == 0
            held()  # nothing to deliver
            os.kill(os.getpid(), number)
            assert (held.number, handled) == (number, [])
            held()
            assert (held.number, handled) == (0, [number])
            os.kill(os.getpid(), number)
        assert handled == [number, number]
    finally:
        signal.signal(number, before)


def test_an_error_in_the_block_restores_the_handlers_and_drops_the_signal() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ValueError, match="mine"), held_back():
        os.kill(os.getpid(), signal.SIGINT)
        raise ValueError("mine")
    assert signal.getsignal(signal.SIGINT) is before


def test_noted_signals_are_handled_as_ever() -> None:
    before = signal.getsignal(signal.SIGINT)
    with noted() as numbers, pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    assert numbers == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is before


def test_in_other_threads_nothing_is_changed() -> None:
    before, seen = signal.getsignal(signal.SIGINT), []

    def run() -> None:
        with held_back() as held, noted() as numbers:
            found = (held.number, numbers, signal.getsignal(signal.SIGINT))
        seen.append(found)  # it got here

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [(0, [], before)]
