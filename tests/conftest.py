"""For all tests: signals arrive as in a terminal, collecting garbage is cheap, processes start at once."""

import gc
import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.workshop import Workshop

# A shell starts background jobs with SIGINT ignored, and whatever they start inherits that: Ctrl-C could not be tested.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Compiled kernels are named by their code. Tests with an empty cache of their own needn't compile them again.
CACHES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
os.environ.setdefault("NUMBA_CACHE_DIR", str(CACHES / "mugo" / "kernels"))

FILES = itertools.count()  # of tests, that this process has gone through


def pytest_collection_finish() -> None:
    leave_alone_what_there_is()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is not None and nextitem.path != item.path:
        leave_alone_what_there_is()


def leave_alone_what_there_is() -> None:
    """All modules are millions of objects, through which the collector needn't go again and again: the gc.collect()
    after each command of a loop would take most of a second. Now and then it must, or what tests leave would pile up.
    """
    if next(FILES) % 10 == 0:
        gc.unfreeze()
    gc.collect()
    gc.freeze()


def pytest_report_teststatus(report: pytest.TestReport, config: pytest.Config) -> None:
    """A failure is named at once: the suite takes long, and may be stopped before its summary."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and report.failed:
        reporter.write_line(f"\n{report.nodeid} failed ({report.when})")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those of tests/workers take longest. First, so that no worker of pytest's waits for another at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith("tests/workers/"))


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    """Runs commands as processes that needn't import and load anything first. Only on Linux."""
    with Workshop(tmp_path_factory.mktemp("workshop")) as found:
        yield found
