"""The ratings stage: from match folders to table and file."""

import itertools
import json
from functools import lru_cache

import pytest

from pipeline.errors import MuGoError, NotYet, UsageError
from pipeline.games.specs import parse_game
from pipeline.ratings.command import match_result, rate, rate_and_write, ratings, read_matches
from pipeline.ratings.config import RatingsConfig
from pipeline.ratings.strength import MatchResult, bradley_terry
from pipeline.run import matches as matches_module
from pipeline.run.matches import MatchGame, MatchHeader, PlayerInfo
from pipeline.run.ratings import read_ratings
from pipeline.run.shards import End
from tests.helpers import Heard
from tests.run.random_games import random_games


def info(name, weights="", parents=()):
    base, _, readouts = name.partition("@")
    if base in ("random", "heuristic"):
        return PlayerInfo(name=base, kind=base, spec=base)
    return PlayerInfo(
        name=base, kind="model", spec=f"saved_models/{name}", readouts=int(readouts or 8), weights=weights,
        parents=list(parents),
    )  # fmt: skip


@lru_cache
def moves_to(spec, result):
    """Moves of a game that ends like this for the first player."""
    records = (record for seed in itertools.count() for record in random_games(parse_game(spec), 16, seed))
    ends_so = (one for one in records if one.result_first_player == result and one.end == End.PLAYED_OUT)
    return next(ends_so).moves.tolist()


def make_match(directory, challenger, champion, results, hour=0, game="tictactoe", failed=(), **settings):
    """A match folder; results are the challenger's. Players as names or PlayerInfo."""
    players = tuple(one if isinstance(one, PlayerInfo) else info(one) for one in (challenger, champion))
    pairs = (len(results) + len(failed) + 1) // 2
    header = MatchHeader(
        players=players, game=game, games=2 * pairs, threshold=None, settings=settings, openings=[[]] * pairs,
        created=f"2026-01-01T{hour:02d}:00:00+00:00",
    )  # fmt: skip
    folder = directory / f"{players[0].name}-vs-{players[1].name}"
    folder.mkdir(parents=True)
    lines = [header.model_dump_json()]
    for index, result in enumerate(results):
        seen_first = result if index % 2 == 0 else -result
        moves = moves_to(game, seen_first)
        lines.append(
            MatchGame(index=index, challenger_player=index % 2, opening_plies=0, moves=moves,
                      values_to_move=[None] * len(moves), result_first_player=seen_first, end="played_out",
                      ).model_dump_json()
        )  # fmt: skip
    for index in failed:
        failure = {"failed": index, "attempt": 1, "kind": "crash", "player": "", "problem": "x", "moves": []}
        lines.append(json.dumps(failure))
    (folder / "games.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def config(tmp_path):
    def make(**lines):
        folders = [tmp_path / "evaluate", tmp_path / "tournament"]
        for folder in folders:
            folder.mkdir(exist_ok=True)
        return RatingsConfig(**{"directory": folders, "output": tmp_path / "ratings.json", **lines})

    return make


@pytest.fixture
def three(tmp_path):
    """Newest first by name, oldest first by time: the order that counts is that of time."""
    folder = tmp_path / "evaluate"
    make_match(folder, "000002-c@8", "000001-b@8", [1, 1, 1, 0, 1, -1], hour=3)
    make_match(folder, "000001-b@8", "000000-a@8", [1, 1, -1, 1], hour=1)
    make_match(tmp_path / "tournament", "random", "000000-a@8", [-1, -1, 1, -1], hour=2)
    return folder


def test_rates_everybody_of_all_folders(config, three):
    summary = ratings(config())
    assert [row.name for row in summary.rows] == ["000002-c@8", "000001-b@8", "000000-a@8", "random"]
    assert (summary.matches, summary.games, summary.matches_skipped) == (3, 14, 0)
    assert summary.anchor == "random=0"
    fit = bradley_terry(
        [
            MatchResult("000001-b@8", "000000-a@8", (1, 1, -1, 1)),
            MatchResult("random", "000000-a@8", (-1, -1, 1, -1)),
            MatchResult("000002-c@8", "000001-b@8", (1, 1, 1, 0, 1, -1)),
        ]
    ).anchored("random", 0)
    assert {row.name: row.rating for row in summary.rows} == pytest.approx(fit.ratings, abs=1e-6)
    assert {row.name: row.error for row in summary.rows} == pytest.approx(fit.errors())
    best = summary.rows[0]
    assert (best.rank, best.games, best.wins, best.draws, best.losses) == (1, 6, 4, 1, 1)
    assert best.average_opponent == pytest.approx(fit.ratings["000001-b@8"])
    assert summary.warnings == []


def test_the_file_has_all_methods_and_elo_follows_time(config, three, tmp_path):
    ratings(config())
    found = read_ratings(tmp_path / "ratings.json").by_name
    # b beats a (3 of 4) from 1500 each; random then loses to a (1 of 4); then c meets b.
    b, a = 1500 + 32 * 0.25, 1500 - 32 * 0.25
    expected_random = 1 / (1 + 10 ** ((a - 1500) / 400))
    expected_c = 1 / (1 + 10 ** ((b - 1500) / 400))
    gained = 32 * (4.5 / 6 - expected_c)
    assert found["random"].elo == pytest.approx(1500 + 32 * (0.25 - expected_random))
    assert found["000002-c@8"].elo == pytest.approx(1500 + gained)
    assert found["000001-b@8"].elo == pytest.approx(b - gained)
    assert found["000002-c@8"].trueskill_mu > found["000001-b@8"].trueskill_mu > found["random"].trueskill_mu
    assert found["random"].kind == "random"


def test_methods_sort_and_show_their_own_points(config, three, tmp_path):
    elo = ratings(config(system="elo"))
    stored = read_ratings(tmp_path / "ratings.json").by_name
    assert [row.rating for row in elo.rows] == sorted((one.elo for one in stored.values()), reverse=True)
    assert {row.error for row in elo.rows} == {None}
    skill = ratings(config(system="trueskill"))
    for row in skill.rows:
        assert row.rating == stored[row.name].trueskill_mu
        assert row.error == pytest.approx(1.96 * stored[row.name].trueskill_sigma, rel=1e-3)


def test_a_model_starts_from_its_parents_skill(config, tmp_path):
    folder = tmp_path / "evaluate"
    make_match(folder, "000000-a@8", "random", [1] * 8, hour=1)
    make_match(folder, info("000001-b@8", parents=["000000-a@8"]), "heuristic", [1, -1], hour=2)
    make_match(folder, "000002-c@8", info("heuristic").model_copy(update={"name": "h2"}), [1, -1], hour=3)
    ratings(config())
    found = read_ratings(tmp_path / "ratings.json").by_name
    assert found["000001-b@8"].trueskill_mu > found["000002-c@8"].trueskill_mu + 1


def test_anchors(config, three):
    def rating(name, **lines):
        return {row.name: row.rating for row in ratings(config(**lines)).rows}[name]

    assert rating("random") == 0
    assert rating("000001-b@8", anchor="000001-b@8=1500") == pytest.approx(1500)
    assert rating("000001-b@8", anchor="000001-b") == 0  # readouts may be left out
    with pytest.raises(UsageError, match=r"--anchor 'nobody': no such rated player; rated players: .*random"):
        ratings(config(anchor="nobody"))


def test_without_random_the_oldest_model_is_the_anchor(config, tmp_path):
    make_match(tmp_path / "evaluate", "000003-d@8", "heuristic", [1, -1, 1], hour=1)
    make_match(tmp_path / "evaluate", "000003-d@8", "000001-b@8", [1, -1, 1], hour=2)
    assert ratings(config()).anchor == "000001-b@8=0"


def test_failed_games_count_for_nobody(config, tmp_path):
    make_match(tmp_path / "evaluate", "000001-b@8", "random", [1, 1, -1], failed=[3])
    summary = ratings(config())
    assert summary.games == 3
    assert [row.games for row in summary.rows] == [3, 3]


@pytest.mark.parametrize(("exclude", "games"), [(False, 4), (True, 2)])
def test_repeated_games_count_unless_the_match_excludes_them(config, tmp_path, exclude, games):
    make_match(tmp_path / "evaluate", "000001-b@8", "random", [1, -1, 1, -1], exclude_duplicates=exclude)
    assert ratings(config()).games == games


def test_games_that_were_rated_are_not_read_again(config, three, tmp_path, monkeypatch):
    lines = []
    take = matches_module.MatchLines.take
    monkeypatch.setattr(matches_module.MatchLines, "take", lambda self, line: (lines.append(line), take(self, line))[1])

    def written() -> dict:
        """But for the time."""
        return {**json.loads((tmp_path / "ratings.json").read_text()), "created": ""}

    first = ratings(config())
    before = written()
    assert len(lines) == first.games == 14
    lines.clear()
    assert ratings(config()) == first
    assert written() == before
    assert lines == []
    folder = make_match(three, "000003-d@8", "000001-b@8", [1, -1], hour=4)
    assert ratings(config()).games == 16 and len(lines) == 2
    # The kept results make no difference.
    before = written()
    for path in folder.parent.parent.glob("*/*/results.json"):
        path.unlink()
    ratings(config())
    assert written() == before


def test_a_damaged_file_is_reported_and_rebuilt(config, three, tmp_path):
    path = tmp_path / "ratings.json"
    first = ratings(config())
    before = read_ratings(path).players
    path.write_text(path.read_text()[:100])
    heard = Heard()
    assert ratings(config(), heard).rows == first.rows
    assert read_ratings(path).players == before
    assert len(heard.warned) == 1
    assert "unusable" in heard.warned[0]
    assert str(path) in heard.warned[0]
    heard = Heard()
    ratings(config(), heard)
    assert heard.warned == []


def test_a_damaged_match_is_skipped_and_named(config, three):
    games = three / "000002-c-vs-000001-b" / "games.jsonl"
    games.write_text("{\n")
    heard = Heard()
    summary = ratings(config(), heard)
    assert (summary.matches_skipped, summary.matches, summary.games) == (1, 2, 8)
    assert [str(games) in text for text in heard.warned] == [True]
    assert "000002-c@8" not in {row.name for row in summary.rows}


def test_a_damaged_summary_costs_no_games(config, three):
    path = three / "000002-c-vs-000001-b" / "summary.json"
    path.write_text("{")
    heard = Heard()
    summary = ratings(config(), heard)
    assert (summary.matches_skipped, summary.matches, summary.games) == (0, 3, 14)
    (said,) = heard.warned
    assert str(path) in said
    assert "the games still count; remove that file" in said


def test_folders_that_were_asked_for_must_exist(config, three, tmp_path, monkeypatch):
    with pytest.raises(UsageError, match=r"--directory .*nowhere: no such folder"):
        ratings(config(directory=[three, tmp_path / "nowhere"]))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotYet):
        ratings(RatingsConfig())
    assert not (tmp_path / "data").exists()  # not even a lock


def test_other_folders_leave_the_ratings_of_the_run_alone(three, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_match(tmp_path / "data" / "evaluate", "000001-b@8", "random", [1, -1])
    assert ratings(RatingsConfig()).path == "data/ratings.json"
    before = (tmp_path / "data" / "ratings.json").read_bytes()
    other = ratings(RatingsConfig(directory=[three]))
    assert (other.path, other.games) == (None, 10)
    assert (tmp_path / "data" / "ratings.json").read_bytes() == before
    kept = ratings(RatingsConfig(directory=[three], output=tmp_path / "other.json"))
    assert kept.path == str(tmp_path / "other.json")
    assert read_ratings(tmp_path / "other.json").games == 10


def test_who_can_be_compared_with_the_anchor(tmp_path):
    folder = tmp_path / "evaluate"
    make_match(folder, "000001-b@16", "000000-a@16", [1, 1, -1, 1], hour=1)
    make_match(folder, "000002-c@4", "000001-b@4", [1, 1, -1, 1], hour=2)
    before = rate(read_matches([folder])).ratings
    assert (before.anchor, len(before.anchored)) == ("000000-a@16", 2)
    make_match(folder, "000001-b@16", "random", [1, 1, -1, 1], hour=3)
    make_match(folder, "random", "000001-b@4", [1, -1, -1, 1], hour=3)
    after = rate(read_matches([folder])).ratings
    assert (after.anchor, len(after.anchored)) == ("random", len(after.players)) == ("random", 5)


def test_groups_are_blocks_and_among_shows_some(config, tmp_path):
    folder = tmp_path / "evaluate"
    make_match(folder, "000001-b@8", "random", [1, 1, -1, 1], hour=1)
    make_match(folder, "000004-x@8", "heuristic", [1, -1], hour=2)
    make_match(folder, "000004-x@8", "000003-w@8", [1, -1, 1], hour=3)
    rows = ratings(config()).rows
    assert [row.group for row in rows] == [0, 0, 0, 1, 1]
    assert [row.rank for row in rows] == [1, 2, 3, 1, 2]
    assert {row.name for row in rows[3:]} == {"000001-b@8", "random"}
    some = rate_and_write(config(), among=["000004-x@8", "heuristic", "random"])
    assert [row.name for row in some.rows if row.group == 1] == ["random"]
    assert some.rows[-1].error is None
    assert some.left_out == 2
    (note,) = some.warnings
    assert note.startswith("no games connect random with the players above")
    # Of two players each is as far from their mean as the other, by half of their difference.
    fit = rate(read_matches([folder])).fit
    error = fit.difference("000004-x@8", "heuristic")[1] / 2
    assert [row.error for row in some.rows[:2]] == pytest.approx([error, error])


def test_nothing_played_yet(config, tmp_path):
    with pytest.raises(NotYet, match="no games of matches") as raised:
        ratings(config())
    assert raised.value.exit_code == 75
    make_match(tmp_path / "evaluate", "000001-b@8", "random", [])
    with pytest.raises(NotYet):
        ratings(config())
    assert not (tmp_path / "ratings.json").exists()


def test_two_games_do_not_mix(config, three):
    make_match(three, "000009-z@8", "random", [1, -1], hour=9, game="connect4")
    with pytest.raises(MuGoError, match=r"matches of several games: .* is tictactoe, .*000009-z-vs-random is connect4"):
        ratings(config())


def test_what_the_table_warns_of(config, tmp_path):
    folder = tmp_path / "evaluate"
    make_match(folder, "000001-b@8", "random", [1, 1, -1, 1], hour=1)
    make_match(folder, info("000004-x@8", weights="1"), "heuristic", [1, -1], hour=2)
    make_match(folder, info("000004-x@8", weights="2"), "000003-w@8", [1, 1], hour=3)
    groups, lopsided, weights = ratings(config()).warnings
    assert groups.startswith("no games connect 000001-b@8, random with the players above")
    assert lopsided.startswith("000003-w@8 won or lost every game")
    assert weights.startswith("000004-x@8 played with 2 different sets of weights")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"result_first_player": -1}, "don't lead to its result"),
        ({"moves": [0, 0, 1], "values_to_move": [None] * 3}, "ply 1"),
        ({"end": "resigned"}, "don't lead to its result"),
    ],
)
def test_games_that_cannot_have_been_played_do_not_count(config, three, change, problem):
    """As in evaluate, which replays the games of a match before it continues."""
    path = three / "000001-b-vs-000000-a/games.jsonl"
    first, game, *others = path.read_text().splitlines()
    path.write_text("\n".join([first, json.dumps({**json.loads(game), **change}), *others]) + "\n")
    heard = Heard()
    summary = ratings(config(), heard)
    assert (summary.matches, summary.games, summary.matches_skipped) == (2, 10, 1)
    (warning,) = heard.warned
    assert warning.startswith(f"skipped {path}: game 0") and problem in warning


def test_games_by_unknown_rules_count_as_they_stand(config, three, monkeypatch):
    """Those of other packages aren't imported for a file."""

    def unknown(spec):
        raise UsageError("game 'tictactoe': not known")

    monkeypatch.setattr(matches_module, "recorded_game", unknown)
    heard = Heard()
    assert ratings(config(), heard).games == 14
    assert len(heard.warned) == 3 and all("not checked, but counted" in text for text in heard.warned)


def test_for_other_stages(three, tmp_path):
    heard = Heard()
    matches = read_matches([three, three, tmp_path / "tournament", tmp_path / "missing"], heard.warn)
    assert heard.warned == []
    assert [match.header.created[11:13] for match in matches] == ["01", "02", "03"]
    assert match_result(matches[1]) == MatchResult("random", "000000-a@8", (-1, -1, 1, -1))
    rated = rate(matches)
    assert rated.fit.ratings["random"] == 0
    assert len(rated.results) == 3
