"""The GTP client against a scripted engine: good answers, each kind of fault, and no process or pipe left behind."""

from __future__ import annotations

import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.errors import UsageError
from pipeline.families.go.gtp_client import GtpEngine
from pipeline.players import engine_process as pipes
from pipeline.players.engine_process import close_engines, find_program
from pipeline.players.player import PlayerFault
from tests.players.scripted_engine import engine_command, is_alive, open_files, wait_until_gone

LONG = 60.0  # seconds: never reached


@pytest.fixture
def engines() -> Iterator[list[GtpEngine]]:
    """Engines in this list are killed in the end, even if the test fails."""
    started: list[GtpEngine] = []
    yield started
    for engine in started:
        engine.kill()


def start(engines: list[GtpEngine], *arguments: str, seconds: float = LONG) -> GtpEngine:
    engine = GtpEngine(engine_command(*arguments), "fake", seconds)
    engines.append(engine)
    return engine


def fault_of(engine: GtpEngine, command: str, seconds: float | None = None) -> PlayerFault:
    with pytest.raises(PlayerFault) as caught:
        engine.send(command, seconds)
    assert caught.value.player == "fake"
    assert str(caught.value).startswith("fake: ")
    assert "\n" not in str(caught.value)
    return caught.value


def test_conversation(engines: list[GtpEngine]) -> None:
    engine = start(engines, "play")
    engine.handshake()
    assert {"boardsize", "genmove"} <= engine.commands
    assert engine.send("boardsize 9") == ""
    assert engine.send("play black D4") == ""
    assert engine.send("genmove white").upper()[0] in "ABCDEFGHJ"
    assert engine.send("name") == "play"


def test_comments_control_characters_and_line_ends_are_stripped(engines: list[GtpEngine]) -> None:
    engine = start(engines, "ornate")
    engine.handshake()
    assert [line.strip() for line in engine.send("list_commands").splitlines()][:2] == ["protocol_version", "name"]
    assert engine.send("name") == "ornate"


def test_handshake_names_what_is_missing(engines: list[GtpEngine]) -> None:
    with pytest.raises(PlayerFault, match="doesn't know komi, genmove; wanted") as caught:
        start(engines, "poor").handshake()
    assert caught.value.kind == "protocol"
    with pytest.raises(PlayerFault, match="GTP version '1'; wanted 2") as caught:
        start(engines, "old").handshake()
    assert caught.value.kind == "protocol"


@pytest.mark.parametrize(("seconds", "least", "waited"), [(0.1, 0.4, "0.4"), (0.3, 0.2, "0.3")])
def test_a_program_that_never_begins_to_talk(
    monkeypatch: pytest.MonkeyPatch, seconds: float, least: float, waited: str
) -> None:
    monkeypatch.setattr(pipes, "START_SECONDS", least)
    engine = GtpEngine("sleep 100", "fake", seconds)
    with pytest.raises(PlayerFault) as caught:
        engine.handshake()
    assert caught.value.kind == "broken" and not is_alive(engine.pid)
    assert f"no answer to 'protocol_version' within {waited} s, so it was ended; does it speak" in str(caught.value)


def test_a_banner_is_no_gtp(engines: list[GtpEngine]) -> None:
    with pytest.raises(PlayerFault, match="'Welcome to the engine!'; wanted a line that begins with = or ") as caught:
        start(engines, "banner").handshake()
    assert caught.value.kind == "protocol"


@pytest.mark.parametrize(
    ("mode", "kind", "words"),
    [
        ("die", "broken", ["ended with status 3 while it was asked 'genmove black'", "'first line | out of memory'"]),
        ("signal", "broken", ["was ended by SIGSEGV while it was asked 'genmove black'"]),
        ("garbage", "protocol", ["answered 'genmove black' with 'I think D4 is nice'"]),
        ("wrong-id", "protocol", ["number 1, with '=0 ", "wanted =1 or ?1"]),
        ("no-id", "protocol", ["number 1, with '= ", "wanted =1 or ?1"]),
        ("endless", "protocol", ["answered 'genmove black' with more than"]),
        ("refuse-genmove", "refusal", ["refused 'genmove black': 'no idea'"]),
    ],
)
def test_faults_are_kept_apart(engines: list[GtpEngine], mode: str, kind: str, words: list[str]) -> None:
    fault = fault_of(start(engines, mode), "genmove black")
    assert fault.kind == kind
    for part in words:
        assert part in str(fault)


@pytest.mark.skipif(shutil.which("ps") is None, reason="macOS has ps")
def test_how_an_engine_ended_where_there_is_no_waitid(
    engines: list[GtpEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS with Python before 3.13."""
    monkeypatch.delattr(os, "waitid")
    monkeypatch.setattr(pipes, "GRACE_SECONDS", 1.0)
    for mode, words in (
        ("die", "ended with status 3"),
        ("signal", "was ended by SIGSEGV"),
        ("mute", "closed its pipe"),
    ):
        engine = start(engines, mode)
        assert words in str(fault_of(engine, "genmove black"))
        assert is_alive(engine.pid) == (mode == "mute")


@pytest.mark.parametrize("mode", ["hang", "half", "stubborn"])
def test_too_slow_an_engine_is_killed(engines: list[GtpEngine], mode: str) -> None:
    engine = start(engines, mode)
    engine.handshake()
    fault = fault_of(engine, "genmove black", 0.3)
    assert fault.kind == "broken" and "does it speak GTP" not in str(fault)
    assert "gave no answer to 'genmove black' within 0.3 s" in str(fault)
    assert mode == "half" or "'thinking hard'" in str(fault)
    assert not is_alive(engine.pid)
    assert fault_of(engine, "name").kind == "broken"


def test_the_limit_of_one_command_is_not_that_of_the_next(engines: list[GtpEngine]) -> None:
    engine = start(engines, "slow", "--seconds", "0.5", seconds=0.4)
    engine.send("name", LONG)
    engine.send("genmove black", LONG)
    assert fault_of(engine, "genmove black", 0.1).kind == "broken"


@pytest.mark.parametrize("seconds", [1e9, math.inf])
def test_a_limit_may_be_as_long_as_one_likes(engines: list[GtpEngine], seconds: float) -> None:
    assert start(engines, "play", seconds=seconds).send("name") == "play"


def test_an_engine_that_closes_its_pipe_but_lives(engines: list[GtpEngine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipes, "GRACE_SECONDS", 0.2)
    engine = start(engines, "mute")
    assert "closed its pipe while it was asked 'genmove black'" in str(fault_of(engine, "genmove black"))
    assert is_alive(engine.pid)
    engine.kill()
    assert not is_alive(engine.pid)


def test_an_engine_that_has_ended_before_it_is_asked(engines: list[GtpEngine]) -> None:
    engine = start(engines, "play")
    engine.send("quit")
    wait_until_gone(engine.pid)
    fault = fault_of(engine, "genmove black")
    assert fault.kind == "broken"
    assert "ended with status 0" in str(fault)


def test_a_flood_on_standard_error_blocks_nobody(engines: list[GtpEngine]) -> None:
    engine = start(engines, "flood")  # 300 KB before every answer; a pipe holds 64
    engine.handshake()
    assert engine.send("name") == "flood"
    fault = fault_of(engine, "nonsense")
    assert fault.kind == "refusal"
    assert str(fault).endswith("noise | last noise'")
    assert len(str(fault)) < 600


def test_interrupt_from_another_thread(engines: list[GtpEngine]) -> None:
    engine = start(engines, "hang")
    engine.send("name")
    threading.Timer(0.2, engine.interrupt).start()
    fault = fault_of(engine, "genmove black")
    assert (fault.kind, "was ended by SIGKILL" in str(fault)) == ("broken", True)


def test_close_leaves_no_process_and_no_pipe(engines: list[GtpEngine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipes, "GRACE_SECONDS", 0.3)
    start(engines, "play").close()  # whatever is opened once and kept is open now
    before = open_files()
    polite, stubborn = start(engines, "play"), start(engines, "stubborn")
    for engine in (polite, stubborn):
        engine.send("name")
    assert is_alive(polite.pid)
    close_engines([polite, stubborn])
    assert not is_alive(polite.pid)
    assert not is_alive(stubborn.pid)
    assert polite._process.returncode == 0, "was asked and not killed"
    assert stubborn._process.returncode == -signal.SIGKILL
    assert open_files() == before
    polite.close()  # a second time does nothing
    polite.kill()
    assert fault_of(polite, "name").kind == "broken"


@pytest.mark.parametrize("ending", ["close", "kill"])
def test_what_an_engine_started_ends_with_it(
    engines: list[GtpEngine], monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr(pipes, "GRACE_SECONDS", 0.3)
    engine = start(engines, "parent")
    engine.send("name")
    while b"\n" not in engine._stderr:
        engine._receive(0.1)
    child = int(engine._stderr.split()[1])
    assert is_alive(child)
    getattr(engine, ending)()
    wait_until_gone(child)
    assert not is_alive(engine.pid)


@pytest.mark.skipif(
    not pipes._ends_with_us(), reason="no setpriv --pdeathsig here: only the end of standard input is left"
)
def test_an_engine_ends_when_we_are_killed() -> None:
    code = (
        "import sys, time\nfrom pipeline.families.go.gtp_client import GtpEngine\n"
        "engine = GtpEngine(sys.argv[1], 'fake', 60.0)\nengine.send('name')\nprint(engine.pid, flush=True)\n"
        "engine.send('genmove black')"
    )
    ours = subprocess.Popen([sys.executable, "-c", code, engine_command("stubborn")], stdout=subprocess.PIPE, text=True)
    assert ours.stdout is not None
    with ours.stdout:
        pid = int(ours.stdout.readline())
    assert is_alive(pid)
    time.sleep(0.1)  # let it ask for the move
    ours.kill()
    ours.wait()
    wait_until_gone(pid)


def test_programs_are_found_or_missed_with_a_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="on the PATH or in"):
        find_program("gnuog --mode gtp", GtpEngine)
    with pytest.raises(UsageError, match="nowhere/engine doesn't exist"):
        find_program(f"{tmp_path}/nowhere/engine", GtpEngine)
    plain = tmp_path / "engine"
    plain.write_text("#!/bin/sh\n")
    with pytest.raises(UsageError, match="engine isn't executable; chmod"):
        find_program(str(plain), GtpEngine)
    with pytest.raises(UsageError, match="No closing quotation"):
        find_program("gnugo 'x", GtpEngine)
    with pytest.raises(UsageError, match="no command; wanted"):
        find_program("  ", GtpEngine)
    with pytest.raises(UsageError, match="no program 'gnuog'"):
        GtpEngine("gnuog", "fake", LONG)
    plain.chmod(0o755)
    assert find_program(f"{shlex.quote(str(plain))} -a 'b c' ';' '$HOME'", GtpEngine) == [
        str(plain),
        "-a",
        "b c",
        ";",
        "$HOME",
    ]
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(pipes, "GAMES_FOLDER", str(tmp_path))
    assert find_program("engine -x", GtpEngine) == [str(plain), "-x"]


def test_a_program_that_cannot_be_run_after_all(tmp_path: Path) -> None:
    broken = tmp_path / "engine"
    broken.write_text("#!/nowhere/interpreter\n")
    broken.chmod(0o755)
    before = open_files()
    with pytest.raises(PlayerFault, match=r"can't be started|ended with status 127") as caught:
        engine = GtpEngine(str(broken), "fake", LONG)
        try:
            engine.handshake()
        finally:
            engine.close()
    assert caught.value.kind == "broken"
    assert open_files() == before


def test_every_engine_of_a_process_has_its_own_pipes(engines: list[GtpEngine]) -> None:
    """An engine that inherited another's pipe would keep it open, so that the other couldn't notice our end."""
    first, second = start(engines, "play"), start(engines, "play")
    first.send("name")
    second.send("name")
    inherited = os.listdir(f"/proc/{second.pid}/fd") if os.path.isdir("/proc") else ["0", "1", "2"]
    assert len(inherited) <= 4  # and the folder's listing itself
