"""The readers' long mode: coverage-guided fuzzing by atheris, for as long as you like.

    pip install '.[fuzz]'
    python -m tests.fuzz --minutes 10                     # all kinds of files
    python -m tests.fuzz --readers shard results          # these alone
    python -m tests.fuzz --readers shard --input 7916a9   # one input again, which a finding named

What is tried are the same functions as in ./test.sh; atheris chooses the bytes that they damage files by, and which
kind comes next. A process that crashes or hangs is a finding, too, and another takes the time that is left. Prints a
table, and of each finding where it came from and its input. Exit code 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
# Packages whose coverage guides: those that read files. In others there are kernels, which numba couldn't compile then.
WATCHED = ("storage", "presets", "schedules", "reports", "verify", "ratings", "matches", "evaluate", "train")
SHOWN = 4  # of the innermost lines of ours in a finding
SAVED_EVERY = 2.0  # seconds
LONGEST = 256  # bytes of an input
Findings = dict[tuple[str, str], tuple[str, list[str]]]
"""By kind of file and what happened: the input as hexadecimal digits, and the error's text with where it came from."""
ONE_SECONDS = 60  # of one file, after which libFuzzer ends the process; the readers' own guard comes before


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="In all.")
    parser.add_argument("--readers", nargs="*", default=[], metavar="NAME", help="Kinds of files; all without it.")
    parser.add_argument("--input", help="One input, as hexadecimal digits.")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.input is None and find_spec("atheris") is None:
        parser.error("atheris is missing; run `pip install '.[fuzz]'` (Linux, Python 3.11 to 3.13)")
    if asked.child:
        fuzz(asked.readers, 60 * asked.minutes, asked.child)
    from tests.fuzz.readers import KINDS, attempt

    if unknown := set(asked.readers) - set(KINDS):
        parser.error(f"--readers: unknown {', '.join(sorted(unknown))}; known: {', '.join(KINDS)}")
    names = asked.readers or list(KINDS)
    if asked.input is not None:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as made:
            for name in names:
                print(f"{name}: {'tried' if attempt(name, Path(made), bytes.fromhex(asked.input)) else 'no such file'}")
        return 0
    executions, findings = hunt(names, asked.minutes)
    print("| file | executions | findings |\n|---|---|---|")
    for name in names:
        print(f"| {name} | {executions[name]:,} | {sum(kind == name for kind, _ in findings)} |")
    for (name, what), (data, lines) in findings.items():
        print(f"\n{name}: {what}\n  {' < '.join(lines)}\n  python -m tests.fuzz --readers '{name}' --input {data}")
    return int(bool(findings))


def hunt(names: list[str], minutes: float) -> tuple[Counter[str], Findings]:
    """Fuzz these kinds in a process of its own, and in another if that one ends early."""
    executions: Counter[str] = Counter()
    findings: Findings = {}
    ends = time.monotonic() + 60 * minutes
    while (left := ends - time.monotonic()) > 1:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as made:
            command = [sys.executable, "-m", "tests.fuzz", "--minutes", str(left / 60), "--child", made, "--readers"]
            process = subprocess.run(
                [*command, *names], cwd=ROOT, capture_output=True, text=True, errors="replace", check=False
            )
            saved = Path(made) / "result.json"
            if not saved.exists():
                raise SystemExit(f"the process failed: {process.stderr[-2000:]}")
            result = json.loads(saved.read_text())
            executions.update(result["executions"])
            findings.update({(name, what): found for name, what, found in result["findings"]})
            for input_left in sorted(Path(made).glob("end-*")):  # libFuzzer leaves what ended the process
                data = input_left.read_bytes()
                findings[_kind(names, data), f"the process ended: {input_left.name}"] = (data[1:].hex(), [])
    return executions, findings


def _kind(names: list[str], data: bytes) -> str:
    return names[(data or b"\0")[0] % len(names)]


def fuzz(names: list[str], seconds: float, folder: Path) -> None:
    """In the process that fuzzes: never returns."""
    import atheris

    files = [path.relative_to(ROOT).with_suffix("").parts for path in (ROOT / "pipeline").rglob("*.py")]
    others = [".".join(parts).removesuffix(".__init__") for parts in files if parts[1] not in WATCHED]
    with atheris.instrument_imports(include=["pipeline"], exclude=others):
        from tests.fuzz.readers import attempt
    corpus = folder / "corpus"
    corpus.mkdir()
    for number in range(len(names)):
        (corpus / str(number)).write_bytes(bytes([number, *range(12)]))
    executions: Counter[str] = Counter()
    findings: Findings = {}
    saved = time.monotonic()

    def save() -> None:
        kept = folder / "result.new"
        listed = [(name, what, found) for (name, what), found in findings.items()]
        kept.write_text(json.dumps({"executions": executions, "findings": listed}))
        kept.rename(folder / "result.json")

    def one_input(data: bytes) -> None:
        nonlocal saved
        name = _kind(names, data)
        executions[name] += 1
        try:
            attempt(name, folder, data[1:])
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            lines = [
                f"{Path(frame.filename).relative_to(ROOT)}:{frame.lineno}"
                for frame in reversed(traceback.extract_tb(error.__traceback__))
                if Path(frame.filename).is_relative_to(ROOT / "pipeline")
            ]
            text = " ".join(str(error).split())[:200]
            what = f"{type(error).__name__} at {lines[0]}" if lines else f"{type(error).__name__}: {text[:40]}"
            if (name, what) not in findings:
                findings[name, what] = (data[1:].hex(), [text, *lines[:SHOWN]])
                save()
        if time.monotonic() - saved > SAVED_EVERY:
            saved = time.monotonic()
            save()

    save()
    limits = {"max_total_time": max(1, round(seconds)), "max_len": LONGEST, "rss_limit_mb": 4096, "len_control": 0,
              "timeout": ONE_SECONDS, "report_slow_units": ONE_SECONDS, "seed": 1,
              "artifact_prefix": f"{folder}/end-"}  # fmt: skip
    options = [f"-{name}={value}" for name, value in limits.items()]
    atheris.Setup([sys.argv[0], *options, str(corpus)], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
