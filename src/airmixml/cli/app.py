"""The commands of ``airmix``, and how errors are reported."""

import io
import os
import sys
import warnings
from collections.abc import Callable
from typing import Annotated

import typer

from airmixml.cli import data
from airmixml.cli.account import account_command
from airmixml.cli.attack import attack_command
from airmixml.cli.audit import audit_command
from airmixml.cli.compare import compare_command
from airmixml.cli.demo import demo_command
from airmixml.cli.init import init_command
from airmixml.cli.listings import plugins_command, presets_command, show_command
from airmixml.cli.plan import plan_command
from airmixml.cli.predict import export_command, predict_command
from airmixml.cli.reproduce import reproduce_command
from airmixml.cli.run import run_command
from airmixml.cli.sweep import sweep_command
from airmixml.devices import is_out_of_memory
from airmixml.errors import AirMixError, BoundsWarning
from airmixml.version import __version__
from airmixml.wording import reason

# Typer exports BadParameter alone; its base is the family of usage errors, wherever Typer keeps Click.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
_LONGEST_LINE = 1000

app = typer.Typer(
    help="Over-the-air mixup machine learning.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
_COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo_command,
    "init": init_command,
    "run": run_command,
    "predict": predict_command,
    "export": export_command,
    "account": account_command,
    "plan": plan_command,
    "compare": compare_command,
    "attack": attack_command,
    "audit": audit_command,
    "sweep": sweep_command,
    "reproduce": reproduce_command,
    "presets": presets_command,
    "show": show_command,
    "plugins": plugins_command,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(_command)
app.add_typer(data.app, name="data")


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
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters still gets its table
    warnings.showwarning = _warn
    try:
        code = app(prog_name="airmix", standalone_mode=False)
        if sys.stdout is not None:  # closed by the caller
            sys.stdout.flush()
    except _UsageError as problem:
        return _fail(f"{getattr(problem, 'format_message', problem.__str__)()} (see airmix --help)")
    except AirMixError as problem:
        return _fail(str(problem))
    except (MemoryError, RuntimeError) as problem:
        if not is_out_of_memory(problem):
            raise
        return _fail(
            "not enough memory; use fewer slots, workers or features, a smaller network, or a smaller --block-slots"
        )
    except BrokenPipeError:  # the reader of a pipe went away: nothing is left to say
        _close_stdout()
        return 1
    except OSError as problem:
        _close_stdout()
        return _fail(f"the output cannot be written ({reason(problem)}); free space or write it elsewhere")
    return code if isinstance(code, int) else 0


def _warn(message: Warning | str, category: type[Warning], *_where: object, **_how: object) -> None:
    """Print our own warnings as a line, and leave out those of libraries, with which a user can do nothing."""
    if issubclass(category, BoundsWarning):
        sys.stderr.write(f"airmix: warning: {message}\n")


def _close_stdout() -> None:
    """Discard what could not be written, so that Python does not try again when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str) -> int:
    sys.stderr.write(f"airmix: error: {' '.join(message.split())[:_LONGEST_LINE]}\n")
    return 2
