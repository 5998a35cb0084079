"""Workers' own noise and masks: what is left of them in the sum, against every mask written out."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from symbol_by_symbol import receive_symbol_by_symbol
from test_radio_baseband import data, planned, scenario, vectors_of

from airmixml import Scenario, Speed, simulate
from airmixml.arrays import Doubles, dbm_to_watts
from airmixml.impairments.fading import silent_share
from airmixml.messages import AirMixError, PrivacyError, ScenarioError
from airmixml.privacy import facts
from airmixml.radio import simulate_blocks
from airmixml.radio.draws import AirSetting, draw_slots
from airmixml.radio.masking import check_recoverable, masking_of

MASKED = ("privacy.noise=masked", "privacy.above_thermal_db=20")
CYCLES = (*MASKED, "radio.scheduled=12", "privacy.mask_degree=4")
AIRS = {
    "noise alone": ("privacy.noise=workers", "privacy.above_thermal_db=20", "air.amplitude_error_db=3"),
    "amplitudes, everybody with everybody": (*MASKED, "air.amplitude_error_db=3"),
    "amplitudes, cycles": (*CYCLES, "air.amplitude_error_db=3"),
    "phases": (*CYCLES, "air.phase_error_radians=0.5"),
    "absent, not recovered": (*CYCLES, "air.absent=0.2"),
    "absent, recovered": (
        *(*MASKED, "radio.scheduled=24", "privacy.most_absent=0.45", "air.absent=0.15", "radio.slots=300"),
        *("air.amplitude_error_db=2", "privacy.mask_degree=24"),
    ),
    "power steps": (*CYCLES, "air.power_step_db=3"),
    "off time": (*CYCLES, "air.timing_offset_symbols=0.4", "radio.slots=300"),
    "drifting blocks": (*CYCLES, "air.frequency_offset_hz=8000", "air.resync_seconds=1e-5"),
}


def drawn_errors(changes: tuple[str, ...]) -> Doubles:
    """What is left in the sum beside the planned mixture, drawn from its law; slots x symbols."""
    dataset, population = data()
    asked = scenario(*changes, moments=False, seed=1)
    blocks = list(simulate_blocks(asked, dataset, population, speed=Speed(threads=1)))
    fast = torch.cat([torch.cat([block.inputs, block.labels], dim=1) for block in blocks]).numpy().astype(float)
    wanted = [planned(block.ratios, block.draws.scheduled_workers, moments=False) for block in blocks]
    return fast - np.concatenate(wanted)


def formed_errors(changes: tuple[str, ...]) -> Doubles:
    """The same of the same graph, gains and ratios with every mask written out, and other noise."""
    dataset, population = data()
    asked = scenario(*changes, moments=False, seed=1)
    setting = AirSetting.of(asked, dataset.input_dim, dataset.label_dim, population.distance_metres)
    drawn = draw_slots(setting, range(asked.radio.slots))
    who = drawn.scheduled_workers.numpy()
    received = receive_symbol_by_symbol(
        setting, vectors_of(dataset, who, moments=False), drawn, np.random.default_rng(3)
    )
    return received.real - planned(drawn.ratios.numpy(), who, moments=False)


def likeness(fast: Doubles, slow: Doubles) -> float:
    """The least p-value of some symbols. Gains make deviations differ from slot to slot: compare their logarithms."""
    found = []
    for symbol in range(0, fast.shape[1], 4):
        squares = [np.log(each[:, symbol] ** 2) for each in (fast, slow)]
        found += [stats.ks_2samp(fast[:, symbol], slow[:, symbol]).pvalue, stats.ttest_ind(*squares).pvalue]
    return float(min(found))


@pytest.mark.parametrize("air", AIRS)
def test_what_is_left_has_the_law_of_masks_that_are_written_out(air: str) -> None:
    fast, slow = drawn_errors(AIRS[air]), formed_errors(AIRS[air])
    assert likeness(fast, slow) > 1e-5
    between = [(each[:, 1:] * each[:, :-1]).mean() / (each**2).mean() for each in (fast, slow)]
    assert between[0] == pytest.approx(between[1], abs=0.1)


@pytest.mark.parametrize("wrong", [2 / 3, 3 / 2])
def test_another_size_of_masks_is_told_apart(wrong: float) -> None:
    """The power of the test above: it rejects masks of 2/3 or 3/2 of their deviation beside the same own noise."""
    changes, share = (*CYCLES, "air.amplitude_error_db=3"), 0.1
    other = 1.0 / (1.0 + wrong**2 * (1.0 - share) / share)  # e^2 / s^2 is in proportion to (1 - share) / share
    sizes = [(*changes, f"privacy.mask_share={each!r}") for each in (share, other)]
    right, reference = (masking_of(scenario(*each, moments=False, seed=1)) for each in sizes)
    assert right is not None
    assert reference is not None
    assert reference.own_watts == pytest.approx(right.own_watts)
    assert math.sqrt(reference.pair_watts / right.pair_watts) == pytest.approx(wrong)
    assert likeness(drawn_errors(sizes[0]), formed_errors(sizes[1])) < 1e-5


def test_on_the_ideal_air_masks_cancel_and_everybody_s_noise_stays() -> None:
    asked = scenario(*CYCLES, "radio.slots=2000", moments=False, seed=1)
    masking = masking_of(asked)
    assert masking is not None
    dataset, population = data()
    (block, *more) = simulate_blocks(asked, dataset, population)
    errors = torch.cat([each.inputs - each.clean_inputs for each in (block, *more)]).double()
    thermal = dbm_to_watts(asked.radio.noise_dbm) / 2.0
    expected = (12 * masking.own_watts + thermal) / asked.mixing.power_scale_watts
    assert float(errors.square().mean()) == pytest.approx(expected, rel=5 * np.sqrt(2.0 / errors.numel()))
    assert 12 * masking.own_watts == pytest.approx(100 * thermal, rel=1e-9)


def test_energy_is_that_of_signal_noise_and_masks() -> None:
    small = Scenario.preset("trustless-iris").with_overrides("workers.count=200", "radio.scheduled=200")
    report = simulate(small).report
    masking = masking_of(small)
    assert masking is not None
    assert masking.graph is not None
    added = masking.own_watts + masking.graph.degree * masking.pair_watts
    symbols = report.signal.symbols
    gain = report.design.fact(facts.Transmitters).weakest_gain
    # The farthest worker: energy of what it adds in all symbols, and of its own vector, 794,000 symbols a second.
    most = (added * symbols / gain) / 794e3
    assert report.worker_energy_joules.max() == pytest.approx(most, rel=0.6)
    assert report.worker_energy_joules.max() < 1.001 * most * 1.1
    # Ten dB below the limit of 23 dBm in the corner of the square.
    assert 10 * np.log10(added / gain * 1e3) < 13.01


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (("privacy.noise=receiver",), "privacy.adversary"),
        (("privacy.mask_degree=7",), "privacy.mask_degree"),
        (("privacy.colluders=1999",), "privacy.colluders"),
        (("privacy.colluders=1000", "privacy.mask_degree=8"), "privacy.mask_degree"),
        (("privacy.above_thermal_db=80",), "privacy.above_thermal_db"),
        (("radio.schedule=poisson",), "radio.schedule"),
        (("mixing.power=max",), "mixing.power"),
        (("workers.centre=private",), "workers.centre"),
        (("air.peak_power_dbm=20",), "air.peak_power_dbm"),
        (("radio.fading=rayleigh",), "radio.fading"),
        (("air.waveform=ofdm",), "air.waveform"),
        (("privacy.noise=workers", "privacy.most_absent=0.1"), "privacy.most_absent"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(changes: tuple[str, ...], named: str) -> None:
    with pytest.raises(AirMixError) as refused:
        simulate(Scenario.preset("trustless-iris").with_overrides(*changes))
    assert str(refused.value).startswith(named)
    assert "\n" not in str(refused.value)


def test_more_absent_than_workers_reveal_masks_of_stop_a_run_in_one_line() -> None:
    digits = Scenario.preset("trustless-digits").with_overrides("air.absent=0.05")
    with pytest.raises(ScenarioError) as refused:
        simulate(digits.with_overrides("privacy.most_absent=0.02"))
    told = str(refused.value)
    assert "privacy.most_absent = 0.02" in told
    assert "of the 1,200 workers of slot 0 are absent" in told
    enough = told.rsplit("at least ", 1)[1].split(",", maxsplit=1)[0]
    for seed in range(5):
        simulate(digits.with_overrides(f"privacy.most_absent={enough}").with_seed(seed))


def test_so_many_absent_that_no_quorum_is_left_are_refused_with_what_can_be_recovered() -> None:
    digits = Scenario.preset("trustless-digits").with_overrides("air.absent=0.5")
    with pytest.raises(PrivacyError) as refused:
        simulate(digits.with_overrides("privacy.most_absent=0.6"))
    assert str(refused.value).startswith("privacy.most_absent = 0.6: 720 of the 1,200 workers of a slot")
    assert "must be at most 0.4991" in str(refused.value)
    for absent, colluders, most in ((0.999, 0, "0.4991"), (0.9, 1199, "0,")):
        changes = (f"privacy.most_absent={absent}", f"privacy.colluders={colluders}")
        with pytest.raises(PrivacyError, match=rf"^privacy\.most_absent = {absent}: .*; must be at most {most}"):
            simulate(digits.with_overrides(*changes))
    simulate(digits.with_overrides("privacy.most_absent=0.4", "air.absent=0.3"))


def test_workers_refuse_a_list_with_too_many_of_one_s_neighbours() -> None:
    asked = Scenario.preset("trustless-digits").with_overrides("privacy.most_absent=0.05", "privacy.mask_degree=64")
    masking = masking_of(asked)
    assert masking is not None
    assert masking.graph is not None
    sending = torch.ones((1, 1200), dtype=torch.bool)
    check_recoverable(asked, masking, sending, range(1))
    neighbours = np.flatnonzero(masking.graph.adjacency[[7]].toarray()[0])[:40]
    sending[0, neighbours] = False
    with pytest.raises(ScenarioError, match="neighbours of one worker"):
        check_recoverable(asked, masking, sending, range(1))


def test_workers_in_a_fade_send_nothing_and_spend_nothing() -> None:
    asked = Scenario.preset("trustless-digits").with_overrides("radio.fading=rayleigh", "air.truncation_db=-3")
    sent = simulate(asked)
    silent = sent.report.ledger.participations == 0
    assert silent.mean() == pytest.approx(1.0 - math.exp(-(10.0**-0.3)), abs=0.06)  # 4 deviations of 1,200 coins
    assert np.isfinite(sent.inputs.numpy()).all()
    assert silent_share(asked) == pytest.approx(1.0 - math.exp(-(10.0**-0.3)), rel=1e-9)


def test_rician_fades_are_as_rare_as_drawn_ones() -> None:
    asked = Scenario.preset("trustless-digits").with_overrides(
        "radio.fading=rician", "radio.rician_k=3", "air.truncation_db=-5", "air.absent=0.1"
    )
    rng = np.random.default_rng(0)
    scattered = rng.standard_normal((2, 400_000)) / math.sqrt(2.0)
    power = ((math.sqrt(3.0) + scattered[0]) ** 2 + scattered[1] ** 2) / 4.0
    seen = (power < 10.0**-0.5).mean()
    assert silent_share(asked) == pytest.approx(1.0 - 0.9 * (1.0 - seen), abs=0.003)


def test_shares_of_zero_are_refused() -> None:
    with pytest.raises(ScenarioError, match="nonmix"):
        Scenario.preset("trustless-digits").with_overrides("mixing.policy=nonmix")


def test_what_the_server_measures_of_noise_does_not_depend_on_data() -> None:
    """Only the data could tell how far a symbol with data is from what was meant."""
    dataset, population = data()
    asked = scenario(*CYCLES, "air.amplitude_error_db=3", "air.timing_offset_symbols=0.3", moments=False, seed=1)
    others = replace(dataset, train_inputs=dataset.train_inputs[::-1].copy() / 2)
    (first, *_), (second, *_) = (simulate_blocks(asked, each, population) for each in (dataset, others))
    assert torch.equal(first.noise_variance, second.noise_variance)
    assert not torch.equal(first.inputs, second.inputs)
    # And is what noise really is there, within the deviation that so few symbols leave.
    left = (first.inputs - first.clean_inputs).double().square().mean()
    assert float(first.noise_variance.mean()) == pytest.approx(float(left), rel=0.1)


def test_symbols_without_data_are_on_the_air() -> None:
    ideal, real = (simulate(Scenario.preset("trustless-iris").on_air(air)).report for air in ("ideal", "lab"))
    assert ideal.system.symbols_on_air == ideal.signal.symbols
    assert real.system.symbols_on_air > 2 * ideal.signal.symbols  # as many without data as with, and pilots


def test_noise_without_masks_leaves_power_for_the_signal_that_the_sum_hides() -> None:
    asked = Scenario.preset("trustless-iris").with_overrides("privacy.noise=workers", "privacy.adversary=server")
    report = simulate(asked).report
    assert report.limited_slots == 0
    assert report.privacy.epsilon == pytest.approx(asked.privacy.epsilon, rel=1e-3)
