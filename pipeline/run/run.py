"""A run: the folder with data/ and saved_models/. Commands that work on a whole run make one Run and pass it on."""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import FileError
from pipeline.run import layout


class Run:
    """The paths of the run in a folder.

    champion       the symlink; models.resolve_champion follows it
    matches        of promotion; required, watch, tournament: see layout.py
    match_folders  all folders that hold matches
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.models = folder / layout.SAVED_MODELS
        self.champion = folder / layout.CHAMPION_LINK
        self.games = folder / layout.GAMES
        self.pruned = self.games / layout.PRUNED
        self.chunks = folder / layout.CHUNKS
        self.match_folders = [folder / matches for matches in layout.MATCH_FOLDERS]
        self.matches, self.required, self.watch, self.tournament = self.match_folders
        self.pool = folder / layout.POOL_FILE
        self.ratings = folder / layout.RATINGS_FILE

    @classmethod
    def at(cls, folder: Path) -> Run:
        """The run in this folder. Raises FileError if there is none."""
        if not is_run(folder):
            found = "no run in this folder" if folder.is_dir() else "no such folder"
            raise FileError(folder, f"{found}; wanted one with {layout.SAVED_MODELS}/ or {layout.GAMES}/ in it")
        return cls(folder)


def is_run(folder: Path) -> bool:
    return (folder / layout.SAVED_MODELS).is_dir() or (folder / layout.GAMES).is_dir()
