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
