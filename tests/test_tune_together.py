"""Settings drawn at random for both sides, and what the fit makes of their matches."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import tune_together
from benchmarks.tune_together import Settings, draw_both, factor, fit
from pipeline.errors import UsageError
from tests.helpers import make_model


def test_factors_are_read_and_drawn_evenly() -> None:
    factors = [factor("c_puct=0.5..2"), factor("fpu_reduction=0..0.6"), factor("algorithm=puct,gumbel")]
    sides = [side for number in range(64) for side in draw_both(factors, number, 0)]
    c_puct, fpu = (np.array([side[name] for side in sides]) for name in ("c_puct", "fpu_reduction"))
    assert c_puct.min() >= 0.5 and c_puct.max() <= 2 and abs(np.median(c_puct) - 1) < 0.05  # evenly by logarithm
    assert fpu.min() >= 0 and fpu.max() <= 0.6 and abs(fpu.mean() - 0.3) < 0.02
    assert sum(side["algorithm"] == "gumbel" for side in sides) == 64
    whole = [draw_both([factor("max_num_considered_actions=4..32")], number, 0)[0] for number in range(64)]
    drawn = [one["max_num_considered_actions"] for one in whole]
    assert all(type(one) is int for one in drawn) and 4 <= min(drawn) < 6 and 28 < max(drawn) <= 32
    assert draw_both(factors, 3, 0) == draw_both(factors, 3, 0) != draw_both(factors, 3, 1)


@pytest.mark.parametrize(
    "text",
    [
        "c_pact=1..2",
        "c_puct=2..1",
        "c_puct=1",
        "c_puct=1..x",
        "c_puct=-1..1",
        "algorithm=puct,minimax",
        "c_puct",
        "c_puct=[1,2",
        "c_puct=0.5,1,2",
        "algorithm=gumbel,mixed",
    ],
)
def test_wrong_factors_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        factor(text)


def test_the_fit_finds_what_settings_are_worth() -> None:
    """Games by known strengths: 60 Elo for each halving or doubling of c_puct away from 0.75, squared; gumbel +40."""
    factors = [factor("c_puct=0.4..3"), factor("fpu_reduction=0..0.6"), factor("algorithm=puct,gumbel")]
    rng = np.random.default_rng(0)

    def strength(settings: Settings) -> float:
        away = float(np.log2(settings.get("c_puct", factors[0].default) / 0.75))
        return -60 * away**2 + 40 * (settings.get("algorithm") == "gumbel")

    matches = []
    for number in range(64):
        one, other = draw_both(factors, number, 0)
        share = 1 / (1 + 10 ** ((strength(other) - strength(one)) / 400))
        matches.append((one, other, 2 * int(rng.binomial(1000, share)), 1000))
    found = fit(factors, matches)
    asked: list[Settings] = [
        {"c_puct": 0.75},
        {"c_puct": 3.0},
        {"fpu_reduction": 0.6},
        {"algorithm": "gumbel"},
        {"algorithm": "gumbel", "c_puct": 0.75},
        {},
    ]
    for settings in asked:
        elo, error = found.elo(settings)
        assert abs(elo - (strength(settings) - strength({}))) <= error * 1.5 and error < 15, settings
    assert len(tune_together.lines(found)) == 3


def test_matches_are_added_to_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    model = make_model(Path("saved_models"))
    terms = ["data.jsonl", "c_puct=0.5..2", "algorithm=puct,gumbel", "--model", str(model)]
    for matches in (2, 1):
        tune_together.main([*terms, "--matches", str(matches), "--games", "4", "--readouts", "8", "--resign", "0.8"])
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("2 matches, 8 games") and said[3].startswith("3 matches, 12 games")
    assert said[4].startswith("c_puct (default 0.9): 0.5: ") and said[5].startswith(
        "algorithm (default puct): puct: +0"
    )
    rows = [json.loads(line) for line in Path("data.jsonl").read_text().splitlines()]
    assert len({json.dumps([row["one"], row["other"]]) for row in rows}) == 3
    tune_together.main([*terms, "--matches", "0", "--readouts", "9"])
    assert capsys.readouterr().out.startswith("0 matches, 0 games")


def line(one: Settings, other: Settings, **changes: object) -> str:
    match = {"one": one, "other": other, "half_points": 5, "games": 4, "readouts": 8}
    return json.dumps({**match, **changes}) + "\n"


def test_values_that_a_factor_no_longer_has_are_not_taken_for_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text(line({"lcb_deviations": 5}, {"lcb_deviations": 0}))
    common = [str(data), "--matches", "0", "--readouts", "8", "--model", "nowhere"]
    tune_together.main([*common, "lcb_deviations=0,2,5"])
    assert "1 matches, 4 games" in capsys.readouterr().out
    for narrower in ("lcb_deviations=2,5", "lcb_deviations=1..5"):  # of 0 there is no logarithm
        with pytest.raises(SystemExit) as stopped:
            tune_together.main([*common, narrower])
        assert stopped.value.code == 2 and "matches with lcb_deviations=0; name that value" in capsys.readouterr().err


def test_matches_of_several_models_or_games_are_not_counted_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, model = tmp_path / "data.jsonl", make_model(tmp_path / "saved_models")
    sides = {"c_puct": 1.0}, {"c_puct": 2.0}
    common = [str(data), "c_puct=0.5..2", "--readouts", "8", "--matches"]
    data.write_text(line(*sides) + line(*sides, model="a 1", game="go:9") + line(*sides, model="a 1", game="go:9"))
    tune_together.main([*common, "0"])  # an earlier version's lines don't say whose they are
    assert "3 matches" in capsys.readouterr().out
    before = data.read_text()
    for added, matches in (("", "1"), (line(*sides, model="b 2", game="go:9"), "0")):
        data.write_text(before + added)
        with pytest.raises(SystemExit) as stopped:
            tune_together.main([*common, matches, "--model", str(model)])
        assert stopped.value.code == 2 and "of one model in one game count together" in capsys.readouterr().err
        assert data.read_text() == before + added


def test_a_line_that_was_cut_off_is_left_out_and_a_damaged_one_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, model = tmp_path / "new" / "data.jsonl", make_model(tmp_path / "saved_models")
    common = [str(data), "c_puct=0.5..2", "--games", "2", "--readouts", "8", "--model", str(model), "--matches"]
    tune_together.main([*common, "1"])
    whole = data.read_text()
    data.write_text(whole + whole[:40])
    tune_together.main([*common, "0"])
    assert "1 matches" in capsys.readouterr().out.splitlines()[-2]
    tune_together.main([*common, "1"])
    assert "2 matches" in capsys.readouterr().out and data.read_text().startswith(whole)
    assert len([json.loads(text) for text in data.read_text().splitlines()]) == 2
    for wrong in ("{\n", json.dumps({"one": {}, "other": {}, "half_points": 1, "games": 2}) + "\n"):
        data.write_text(whole + wrong + whole)
        with pytest.raises(SystemExit) as stopped:
            tune_together.main([*common, "0"])
        assert stopped.value.code == 1 and f"{data}: line 2: " in capsys.readouterr().err
