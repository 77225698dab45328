"""The faults of ``tests/mutants``: each can still be planted, and its tests are there."""

from collections import Counter
from pathlib import Path

from tests.mutants.table import MUTANTS

ROOT = Path(__file__).parent.parent


def test_every_fault_applies_and_has_its_tests() -> None:
    names = Counter(mutant.name for mutant in MUTANTS)
    assert len(names) >= 45 and not [name for name, times in names.items() if times > 1]
    for mutant in MUTANTS:
        if "/families/" in mutant.file and not (ROOT / mutant.file).exists():
            continue  # the family was deleted
        text = (ROOT / mutant.file).read_text(encoding="utf-8")
        assert text.count(mutant.old) == 1, f"{mutant.name}: its old text is in {mutant.file} {text.count(mutant.old)}x"
        compile(text.replace(mutant.old, mutant.new), mutant.file, "exec")
        assert mutant.tests, mutant.name
        for test in mutant.tests:
            file, _, within = test.partition("::")
            assert (ROOT / file).exists(), f"{mutant.name}: {test}"
            code = (ROOT / file).read_text(encoding="utf-8") if within else ""
            kinds = [f"{kind} {name}" for name in filter(None, within.split("::")) for kind in ("def", "class")]
            assert not within or any(kind in code for kind in kinds), f"{mutant.name}: {test}"
