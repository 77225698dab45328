"""A run: the folder with data/ and saved_models/, and the store in which its files live.

Commands that work on a whole run make one Run and pass it on. All names are those of layout.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.errors import FileError
from pipeline.run import layout, models
from pipeline.run.store.base import Store, current_store


@dataclass(frozen=True)
class Run:
    """folder: of the run. store: where its files live, by default the store in force."""

    folder: Path
    store: Store = field(default_factory=current_store, compare=False)

    @classmethod
    def at(cls, folder: Path) -> Run:
        """The run in this folder. Raises FileError if there is none."""
        if not is_run(folder):
            found = "no run in this folder" if folder.is_dir() else "no such folder"
            raise FileError(folder, f"{found}; wanted one with {layout.SAVED_MODELS}/ or {layout.GAMES}/ in it")
        return cls(folder)

    @property
    def models(self) -> Path:
        return self.folder / layout.SAVED_MODELS

    @property
    def champion(self) -> Path:
        """The symlink; resolve_champion says where it leads."""
        return self.folder / layout.CHAMPION_LINK

    @property
    def games(self) -> Path:
        return self.folder / layout.GAMES

    @property
    def pruned(self) -> Path:
        """The list of pruned games."""
        return self.games / layout.PRUNED

    @property
    def chunks(self) -> Path:
        return self.folder / layout.CHUNKS

    @property
    def matches(self) -> Path:
        """Of promotion."""
        return self.folder / layout.MATCHES

    @property
    def required(self) -> Path:
        return self.folder / layout.REQUIRED_MATCHES

    @property
    def watch(self) -> Path:
        return self.folder / layout.WATCH_MATCHES

    @property
    def tournament(self) -> Path:
        return self.folder / layout.TOURNAMENT_MATCHES

    @property
    def match_folders(self) -> list[Path]:
        """All folders that hold matches."""
        return [self.folder / folder for folder in layout.MATCH_FOLDERS]

    @property
    def pool(self) -> Path:
        return self.folder / layout.POOL_FILE

    @property
    def ratings(self) -> Path:
        return self.folder / layout.RATINGS_FILE

    def newest_models(self) -> Iterator[Path]:
        return models.newest_models(self.models)

    def resolve_champion(self) -> Path:
        """The champion's own folder. Raises FileError."""
        return models.resolve_champion(self.champion)


def is_run(folder: Path) -> bool:
    return (folder / layout.SAVED_MODELS).is_dir() or (folder / layout.GAMES).is_dir()
