"""Table II of the paper, Iris: total energy from the stated settings, beside the printed values."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from airmixml import Scenario
from airmixml.radio.rehearsal import rehearse_family

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


# What differs in power alone is rehearsed on the same draws.
CHANGES = {
    **{epsilon: f"privacy.epsilon={epsilon}" for epsilon in (*EPSILONS, 1e4)},
    "max": "mixing.power=max",
}


@pytest.fixture(scope="module")
def energy() -> Callable[[int, float, float | str], tuple[float, float]]:
    """Microjoules of all workers by |N_t|, alpha and row: mean over seeds, and its standard error."""

    @cache
    def column(scheduled: int, alpha: float) -> NDArray[np.float64]:
        base = Scenario.preset("paper-iris").with_overrides(f"radio.scheduled={scheduled}", f"mixing.alpha={alpha}")
        family = [base.with_overrides(change) for change in CHANGES.values()]
        return np.array(
            [
                [1e6 * tally.energy_joules for tally in rehearse_family([each.with_seed(s) for each in family], 4, 3)]
                for s in range(SEEDS)
            ]
        )

    def of(scheduled: int, alpha: float, row: float | str) -> tuple[float, float]:
        energies = column(scheduled, alpha)[:, list(CHANGES).index(row)]
        return float(np.mean(energies)), float(np.std(energies) / np.sqrt(SEEDS))

    return of


Energy = Callable[[int, float, float | str], tuple[float, float]]


@pytest.mark.parametrize(("scheduled", "alpha"), PRINTED)
def test_privacy_rows(energy: Energy, scheduled: int, alpha: float) -> None:
    for epsilon, printed in zip(EPSILONS, PRINTED[scheduled, alpha], strict=False):
        mean, error = energy(scheduled, alpha, epsilon)
        assert error < 0.015 * printed
        assert mean == pytest.approx(printed, rel=TOLERANCE)


@pytest.mark.parametrize(("scheduled", "alpha"), [(4, 1), (8, 1), (8, 10), (8, 1e5)])
def test_maximum_power_row(energy: Energy, scheduled: int, alpha: float) -> None:
    assert energy(scheduled, alpha, "max")[0] == pytest.approx(PRINTED[scheduled, alpha][-1], rel=TOLERANCE)


def test_two_columns_of_the_maximum_power_row_are_swapped_in_print(energy: Energy) -> None:
    assert energy(4, 10, "max")[0] == pytest.approx(PRINTED[4, 1e5][-1], rel=TOLERANCE)
    assert energy(4, 1e5, "max")[0] == pytest.approx(PRINTED[4, 10][-1], rel=TOLERANCE)


def test_the_row_of_ten_thousand_is_not_what_its_epsilon_gives(energy: Energy) -> None:
    mean, _ = energy(4, 1e5, 1e4)
    assert mean == pytest.approx(1.6, rel=0.05)
    assert mean < 0.25 * PRINTED[4, 1e5][3]
