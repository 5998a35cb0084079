"""The command ``airmix``."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from airmixml.cli import data
from airmixml.cli.presets import presets_command, show_command
from airmixml.cli.run import run_command
from airmixml.errors import AirMixError
from airmixml.version import __version__

__all__ = ["app", "main"]

# Typer exports BadParameter alone; its base is the family of usage errors, wherever Typer keeps Click.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

app = typer.Typer(
    help="Over-the-air mixup machine learning.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("run")(run_command)
app.command("presets")(presets_command)
app.command("show")(show_command)
app.add_typer(data.app, name="data")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"airmixml {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line: 0 when done, 2 and one line for a user's mistake, 130 when interrupted."""
    try:
        code = app(prog_name="airmix", standalone_mode=False)
    except _UsageError as problem:
        _fail(f"{getattr(problem, 'format_message', problem.__str__)()} (see airmix --help)")
    except AirMixError as problem:
        _fail(str(problem))
    except MemoryError:
        _fail("not enough memory; run fewer slots or workers, or a smaller --block-slots")
    except BrokenPipeError:  # the reader of a pipe went away: nothing is left to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    if code == 130:
        sys.stderr.write("airmix: interrupted; give the same command again to go on where it stopped\n")
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> None:
    line = " ".join(message.split())
    sys.stderr.write(f"airmix: error: {line}\n")
    sys.exit(2)
