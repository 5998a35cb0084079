"""Several antennas and uncertain noise in statements: the server has all antennas, a release only the chosen one."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from airmixml import Scenario
from airmixml.data import DataSet
from airmixml.impairments.gain_laws import gain_failure_of
from airmixml.messages import PrivacyError
from airmixml.planning.account import account_scenario
from airmixml.privacy import Design, Release, Sensitivity, Server, facts, state_privacy
from airmixml.radio import simulate_blocks
from airmixml.radio.air import Noise
from airmixml.radio.draws import AirSetting, draw_slots
from airmixml.radio.privacy_target import private_received_watts
from airmixml.radio.system import sensitivity_of
from airmixml.radio.tally import Tally, rehearse
from airmixml.randomness.slot_words import slot_words
from airmixml.streams import Streams
from airmixml.workers import Population


def scenario(*changes: str) -> Scenario:
    small = ("workers.count=30", "radio.scheduled=5", "radio.slots=40", "mixing.power=max")
    return Scenario().with_overrides(*small, *changes)


def test_without_fading_the_server_s_mu_squared_is_that_many_times_as_large() -> None:
    """The same powers, so all that four antennas add is to the server; who gets mixtures alone gains nothing."""
    weak = ("mixing.power=fixed", "mixing.power_scale_watts=1e-16")
    one, four = (rehearse(scenario(*weak, f"air.antennas={count}"), 4, 3) for count in (1, 4))
    pilots = one.sensitivity.removal == four.sensitivity.removal
    assert not pilots  # an ideal air has none
    squares = [
        tally.worker_squared_mu().max() / tally.sensitivity.squared_move("replace-one", "none") for tally in (one, four)
    ]
    assert squares[1] == pytest.approx(4.0 * squares[0], rel=1e-9)
    assert four.ledger.received_watts == pytest.approx(4.0 * one.ledger.received_watts, rel=1e-9)
    assert four.design.fact(facts.Drawn).received_watts == pytest.approx(
        one.design.fact(facts.Drawn).received_watts, rel=1e-9
    )
    assert four.design.received_watts == pytest.approx(one.design.received_watts, rel=1e-9)


def test_with_fading_the_server_has_what_every_antenna_receives() -> None:
    """P sum_a |h_a|^2 of each seat, with channels that are drawn here once more."""
    faded = scenario("radio.fading=rayleigh", "air.antennas=3")
    distance_metres = np.linspace(10.0, 300.0, 30)
    setting = AirSetting.of(faded, 4, 3, distance_metres)
    drawn = draw_slots(setting, range(40))
    tally = Tally(setting)
    tally.add_draws(drawn)
    source = slot_words(Streams(faded.seed), "fading")
    who = drawn.scheduled_workers.numpy()
    gains = [
        setting.worker_path_gain[who] * faded.radio.fading_kind.draw(faded.radio, range(40), 5, source, a).numpy()
        for a in range(3)
    ]
    watts = drawn.power_watts.numpy() * sum(gain**2 for gain in gains)
    expected = np.bincount(who.ravel(), watts.ravel(), 30)
    assert tally.ledger.received_watts == pytest.approx(expected, rel=1e-9)
    weakest = np.stack([gain.min(axis=1) for gain in gains])
    assert drawn.magnitude.numpy().min(axis=1) == pytest.approx(weakest.max(axis=0), rel=1e-12)
    assert tally.design.fact(facts.Drawn).server_watts == pytest.approx(expected.max())
    assert tally.design.at_server().fact(facts.Drawn).received_watts == pytest.approx(expected.max())
    # Before the draw is known the largest factor of any seat counts.
    most = float(np.max(sum(gain**2 for gain in gains) / drawn.magnitude.numpy() ** 2))
    plan = tally.design.before_the_draw()
    assert max(plan.at_server().received_watts) == pytest.approx(most * max(plan.received_watts))


def test_a_target_against_the_server_costs_power_and_one_against_a_release_does_not() -> None:
    by_server = ("mixing.power=dp", "privacy.adversary=server", "privacy.accountant=gdp", "privacy.epsilon=3")
    by_release = ("mixing.power=dp", "privacy.adversary=release", "privacy.accountant=pld", "privacy.epsilon=3")
    for changes, factor in ((by_server, 1.0 / 8.0), (by_release, 1.0)):
        # Both on an air that is not ideal, for equal pilots.
        sets = [scenario(*changes, "air.dac_bits=16", f"air.antennas={count}") for count in (1, 8)]
        watts = [private_received_watts(each, sensitivity_of(each, 4, 3)) for each in sets]
        assert watts[1] == pytest.approx(factor * watts[0], rel=1e-3)
        assert rehearse(sets[1], 4, 3).privacy.epsilon <= 3.0 + 1e-9


def test_fading_without_truncation_is_refused_in_one_line() -> None:
    asked = ("mixing.power=dp", "privacy.adversary=server", "privacy.accountant=gdp", "radio.fading=rayleigh")
    doubtful = scenario(*asked, "air.antennas=2")
    with pytest.raises(PrivacyError, match=r"air.antennas: fading puts no bound .* use air.truncation_db"):
        private_received_watts(doubtful, sensitivity_of(doubtful, 4, 3))
    bounded = scenario(*asked, "air.antennas=2", "air.truncation_db=-10")
    assert private_received_watts(bounded, sensitivity_of(bounded, 4, 3)) > 0.0


def test_designs_keep_the_antennas_when_they_are_scaled() -> None:
    design = Design(
        workers=10,
        scheduled=2,
        received_watts=(1.0,),
        counts=(5,),
        sensitivity=Sensitivity(removal=1.0, replacement=2.0),
        noise_watts=100.0,
        facts=(
            facts.PowerTells(),
            facts.Antennas(gain=4.0),
            facts.Drawn(received_watts=3.0, server_watts=7.0, participations=3),
        ),
    )
    server, release = (
        state_privacy(design.scaled(2.0), adversary, "gdp", adjacency="remove-one", delta=1e-5)
        for adversary in (Server(), Release())
    )
    alone = design.scaled(2.0)
    assert alone.fact(facts.Drawn).server_watts == 14.0
    # mu^2 = watts * removal / (noise / 2), and epsilon grows with it.
    assert Server().mechanism(alone, "remove-one").total == pytest.approx(14.0 / 50.0)
    assert Release().mechanism(alone, "remove-one").total == pytest.approx(6.0 / 50.0)
    assert server.epsilon > release.epsilon
    assert Server().mechanism(alone.before_the_draw(), "remove-one").squared_shifts[0] == pytest.approx(
        alone.before_the_draw().participations * 8.0 / 50.0
    )


def test_what_is_received_has_the_true_noise_and_learners_measure_it(
    small_dataset: DataSet, small_population: Population
) -> None:
    """400 slots of 5 symbols: the variance errs by 3 %, and 6 dB of doubt move it by more than that in most runs."""
    doubtful = Scenario().with_overrides(
        *("workers.count=12", "radio.scheduled=3", "radio.slots=1500", "mixing.power=max"),
        *("air.noise_uncertainty_db=6", "seed=3"),
    )
    (block,) = simulate_blocks(doubtful, small_dataset, small_population)
    beta = block.drawn.power_scale_watts
    noise = torch.cat([block.inputs - block.clean_inputs, block.labels - block.clean_labels], dim=1).double()
    watts = float((noise.square().mean(dim=1) * beta).mean()) * 2.0
    measured = float((block.noise_variance * beta).mean()) * 2.0
    true, nominal = Noise().drawn_watts(doubtful), 10.0 ** (-114 / 10 - 3)
    assert watts == pytest.approx(true, rel=0.1)
    assert measured == pytest.approx(true, rel=0.15)
    assert abs(math.log(true / nominal)) > 0.3


def test_an_account_of_the_median_worker_is_against_all_antennas() -> None:
    """Everybody sends once: the median worker is the worst one, and has the target's epsilon against the server."""
    asked = Scenario.preset("private-iris").with_overrides("air.antennas=4")
    account = account_scenario(asked, 4, 3)
    assert account.median_epsilon == pytest.approx(asked.privacy.epsilon, rel=1e-3)


@pytest.mark.parametrize("error", ["air.estimation_nmse_db=0", "air.speed_metres_per_second=30"])
def test_antennas_to_which_no_channel_was_estimated_hear_all_that_is_sent(error: str) -> None:
    """A channel that was taken for stronger than it is arrives weakly at the chosen antenna, at the others as sent."""
    faded = scenario("radio.fading=rayleigh", "air.antennas=4", "air.truncation_db=-10", error)
    distance_metres = np.linspace(10.0, 300.0, 30)
    setting = AirSetting.of(faded, 4, 3, distance_metres)
    drawn = draw_slots(setting, range(40))
    assert drawn.gains is not None
    assert drawn.antenna_gain is not None
    tally = Tally(setting)
    tally.add_draws(drawn)
    at_others = (drawn.ratios.square() * drawn.power_scale_watts[:, None] * (drawn.antenna_gain - 1.0)).numpy()
    at_chosen = (drawn.ratios.square() * drawn.power_scale_watts[:, None] * drawn.gains.peaks).numpy()
    heard = np.zeros(30)
    np.add.at(heard, drawn.scheduled_workers.numpy(), at_others + at_chosen)
    assert (heard <= tally.ledger.received_watts * (1.0 + 1e-9)).all()
    share = gain_failure_of(faded) / faded.radio.scheduled  # one worker's
    assert tally.privacy_against_server.gain_failure == pytest.approx(share)
