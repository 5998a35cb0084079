"""Table II of the paper, Iris: total energy from the stated settings, beside the printed values."""

from functools import cache

import numpy as np
import pytest

from airmixml import Scenario
from airmixml.radio.tally import rehearse_family

SEEDS = 12
TOLERANCE = 0.03

# Printed microjoules by (|N_t|, alpha): rows epsilon = 5, 10, 10^2, "10^4", max. power.
PRINTED = {
    (4, 1): (0.0912, 0.152, 0.220, 2.61, 0.246e6),
    (4, 10): (0.137, 0.230, 0.333, 3.94, 0.476e6),
    (4, 1e5): (0.291, 0.487, 0.705, 8.35, 0.348e6),
    (8, 1): (0.0615, 0.125, 0.196, 2.70, 0.257e6),
    (8, 10): (0.105, 0.215, 0.338, 4.64, 0.411e6),
    (8, 1e5): (0.375, 0.765, 1.201, 16.4, 0.817e6),
}
# The row printed as 10^4 holds the values of 10^5.
EPSILONS = (5.0, 10.0, 100.0, 1e5)


POWERS = (*(f"privacy.epsilon={epsilon}" for epsilon in (*EPSILONS, 1e4)), "mixing.power=max")


@cache
def family(scheduled: int, alpha: float) -> tuple[Scenario, ...]:
    """All rows of a column: they differ in power alone, so that everything else is drawn once for all of them."""
    base = Scenario.preset("paper-iris").with_overrides(f"radio.scheduled={scheduled}", f"mixing.alpha={alpha}")
    return tuple(base.with_overrides(power) for power in POWERS)


@cache
def energies_microjoules(scheduled: int, alpha: float) -> dict[str, list[float]]:
    """Energy of every seed by row."""
    tallies = [
        rehearse_family([each.with_seed(seed) for each in family(scheduled, alpha)], 4, 3) for seed in range(SEEDS)
    ]
    return {power: [1e6 * each[row].energy_joules for each in tallies] for row, power in enumerate(POWERS)}


def mean_energy_microjoules(scheduled: int, alpha: float, power: str) -> tuple[float, float]:
    """Mean over seeds and its standard error."""
    energies = energies_microjoules(scheduled, alpha)[power]
    return float(np.mean(energies)), float(np.std(energies) / np.sqrt(SEEDS))


@pytest.mark.parametrize(("scheduled", "alpha"), PRINTED)
def test_privacy_rows(scheduled: int, alpha: float) -> None:
    for epsilon, printed in zip(EPSILONS, PRINTED[scheduled, alpha], strict=False):
        energy, error = mean_energy_microjoules(scheduled, alpha, f"privacy.epsilon={epsilon}")
        assert error < 0.015 * printed
        assert energy == pytest.approx(printed, rel=TOLERANCE)


@pytest.mark.parametrize(("scheduled", "alpha"), [(4, 1), (8, 1), (8, 10), (8, 1e5)])
def test_maximum_power_row(scheduled: int, alpha: float) -> None:
    energy, _ = mean_energy_microjoules(scheduled, alpha, "mixing.power=max")
    assert energy == pytest.approx(PRINTED[scheduled, alpha][-1], rel=TOLERANCE)


def test_two_columns_of_the_maximum_power_row_are_swapped_in_print() -> None:
    ten, _ = mean_energy_microjoules(4, 10, "mixing.power=max")
    hundred_thousand, _ = mean_energy_microjoules(4, 1e5, "mixing.power=max")
    assert ten == pytest.approx(PRINTED[4, 1e5][-1], rel=TOLERANCE)
    assert hundred_thousand == pytest.approx(PRINTED[4, 10][-1], rel=TOLERANCE)


def test_the_row_of_ten_thousand_is_not_what_its_epsilon_gives() -> None:
    energy, _ = mean_energy_microjoules(4, 1e5, f"privacy.epsilon={1e4}")
    assert energy == pytest.approx(1.6, rel=0.05)
    assert energy < 0.25 * PRINTED[4, 1e5][3]
