"""Runs whose workers send integers: the sum has the law of one in which everything is formed, and epsilon is exact."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from airmixml import Scenario
from airmixml.integers import IntegerNoise
from airmixml.integers.encoding import draw_skellam, reduce
from airmixml.integers.integer_noise import SumTarget, fitted
from airmixml.masks.graph import draw_graph
from airmixml.messages import PrivacyError, ScenarioError
from airmixml.privacy import state_privacy
from airmixml.privacy.gaussian import gaussian_mu
from airmixml.radio import workers_noise
from airmixml.radio.air import Arrival
from airmixml.radio.draws import AirSetting, draw_slots
from airmixml.radio.privacy_target import is_one_gaussian, private_received_watts
from airmixml.radio.system import adversary_named, planned_design, sensitivity_of
from airmixml.radio.tally import placed_distances
from airmixml.radio.workers_noise import IntegerSums
from airmixml.streams import Secret
from airmixml.workers import Signal
from airmixml.workers.payloads import Samples, Table
from airmixml.workers.signal import Payload
from integers_by_hand import add_up, masked, stated_epsilon


def digits(*overrides: str) -> Scenario:
    return Scenario.preset("trustless-digits").with_overrides('privacy.arithmetic="integers"', *overrides)


def small_target(**changes: float) -> SumTarget:
    target = SumTarget(numbers=6, norm=1.0, workers=12, carriers=12, epsilon=3.0, delta=1e-3)
    return replace(target, **changes)


def stated(scenario: Scenario, adversary: str, adjacency: str = "remove-one") -> float:
    sensitivity = sensitivity_of(scenario, 65, 10)
    design = planned_design(scenario, sensitivity, received_watts=private_received_watts(scenario, sensitivity))
    chosen = adversary_named(adversary, scenario)
    return state_privacy(design, chosen, "gdp", adjacency=adjacency, delta=scenario.privacy.delta).epsilon


def test_releases_of_integers_do_not_compose_as_gaussians() -> None:
    """Their noise has a tail and a modulus that a Gaussian has not: mu^2 added up would state too small an epsilon."""
    assert is_one_gaussian(Scenario.preset("trustless-digits"))
    assert not is_one_gaussian(digits())


def test_a_sum_whose_every_part_is_formed_has_the_law_of_the_one_that_is_drawn() -> None:
    """Rounding, noise of each worker, uniform masks of each pair, residues; against the sum's own noise. 2,000 sums."""
    noise = fitted(small_target(), bits=9)
    vectors = np.random.default_rng(1).standard_normal((12, 6))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    edges = draw_graph(12, 4, 0).edges
    generator = np.random.default_rng(2)
    rounded = noise.code.rounded(np.tile(vectors, (2000, 1)), generator)
    integers = rounded + draw_skellam(noise.variance_per_worker, generator, rounded.shape)
    integers = integers.reshape(2000, 12, 6)
    of_workers = integers.transpose(1, 0, 2).reshape(12, -1)
    residues = masked(of_workers, edges, lambda i, j: np.random.default_rng((i, j)), 9)
    formed_sums = noise.decoded(add_up(residues, 9)).reshape(2000, 6)
    drawn_sums = np.array([noise.sum_of([vectors[:5], vectors[5:]], generator) for _ in range(2000)])
    for column in range(6):
        assert stats.ks_2samp(formed_sums[:, column], drawn_sums[:, column]).pvalue > 1e-4
    deviation = math.sqrt(noise.sum_variance)
    for sums in (formed_sums, drawn_sums):
        assert np.abs(sums.mean(axis=0) - vectors.sum(axis=0)).max() < 5 * deviation / math.sqrt(2000)
    counts = np.bincount(residues[0].astype(np.int64), minlength=2**9)  # what one worker sends alone tells nothing
    assert stats.chisquare(counts).pvalue > 1e-4


def received_of(
    scenario: Scenario,
    sums: IntegerSums,
    payload: Payload,
    index: torch.Tensor,
    clean: torch.Tensor,
    secret: Secret | None = None,
) -> torch.Tensor:
    """What the server has of workers that send these integers."""
    setting = AirSetting.of(scenario, 65, 10, placed_distances(scenario))
    setting = replace(setting, secret=secret)
    vars(setting).update(signal=payload.signal, integers=sums)
    arrival = Arrival(slots=range(len(index)), payload=payload, index=index, clean=clean)
    drawn = draw_slots(setting, range(len(index)))
    return setting.noise.receive(setting, arrival, drawn, torch.zeros(()), None).received


def test_reception_forms_or_models_the_same_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """600 workers with 40 numbers: 200 slots, every vector rounded, and rounding errors drawn as Gaussian."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.nn.functional.normalize(torch.randn((600, 36), generator=generator), dim=1)
    labels = torch.nn.functional.one_hot(torch.arange(600) % 4, 4).float()
    pool = {"inputs": inputs.numpy(), "labels": labels.numpy(), "norm": 1.0}
    sender = Table(Samples(signal=Signal(features=36, classes=4), **pool))
    scenario = digits("workers.count=600", "workers.train_samples=600", "radio.scheduled=600", "radio.slots=200")
    target = SumTarget(
        numbers=40,
        norm=math.sqrt(2.0),
        workers=600,
        carriers=600,
        epsilon=10.0,
        delta=1e-5,
        participations=200,
        sums=200,
    )
    few_bits = replace(_sums(scenario), noise=fitted(target, 13))  # rounding matters
    assert few_bits.noise.sum_variance > 1.02 * few_bits.noise.noise_variance
    index = torch.arange(600).expand(200, 600)
    clean = sender.weighted_sum(index, torch.full((200, 600), 1 / 600))
    found = {}
    for most in (1 << 40, 0):
        monkeypatch.setattr(workers_noise, "_MOST_FORMED", most)
        received = received_of(scenario, few_bits, sender, index, clean)
        found[most] = ((received - clean) / math.sqrt(few_bits.mixture_variance)).flatten().numpy()
    for errors in found.values():
        assert abs(errors.mean()) < 5 / math.sqrt(errors.size)
        assert errors.var() == pytest.approx(1.0, abs=6 * math.sqrt(2 / errors.size) + 0.03)  # a bound on rounding
    assert stats.ks_2samp(*found.values()).pvalue > 1e-4


def test_protected_data_are_rounded_one_by_one_with_secret_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_noise, "_MOST_FORMED", 0)
    monkeypatch.setattr(IntegerNoise, "modelled_sum", lambda *_: pytest.fail("modelled"))
    inputs, labels = np.zeros((1200, 61), dtype=np.float32), np.zeros((1200, 4), dtype=np.float32)
    sender = Samples(signal=Signal(features=61, classes=4), inputs=inputs, labels=labels, norm=1.0)
    sums = replace(_sums(digits()), noise=fitted(small_target(numbers=65, workers=1200, carriers=1200)))
    index, clean = torch.arange(1200)[None], torch.zeros((1, 65), dtype=torch.float64)
    twice = [received_of(digits(), sums, sender, index, clean, secret=Secret()) for _ in range(2)]
    assert (twice[0] != twice[1]).any()


def _sums(scenario: Scenario):  # type: ignore[no-untyped-def]
    found = scenario.privacy.noise_kind.sums(scenario, sensitivity_of(scenario, 65, 10))
    assert found is not None
    return found


def test_the_stated_epsilon_is_that_of_the_library_for_every_adversary() -> None:
    scenario = digits("privacy.colluders=100", "privacy.epsilon=2.0")
    sums = _sums(scenario)
    own = stated_epsilon(sums.noise, 1e-5, honest=1100)
    assert own == pytest.approx(2.0, rel=1e-6)
    assert own <= 2.0
    for adversary in ("everyone", "server", "release", "eavesdropper"):
        assert stated(scenario, adversary) == pytest.approx(own, rel=1e-9)
    # Gaussian noise of the same variance would be stated with a little less, never more.
    mu = math.sqrt(1.25 / (1100 * sums.noise.variance_per_worker)) / sums.noise.code.step
    assert gaussian_mu(own, 1e-5) / 1.01 < mu < gaussian_mu(own, 1e-5)


def test_slots_compose_and_replaced_samples_are_farther_apart() -> None:
    once, often = digits(), digits("radio.slots=4")
    assert stated(often, "everyone") == pytest.approx(10.0, rel=1e-6)
    ratio = _sums(often).noise.noise_variance / _sums(once).noise.noise_variance
    assert ratio == pytest.approx(4.0, rel=0.02)
    assert stated(once, "everyone", "replace-one") > 14.0
    replaced = digits('privacy.adjacency="replace-one"')
    assert stated(replaced, "everyone", "replace-one") == pytest.approx(10.0, rel=1e-6)


def test_without_masks_a_worker_has_its_own_noise_alone() -> None:
    masked_noise, alone = _sums(digits()), _sums(digits('privacy.noise="workers"'))
    assert alone.noise.noise_variance / masked_noise.noise.noise_variance == pytest.approx(1200.0, rel=0.02)
    assert stated(digits('privacy.noise="workers"'), "server") == pytest.approx(10.0, rel=1e-6)


@pytest.mark.parametrize("range_in_deviations", [0.0, 8.0])
def test_sums_do_not_wrap_around(range_in_deviations: float) -> None:
    """The worst vectors: all of the norm in one number, or in all numbers alike; 400 sums of 12 workers."""
    noise, generator = fitted(small_target(epsilon=20.0), 10, range_in_deviations), np.random.default_rng(0)
    spread = np.full((12, 6), 1 / math.sqrt(6))
    one = np.zeros((12, 6))
    one[:, 0] = 1.0
    for vectors in (spread, -spread, *([] if range_in_deviations and range_in_deviations < math.sqrt(6) else [one])):
        integers = noise.code.rounded(np.tile(vectors, (400, 1)), generator).reshape(400, 12, 6).sum(axis=1)
        sums = [noise.received(each, 12, generator) for each in integers]
        assert np.abs(np.array(sums) - vectors.sum(axis=0)).max() < 8 * math.sqrt(noise.sum_variance)
    assert int(reduce(np.array([-1]), 10)[0]) == 1023


def test_too_few_bits_are_refused_with_the_least_that_do() -> None:
    with pytest.raises(
        PrivacyError, match=r"modulus_bits = 4: .* must be at least (\d+), or 0, which takes the fewest"
    ) as no:
        _sums(digits("privacy.modulus_bits=4"))
    least = int(str(no.value).split("at least ")[1].split(",")[0])
    _sums(digits(f"privacy.modulus_bits={least}"))
    with pytest.raises(PrivacyError, match="modulus_bits"):
        _sums(digits(f"privacy.modulus_bits={least - 1}"))
    variances = [_sums(digits(f"privacy.modulus_bits={bits}")).noise.sum_variance for bits in (16, 18, 20, 22)]
    assert variances == sorted(variances, reverse=True)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ('privacy.noise="receiver"', r'privacy\.noise = "receiver"'),
        ('air.preset="line-of-sight"', "needs the ideal air"),
        ('mixing.policy="dirmix"', r'mixing\.policy = "dirmix": must be "equalmix"'),
        ("workers.bits=4", r"workers\.bits = 4: must be 0"),
        ('privacy.accountant="pld"', r"privacy\.accountant"),
        ("privacy.modulus_bits=1", "modulus_bits = 1: must be 2 to 62"),
        ('privacy.arithmetic="real"', r"privacy\.modulus_bits = 9: must be 0"),
    ],
)
def test_what_does_not_go_with_integers_is_refused(override: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        digits(*(["privacy.modulus_bits=9"] if "real" in override else []), override, 'privacy.adversary="server"')


def test_bits_beyond_the_power_limit_are_refused() -> None:
    scenario = digits("radio.max_power_dbm=-40")
    with pytest.raises(ScenarioError, match=r"max_power_dbm = -40: the bits of the farthest worker take -\d+\.\d dBm"):
        private_received_watts(scenario, sensitivity_of(scenario, 65, 10))
