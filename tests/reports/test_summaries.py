"""The tables of ratings and of the pool, as text."""

import dataclasses

from pipeline.ratings.command import RatingRow, RatingsSummary
from pipeline.ratings.pool import PoolRow, PoolSummary
from pipeline.reports.summaries import pool_table, ratings_table

SUMMARY = RatingsSummary(
    game="go:9",
    system="bradley-terry",
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
    assert lines[4] == "Bradley-Terry in Elo, random=0; +- 95 %, relative to the mean of the players listed together"
    assert lines[5] == "go:9, 1,250 games of 3 matches; by all three systems: data/ratings.json"
    assert len(lines) == 6


def test_warnings_and_skipped_matches_are_said():
    text = ratings_table(dataclasses.replace(SUMMARY, warnings=["x never met y"], matches_skipped=2))
    assert text.splitlines()[-2:] == ["2 damaged matches skipped", "note: x never met y"]


def test_grammar_of_one():
    text = ratings_table(dataclasses.replace(SUMMARY, games=1, matches=1, matches_skipped=1))
    assert text.splitlines()[-2:] == [
        "go:9, 1 game of 1 match; by all three systems: data/ratings.json", "1 damaged match skipped",
    ]  # fmt: skip


def test_what_was_not_written_and_who_was_left_out():
    assert "not written; --output FILE" in ratings_table(dataclasses.replace(SUMMARY, path=None))
    text = ratings_table(dataclasses.replace(SUMMARY, left_out=1))
    assert text.splitlines()[-1].startswith("1 other rated player left out here; in data/ratings.json +-")


def test_groups_are_blocks():
    rows = [*SUMMARY.rows, dataclasses.replace(SUMMARY.rows[1], rank=1, name="alone", group=1)]
    lines = ratings_table(dataclasses.replace(SUMMARY, rows=rows)).splitlines()
    assert [line.split()[:2] for line in lines[1:6]] == [["1", "000001-a@800"], ["2", "random"], [], ["1", "alone"], []]


def test_other_methods():
    rows = [dataclasses.replace(row, error=None) for row in SUMMARY.rows]
    elo = ratings_table(dataclasses.replace(SUMMARY, system="elo", rows=rows))
    assert elo.splitlines()[1].split()[3] == "-"
    assert "starts at 1500" in elo
    assert "random=0" not in elo
    skill = ratings_table(dataclasses.replace(SUMMARY, system="trueskill"))
    assert skill.splitlines()[1].split()[2:4] == ["812.4", "95.6"]


def test_pool_table():
    members = [PoolRow("m", "saved_models/m", 120.4, 30.0, 40, "m@8"), PoolRow("random", "random", None, None, 0)]
    lines = pool_table(PoolSummary("data/pool.json", 5, members, ["m"], [], ["old"])).splitlines()
    assert lines[:2] == ["added: m", "evicted: old"]
    assert "the lowest rated leaves" in lines[2]
    assert lines[4].split() == ["m", "m@8", "120", "30", "40", "saved_models/m"]
    assert lines[5].split() == ["random", "unrated", "-", "-", "0", "random"]
    assert lines[6] == "2 of at most 5: data/pool.json"
    assert "nobody is in the pool" in pool_table(PoolSummary("p", 5, [], [], [], []))
    again = pool_table(PoolSummary("p", 5, members, [], [], [], ["m"]))
    assert again.splitlines()[0] == "already a member: m"
    assert "lowest" not in again
