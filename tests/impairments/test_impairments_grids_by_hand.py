"""Bounds on gains, point by point: the grids that they stand on, their ends, and what they are made of, by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import i0e

from airmixml import Scenario
from airmixml.impairments import gain_bound
from airmixml.impairments.frame import frame_of
from airmixml.impairments.gain_bound import (
    GainsInRounds,
    antenna_gain_bound,
    gain_spread,
    gains_in_rounds,
    largest_power_gain,
)
from airmixml.impairments.gain_laws import (
    GaussianError,
    SumBound,
    UniformError,
    fading_cells,
    gain_failure_of,
    joint_bound,
    joint_sum_bound,
    rice_tail,
)

MNIST = Scenario.preset("private-mnist").with_overrides("workers.features=16")
ROUNDS = Scenario.preset("private-mnist-rounds").with_overrides("workers.count=300", "radio.scheduled=300")
REACH = math.sqrt(40.0 * math.log(10.0))  # of CN(0, 1): it is beyond with 1e-40
RAYLEIGH = ("radio.fading=rayleigh", "air.truncation_db=-10")


def test_what_an_error_is_unless_told_otherwise() -> None:
    """Of a mean channel, new in every piece, with all of its variance, and it stays with the worker."""
    assert GaussianError(1.2, 0.04) == (1.2, 0.04, False, "piece", ((1, 1.0),), True)
    assert UniformError(0.3) == (0.3, True)


@pytest.mark.parametrize("draws", [1.5, 10.0, 1000.0])
def test_a_uniform_error_on_2047_steps(draws: float) -> None:
    """ln abs(g) is above -0.4 + 0.8 k / 2047 with 1 - k / 2047: the first k at which that is 1 / n at most."""
    steps = math.ceil(2047 * (1 - 1 / draws))
    found = math.log(joint_bound((UniformError(0.4),), 0.0, 1.0, 5, draws))
    assert found == pytest.approx(-0.4 + 0.8 * steps / 2047, rel=0, abs=1e-12)


def test_as_rarely_as_allowed_is_rare_enough() -> None:
    """Steps of 1 / 1024: the 1535th is exceeded with 512 / 2047, which is one in 2047 / 512."""
    largest, chance = 2047 / 2048, 1.0 - 1535 / 1024 / (2047 / 1024)
    assert chance * (1.0 / chance) == 1.0
    found = joint_bound((UniformError(largest),), 0.0, 1.0, 1, 1.0 / chance)
    assert math.log(found) == pytest.approx(1535 / 1024 - largest, rel=0, abs=1e-12)


@pytest.mark.parametrize(("error", "floor"), [(GaussianError(1.4, 0.04), 1.0), (GaussianError(1.4, 0.04, True), 0.1)])
def test_a_gaussian_error_on_2047_steps(error: GaussianError, floor: float) -> None:
    """Steps are equal up to ln(1 + e) with an e that is exceeded with 1e-40, behind the weakest channel."""
    step = math.log1p(REACH * 0.2 / 1.4 / math.sqrt(floor)) / 2047
    steps = (math.log(joint_bound((error,), 0.0, floor, 30, 1e4)) - math.log(1.4)) / step
    assert steps > 100
    assert steps == pytest.approx(round(steps), rel=0, abs=1e-6)
    assert joint_bound((error,), 0.0, floor, 30, 1e44) == math.inf  # rarer than the end of the grid


def test_the_error_that_grows_grows_whichever_stands_first() -> None:
    """Beside an error of next to nothing: as alone, on a grid that is as fine."""
    grows, nothing = GaussianError(1.0, 0.3, drawn="block", parts=((2, 0.1), (1, 0.5))), GaussianError(1.0, 1e-12)
    alone = joint_bound((grows,), 0.0, 1.0, 20, 1e4)
    for errors in ((grows, nothing), (nothing, grows)):
        assert joint_bound(errors, 0.0, 1.0, 20, 1e4) == pytest.approx(alone, rel=2e-3)


@pytest.mark.parametrize("deviation", [0.02, 0.7])
def test_the_bound_on_a_rice_tail(deviation: float) -> None:
    """exp(-a b) I_0(a b) at b, times the integral of x exp(-(x - a)^2 / 2) beyond; 1 at most."""
    a = math.sqrt(2.0) / deviation
    for amplitude in (1.0, 1.0 + deviation, 1.0 + 3.0 * deviation):
        b = a * amplitude
        beyond = quad(lambda x: x * math.exp(-((x - a) ** 2) / 2.0), b, b + 12.0, epsrel=1e-12)[0]
        exact = min(1.0, float(i0e(a * b)) * beyond)
        assert float(rice_tail(np.array(amplitude), deviation)) == pytest.approx(exact, rel=1e-9, abs=0.0)
    assert float(rice_tail(np.array(0.5), 0.3)) == 1.0


@pytest.mark.parametrize("direct", [0.0, 3.0])
def test_cells_of_fading_powers(direct: float) -> None:
    """The first is 0.4 % wide, the next 1.08 times that; the density of each is the largest of its two factors."""
    powers, chances = fading_cells(direct, 0.2)
    assert powers == pytest.approx(0.2 + 0.2 * 4e-3 * (1.08 ** np.arange(97) - 1.0) / 0.08, rel=1e-12)
    for cell in (0, 40, 75, 90):
        u = np.linspace(powers[cell], powers[cell + 1], 20_001)
        near = np.exp(-((np.sqrt((direct + 1.0) * u) - math.sqrt(direct)) ** 2)).max()
        far = float(i0e(2.0 * math.sqrt(direct * (direct + 1.0) * u[0])))
        exact = min(1.0, (direct + 1.0) * near * far * (u[-1] - u[0]))
        assert chances[cell] == pytest.approx(exact, rel=1e-6, abs=0.0)
    assert (chances.max(), chances[-1], len(chances)) == (1.0, 1.0, 97)


# -------------------------------------------------------------------------------------------------------- sums


def test_what_a_bound_on_sums_is_made_of() -> None:
    """ln M of a coin in closed form, at 512 tilts from 1e-4 to 1e4 over its mean, and at 0."""
    bound = SumBound.of(np.array([1.0, 3.0]), np.array([0.2, 4e-8]), 10, 1e6)
    assert bound is not None
    assert len(bound.tilts) == 513
    assert bound.tilts[[1, -1]] == pytest.approx(np.array([1e-4, 1e4]) / (0.8 + 3 * (0.2 - 4e-8)), rel=1e-12)
    exact = np.logaddexp(math.log(0.8) + bound.tilts, math.log(0.2 - 4e-8) + 3.0 * bound.tilts)
    assert bound.log_moments == pytest.approx(exact, rel=1e-12, abs=1e-12)
    assert [each.tolist() for each in bound.factors] == [[1.0], [1.0]]
    one = SumBound.constant(2.0, 100.0)
    assert one.tilts[[1, -1]] == pytest.approx([5e-5, 5e3], rel=1e-12)
    behind = one.behind(np.array([1.0, 2.0, 5.0]), np.array([0.3, 0.1, 1e-3]))
    assert behind is not None
    assert behind.factors[0].tolist() == [1.0, 2.0, 5.0]
    assert behind.factors[1] == pytest.approx([0.7, 0.2, 0.099], rel=1e-12)
    assert behind.rarity == pytest.approx(-math.log(0.01 - 1e-3), rel=1e-12)
    same = one.times(np.array([0.5, 1.0]), np.array([0.3, 0.0]), 1)
    assert same is not None
    assert same.tilts.tolist() == one.tilts.tolist()  # up to the last: no value is above 1
    small = slice(0, 400)
    exact = np.logaddexp(math.log(0.7) + one.tilts, math.log(0.3) + 2.0 * one.tilts)
    assert same.log_moments[small] == pytest.approx(exact[small], rel=1e-3, abs=1e-12)


@pytest.mark.parametrize("join", [lambda sums, above: sums.behind(np.ones(2), above),
                                  lambda sums, above: sums.times(np.ones(2), above, 1)])  # fmt: skip
def test_nothing_is_left_of_what_may_fail(join: Callable[[SumBound, Any], Any]) -> None:
    sums = SumBound.constant(1.0, 1.0)
    assert join(sums, np.array([1.0, 1.0])) is None
    assert join(sums, np.array([1.0, 0.75])).rarity == pytest.approx(math.log(4.0), rel=1e-12)


def test_sums_without_a_factor_or_the_weakest_channel() -> None:
    """Unless told otherwise, gains count once, behind channels as they fade."""
    error = GaussianError(1.0, 0.01, over_fading=True, stays=False)
    plain = joint_sum_bound((error,), (0.0, 0.1), 4, 6, 1e5)
    told = joint_sum_bound((error,), (0.0, 0.1), 4, 6, 1e5, 1.0, weakest=False)
    assert plain is not None
    assert told is not None
    assert plain.total(6) == told.total(6)
    # A gain is exp(k step) with k up to 2047: the mean of the law, which sets the tilts, is at most its largest.
    assert plain.log_moments[1] / plain.tilts[1] == pytest.approx(1e-4 / plain.tilts[1], rel=1e-3)


# --------------------------------------------------------------------------------------------------- of a run


@pytest.mark.parametrize(
    ("changes", "failure"),
    [
        ((), 1e-2),
        (("privacy.delta=1e-7",), 0.02 * 1e-7 * 60_000),
        (("radio.scheduled=64", "radio.slots=100", 'privacy.adversary="server"'), 0.02 * 1e-5 * 64),
        (("radio.scheduled=64", "radio.slots=100", 'privacy.adversary="release"'), 0.02 * 1e-5),
        (("air.gain_failure=3e-4",), 3e-4),
    ],
)
def test_how_often_gains_may_exceed_their_bound(changes: tuple[str, ...], failure: float) -> None:
    """A hundredth of runs; a fiftieth of delta for each that may be somebody's gain; or as told."""
    asked = MNIST.with_overrides("air.reciprocity_nmse_db=-20", *changes)
    assert gain_failure_of(asked) == pytest.approx(failure, rel=1e-12, abs=0.0)


RECIPROCITY, ESTIMATE = "air.reciprocity_nmse_db=-20", "air.estimation_nmse_db=-20"
OFDM = (
    "air.waveform=ofdm",
    "air.subcarriers=64",
    "air.cyclic_prefix=0.1",
    "air.cluster_subcarriers=4",
    "air.delay_spread_seconds=8e-7",
)


@pytest.mark.parametrize(
    ("changes", "errors", "direct", "floor", "places"),
    [
        ((RECIPROCITY,), (GaussianError(1.0, 0.01, drawn="slot"),), 0.0, 1.0, 1),
        ((ESTIMATE, *RAYLEIGH), (GaussianError(1.0, 0.01, True, "block", stays=False),), 0.0, 0.1, 1),
        (
            (ESTIMATE, RECIPROCITY, "air.truncation_db=-10", "radio.fading=rician", "radio.rician_k=3"),
            (GaussianError(1.0, 0.01, True, "block", stays=False), GaussianError(1.0, 0.01, drawn="slot")),
            3.0,
            0.1,
            1,
        ),
        (
            (ESTIMATE, *RAYLEIGH, "air.antennas=4"),
            (GaussianError(1.0, 0.01, True, "block", stays=False),),
            0.0,
            0.1,
            4,
        ),
        (
            (ESTIMATE, "radio.fading=rician", "radio.rician_k=3", "air.truncation_db=-10", *OFDM),
            (GaussianError(1.0, 0.01, True, "block", stays=False),),
            3.0,
            0.1,
            16,
        ),
    ],
)
@pytest.mark.parametrize("symbols", [0, 1500])
def test_gains_of_a_run_are_bounded_by_the_laws_of_their_errors(
    changes: tuple[str, ...], errors: tuple[GaussianError, ...], direct: float, floor: float, places: int, symbols: int
) -> None:
    """Squared, and a part in 1e9 for rounding; 2^20 pieces where it is not known how many there are.

    A place is the pilot of a block, once for each of the antennas or clusters of subcarriers that it could be.
    """
    asked = MNIST.with_overrides("air.gain_failure=1e-3", "air.phase_noise_hz=50", "air.resync_seconds=1e-3", *changes)
    frame = frame_of(asked.air, 1500)
    assert frame.pilot_count < frame.with_pilots.pieces
    if errors[0].drawn != "slot":
        places *= frame.pilot_count if symbols else 1 << 20
    exact = joint_bound(errors, direct, floor, places, 40 / (1e-3 / min(asked.air.antennas, 2)))
    assert largest_power_gain(asked, 40, symbols) == pytest.approx(exact**2 * (1 + 1e-9), rel=1e-13)


def test_unless_told_otherwise_nobody_knows_how_many_symbols_there_are() -> None:
    asked = ROUNDS.on_air("campus").with_overrides("air.antennas=3")
    for bound in (largest_power_gain, antenna_gain_bound):
        assert bound(asked, 40) == bound(asked, 40, 0) > bound(asked, 40, 1)


@pytest.mark.parametrize("antennas", [1, 3])
@pytest.mark.parametrize("symbols", [0, 1500])
def test_an_error_without_a_law_has_its_share_of_the_failure(symbols: int, antennas: int) -> None:
    """No floor under a fade: 1 + sqrt(variance / p), p half of the failure over all seats, antennas and pieces."""
    asked = MNIST.with_overrides(
        *("mixing.power=fixed", "mixing.power_scale_watts=1e-12", "radio.fading=rayleigh", "air.gain_failure=1e-3"),
        *(ESTIMATE, RECIPROCITY, "air.phase_noise_hz=50", f"air.antennas={antennas}"),
    )
    pieces = frame_of(asked.air, 1500).with_pilots.pieces if symbols else 1 << 20
    half = 0.5e-3 / min(antennas, 2)
    alone = (1.0 + math.sqrt(0.01 * 40 * pieces * antennas / half)) ** 2
    joint = joint_bound((GaussianError(1.0, 0.01, drawn="slot"),), 0.0, 0.0, 1, 40 / half)
    assert largest_power_gain(asked, 40, symbols) == pytest.approx(alone * joint**2 * (1 + 1e-9), rel=1e-12)


NEW = 'air.renewed_errors=["reciprocity_nmse_db"]'


@pytest.mark.parametrize(
    ("changes", "most_antennas"),
    [
        (("air.amplitude_error_db=1",), math.inf),
        (("learner.rounds=1",), 4.0),
        (("workers.count=301",), 4.0),
        (("air.antennas=1", "air.amplitude_error_db=1"), 1.0),
    ],
)
def test_gains_in_rounds_of_which_only_the_largest_is_known(changes: tuple[str, ...], most_antennas: float) -> None:
    asked = ROUNDS.with_overrides("air.antennas=4", *changes)
    assert gains_in_rounds(asked, 9.0, most_antennas, 150) is None


@pytest.mark.parametrize("antennas", [2, 4])
def test_gains_in_rounds_that_never_fail(antennas: int) -> None:
    """A decibel at one antenna; at M of them, n times M v, and v ln(1 / p) / 1e4 at the largest tilt."""
    asked = ROUNDS.with_overrides(f"air.antennas={antennas}", "air.amplitude_error_db=1", "air.gain_failure=1e-2")
    found, rounds = gains_in_rounds(asked, 10**0.1, 100.0, 150), asked.learner.rounds
    assert found is not None
    assert found.at_chosen == (10**0.1,) * rounds
    rarity = math.log(300 / (0.005 * rounds / asked.slots_on_air))
    exact = [antennas * 10**0.1 * (1.0 + rarity / 1e4 / n) for n in range(1, rounds + 1)]
    assert found.at_server == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize(("largest", "most_antennas"), [(100.0, 100.0), (1.0, 3.0)])
def test_gains_in_two_rounds_that_may_fail(largest: float, most_antennas: float) -> None:
    """Sums over four antennas without fading, of an error that is new in every slot; at most the largest given."""
    asked = ROUNDS.with_overrides("air.antennas=4", RECIPROCITY, NEW, "air.gain_failure=1e-2", "learner.rounds=2")
    found = gains_in_rounds(asked, largest, most_antennas, 150)
    error = GaussianError(1.0, 0.01, drawn="slot", stays=False)
    sums = joint_sum_bound((error,), (0.0, 1.0), 1, 2, 300 / (0.005 * 2 / asked.slots_on_air), 1.0 + 1e-9)
    assert found is not None
    assert sums is not None
    totals = [sums.total(1), sums.total(2) / 2.0]
    assert found.at_chosen == pytest.approx([min(each, largest) for each in totals], rel=1e-12)
    assert found.at_server == pytest.approx([min(4 * each, largest * most_antennas) for each in totals], rel=1e-12)


def test_gains_in_rounds_of_channels_that_fade() -> None:
    """One antenna: channels as they fade, not the weakest; and no sums where what stays is relative to a channel."""
    asked = ROUNDS.with_overrides(ESTIMATE, *RAYLEIGH, "air.gain_failure=1e-2")
    found, rounds = gains_in_rounds(asked, 100.0, 1.0, 150), asked.learner.rounds
    error = GaussianError(1.0, 0.01, True, "block", stays=False)
    sums = joint_sum_bound((error,), (0.0, 0.1), 1, rounds, 300 / (0.01 * rounds / asked.slots_on_air), 1.0 + 1e-9)
    assert sums is not None
    exact = GainsInRounds.means(sums, 100.0, rounds)
    assert found == (exact, exact)


# ------------------------------------------------------------------------------------------------------ spread


def test_levels_of_power_are_counted_out() -> None:
    """256 levels within a step of 3 dB, each in its middle, and 512 workers who have them alike."""
    levels = 10.0 ** (-3.0 * (np.arange(256) + 0.5) / 256 / 20)
    exact = float(levels.var() / levels.mean() ** 2)
    assert gain_spread(MNIST.with_overrides("air.power_step_db=3.0")) == pytest.approx(exact, rel=1e-9, abs=0.0)


def test_symbols_that_reach_into_others() -> None:
    """A raised cosine of roll-off 0.25, sampled up to 0.4 symbols off time, uniformly: what differs, on all symbols."""
    asked = MNIST.with_overrides("air.timing_offset_symbols=0.4", "air.roll_off=0.25")
    times = 0.4 * np.linspace(-1.0, 1.0, 512)[:, None] + np.arange(-40, 41)
    pulse = np.sinc(times) * np.cos(math.pi * 0.25 * times) / (1.0 - (0.5 * times) ** 2)
    exact = float(pulse.var(axis=0).sum() / np.square(pulse.mean(axis=0)).sum())
    assert gain_spread(asked) == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("heard", [True, False])
def test_pieces_in_which_nobody_is_heard_do_not_count(monkeypatch: pytest.MonkeyPatch, heard: bool) -> None:
    """0.5 (1 +- 0.2), 0 and 2 (1 +- 0.4): the mean of 0.04 and 0.16."""
    asked, turns = MNIST.with_overrides("air.phase_noise_hz=123"), torch.tensor([1.0, -1.0]).repeat(256)[:, None]
    given = torch.tensor([0.5, 0.0, 2.0]) * (1.0 + turns * torch.tensor([0.2, 0.0, 0.4])) * heard

    def drawn(scenario: Scenario, frame: object, path_gain: float, source: object) -> torch.Tensor:
        assert (frame, path_gain) == (frame_of(asked.air, 4096), 1.0)
        return given.to(torch.complex128)

    monkeypatch.setattr(gain_bound, "some_gains", drawn)
    gain_bound._gain_spread.cache_clear()
    assert gain_spread(asked) == pytest.approx(0.1 if heard else 0.0, rel=1e-6)
    gain_bound._gain_spread.cache_clear()
