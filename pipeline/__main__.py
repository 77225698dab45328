"""The start of the program: the command ``mugo``, ``python -m pipeline``, and main.py of a checkout."""

from __future__ import annotations

import os
import signal
import sys

CHECKOUT = "run ./rl_loop.sh once, or activate its environment: source .venv/bin/activate"
INSTALLED = "pip install it, or install mugo anew with all that it needs"


def run(name: str = "mugo") -> None:
    """Run one command and exit by SystemExit. name: mugo or main.py, as it was called."""
    for early in (signal.SIGINT, signal.SIGTERM):  # during the slow imports below they end it without a traceback
        signal.signal(early, lambda number, frame: os._exit(128 + number))
    try:
        from pipeline import main
    except ModuleNotFoundError as missing:
        sys.exit(f"mugo: {missing}; {INSTALLED if name == 'mugo' else CHECKOUT}")
    main.run_program(name=name)


if __name__ == "__main__":
    run()
