"""Privacy statements on imperfect airs, against what neighbouring data really move, hand values and Monte Carlo."""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml import Scenario
from airmixml.audit.canaries import worst_samples
from airmixml.impairments.frame import frame_of
from airmixml.impairments.gain_bound import largest_power_gain
from airmixml.impairments.gain_errors import AmplitudeError
from airmixml.messages import PrivacyError
from airmixml.privacy import Design, Release, Sensitivity, facts
from airmixml.radio.air import air_of
from airmixml.radio.draws import AirSetting, draw_slots
from airmixml.radio.privacy_target import private_received_watts
from airmixml.radio.system import planned_design, sensitivity_of
from airmixml.radio.tally import placed_distances, rehearse
from airmixml.radio.transmission import make_sender
from airmixml.randomness.slot_words import slot_words
from airmixml.streams import Secret, Streams
from airmixml.workers.signal import Places

IRIS = Scenario.preset("paper-iris")
SMALL = IRIS.with_overrides(
    "workers.count=60", "radio.scheduled=12", "radio.slots=40", "privacy.adversary=server", "privacy.accountant=gdp"
)
SAMPLES = SMALL.with_overrides("privacy.sensitivity=encoder", "workers.label_weight=0.5")
MOMENTS = Scenario.preset("private-iris").with_overrides("workers.count=60", "radio.scheduled=60", "radio.slots=3")
ROUGH = (
    "air.phase_error_radians=0.6",
    "air.frequency_offset_hz=3000",
    "air.resync_seconds=2e-5",
    "air.amplitude_error_db=2",
    "air.estimation_nmse_db=-12",
    "air.reciprocity_nmse_db=-15",
    "air.absent=0.2",
    "air.power_step_db=1.5",
)


def received_moves(scenario: Scenario, worker: int) -> tuple[float, float]:
    """Return beta ||dy||^2 over all slots for another sample of the worker, and for its silence, pilots with it.

    All others hold what they hold; the complex baseband is mixed by the code that runs use, without noise.
    """
    features = 4 if scenario.workers.sends == "samples" else 5
    setting = AirSetting.of(scenario, features, 3, placed_distances(scenario))
    sender = make_sender(scenario, worst_samples(scenario, features, 3), torch.device("cpu"))
    frame = frame_of(scenario.air, setting.signal.symbols)
    drawn = draw_slots(setting, range(scenario.radio.slots))
    assert drawn.gains is not None
    seats = slice(0, drawn.ratios.shape[1])
    shares = drawn.ratios[:, :, None] * drawn.gains.of(seats)
    first = (drawn.scheduled_workers != worker).long() * 2  # of the three samples: others hold the third
    mine = (drawn.scheduled_workers == worker)[:, :, None]

    def mixed(index: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        parts = (sender.weighted_sum(index, part, Places(frame.lengths)) for part in (weights.real, weights.imag))
        return torch.complex(*(part.double() for part in parts))

    def watts(move: torch.Tensor) -> float:
        return float((move.abs().square().sum(dim=1) * drawn.power_scale_watts).sum())

    replaced = watts(mixed(first, shares) - mixed(first + (first == 0).long(), shares))
    silent = shares * ~mine
    on_pilots = (drawn.ratios[:, :, None] * drawn.gains.of_pilots(seats) * mine).sum(dim=1)
    pilots = watts(on_pilots) * setting.pilot_energy / frame.pilot_count
    return replaced, watts(mixed(first, shares) - mixed(first, silent)) + pilots


@pytest.mark.parametrize("scenario", [SAMPLES, MOMENTS], ids=["samples", "moments"])
def test_neighbours_move_the_complex_baseband_by_no_more_than_the_ledger_says(scenario: Scenario) -> None:
    aired = scenario.with_overrides(*ROUGH)
    dims = (4, 3) if scenario is SAMPLES else (5, 3)
    tally, sensitivity = rehearse(aired, *dims), sensitivity_of(aired, *dims)
    assert frame_of(aired.air, tally.signal.symbols).block_count > 1 or scenario is SAMPLES
    for worker in range(3):
        replaced, removed = received_moves(aired, worker)
        spent = float(tally.ledger.received_watts[worker])
        assert replaced <= spent * sensitivity.replacement * (1 + 1e-6)
        assert removed <= spent * sensitivity.removal * (1 + 1e-6)
        # And the ledger is not loose where the worst samples move: a wrong gain would show.
        assert removed > 0.5 * spent * sensitivity.removal


def test_without_pieces_the_ledger_is_exact() -> None:
    """One gain for the whole slot: beta q^2 |g|^2 times the norm of what is sent, 5 + 0.25, and 5 % of pilots."""
    aired = SAMPLES.with_overrides("air.amplitude_error_db=3", "air.phase_error_radians=1")
    _, removed = received_moves(aired, 0)
    spent = float(rehearse(aired, 4, 3).ledger.received_watts[0])
    assert removed == pytest.approx(spent * (4.0 + 0.25) * 1.05, rel=1e-5)


AIRS = st.fixed_dictionaries(
    {
        "air.phase_error_radians": st.floats(0.0, 3.0),
        "air.amplitude_error_db": st.floats(0.0, 3.0),
        "air.estimation_nmse_db": st.floats(-40.0, -5.0),
        "air.reciprocity_nmse_db": st.floats(-40.0, -5.0),
        "air.absent": st.floats(0.0, 0.5),
        "air.late": st.floats(0.0, 0.5),
        "air.power_step_db": st.floats(0.0, 3.0),
        "air.noise_uncertainty_db": st.floats(0.0, 3.0),
        "air.pilot_share": st.floats(0.01, 1.0),
        "air.speed_metres_per_second": st.floats(0.0, 30.0),
        "privacy.epsilon": st.floats(0.5, 20.0),
        "seed": st.integers(0, 1000),
    }
)


@settings(max_examples=15, deadline=None)
@given(AIRS, st.sampled_from(["replace-one", "remove-one"]))
def test_the_target_holds_for_every_worker_on_any_air(air: dict[str, float], adjacency: str) -> None:
    scenario = SAMPLES.with_overrides(
        *(f"{key}={value!r}" for key, value in air.items()), f"privacy.adjacency={adjacency}", "air.gain_failure=1e-6"
    )
    tally = rehearse(scenario, 4, 3)
    assert tally.worker_epsilons().max() <= scenario.privacy.epsilon * (1 + 1e-9)
    assert tally.privacy.epsilon <= scenario.privacy.epsilon * (1 + 1e-9)
    planned = planned_design(
        scenario, tally.sensitivity, received_watts=private_received_watts(scenario, tally.sensitivity)
    )
    assert max(tally.design.received_watts) <= max(planned.received_watts) * 1.0024  # steps of 0.01 dB, rounded up


@pytest.mark.parametrize("air", ["lab", "line-of-sight", "low-cost"])
@pytest.mark.parametrize("name", ["paper-iris", "private-iris"])
def test_presets_keep_their_target_for_every_worker_on_every_air(name: str, air: str) -> None:
    preset = Scenario.preset(name).on_air(air)
    preset = preset.with_overrides("privacy.adversary=server", "privacy.accountant=gdp")
    for seed in range(3):
        tally = rehearse(preset.with_seed(seed), 4 if name == "paper-iris" else 5, 3)
        assert tally.worker_epsilons().max() <= 5.0
        rarely = preset.with_overrides("air.gain_failure=1e-6")  # by default a gain may be above once in 100 runs
        assert tally.privacy.gain_bound <= air_of(rarely).gain_bound(rarely, tally.signal.symbols)


def test_the_server_s_epsilon_is_that_of_the_gains_that_were_drawn() -> None:
    """By mpmath, from draws alone: mu^2 = sum beta q^2 |g|^2 ||dv||^2 / (sigma^2 / 2)."""
    scenario = SAMPLES.with_overrides("air.amplitude_error_db=3", "air.noise_uncertainty_db=2", "air.absent=0.1")
    setting = AirSetting.of(scenario, 4, 3, placed_distances(scenario))
    drawn = draw_slots(setting, range(40))
    assert drawn.gains is not None
    gains = drawn.gains.of(slice(0, 12))[:, :, 0].abs().square()
    watts = (drawn.ratios.square() * gains * drawn.power_scale_watts[:, None]).flatten()
    worst = np.bincount(drawn.scheduled_workers.flatten().numpy(), watts.numpy()).max()
    half_noise = 10 ** ((-114.0 - 2.0) / 10 - 3) / 2
    mu = math.sqrt(worst * (4.0 + 2 * 0.25) / half_noise)
    found = rehearse(scenario, 4, 3).privacy
    epsilon = mpmath.mpf(found.epsilon)
    delta = mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)
    assert float(delta) == pytest.approx(0.01, rel=1e-6)
    assert found.epsilon < 5.0  # bounds are not reached


def test_a_bound_on_all_gains_of_a_run_is_a_union_bound_over_what_is_drawn() -> None:
    """7 seats, one draw each, whatever the number of pieces: P(abs(1 + r) > x) = 1e-4 / 7, by mpmath."""
    scenario = IRIS.with_overrides("air.reciprocity_nmse_db=-10", "air.gain_failure=1e-4")
    found = math.sqrt(largest_power_gain(scenario, 7, 1000))
    a, b = mpmath.sqrt(20), mpmath.sqrt(20) * found
    marcum = mpmath.quad(
        lambda x: x * mpmath.exp(-((x - a) ** 2) / 2) * mpmath.besseli(0, a * x) * mpmath.exp(-a * x), [b, b + 20]
    )
    assert 0.8 * 1e-4 / 7 < marcum <= 1e-4 / 7
    assert air_of(scenario).gain_bound(scenario, 1000) == largest_power_gain(scenario, 8 * 1000, 1000)
    assert air_of(scenario).gain_bound(scenario, 1000) == air_of(scenario).gain_bound(scenario, 0)


def test_a_statement_says_what_it_assumes_of_the_air() -> None:
    renewed = 'air.renewed_errors=["reciprocity_nmse_db"]'
    scenario = IRIS.with_overrides("air.reciprocity_nmse_db=-10", "air.noise_uncertainty_db=3", renewed)
    sensitivity = sensitivity_of(scenario, 4, 3)
    planned = planned_design(scenario, sensitivity, received_watts=1e-15)
    assert planned.fact(facts.ImperfectAir).gain_failure == 2e-4  # a fiftieth of delta: the schedule is hidden
    stated = rehearse(scenario, 4, 3).privacy
    assert stated.gain_failure == 0.0  # gains were drawn
    assert stated.gain_bound < planned.fact(facts.ImperfectAir).gain_bound
    assert "over noise of at least -117 dBm" in stated.why
    assert f"more than {stated.gain_bound:.4g} times the planned power" in stated.why
    never = planned_design(IRIS.with_overrides("air.amplitude_error_db=3"), sensitivity, received_watts=1e-15)
    assert never.fact(facts.ImperfectAir).gain_failure == 0.0  # uniform errors have an end
    assert never.fact(facts.ImperfectAir).gain_bound == pytest.approx(10**0.3)
    ideal = planned_design(IRIS, sensitivity, received_watts=1e-15)
    assert not ideal.says(facts.ImperfectAir)


def test_gains_without_a_bound_are_refused_where_a_target_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AmplitudeError, "largest_power_gain", lambda _self, _failure: math.inf)
    with pytest.raises(PrivacyError, match=r"nothing bounds how strongly a worker may be received"):
        rehearse(IRIS.with_overrides("air.amplitude_error_db=1"), 4, 3)


def test_silent_workers_of_a_poisson_schedule_have_gains_that_nobody_drew() -> None:
    """beta q^2 times 3 dB for the release, the gains that were drawn for the server."""
    shape = ("workers.count=300", "radio.scheduled=30", "radio.slots=20", "air.amplitude_error_db=3")
    scenario = Scenario.preset("private-mnist-release").with_overrides(*shape)
    scenario = scenario.with_overrides("mixing.power=fixed", "mixing.power_scale_watts=1e-12")
    tally = rehearse(scenario, 16, 10)
    assert tally.design.received_watts == pytest.approx((1e-12 / 30**2 * 10**0.3,))
    assert tally.design.fact(facts.Drawn).received_watts < tally.design.participations * tally.design.received_watts[0]


def test_a_hidden_schedule_has_credit_where_it_is_proven() -> None:
    sensitivity = Sensitivity(removal=1.0, replacement=2.0)

    def told(*overrides: str) -> Design:
        return planned_design(IRIS.with_overrides(*overrides), sensitivity, received_watts=1e-15)

    pilots = "air.estimation_pilots=16"  # far workers know their channel less well
    ranks = "mixing.assignment=max-min"
    assert not told("air.estimation_nmse_db=-10").says(facts.GainsTell)
    assert told(pilots).says(facts.GainsTell)
    assert not told(ranks).says(facts.GainsTell)
    assert told(ranks, "air.phase_error_radians=0.1").says(facts.GainsTell)
    poisson = ("radio.schedule=poisson", "mixing.policy=equalmix", "privacy.accountant=pld")
    assert not told(pilots, *poisson).says(facts.GainsTell)
    hidden = Release().mechanism(told("air.amplitude_error_db=1"), "replace-one")
    assert hidden.sampling == "without-replacement"
    assert hidden.squared_move == 2.0
    faded = ("radio.fading=rayleigh", "air.truncation_db=-10", "air.estimation_nmse_db=-10")
    assert not told(*faded).says(facts.GainsTell)
    # How a worker moves belongs to it where there is one path; a channel that fades is drawn anew for each seat.
    moving = told(*faded, "air.speed_metres_per_second=1")
    assert not moving.says(facts.GainsTell)
    assert not moving.says(facts.OthersInSeats)
    assert told("air.speed_metres_per_second=1").fact(facts.OthersInSeats).turned
    everybody = ("workers.count=100", "radio.scheduled=100")
    # Bounds on errors that stay must hold for every worker in every seat: these may fail for those who sat in none.
    for errors in (["air.reciprocity_nmse_db=-20"], [*faded, "air.amplitude_error_db=1"]):
        key = errors[-1].partition("=")[0].removeprefix("air.")
        assert told(*errors).says(facts.GainsTell)
        for others in ((f'air.renewed_errors=["{key}"]',), poisson, everybody):
            assert not told(*errors, *others).says(facts.GainsTell)
    assert Release().mechanism(told(pilots), "replace-one").sampling == "none"


@pytest.mark.parametrize(
    ("errors", "squared_move"),
    [
        (("air.amplitude_error_db=1",), 3.0),
        (("air.frequency_offset_hz=100",), 12.0),
        (("air.timing_offset_symbols=0.1",), 12.0),
        (("air.frequency_offset_hz=100", 'air.renewed_errors=["frequency_offset_hz"]'), 2.0),
        (("air.frequency_offset_hz=100", "workers.count=100", "radio.scheduled=100"), 2.0),
    ],
)
def test_another_worker_in_a_seat_has_an_amplitude_and_a_clock_of_its_own(
    errors: tuple[str, ...], squared_move: float
) -> None:
    """It may be softer, as one that falls silent, or add up with the first where both phases are opposite."""
    aired = IRIS.with_overrides(*errors)
    design = planned_design(aired, Sensitivity(removal=3.0, replacement=2.0), received_watts=1e-15)
    assert Release().mechanism(design, "replace-one").squared_move == squared_move


def test_a_release_counts_the_strongest_amplitude_that_any_worker_in_a_seat_may_have() -> None:
    """Not the amplitudes of those who were drawn, whose strengths differ from slot to slot."""
    scenario = IRIS.with_overrides("air.amplitude_error_db=2")
    planned_watts = private_received_watts(scenario, sensitivity_of(scenario, 4, 3))
    assert rehearse(scenario, 4, 3).design.received_watts == pytest.approx((planned_watts * 10**0.2,))
    renewed = scenario.with_overrides('air.renewed_errors=["amplitude_error_db"]')
    assert len(rehearse(renewed, 4, 3).design.received_watts) > 10


def test_ranks_and_phases_together_move_more_than_a_replacement() -> None:
    """Why max-min has no credit: a new worker ahead of three moves their shares, whose phases differ."""
    shares, gains = np.array([0.4, 0.3, 0.2, 0.1]), np.exp(1j * np.array([0.0, 2.0, 4.0, 0.0]))
    sample = np.array([1.0, 0.0])  # everybody's, and the newcomer's too: on the ideal air nothing moves
    before, after = shares, np.array([0.3, 0.2, 0.1, 0.4])  # seat 3 goes to a worker with the best channel
    assert np.linalg.norm((after - before).sum() * sample) < 1e-12
    assert abs(((after - before) * gains).sum()) > 0.3


@pytest.mark.parametrize("seed", range(20))
def test_somebody_softer_in_a_seat_moves_no_more_than_a_removal_or_a_replacement(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = rng.standard_normal((2, 3))
    first, second = rng.random(2)
    corners = max(np.sum((one - other) ** 2), np.sum(one**2), np.sum(other**2))
    assert np.sum((first * one - second * other) ** 2) <= corners + 1e-12
    design = planned_design(
        IRIS.with_overrides("air.power_step_db=1"), Sensitivity(removal=3.0, replacement=2.0), received_watts=1e-15
    )
    assert Release().mechanism(design, "replace-one").squared_move == 3.0


def test_loud_transmitters_exceed_their_limit_at_an_eavesdropper() -> None:
    sensitivity = Sensitivity(removal=1.0, replacement=1.0)
    loud = IRIS.with_overrides("air.amplitude_error_db=3")
    soft, full = (planned_design(loud, sensitivity, received_watts=watts) for watts in (1e-12, 1.0))
    soft, full = (each.stating(replace(each.fact(facts.Transmitters), weakest_gain=1e-9)) for each in (soft, full))
    assert soft.sent_watts[0] == pytest.approx(1e-3 * 10**0.3)
    assert full.sent_watts[0] == pytest.approx(10**-0.7 * 10**0.3)  # 23 dBm
    tally = rehearse(loud, 4, 3)
    quiet = rehearse(IRIS.with_overrides("air.phase_error_radians=1"), 4, 3)
    assert (
        tally.design.fact(facts.Drawn).sent_watts
        > float(tally.worker_energy_joules.max()) / tally.system.joules_per_watt * 1.9
    )
    assert quiet.design.fact(facts.Transmitters).excess == pytest.approx(1.0)
    watts = float(quiet.worker_energy_joules.max()) / quiet.system.joules_per_watt
    assert quiet.design.fact(facts.Drawn).sent_watts == pytest.approx(watts)


def test_gains_below_one_do_not_make_what_is_sent_seem_less() -> None:
    """Slots in which all channels fade by 6 dB while the power stays: sent is four times what is received tells."""
    design = planned_design(IRIS, Sensitivity(removal=1.0, replacement=1.0), received_watts=1e-12)
    design = design.stating(replace(design.fact(facts.Transmitters), excess=4.0, weakest_gain=1e-9))
    assert design.sent_watts[0] == pytest.approx(4e-3)


def test_before_the_draw_gains_are_those_of_the_bound() -> None:
    scenario = SMALL.with_overrides(*ROUGH)
    tally = rehearse(scenario, 4, 3)
    tally.before_the_draw = True
    bound = air_of(scenario).gain_bound(scenario, tally.signal.symbols)
    assert tally.design.fact(facts.ImperfectAir).gain_bound == bound
    assert tally.design.drawn is None


def test_what_is_drawn_for_the_air_is_secret_where_data_are_protected() -> None:
    """The noise on pilots hides who fell silent; with the seed alone nobody can repeat it."""
    words = [slot_words(Streams(7, Secret()), "air").words(range(3), 4) for _ in range(2)]
    assert not torch.equal(*words)
    assert not torch.equal(words[0], slot_words(Streams(7), "air").words(range(3), 4))


def test_an_eavesdropper_hears_no_more_than_is_stated_where_channels_err_too() -> None:
    """A loud transmitter may arrive softly at the server; what it radiates is P times its own amplitude error."""
    changes = ("workers.count=2", "radio.scheduled=2", "radio.slots=1", "mixing.policy=equalmix", "mixing.power=fixed")
    errors = ("mixing.power_scale_watts=1e-12", "air.amplitude_error_db=6", "air.reciprocity_nmse_db=0")
    for seed in range(30):
        scenario = IRIS.with_overrides(*changes, *errors, f"seed={seed}")
        tally = rehearse(scenario, 4, 3)
        drawn = draw_slots(AirSetting.of(scenario, 4, 3, placed_distances(scenario)), range(1))
        assert drawn.gains is not None
        off_db = 6.0 * (2.0 * drawn.gains.draws.uniforms("amplitude-error")[:, :, 0] - 1.0)
        radiated = float((drawn.power_watts * 10.0 ** (off_db / 10.0)).max())
        assert radiated <= tally.design.fact(facts.Drawn).sent_watts
        assert radiated <= max(tally.design.sent_watts)
