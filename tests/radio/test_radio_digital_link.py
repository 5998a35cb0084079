"""Masked integers over digital links: exact sums on any air, and time, energy and backhaul by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from airmixml import Scenario, simulate
from airmixml.integers import IntegerCode, IntegerNoise
from airmixml.integers.encoding import reduce, signed
from airmixml.masks.graph import draw_graph
from airmixml.messages import PrivacyError, ScenarioError
from airmixml.radio.draws import AirSetting, draw_slots
from airmixml.radio.links import Traffic
from airmixml.radio.masking import any_masking, check_recovered
from airmixml.radio.system import System
from airmixml.radio.tally import placed_distances, rehearse
from airmixml.scenario import Air, Link
from airmixml.scenario.air import SYMBOLS_PER_SECOND
from airmixml.streams import Secret
from integers_by_hand import add_up, masked

INPUTS, CLASSES = 65, 10


def digital(*overrides: str) -> Scenario:
    return Scenario.preset("trustless-digits-digital").with_overrides(*overrides)


def setting_of(scenario: Scenario, secret: Secret | None = None) -> AirSetting:
    return replace(AirSetting.of(scenario, INPUTS, CLASSES, placed_distances(scenario)), secret=secret)


def test_the_time_of_sixty_thousand_workers_by_hand() -> None:
    """256 features and 10 classes: 35,456 numbers of 20 bits are 42.5 Gbit; 213 s at 200 Mb/s, 2.8 s over 300 links."""
    bare = Link(rate_mbps=200.0, header_bytes=0, packet_error=0.0)
    one = Traffic(bare, 35_456 * 20, 60_000)
    assert one.worker_bits * 60_000 == 35_456 * 20 * 60_000 == 42_547_200_000
    assert one.air_seconds == pytest.approx(212.736, rel=1e-12)
    many = Traffic(replace(bare, rate_mbps=50.0, access_points=300), 35_456 * 20, 60_000)
    assert many.air_seconds == pytest.approx(200 * 709_120 / 50e6, rel=1e-12) == pytest.approx(2.83648)
    assert many.backhaul_bits == 300 * 709_120
    assert many.backhaul_seconds == pytest.approx(709_120 / 1e9, rel=1e-12)


def test_headers_repeated_packets_duty_and_the_busiest_access_point_by_hand() -> None:
    link = Link(
        rate_mbps=1.0, packet_bytes=100, header_bytes=25, packet_error=0.5, tries=3, access_points=4, backhaul_mbps=2.0
    )
    traffic = Traffic(link, 2_001, 10)  # three packets, of which the last has 401 bits
    assert (traffic.packets, traffic.busiest) == (3, 3)
    assert traffic.expected_tries == 1.75  # 1/2 + 2/4 + 3/4
    assert traffic.worker_bits == (2_001 + 3 * 200) * 1.75
    assert traffic.worker_seconds == pytest.approx(4_551.75e-6, rel=1e-12)
    assert traffic.air_seconds == pytest.approx(3 * 4_551.75e-6, rel=1e-12)
    assert traffic.lost == pytest.approx(1.0 - (7.0 / 8.0) ** 3, rel=1e-12)
    assert (traffic.backhaul_bits, traffic.backhaul_seconds) == (4 * 2_001, 2_001 / 2e6)
    rarely = Traffic(replace(link, duty=0.01), 2_001, 10)  # a worker may send for a hundredth of the slot
    assert rarely.air_seconds == pytest.approx(100 * 4_551.75e-6, rel=1e-12)


def test_vectors_are_lost_as_often_as_their_packets_say() -> None:
    """Packets that are sent up to three times, one by one: 20,000 vectors of 40 packets."""
    traffic = Traffic(Link(packet_bytes=10, packet_error=0.15, tries=3), 40 * 80, 1)
    failed = np.random.default_rng(5).random((20_000, 40, 3)) < 0.15
    lost = failed.all(axis=2).any(axis=1).mean()
    sent = 1 + failed[:, :, 0].mean() + (failed[:, :, 0] & failed[:, :, 1]).mean()
    deviation = math.sqrt(traffic.lost * (1.0 - traffic.lost) / 20_000)
    assert abs(lost - traffic.lost) < 5.0 * deviation
    assert sent == pytest.approx(traffic.expected_tries, rel=0.01)


@pytest.mark.parametrize("air", ["ideal", "lab", "line-of-sight", "campus", "low-cost"])
def test_time_energy_and_epsilon_do_not_depend_on_the_air(air: str) -> None:
    ideal, there = digital(), digital(f"air.preset={air}")
    one, other = (System.of(each, INPUTS, CLASSES) for each in (ideal, there))
    assert other.air_seconds - other.acquisition_seconds == pytest.approx(one.air_seconds, rel=1e-12)
    points = there.link.access_points  # which acquire workers side by side
    acquired = 1200 * there.air.acquisition_symbols / SYMBOLS_PER_SECOND / points
    assert other.acquisition_seconds == pytest.approx(acquired, rel=1e-12)
    assert other.joules_per_watt == one.joules_per_watt
    designs = one.design(1.0), other.design(1.0)
    for name in ("received_watts", "counts", "sensitivity"):  # what every accountant sees
        assert getattr(designs[0], name) == getattr(designs[1], name)
    first, second = (rehearse(each, INPUTS, CLASSES) for each in (ideal, there))
    assert second.privacy.epsilon == pytest.approx(first.privacy.epsilon, rel=1e-10)
    assert second.privacy.epsilon <= 10.0
    for each in second.statements:
        if each.accountant == "gdp" and each.adjacency == "remove-one":
            assert each.epsilon == pytest.approx(second.privacy.epsilon, rel=1e-10)  # everybody learns the same
    assert second.system.given.air == there.air  # what was asked for is what is reported


def test_energy_is_time_on_the_air_times_power_of_those_who_send() -> None:
    scenario = digital("air.absent=0.05", "link.power_dbm=10", "link.packet_error=0")
    tally, system = rehearse(scenario, INPUTS, CLASSES), System.of(scenario, INPUTS, CLASSES)
    assert system.integers is not None
    packets = -(-system.integers.symbols // 12_000)
    seconds = (system.integers.symbols + packets * 480) / 50e6
    spent = tally.worker_energy_joules
    assert set(np.round(spent / (seconds * 0.01), 12)) == {0.0, 1.0}
    assert 0.02 < (spent == 0.0).mean() < 0.09
    assert int(tally.ledger.participations.sum()) == int((spent > 0.0).sum())
    assert tally.air_seconds == pytest.approx(200 * seconds, rel=1e-12)  # 1,200 workers, six access points


def test_who_sends_and_is_not_received_was_heard_all_the_same() -> None:
    """Packets that are lost half of the time, sent once: vectors are lost whole, and heard in their own noise alone."""
    lossy = digital("link.packet_error=0.3", "link.tries=1", "link.packet_bytes=7000", "privacy.noise=workers",
                    "privacy.most_absent=0", "privacy.adversary=server")  # fmt: skip
    draws, lost = draw_slots(setting_of(lossy), range(1)), System.of(lossy, INPUTS, CLASSES).link
    expected = lost.lost_share(System.of(lossy, INPUTS, CLASSES))
    arrived = (draws.ratios > 0.0).double().mean()
    assert abs(float(arrived) - (1.0 - expected)) < 5.0 * math.sqrt(expected * (1.0 - expected) / 1200)
    assert bool((draws.power_watts > 0.0).all())
    assert float(draws.ratios.sum()) == pytest.approx(1.0)
    assert len(torch.unique(draws.ratios)) == 2  # 0, or the same share of the mean
    tally = rehearse(lossy, INPUTS, CLASSES)
    assert int(tally.ledger.participations.sum()) == draws.power_watts.numel()
    sound = rehearse(lossy.with_overrides("link.packet_error=0"), INPUTS, CLASSES)
    assert tally.privacy.epsilon == pytest.approx(sound.privacy.epsilon, rel=1e-9)
    masked = digital("link.packet_error=0.002", "link.tries=1", "link.packet_bytes=7000", "privacy.most_absent=0.15")
    hidden = rehearse(masked, INPUTS, CLASSES)  # whose own mask is never revealed
    assert 0 < int(hidden.ledger.participations.sum()) < 1200


def test_access_points_add_up_masked_integers_to_the_plain_sum_and_learn_nothing() -> None:
    """Every part is formed: rounding, noise, masks of each pair, residues, sums of four access points."""
    workers, numbers, bits = 12, 3_000, 8
    edges, generator = draw_graph(workers, 4, 0).edges, np.random.default_rng(2)
    integers = generator.integers(-3, 4, size=(workers, numbers))
    residues = masked(integers, edges, lambda i, j: np.random.default_rng((i, j)), bits)
    of_points = [add_up(residues[first : first + 3], bits) for first in range(0, workers, 3)]
    total = add_up(np.stack(of_points), bits)
    np.testing.assert_array_equal(signed(total, bits), integers.sum(axis=0))
    for partial in of_points:
        counts = np.bincount(partial.astype(np.int64), minlength=2**bits)
        assert stats.chisquare(counts).pvalue > 1e-4


def test_masks_of_an_absent_worker_are_taken_off_the_sum_of_access_points() -> None:
    """A worker whose packets are lost: its masks with all others stay in the sum until they are revealed."""
    workers, numbers, bits, absent = 9, 200, 10, 4
    edges = draw_graph(workers, 8, 0).edges

    def stream(i: int, j: int) -> np.random.Generator:
        return np.random.default_rng((i, j))

    integers = np.random.default_rng(3).integers(-9, 10, size=(workers, numbers))
    residues = masked(integers, edges, stream, bits)
    present = [each for each in range(workers) if each != absent]
    received = add_up(residues[present], bits)
    plain = integers[present].sum(axis=0)
    assert (signed(received, bits) != plain).mean() > 0.9  # useless as it is
    alone = masked(np.zeros_like(integers), edges, stream, bits)[absent]  # what its neighbours reveal
    np.testing.assert_array_equal(signed(reduce(received + alone, bits), bits), plain)


def test_a_sum_without_absent_workers_has_the_mean_and_the_noise_of_those_present() -> None:
    code = IntegerCode(numbers=4, norm=1.0, step=0.25, bits=16)
    noise = IntegerNoise(code=code, workers=40, variance_per_worker=3.0)
    vectors = np.random.default_rng(1).normal(size=(40, 4))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    generator = np.random.default_rng(2)
    sums = np.array([noise.sum_of([vectors[:30]], generator, absent=10) for _ in range(4_000)])
    assert np.abs(sums.mean(axis=0) - vectors[:30].sum(axis=0)).max() < 5.0 * sums.std(axis=0).max() / math.sqrt(4_000)
    fractions = vectors[:30] / noise.code.step % 1.0
    variance = (30 * 3.0 + (fractions * (1.0 - fractions)).sum(axis=0)) * noise.code.step**2
    np.testing.assert_allclose(sums.var(axis=0), variance, rtol=0.12)
    with pytest.raises(PrivacyError, match="hold 30 workers; the noise was set for 40"):
        noise.sum_of([vectors[:30]], generator)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["privacy.arithmetic=real"], r'privacy\.arithmetic = "real": must be "integers" for radio\.link = "digital"'),
        (["link.power_dbm=24"], r"link\.power_dbm = 24: must be at most radio\.max_power_dbm = 23"),
        (["radio.schedule=poisson"], r'radio\.schedule = "poisson"'),
        (["link.tries=0"], r"link\.tries = 0: must be"),
        (["radio.link=fibre"], r"radio\.link = 'fibre': must be one of .analog., .digital."),
        (["radio.link=analog", "air.preset=campus"], r'needs the ideal air.*radio\.link = "digital"'),
    ],
)
def test_bad_combinations_get_one_line(overrides: list[str], message: str) -> None:
    with pytest.raises(ScenarioError, match=message) as refused:
        digital(*overrides)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "overrides", [["privacy.most_absent=0", "air.absent=0.01"], ["privacy.most_absent=0.05", "air.absent=0.05"]]
)
def test_absent_workers_beyond_recovery_are_refused_before_anything_is_sent(overrides: list[str]) -> None:
    with pytest.raises(ScenarioError, match=r"privacy\.most_absent = .*must be at least 0\.\d+") as refused:
        setting_of(digital(*overrides))
    enough = float(str(refused.value).rsplit(" ", 1)[1])
    setting_of(digital(*overrides, f"privacy.most_absent={enough:g}"))


def test_lost_packets_count_as_absent_workers() -> None:
    often = digital("link.packet_error=0.3", "link.tries=5", "privacy.most_absent=0")
    with pytest.raises(ScenarioError, match=r"most_absent = 0: 0\.0\d+ of the workers are absent on average"):
        setting_of(often)
    setting_of(digital("link.packet_error=0", "privacy.most_absent=0"))


def test_what_the_server_receives_is_the_same_on_every_air() -> None:
    """Of equal absent workers, to the last bit: the rounded vectors of those present, and the noise, modulo 2^b."""
    small = ("workers.count=120", "radio.scheduled=120", "air.absent=0.1", "privacy.most_absent=0.3")
    ideal, bad = (simulate(digital(f"air.preset={air}", *small)) for air in ("ideal", "low-cost"))
    assert torch.equal(ideal.inputs, bad.inputs)
    assert torch.equal(ideal.labels, bad.labels)
    assert (ideal.scenario.air.preset, bad.scenario.air.preset) == ("ideal", "low-cost")
    arrived = bad.examples.ratios[0] > 0.0
    vectors = bad.dataset.train_inputs[bad.population.sample_index[bad.examples.draws.scheduled_workers[0][arrived]]]
    products = np.einsum("wi,wj->ij", vectors.astype(np.float64), vectors) / arrived.sum()
    deviation = math.sqrt(bad.report.noise_variance)
    # Second moments are sent as the upper triangle; its diagonal is the same in any order.
    assert bad.report.snr_db.quantile_db(0.5) == ideal.report.snr_db.quantile_db(0.5)
    assert abs(float(bad.examples.clean_inputs.square().sum()) - float((products**2).sum())) < 1e-3
    assert float((bad.inputs[0] - bad.examples.clean_inputs[0]).std()) == pytest.approx(deviation, rel=0.1)


def test_a_slot_with_more_absent_workers_than_are_recovered_stops() -> None:
    scenario = digital("privacy.most_absent=0.02").met
    masking, sending = any_masking(scenario, None), torch.ones(1, 1200, dtype=torch.bool)
    sending[0, :24] = False
    check_recovered(scenario, masking, sending, range(1))
    sending[0, 24] = False
    with pytest.raises(ScenarioError, match=r"25 of the 1,200 workers of slot 0 are absent.*must be at least 0\.03"):
        check_recovered(scenario, masking, sending, range(1))
    nothing = digital("privacy.most_absent=0").met
    with pytest.raises(ScenarioError, match=r"most_absent = 0: 25 of the 1,200 workers.*spoils a sum of integers"):
        check_recovered(nothing, any_masking(nothing, None), sending, range(1))


def test_a_protected_run_has_a_graph_of_its_own() -> None:
    scenario, secret = digital().met, Secret()
    mine, planned = any_masking(scenario, secret), any_masking(scenario, None)
    assert mine.graph is not None
    assert planned.graph is not None
    assert not np.array_equal(mine.graph.edges, planned.graph.edges)
    assert mine.graph.degree == planned.graph.degree


def test_what_a_link_meets_of_an_air_is_absent_workers() -> None:
    scenario = digital("air.preset=low-cost")
    met = scenario.met
    assert (met.air.is_ideal, met.air.absent, met.radio.fading) == (True, scenario.air.absent, "none")
    assert met.met is met
    assert {name for name, value in vars(met.air).items() if value != getattr(Air(), name)} == {"preset", "absent"}
    analog = Scenario.preset("trustless-digits").with_overrides("air.preset=low-cost")
    assert analog.met is analog
