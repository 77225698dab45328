"""Loads the room first: it tells OpenMP how to wait, which counts only before torch is loaded."""

import pipeline.train  # noqa: F401
