"""What all configs have in common: they are frozen and validated, and files keep copies of them (``stored``)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.fields import FieldInfo

# Options whose former names live on in files; presets may use either.
STORED_NAMES = {
    "full_search_fraction": "full_share",
    "holdout_fraction": "holdout_share",
    "max_num_considered_actions": "considered",
    "no_resign_fraction": "no_resign_share",
}


def current_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same values under the options' present names."""
    current = {stored: name for name, stored in STORED_NAMES.items()}
    return {current.get(name, name): value for name, value in values.items()}


# Former options by the one that stood before them: files go on to name them, with the value that they had.
RETIRED = {"max_visit_init": ("virtual_loss", 1.0)}

# Of options that came when files with their neighbours had been written: see StageConfig.stored.
LATER: dict[str, Any] = {"stored_if_used": True}

# Of options that only some methods read: see Method.check_gather.
OF_METHODS: dict[str, Any] = {"of_methods": True}


def _extra(field: FieldInfo) -> dict[str, Any]:
    """What json_schema_extra says of an option."""
    found = field.json_schema_extra
    return found if isinstance(found, dict) else {}


class StageConfig(BaseModel):
    """Base of every command's config: frozen, unknown fields refused, defaults validated."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _current_names(cls, given: Any) -> Any:
        return current_names(given) if isinstance(given, dict) else given

    def used(self, mark: Mapping[str, Any]) -> list[str]:
        """The options with this mark that don't have their default."""
        return [name for name in self._marked(mark) if self._is_used(name)]

    def _marked(self, mark: Mapping[str, Any]) -> list[str]:
        return [name for name, field in type(self).model_fields.items() if mark.items() <= _extra(field).items()]

    def _is_used(self, name: str) -> bool:
        return bool(getattr(self, name) != type(self).model_fields[name].default)

    def stored(self, exclude: Collection[str] = ()) -> dict[str, Any]:
        """The JSON that files keep. Names never change there, so that a rerun recognises what it made before: retired
        options go on to stand there, younger ones (LATER) only where they are used.
        """
        unused = [name for name in self._marked(LATER) if not self._is_used(name)]
        values = self.model_dump(mode="json", exclude={*exclude, *unused})
        named: dict[str, Any] = {}
        for name, value in values.items():
            named[STORED_NAMES.get(name, name)] = value
            if name in RETIRED:
                former, last = RETIRED[name]
                named[former] = last
        return named
