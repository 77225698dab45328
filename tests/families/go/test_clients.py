"""Real clients of the engine and of its records: Sabaki's GTP controller and its reader and writer of SGF, and
KaTrain's engine class. Skipped where they aren't installed.

npm install --global @sabaki/gtp @sabaki/sgf            pip install katrain
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.games.records import PlayedGame, RecordText
from pipeline.games.sgf import SgfFormat, read_sgf
from pipeline.games.specs import parse_game
from pipeline.games.testing import random_moves
from tests.helpers import make_model

ROOT = Path(__file__).parents[3]
NO_HURRY = 60.0

SABAKI = """
const {Controller, ControllerStateTracker} = require('@sabaki/gtp')

async function main() {
  const [program, ...args] = process.argv.slice(1)
  const engine = new Controller(program, args), tracker = new ControllerStateTracker(engine)
  const said = {}, ask = async (name, ...args) => {
    const {content, error} = await engine.sendCommand({id: 7, name, args})
    return (error ? '? ' : '= ') + content
  }
  const analyse = (name, ...args) => new Promise(resolve => {
    const lines = []
    engine.sendCommand({name, args}, ({line}) => {
      if (line.startsWith('info') && lines.push(line) === 2) engine.sendCommand({name: 'name'})
    }).then(() => resolve(lines))
  })
  const move = (colour, vertex) => ({name: 'play', args: [colour, vertex]})

  engine.start()
  said.name = await ask('name')
  said.analyses = await tracker.knowsCommand('kata-analyze')
  await tracker.sync({komi: 7.5, boardsize: [5, 5], history: [move('B', 'C3'), move('W', 'B2')]})
  said.move = await ask('genmove', 'B')
  await tracker.sync({komi: 7.5, boardsize: [5, 5], history: [move('B', 'C3')]})
  said.board = await ask('showboard')
  said.free = await analyse('kata-analyze', 'W', '5')
  said.few = await analyse('kata-analyze', 'W', '5', 'allow', 'W', 'A1,E5', '1')
  await tracker.sync({history: [move('B', 'C3'), move('W', 'PASS'), move('B', 'PASS')]})
  said.over = await analyse('lz-analyze', 'W', '5')
  said.unknown = await ask('fly')
  said.illegal = await ask('play', 'B', 'C3')
  try { await tracker.sync({komi: 6.5}) } catch (error) { said.komi = error.message }
  const begun = Date.now()
  await engine.stop(30000)
  said.seconds = (Date.now() - begun) / 1000
  console.log(JSON.stringify(said))
}

main()
"""


# Reads records, and writes them again: the properties along each main line, and the text.
SABAKIS_RECORDS = """
const sgf = require('@sabaki/sgf')
const line = node => [node.data, ...(node.children.length ? line(node.children[0]) : [])]
const texts = JSON.parse(require('fs').readFileSync(0, 'utf8'))
console.log(JSON.stringify(texts.map(text => sgf.parse(text)).map(roots => [line(roots[0]), sgf.stringify(roots)])))
"""


def node_with(package: str) -> tuple[str, dict[str, str]]:
    """Node, and the environment in which it finds a package; skips the test without them."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("needs node and npm")
    folder = subprocess.run([npm, "root", "--global"], capture_output=True, text=True).stdout.strip()
    env = {**os.environ, "NODE_PATH": os.pathsep.join(filter(None, [os.environ.get("NODE_PATH"), folder]))}
    if subprocess.run([node, "-e", f"require('{package}')"], env=env, capture_output=True).returncode:
        pytest.skip(f"needs {package}: npm install --global {package}")
    return node, env


def command(model: Path, *more: str) -> list[str]:
    return [sys.executable, str(ROOT / "main.py"), "engine", "--model", str(model), "--readouts", "16",
            "--backend", "torch", *more]  # fmt: skip


def test_sabakis_controller(tmp_path):
    node, env = node_with("@sabaki/gtp")
    model = make_model(tmp_path, spec="go:5")
    done = subprocess.run([node, "-e", SABAKI, *command(model)], env=env, capture_output=True, timeout=2 * NO_HURRY)
    assert done.returncode == 0, done.stderr.decode()
    said = json.loads(done.stdout)
    assert said["name"] == "= MuGo" and said["analyses"] is True
    assert said["move"].startswith("= ") and said["board"].count("X") >= 1
    moves = {line.split()[2] for line in said["few"]}
    assert moves <= {"A1", "E5"} and all("move" in line for line in (*said["free"], *said["over"]))
    assert said["unknown"] == "? unknown command" and said["illegal"] == "? illegal move"
    assert said["komi"] == "Komi is not supported by engine"
    assert said["seconds"] < 5, "Sabaki kills an engine that takes longer than three seconds"


def test_sabakis_records():
    """It reads what we write, and we read what it writes."""
    node, env = node_with("@sabaki/sgf")
    text = RecordText("a ] \\ b [c]", "漢:字 (;", event="ł ½", comment="see [1] and ;B[aa]\\ (x)")
    games = [parse_game(spec) for spec in ("go:5", "go:9,komi=7", "go:any,size=13,komi=0.5")]
    played = []
    for seed, game in enumerate(games):
        moves = random_moves(game, seed)
        start = game.position([1, 9], [], 1) if seed == 1 else None
        moves = [game.pass_action, *range(20, 60, 7)] if seed == 1 else moves
        played.append(PlayedGame(moves, text, start=start, comments=[f"{move} [a] \\]" for move in moves]))
    texts = [SgfFormat().write(game, one) for game, one in zip(games, played, strict=True)]
    told = {"input": json.dumps(texts), "capture_output": True, "text": True}
    done = subprocess.run([node, "-e", SABAKIS_RECORDS], env=env, **told)
    assert done.returncode == 0, done.stderr
    for game, one, ours, (nodes, theirs) in zip(games, played, texts, json.loads(done.stdout), strict=True):
        root, record = nodes[0], read_sgf(ours.encode(), game)
        assert (root["PB"], root["PW"], root["EV"]) == ([text.first], [text.second], [text.event])
        assert root["C"] == [text.comment] and root.get("AB") == (["ba", "ab"] if one.start is not None else None)
        assert [node["C"][0] for node in nodes[1:]] == one.comments and len(record.moves) == len(one.moves)
        again = read_sgf(theirs.encode(), game)
        assert (again.black, again.white, again.komi, again.notes) == (text.first, text.second, game.komi, ())
        assert again.moves == record.moves and str(again.start) == str(record.start)
        found = []
        for node in nodes[1:]:
            (point,) = node.get("B") or node["W"]
            found.append("abcdefghijklm".index(point[1]) * game.size + "abcdefghijklm".index(point[0]) if point else -1)
        assert [game.pass_action if action < 0 else action for action in found] == one.moves
        assert one.moves == [action for _, action in again.moves]


def test_katrains_engine(tmp_path, monkeypatch):
    for name, value in {"KIVY_NO_ARGS": "1", "KIVY_NO_CONSOLELOG": "1", "KIVY_HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    engine = pytest.importorskip("katrain.core.engine", reason="needs KaTrain: pip install katrain")
    from katrain.core.game_node import GameNode
    from pysgf import Move

    heard: list[str] = []
    katrain = SimpleNamespace(log=lambda text, level=0: heard.append(f"{level} {text}"), update_state=lambda: None)
    config = {
        "backend": "custom",
        # exec: KaTrain ends the shell that it starts this in
        "altcommand": "exec " + shlex.join(command(make_model(tmp_path, spec="go:9"), "--protocol", "analysis")),
        "max_visits": 40,
        "fast_visits": 8,
        "max_time": 20.0,
        "wide_root_noise": 0.04,
        "_enable_ownership": True,
        "allow_recovery": False,
    }
    client = engine.KataGoEngine(katrain, config)
    try:
        root = GameNode(properties={"SZ": ["9"], "KM": ["7.5"], "RU": ["japanese"]})
        node = root.play(Move.from_gtp("E5", "B"))

        def ask(**options) -> dict:
            found: list[dict] = []
            client.request_analysis(node, lambda answer, partial: partial or found.append(answer), **options)
            until = time.monotonic() + NO_HURRY
            while not found and time.monotonic() < until:
                time.sleep(0.02)
            assert found, heard
            return found[0]

        free = ask()
        assert free["rootInfo"]["visits"] == 40 and len(free["ownership"]) == 81 and len(free["policy"]) == 82
        node.set_analysis(free, None, False)
        known = {move["move"] for move in free["moveInfos"]}
        others = {move["move"] for move in ask(find_alternatives=True)["moveInfos"]}
        assert others and not others & known
        inside = {move["move"] for move in ask(region_of_interest=[0, 2, 0, 2])["moveInfos"]}
        assert inside - {"pass"} <= {f"{letter}{row}" for letter in "ABC" for row in (1, 2, 3)} and inside
        assert sum("warning" in line and "wideRootNoise" in line for line in heard) <= 2, "each is logged twice at most"
        assert not any("Error" in line or "error" in line for line in heard)
    finally:
        process = client.katago_process
        client.shutdown(finish=None)
        process.wait(NO_HURRY)
