"""Match folders: what is written is read back, even after a kill, and never mixed with another match."""

import json
import os
from pathlib import Path

import pytest

from pipeline.errors import FileError, NotYet
from pipeline.games.specs import parse_game
from pipeline.run import layout, matches
from pipeline.run.matches import (
    MatchFailure,
    MatchGame,
    MatchHeader,
    PlayerInfo,
    has_match,
    list_matches,
    match_lock,
    newest_matches,
    open_match,
    read_match,
    read_summary,
    verify_games,
    write_summary,
)

GAME = parse_game("tictactoe")
OPENINGS = [[0], [4], [8]]


B = PlayerInfo(name="000002-b", kind="model", spec="models/000002-b", readouts=8, weights="22", parents=["000001-a@8"])
A = PlayerInfo(name="000001-a", kind="model", spec="models/000001-a", readouts=8, weights="11")
ENGINE = PlayerInfo(name="fish-1a2b", kind="gtp", spec="gtp:fish --level 1")


def header(**changes):
    values = dict(
        players=(B, A), game="tictactoe", games=6, threshold=None, settings={"leaves": 1, "seed": 0},
        openings=OPENINGS,
    )  # fmt: skip
    return MatchHeader(**{**values, **changes})


def other(player, **changes):
    return player.model_copy(update=changes)


def made_up_game(index):
    first = OPENINGS[index // 2][0]
    lines = {0: [0, 3, 1, 5, 2], 4: [4, 1, 0, 3, 8], 8: [8, 1, 5, 3, 2]}  # the first player wins each
    return MatchGame(
        index=index, challenger_player=index % 2, opening_plies=1, moves=lines[first],
        values_to_move=[None, 0.5, -0.25, 0.0, 1.0], result_first_player=1, end="played_out",
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "evaluate" / "000002-b-vs-000001-a"


def games_path(folder):
    return folder / layout.MATCH_GAMES


def test_games_are_read_back(folder):
    writer = open_match(folder, header())
    writer.add([made_up_game(3), made_up_game(0)])
    writer.add([made_up_game(5)])
    writer.add([])
    assert writer.missing() == [1, 2, 4]
    match = read_match(folder)
    assert match.header == writer.header
    assert match.games == [made_up_game(index) for index in (0, 3, 5)]
    assert match.summary is None
    assert [game.challenger_result for game in match.games] == [1, -1, -1]
    again = open_match(folder, header(openings=[[7], [7], [7]]))  # the first run's openings count
    assert again.header.openings == OPENINGS
    assert again.missing() == [1, 2, 4]
    assert again.added == set()


def test_a_file_cut_anywhere_loses_only_the_last_line(folder):
    writer = open_match(folder, header())
    writer.add([made_up_game(index) for index in range(3)])
    data = games_path(folder).read_bytes()
    starts = [i + 1 for i, byte in enumerate(data) if byte == ord("\n")]
    for cut in range(starts[0], len(data) + 1):
        games_path(folder).write_bytes(data[:cut])
        whole = sum(start <= cut for start in starts) - 1
        assert len(read_match(folder).games) == whole
        if cut % 37 == 0 or cut in starts:
            resumed = open_match(folder, header())
            resumed.add([made_up_game(index) for index in resumed.missing()])
            assert [game.index for game in read_match(folder).games] == list(range(6))


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"settings": {"leaves": 2, "seed": 0}}, "leaves 1, now it is 2"),
        ({"settings": {"leaves": 1, "seed": 0, "new": 1}}, "new None, now it is 1"),
        ({"games": 4, "openings": OPENINGS[:2]}, "games 6, now it is 4"),
        ({"threshold": 0.6}, "threshold None, now it is 0.6"),
        ({"game": "connect4"}, "game 'tictactoe', now it is 'connect4'"),
        ({"players": (other(B, readouts=64), A)}, "challenger's readouts 8, now it is 64"),
        ({"players": (B, other(A, weights="12"))}, "another champion of the same name"),
        ({"players": (B, other(A, name="000001-c"))}, "champion's name '000001-a', now it is '000001-c'"),
        ({"players": (B, ENGINE)}, "champion's kind 'model', now it is 'gtp'"),
    ],
)
def test_a_match_with_other_settings_is_refused(folder, changes, name):
    open_match(folder, header()).add([made_up_game(0)])
    before = games_path(folder).read_bytes()
    with pytest.raises(FileError, match=f"begun with {name}.*--output-dir"):
        open_match(folder, header(**changes))
    assert games_path(folder).read_bytes() == before


@pytest.mark.parametrize(
    "changes",
    [
        {"players": (other(B, spec="elsewhere/000002-b", parents=[]), A)},
        {"settings": {"seed": 0, "leaves": 1}},
        {"created": "2026-01-01T00:00:00+00:00"},
    ],
)
def test_the_same_match_by_another_path_goes_on(folder, changes):
    open_match(folder, header()).add([made_up_game(0)])
    assert open_match(folder, header(**changes)).header == header(created=read_match(folder).header.created)


def test_an_engine_is_its_command_line(folder):
    open_match(folder, header(players=(B, ENGINE)))
    open_match(folder, header(players=(B, ENGINE)))
    with pytest.raises(FileError, match=r"champion's command 'gtp:fish --level 1', now it is 'gtp:fish --level 2'"):
        open_match(folder, header(players=(B, other(ENGINE, spec="gtp:fish --level 2"))))


def test_what_players_are_rated_as():
    assert B.rated_as == "000002-b@8"
    assert other(B, name="000002-b@16", readouts=16).rated_as == "000002-b@16"
    assert other(B, name="policy", readouts=0).rated_as == "policy@0"
    assert ENGINE.rated_as == "fish-1a2b"
    assert PlayerInfo(name="random", kind="random", spec="random").rated_as == "random"


@pytest.mark.parametrize("name", ["", "a b", "../a", ".a", "a/b", "ä", "a-vs-b", "best_model"])
def test_names_of_players_are_fit_for_folders(name):
    with pytest.raises(ValueError, match="name"):
        PlayerInfo(name=name, kind="random", spec="random")


def test_players_have_different_names():
    with pytest.raises(ValueError, match="both players are named 000001-a"):
        header(players=(A, A))


# Failures and growth


def failure(index, attempt=1, **changes):
    values = dict(failed=index, attempt=attempt, kind="broken", player="fish-1a2b", problem="it died", moves=[4, 1])
    return MatchFailure(**{**values, **changes})


def test_a_game_may_fail_and_be_played_after_all(folder):
    writer = open_match(folder, header())
    writer.add_failure(failure(2))
    writer.add_failure(failure(4, player="", kind="crash", moves=[]))
    writer.add_failure(failure(4, attempt=2))
    writer.add([made_up_game(2)])
    wanted = [failure(2), failure(4, player="", kind="crash", moves=[]), failure(4, attempt=2)]
    assert writer.failures == wanted
    assert writer.missing() == [0, 1, 3, 4, 5]  # to fail is not to be played
    again = open_match(folder, header())
    assert again.failures == read_match(folder).failures == wanted
    assert again.missing() == [0, 1, 3, 4, 5]
    with pytest.raises(ValueError, match="game 6 of 6"):
        writer.add_failure(failure(6))


def test_a_match_grows(folder):
    writer = open_match(folder, header(games=0, openings=[]))
    assert (writer.num_games, writer.missing()) == (0, [])
    writer.extend(OPENINGS[:1])
    writer.extend([])
    writer.add([made_up_game(1)])
    writer.extend(OPENINGS[1:])
    writer.add([made_up_game(4)])
    match = read_match(folder)
    assert (match.num_games, match.header.games, match.openings) == (6, 0, OPENINGS)
    assert [game.index for game in match.games] == [1, 4]
    again = open_match(folder, header(games=0, openings=[]))
    assert (again.num_games, again.openings, again.missing()) == (6, OPENINGS, [0, 2, 3, 5])
    again.extend([[2, 6]])
    assert read_match(folder).openings == [*OPENINGS, [2, 6]]


def test_a_game_of_openings_that_are_not_there_is_refused(folder):
    writer = open_match(folder, header(games=2, openings=OPENINGS[:1]))
    with pytest.raises(ValueError, match="game 2 of 2"):
        writer.add([made_up_game(0), made_up_game(2)])
    assert writer.games == {} and read_match(folder).games == []
    writer.add([made_up_game(0)])
    writer.extend(OPENINGS[1:])
    lines = games_path(folder).read_text().splitlines(keepends=True)
    games_path(folder).write_text("".join([*lines[:2], made_up_game(2).model_dump_json() + "\n", lines[2]]))
    with pytest.raises(FileError, match="line 3: game 2 of 2"):  # its opening comes only behind it
        read_match(folder)


def test_of_two_results_of_a_game_the_first_counts(folder):
    writer = open_match(folder, header())
    first = made_up_game(0)
    second = first.model_copy(update={"values_to_move": [None] * 5})
    writer.add([first, second])
    writer.add([second, made_up_game(1)])
    assert read_match(folder).games == [first, made_up_game(1)]
    assert writer.games[0] == first and writer.added == {0, 1}


def test_a_growing_match_cut_anywhere_is_the_match_before_its_last_line(folder):
    writer = open_match(folder, header(games=0, openings=[]))
    writer.extend(OPENINGS[:1])
    writer.add_failure(failure(1))
    writer.add([made_up_game(1)])
    writer.extend(OPENINGS[1:])
    data = games_path(folder).read_bytes()
    starts = [i + 1 for i, byte in enumerate(data) if byte == ord("\n")]
    wanted = [(0, 0, 0), (2, 0, 0), (2, 1, 0), (2, 1, 1), (6, 1, 1)]
    for cut in range(starts[0], len(data) + 1):
        games_path(folder).write_bytes(data[:cut])
        match = read_match(folder)
        whole = sum(start <= cut for start in starts) - 1
        assert (match.num_games, len(match.failures), len(match.games)) == wanted[whole]
        if cut % 41 == 0 or cut in starts:
            assert open_match(folder, header(games=0, openings=[])).num_games == wanted[whole][0]
            assert games_path(folder).read_bytes() == data[: starts[whole]]


# Damage


def replace_in(folder, old, new):
    text = games_path(folder).read_text()
    assert old in text
    games_path(folder).write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('{"index":1', '{"index":x', "line 3"),
        ('{"index":1', '{"index":0', "line 3: game 0: the challenger moves second, it must move first"),
        ('"index":1,"challenger_player":1', '"index":0,"challenger_player":0', "line 3: game 0 appears twice"),
        ('{"index":1', '{"index":7', "line 3: game 7 of 6"),
        ('"opening_plies":1', '"opening_plies":2', "line 2: game 0: it doesn't begin with its opening"),
        ('"moves":[0,3', '"moves":[3,0', "line 2: game 0: it doesn't begin with its opening"),
        ("[null,0.5,", "[0.5,", "line 2: game 0: 4 values for 5 moves"),
        ('"result_first_player":1', '"result_first_player":2', "line 2: game 0: a result of 2; it counts 1"),
        ('"end":"played_out"', '"end":"tired"', "line 2: end"),
        ('"moves":[0,3', '"moves":[0,-3', "line 2: moves.1"),
        ('"moves":[0,3', '"moves":[0,99999999999', "line 2: moves.1"),
        ('{"index":1,', '\n{"index":1,', "line 3"),
        ('{"index":1,', '7\n{"index":1,', "line 3: a JSON int"),
        ('{"index":1,', "[" * 100_000 + '\n{"index":1,', "line 3"),
        ('"failed":3', '"failed":6', "line 5: game 6 of 6"),
        ('"attempt":1', '"attempt":"x"', "line 5: attempt"),
        ('"failed":3', '"failed":3,"why":1', "line 5: why"),
        ('"more":[[2]]', '"more":[2]', "line 6: more.0"),
        ('"more":[[2]]', '"more":[[2]', "line 6"),
        ('"mugo-match"', '"other"', "damaged: format 'other'; wanted 'mugo-match', the description of a match"),
        ('"version":1', '"version":5', "version 5; this program reads version 1"),
        ('"created":', '"made":', "damaged: created is missing"),
        ('"max_result":1.0,', "", "damaged: max_result is missing"),
        ('"stones":[],', "", "damaged: stones is missing"),
        ('"games":6', '"games":8', "3 openings for 8 games"),
        ('"games":6', '"games":"many"', "damaged: games:"),
        ('{"format', "{format", "first line"),
    ],
)
def test_damage_is_named(folder, old, new, problem):
    writer = open_match(folder, header())
    writer.add([made_up_game(index) for index in range(3)])
    writer.add_failure(failure(3))
    writer.extend([[2]])
    replace_in(folder, old, new)
    with pytest.raises(FileError) as caught:
        read_match(folder)
    assert problem in str(caught.value)
    assert str(caught.value).startswith(str(games_path(folder)))
    assert "\n" not in str(caught.value)


def test_an_empty_or_missing_file_is_an_error(folder):
    with pytest.raises(FileError, match="no such file"):
        read_match(folder)
    assert not has_match(folder)
    folder.mkdir(parents=True)
    games_path(folder).write_bytes(b"")
    with pytest.raises(FileError, match="first line"):
        read_match(folder)


def test_games_are_verified_by_playing_them_again():
    games = [made_up_game(index) for index in range(6)]
    verify_games("here", GAME, games)
    verify_games("here", GAME, [])
    with pytest.raises(FileError, match="game 2: its moves don't lead to its result -1"):
        verify_games("here", GAME, [games[0], games[2].model_copy(update={"result_first_player": -1})])
    with pytest.raises(FileError, match=r"game 1, ply 1: .*row 0.*occupied"):
        verify_games("here", GAME, [games[0], games[1].model_copy(update={"moves": [0, 0, 1, 2, 3]})])
    with pytest.raises(FileError, match="game 1"):
        verify_games("here", GAME, [games[0], games[1].model_copy(update={"moves": [0, 1, 2]})])


def test_a_resigned_game_was_lost_by_the_player_to_move():
    first_gives_up = made_up_game(1).model_copy(
        update={"moves": [0, 3, 1, 5], "values_to_move": [None] * 4, "result_first_player": -1, "end": "resigned"}
    )
    at_once = first_gives_up.model_copy(update={"moves": [0], "values_to_move": [None], "result_first_player": 1})
    verify_games("here", GAME, [at_once, made_up_game(0), first_gives_up])
    for wrong in (
        first_gives_up.model_copy(update={"result_first_player": 1}),
        first_gives_up.model_copy(update={"result_first_player": 0}),
        first_gives_up.model_copy(update={"end": "played_out"}),
        at_once.model_copy(update={"result_first_player": -1}),
        made_up_game(1).model_copy(update={"end": "resigned", "result_first_player": -1}),  # nobody is to move
        made_up_game(1).model_copy(update={"end": "resigned"}),
    ):
        with pytest.raises(FileError, match=f"game 1: its moves don't lead to its result .*({wrong.end})"):
            verify_games("here", GAME, [at_once, wrong, made_up_game(0)])


def test_go_is_verified_with_its_history(monkeypatch):
    monkeypatch.setattr(matches, "GAMES_AT_ONCE", 3)
    go = parse_game("go:5,komi=0")
    # White's B3 takes C3, which now can't take back at once.
    ko = [go.parse_action(name) for name in ("B2", "C2", "A3", "D3", "B4", "C4", "C3", "B3")]

    def one(index, moves, **changes):
        values = dict(
            index=index, challenger_player=index % 2, opening_plies=0, moves=moves, values_to_move=[0.0] * len(moves),
            result_first_player=0, end="played_out",
        )  # fmt: skip
        return MatchGame(**{**values, **changes})

    passes = [go.pass_action] * 2
    good = [one(index, passes) for index in range(7)]
    verify_games("here", go, [*good, one(7, ko, result_first_player=-1, end="resigned")])
    with pytest.raises(FileError, match=r"game 7, ply 8: .*repeats"):
        verify_games("here", go, [*good, one(7, [*ko, go.parse_action("C3")], result_first_player=1, end="resigned")])


def test_a_full_disk_leaves_the_games_as_they_were(folder, monkeypatch):
    writer = open_match(folder, header())
    writer.add([made_up_game(0)])
    before = games_path(folder).read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="disk is full"):
        writer.add([made_up_game(1)])
    assert games_path(folder).read_bytes() == before
    assert writer.missing() == [1, 2, 3, 4, 5]


def test_one_process_at_a_time(folder):
    with match_lock(folder):
        with pytest.raises(NotYet, match="being played by another process") as caught, match_lock(folder):
            pass
        assert str(folder) in str(caught.value)
    with pytest.raises(FileError, match="what went on inside"), match_lock(folder):
        raise FileError("here", "what went on inside") from BlockingIOError()
    with match_lock(folder):
        pass


def test_going_on_removes_what_a_kill_left_half_written(folder):
    open_match(folder, header())
    left = folder / ".summary.json~elsewhere~5~20260101T000000~0123abcd.tmp"
    left.touch()
    open_match(folder, header())
    assert not left.exists()


def test_listing_and_summaries(folder):
    assert list_matches(folder.parent) == []
    open_match(folder, header())
    (folder.parent / "notes").mkdir()
    (folder.parent / ".000002-b-vs-000001-a~host~1~00000000.tmp").mkdir()
    (folder.parent / "000003-c-vs-000001-a").mkdir()  # begun and killed before its first line: no match yet
    assert list_matches(folder.parent) == [folder]
    placed = folder.parent / "000002-b@64-vs-fish-1a2b"
    open_match(placed, header(players=(other(B, name="000002-b@64", readouts=64), ENGINE)))
    assert list_matches(folder.parent) == [folder, placed]
    assert read_summary(folder) is None
    write_summary(folder, {"wins": 3, "measured": 6})
    summary = read_match(folder).summary
    assert summary is not None and summary.pop("decided") and summary == {"wins": 3, "measured": 6}
    for text in ("{", '{"wins": 3}', '{"measured": true}', '{"measured": "6"}'):
        (folder / layout.MATCH_SUMMARY).write_text(text)
        with pytest.raises(FileError, match="damaged"):
            read_match(folder)
    assert read_match(folder, with_summary=False).summary is None


def test_a_match_stays_decided_when_it_was(folder):
    """Until the result changes."""
    open_match(folder, header())
    write_summary(folder, {"wins": 3, "passed": True, "measured": 6})
    before = {"wins": 3, "passed": True, "measured": 6, "decided": "2020-01-01T00:00:00Z"}
    (folder / layout.MATCH_SUMMARY).write_text(json.dumps(before))
    write_summary(folder, {"wins": 3, "passed": True, "measured": 6, "promoted": True})
    assert read_summary(folder) == {**before, "promoted": True}
    write_summary(folder, {"wins": 3, "passed": False, "measured": 6})
    assert read_summary(folder)["decided"] > "2020-01-01T00:00:00Z"


def test_every_line_is_plain_json(folder):
    open_match(folder, header()).add([made_up_game(2)])
    first, second = games_path(folder).read_text().splitlines()
    assert json.loads(first)["openings"] == OPENINGS
    assert json.loads(second)["moves"] == [4, 1, 0, 3, 8]


def test_games_of_several_points(folder):
    many = header(max_result=3.0, game="backgammon", openings=[[]] * 3, settings={"seed": 0})
    played = [
        MatchGame(index=index, challenger_player=index % 2, opening_plies=0, moves=[5, 0], values_to_move=[None, 0.5],
                  result_first_player=result, end="played_out")
        for index, result in enumerate((2, -3, 2.5))
    ]  # fmt: skip
    open_match(folder, many).add(played)
    text = games_path(folder).read_text()
    assert '"result_first_player":2,' in text and '"result_first_player":2.5,' in text and '"max_result":3.0' in text
    match = read_match(folder)
    assert match.header == many and match.games == played
    assert [game.challenger_result for game in match.games] == [2, 3, 2.5]
    for result in (4, -3.5, "NaN"):
        games_path(folder).write_text(text.replace('"result_first_player":2,', f'"result_first_player":{result},'))
        with pytest.raises(FileError, match="damaged at line 2"):
            read_match(folder)


def test_a_game_that_counts_one(folder):
    open_match(folder, header()).add([made_up_game(0)])
    first, game = games_path(folder).read_text().splitlines()
    assert '"max_result":1.0,' in first and '"result_first_player":1,' in game
    two = game.replace('"result_first_player":1,', '"result_first_player":2,')
    games_path(folder).write_text(f"{first}\n{two}\n")
    with pytest.raises(FileError, match="a result of 2; it counts 1"):
        read_match(folder)


@pytest.mark.parametrize(
    ("names", "newest"),
    [
        ((), None),
        (("000009-a-vs-000008-b", "000010-c-vs-000009-a", "random-vs-000009-a"), 1),
        (("random-vs-000010-c@8", "000010-a-vs-000009-a", "heuristic-vs-000011-c@8"), 2),
        (("000003-a-vs-000012-c", "000011-a-vs-000003-a"), 0),
        (("heuristic-vs-random",), 0),
    ],
)
def test_the_newest_match_is_that_of_the_newest_model(
    tmp_path: Path, names: tuple[str, ...], newest: int | None
) -> None:
    folders = [tmp_path / name for name in names]
    for folder in folders:
        folder.mkdir()
        (folder / layout.MATCH_GAMES).touch()
    (tmp_path / "999999-z-vs-000000-a").mkdir()  # not begun
    assert next(newest_matches(tmp_path), None) == (None if newest is None else folders[newest])


def test_matches_of_a_challenger_and_of_newer_models(tmp_path: Path) -> None:
    names = ["000001-a-vs-000000-a", "000012-a-vs-000001-a", "000012-a-vs-random", "heuristic-vs-random"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / layout.MATCH_GAMES).touch()
    assert [path.name for path in list_matches(tmp_path)] == names
    assert [path.name for path in list_matches(tmp_path, "000012-a")] == names[1:3]
    assert list_matches(tmp_path, "000012") == []
    assert [path.name for path in list_matches(tmp_path, since=2)] == names[1:3]
