"""ratings.json and pool.json: read back as written, refused when damaged, never written in part."""

import json

import pytest

from pipeline.errors import FileError
from pipeline.run.ratings import Member, Pool, RatedPlayer, Ratings, read_pool, read_ratings, write_record

RATINGS = Ratings(
    game="go:9",
    anchor="random",
    anchor_elo=0.0,
    matches=1,
    games=4,
    players=[
        RatedPlayer(name="000001-a@8", games=4, wins=3, draws=1, bradley_terry=338.1, bradley_terry_error=200.5,
                    elo=1512.0, trueskill_mu=30.0, trueskill_sigma=4.0),
        RatedPlayer(name="random", kind="random", games=4, draws=1, losses=3),
    ],
)  # fmt: skip
POOL = Pool(capacity=3, members=(Member(name="random", spec="random"), Member(name="m@8", spec="saved_models/m@8")))


def test_ratings_are_read_back_as_written(tmp_path):
    path = tmp_path / "data" / "ratings.json"
    write_record(path, RATINGS)
    assert read_ratings(path) == RATINGS
    assert json.loads(path.read_text())["format"] == "mugo-ratings"
    assert set(RATINGS.by_name) == {"000001-a@8", "random"}
    assert [file.name for file in path.parent.iterdir()] == ["ratings.json"]


def test_a_pool_is_read_back_as_written(tmp_path):
    path = tmp_path / "data" / "pool.json"
    write_record(path, POOL)
    assert read_pool(path) == POOL
    assert POOL.names == ["random", "m@8"]


def test_no_pool_is_an_empty_one(tmp_path):
    assert read_pool(tmp_path / "pool.json") == Pool(capacity=5, members=())


def damage(path, **lines):
    path.write_text(json.dumps(json.loads(path.read_text()) | lines))


DAMAGES = {
    "no JSON": lambda path: path.write_text("{"),
    "empty": lambda path: path.write_text(""),
    "a list": lambda path: path.write_text("[]"),
    "binary": lambda path: path.write_bytes(b"\x00\xff" * 10),
    "format": lambda path: damage(path, format="other"),
    "version": lambda path: damage(path, version=99),
    "unknown line": lambda path: damage(path, more=1),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_damaged_ratings_say_how_to_make_them_anew(tmp_path, kind):
    path = tmp_path / "ratings.json"
    write_record(path, RATINGS)
    DAMAGES[kind](path)
    with pytest.raises(FileError, match=r"python main.py ratings") as raised:
        read_ratings(path)
    assert "\n" not in str(raised.value)
    assert raised.value.path == path


def test_missing_ratings_say_the_same(tmp_path):
    with pytest.raises(FileError, match=r"no such file.*python main.py ratings"):
        read_ratings(tmp_path / "ratings.json")


@pytest.mark.parametrize("players", [[{"name": "a", "elo": "x"}], [{"elo": 1.0}], [{"name": "a", "games": -1}], 3])
def test_ratings_with_wrong_players(tmp_path, players):
    path = tmp_path / "ratings.json"
    write_record(path, RATINGS)
    damage(path, players=players)
    with pytest.raises(FileError, match=r"damaged: players"):
        read_ratings(path)


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_pool_says_what_to_do(tmp_path, kind):
    path = tmp_path / "pool.json"
    write_record(path, POOL)
    DAMAGES[kind](path)
    with pytest.raises(FileError, match=r"remove it and add its members again: `python main.py pool add SPEC`"):
        read_pool(path)


def test_a_pool_with_wrong_members(tmp_path):
    path = tmp_path / "pool.json"
    write_record(path, POOL)
    twice = [{"name": "a", "spec": "x"}, {"name": "a", "spec": "y"}]
    for lines, said in (({"members": twice}, "a name appears twice"), ({"capacity": 0}, "capacity")):
        write_record(path, POOL)
        damage(path, **lines)
        with pytest.raises(FileError, match=said):
            read_pool(path)
