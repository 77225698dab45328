"""The tables of ratings and of the pool, as text."""

import dataclasses

from pipeline.reports.ratings import PoolRow, PoolSummary, RatingRow, RatingsSummary, pool_table, ratings_table

SUMMARY = RatingsSummary(
    game="go:9",
    method="bradley-terry",
    anchor="random=0",
    matches=3,
    matches_skipped=0,
    games=1250,
    path="data/ratings.json",
    rows=[
        RatingRow(1, "000001-a@800", "model", 812.4, 95.6, 100, 75, 5, 20, 333.3, 0),
        RatingRow(2, "random", "random", -0.2, 101.0, 100, 20, 5, 75, 812.4, 0),
    ],
)


def test_a_line_per_player():
    lines = ratings_table(SUMMARY).splitlines()
    assert " ".join(lines[0].split()) == "rank player rating +- games won drawn lost average opponent"
    assert lines[1].split() == ["1", "000001-a@800", "812", "96", "100", "75.0%", "5.0%", "20.0%", "333"]
    assert lines[2].split() == ["2", "random", "0", "101", "100", "20.0%", "5.0%", "75.0%", "812"]
    assert lines[4] == "Bradley-Terry in Elo, random=0; +- 95 %, relative to the mean of the players that games connect"
    assert lines[5] == "go:9, 1,250 games of 3 matches; by all three methods: data/ratings.json"
    assert len(lines) == 6


def test_warnings_and_skipped_matches_are_said():
    text = ratings_table(dataclasses.replace(SUMMARY, warnings=["x never met y"], matches_skipped=2))
    assert text.splitlines()[-2:] == ["2 damaged matches are missing here", "note: x never met y"]


def test_other_methods():
    rows = [dataclasses.replace(row, error=None) for row in SUMMARY.rows]
    elo = ratings_table(dataclasses.replace(SUMMARY, method="elo", rows=rows))
    assert elo.splitlines()[1].split()[3] == "-"
    assert "starts at 1500" in elo
    assert "random=0" not in elo
    skill = ratings_table(dataclasses.replace(SUMMARY, method="trueskill"))
    assert skill.splitlines()[1].split()[2:4] == ["812.4", "95.6"]


def test_pool_table():
    members = [PoolRow("m@8", "saved_models/m@8", 120.4, 30.0, 40), PoolRow("random", "random", None, None, 0)]
    lines = pool_table(PoolSummary("data/pool.json", 5, members, ["m@8"], [], ["old"])).splitlines()
    assert lines[:2] == ["added: m@8", "evicted: old"]
    assert lines[3].split() == ["m@8", "120", "30", "40", "saved_models/m@8"]
    assert lines[4].split() == ["random", "-", "-", "0", "random"]
    assert lines[5] == "2 of at most 5: data/pool.json"
    assert "nobody is in the pool" in pool_table(PoolSummary("p", 5, [], [], [], []))
