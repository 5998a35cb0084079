"""What is to be reproduced, and the cells that it takes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from airmixml.errors import ScenarioError
from airmixml.reproduction.cells import Cell, fig3_cells, fig4_cells, table_cells
from airmixml.scenario import Scenario
from airmixml.sweeps import Batch, cut_into_batches
from airmixml.wording import nearest

TARGETS: Final = ("table1", "table2", "fig2", "fig3", "fig4")
DATASETS: Final = ("iris", "mnist")

# What a small version of the MNIST half is run on: digits that come with scikit-learn.
_QUICK_IMAGES: Final = (
    "name=quick-digits",
    "radio.slots=2000",
    "learner.epochs=8",
    "learner.learning_rate=0.01",
    "learner.filters=[8]",
    "learner.hidden_units=[32]",
)
_QUICK_IRIS: Final = ("name=quick-iris", "learner.epochs=60")


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to reproduce.

    Attributes:
        targets: tables and figures; "all" stands for every one.
        dataset: one half of the tables; None: both.
        seeds: runs per cell, with seeds 0, 1, ...
        quick: a small version: fewer slots and epochs, digits for MNIST; prints stand beside Iris only as a hint.
        as_printed: leave out the other readings of rows that look misprinted.
        device: cpu, cuda or cuda:N.
        bases: by data set (iris, mnist), scenarios that tables and figures vary instead of the paper's.
    """

    targets: tuple[str, ...]
    dataset: str | None = None
    seeds: int = 3
    quick: bool = False
    as_printed: bool = False
    device: str = "cpu"
    bases: Mapping[str, Scenario] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = (*TARGETS, "all")
        for target in self.targets:
            if target not in names:
                raise ScenarioError(
                    f"target {target!r}: must be one of {', '.join(names)}; did you mean {nearest(target, names)}?"
                )
        if self.dataset not in (None, *DATASETS):
            raise ScenarioError(f"--dataset = {self.dataset!r}: must be iris or mnist")
        if not 1 <= self.seeds <= 10_000:
            raise ScenarioError(f"--seeds = {self.seeds}: must be at least 1 and at most 10000")
        if self.dataset == "iris" and set(self.targets) <= {"fig3", "fig4"}:
            raise ScenarioError(f"--dataset = iris: nothing of {' and '.join(self.targets)}; leave --dataset out")
        if not re.fullmatch(r"cpu|cuda(:\d+)?", self.device):
            raise ScenarioError(f"--device = {self.device!r}: must be cpu or cuda (cuda:1 for the second one)")

    @property
    def wanted(self) -> tuple[str, ...]:
        """The targets, each once, in the order of the paper."""
        return TARGETS if "all" in self.targets else tuple(name for name in TARGETS if name in self.targets)

    def cell_groups(self) -> list[list[Cell]]:
        """Return the cells that are run in batches of their own: so one request finds again what another has done."""
        groups = []
        for target in self.wanted:
            if target in ("table1", "table2"):
                for dataset in (self.dataset,) if self.dataset else DATASETS:
                    cells = self._table_cells(target, dataset)
                    groups.append([cell for cell in cells if not cell.reading])
                    groups.append([cell for cell in cells if cell.reading and not self.as_printed])
            elif target in ("fig3", "fig4") and self.dataset != "iris":
                groups.append((fig3_cells if target == "fig3" else fig4_cells)(self._base("mnist")))
        return [cells for cells in groups if cells]

    def _table_cells(self, target: str, dataset: str) -> list[Cell]:
        # A small version prints beside the paper only what its size does not change: the energies of Iris.
        printed = not self.quick or (target, dataset) == ("table2", "iris")
        return table_cells(target, dataset, self._base(dataset), printed=printed)

    def batches(self, cells: Sequence[Cell]) -> list[Batch]:
        """Return the work that a group of cells takes, for all seeds."""
        scenarios = [cell.scenario.with_seed(seed) for seed in range(self.seeds) for cell in cells]
        return cut_into_batches(scenarios, cells[0].kind, device=self.device)

    def _base(self, dataset: str) -> Scenario:
        if dataset in self.bases:
            return self.bases[dataset]
        if not self.quick:
            return Scenario.preset(f"paper-{dataset}")
        if dataset == "iris":
            return Scenario.preset("paper-iris").with_overrides(*_QUICK_IRIS)
        return Scenario.preset("digits").with_overrides(*_QUICK_IMAGES)
