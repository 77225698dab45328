"""Opponents behind an API, against a server of this process that speaks the protocol."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textarena", reason="text games need the extra text")

from pipeline.errors import UsageError
from pipeline.evaluate.command import EvaluateSummary, evaluate
from pipeline.evaluate.config import EvaluateConfig
from pipeline.families.text import chat_api
from pipeline.families.text.chat_api import Access, ChatApi
from pipeline.families.text.player_kind import parse_options
from pipeline.players.player import PlayerFault, PlayerUnavailable
from pipeline.presets import make_config
from pipeline.ratings.config import TournamentConfig
from pipeline.ratings.tournament import tournament
from pipeline.selfplay.command import SelfplaySummary, selfplay
from pipeline.selfplay.config import SelfplayConfig
from tests.chaos.workshop import Workshop
from tests.families.text.reinforce.helpers import first_model
from tests.helpers import Heard

KEY = "sk-secret-0123456789"
GAME = "text:KuhnPoker-v0,show=round"
Reply = tuple[int, Any, dict[str, str]]
Answer = Reply | Callable[[BaseHTTPRequestHandler], None]


def saying(text: str | None) -> Reply:
    return 200, {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}, {}


def last_listed(body: dict[str, Any]) -> Reply:
    """A legal move: the last action that the observation lists."""
    return saying("I play [" + body["messages"][-1]["content"].rpartition("[")[2].partition("]")[0] + "]")


class Server:
    """replies: one after the other, then `always`; a function answers by itself.

    asked: (path, headers, body) of each request; open, most_open: requests in work, now and at most; left: how many
    clients hung up on held()
    """

    def __init__(self) -> None:
        self.replies: list[Answer] = []
        self.always: Callable[[dict[str, Any]], Answer] = last_listed
        self.asked: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.open = self.most_open = self.left = 0
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer.lock:
                    outer.asked.append((self.path, dict(self.headers), body))
                    outer.open += 1
                    outer.most_open = max(outer.open, outer.most_open)
                    first = outer.replies.pop(0) if outer.replies else None
                answer = first or outer.always(body)
                with outer.lock:
                    outer.open -= 1
                if callable(answer):
                    answer(self)
                    return
                status, said, headers = answer
                data = said if isinstance(said, bytes) else json.dumps(said).encode()
                with suppress(OSError):  # the client may have hung up
                    self.begin(status, len(data), headers)
                    self.wfile.write(data)

            def begin(self, status: int, length: int, headers: dict[str, str]) -> None:
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(length)}.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *args: object) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self.http.server_port}/v1"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def held(self, handler: BaseHTTPRequestHandler) -> None:
        """No answer: wait until the client hangs up."""
        with suppress(OSError):
            handler.connection.settimeout(20)
            if not handler.connection.recv(1):
                self.left += 1

    @property
    def environment(self) -> dict[str, str]:
        return {"OPENAI_BASE_URL": self.base, "OPENAI_API_KEY": KEY}


def dropped(handler: BaseHTTPRequestHandler) -> None:
    """Hang up without an answer."""


def cut(handler: BaseHTTPRequestHandler) -> None:
    """Hang up within an answer."""
    handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"choices": [{"mess')


def trickled(handler: BaseHTTPRequestHandler) -> None:
    """An answer that never ends."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    with suppress(OSError):
        for _ in range(200):
            handler.wfile.write(b" ")
            time.sleep(0.02)


def until(condition: Callable[[], bool]) -> None:
    before = time.monotonic()
    while not condition():
        assert time.monotonic() - before < 10
        time.sleep(0.01)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    made = Server()
    monkeypatch.setenv("OPENAI_BASE_URL", made.base + "/")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(chat_api, "FIRST_PAUSE", 0.01)
    yield made
    made.http.shutdown()


def ask(server: Server, seconds: float = 5.0) -> str:
    access = Access.of("test", ("OPENAI_BASE_URL", "OPENAI_API_KEY"), server.base, KEY)
    return ChatApi(access, "one", "m", seconds, 1).ask([{"role": "user", "content": "[a]"}], 9, 0).result(20)


@pytest.mark.parametrize(
    "failure",
    [(429, {}, {"Retry-After": "0.1"}), (500, b"", {}), (503, b"", {}), (200, b"<html>", {}),
     (200, {"choices": []}, {}),
     (200, {"choices": [{"message": {"content": "I pl"}, "finish_reason": "error"}]}, {}),
     (200, {"choices": [{"message": {"content": None}, "error": {"code": 502, "message": "overloaded"}}]}, {}),
     (200, {"error": {"code": 502, "message": "overloaded"}}, {}), dropped, cut],
)  # fmt: skip
def test_passing_failures_are_tried_again(server: Server, failure: Answer) -> None:
    server.replies = [failure, failure]
    assert ask(server) == "I play [a]" and len(server.asked) == 3


def test_lasting_failures_end_after_some_attempts(server: Server) -> None:
    server.always = lambda body: (503, KEY.encode(), {})
    with pytest.raises(PlayerFault, match=r"answered 503 .*attempt 6") as found:
        ask(server)
    assert len(server.asked) == 6 and KEY not in str(found.value)


@pytest.mark.parametrize("status", [401, 402, 403, 404, 301])
def test_what_every_request_would_meet_is_not_tried_again(server: Server, status: int) -> None:
    server.always = lambda body: (status, {"error": {"message": f"no {KEY}"}}, {})
    with pytest.raises(PlayerUnavailable, match=f"answered {status}") as found:
        ask(server)
    assert len(server.asked) == 1 and KEY not in str(found.value)


def test_one_forbidden_prompt_ends_one_game(server: Server) -> None:
    """OpenRouter's moderation answers 403, too."""
    access = Access.of("test", ("OPENAI_BASE_URL", "OPENAI_API_KEY"), server.base, KEY)
    api = ChatApi(access, "one", "m", 5, 1)
    messages = [{"role": "user", "content": "[a]"}]
    assert api.ask(messages, 9, 0).result(20) == "I play [a]"
    server.replies = [(403, {"error": {"message": "flagged"}}, {})]
    with pytest.raises(PlayerFault, match=r"answered 403 .*flagged"):
        api.ask(messages, 9, 0).result(20)
    assert api.ask(messages, 9, 0).result(20) == "I play [a]" and len(server.asked) == 3


def test_no_part_of_the_key_is_quoted(server: Server) -> None:
    server.always = lambda body: (400, {"error": {"message": "x" * 190 + KEY}}, {})
    with pytest.raises(PlayerFault, match="xxx…") as found:
        ask(server)
    assert KEY[:4] not in str(found.value)


def test_a_short_key_is_no_secret_and_hides_no_words(server: Server) -> None:
    server.replies = [(400, {"error": {"message": "Use 'max_completion_tokens' instead."}}, {})]
    access = Access.of("test", ("OPENAI_BASE_URL", "OPENAI_API_KEY"), server.base, "tokens")
    api = ChatApi(access, "one", "m", 5.0, 1)
    assert api.ask([{"role": "user", "content": "[a]"}], 9, 0).result(20) == "I play [a]"


def test_an_empty_answer_is_a_text(server: Server) -> None:
    server.replies = [saying(None)]
    assert ask(server) == ""


def test_newer_models_get_the_newer_limit(server: Server) -> None:
    server.replies = [(400, {"error": {"message": "Use 'max_completion_tokens' instead."}}, {})]
    assert ask(server) == "I play [a]"
    assert [body.get("max_tokens", body.get("max_completion_tokens")) for *_, body in server.asked] == [9, 9]
    assert "max_completion_tokens" in server.asked[1][2]


@pytest.mark.parametrize("slow", ["held", "trickled"])
def test_a_late_answer_is_a_failure(server: Server, slow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_api, "RETRIES", 1)
    server.always = lambda body: server.held if slow == "held" else trickled
    before = time.monotonic()
    with pytest.raises(PlayerFault, match="no answer in 0 seconds, attempt 2"):
        ask(server, seconds=0.2)
    assert len(server.asked) == 2 and time.monotonic() - before < 2


def test_no_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_api, "RETRIES", 1)
    server.http.shutdown()
    server.http.server_close()
    with pytest.raises(PlayerFault, match="Connection refused, attempt 2"):
        ask(server)


def test_a_pause_that_is_asked_for_is_kept(server: Server) -> None:
    server.replies = [(429, {}, {"Retry-After": "0.3"})]
    before = time.monotonic()
    ask(server)
    assert time.monotonic() - before >= 0.3
    server.replies = [(429, {}, {"Retry-After": "9000"})]
    with pytest.raises(PlayerFault, match="answered 429"):
        ask(server)


def asked_for(model: ChatApi, urgencies: list[int]) -> list[Future[str]]:
    return [model.ask([{"role": "user", "content": f"[{urgency}]"}], 9, urgency) for urgency in urgencies]


def model_of(server: Server, most: int) -> ChatApi:
    access = Access.of("test", ("OPENAI_BASE_URL", "OPENAI_API_KEY"), server.base, KEY)
    return ChatApi(access, "one", "m", 5.0, most)


def test_several_requests_at_once(server: Server) -> None:
    together = threading.Barrier(3)

    def reply(body: dict[str, Any]) -> Reply:
        together.wait(10)
        return last_listed(body)

    server.always = reply
    found = [answer.result(20) for answer in asked_for(model_of(server, 3), list(range(9)))]
    assert found == [f"I play [{number}]" for number in range(9)] and server.most_open == 3


def test_the_most_urgent_is_sent_first(server: Server) -> None:
    go_on = threading.Event()

    def first(handler: BaseHTTPRequestHandler) -> None:
        go_on.wait(10)

    server.replies = [first]  # then hangs up: the first one is sent again
    model = model_of(server, 1)
    sent = asked_for(model, [5])
    until(lambda: len(server.asked) == 1)
    sent += asked_for(model, [0, -7, -2])
    go_on.set()
    for answer in sent:
        answer.result(20)
    assert [body["messages"][0]["content"] for *_, body in server.asked] == ["[5]", "[5]", "[-7]", "[-2]", "[0]"]


def test_what_is_not_wanted_any_more_is_hung_up_on(server: Server) -> None:
    server.always = lambda body: server.held
    (answer,) = asked_for(model_of(server, 1), [0])
    until(lambda: len(server.asked) == 1)
    answer.cancel()
    until(lambda: server.left == 1)
    assert len(server.asked) == 1


# Matches


def match(folder: Path, player: str = "openai:m", **more: Any) -> EvaluateSummary:
    config = {"game": GAME, "white_model": "random", "black_model": player, "games": 8, "output_dir": folder}
    return evaluate(EvaluateConfig(promote=False, **{**config, **more}))


def no_key(folder: Path) -> bool:
    return not any(KEY.encode() in one.read_bytes() for one in folder.rglob("*") if one.is_file())


def test_a_match_through_the_api(server: Server, tmp_path: Path) -> None:
    player = "openai:some/model temperature=0 requests=4"
    assert match(tmp_path, player).games_played == 8
    path, headers, body = server.asked[0]
    assert path == "/v1/chat/completions" and headers["Authorization"] == f"Bearer {KEY}"
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("some/model", 0, 1024)
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    records = [one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()]
    assert any(player.encode() in one for one in records) and no_key(tmp_path)


def test_a_failing_request_counts_for_neither_side(server: Server, tmp_path: Path) -> None:
    """One answer in a game is refused once: the game is played again. One that is always refused is given up."""
    server.replies = [(400, {"error": {"message": "too long"}}, {})]
    once = match(tmp_path / "once", parallel_games=1, threads=1)
    assert (once.games_played, once.failed) == (8, 0)
    first = server.asked[0][2]["messages"]
    server.always = lambda body: (400, b"", {}) if body["messages"] == first else last_listed(body)
    summary = match(tmp_path / "always", parallel_games=1, threads=1)
    assert 0 < summary.failed < 8 and summary.games_played == 8 - summary.failed


def test_an_interrupted_match_hangs_up_and_continues(server: Server, tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> Answer:
        if len(server.asked) < 20:
            return last_listed(body)
        if len(server.asked) == 20:
            os.kill(os.getpid(), signal.SIGINT)
        return server.held

    server.always = reply
    with pytest.raises(KeyboardInterrupt):
        match(tmp_path, games=16, parallel_games=4, threads=1)
    until(lambda: server.left > 0)
    server.always, asked = last_listed, len(server.asked)
    assert match(tmp_path, games=16, parallel_games=4, threads=1).games_played == 16
    again, asked = len(server.asked) - asked, len(server.asked)
    match(tmp_path / "undisturbed", games=16, parallel_games=4, threads=1)
    assert again < len(server.asked) - asked  # finished games aren't played again


def test_a_killed_match_continues(server: Server, workshop: Workshop, tmp_path: Path) -> None:
    command = ["evaluate", "--game", GAME, "--white-model", "random", "--black-model", "openai:m", "--games", "16",
               "--output-dir", "m", "--no-promote", "--parallel-games", "2", "--threads", "1"]  # fmt: skip
    server.always = lambda body: last_listed(body) if len(server.asked) < 30 else server.held
    running = workshop.start(command, tmp_path, environment=server.environment)
    until(lambda: len(server.asked) >= 30)
    running.signal(signal.SIGKILL)
    assert running.wait().code == -signal.SIGKILL
    until(lambda: server.left > 0)
    server.always, asked = last_listed, len(server.asked)
    done = workshop.run(command, tmp_path, environment=server.environment)
    assert done.code == 0 and "16 games" in done.said and KEY not in done.said
    again, asked = len(server.asked) - asked, len(server.asked)
    match(tmp_path / "undisturbed", games=16, parallel_games=2, threads=1)
    assert again < len(server.asked) - asked and no_key(tmp_path)  # finished games aren't played again


def test_a_refused_key_ends_a_command_with_one_line(server: Server, workshop: Workshop, tmp_path: Path) -> None:
    server.always = lambda body: (401, {"error": {"message": f"bad key {KEY}"}}, {})
    command = ["evaluate", "--game", GAME, "--white-model", "random", "--black-model", "openai:m", "--games", "8",
               "--output-dir", "m", "--no-promote"]  # fmt: skip
    done = workshop.run(command, tmp_path, environment=server.environment)
    lines = [line for line in done.said.splitlines() if "openai-m" in line]
    assert done.code == 1 and len(server.asked) <= 8
    assert lines[-1].startswith("mugo evaluate: openai-m: 127.0.0.1") and "check OPENAI_API_KEY" in lines[-1]
    assert KEY not in done.said and no_key(tmp_path)


def test_a_refused_key_ends_the_match(server: Server, tmp_path: Path) -> None:
    server.always = lambda body: (401, b"", {})
    with pytest.raises(PlayerUnavailable, match="it doesn't accept the key; check OPENAI_API_KEY") as found:
        match(tmp_path)
    assert found.value.exit_code == 1 and len(server.asked) <= 8


@pytest.mark.parametrize("missing", ["OPENAI_BASE_URL", "OPENAI_API_KEY"])
def test_without_address_or_key_nothing_begins(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str
) -> None:
    monkeypatch.delenv(missing)
    with pytest.raises(UsageError, match=f"the environment has no {missing}"):
        match(tmp_path)
    assert not list(tmp_path.iterdir()) and not server.asked


def test_other_games_are_refused(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it plays text games only, not connect4"):
        match(tmp_path, game="connect4")


def test_a_tournament(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    players = ["random", "heuristic", "one=openai:m"]
    found = tournament(TournamentConfig(game=GAME, player=players, games=12, pairs_per_round=2, threads=1))
    assert found.games == 12 and server.asked and no_key(tmp_path)


# Self-play


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers", reason="language models need the extra text")
    return first_model(tmp_path_factory.mktemp("model"))


def played(model: Path, folder: Path, opponents: str, **more: Any) -> SelfplaySummary:
    return selfplay(SelfplayConfig(network=model, output_dir=folder, seed=1, threads=1, opponents=opponents, **more))


def test_selfplay_meets_it(server: Server, model: Path, tmp_path: Path) -> None:
    server.always = last_listed
    found = played(model, tmp_path, "openai:m=30,mirror=70", games=16).opponents
    assert 0 < found["openai-m"]["games"] < 16 and server.asked and no_key(tmp_path)
    assert sum(met["games"] for met in found.values()) == 16


def test_no_game_of_selfplay_waits_for_another(server: Server, model: Path, tmp_path: Path) -> None:
    """The first requests are answered only after others have been: all games are asked for at once."""
    together = threading.Barrier(4)

    def reply(body: dict[str, Any]) -> Reply:
        with suppress(threading.BrokenBarrierError):
            together.wait(1 if server.most_open < 4 else 0.001)
        return last_listed(body)

    server.always = reply
    played(model, tmp_path, "openai:m requests=4=1", games=8)
    assert server.most_open == 4


def test_games_of_selfplay_that_fail_are_dropped(server: Server, model: Path, tmp_path: Path) -> None:
    server.replies = [(400, b"", {})]
    heard = Heard()
    config = SelfplayConfig(
        network=model, output_dir=tmp_path, seed=1, threads=1, opponents="openai:m=1", games=6, parallel_games=2
    )
    played = selfplay(config, heard)
    assert (played.games, played.dropped) == (5, 1)
    assert len(heard.warned) == 1 and "counts for nobody: openai-m: 127.0.0.1" in heard.warned[0]


def test_a_refused_key_ends_selfplay(server: Server, model: Path, tmp_path: Path) -> None:
    server.always = lambda body: (403, b"", {})
    with pytest.raises(PlayerUnavailable, match="the key may not use model 'm'") as found:
        played(model, tmp_path, "openai:m=1", games=6)
    assert found.value.exit_code == 1 and KEY not in str(found.value) and no_key(tmp_path)


def test_selfplay_names_what_is_missing(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(UsageError, match="the environment has no OPENAI_BASE_URL"):
        played(model, tmp_path, "openai:m=1", games=6)
    with pytest.raises(UsageError, match="engines don't take part in self-play"):
        played(model, tmp_path, "gtp:gnugo=1", games=6)


def test_a_preset_cannot_name_it(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("selfplay:\n  opponents: mirror=70,openai:m=30\n")
    with pytest.raises(UsageError, match="--opponents would run the engine 'openai:m=30'; wanted --opponents on the"):
        make_config(SelfplayConfig, "selfplay", str(path))
    given = "mirror=1,openai:m=1"
    assert make_config(SelfplayConfig, "selfplay", str(path), opponents=given).opponents == given
    path.write_text("evaluate:\n  black_model: openai:m\n")
    with pytest.raises(UsageError, match="wanted --allow-engines to run it"):
        make_config(EvaluateConfig, "evaluate", str(path))


# Addresses and options


@pytest.mark.parametrize(
    ("base", "completed", "host"),
    [
        ("http://h", "http://h/v1", "h"),
        ("http://[::1]:8000/v1/", "http://[::1]:8000/v1", "[::1]:8000"),
        ("https://h/api/v1/chat/completions", "https://h/api/v1", "h"),
    ],
)
def test_addresses(base: str, completed: str, host: str) -> None:
    found = Access.of("test", ("U", "K"), base, KEY)
    assert (found.address, found.host) == (completed + "/chat/completions", host) and KEY not in repr(found)


def test_options_make_other_names() -> None:
    names = [parse_options("s", text).player_name for text in ("m", "a/m", "m temperature=0", "m requests=2")]
    assert names[0] == names[3] == "openai-m" and len(set(names)) == 3
    with pytest.raises(UsageError, match="temperature 'x'"):
        parse_options("openai:m temperature=x", "m temperature=x")
