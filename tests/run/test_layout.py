from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.errors import UsageError
from pipeline.run import layout

TIME = datetime(2026, 11, 21, 13, 15, 0, 123456, UTC)


@pytest.mark.parametrize(("number", "label"), [(0, "init"), (18, "b2c32"), (999_999, "a.b_c-d"), (7, "0-1")])
def test_model_names_round_trip(number: int, label: str) -> None:
    name = layout.model_name(number, label)
    assert layout.number_of(name) == number and name.endswith(f"-{label}")


def test_model_name_looks_as_documented() -> None:
    assert layout.model_name(18, "name") == "000018-name"


@pytest.mark.parametrize(
    "name",
    ["best_model", "18-name", "000018", "000018-", "000018-.x", ".000018-a.training", "000018-a-vs-b", "0000018-a"],
)
def test_other_names_are_no_numbered_models(name: str) -> None:
    assert layout.number_of(name) is None


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "a-vs-b", "best_model", "a b", "ä", ".."])
def test_names_that_no_model_may_have(name: str) -> None:
    with pytest.raises(UsageError, match="model name"):
        layout.check_model_name(name)


@pytest.mark.parametrize("number", [-1, 1_000_000])
def test_model_numbers_that_do_not_fit(number: int) -> None:
    with pytest.raises(UsageError, match=str(number)):
        layout.model_name(number, "a")


def test_checkpoint_is_hidden_beside_its_model() -> None:
    path = layout.checkpoint_path(Path("saved_models/000018-name"))
    assert path == Path("saved_models/.000018-name.training")
    assert layout.parse_checkpoint_name(path.name) == "000018-name"
    assert layout.parse_checkpoint_name("000018-name") is None
    assert layout.number_of(path.name) is None


def test_shard_names_round_trip() -> None:
    name = layout.ShardName(TIME, 1)
    assert name.shard == "20261121T131500.123456-000001.gz"
    assert name.meta == "20261121T131500.123456-000001.meta"
    assert layout.parse_shard_name(name.shard) == layout.parse_shard_name(name.meta) == name


def test_numbers_of_shards_have_as_many_digits_as_they_need() -> None:
    name = layout.ShardName(TIME, 1_000_001)
    assert layout.parse_shard_name(name.shard) == name
    assert layout.parse_shard_name("20261121T131500.123456-0000001.gz") is None  # nobody writes that


def test_folders_of_games_sort_by_generation() -> None:
    made = [(3, "000003-a"), (4, "000003-a"), (5, "000005-b"), (5, "000003-a"), (6, "000001-z"), (7, "pretrained")]
    names = [str(layout.games_folder(model, generation)) for generation, model in made]
    assert names == [
        "000003-a",
        "000004+000003-a",
        "000005-b",
        "000005+000003-a",
        "000006+000001-z",
        "000007+pretrained",
    ]
    parsed = [layout.parse_games_folder(name) for name in names]
    assert [(one.generation, one.model) for one in parsed if one] == made
    numbers = [name[:6] for name in sorted(names)]
    assert numbers == sorted(numbers)


def test_nobody_plays_before_the_model_is_made() -> None:
    numbered = layout.GamesFolder(3, "000003-a")
    assert layout.parse_games_folder("000003-a") == layout.games_folder("000003-a", 2) == numbered


@pytest.mark.parametrize("name", ["mine", "+a", "00003+a", "000003+", "000003+.a", "000003+000004+a", ".a", "a b"])
def test_other_names_are_no_folders_of_games(name: str) -> None:
    assert layout.parse_games_folder(name) is None


def test_shard_times_are_written_in_utc() -> None:
    elsewhere = TIME.astimezone(timezone(timedelta(hours=-7)))
    assert layout.ShardName(elsewhere, 1).shard == layout.ShardName(TIME, 1).shard


@pytest.mark.parametrize(
    "name", ["x.gz", "20261121T131500.123456-000001.h5", "20261399T131500.123456-000001.gz", ".a.gz"]
)
def test_other_names_are_no_shards(name: str) -> None:
    assert layout.parse_shard_name(name) is None


def test_shard_paths_and_ids() -> None:
    folder = layout.shard_folder(Path("data/selfplay"), "000017-name", "w03", 17)
    path = folder / layout.ShardName(TIME, 1).shard
    assert folder == Path("data/selfplay/000017-name/w03")
    assert layout.meta_path(path) == folder / layout.ShardName(TIME, 1).meta
    assert layout.shard_id(path) == layout.shard_id(layout.meta_path(path)) == f"000017-name/w03/{path.name}"
    for worker in ("", ".w", "a/b", "a b"):
        with pytest.raises(UsageError, match="worker"):
            layout.shard_folder(Path("d"), "000017-name", worker, 17)


def test_chunk_names_round_trip() -> None:
    name = layout.SetName(17, "1a2b3c4d")
    assert layout.chunk_name(name, 3, 190) == "000017-1a2b3c4d-0003-of-0190.h5"
    assert layout.holdout_name(name) == "000017-1a2b3c4d-holdout.h5"
    assert layout.parse_chunk_name("000017-1a2b3c4d-0003-of-0190.h5") == layout.ChunkName(name, 3, 190)
    holdout = layout.parse_chunk_name("000017-1a2b3c4d-holdout.h5")
    assert holdout is not None and (holdout.index, holdout.count) == (-1, 0) and holdout.set == name


@pytest.mark.parametrize(
    "name", ["a.h5", "000017-1a2b3c4d-0190-of-0190.h5", ".000017-1a2b3c4d-holdout.h5", "0-1-2-3.h5"]
)
def test_other_names_are_no_chunks(name: str) -> None:
    assert layout.parse_chunk_name(name) is None


def test_a_set_has_at_most_9999_chunks() -> None:
    with pytest.raises(UsageError, match="9999"):
        layout.chunk_name(layout.SetName(1, "1a2b3c4d"), 0, 10_000)


@pytest.mark.parametrize(
    ("challenger", "champion"),
    [("000018-new", "000017-old"), ("000018-new@800", "000018-new@0"), ("random", "gnugo-1a2b3c4d"), ("a", "vs-b")],
)
def test_match_names_round_trip(challenger: str, champion: str) -> None:
    name = layout.match_name(challenger, champion)
    assert name == f"{challenger}-vs-{champion}"
    assert layout.parse_match_name(name) == (challenger, champion)


@pytest.mark.parametrize("name", ["000018-new", "a-vs-", "-vs-a", "a-vs-b-vs-c", ".a-vs-b", "a-vs-.b", "a b-vs-c"])
def test_other_names_are_no_matches(name: str) -> None:
    assert layout.parse_match_name(name) is None


@pytest.mark.parametrize(
    "name", ["", ".a", "@8", "-a", "a/b", "a b", "a=b", "ä", "a-vs-b", "a-vs", "best_model", "a\n"]
)
def test_names_that_no_player_may_have(name: str) -> None:
    for make in (layout.check_player_name, lambda name: layout.match_name(name, "b")):
        with pytest.raises(UsageError, match="player name"):
            make(name)


@pytest.mark.parametrize(
    ("address", "run"),
    [
        ("b/go9/data/selfplay", "b/go9"),
        ("b/ml/data/go9/data/selfplay", "b/ml/data/go9"),
        ("b/data/go9/data/selfplay/000001-data/data", "b/data/go9"),
        ("b/data/evaluate/go9/saved_models/best_model>=0.5", "b/data/evaluate/go9"),
        ("b/saved_models/go9/data/mine", "b/saved_models/go9"),  # a folder of the user's own
        ("b/data/go9/saved_models/mine", "b/data/go9"),  # a model without a number
        ("b/data/go9/data", "b/data/go9"),
    ],
)
def test_addresses_lead_into_the_run_behind_which_our_names_stand(address: str, run: str) -> None:
    parts = tuple(address.split("/"))
    end = layout.end_of_run(parts, False)
    assert end is not None and "/".join(parts[:end]) == run


@pytest.mark.parametrize("address", ["b/go9", "b/data/go9", "data/go9", "b/saved_models/go9"])
def test_addresses_of_runs_lead_into_none(address: str) -> None:
    assert layout.end_of_run(tuple(address.split("/")), True) is None


def test_temporary_names_round_trip_and_say_who_writes() -> None:
    path = layout.temporary_path(Path("data/x~y.gz"))
    assert path.parent == Path("data") and path.name.startswith(".")
    parsed = layout.parse_temporary_name(path.name)
    assert parsed is not None
    assert (parsed.name, parsed.host, parsed.pid) == ("x~y.gz", layout.this_host(), os.getpid())
    assert abs(datetime.now(UTC) - parsed.time) < timedelta(minutes=1)
    assert layout.parse_temporary_name(".x~y.gz~h~5~0123abcd.tmp") is None
    assert layout.temporary_path(Path("data/x~y.gz")) != path
    assert layout.parse_temporary_name("x.tmp") is None


def test_a_container_is_told_from_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    def host(space: int | None) -> str:
        def stat(path: str) -> SimpleNamespace:
            if space is None:
                raise FileNotFoundError(path)
            return SimpleNamespace(st_ino=space)

        layout.this_host.cache_clear()
        with monkeypatch.context() as patched:
            patched.setattr(layout, "os", SimpleNamespace(stat=stat))
            patched.setattr(layout.socket, "gethostname", lambda: "my.machine")
            return layout.this_host()

    assert host(None) == host(0xEFFFFFFC) == "my-machine"  # not Linux; no container
    assert host(4026532178) == "my-machine-4026532178"
    layout.this_host.cache_clear()


def test_names_of_a_kind_sort_by_age() -> None:
    models = [layout.model_name(number, label) for number, label in [(2, "z"), (9, "a"), (10, "b"), (100_000, "A")]]
    times = [TIME + timedelta(microseconds=step) for step in (0, 1, 10, 999_999_999)]
    shards = [layout.ShardName(time, count).shard for time, count in zip(times, (9, 1, 10, 2), strict=True)]
    sets = [
        str(layout.SetName(number, digest)) for number, digest in [(1, "ffffffff"), (2, "00000000"), (10, "aaaaaaaa")]
    ]
    chunks = [layout.chunk_name(layout.SetName(1, "ffffffff"), index, 200) for index in (0, 9, 10, 199)]
    for names in (models, shards, sets, chunks):
        assert sorted(names) == names
