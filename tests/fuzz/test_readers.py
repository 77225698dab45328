"""Every reader of files from outside against a few hundred damaged ones. See tests/fuzz/__init__.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.readers import KINDS, attempt, run_of, samples

EXAMPLES = 25


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.parametrize("name", KINDS)
def test_whole_files_are_read(folder: Path, name: str) -> None:
    """Otherwise the test below might try nothing."""
    run = run_of(name, folder)
    for parts in samples(name, run):
        path = KINDS[name].write(run, parts)
        for read in KINDS[name].reads:
            read(run, path)


@pytest.mark.parametrize("name", KINDS)
def test_damaged_files_are_read_or_refused_in_one_line(folder: Path, name: str) -> None:
    made = 0

    @settings(max_examples=EXAMPLES, derandomize=True, database=None, deadline=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.binary(min_size=4, max_size=40))
    def tried(data: bytes) -> None:
        nonlocal made
        made += attempt(name, folder, data)

    tried()
    assert made > EXAMPLES // 3
