"""Each worker by its own coin: the law of the draws, the shares, slots in which nobody sends, and the accountants."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from airmixml import PrivacyError, Scenario, ScenarioError, simulate
from airmixml.arrays import dbm_to_watts
from airmixml.edge import train
from airmixml.radio.draws import AirSetting, draw_slots, in_blocks
from airmixml.radio.privacy_target import private_received_watts
from airmixml.radio.system import sensitivity_of
from airmixml.radio.tally import rehearse


def coins(*changes: str) -> Scenario:
    return Scenario().with_overrides(
        "workers.count=40",
        "workers.encoder=clip",
        "radio.scheduled=6",
        "radio.schedule=poisson",
        "radio.slots=6000",
        "mixing.policy=equalmix",
        "privacy.adjacency=remove-one",
        "privacy.accountant=pld",
        "privacy.sensitivity=encoder",
        "learner.model=ridge",
        *changes,
    )


def presence(scenario: Scenario) -> np.ndarray:
    """Who sends in which slot, as the air sees it; slots x workers."""
    setting = AirSetting.of(scenario, 4, 3, np.full(scenario.workers.count, 50.0))
    sending = np.zeros((scenario.radio.slots, scenario.workers.count), dtype=bool)
    first = 0
    for drawn in (draw_slots(setting, some) for some in in_blocks(range(scenario.radio.slots), 1000)):
        draws = drawn.numpy()
        for slot in range(len(draws)):
            who = draws.scheduled_workers[slot][draws.ratios[slot] > 0.0]
            assert len(set(who)) == len(who)
            sending[first + slot, who] = True
            assert set(draws.ratios[slot]) <= {0.0, 1.0 / scenario.radio.scheduled}
            assert ((draws.power_watts[slot] > 0.0) == (draws.ratios[slot] > 0.0)).all()
        first += len(draws)
    return sending


def test_every_worker_tosses_a_coin_of_its_own() -> None:
    """6000 slots, 40 workers, rate 0.15. Deviations are stated; a fixed number of 6 would have no variance at all."""
    sending, rate = presence(coins()), 0.15
    counts = sending.sum(axis=1)
    # Number of senders: Binomial(40, 0.15), mean 6 and variance 5.1; bins of at least 20 expected.
    values, edges = np.arange(41), [0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 41]
    law = stats.binom.pmf(values, 40, rate)
    expected = [6000 * law[low:high].sum() for low, high in itertools.pairwise(edges)]
    found = [((counts >= low) & (counts < high)).sum() for low, high in itertools.pairwise(edges)]
    assert stats.chisquare(found, expected).pvalue > 1e-4
    assert counts.mean() == pytest.approx(6.0, abs=5 * math.sqrt(5.1 / 6000))
    assert counts.var() == pytest.approx(5.1, rel=0.1)
    # Slots of each worker: Binomial(6000, 0.15).
    assert stats.chisquare(sending.sum(axis=0), np.full(40, 900.0), sum_check=False).statistic / (1 - rate) == (
        pytest.approx(40.0, abs=5 * math.sqrt(80.0))
    )
    # Two workers know nothing of each other, and a slot nothing of the one before: correlations of 1 / sqrt(6000).
    correlation = np.corrcoef(sending.T)[np.triu_indices(40, 1)]
    assert np.abs(correlation).max() < 5.0 / math.sqrt(6000)
    assert correlation.mean() == pytest.approx(0.0, abs=5.0 / math.sqrt(6000 * 780))
    assert abs(np.corrcoef(counts[:-1], counts[1:])[0, 1]) < 5.0 / math.sqrt(6000)


def test_no_slot_runs_out_of_seats() -> None:
    """More senders than seats are less likely than 1e-30 by the binomial's own tail; one seat less would not do."""
    for workers, scheduled in ((40, 6), (40, 1), (60_000, 256), (10**6, 1), (7, 7)):
        scenario = coins(f"workers.count={workers}", f"radio.scheduled={scheduled}")
        seats = scenario.seats
        assert scheduled <= seats <= workers
        assert stats.binom.sf(seats, workers, scheduled / workers) <= 1e-30
        assert seats == workers or stats.binom.sf(seats - 1, workers, scheduled / workers) > 1e-30
        assert scenario.with_overrides("radio.schedule=fixed").seats == scheduled


def test_the_ledger_counts_only_who_sends() -> None:
    scenario = coins("radio.slots=700")
    sending = presence(scenario)
    report = rehearse(scenario, 4, 3)
    assert report.ledger.participations.tolist() == sending.sum(axis=0).tolist()
    watts = private_received_watts(scenario, sensitivity_of(scenario, 4, 3))
    assert report.ledger.received_watts == pytest.approx(sending.sum(axis=0) * watts, rel=1e-9)
    assert (report.worker_energy_joules > 0).tolist() == (sending.sum(axis=0) > 0).tolist()


@pytest.mark.parametrize("model", ["ridge", "mlp"])
def test_slots_in_which_nobody_sends_are_slots_of_noise(model: str) -> None:
    """One worker of 40 on average: a third of the slots, (1 - 1/40)^40, carry noise alone, the same as all others."""
    scenario = coins("radio.scheduled=1", "radio.slots=300", f"learner.model={model}", "learner.epochs=1")
    scenario = scenario.with_overrides("workers.train_samples=60", "privacy.accountant=rdp")  # the quicker one
    mixtures = simulate(scenario)
    assert np.isfinite(mixtures.inputs.numpy()).all()
    report = mixtures.report
    empty = 1.0 - (presence(scenario).sum(axis=1) > 0).mean()
    assert empty == pytest.approx((39 / 40) ** 40, abs=5 * math.sqrt(0.23 / 300))
    assert report.limited_slots == 0
    received, counts = report.design.received_watts, report.design.counts
    assert (len(received), counts) == (1, (300,))  # the noise level tells nothing of how many sent
    assert report.to_dict()["slots"] == 300
    assert 0.0 <= train(mixtures).history.final_accuracy <= 1.0


@pytest.mark.parametrize("scheduled", [pytest.param(1, marks=pytest.mark.long), 6])
def test_the_target_is_met_by_the_removal_sensitivity(scheduled: int) -> None:
    scenario = coins(f"radio.scheduled={scheduled}", "radio.slots=500", "privacy.epsilon=3", "privacy.delta=1e-5")
    own = rehearse(scenario, 4, 3).privacy
    assert own.epsilon == pytest.approx(3.0, rel=1e-3)
    assert own.epsilon <= 3.0
    assert (own.sampling, own.sampling_rate) == (("poisson", scheduled / 40) if scheduled < 40 else ("none", 1.0))
    assert own.sensitivity == 2.0  # C^2 + w^2, though another sample would move by 2 C^2 + 2 w^2 = 4


@pytest.mark.long
@pytest.mark.parametrize(
    ("workers", "scheduled", "slots", "epsilon"),
    [(40, 6, 500, 3.0), pytest.param(1000, 10, 3000, 1.0, marks=pytest.mark.long), (40, 1, 50, 8.0)],
)
def test_epsilon_is_that_of_dp_accounting_s_own_poisson_mechanism(
    workers: int, scheduled: int, slots: int, epsilon: float
) -> None:
    """From the transmit power of a worker alone: mu^2 = P |h|^2 (C^2 + w^2) / (sigma^2 / 2), then the library's PLD."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    scenario = coins(
        f"workers.count={workers}",
        f"radio.scheduled={scheduled}",
        f"radio.slots={slots}",
        f"privacy.epsilon={epsilon}",
        "privacy.delta=1e-5",
        "workers.side_metres=100",
        "workers.min_distance_metres=100",  # everybody stands as far away
    )
    report = rehearse(scenario, 4, 3)
    gain = dbm_to_watts(-32.0 + 30.0) / 100.0**2
    multiplier = math.sqrt(dbm_to_watts(-114.0) / 2.0 / (report.largest_power_watts * gain * 2.0))
    step = 1e-4 if slots > 1000 else 1e-3
    slot = pld.from_gaussian_mechanism(
        multiplier, value_discretization_interval=step, sampling_prob=scheduled / workers
    )
    by_library = slot.self_compose(slots).get_epsilon_for_delta(1e-5)
    assert report.privacy.epsilon == pytest.approx(by_library, rel=5e-3)
    # Half the noise variance would be told apart.
    louder = pld.from_gaussian_mechanism(
        multiplier / math.sqrt(2.0), value_discretization_interval=step, sampling_prob=scheduled / workers
    )
    assert louder.self_compose(slots).get_epsilon_for_delta(1e-5) > 1.1 * report.privacy.epsilon


def test_accountants_that_have_no_theorem_for_it_say_so() -> None:
    for accountant in ("paper-loose", "paper-tight", "gdp"):
        with pytest.raises(PrivacyError, match=f"privacy.accountant = '{accountant}': cannot treat sampling poisson"):
            rehearse(coins("radio.slots=10", f"privacy.accountant={accountant}"), 4, 3)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ("mixing.policy=dirmix", "radio.schedule"),
        ("mixing.policy=nonmix", "radio.schedule"),
        ("mixing.power=max", "mixing.power"),
        ("radio.max_participations=6000", "radio.max_participations"),
    ],
)
def test_what_a_poisson_schedule_cannot_have(change: str, key: str) -> None:
    with pytest.raises(ScenarioError, match=f"^{key} = "):
        coins(change)
    with pytest.raises(ScenarioError, match=r"^radio\.schedule = "):
        coins("mixing.prior=0.5,0.5", "radio.scheduled=2")
