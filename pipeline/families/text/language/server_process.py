"""What --backend server runs: server.py, with base models as players.py loads them.

python -m pipeline.families.text.language.server_process SOCKET
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from pipeline.families.text.language.players import VOICES

if TYPE_CHECKING:
    from pipeline.families.text.language.adapters import LoraShape
    from pipeline.families.text.language.generation import Speaker


def load(
    path: Path, fingerprint: str, shape: LoraShape, weights: Mapping[str, NDArray[Any]], template: str, reading: str
) -> Speaker:
    """An adapter on the one copy of its base."""
    from pipeline.families.text.language.generation import Speaker

    return Speaker(VOICES.get(path, fingerprint, shape.targets, 0), shape, weights, template, reading)


def main() -> None:
    from pipeline.families.text.language.server import serve

    serve(sys.argv[1], bytes.fromhex(sys.stdin.buffer.readline().decode()), load)


if __name__ == "__main__":
    main()
