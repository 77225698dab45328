"""Groups of options, and configs composed of them.

A group is a frozen pydantic model: its fields are options with type, default and help text, its ``panel`` is their
heading in --help. A group is defined beside the code that reads it. A command's config is a class that inherits
from its groups; its own fields are the everyday options, which --help shows first, with those of groups without a
panel. Then come the groups: those of every method before those of some, families' and installed packages' last.

Methods and families add groups at the extension point ``mugo.options``, named PLACE.OWNER: the place is a command, or
``players`` for all commands in which models choose moves. ``composed`` adds a place's groups to a config, and a group's
owner gets its own with ``taken``:

    steps = taken(config, MyTrainOptions).extra_steps
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from functools import cache
from typing import Any, ClassVar, TypeVar, cast

from pydantic import BaseModel, ConfigDict

from pipeline import extensions
from pipeline.errors import UsageError

Group = TypeVar("Group", bound="Options")


class Options(BaseModel):
    """Base of all groups and configs: frozen, unknown fields refused, defaults validated."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, protected_namespaces=())
    panel: ClassVar[str] = ""
    leading: ClassVar[tuple[str, ...]] = ()  # a config's options that --help shows first, if not in the fields' order
    of_methods: ClassVar[bool] = False  # whether only methods that list the group in Method.options read it

    def stored(self, exclude: Collection[str] = ()) -> dict[str, Any]:
        """The form that files keep: JSON."""
        return self.model_dump(mode="json", exclude=set(exclude))


def composed(place: str) -> Callable[[type[Group]], type[Group]]:
    """A decorator that adds to a config the groups that extensions offer for a place.

    Leaves out a group of an installed package that can't be used, with a line on stderr.
    """

    def compose(config: type[Group]) -> type[Group]:
        groups: list[type[Options]] = []
        for extension in _offered(place):
            try:
                groups.append(_group(extension, config, groups))
            except UsageError as error:
                if not extension.package:
                    raise
                _leave_out(str(error))
        if not groups:
            return config
        names = {
            "__module__": config.__module__, "__qualname__": config.__qualname__, "__doc__": config.__doc__,
            "__wrapped__": config,
        }  # fmt: skip
        made = cast(Any, type(config))(config.__name__, (config, *groups), names)
        return cast(type[Group], made)

    return compose


def taken(config: Options, group: type[Group]) -> Group:
    """A group's options in a config; defaults if the config lacks the group."""
    if isinstance(config, group):
        return config
    return group(**{name: getattr(config, name) for name in group.model_fields if hasattr(config, name)})


def changed(config: Options, names: Iterable[str]) -> list[str]:
    """Those of these options that aren't at their defaults."""
    fields = type(config).model_fields
    return [name for name in names if getattr(config, name) != fields[name].default]


def plain(group: type[Options]) -> type[Options]:
    """A group as it was written, without the groups that composed() added to it."""
    found: type[Options] = vars(group).get("__wrapped__", group)
    return found


def group_of(config: type[Options], field: str) -> type[Options]:
    """The group that an option of a config comes from; the config itself for its everyday options."""
    owners = [one for one in config.__mro__ if field in getattr(one, "__annotations__", {})]
    owner: type[Options] = owners[-1]
    return owner if "panel" in vars(owner) else config


def panels_of(config: type[Options]) -> dict[str, list[str]]:
    """A config's options by panel, both in the order of --help; the everyday options under ""."""

    def place(group: type[Options]) -> tuple[bool, bool, bool]:
        is_installed = not group.__module__.startswith("pipeline.")
        return is_installed, group.__module__.startswith(f"{extensions.FAMILIES}."), group.of_methods

    groups = [one for one in config.__mro__ if issubclass(one, Options) and vars(one).get("panel")]
    groups.sort(key=place)
    panels: dict[str, list[str]] = {panel: [] for panel in ("", *(group.panel for group in groups))}
    for name in dict.fromkeys((*config.leading, *plain(config).__annotations__, *config.model_fields)):
        if name in config.model_fields:
            group = group_of(config, name)
            panels["" if group is config else group.panel].append(name)
    return {panel: names for panel, names in panels.items() if names}


def _offered(place: str) -> list[extensions.Extension]:
    found = extensions.find(extensions.OPTIONS)
    for name, extension in found.items():
        if "." not in name:
            _leave_out(f"{extension}: wanted a name COMMAND.OWNER, such as selfplay.{name}")
    return [found[name] for name in sorted(found) if name.partition(".")[0] == place]


@cache
def _leave_out(problem: str) -> None:
    """Tell it once: a group may be offered to several configs of one program."""
    print(f"mugo: {problem}; its options are left out", file=sys.stderr)


def _group(extension: extensions.Extension, config: type[Options], others: list[type[Options]]) -> type[Options]:
    """The group that an extension offers. Raises UsageError if it is no group, or one of its options exists already."""
    group = extensions.load(extension)
    if not (isinstance(group, type) and issubclass(group, Options) and group.panel):
        raise extensions.refuse(extension, group, "a subclass of pipeline.options.Options with a panel")
    taken_names = set(config.model_fields).union(*(other.model_fields for other in others))
    if twice := taken_names & set(group.model_fields):
        raise UsageError(f"{extension}: {config.__name__} already has an option {min(twice)!r}")
    return group
