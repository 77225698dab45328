"""A fake GTP engine for tests: plays on empty points that have an empty neighbour, and misbehaves as it is told.

    python scripted_engine.py [MODE] [--at N] [--once FILE] [--log LOG] [--seconds S]

It misbehaves from its N-th genmove on (counted from 1 over the whole process), except for the modes that concern other
commands. With --once only the first process misbehaves: it makes FILE, and those that find it just play. Every line
that it receives goes to the log, after its process number. The functions at the top are for the tests that start it and
see it gone.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import signal
import subprocess
import sys
import time

COLUMNS = "ABCDEFGHJKLMNOPQRST"
FREE = ["place_free_handicap", "set_free_handicap", "fixed_handicap"]
HANDICAP = {
    **dict.fromkeys(("free", "few", "twice", "off"), FREE),
    "fixed": ["fixed_handicap"],
    "bonus": [*FREE, "final_score"],  # counts an area of black alone, less a point for each handicap stone
    "territory": [*FREE, "final_score"],
}  # by mode
COMMANDS = ["protocol_version", "name", "list_commands", "boardsize", "clear_board", "komi", "play", "genmove", "quit"]


def engine_command(*arguments: str) -> str:
    """The command line that runs this file with these arguments."""
    return shlex.join([sys.executable, "-S", "-E", os.path.abspath(__file__), *arguments])


def is_alive(pid: int) -> bool:
    """Whether that process runs; one that has ended and waits to be reaped doesn't."""
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return bool(listed) and not listed.startswith("Z")


def wait_until_gone(pid: int) -> None:
    """Fails after half a minute."""
    deadline = time.monotonic() + 30
    while is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.02)


def open_files() -> int:
    """How many file descriptors this process has."""
    return len(os.listdir("/dev/fd"))


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", nargs="?", default="play")
    parser.add_argument("--at", type=int, default=1)
    parser.add_argument("--once")
    parser.add_argument("--log")
    parser.add_argument("--seconds", type=float, default=0.2)
    return parser.parse_args()


class Engine:
    def __init__(self, mode: str, at: int, seconds: float) -> None:
        self.mode, self.at, self.seconds = mode, at, seconds
        self.size = 19
        self.stones: set[str] = set()  # captured ones too: it never plays where a stone once was
        self.num_genmoves = self.placements = self.handicap = 0
        self.komi = 0.0
        self.random = random.Random(1)

    def answer(self, words: list[str]) -> str:
        """The text of a good answer. Raises ValueError for a refusal."""
        command = words[0]
        if command == "protocol_version":
            return "1" if self.mode == "old" else "2"
        if command == "name":
            return self.mode
        if command == "list_commands":
            known = [name for name in COMMANDS if self.mode != "poor" or name not in ("komi", "genmove")]
            known += ["set_random_seed"] if self.mode == "seeded" else HANDICAP.get(self.mode, [])
            return "\n".join(known)
        if command == "boardsize":
            if self.mode == "small" and words[1] != "5":
                raise ValueError("unacceptable size")
            self.size = int(words[1])
        elif command == "clear_board":
            self.stones.clear()
        elif command == "play":
            if self.mode == "refuse-play":
                raise ValueError("illegal move")
            self.stones.add(words[2].upper())
        elif command == "genmove":
            return self.genmove()
        elif command in ("place_free_handicap", "fixed_handicap"):
            return self.place(int(words[1]))
        elif command == "komi":
            self.komi = float(words[1])
        elif command == "final_score":
            return f"B+{self.size**2 - self.komi - self.handicap - (10 if self.mode == 'territory' else 0):g}"
        elif command == "set_free_handicap":
            self.handicap = len(words) - 1
            self.stones.update(vertex.upper() for vertex in words[1:])
        elif command not in (*COMMANDS, "set_random_seed"):
            raise ValueError("unknown command")
        return ""

    def place(self, number: int) -> str:
        """Other points each time, along the second line."""
        self.placements += 1
        points = [self.name((self.placements + one) % self.size, 1) for one in range(number)]
        changed = {"few": points[1:], "twice": [points[0]] * number, "off": ["Z9"] * number}
        return " ".join(changed.get(self.mode, points))

    def genmove(self) -> str:
        self.num_genmoves += 1
        if self.num_genmoves >= self.at:
            if self.mode == "die":
                sys.stderr.write("first line\nout of\x07 memory\n")
                sys.stderr.flush()
                os._exit(3)
            elif self.mode == "signal":
                os.kill(os.getpid(), signal.SIGSEGV)
            elif self.mode in ("hang", "stubborn"):
                sys.stderr.write("thinking hard\n")
                sys.stderr.flush()
                time.sleep(600)
            elif self.mode == "mute":
                os.close(1)
                time.sleep(600)
            elif self.mode == "refuse-genmove":
                raise ValueError("no idea")
            elif self.mode == "occupied" and self.stones:
                return sorted(self.stones)[0]
            elif self.mode == "no-vertex":
                return "Z99"
            elif self.mode == "resign":
                return "Resign"
            elif self.mode == "slow":
                time.sleep(self.seconds)
        free = [
            (column, row)
            for column in range(self.size)
            for row in range(self.size)
            if self.name(column, row) not in self.stones
        ]
        open_points = [
            self.name(column, row)
            for column, row in free
            if {(column - 1, row), (column + 1, row), (column, row - 1), (column, row + 1)} & set(free)
        ]
        if not open_points:
            return "PASS"
        vertex = self.random.choice(open_points)
        self.stones.add(vertex)
        return vertex.lower()

    @staticmethod
    def name(column: int, row: int) -> str:
        return f"{COLUMNS[column]}{row + 1}"


def write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def main() -> None:
    arguments = read_arguments()
    mode = arguments.mode
    if arguments.once:
        if os.path.exists(arguments.once):
            mode = "play"
        open(arguments.once, "w").close()
    engine = Engine(mode, arguments.at, arguments.seconds)
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mode == "banner":
        write("Welcome to the engine!\n")
    if mode == "parent":  # the child keeps our pipes and outlives us, if it may
        child = subprocess.Popen(["sleep", "600"])
        sys.stderr.write(f"child {child.pid}\n")
        sys.stderr.flush()
    if mode == "deaf":
        time.sleep(600)
    while True:
        line = sys.stdin.readline()
        if not line:
            if mode == "stubborn":
                time.sleep(600)
            return
        if arguments.log:
            with open(arguments.log, "a") as log:
                log.write(f"{os.getpid()} {line}")
        number, _, rest = line.strip().partition(" ")
        if not number.isdigit():
            number, rest = "", line.strip()
        words = rest.split()
        if words[0] == "quit" and mode != "stubborn":
            write(f"={number}\n\n")
            return
        if mode == "flood":
            sys.stderr.write("noise\n" * 50_000 + "last noise\n")
            sys.stderr.flush()
        try:
            answer = f"={number} {engine.answer(words)}"
        except ValueError as error:
            answer = f"?{number} {error}"
        if words[0] == "genmove" and engine.num_genmoves >= engine.at:
            if mode == "garbage":
                answer = "I think D4 is nice"
            elif mode == "wrong-id":
                answer = answer.replace(number, str(int(number) - 1), 1)
            elif mode == "no-id":
                answer = answer.replace(number, "", 1)
            elif mode == "endless":
                while True:
                    write("=" + number + " blah\n" + "blah\n" * 10_000)
            elif mode == "half":
                write(answer[:2])
                time.sleep(600)
        if mode == "ornate":  # all that the specification lets an engine do
            answer = answer.replace(" ", "\t\x07", 1).replace("\n", " # a name\r\n# nothing else\r\n") + " # done\r"
        write(answer + ("\r\n\r\n" if mode == "ornate" else "\n\n"))


if __name__ == "__main__":
    main()
