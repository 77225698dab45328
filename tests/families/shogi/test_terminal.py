"""``play`` of shogi by scripted input: moves in USI, records in the formats of shogi."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline.families.shogi.kifu import read_kifu
from tests.helpers import make_model
from tests.play.test_terminal import refusals, run


@pytest.mark.parametrize("game", ["shogi:5", "shogi"])
def test_shogi(game, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = str(make_model(tmp_path, spec=game))
    first, wrong = ("5d5c", "7g7f") if game == "shogi:5" else ("7g7f", "7g7e")
    text = run("hint", first, wrong, "U1a", "sgf a.sgf", "sgf a.kifu", "sgf a.usi", "undo", model=model, game=None)
    square = "[1-9][a-i]"
    assert re.search(rf"Type a move \({square}{square}", text) and re.search(rf"000000-test: {square}{square}", text)
    hints = re.findall(rf"^{square}{square}\+? +winrate.*   (?:(?:{square}|[PLNSGBR]\*){square}\+? ?)+$", text, re.M)
    assert hints and text.count("SFEN ") == 4 and "X in hand: -" in text
    found = refusals(text)
    assert len(found) == 3 and f"'{wrong}'" in found[0] and "'U1a' is no move here" in found[1]
    assert found[2] == "? wanted a name that ends in .kif, .kifu, .csa, .usi"
    assert [len(read_kifu(Path(name))[1][0].moves) for name in ("a.kifu", "a.usi")] == [2, 2]
