"""What once was wrong: removed workers under a limit, losses beyond the least exponential, silent designs."""

import itertools
import math
import warnings

import numpy as np
import pytest

from airmixml.messages import PrivacyError
from airmixml.privacy import (
    Design,
    GaussianSlots,
    Release,
    Sensitivity,
    Server,
    calibrate_power,
    certified_epsilon,
    state_privacy,
)


def hidden(
    squared_shift: float, count: int, sampled: int, population: int, adjacency: str = "replace-one"
) -> GaussianSlots:
    return GaussianSlots(
        squared_shifts=(squared_shift,),
        counts=(count,),
        adjacency=adjacency,
        sampling="without-replacement",
        sampled=sampled,
        population=population,
    )


def round_of_two_slots(values: tuple[float, ...], squared_shift: float) -> tuple[np.ndarray, float]:
    """Two slots of one worker each, none of whom sends in both; a density over both outputs, and its cell."""
    reach = 8.0 / math.sqrt(squared_shift)
    points = np.linspace(-1.0 - reach, 1.0 + reach, 601)
    scale = math.sqrt(squared_shift / (2.0 * math.pi))
    single = {value: scale * np.exp(-squared_shift * (points - value) ** 2 / 2.0) for value in set(values)}
    pairs = list(itertools.permutations(values, 2))
    return sum(np.outer(single[a], single[b]) for a, b in pairs) / len(pairs), float(points[1] - points[0]) ** 2


def test_a_worker_that_is_gone_is_covered_where_participations_are_limited() -> None:
    """Numbers in [-1, 1]: a removal moves by 1, a replacement by 4. The worker holds 1, all others hold -1."""
    delta = 0.01
    design = Design(
        workers=4,
        scheduled=1,
        received_watts=(4.0,),
        counts=(2,),
        sensitivity=Sensitivity(removal=1.0, replacement=4.0),
        noise_watts=2.0,
        max_participations=1,
    )
    epsilon = state_privacy(design, Release(), "pld", adjacency="remove-one", delta=delta).epsilon
    there, cell = round_of_two_slots((1.0, -1.0, -1.0, -1.0), 4.0)
    gone, _ = round_of_two_slots((-1.0, -1.0, -1.0), 4.0)
    assert np.maximum(there - math.exp(epsilon) * gone, 0.0).sum() * cell <= delta + 1e-6


def test_pld_does_not_jump_where_losses_reach_the_least_exponential() -> None:
    """Between 3300 and 3400 slots epsilon grows from 709 to 729; at 3340 it was 1085."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        before, between, after = (certified_epsilon("pld", hidden(1.0, n, 1, 2), 1e-5) for n in (3300, 3340, 3400))
    assert before < between < after


def test_pld_of_a_known_schedule_does_not_warn() -> None:
    for total in range(1150, 1250, 10):
        certified_epsilon(
            "pld", GaussianSlots(squared_shifts=(float(total),), counts=(1,), adjacency="replace-one"), 1e-3
        )


@pytest.mark.parametrize("accountant", ["paper-loose", "pld", "gdp"])
def test_a_design_that_sends_nothing_has_no_power_to_scale(accountant: str) -> None:
    silent = Design(
        workers=10,
        scheduled=2,
        received_watts=(0.0,),
        counts=(5,),
        sensitivity=Sensitivity(removal=1.0, replacement=1.0),
        noise_watts=1.0,
    )
    with pytest.raises(PrivacyError, match="received_watts: all are 0"):
        calibrate_power(silent, Server(), accountant, adjacency="replace-one", epsilon=9.0, delta=0.01)


def test_pld_of_a_known_schedule_of_many_kinds_is_exact() -> None:
    squared_shifts = tuple(0.01 * 1.3**k for k in range(12))
    many = GaussianSlots(squared_shifts=squared_shifts, counts=(1,) * 12, adjacency="replace-one")
    assert certified_epsilon("pld", many, 1e-5) == pytest.approx(certified_epsilon("gdp", many, 1e-5), rel=1e-4)
