"""The commands of ``airmix``."""

import ast
from collections.abc import Callable
from importlib import import_module
from importlib.resources import files
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from airmixml.version import __version__

# Where each command is: module:attribute, a function or a Typer application. It is imported when it is called.
COMMANDS = {
    "demo": "demo:demo_command",
    "init": "data:init_command",
    "run": "run:run_command",
    "predict": "predict:predict_command",
    "export": "predict:export_command",
    "account": "account:account_command",
    "plan": "plan:plan_command",
    "compare": "compare:compare_command",
    "attack": "attack:attack_command",
    "audit": "attack:audit_command",
    "sweep": "sweep:sweep_command",
    "tolerances": "compare:tolerances_command",
    "reproduce": "sweep:reproduce_command",
    "report": "predict:report_command",
    "ledger": "ledger:app",
    "explore": "explore:explore_command",
    "deploy": "deploy:app",
    "server": "deploy:server_command",
    "worker": "deploy:worker_command",
    "gateway": "deploy:gateway_command",
    "air": "air:air_command",
    "presets": "listings:presets_command",
    "airs": "listings:airs_command",
    "show": "listings:show_command",
    "plugins": "listings:plugins_command",
    "data": "data:app",
}


def about(place: str) -> str:
    """Return the first paragraph of a command's help without importing it, which takes seconds for some."""
    module, _, attribute = place.partition(":")
    tree = ast.parse((files("airmixml.cli") / f"{module}.py").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == attribute:
            return (ast.get_docstring(node) or "").partition("\n\n")[0]
        if attribute == "app" and isinstance(node, ast.Call) and ast.unparse(node.func) == "options.command_group":
            return str(ast.literal_eval(node.args[0]))
    raise LookupError(place)


class _LateGroup(TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in COMMANDS:
            self.commands[args[0]] = load(args[0])
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for name, command in self.commands.items():
            command.help = about(COMMANDS[name])
        super().format_commands(ctx, formatter)


def load(name: str) -> Any:
    """Return the command of that name."""
    module, _, attribute = COMMANDS[name].partition(":")
    found: typer.Typer | Callable[..., None] = getattr(import_module(f"airmixml.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    from airmixml.cli.options import with_groups  # here: a list of commands needs no options

    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name)(with_groups(found))
    return typer.main.get_command(alone)


def _not_loaded() -> None:
    """Stand for a command in the list of commands."""


app = typer.Typer(
    help="Over-the-air mixup machine learning.",
    cls=_LateGroup,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for _name in COMMANDS:
    app.command(_name)(_not_loaded)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"airmixml {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
