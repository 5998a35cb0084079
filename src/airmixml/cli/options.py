"""The commands of ``airmix``, and the options that several of them share, each declared once."""

import ast
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import update_wrapper
from importlib import import_module
from importlib.resources import files
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from typer import Argument, Context, Exit, Option, Typer, echo
from typer.core import TyperGroup
from typer.main import get_command

from airmixml.engines import Engine as Engines
from airmixml.messages import PluginError, ScenarioError
from airmixml.registry import Registry
from airmixml.version import __version__

if TYPE_CHECKING:  # a list of commands needs no scenario
    from airmixml.scenario import Scenario

# The commands of each module here, which is imported when one of them is called; in the order of the help.
_MODULES = {
    "demo": ("demo",),
    "run": ("run", "attack", "audit"),
    "predict": ("predict", "export", "report"),
    "plan": ("account", "plan"),
    "studies": ("compare", "sweep", "tolerances", "reproduce"),
    "ledger": ("ledger",),
    "explore": ("explore",),
    "deploy": ("deploy", "server", "worker", "gateway", "air"),
    "listings": ("init", "data", "presets", "airs", "show", "plugins"),
}
COMMANDS = {name: module for module, names in _MODULES.items() for name in names}


def about(name: str) -> str:
    """Return the first paragraph of a command's help without importing it, which takes seconds for some."""
    tree = ast.parse((files("airmixml.cli") / f"{COMMANDS[name]}.py").read_text(encoding="utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if own := functions.get(f"{name}_command"):
        return (ast.get_docstring(own) or "").partition("\n\n")[0]
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    made = next(call for call in calls if ast.unparse(call.func) == "options.command_group")
    return str(ast.literal_eval(made.args[0]))


class _LateGroup(TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in COMMANDS:
            self.commands[args[0]] = load(args[0])
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for name, command in self.commands.items():
            command.help = about(name)
        super().format_commands(ctx, formatter)


def load(name: str) -> Any:
    """Return the command of that name."""
    module = import_module(f"airmixml.cli.{COMMANDS[name]}")
    if not hasattr(module, f"{name}_command"):
        return get_command(module.app)
    alone = Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name)(with_groups(getattr(module, f"{name}_command")))
    return get_command(alone)


def _not_loaded() -> None:
    """Stand for a command in the list of commands."""


app = Typer(
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
        echo(f"airmixml {__version__}")
        raise Exit


@app.callback(invoke_without_command=True)
def _options(
    context: Context,
    _version: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        echo(context.get_help())


AirName = Annotated[
    str | None,
    Option("--air", metavar="NAME", help="Use a channel profile that comes with the package; see `airmix airs`."),
]
Seed = Annotated[int | None, Option(help="Seed of the (first) run [default: the scenario's].")]
Seeds = Annotated[int, Option(help="Number of runs, with consecutive seeds.")]
Out = Annotated[Path | None, Option(help="Folder to create [default: a name below runs/].")]
Force = Annotated[bool, Option("--force", help="Replace the folder --out if it holds earlier results.")]
Device = Annotated[str, Option(help="Compute on cpu or cuda (cuda:1 for the second GPU).")]
Threads = Annotated[int, Option(help="Number of CPU threads (0 uses all cores).")]
Engine = Annotated[str, Option(help="Compute on this machine (local) or on a Ray cluster (ray).")]
Jobs = Annotated[
    int | None, Option(help="Number of processes [default: 1 on this machine; all cores of a Ray cluster].")
]
DataDir = Annotated[Path | None, Option(help="Folder that holds the four MNIST files [default: the cache].")]
ShowValues = Annotated[
    bool,
    Option("--show-values", help="Let errors about protected data quote rows, values and names, for the owner alone."),
]
AsJson = Annotated[bool, Option("--json", help="Print one JSON object instead of tables.")]
Picture = Annotated[Path | None, Option(help="File of the figure: PNG, SVG or PDF [default: a name below runs/].")]
NoPicture = Annotated[bool, Option("--no-picture", help="Do not draw a figure.")]
InputDim = Annotated[int | None, Option(help="Number of inputs d_X of a data set that is not known by name.")]
LabelDim = Annotated[int | None, Option(help="Number of classes d_Y of a data set that is not known by name.")]


def command_group(about: str) -> Typer:
    """Return an application for commands of one kind, which says what they are where none is given."""
    group = Typer(help=about, add_completion=False, rich_markup_mode=None)

    @group.callback(invoke_without_command=True)
    def _help(context: Context) -> None:
        if context.invoked_subcommand is None:
            echo(context.get_help())

    return group


def choices(registry: Registry) -> str:
    """Return the names of a registry for a help text."""
    try:
        return ", ".join(registry.names)
    except PluginError:  # two packages claim one name: `airmix plugins` reports it, and other commands still work
        return ", ".join(registry.own)


def on_air(air: str | None, assignments: list[str] | None) -> list[str]:
    """Return the assignments with that of the air before them, so that each ``--set`` still counts."""
    others = list(assignments or ())
    if air is None:
        return others
    from airmixml.scenario import AIR_PRESETS
    from airmixml.scenario.rules import Choice

    Choice(tuple(AIR_PRESETS)).check("--air", air)
    if any(each.partition("=")[0].strip() == "air.preset" for each in others):
        raise ScenarioError(f"--air {air} and --set air.preset: both choose the channel profile; keep one of them")
    return [f"air.preset={air}", *others]


@dataclass(frozen=True)
class Chosen:
    """The options that name a scenario: a file or a preset, the air that it is put on, and what is changed in it."""

    file: Annotated[Path | None, Argument(help="Scenario file (TOML).", show_default=False)] = None
    preset: Annotated[str | None, Option(help="Scenario that comes with the package; see `airmix presets`.")] = None
    air: AirName = None
    assignments: Annotated[
        list[str] | None,
        Option("--set", metavar="KEY=VALUE", help="Change a key, such as privacy.epsilon=1; may be repeated."),
    ] = None
    bounds: Annotated[
        Path | None, Option(help="File of public bounds (TOML): a line COLUMN = [lower, upper] for each input column.")
    ] = None

    def read(self, seed: int | None = None) -> "Scenario":
        """Return the scenario; no data are read."""
        from airmixml.scenario import Scenario
        from airmixml.scenario.toml import rule_of

        overrides = on_air(self.air, self.assignments)
        if (self.file is None) == (self.preset is None):
            raise ScenarioError("give either a scenario file or --preset NAME (`airmix presets` lists them)")
        scenario = Scenario.load(self.file) if self.file is not None else Scenario.preset(self.preset or "")
        scenario = scenario.with_overrides(*overrides)
        if self.bounds is not None:
            scenario = scenario.with_bounds(self.bounds)
        return scenario if seed is None else scenario.with_seed(rule_of("seed").check("--seed", seed))

    def settled(
        self,
        seed: int | None = None,
        *,
        data_dir: Path | None = None,
        may_read: bool = True,
        test_rows: bool = True,
    ) -> "Scenario":
        """Return the scenario with the numbers that it leaves to its data, which are read where they are needed."""
        scenario = self.read(seed)
        if scenario.is_settled:
            return scenario
        if not may_read:
            raise ScenarioError(
                "workers.count = 0: needs data to count, and --input-dim says that none are read; add --set "
                "workers.count=N"
            )
        from airmixml.workers import settle  # here: it needs NumPy

        return settle(scenario, data_dir=data_dir, test_rows=test_rows)

    def words(self) -> list[str]:
        """Return the options as they are typed."""
        chosen = [str(self.file)] if self.file is not None else ["--preset", self.preset or ""]
        declared = [] if self.bounds is None else ["--bounds", str(self.bounds)]
        overrides = on_air(self.air, self.assignments)
        return [*chosen, *declared, *(word for each in overrides for word in ("--set", each))]


@dataclass(frozen=True)
class Where:
    """The options that say where a study is computed and kept."""

    engine: Engine = "local"
    jobs: Annotated[
        int | None, Option(help="Number of runs at a time [default: one per core; all of a Ray cluster].")
    ] = None
    out: Out = None
    force: Force = False
    device: Device = "cpu"
    data_dir: DataDir = None

    def settings(self) -> dict[str, Any]:
        """Return them as studies take them; refuse an engine or a number of jobs that cannot be."""
        Engines.of(self.engine, self.jobs)
        return {**vars(self), "jobs": self.jobs or 0}


def with_groups(command: Callable[..., None]) -> Any:
    """Return the command with the options of its groups: a parameter that is a dataclass stands for its fields."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if is_dataclass(kind) and isinstance(kind, type)}
    options = []
    for name, own in signature(command).parameters.items():
        in_group = [
            Parameter(each.name, Parameter.KEYWORD_ONLY, default=each.default, annotation=each.type)
            for each in (fields(groups[name]) if name in groups else ())
        ]
        options += in_group or [own.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[name])]

    def called(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in fields(group)})
        command(**given)

    made: Any = update_wrapper(called, command)
    made.__signature__ = Signature(options)
    made.__annotations__ = {each.name: each.annotation for each in options}
    return made


def check_force(force: bool, out: Path | None) -> None:
    """Refuse --force without --out: a default name is always free, so there is nothing to replace."""
    if force and out is None:
        raise ScenarioError("--force: replaces the folder --out; give --out too")
