"""A headless Chromium for the tests of pages, which skip visibly where there is none, and the server of the page."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

CHROMIUM, CHROMEDRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_chromium = pytest.mark.skipif(
    not (CHROMIUM and CHROMEDRIVER), reason="no Chromium: apt-get install chromium chromium-driver"
)


@contextlib.contextmanager
def served_page(*options: str) -> Iterator[str]:
    """The address of ``main.py serve`` with these options, on a port of its choice."""
    words = [sys.executable, "main.py", "serve", "--port", "0", "--no-browser", *options]
    with subprocess.Popen(words, cwd=Path(__file__).parent.parent, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        said = next(line for line in server.stderr if "http://" in line)
        try:
            yield said[said.index("http://") :].split()[0]
        finally:
            server.terminate()
            server.stderr.read()


@contextlib.contextmanager
def headless_chromium(size: str = "1000,900") -> Iterator[Chrome]:
    """What pages write to the console is kept."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    # In a folder with a short name: the path of a socket in it may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="mugo-", ignore_cleanup_errors=True) as profile:
        options = ChromeOptions()
        options.binary_location = str(CHROMIUM)
        flags = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")
        for flag in (*flags, f"--window-size={size}", f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = Service(str(CHROMEDRIVER), env={**os.environ, "TMPDIR": profile})
        driver = Chrome(options=options, service=service)
        try:
            yield driver
        finally:
            driver.quit()
