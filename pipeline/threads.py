"""Run several pieces of work at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence


def run_together(works: Sequence[Callable[[], object]]) -> None:
    """Run each in a thread of its own and wait for all; raise the first exception that any of them raised."""
    errors: list[BaseException] = []

    def guarded(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
