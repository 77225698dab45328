"""The mix of opponents: what a user may write, what seeds sample from it, and which players the names stand for."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from pipeline.errors import FileError, UsageError
from pipeline.games.specs import parse_game
from pipeline.methods.alphazero import method as alphazero
from pipeline.methods.method import Encounter, game_seeds
from pipeline.methods.named import method_named
from pipeline.progress import Progress
from pipeline.ratings.pool import make_member
from pipeline.run.models import read_champions, read_info, set_champion
from pipeline.run.ratings import Pool, write_record
from pipeline.selfplay import opponents as room
from pipeline.selfplay.config import SelfplayConfig
from pipeline.selfplay.opponents import OpponentSource, OthersReader, champion_before, parse_mix
from pipeline.selfplay.playing import Plan
from tests.helpers import Heard, make_champion, make_model
from tests.search.helpers import hashed_evaluator

# What a user writes


def test_weights_are_shares_of_their_sum() -> None:
    mix = parse_mix(" random=5, previous = 30,mirror=65 ")
    assert mix.names == ("random", "previous", "mirror") and mix.shares == (0.05, 0.3, 0.65)
    assert parse_mix("pool:top-k=3=.5,pool:uniform=1.5").names == ("pool:top-k=3", "pool:uniform")
    assert parse_mix("champion=1,mirror=2,heuristic=1").shares == (0.75, 0.25)  # champion is another word for mirror
    assert parse_mix("mirror=1").only_mirror and parse_mix("champion=3").only_mirror
    assert not parse_mix("mirror=1,random=0.001").only_mirror


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "entry '': wanted NAME=WEIGHT"),
        ("mirror", "entry 'mirror': wanted NAME=WEIGHT"),
        ("mirror=1,", "entry '': wanted NAME=WEIGHT"),
        ("=3", "entry '=3': wanted NAME=WEIGHT"),
        ("mirror=0", "entry 'mirror=0': weight '0'; wanted a number above 0"),
        ("mirror=1,random=-2", "entry 'random=-2': weight '-2'"),
        ("mirror=x", "weight 'x'"),
        ("mirror=nan", "weight 'nan'"),
        ("mirror=inf", "weight 'inf'"),
        ("rabdom=5,mirror=1", "entry 'rabdom=5': unknown opponent 'rabdom'; wanted mirror, champion, previous, random"),
        ("random=5,random=6", "entry 'random=6': random has a weight already; wanted each name once"),
        ("pool:top-k=3=1,mirror=1,pool:top-k=3=1", "entry 'pool:top-k=3=1': pool:top-k=3 has a weight already"),
        ("champion=1,champion=2", "champion has a weight already"),
        ("rabdom=5", "or pool:MODE, where MODE is one of uniform, champion, lagged=FROM-TO, mirror, fixed=NAME, top-k"),
        ("gtp:gnugo --mode gtp=5", "engines don't take part in self-play"),
        ("pool:best=5", "entry 'pool:best=5': mode 'best'.*wanted one of uniform"),
        ("pool:top-k=3", "mode 'top-k'.*then =WEIGHT"),
    ],
)
def test_what_is_no_mix(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_mix(text)


# What the seeds draw


def test_draws_match_the_ratios_and_sides_are_balanced() -> None:
    mix = parse_mix("random=5,previous=30,mirror=65")
    draws = [mix.sample(seed.encounter) for seed in game_seeds(1, iter(range(10_000)), 0.1)]
    names = [draw.name for draw in draws]
    counts = [names.count(name) for name in mix.names]
    assert stats.chisquare(counts, [500, 3000, 6500]).pvalue > 0.001
    assert stats.chisquare([names[:1000].count(name) for name in mix.names], [50, 300, 650]).pvalue > 0.001
    for name in mix.names:
        first = sum(draw.learner == 0 for draw in draws if draw.name == name)
        assert stats.binomtest(first, names.count(name)).pvalue > 0.001
    assert len({draw.seed for draw in draws}) == 10_000
    apart = stats.contingency.crosstab(names[:-1], names[1:]).count  # one game's opponent says nothing of the next's
    assert stats.chi2_contingency(apart).pvalue > 0.001


def test_a_games_opponent_is_the_same_in_any_thread() -> None:
    mix = parse_mix("random=1,previous=1,mirror=2")

    def drawn(numbers: range) -> dict[int, tuple[Any, ...]]:
        seeds = game_seeds(3, iter(numbers), 0.1)
        draws = [mix.sample(seed.encounter) for seed in seeds]
        return {number: (d.name, d.learner, d.seed) for number, d in zip(numbers, draws, strict=True)}

    assert drawn(range(60)) == drawn(range(0, 60, 2)) | drawn(range(1, 60, 2))


# Who is behind the names


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Networks are hashed evaluators; the names of those that were loaded, in order."""
    names: list[str] = []

    def load(model: Any, max_batch: int, num_threads: int, backend: str, progress: Progress) -> list[Any]:
        names.append(model.path.name)
        return [hashed_evaluator(parse_game(model.info.game), model.info.number)] * num_threads

    monkeypatch.setattr(alphazero, "load_with_margins", load)
    return names


def source_of(tmp_path: Path, text: str, spec: str = "tictactoe") -> tuple[OpponentSource, Heard]:
    config = SelfplayConfig(
        network=tmp_path / "saved_models" / "best_model", pool=tmp_path / "pool.json", opponents=text, readouts=4
    )
    told, plan = Heard(), Plan(config, parse_game(spec), method_named("alphazero"), threads=2, rows=8)
    return OpponentSource(plan, told, OthersReader(plan, told).of), told


def met_by(source: OpponentSource, learner: Path, count: int = 40) -> set[str | None]:
    """The names of the opponents in this many games; None where the model plays itself."""
    found = [source.meet(number % 2, number, learner.resolve()) for number in range(count)]
    assert all(encounter is None or isinstance(encounter, Encounter) for encounter in found)
    return {encounter and encounter.opponent.name for encounter in found}


def test_previous_is_the_champion_before(tmp_path: Path, loaded: list[str]) -> None:
    models = tmp_path / "saved_models"
    first = make_champion(models, number=0)
    source, told = source_of(tmp_path, "previous=1")
    source.prepare(first)
    assert met_by(source, first) == {None}
    assert told.said == ["no champion before 000000-test: it meets itself instead"]  # once
    second = make_champion(models, number=1)
    assert met_by(source, second) == {"000000-test"} and loaded == ["000000-test"]
    make_model(models, number=2)  # trained, but it lost
    third = make_champion(models, number=3)
    assert met_by(source, third) == {"000001-test"}
    assert met_by(source, second) == {"000000-test"}  # a game that still starts with the old model
    assert loaded == ["000000-test", "000001-test"]


def test_a_previous_champion_that_is_gone_or_damaged(tmp_path: Path, loaded: list[str]) -> None:
    models = tmp_path / "saved_models"
    first, second = make_champion(models, number=0), make_champion(models, number=1)
    weights = first / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(FileError, match="damaged"):
        source_of(tmp_path, "previous=1")[0].prepare(second)
    shutil.rmtree(first)
    source, told = source_of(tmp_path, "previous=1")
    assert met_by(source, second) == {None} and len(told.warned) == 1 and "is gone" in told.warned[0]


def test_a_previous_champion_of_another_game(tmp_path: Path, loaded: list[str]) -> None:
    make_champion(tmp_path / "saved_models", number=0, spec="connect4")
    second = make_champion(tmp_path / "saved_models", number=1)
    with pytest.raises(FileError, match="plays connect4; wanted a model that plays tictactoe"):
        source_of(tmp_path, "previous=1")[0].prepare(second)


def test_an_opponent_must_play_on_all_boards(tmp_path: Path) -> None:
    """A specialist of 9x9 sees gomoku:any's board of that size alone."""
    config = SelfplayConfig(boards="9=1,11=1")
    plan = Plan(config, parse_game("gomoku:any,opponents"), method_named("alphazero"))
    of_any = read_info(make_model(tmp_path, number=0, spec="gomoku:any,opponents"))
    plan.check_opponent(of_any, tmp_path)
    with pytest.raises(FileError, match=r"it plays gomoku:9.*; wanted a model that plays gomoku:any,size=11"):
        plan.check_opponent(of_any.model_copy(update={"game": "gomoku:9,opponents"}), tmp_path)


def test_who_was_champion_before(tmp_path: Path) -> None:
    models = tmp_path / "saved_models"
    a, b, c = (make_model(models, number=number) for number in range(3))
    assert read_champions(models) == []
    for reason, path in enumerate((a, a, b, c, b)):  # again for another reason; back to an older one
        set_champion(models, path, {"reason": reason})
    champions = read_champions(models)
    assert champions == [path.resolve() for path in (a, b, c, b)]
    assert [champion_before(champions, path.resolve()) for path in (a, b, c)] == [None, c.resolve(), b.resolve()]
    assert champion_before(champions, tmp_path) is None
    link = models / "best_model"  # by hand, then a promotion: the journal knows whom it followed
    link.unlink()
    link.symlink_to(a.name)
    set_champion(models, c, {"reason": "x"})
    assert champion_before(read_champions(models), c.resolve()) == a.resolve()


def test_built_ins_and_sides(tmp_path: Path) -> None:
    champion = make_champion(tmp_path / "saved_models")
    source, _ = source_of(tmp_path, "random=1,heuristic=1,mirror=1")
    assert met_by(source, champion) == {"random", "heuristic", None}
    met = [source.meet(0, number, champion) for number in range(40)]
    assert {encounter.learner for encounter in met if encounter} == {0, 1}
    assert len({encounter.opponent for encounter in met if encounter}) == 2  # a thread makes each player once


def pool_of(tmp_path: Path, *specs: str) -> None:
    write_record(tmp_path / "pool.json", Pool(capacity=9, members=tuple(make_member(spec) for spec in specs)))


def test_members_of_the_pool(tmp_path: Path, loaded: list[str]) -> None:
    models = tmp_path / "saved_models"
    first, second = make_champion(models, number=0), make_champion(models, number=1)
    third = make_champion(models, number=2)
    pool_of(tmp_path, str(first), f"{second}@800", str(third), "random", "gtp:gnugo --mode gtp")
    source, told = source_of(tmp_path, "pool:uniform=1")
    source.prepare(third.resolve())
    assert met_by(source, third) == {"000000-test", "000001-test", "random"}  # neither itself nor the engine
    assert sorted(loaded) == ["000000-test", "000001-test"]  # each once
    assert sum("engines don't take part" in line for line in told.warned) == 1
    assert met_by(source_of(tmp_path, "pool:lagged=1-1=1")[0], third) == {"000001-test"}
    assert met_by(source_of(tmp_path, "pool:champion=1")[0], third) == {None}  # which it is itself
    assert met_by(source_of(tmp_path, "pool:fixed=000000-test=1")[0], third) == {"000000-test"}


def test_a_member_that_cannot_be_read_is_warned_of_once(tmp_path: Path, loaded: list[str]) -> None:
    models = tmp_path / "saved_models"
    first, second = make_champion(models, number=0), make_champion(models, number=1)
    champion = make_champion(models, number=2)
    pool_of(tmp_path, str(first), str(second))
    (second / "weights.safetensors").write_bytes(b"damaged")
    source, told = source_of(tmp_path, "pool:uniform=1")
    source.prepare(champion.resolve())
    assert met_by(source, champion) == {"000000-test", None}
    (warned,) = told.warned
    assert "000001-test" in warned and warned.endswith("the model meets itself instead")


def test_a_member_that_is_gone_is_left_out_unless_it_is_asked_for(tmp_path: Path, loaded: list[str]) -> None:
    models = tmp_path / "saved_models"
    first, second = make_champion(models, number=0), make_champion(models, number=1)
    champion = make_champion(models, number=2)
    pool_of(tmp_path, str(first), str(second))
    shutil.rmtree(second)
    source, told = source_of(tmp_path, "pool:uniform=1")
    assert met_by(source, champion) == {"000000-test"}
    assert len(told.warned) == 1 and "pool.json: 000001-test" in told.warned[0] and "left out" in told.warned[0]
    with pytest.raises(UsageError, match=r"pool\.json: 000001-test: .*pool remove 000001-test"):
        source_of(tmp_path, "pool:fixed=000001-test=1")[0].prepare(champion)


def test_an_engine_asked_for_by_name(tmp_path: Path) -> None:
    pool_of(tmp_path, "gnu=gtp:gnugo --mode gtp")
    champion = make_champion(tmp_path / "saved_models")
    with pytest.raises(UsageError, match="gnu is an engine"):
        source_of(tmp_path, "pool:fixed=gnu=1")[0].prepare(champion)


def test_an_empty_pool_is_warned_of_once_and_leaves_mirror_games(tmp_path: Path) -> None:
    champion = make_champion(tmp_path / "saved_models")
    source, told = source_of(tmp_path, "pool:uniform=1")
    assert met_by(source, champion) == {None} and len(told.warned) == 1 and not told.said
    assert "the pool is empty" in told.warned[0] and "pool add SPEC" in told.warned[0]
    assert told.warned[0].endswith("the model meets itself instead")


def test_a_damaged_pool_is_an_error_before_the_first_game(tmp_path: Path) -> None:
    champion = make_champion(tmp_path / "saved_models")
    (tmp_path / "pool.json").write_text("{")
    with pytest.raises(FileError, match=r"pool\.json"):
        source_of(tmp_path, "pool:uniform=1,mirror=1")[0].prepare(champion)


def test_only_so_many_models_stay_loaded(tmp_path: Path, loaded: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MAX_MODELS", 2)
    models = tmp_path / "saved_models"
    paths = [make_champion(models, number=number) for number in range(4)]
    source, _ = source_of(tmp_path, "previous=1")
    for learner in (1, 2, 2, 3, 3, 1):  # the champions before them: 0 1 1 2 2 0
        met_by(source, paths[learner], 4)
    assert loaded == ["000000-test", "000001-test", "000002-test", "000000-test"]
