"""Names and texts of files can't steer the terminal that shows them."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.errors import FileError, MuGoError
from pipeline.phrases import printable, write
from pipeline.reports.progress_bars import ConsoleProgress
from tests.helpers import make_champion

MAIN = Path(__file__).parents[1] / "main.py"
ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m"


@pytest.mark.parametrize("text", ["a\tb\nc", "Škoda → ½ 日本 …", ""])
def test_text_stays(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize("code", [*range(9), *range(11, 32), *range(0x7F, 0xA0), 0x202E, 0x2066, 0x2028, 0xD800])
def test_what_a_terminal_obeys_or_cannot_print(code: int) -> None:
    assert printable(f"a{chr(code)}b") == "a\N{REPLACEMENT CHARACTER}b"
    stream = io.StringIO()
    write(f"a{chr(code)}b", stream)
    assert stream.getvalue().encode() == "a\N{REPLACEMENT CHARACTER}b\n".encode()


def test_a_message_is_one_line_whatever_it_quotes() -> None:
    text = str(FileError("f.json", f"a\nb\r\nc\u2028d {'x' * 99_999} end; run it again"))
    assert text.startswith("f.json: a b c d xxx") and text.endswith("xxx end; run it again")
    assert len(text) < 2_100 and "\n" not in text
    assert str(MuGoError("short; stays")) == "short; stays"


def test_progress() -> None:
    stream = io.StringIO()
    with ConsoleProgress(stream=stream, log_seconds=0) as progress:
        progress.warn(f"{ESCAPE}!")
        progress.say(ESCAPE)
        progress.start(ESCAPE, 2)
        progress.describe(ESCAPE)
        progress.advance()
    assert "owned" in stream.getvalue() and not set("\x1b\x07\x9b") & set(stream.getvalue())


def test_commands(tmp_path: Path) -> None:
    path = make_champion(tmp_path / "saved_models") / "model.json"
    info = json.loads(path.read_text())
    manifest = {"note": ESCAPE, "metrics": {"train": {"policy": 1.0}}}
    path.write_text(json.dumps({**info, "name": ESCAPE, "parents": [ESCAPE], "manifest": manifest}))
    (tmp_path / "bad.json").write_text(json.dumps({"format": ESCAPE}))
    commands = (["show", str(path)], ["show"], ["status"], ["show", "bad.json"], ["show", f"{ESCAPE}\nno"])
    for command in commands:
        done = subprocess.run([sys.executable, str(MAIN), *command], cwd=tmp_path, capture_output=True, text=True)
        said = done.stdout + done.stderr
        assert "owned" in said and "Traceback" not in said
        assert not set("\x1b\x07\x9b") & set(said)
        assert len(done.stderr.splitlines()) == (done.returncode != 0)
