"""Commands that are imported when they are called: ``airmix --help`` needs their names and first lines alone."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup


class LateCommand(NamedTuple):
    """Where a command is, and what it does."""

    place: str  # module:attribute, a function or a Typer application
    about: str  # the first paragraph of its help


def add_late(app: typer.Typer, commands: Mapping[str, LateCommand]) -> None:
    """Add commands to an application made with ``cls=late_group(commands)``."""
    for name, command in commands.items():
        app.command(name, help=command.about)(_not_loaded)


def late_group(commands: Mapping[str, LateCommand]) -> type[TyperGroup]:
    """Return a group of commands, each loaded when it is called."""

    class LateGroup(TyperGroup):
        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name = args[0]
            if name in commands:
                self.commands[name] = load(name, commands[name].place)
            return super().resolve_command(ctx, args)

    return LateGroup


def load(name: str, place: str) -> Any:
    """Return the command of that name."""
    module, _, attribute = place.partition(":")
    found: typer.Typer | Callable[..., None] = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    from airmixml.cli.options import with_groups  # here: a list of commands needs no options

    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name)(with_groups(found))
    return typer.main.get_command(alone)


def _not_loaded() -> None:
    """Stand for a command in the list of commands."""
