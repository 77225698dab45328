"""The pool command, and what evaluate does to the pool."""

import multiprocessing

import pytest

from pipeline.errors import FileError, UsageError
from pipeline.progress import Progress
from pipeline.ratings.pool_command import pool, remember_champion
from pipeline.storage import layout
from pipeline.storage.ratings import RatedPlayer, Ratings, read_pool, write_ratings

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
    write_ratings(
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
    pool("add", "random")
    pool("add", "saved_models/000001-a")
    summary = pool("add", "saved_models/000002-b")
    assert summary.evicted == ["random"]
    assert names(summary) == ["000002-b", "000001-a"]
    back = pool("add", "random", capacity=3)
    assert back.evicted == []
    assert {one.name: one.rating for one in back.members}["random"] == 0.0


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
        ("grow", "x", None, "pool grow: no such action; wanted add SPEC, remove NAME"),
        ("add", None, None, "pool add: wanted a spec"),
        ("remove", None, None, "pool remove: wanted a member's name, e.g. `python main.py pool remove heuristic`"),
        (None, "random", None, "pool random: wanted add SPEC or remove NAME"),
        ("add", "heurristic", None, "heurristic"),
        ("remove", "random", None, "no member 'random'; there are: none"),
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
    assert all("everybody as unrated" in text and "`python main.py ratings`" in text for text in heard.said)
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
        remember_champion(path, ratings, f"saved_models/{name}")
    assert read_pool(path).names == ["000001-a", "000002-b", "000003-c", "000004-d"]
    pool(capacity=4)
    assert remember_champion(path, ratings, "random").evicted == ["000001-a"]
    assert remember_champion(path, ratings, "random").added == []


def test_unreadable_ratings_do_not_stop_a_promotion(run_folder):
    path, ratings = run_folder / "data/pool.json", run_folder / "data/ratings.json"
    pool("add", "saved_models/000002-b", capacity=1)
    ratings.write_text("{")
    heard = Heard()
    assert remember_champion(path, ratings, "saved_models/best_model", heard).evicted == ["000002-b"]
    assert len(heard.said) == 1
    assert "ratings.json" in heard.said[0]
