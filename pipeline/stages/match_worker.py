"""A worker of a match: ``python -m pipeline.stages.match_worker``, started by a command with --workers.

Reads a job and numbers of games on its standard input, plays them in lanes, and writes what comes of them to its
standard output; the lines are described in arena/crew.py. It keeps no files, so it may be killed at any moment, and it ends by itself
when its standard input does: whoever started it is gone.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

BEAT_SECONDS = 1.0


def main() -> None:
    # What libraries print must not get between our lines: they are given the standard error instead.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    lock = threading.Lock()

    def say(message: dict[str, Any]) -> None:
        with lock:
            try:
                out.write(json.dumps(message) + "\n")
                out.flush()
            except OSError:
                os._exit(1)

    job = json.loads(sys.stdin.readline() or "null")
    if job is None:
        return
    from pipeline.errors import MuGoError

    try:
        _play(job, say)
    except MuGoError as error:
        say({"error": str(error)})
        sys.exit(1)


def _play(job: dict[str, Any], say: Any) -> None:
    from pipeline.arena.crew import ThreadCrew
    from pipeline.records.matches import MatchGame
    from pipeline.stages.contest import job_pairing

    given: list[list[int]] = []
    threading.Thread(target=_listen, args=(given,), daemon=True).start()
    crew = ThreadCrew(job_pairing(job), job["lanes"], job["rows"])

    def beat() -> None:
        while True:
            lanes = [(lane.steps, lane.live) if lane else (0, 0) for lane in crew.lanes]
            say({"beat": [steps for steps, _ in lanes], "live": [live for _, live in lanes]})
            time.sleep(BEAT_SECONDS)

    threading.Thread(target=beat, daemon=True).start()
    while True:
        while given:
            crew.give(given.pop(0))
        for outcome in crew.outcomes(0.1):
            kind = "game" if isinstance(outcome, MatchGame) else "failure"
            say({kind: outcome.model_dump(mode="json")})


def _listen(given: list[list[int]]) -> None:
    """Take orders until there is nobody to give any."""
    for line in sys.stdin:
        given.append(json.loads(line)["play"])
    os._exit(0)


if __name__ == "__main__":
    main()
