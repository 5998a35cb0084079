"""The commands of ``airmix``, and how errors are reported."""

import ast
import os
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.resources import files
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from airmixml.cli.process import discard
from airmixml.devices import needs_torch
from airmixml.errors import AirMixError, AirMixWarning, is_out_of_memory
from airmixml.registries import naming_objects
from airmixml.version import __version__
from airmixml.wording import reason

# Typer exports BadParameter alone; its base is the family of usage errors, wherever Typer keeps Click.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
_LONGEST_LINE = 1000
_OF_DEPLOYMENTS = ("cryptography", "paho", "zmq")
_NO_MEMORY = "not enough memory; use fewer slots, workers or features, a smaller network, or a smaller --block-slots"


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


def answer() -> int:
    """Run what the command line asks for and return the exit code; a user's mistake is one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters still gets its table
    warnings.showwarning = _warn
    try:
        _check_directory()
        with naming_objects():
            code = app(prog_name="airmix", standalone_mode=False)
        sys.stdout.flush()
    except _UsageError as problem:
        return _fail(f"{getattr(problem, 'format_message', problem.__str__)()} (see airmix --help)")
    except AirMixError as problem:
        return _fail(str(problem))
    except (ModuleNotFoundError, MemoryError, RuntimeError) as problem:
        lacks = _lacking(problem)
        if not lacks:
            raise
        return _fail(lacks)
    except BrokenPipeError:  # the reader of a pipe went away: nothing is left to say
        discard(sys.stdout)
        return 1
    except OSError as problem:
        discard(sys.stdout)
        return _fail(f"the output cannot be written ({reason(problem)}); free space or write it elsewhere")
    return code if isinstance(code, int) else 0


def _lacking(problem: Exception) -> str:
    """Return which package or memory a command lacks; empty: neither."""
    missing = (getattr(problem, "name", "") or "").split(".")[0]
    command = f"airmix {sys.argv[1]}" if len(sys.argv) > 1 else "airmix"
    if missing == "torch":
        return needs_torch(command)
    if missing in _OF_DEPLOYMENTS:
        return f"{command} needs the package {missing}; pip install 'airmixml[deploy]'"
    return _NO_MEMORY if is_out_of_memory(problem) else ""


def _check_directory() -> None:
    """Refuse to work in a folder that is gone: libraries look for their parts from there, and end the process."""
    try:
        os.getcwd()
    except OSError:
        raise AirMixError("the current directory was removed; change to another one") from None


def _warn(message: Warning | str, category: type[Warning], *_where: object, **_how: object) -> None:
    """Print our own warnings as a line, and leave out those of libraries, with which a user can do nothing."""
    if issubclass(category, AirMixWarning):
        sys.stderr.write(f"airmix: warning: {message}\n")


def _fail(message: str) -> int:
    sys.stderr.write(f"airmix: error: {' '.join(message.split())[:_LONGEST_LINE]}\n")
    return 2
