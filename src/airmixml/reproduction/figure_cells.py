"""Figures 3 and 4 as cells to run. The paper prints no values for them, only what they show."""

from __future__ import annotations

from typing import Final

from airmixml.reproduction.cells import Cell
from airmixml.scenario import Scenario

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
    "Rician, K = 10": ("radio.fading=rician", "radio.rician_k=10"),
    "Rician, K = 3": ("radio.fading=rician", "radio.rician_k=3"),
    "Rician, K = 1": ("radio.fading=rician", "radio.rician_k=1"),
    "Rayleigh": ("radio.fading=rayleigh",),
}
ASSIGNMENTS: Final = ("random", "max-min")


def fig3_cells(base: Scenario) -> list[Cell]:
    """Return the curves of Fig. 3: three policies, two path-loss exponents, maximum power, no fading."""
    return [
        _cell("fig3", base, f"n = {exponent}", policy, scheduled, f"radio.path_loss_exponent={exponent}", *settings)
        for scheduled in SCHEDULED
        for exponent in EXPONENTS
        for policy, settings in POLICIES.items()
    ]


def fig4_cells(base: Scenario) -> list[Cell]:
    """Return the curves of Fig. 4: DirMix(5) at n = 4 under fading, (a) random and (b) max-min assignment."""
    common = ("radio.path_loss_exponent=4", *POLICIES["DirMix(5)"])
    return [
        _cell("fig4", base, assignment, fading, scheduled, f"mixing.assignment={assignment}", *settings, *common)
        for scheduled in SCHEDULED
        for assignment in ASSIGNMENTS
        for fading, settings in FADINGS.items()
    ]


def _cell(target: str, base: Scenario, row: str, column: str, scheduled: int, *settings: str) -> Cell:
    return Cell(
        target=target,
        dataset="mnist",
        row=f"{row}, {scheduled} workers",
        column=column,
        quantity="accuracy",
        scenario=base.with_overrides(f"radio.scheduled={scheduled}", "mixing.power=max", *settings),
    )
