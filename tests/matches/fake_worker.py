"""A worker for tests that plays nothing: its games come at once, and it misbehaves as its job tells it.

job: {"mode": …, "games": which make it misbehave, "marker": a file; if given, only whoever makes that file misbehaves,
"log": a file that gets a line per process and per order}. Needs nothing but the standard library, so it starts quickly.

modes  die        kills itself when it is to play one of those games, the others of that order being finished
       alone      the same, but the other games of the order are lost with it
       stop       stops itself (SIGSTOP), as a process that hangs in the kernel
       stuck      goes on saying that it makes no step
       garbage    writes a line that is no JSON          strange   writes JSON that is no message of a worker
       foreign    writes a game that it wasn't given     slow      takes a second per order
       fail       reports those games as failed, by a player's fault
       mute       plays nothing, but ends as it should
       heir       dies like `die`, but a child of it keeps its pipes open for ten seconds
       exit       ends at once                            error     says that the job is impossible
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time


def say(message: object) -> None:
    sys.stdout.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
    sys.stdout.flush()


def beat(steps: int, live: int) -> None:
    say({"outcomes": [], "steps": [steps], "live": [live]})


def game(number: int) -> dict:
    return {
        "game": {
            "index": number, "challenger_player": number % 2, "opening_plies": 0, "moves": [number],
            "values_to_move": [None], "result_first_player": 1, "end": "played_out",
        }
    }  # fmt: skip


def failure(number: int) -> dict:
    return {
        "failure": {
            "failed": number, "attempt": 1, "kind": "refusal", "player": "somebody", "problem": "no", "moves": [1],
        }
    }  # fmt: skip


def main() -> None:
    job = json.loads(sys.stdin.readline())
    mode, guilty = job["mode"], set(job.get("games", []))

    def log(text: str) -> None:
        if "log" in job:
            with open(job["log"], "a") as file:
                file.write(f"{os.getpid()} {text}\n")

    def misbehaves() -> bool:
        if "marker" not in job:
            return True
        try:
            os.close(os.open(job["marker"], os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    log("started")
    if mode == "exit" and misbehaves():
        sys.exit(7)
    if mode == "error":
        say({"outcomes": [], "error": "the weights are gone"})
        sys.exit(1)
    steps = 1
    beat(steps, 0)
    for line in sys.stdin:
        numbers = json.loads(line)["play"]
        log(f"play {numbers}")
        steps += 1
        beat(steps, len(numbers))
        bad = [number for number in numbers if number in guilty]
        spoilt = bool(bad) and misbehaves()
        if mode == "slow":
            time.sleep(1)
        if mode == "mute":
            continue
        for number in numbers:
            if spoilt and (number in bad or mode == "alone"):
                continue
            say({"outcomes": [game(number)]})
        if not spoilt:
            continue
        if mode == "heir" and os.fork() == 0:
            time.sleep(10)
            os._exit(0)
        if mode in ("die", "alone", "heir"):
            os.kill(os.getpid(), signal.SIGKILL)
        elif mode == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif mode == "stuck":
            while True:
                beat(steps, len(bad))
                time.sleep(0.05)
        elif mode == "garbage":
            say('{"outcomes": [{"game": {"index": 3, "chal')
        elif mode == "strange":
            say([{"hello": "world"}, 7, "game", {"outcomes": [{"game": {"index": -1}}]}, None][bad[0] % 5])
        elif mode == "foreign":
            say({"outcomes": [game(max(numbers) + 1000)]})
        elif mode == "fail":
            for number in bad:
                say({"outcomes": [failure(number)]})


if __name__ == "__main__":
    main()
