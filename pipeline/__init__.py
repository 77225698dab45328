"""MuGo: self-play training pipelines for board games, as four commands over files."""

__version__ = "0.1.0"
