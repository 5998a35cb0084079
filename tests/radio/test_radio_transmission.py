import math
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from scipy import stats

from airmixml import Scenario, Speed, simulate
from airmixml.arrays import check_finite, dbm_to_watts
from airmixml.data import DataSet
from airmixml.messages import NotFiniteError, ScenarioError
from airmixml.radio import AirReport, simulate_blocks
from airmixml.radio.draws import AirSetting, SlotDraws, draw_noise, draw_slots
from airmixml.radio.transmission import Mixtures
from airmixml.streams import SLOTS_PER_CHAPTER, Streams
from airmixml.workers import Population, deploy, load_dataset


def scenario(*changes: str) -> Scenario:
    return Scenario().with_overrides("workers.count=12", "radio.scheduled=3", "radio.slots=500", *changes)


def gathered(small_dataset: DataSet, small_population: Population, speed: Speed, *changes: str) -> Mixtures:
    return simulate(scenario(*changes), dataset=small_dataset, population=small_population, speed=speed)


@pytest.mark.parametrize(("block_slots", "threads"), [(1, 3), (7, 1), (SLOTS_PER_CHAPTER, 3), (10_000, 1)])
def test_block_size_and_threads_change_nothing(
    small_dataset: DataSet, small_population: Population, block_slots: int, threads: int
) -> None:
    speeds, some = (Speed(), Speed(block_slots=block_slots, threads=threads)), f"radio.slots={SLOTS_PER_CHAPTER + 20}"
    whole, cut = (gathered(small_dataset, small_population, speed, some) for speed in speeds)
    assert torch.equal(whole.inputs, cut.inputs)
    assert torch.equal(whole.labels, cut.labels)
    assert cut.report.energy_joules == pytest.approx(whole.report.energy_joules, rel=1e-12)
    assert cut.report.privacy.epsilon == pytest.approx(whole.report.privacy.epsilon, rel=1e-12)


def test_blocks_have_the_asked_size_and_cover_all_slots(small_dataset: DataSet, small_population: Population) -> None:
    blocks = list(simulate_blocks(scenario(), small_dataset, small_population, speed=Speed(block_slots=150)))
    assert [block.slots for block in blocks] == [150, 150, 150, 50]
    assert [block.first_slot for block in blocks] == [0, 150, 300, 450]
    assert [len(block.inputs) for block in blocks] == [150, 150, 150, 50]


def test_mixtures_are_what_the_draws_say(small_dataset: DataSet, small_population: Population) -> None:
    """Recompute a block by hand from its draws: mixture, noise, SNR, energy, normaliser."""
    changes = ("radio.fading=rayleigh", "mixing.alpha=1", "mixing.assignment=max-min", "radio.slot_seconds=0.002")
    (block,) = simulate_blocks(scenario(*changes), small_dataset, small_population, speed=Speed(block_slots=500))
    draws = block.draws
    noise = draw_noise(AirSetting.of(scenario(*changes), 3, 2, small_population.distance_metres), range(500)).numpy()
    samples = small_population.sample_index[draws.scheduled_workers]
    inputs = (draws.ratios[:, :, None] * small_dataset.train_inputs[samples]).sum(axis=1)
    labels = (draws.ratios[:, :, None] * np.eye(2)[small_dataset.train_labels[samples]]).sum(axis=1)
    noise_watts = 10 ** (-14.4)
    deviation = np.sqrt(noise_watts / 2 / draws.power_scale_watts)[:, None]
    assert block.clean_inputs.numpy() == pytest.approx(inputs, abs=1e-6)
    assert block.clean_labels.numpy() == pytest.approx(labels, abs=1e-6)
    assert block.inputs.numpy() == pytest.approx(inputs + deviation * noise[:, :3], rel=1e-4, abs=1e-5)
    assert block.labels.numpy() == pytest.approx(labels + deviation * noise[:, 3:], rel=1e-4, abs=1e-5)
    assert block.snr[0].numpy() == pytest.approx(
        draws.power_scale_watts * (inputs**2).sum(axis=1) / (3 * noise_watts / 2), rel=1e-4, abs=1e-12
    )
    assert block.snr[1].numpy() == pytest.approx(
        draws.power_scale_watts * (labels**2).sum(axis=1) / (2 * noise_watts / 2), rel=1e-4, abs=0
    )
    assert block.joules_per_watt * draws.power_watts == pytest.approx(0.002 * draws.power_watts, rel=1e-9, abs=0)
    amplitude = (np.sqrt(draws.power_watts) * draws.magnitude).sum(axis=1)
    assert np.sqrt(draws.power_scale_watts) == pytest.approx(amplitude, rel=1e-9, abs=0)


def test_one_policy_does_not_change_the_draws_of_another(small_dataset: DataSet, small_population: Population) -> None:
    def setting(*changes: str) -> AirSetting:
        return AirSetting.of(scenario(*changes), 3, 2, small_population.distance_metres)

    def draws(*changes: str) -> SlotDraws:
        return draw_slots(setting(*changes), range(128)).numpy()

    def noise(*changes: str) -> torch.Tensor:
        return draw_noise(setting(*changes), range(128))

    plain = draws()
    faded = draws("radio.fading=rayleigh")
    other_alpha = draws("mixing.alpha=0.5")
    max_power = draws("mixing.power=max")
    assert not np.array_equal(plain.magnitude, faded.magnitude)
    assert np.array_equal(plain.ratios, faded.ratios)
    assert not np.array_equal(plain.ratios, other_alpha.ratios)
    for changed in (faded, other_alpha, max_power):
        assert np.array_equal(plain.scheduled_workers, changed.scheduled_workers)
    for change in ("radio.fading=rayleigh", "mixing.alpha=0.5", "mixing.power=max"):
        assert torch.equal(noise(), noise(change))
    assert not torch.equal(noise(), noise("seed=1"))


def test_report_adds_up(small_dataset: DataSet, small_population: Population) -> None:
    setting = scenario("mixing.power=fixed", "mixing.power_scale_watts=2e-8", "mixing.alpha=1")
    report = AirReport.of(setting, small_dataset, small_population)
    by_worker = np.zeros(12)
    limited = 0
    for block in simulate_blocks(setting, small_dataset, small_population, speed=Speed(block_slots=64)):
        report.add(block)
        np.add.at(by_worker, block.draws.scheduled_workers, block.joules_per_watt * block.draws.power_watts)
        limited += int(block.draws.limited.sum())
        assert block.draws.power_watts.max() <= dbm_to_watts(23.0)
    assert report.worker_energy_joules == pytest.approx(by_worker, rel=1e-9, abs=0)
    assert report.energy_joules == pytest.approx(by_worker.sum(), rel=1e-9, abs=0)
    assert report.limited_slots == limited
    assert 0 < limited < 500
    assert report.power_dbm.counts.sum() == 1500
    assert report.snr_db.counts.sum() == 500


def report_of(setting: Scenario, dataset: DataSet, population: Population) -> tuple[AirReport, SlotDraws]:
    (block,) = simulate_blocks(setting, dataset, population, speed=Speed(block_slots=500))
    report = AirReport.of(setting, dataset, population)
    report.add(block)
    return report, block.draws


def test_a_met_target_takes_credit_for_the_hidden_schedule(
    small_dataset: DataSet, small_population: Population
) -> None:
    report, _ = report_of(scenario("privacy.epsilon=30"), small_dataset, small_population)
    assert report.limited_slots == 0
    assert report.privacy.sampling_rate == 3 / 12
    assert report.privacy.epsilon == pytest.approx(30.0)
    assert report.privacy.epsilon <= 30.0
    assert report.privacy.target_epsilon == 30.0


@pytest.mark.parametrize("power", ["mixing.power=max", "mixing.power=fixed"])
def test_power_that_tells_the_schedule_takes_no_credit(
    small_dataset: DataSet, small_population: Population, power: str
) -> None:
    """Where a worker's limit set beta, epsilon is the worst worker's sum of q^2 d 2 beta / sigma^2 plus ln(1/delta)."""
    setting = scenario(power, "mixing.power_scale_watts=2e-8", "mixing.alpha=1")
    report, draws = report_of(setting, small_dataset, small_population)
    losses = [
        sum(
            float(draws.ratios[slot, place]) ** 2 * 5 * 2 * float(draws.power_scale_watts[slot]) / 10 ** (-14.4)
            for slot, place in zip(*np.nonzero(draws.scheduled_workers == worker), strict=True)
        )
        for worker in range(12)
    ]
    assert report.privacy.sampling_rate == 1.0
    assert report.privacy.epsilon == pytest.approx(max(losses) + np.log(100), rel=1e-9)
    assert report.privacy.target_epsilon is None


def test_the_server_is_told_apart(small_dataset: DataSet, small_population: Population) -> None:
    """Against the server the worst worker's slots are one Gaussian mechanism; delta recomputed from its epsilon."""
    report, draws = report_of(scenario("privacy.epsilon=30", "mixing.alpha=1"), small_dataset, small_population)
    mu_squared = max(
        sum(
            5 * float(draws.ratios[slot, place]) ** 2 * 2 * float(draws.power_scale_watts[slot]) / 10 ** (-14.4)
            for slot, place in zip(*np.nonzero(draws.scheduled_workers == worker), strict=True)
        )
        for worker in range(12)
    )
    statement = report.privacy_against_server
    mu, epsilon = np.sqrt(mu_squared), statement.epsilon
    delta = stats.norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
    assert delta == pytest.approx(0.01, rel=1e-5)
    assert (statement.adversary, statement.accountant, statement.sampling_rate) == ("server", "gdp", 1.0)
    assert [entry["adversary"] for entry in report.to_dict()["privacy"]][:2] == ["release", "server"]


def test_only_workers_that_send_count_in_the_power_histogram(
    small_dataset: DataSet, small_population: Population
) -> None:
    report, draws = report_of(scenario("mixing.policy=nonmix"), small_dataset, small_population)
    assert report.power_dbm.counts.sum() == 500
    sent = draws.power_watts[draws.ratios > 0]
    assert report.power_dbm.quantile_db(0.5) == pytest.approx(10 * np.log10(1e3 * np.median(sent)), abs=0.11)


def test_noise_beyond_float32_is_refused(small_dataset: DataSet, small_population: Population) -> None:
    drowned = scenario(
        "radio.noise_dbm=100",
        "radio.path_loss_exponent=10",
        "workers.side_metres=1e6",
        "mixing.power=fixed",
        "mixing.power_scale_watts=1e-60",
    )
    far = Population(distance_metres=np.full(12, 1e6), sample_index=small_population.sample_index)
    with pytest.raises(ScenarioError, match="float32"):
        simulate(drowned.with_overrides("radio.max_power_dbm=-300"), dataset=small_dataset, population=far)


def test_a_population_of_another_size_is_refused(small_dataset: DataSet, small_population: Population) -> None:
    with pytest.raises(ScenarioError, match=r"workers.count = 13: must be the population's 12"):
        simulate(scenario("workers.count=13"), dataset=small_dataset, population=small_population)


def test_a_million_workers_hold_places_not_samples() -> None:
    big = Scenario().with_overrides("workers.count=1000000", "radio.scheduled=64", "radio.slots=300")
    streams = Streams(0)
    dataset = load_dataset(big.workers, streams)
    population = deploy(big.workers, dataset.train_samples, streams)
    assert population.distance_metres.nbytes + population.sample_index.nbytes == 16_000_000
    mixtures = simulate(big, dataset=dataset, population=population)
    assert len(mixtures) == 300
    assert (mixtures.report.worker_energy_joules > 0).sum() > 19_000


@pytest.mark.long
def test_memory_does_not_grow_with_the_slots_of_a_stream() -> None:
    """Peak memory after 4,000 and after 24,000 slots of 794 symbols: the mixtures between them alone would be 64 MB."""
    program = textwrap.dedent("""
        import resource, sys
        import numpy as np
        from airmixml import Scenario, Speed, simulate_blocks
        from airmixml.data import DataSet
        from airmixml.streams import Streams
        from airmixml.workers import deploy
        scenario = Scenario().with_overrides("workers.count=60000", "radio.scheduled=16", "radio.slots=24000")
        inputs = np.zeros((100, 784), dtype=np.float32)
        labels = np.arange(100) % 10
        names = tuple("0123456789")
        data = DataSet(name="zeros", train_inputs=inputs, train_labels=labels, test_inputs=inputs,
                       test_labels=labels, class_names=names, image_shape=(28, 28), clipped_values=0)
        population = deploy(scenario.workers, 100, Streams(0))
        slots = 0
        for block in simulate_blocks(scenario, data, population, speed=Speed(block_slots=500)):
            slots += block.slots
            if slots in (4000, 24000):
                print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    """)
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    early, late = (int(peak) * (1 if sys.platform == "darwin" else 1024) for peak in done.stdout.split())
    assert late - early < 30e6


def test_mixtures_are_a_data_set_for_a_loop_of_ones_own() -> None:
    """A loader deals out every received pair once."""
    mixtures = simulate(Scenario.preset("paper-iris").with_overrides("mixing.power=max", "radio.slots=300"))
    received = mixtures.as_dataset()
    assert isinstance(received, torch.utils.data.Dataset)
    assert not hasattr(received, "dataset")
    loader = torch.utils.data.DataLoader(received, batch_size=64, shuffle=True)
    inputs, labels = (torch.cat(parts) for parts in zip(*loader, strict=True))
    assert sorted(inputs.tolist()) == sorted(mixtures.inputs.tolist())
    places = [mixtures.inputs.tolist().index(row) for row in inputs.tolist()]
    assert torch.equal(labels, mixtures.labels[places])


def test_sums_of_products_are_no_data_set() -> None:
    mixtures = simulate(Scenario.preset("private-iris"))
    with pytest.raises(ScenarioError, match=r'^workers\.sends = "moments": must be "samples" for a training loop'):
        mixtures.as_dataset()


def test_only_numbers_beyond_float32_are_refused_not_their_sum() -> None:
    scenario = Scenario.preset("paper-iris").with_overrides("radio.slots=8")
    large = torch.full((8, 3), 2e38)
    check_finite("reception", inputs=large)
    for wrong, count in ((torch.inf, 1), (torch.nan, 2)):
        large[0, :count] = wrong
        with pytest.raises(NotFiniteError, match=rf"^reception: {count} of 24 numbers are not finite \(inputs\)"):
            check_finite("reception", labels=torch.zeros(8, 1), inputs=large)
    with pytest.raises(NotFiniteError, match=r"1 of 2 numbers are not finite \(gains\)"):
        check_finite("air", gains=torch.tensor([1.0 + 1.0j, complex(1.0, math.nan)]))
    with pytest.raises(ScenarioError, match="beyond what float32 can hold"):
        simulate(
            scenario.with_overrides(
                "mixing.power=max", "radio.max_power_dbm=-300", "radio.unit_path_loss_db=-300", "radio.noise_dbm=100"
            )
        )
