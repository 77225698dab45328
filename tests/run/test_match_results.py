"""results.json agrees with the games, whatever happened to either file."""

import json
import random

import pytest

from pipeline.errors import FileError
from pipeline.matches.statistics import repeated_games
from pipeline.run import atomic, layout, matches
from pipeline.run.matches import (
    KeptResults,
    MatchFailure,
    MatchGame,
    MatchHeader,
    PlayerInfo,
    open_match,
    read_match,
    read_results,
)

PLAYERS = tuple(PlayerInfo(name=name, kind="model", spec=name, readouts=8) for name in ("000002-b", "000001-a"))


def a_game(rng, index, openings, most=1.0):
    moves = openings[index // 2] + [rng.randrange(3) for _ in range(rng.randrange(1, 4))]  # some repeat others
    return MatchGame(
        index=index, challenger_player=index % 2, opening_plies=len(openings[index // 2]), moves=moves,
        values_to_move=[None] * len(moves),
        result_first_player=rng.choice([-1, 0, 1] if most == 1 else [-2.5, -1, 0, 2, 2.5]),
        end=rng.choice(["played_out", "resigned", "move_limit"]),
    )  # fmt: skip


def grow(rng, writer, num_pairs):
    """Add openings, failures, and most of the missing games in any order."""
    writer.extend([[rng.randrange(3)] for _ in range(num_pairs)])
    missing = writer.missing()
    rng.shuffle(missing)
    if missing:
        failure = MatchFailure(failed=missing[0], attempt=1, kind="crash", player="", problem="x", moves=[])
        writer.add_failure(failure)
    most = writer.header.max_result
    writer.add([a_game(rng, index, writer.openings, most) for index in missing[1:]])


def begin(folder, rng, num_pairs=2, most=1.0):
    openings = [[rng.randrange(3)] for _ in range(num_pairs)]
    header = MatchHeader(
        players=PLAYERS, game="tictactoe", games=2 * num_pairs, threshold=None, settings={}, openings=openings,
        max_result=most,
    )  # fmt: skip
    return open_match(folder, header)


def facts(match):
    """What both readers must agree on."""
    games = [
        (game.index, game.challenger_player, game.length, game.end, game.result_first_player, game.challenger_result)
        for game in match.games
    ]
    return match.header, match.num_games, games, match.failed, repeated_games(match.games)


def check(folder):
    """Both readers agree, also on an error; returns whether there was none."""
    try:
        expected = facts(read_match(folder))
    except FileError as error:
        with pytest.raises(FileError) as found:
            read_results(folder)
        assert str(found.value) == str(error)
        return False
    assert facts(read_results(folder)) == expected
    return True


@pytest.fixture(autouse=True)
def no_rules(request, monkeypatch):
    """Most of these games were made up, so they aren't verified."""
    if "three_in_a_row" not in request.node.name:
        monkeypatch.setattr(matches, "verify_match", lambda match: None)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "evaluate" / "000002-b-vs-000001-a"


@pytest.fixture
def lines_read(monkeypatch):
    """The lines after the first that were parsed."""
    lines = []
    take = matches.MatchLines.take
    monkeypatch.setattr(matches.MatchLines, "take", lambda self, line: (lines.append(line), take(self, line))[1])
    return lines


@pytest.mark.parametrize("seed", range(30))
def test_results_are_those_of_the_games_as_the_match_grows(folder, seed):
    rng = random.Random(seed)
    writer = begin(folder, rng, rng.randrange(4), 2.5 if seed % 3 == 0 else 1.0)
    for _ in range(5):
        assert check(folder)
        if rng.random() < 0.7:
            read_results(folder, checked=True, keep=True)
        assert check(folder)
        grow(rng, writer, rng.randrange(4))
    assert check(folder)


def test_only_new_lines_are_read(folder, lines_read):
    rng = random.Random(1)
    writer = begin(folder, rng)
    grow(rng, writer, 20)
    num_lines = (folder / layout.MATCH_GAMES).read_bytes().count(b"\n")
    read_results(folder)
    assert len(lines_read) == num_lines - 1
    lines_read.clear()
    read_results(folder)  # nothing was kept: reading alone writes nothing
    assert len(lines_read) == num_lines - 1
    read_results(folder, checked=True, keep=True)
    kept = (folder / layout.MATCH_RESULTS).read_bytes()
    lines_read.clear()
    read_results(folder, checked=True, keep=True)
    assert lines_read == []
    assert (folder / layout.MATCH_RESULTS).read_bytes() == kept
    writer.add([a_game(rng, writer.missing()[0], writer.openings)])
    read_results(folder, checked=True, keep=True)
    assert len(lines_read) == 1
    lines_read.clear()
    read_results(folder)
    assert lines_read == []


def test_a_game_that_stands_twice_is_found_behind_the_kept_ones(folder):
    rng = random.Random(2)
    writer = begin(folder, rng)
    grow(rng, writer, 2)
    read_results(folder, checked=True, keep=True)
    path = folder / layout.MATCH_GAMES
    path.write_bytes(path.read_bytes() + path.read_bytes().splitlines(keepends=True)[-1])
    assert not check(folder)


def test_games_cut_anywhere(folder):
    rng = random.Random(3)
    grow(rng, begin(folder, rng), 2)
    read_results(folder, checked=True, keep=True)
    path = folder / layout.MATCH_GAMES
    whole = path.read_bytes()
    outcomes = []
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        outcomes.append(check(folder))
    assert any(outcomes) and not all(outcomes)


def test_changed_games_are_read_again(folder):
    """With any line removed or any byte changed, results.json isn't used."""
    rng = random.Random(4)
    grow(rng, begin(folder, rng), 1)
    read_results(folder, checked=True, keep=True)
    path = folder / layout.MATCH_GAMES
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for number in range(len(lines)):
        path.write_bytes(b"".join(lines[:number] + lines[number + 1 :]))
        check(folder)
    path.write_bytes(whole.replace(b'"result_first_player":1', b'"result_first_player":0'))
    assert path.stat().st_size == len(whole) != 0
    assert check(folder)
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        check(folder)


def test_damaged_results_are_not_believed(folder, lines_read):
    rng = random.Random(5)
    grow(rng, begin(folder, rng), 3)
    expected = facts(read_match(folder))
    read_results(folder, checked=True, keep=True)
    path = folder / layout.MATCH_RESULTS
    whole = path.read_bytes()
    for at in range(len(whole) - 1):
        for data in (whole[:at], whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :]):
            path.write_bytes(data)
            assert facts(read_results(folder)) == expected
    path.unlink()
    path.mkdir()
    assert facts(read_results(folder, checked=True, keep=True)) == expected


@pytest.mark.parametrize(
    "change",
    [
        {"num_bytes": 10**9},
        {"num_bytes": 3},
        {"num_more": 0},
        {"more": "[[1"},
        {"more": "7"},
        {"more": '[["x"]]'},
        {"more": "[]"},
        {"rows": ""},
        {"rows": "AAAA"},
        {"rows": "/" * 168},
        {"ends": []},
        {"version": 2},
        {"seal": ""},
    ],
)
def test_sealed_nonsense_is_not_believed(folder, change):
    rng = random.Random(6)
    grow(rng, begin(folder, rng), 3)
    expected = facts(read_match(folder))
    read_results(folder, checked=True, keep=True)
    path = folder / layout.MATCH_RESULTS
    raw = json.loads(path.read_text()) | change
    if "seal" not in change and "version" not in change and "rows" not in change:
        raw["seal"] = KeptResults.model_validate(raw).sealed()
    if change.get("rows") in ("AAAA", "/" * 168):
        raw["seal"] = KeptResults.model_validate(raw).sealed()
    path.write_text(json.dumps(raw))
    assert facts(read_results(folder)) == expected
    read_results(folder, checked=True, keep=True)
    assert json.loads(path.read_text())["version"] == 1


def test_sealed_nonsense_about_openings_is_not_believed_when_games_came_since(folder):
    grow(rng := random.Random(6), writer := begin(folder, rng), 3)
    read_results(folder, checked=True, keep=True)
    path = folder / layout.MATCH_RESULTS
    raw = json.loads(path.read_text()) | {"more": "[[1"}
    path.write_text(json.dumps(raw | {"seal": KeptResults.model_validate(raw).sealed()}))
    grow(rng, writer, 2)
    assert facts(read_results(folder)) == facts(read_match(folder))


def test_results_of_another_match_are_not_believed(tmp_path):
    folders = [tmp_path / name for name in ("a-vs-b", "b-vs-a")]
    for number, folder in enumerate(folders):
        grow(rng := random.Random(number), begin(folder, rng), 3)
        read_results(folder, checked=True, keep=True)
    (folders[0] / layout.MATCH_RESULTS).write_bytes((folders[1] / layout.MATCH_RESULTS).read_bytes())
    assert check(folders[0])


def test_a_disk_that_takes_no_results_is_no_error(folder, monkeypatch):
    rng = random.Random(7)
    grow(rng, begin(folder, rng), 3)

    def full(*args, **kwargs):
        raise FileError("disk", "full")

    monkeypatch.setattr(atomic, "write_text", full)
    read_results(folder, checked=True, keep=True)
    assert not (folder / layout.MATCH_RESULTS).exists()


def test_three_in_a_row_is_checked_once(folder, monkeypatch):
    """Only verified games are kept, and they aren't verified again."""
    writer = begin(folder, random.Random(8), 0)
    writer.extend([[0], [4]])

    def game(index, moves, result):
        return MatchGame(
            index=index, challenger_player=index % 2, opening_plies=1, moves=moves, end="played_out",
            values_to_move=[None] * len(moves), result_first_player=result,
        )  # fmt: skip

    writer.add([game(0, [0, 3, 1, 4, 2], 1)])
    verified = []
    verify = matches.verify_games
    monkeypatch.setattr(
        matches, "verify_games", lambda path, rules, games: (verified.extend(games), verify(path, rules, games))
    )
    read_results(folder, checked=True)
    assert len(verified) == 1 and not (folder / layout.MATCH_RESULTS).exists()
    read_results(folder, keep=True)
    assert len(verified) == 1 and not (folder / layout.MATCH_RESULTS).exists()
    read_results(folder, checked=True, keep=True)
    read_results(folder, checked=True, keep=True)
    assert len(verified) == 2
    kept = (folder / layout.MATCH_RESULTS).read_bytes()
    writer.add([game(2, [4, 0, 3, 1, 5], -1)])  # the first player has won it
    with pytest.raises(FileError, match="game 2: its moves don't lead to its result"):
        read_results(folder, checked=True, keep=True)
    assert [one.index for one in verified] == [0, 0, 2]
    assert len(read_results(folder).games) == 2 and (folder / layout.MATCH_RESULTS).read_bytes() == kept
