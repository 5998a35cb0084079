"""The commands of ``airmix``, and how errors are reported."""

import os
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from airmixml.cli.streams import discard
from airmixml.devices import needs_torch
from airmixml.errors import AirMixError, AirMixWarning, is_out_of_memory
from airmixml.version import __version__
from airmixml.wording import reason

# Typer exports BadParameter alone; its base is the family of usage errors, wherever Typer keeps Click.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
_LONGEST_LINE = 1000
_OF_DEPLOYMENTS = ("cryptography", "paho", "zmq")
_NO_MEMORY = "not enough memory; use fewer slots, workers or features, a smaller network, or a smaller --block-slots"


class LateCommand(NamedTuple):
    """A command that is imported when it is called: ``airmix --help`` needs names and first lines alone."""

    place: str  # module:attribute, a function or a Typer application
    about: str  # the first paragraph of its help


COMMANDS: dict[str, LateCommand] = {
    name: LateCommand(f"airmixml.cli.{place}", about)
    for name, place, about in (
        ("demo", "demo:demo_command", "Run the paper's Iris experiment beside a private one."),
        ("init", "init:init_command", "Write a first scenario for your own data."),
        ("run", "run:run_command", "Run a scenario and write a run folder."),
        ("predict", "predict:predict_command", "Predict the class of raw rows with the model of a finished run."),
        (
            "export",
            "predict:export_command",
            "Export the model of a finished run to ONNX: from raw rows to label and probabilities in one graph.",
        ),
        ("account", "account:account_command", "Print the epsilon of every accountant against every adversary."),
        ("plan", "plan:plan_command", "Size a system before it is built."),
        ("compare", "compare:compare_command", "Compare a scenario with its alternatives."),
        ("attack", "attack:attack_command", "Attack a run and show what each adversary recovers."),
        ("audit", "audit:audit_command", "Try to refute a scenario's epsilon by experiment."),
        ("sweep", "sweep:sweep_command", "Run, attack or audit a scenario at every combination of values."),
        (
            "tolerances",
            "tolerances:tolerances_command",
            "Find how bad each impairment of the air may get, alone, before accuracy falls or a privacy target is "
            "missed.",
        ),
        ("reproduce", "reproduce:reproduce_command", "Reproduce the paper's tables and figures."),
        (
            "report",
            "report:report_command",
            "Write the report of a folder again, or put several folders side by side on one page.",
        ),
        (
            "ledger",
            "ledger:app",
            "Keep what each worker has spent over all runs, and refuse what would pass a budget.",
        ),
        (
            "explore",
            "explore:explore_command",
            "Design a system, watch a slot, and start and compare runs in the browser.",
        ),
        ("deploy", "deploy:app", "Set up a scenario as a system of separate processes."),
        (
            "server",
            "deploy:server_command",
            "Order rounds from workers, add up what they send, and learn from the sums.",
        ),
        (
            "worker",
            "deploy:worker_command",
            "Be a worker: answer the server's orders, within a budget that this worker keeps itself.",
        ),
        (
            "gateway",
            "deploy:gateway_command",
            "Be many workers behind one connection, with messages in batches and one ledger.",
        ),
        (
            "air",
            "air:air_command",
            "Emulate the air: add up complex baseband of workers over ZeroMQ, in NumPy or in GNU Radio.",
        ),
        ("presets", "listings:presets_command", "List the scenarios that come with the package."),
        (
            "airs",
            "listings:airs_command",
            "List the channel profiles that come with the package: what lies between workers and server.",
        ),
        ("show", "listings:show_command", "Print a preset as a scenario file that explains every key."),
        ("plugins", "listings:plugins_command", "List what can be chosen by name, and which package brings it."),
        ("data", "data:app", "List the data sets; fetch one."),
    )
}


class _LateGroup(TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name in COMMANDS:
            self.commands[name] = load(name, COMMANDS[name].place)
        return super().resolve_command(ctx, args)


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


app = typer.Typer(
    help="Over-the-air mixup machine learning.",
    cls=_LateGroup,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for _name, _command in COMMANDS.items():
    app.command(_name, help=_command.about)(_not_loaded)


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
