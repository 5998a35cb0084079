"""A cell: one entry of a table or one curve of a figure, with the scenario that should give it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from airmixml.scenario import Scenario
from airmixml.sweeps.batches import Kind

Quantity = Literal["accuracy", "energy"]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What is run for one entry of the paper.

    Attributes:
        target: table or figure: ``table1``, ``fig3``, ...
        dataset: ``iris`` or ``mnist``, as in the paper.
        row: the row's label.
        column: the column's label.
        quantity: test accuracy in percent, or energy in joules.
        scenario: what to run, with the first seed.
        printed: the paper's value; None where it prints none.
        stands_out: the paper prints it in bold.
        reading: how the entry is read where print may be wrong; empty: as printed.
        why: what speaks for that reading.
    """

    target: str
    dataset: str
    row: str
    column: str
    quantity: Quantity
    scenario: Scenario
    printed: float | None = None
    stands_out: bool = False
    reading: str = ""
    why: str = field(default="", compare=False)

    @property
    def kind(self) -> Kind:
        """The work that gives its quantity."""
        return "training" if self.quantity == "accuracy" else "energy"

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Where in the paper the entry stands; equal for all its readings."""
        return self.target, self.dataset, self.row, self.column


def power_of_ten(value: float) -> str:
    """Return 100000.0 as 10^5, 693500.0 as 6.935e5, and what is below a hundred as it is."""
    if value < 100.0:
        return f"{value:g}"
    mantissa, _, exponent = f"{value:.10e}".partition("e")
    return f"10^{int(exponent)}" if float(mantissa) == 1.0 else f"{float(mantissa):g}e{int(exponent)}"
