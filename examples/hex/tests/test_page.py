"""The page in the browser: MuGo finds it, serves its files, and its table plays."""

from __future__ import annotations

from pathlib import Path

import mugo_hex
import pytest

pytest.importorskip("starlette", reason="needs MuGo's extra serve")
pytest.importorskip("httpx", reason="needs httpx")
from starlette.testclient import TestClient

from pipeline.play.page.app import Lobby, make_app
from pipeline.play.page.pages import load_pages


@pytest.fixture
def client() -> TestClient:
    problems: list[str] = []
    pages = load_pages(problems.append)
    assert not [line for line in problems if "mugo-hex" in line]
    return TestClient(make_app(Lobby(pages, [], readouts=1)), base_url="http://127.0.0.1")


def test_its_files_are_served(client: TestClient) -> None:
    html = client.get("/").text
    assert 'src="/pages/hex/hex.js"' in html and 'href="/pages/hex/hex.css"' in html
    for file in ("hex.js", "hex.css"):
        assert client.get(f"/pages/hex/{file}").text == (Path(mugo_hex.__file__).parent / file).read_text()


def test_its_table_plays(client: TestClient) -> None:
    offered = {game["spec"]: game["opponents"] for game in client.get("/api/options").json()["games"]}
    assert offered["hex:7"] == offered["hex:11"] == ["heuristic", "random", "nobody"]
    begun = client.post("/api/games", json={"game": "hex:7", "opponent": "heuristic", "readouts": 0}).json()
    assert begun["board_kind"] == "hex"
    table = f"/api/games/{begun['id']}"
    view = client.post(f"{table}/play", json={"ply": 0, "move": "D4"}).json()
    assert view["board"][24] == 1 and view["last"] == 24
    view = client.post(f"{table}/reply", json={"ply": 1}).json()
    assert view["board"][view["last"]] == 2 and view["moves"][0] == "D4"
