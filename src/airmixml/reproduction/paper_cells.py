"""Cells: the entries of Tables I and II and the curves of Figures 3 and 4, each with the scenario that should give it.

A request says which of them to run. What the tables print comes from the data files beside this one. Of the figures the
paper prints no values.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from typing import Any, Final, Literal

from airmixml.messages import ScenarioError, did_you_mean, power_of_ten
from airmixml.scenario import Scenario
from airmixml.sweeps import Energies, Trainings, cut_into_batches
from airmixml.sweeps.batches import Batch, Kind

TARGETS: Final = ("table1", "table2", "fig2", "fig3", "fig4")  #: What of the paper can be made again
DATASETS: Final = ("iris", "mnist")
AS_PRINTED: Final = "as printed"  #: the reading of an entry that is taken as it stands
# What two idle cores train in half a minute: the rows of Table I with the tightest privacy, of Iris.
QUICK_SEEDS: Final = 4
_QUICK_ROWS: Final = ("epsilon = 5", "epsilon = 10")

Quantity = Literal["accuracy", "energy"]
_QUANTITIES: Final[dict[str, Quantity]] = {"table1": "accuracy", "table2": "energy"}
_KEYS: Final = ("radio.scheduled", "mixing.alpha", "mixing.power", "privacy.epsilon", "radio.noise_dbm")

# The paper does not say how many workers send at once here: 64 is what its MNIST table begins with, 8 its Iris table.
SCHEDULED: Final = (64, 8)
EXPONENTS: Final = (2, 4)
POLICIES: Final = {
    "NonMix": ("mixing.policy=nonmix",),
    "EqualMix": ("mixing.policy=equalmix",),
    "DirMix(5)": ("mixing.policy=dirmix", "mixing.alpha=5"),
}
FADINGS: Final = {
    "no fading": ("radio.fading=none",),
    **{f"Rician, K = {k}": ("radio.fading=rician", f"radio.rician_k={k}") for k in (10, 3, 1)},
    "Rayleigh": ("radio.fading=rayleigh",),
}
ASSIGNMENTS: Final = ("random", "max-min")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What is run for one entry of the paper."""

    target: str
    dataset: str  #: ``iris`` or ``mnist``, as in the paper
    row: str
    column: str
    quantity: Quantity  #: test accuracy in percent, or energy in joules
    scenario: Scenario  #: what to run, with the first seed
    printed: float | None = None  #: the paper's value; None where it prints none
    stands_out: bool = False  #: the paper prints it in bold
    reading: str = ""  #: how the entry is read where print may be wrong; empty where it is as printed
    why: str = field(default="", compare=False)  #: what speaks for that reading

    @property
    def kind(self) -> Kind:
        return Trainings() if self.quantity == "accuracy" else Energies()

    def gap(self, value: float) -> float:
        """Return a value less the printed one: points of accuracy, or the relative difference of energy."""
        assert self.printed is not None
        gap = value - self.printed
        return gap if self.quantity == "accuracy" else gap / self.printed

    @property
    def command(self) -> str:
        """What runs it, and all others of its table or figure."""
        return f"airmix reproduce {self.target}" + (f" --dataset {self.dataset}" if "table" in self.target else "")

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Where in the paper the entry stands; equal for all its readings."""
        return self.target, self.dataset, self.row, self.column


def load_printed(table: str) -> dict[str, Any]:
    """Return a printed table as it stands in its data file."""
    return tomllib.loads(files(__package__).joinpath("printed", f"{table}.toml").read_text(encoding="utf-8"))


def table_notes(table: str, dataset: str) -> list[str]:
    """Return what is known about the differences between print and runs."""
    return list(load_printed(table)[dataset]["notes"])


def table_cells(table: str, dataset: str, base: Scenario) -> list[Cell]:
    """Return the cells of one half of a table: each entry as printed, then each that is also read otherwise.

    Rows and columns vary the scenario ``base``.
    """
    half = load_printed(table)[dataset]
    cells = [cell for row in half["row"] for cell in _row_cells(table, dataset, half, row, base)]
    return sorted(cells, key=lambda cell: cell.reading != "")


def _row_cells(table: str, dataset: str, half: dict[str, Any], row: dict[str, Any], base: Scenario) -> Iterator[Cell]:
    read_as = row.get("read_as", {})
    entries = zip(half["scheduled"], half["alpha"], row["printed"], strict=True)
    for number, (scheduled, alpha, value) in enumerate(entries):
        settings = {"power": "dp", **row, "scheduled": scheduled, "alpha": alpha}
        stated = Cell(
            target=table,
            dataset=dataset,
            row="max. power" if settings["power"] == "max" else f"epsilon = {power_of_ten(row['epsilon'])}",
            column=f"{scheduled} workers, alpha = {power_of_ten(alpha)}",
            quantity=_QUANTITIES[table],
            scenario=_scenario(base, settings),
            printed=value * row.get("unit_joules", 1.0),
            stands_out=number + 1 in row["best"],
        )
        yield stated
        read = {**settings, **read_as, "alpha": read_as.get("alpha", half["alpha"])[number]}
        changed = [name for name in ("epsilon", "alpha") if read.get(name) != settings.get(name)]
        changes = [f"{name} = {power_of_ten(read[name])}" for name in changed]
        if "noise_dbm" in read_as:
            changes.append(f"noise {read_as['noise_dbm']:g} dBm")
        if changes:
            yield replace(stated, scenario=_scenario(base, read), reading=", ".join(changes), why=read_as["why"])


def _scenario(base: Scenario, settings: dict[str, Any]) -> Scenario:
    names = {key.partition(".")[2]: key for key in _KEYS}
    return base.with_overrides(*(f"{key}={settings[name]}" for name, key in names.items() if name in settings))


def fig3_cells(base: Scenario) -> list[Cell]:
    """Return the curves of Fig. 3: three policies, two path-loss exponents, maximum power, no fading."""
    return [
        _curve("fig3", base, f"n = {exponent}", policy, scheduled, f"radio.path_loss_exponent={exponent}", *settings)
        for scheduled in SCHEDULED
        for exponent in EXPONENTS
        for policy, settings in POLICIES.items()
    ]


def fig4_cells(base: Scenario) -> list[Cell]:
    """Return the curves of Fig. 4: DirMix(5) at n = 4 under fading, (a) random and (b) max-min assignment."""
    common = ("radio.path_loss_exponent=4", *POLICIES["DirMix(5)"])
    return [
        _curve("fig4", base, assignment, fading, scheduled, f"mixing.assignment={assignment}", *settings, *common)
        for scheduled in SCHEDULED
        for assignment in ASSIGNMENTS
        for fading, settings in FADINGS.items()
    ]


def _curve(target: str, base: Scenario, row: str, column: str, scheduled: int, *settings: str) -> Cell:
    return Cell(
        target=target,
        dataset="mnist",
        row=f"{row}, {scheduled} workers",
        column=column,
        quantity="accuracy",
        scenario=base.with_overrides(f"radio.scheduled={scheduled}", "mixing.power=max", *settings),
    )


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to reproduce."""

    targets: tuple[str, ...]  #: tables and figures; "all" stands for every one
    dataset: str | None = None  #: one half of the tables; None for both
    seeds: int = 3  #: runs per cell, with seeds 0, 1,
    quick: bool = False  #: only what half a minute decides: energies and some accuracies of Iris, and Fig. 2
    as_printed: bool = False  #: leave out the other readings of rows that look misprinted
    device: str = "cpu"  #: cpu, cuda or cuda:N
    #: by data set (iris, mnist), scenarios that tables and figures vary instead of the paper's
    bases: Mapping[str, Scenario] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = (*TARGETS, "all")
        for target in self.targets:
            if target not in names:
                raise ScenarioError(
                    f"target {target!r}: must be one of {', '.join(names)}{did_you_mean(target, names)}"
                )
        if self.dataset not in (None, *DATASETS):
            raise ScenarioError(f"--dataset = {self.dataset!r}: must be iris or mnist")
        if not 1 <= self.seeds <= 10_000:
            raise ScenarioError(f"--seeds = {self.seeds}: must be at least 1 and at most 10000")
        if self.dataset == "iris" and set(self.targets) <= {"fig3", "fig4"}:
            raise ScenarioError(f"--dataset = iris: nothing of {' and '.join(self.targets)}; leave --dataset out")
        if self.quick and "fig2" not in self.wanted and not self.cell_groups():
            commands = " and ".join(dict.fromkeys(cell.command for cell in self.left_out()))
            raise ScenarioError(f"--quick: decides nothing of {' and '.join(self.wanted)} on MNIST; run {commands}")
        if not re.fullmatch(r"cpu|cuda(:\d+)?", self.device):
            raise ScenarioError(f"--device = {self.device!r}: must be cpu or cuda (cuda:1 for the second one)")

    @property
    def wanted(self) -> tuple[str, ...]:
        """The targets, each once, in the order of the paper."""
        return TARGETS if "all" in self.targets else tuple(name for name in TARGETS if name in self.targets)

    def cell_groups(self) -> list[list[Cell]]:
        """Return the cells that are run in batches of their own: so one request finds again what another has done."""
        chosen = ([cell for cell in cells if self._runs(cell)] for cells in self._groups)
        return [cells for cells in chosen if cells]

    def left_out(self) -> list[Cell]:
        """Return the entries and curves that a quick request does not run."""
        return [cell for cells in self._groups for cell in cells if not cell.reading and not self._runs(cell)]

    def _runs(self, cell: Cell) -> bool:
        trained = cell.quantity == "accuracy"
        in_time = cell.dataset == "iris" and not (trained and (cell.reading or cell.row not in _QUICK_ROWS))
        return in_time or not self.quick

    @cached_property
    def _groups(self) -> list[list[Cell]]:
        groups = []
        for target in self.wanted:
            if target in ("table1", "table2"):
                for dataset in (self.dataset,) if self.dataset else DATASETS:
                    cells = table_cells(target, dataset, self._base(dataset))
                    groups.append([cell for cell in cells if not cell.reading])
                    groups.append([cell for cell in cells if cell.reading and not self.as_printed])
            elif target in ("fig3", "fig4") and self.dataset != "iris":
                groups.append((fig3_cells if target == "fig3" else fig4_cells)(self._base("mnist")))
        return [cells for cells in groups if cells]

    def batches(self, cells: Sequence[Cell]) -> list[Batch]:
        """Return the work that a group of cells takes, for all seeds."""
        scenarios = [cell.scenario.with_seed(seed) for seed in range(self.seeds) for cell in cells]
        return cut_into_batches(scenarios, cells[0].kind, device=self.device)

    def _base(self, dataset: str) -> Scenario:
        return self.bases.get(dataset) or Scenario.preset(f"paper-{dataset}")
