"""The command ``airmix``."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer

from airmixml.cli import data
from airmixml.cli.account import account_command
from airmixml.cli.attack import attack_command
from airmixml.cli.audit import audit_command
from airmixml.cli.compare import compare_command
from airmixml.cli.plan import plan_command
from airmixml.cli.presets import presets_command, show_command
from airmixml.cli.reproduce import reproduce_command
from airmixml.cli.run import run_command
from airmixml.errors import AirMixError
from airmixml.version import __version__

# Typer exports BadParameter alone; its base is the family of usage errors, wherever Typer keeps Click.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

_LONGEST_LINE = 1000
_GOES_ON = {
    "run": "; the same command goes on from the last checkpoint (one is kept every few seconds)",
    "attack": "; the same command goes on from what is finished",
    "audit": "; the same command goes on from what is finished",
    "compare": "; the same command goes on from what is finished",
    "reproduce": "; the same command goes on from what is finished",
}

app = typer.Typer(
    help="Over-the-air mixup machine learning.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("run")(run_command)
app.command("account")(account_command)
app.command("plan")(plan_command)
app.command("compare")(compare_command)
app.command("attack")(attack_command)
app.command("audit")(audit_command)
app.command("reproduce")(reproduce_command)
app.command("presets")(presets_command)
app.command("show")(show_command)
app.add_typer(data.app, name="data")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"airmixml {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line: 0 when done, 2 and one line for a user's mistake, 130 when interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters still gets its table
    try:
        code = app(prog_name="airmix", standalone_mode=False)
        if sys.stdout is not None:  # closed by the caller
            sys.stdout.flush()
    except _UsageError as problem:
        _fail(f"{getattr(problem, 'format_message', problem.__str__)()} (see airmix --help)")
    except AirMixError as problem:
        _fail(str(problem))
    except MemoryError:
        _fail("not enough memory; run fewer slots or workers, or a smaller --block-slots")
    except RuntimeError as problem:  # what torch makes of a MemoryError, on the CPU and on a GPU
        if "allocate memory" not in str(problem) and "out of memory" not in str(problem):
            raise
        _fail("not enough memory; use a smaller network, fewer slots or workers, or a smaller --block-slots")
    except BrokenPipeError:  # the reader of a pipe went away: nothing is left to say
        _close_stdout()
        sys.exit(1)
    except OSError as problem:
        _close_stdout()
        _fail(f"the output cannot be written ({problem.strerror}); free space or write it elsewhere")
    if code == 130:
        sys.stderr.write(f"airmix: interrupted{_GOES_ON.get(sys.argv[1] if len(sys.argv) > 1 else '', '')}\n")
    sys.exit(code if isinstance(code, int) else 0)


def _close_stdout() -> None:
    """Let what could not be written vanish, so that Python does not try again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str) -> None:
    line = " ".join(message.split())[:_LONGEST_LINE]
    sys.stderr.write(f"airmix: error: {line}\n")
    sys.exit(2)
