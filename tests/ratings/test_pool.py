"""The pool: the command, who leaves, and every choosing mode against a hand calculation and ten thousand draws."""

import math
import multiprocessing
from collections import Counter

import numpy as np
import pytest
import scipy.stats

from pipeline.errors import FileError, UsageError
from pipeline.progress import Progress
from pipeline.ratings.pool import (
    MODES,
    add,
    choose,
    distribution,
    make_member,
    parse_mode,
    pool,
    rating_of,
    remove,
    resize,
)
from pipeline.run import layout
from pipeline.run.models import set_champion
from pipeline.run.ratings import Member, Pool, RatedPlayer, Ratings, read_pool, write_record

FOUR = {
    name: RatedPlayer(name=name, bradley_terry=elo, games=games, trueskill_mu=mu, trueskill_sigma=sigma)
    for name, elo, games, mu, sigma in (
        ("a", 0.0, 100, 20.0, 1.0), ("b", 100.0, 40, 25.0, 2.0), ("c", 300.0, 9, 30.0, 3.0), ("d", 400.0, 0, 32.0, 8.0),
    )
}  # fmt: skip
NAMES = list(FOUR)


def member(name):
    return Member(name=name, spec=f"saved_models/{name}")


def pool_of(*names, capacity=5):
    return Pool(capacity=capacity, members=tuple(map(member, names)))


# Members


def test_a_full_pool_evicts_the_lowest_rated():
    full = add(pool_of("b", "a", "c", capacity=3), member("d"), FOUR)
    assert full.names == ["b", "c", "d"]
    assert full.capacity == 3


def test_the_newcomer_stays_however_low_it_is_rated():
    assert add(pool_of("b", "c", capacity=2), member("a"), FOUR).names == ["c", "a"]
    assert add(pool_of("d", capacity=1), member("a"), FOUR).names == ["a"]


def test_the_unrated_count_as_the_mean():
    assert rating_of("new", FOUR) == 200
    assert rating_of("new", {}) == 0
    assert add(pool_of("new", "c", "b", capacity=3), member("d"), FOUR).names == ["new", "c", "d"]
    assert add(pool_of("c", "new", "d", capacity=3), member("b"), FOUR).names == ["c", "d", "b"]


def test_of_equals_the_one_longest_there_leaves():
    assert add(pool_of("x", "y", "z", capacity=3), member("w"), {}).names == ["y", "z", "w"]


def test_duplicates_are_ignored_even_in_a_full_pool():
    full = pool_of("a", "b", capacity=2)
    assert add(full, member("a"), FOUR) == full


def test_one_name_for_two_players_is_refused():
    with pytest.raises(UsageError, match="a is already saved_models/a, not elsewhere/a"):
        add(pool_of("a"), Member(name="a", spec="elsewhere/a"), {})


def test_resize_and_remove():
    small = resize(pool_of("a", "c", "b", "d"), 2, FOUR)
    assert small.names == ["c", "d"]
    assert small.capacity == 2
    assert remove(pool_of("a", "b"), "a").names == ["b"]
    with pytest.raises(UsageError, match="no member 'x'; members: a, b"):
        remove(pool_of("a", "b"), "x")


def test_ratings_are_found_whether_or_not_readouts_are_named():
    rated = {
        "m@8": RatedPlayer(name="m@8", bradley_terry=1.0, games=10),
        "m@64": RatedPlayer(name="m@64", bradley_terry=2.0, games=20),
    }
    assert rating_of("m", rated) == 2
    assert rating_of("m@8", rated) == 1
    assert rating_of("m@100", rated) == 1.5


def test_make_member(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = tmp_path / "saved_models" / "000003-x"
    model.mkdir(parents=True)
    (model / layout.MODEL_JSON).write_text("{}")
    (tmp_path / "saved_models" / "best_model").symlink_to("000003-x")
    assert make_member("random") == Member(name="random", spec="random")
    # A link stands for what it points to now, and the spec names the same player when read again.
    for spec, name in (("best_model", "000003-x"), ("best_model@8", "000003-x@8"), ("000003-x@0", "000003-x@0")):
        made = make_member(f"saved_models/{spec}")
        assert made == Member(name=name, spec=f"saved_models/{name}")
        assert make_member(made.spec) == made
    named = make_member("me=saved_models/best_model@5")
    assert named == Member(name="me", spec="me=saved_models/000003-x@5")
    assert make_member(named.spec) == named
    monkeypatch.chdir(tmp_path / "saved_models")
    assert make_member("./000003-x").spec == "./000003-x"
    monkeypatch.chdir(model)
    assert make_member(str(model)).name == "000003-x"
    with pytest.raises(UsageError, match="heurristic"):
        make_member("heurristic")
    with pytest.raises(FileError):
        make_member("saved_models/000009-none")


# Modes


def softmax(values, temperature):
    weights = [math.exp(value / temperature) for value in values]
    return [weight / sum(weights) for weight in weights]


def qualities(mine, *others):
    noise = 2 * (25 / 6) ** 2
    variances = [noise + mine[1] ** 2 + sigma**2 for _, sigma in others]
    return [
        math.sqrt(noise / variance) * math.exp(-((mine[0] - mu) ** 2) / (2 * variance))
        for (mu, _), variance in zip(others, variances, strict=True)
    ]


QUALITIES = qualities((25, 2), (20, 1), (30, 3), (32, 8))
OF_A_NEWCOMER = qualities((25, 25 / 3), (20, 1), (25, 2), (30, 3), (32, 8))
CHAMPIONS = ["a", "x", "c", "b", "d"]  # oldest first
BY_HAND = [
    ("uniform", "b", {"a": 1 / 3, "c": 1 / 3, "d": 1 / 3}),
    ("uniform", None, dict.fromkeys("abcd", 0.25)),
    ("champion", "b", {"d": 1}),
    ("champion", "d", {"d": 1}),
    ("mirror", "b", {"b": 1}),
    ("fixed=c", "b", {"c": 1}),
    ("fixed=b", "b", {"b": 1}),
    ("top-k=2", "b", {"d": 1 / 2, "c": 1 / 2}),
    ("top-k=2", "d", {"c": 1 / 2, "b": 1 / 2}),
    ("top-k=9", "d", dict.fromkeys("abc", 1 / 3)),
    ("lagged=1-2", "d", {"b": 1 / 2, "c": 1 / 2}),
    ("lagged=1-2", "nobody", {"b": 1 / 2, "c": 1 / 2}),
    ("lagged=1-2", "b", {"c": 1}),
    ("lagged=1-9", "d", {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}),
    ("lagged=3-9", "d", {"a": 1}),
    ("nearest", "b", dict(zip("acd", softmax([-100, -200, -300], 200), strict=True))),
    ("nearest=50", "b", dict(zip("acd", softmax([-100, -200, -300], 50), strict=True))),
    ("nearest=50", "new", dict(zip("abcd", softmax([-200, -100, -100, -200], 50), strict=True))),
    ("match-quality", "b", dict(zip("acd", softmax(QUALITIES, 0.1), strict=True))),
    ("match-quality", "new", dict(zip("abcd", softmax(OF_A_NEWCOMER, 0.1), strict=True))),
    ("match-quality=0.5", "b", dict(zip("acd", softmax(QUALITIES, 0.5), strict=True))),
    ("ts-dist", "b", dict(zip("acd", softmax([-5, -5, -7], 4), strict=True))),
    ("ts-dist=2", "new", dict(zip("abcd", softmax([-5, 0, -5, -7], 2), strict=True))),
    ("exploration", "b", {"a": (1 / 101) / (1 / 101 + 1 / 10 + 1), "c": (1 / 10) / (1 / 101 + 1 / 10 + 1),
                          "d": 1 / (1 / 101 + 1 / 10 + 1)}),
]  # fmt: skip


@pytest.mark.parametrize(("mode", "me", "wanted"), BY_HAND, ids=lambda value: str(value)[:20])
def test_distribution_by_hand(mode, me, wanted):
    found = distribution(parse_mode(mode), NAMES, FOUR, me, CHAMPIONS)
    assert found == pytest.approx(wanted)
    assert sum(found.values()) == pytest.approx(1)


@pytest.mark.parametrize(("mode", "me", "wanted"), BY_HAND, ids=lambda value: str(value)[:20])
def test_ten_thousand_draws_follow_the_distribution(mode, me, wanted):
    rng = np.random.default_rng(7)
    parsed, draws = parse_mode(mode), 10_000
    counts = Counter(choose(parsed, NAMES, FOUR, me, CHAMPIONS, rng, pytest.fail) for _ in range(draws))
    assert set(counts) <= set(wanted)
    found = [counts[name] for name in wanted]
    if len(wanted) > 1:  # else there is nothing left to test
        assert scipy.stats.chisquare(found, [draws * p for p in wanted.values()]).pvalue > 0.001


def test_every_mode_that_help_names_is_tested():
    named = {text.split("[")[0].split("=")[0].strip() for text in MODES.split(",")}
    assert named == {mode.split("=")[0] for mode, _, _ in BY_HAND}


def test_readouts_do_not_make_another_model():
    """The pool may say m@8 where the journal of promotions says m."""
    chances = distribution(parse_mode("lagged=1-1"), ["m@8", "n@8", "k"], {}, "n", ["k", "m", "n"])
    assert chances == {"m@8": 1}
    assert distribution(parse_mode("champion"), ["m@8", "k"], {}, None, ["k", "m"]) == {"m@8": 1}
    assert distribution(parse_mode("uniform"), ["m@8", "k"], {}, "m", []) == {"k": 1}


@pytest.mark.parametrize("mode", ["uniform", "champion", "top-k=3", "fixed=a", "lagged=1-5", "nearest", "match-quality",
                                  "exploration"])  # fmt: skip
def test_an_empty_pool_is_skipped_with_a_message(mode):
    said = []
    assert choose(parse_mode(mode), [], FOUR, "a", CHAMPIONS, np.random.default_rng(0), said.append) is None
    assert len(said) == 1
    assert "the pool is empty" in said[0]
    assert mode in said[0]


def test_a_pool_without_anybody_that_fits_is_skipped_with_a_message():
    said = []
    for mode, names in (("fixed=q", ["a"]), ("uniform", ["a"]), ("lagged=1-1", ["a", "b"]), ("champion", ["a"])):
        assert choose(parse_mode(mode), names, {}, "a", [], np.random.default_rng(0), said.append) is None
    assert said[0].startswith("no opponent by mode fixed=q: none of a fits")
    assert len(said) == 4


def test_mirror_needs_no_pool():
    assert choose(parse_mode("mirror"), [], {}, "me", [], np.random.default_rng(0), pytest.fail) == "me"


@pytest.mark.parametrize("text", ["", "best", "top-k", "top-k=0", "top-k=x", "uniform=2", "fixed=", "lagged=5-1",
                                  "lagged=0-3", "lagged=2", "nearest=0", "nearest=-1", "nearest=", "nearest=nan",
                                  "match-quality=1e400", "mirror=1"])  # fmt: skip
def test_wrong_modes(text):
    with pytest.raises(UsageError, match="wanted one of uniform, champion, lagged"):
        parse_mode(text)


# The command, and what evaluate does to the pool

STRENGTHS = {"000001-a@8": 100.0, "000002-b@8": 300.0, "000003-c@8": 200.0, "random": 0.0}


class Heard(Progress):
    def __init__(self):
        self.said = []

    def warn(self, text):
        self.said.append(text)


@pytest.fixture
def run_folder(tmp_path, monkeypatch):
    """A run's folder, gone into: four models, best_model, and ratings of all but the newest."""
    monkeypatch.chdir(tmp_path)
    for name in ("000001-a", "000002-b", "000003-c", "000004-d"):
        (tmp_path / "saved_models" / name).mkdir(parents=True)
        (tmp_path / "saved_models" / name / layout.MODEL_JSON).write_text("{}")
    (tmp_path / "saved_models" / layout.CHAMPION).symlink_to("000004-d")
    players = [RatedPlayer(name=name, bradley_terry=elo, games=10) for name, elo in STRENGTHS.items()]
    write_record(
        tmp_path / "data" / "ratings.json",
        Ratings(game="go:9", anchor="random", anchor_elo=0, matches=1, games=20, players=players),
    )
    return tmp_path


def names(summary):
    return [member.name for member in summary.members]


def test_add_show_remove(run_folder):
    assert names(pool()) == []
    assert pool("add", "random").added == ["random"]
    pool("add", "saved_models/000001-a")
    summary = pool("add", "saved_models/best_model")
    assert summary.added == ["000004-d"]
    # Best first, the unrated last; a model named without readouts has the rating of its games.
    shown = pool()
    assert [(one.name, one.rating, one.games) for one in shown.members] == [
        ("000001-a", 100.0, 10), ("random", 0.0, 10), ("000004-d", None, 0),
    ]  # fmt: skip
    assert [one.rated_as for one in shown.members] == ["000001-a@8", "random", None]
    assert shown.members[2].spec == "saved_models/000004-d"
    assert (shown.capacity, shown.path, shown.added, shown.evicted) == (5, "data/pool.json", [], [])
    assert pool("remove", "random").removed == ["random"]
    assert names(pool()) == ["000001-a", "000004-d"]


def test_a_full_pool_evicts_and_the_rating_stays(run_folder):
    pool(capacity=2)
    pool("add", "saved_models/000003-c")
    pool("add", "saved_models/000001-a")
    summary = pool("add", "saved_models/000002-b")
    assert summary.evicted == ["000001-a"]
    assert names(summary) == ["000002-b", "000003-c"]
    back = pool("add", "saved_models/000001-a", capacity=3)
    assert back.evicted == []
    assert all(one.rating is not None for one in back.members)


def test_built_in_players_and_the_champion_never_leave(run_folder):
    set_champion(run_folder / "saved_models", run_folder / "saved_models/000001-a", {"reason": "test"})
    for player in ("random", "mine=heuristic", "saved_models/000001-a", "saved_models/000003-c"):
        pool("add", player, capacity=4)
    assert pool("add", "saved_models/000002-b").evicted == ["000003-c"]
    with pytest.raises(UsageError, match="random, mine, 000001-a never leave"):
        pool(capacity=2)
    assert pool(capacity=3).evicted == ["000002-b"]
    with pytest.raises(UsageError, match="so there is no room; wanted a larger --capacity"):
        pool("add", "saved_models/000003-c")
    assert pool("add", "saved_models/000003-c", by_rating=True).added == []
    assert read_pool(run_folder / "data/pool.json").names == ["random", "mine", "000001-a"]
    assert pool("remove", "random").removed == ["random"]  # who asks for it by name may


def test_by_rating_only_the_best_get_in():
    assert add(pool_of("b", "c", capacity=2), member("a"), FOUR, by_rating=True).names == ["b", "c"]
    assert add(pool_of("a", "c", capacity=2), member("b"), FOUR, by_rating=True).names == ["c", "b"]
    assert add(pool_of("a", capacity=2), member("b"), FOUR, by_rating=True).names == ["a", "b"]


def test_capacity_alone_shrinks(run_folder):
    for name in ("000001-a", "000002-b", "000003-c"):
        pool("add", f"saved_models/{name}")
    summary = pool(capacity=1)
    assert summary.evicted == ["000001-a", "000003-c"]
    assert read_pool(run_folder / "data/pool.json").names == ["000002-b"]
    assert read_pool(run_folder / "data/pool.json").capacity == 1


def test_duplicates_change_nothing(run_folder):
    pool("add", "heuristic")
    before = (run_folder / "data/pool.json").stat().st_mtime_ns
    summary = pool("add", "heuristic")
    assert (summary.added, summary.already, names(summary)) == ([], ["heuristic"], ["heuristic"])
    assert (run_folder / "data/pool.json").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("action", "what", "capacity", "said"),
    [
        ("grow", "x", None, "pool grow: wanted add SPEC, remove NAME"),
        ("add", None, None, "pool add: wanted add SPEC, remove NAME"),
        ("remove", None, None, "pool remove: wanted add SPEC, remove NAME"),
        (None, "random", None, "pool random: wanted add SPEC, remove NAME"),
        ("add", "heurristic", None, "heurristic"),
        ("remove", "random", None, "no member 'random'; members: none"),
        (None, None, 0, "--capacity 0: wanted at least 1"),
    ],
)
def test_wrong_use(run_folder, action, what, capacity, said):
    with pytest.raises(UsageError, match=said):
        pool(action, what, capacity=capacity)
    assert not (run_folder / "data/pool.json").exists()


def test_damaged_files(run_folder):
    pool("add", "random")
    ratings = run_folder / "data/ratings.json"
    ratings.write_text("{")
    heard = Heard()
    assert names(pool("add", "heuristic", progress=heard)) == ["random", "heuristic"]
    assert [one.rating for one in pool(progress=heard).members] == [None, None]
    assert names(pool("remove", "random", progress=heard)) == ["heuristic"]
    assert len(heard.said) == 3
    assert all("all players as unrated" in text and "`python main.py ratings`" in text for text in heard.said)
    (run_folder / "data/pool.json").write_text("{")
    for action in (lambda: pool(), lambda: pool("add", "random")):
        with pytest.raises(FileError, match="pool add SPEC"):
            action()


def _add_ten(worker):
    for number in range(10):
        pool("add", f"h{worker}-{number}=heuristic")


def test_processes_do_not_undo_each_others_changes(run_folder):
    pool(capacity=100)
    workers = [multiprocessing.get_context("fork").Process(target=_add_ten, args=(worker,)) for worker in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert len(read_pool(run_folder / "data/pool.json").members) == 30


def test_evaluate_remembers_a_champion(run_folder):
    path, ratings = run_folder / "data/pool.json", run_folder / "data/ratings.json"
    for name in ("000001-a", "000002-b", "000003-c", "000004-d"):
        pool("add", f"saved_models/{name}", path, ratings)
    assert read_pool(path).names == ["000001-a", "000002-b", "000003-c", "000004-d"]
    pool(capacity=4)
    assert pool("add", "random", path, ratings).evicted == ["000001-a"]
    assert pool("add", "random", path, ratings).added == []


def test_unreadable_ratings_do_not_stop_a_promotion(run_folder):
    path, ratings = run_folder / "data/pool.json", run_folder / "data/ratings.json"
    pool("add", "saved_models/000002-b", capacity=1)
    ratings.write_text("{")
    heard = Heard()
    assert pool("add", "saved_models/best_model", path, ratings, progress=heard).evicted == ["000002-b"]
    assert len(heard.said) == 1
    assert "ratings.json" in heard.said[0]


def test_a_change_of_the_pool_sweeps_what_a_killed_one_left(tmp_path):
    path = tmp_path / "pool.json"
    left = tmp_path / f".pool.json~{layout.this_host()}~{2**22 + 1}~20261124T000000~0123abcd.tmp"
    left.write_text("half")
    pool("add", "random", path, tmp_path / "ratings.json")
    assert [one.name for one in tmp_path.glob("*.json")] == ["pool.json"] and not left.exists()
