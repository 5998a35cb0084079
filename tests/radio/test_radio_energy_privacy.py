"""What one worker can move where the server detects energies, and that power, ledger and statements keep to it."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import stats

from airmixml import Scenario
from airmixml.data import DataSet
from airmixml.errors import ScenarioError
from airmixml.impairments.gains import follows_worker
from airmixml.radio import check_privacy_target
from airmixml.radio.draws import AirSetting, draw_slots
from airmixml.radio.energy_sensitivity import energy_sensitivity
from airmixml.radio.privacy_target import pilot_energy, planned_design, private_received_watts, sensitivity_of
from airmixml.radio.rehearsal import placed_distances, rehearse
from airmixml.radio.root_senders import RootSenders
from airmixml.radio.senders import make_sender
from airmixml.workers import Signal

NOISE_WATTS = 10**-14.4
ENERGY = "air.detection=energy"
MOMENTS = ("workers.sends=moments", "learner.model=ridge")


def scenario(*changes: str) -> Scenario:
    return Scenario().with_overrides(
        "workers.count=12",
        "workers.encoder=clip",
        "workers.centre=public",
        "workers.label_weight=0.5",
        "radio.scheduled=3",
        "radio.slots=40",
        "mixing.policy=equalmix",
        "mixing.power=dp",
        "privacy.adversary=server",
        "privacy.accountant=gdp",
        "privacy.adjacency=remove-one",
        "privacy.sensitivity=encoder",
        "privacy.delta=1e-3",
        "privacy.epsilon=2",
        ENERGY,
        *changes,
    )


def exact_delta(epsilon: float, mu: float) -> float:
    """Balle and Wang 2018, Theorem 5."""
    upper = stats.norm.logcdf(-epsilon / mu - mu / 2) + epsilon
    return float(stats.norm.cdf(-epsilon / mu + mu / 2) - math.exp(upper))


def symbols(inputs: np.ndarray, label: np.ndarray, *, moments: bool, weight: float) -> np.ndarray:
    """Return v of an input and a label, product by product."""
    if not moments:
        return np.concatenate([inputs, weight * label])
    rows, columns = np.triu_indices(len(inputs))
    products = np.outer(inputs, inputs)[rows, columns] * np.where(rows == columns, 1.0, math.sqrt(2.0))
    return np.concatenate([products, weight * np.outer(inputs, label).ravel()])


def roots(values: np.ndarray) -> np.ndarray:
    """Return amplitudes on both resources."""
    return np.concatenate([np.sqrt(np.maximum(values, 0.0)), np.sqrt(np.maximum(-values, 0.0))])


def some_samples(features: int) -> list[np.ndarray]:
    """Return inputs of norm 1, dense and sparse, of any sign and of one; also all numbers equal."""
    rng = np.random.default_rng(3)
    plain = [np.ones(features), -np.ones(features), np.eye(features)[0], -np.eye(features)[1]]
    signs = [rng.choice([-1.0, 1.0], features) for _ in range(20)]
    drawn = [rng.standard_normal(features) ** power for power in (1, 3) for _ in range(20)]
    return [each / np.linalg.norm(each) for each in (*plain, *signs, *drawn)]


@pytest.mark.parametrize("moments", [False, True])
@pytest.mark.parametrize("code", ["one-hot", "centred", "signs"])
def test_no_sample_moves_more_than_declared(moments: bool, code: str) -> None:
    """Over dense and sparse inputs of norm 1 with every label; an input of equal numbers reaches the bound exactly."""
    features, classes, weight = 6, 3, 0.7
    labels = np.eye(classes)
    if code == "centred":
        labels = (labels - 1 / classes) / math.sqrt(1 - 1 / classes)
    if code == "signs":
        labels = np.array([[1, 1, -1], [-1, 1, 1], [-1, -1, -1]]) / math.sqrt(classes)
    signal = Signal(
        features=features,
        classes=classes,
        moments=moments,
        label_weight=weight,
        signed=code != "one-hot",
        centred_labels=code == "centred",
    )
    bound = energy_sensitivity(signal, 1.0, 4.0)
    sent = [symbols(each, label, moments=moments, weight=weight) for each in some_samples(features) for label in labels]
    amplitudes = [roots(each) for each in sent]
    removal = max(float(each @ each) for each in amplitudes)
    assert removal <= bound.removal * (1 + 1e-12)
    assert removal == pytest.approx(bound.removal, rel=1e-12)
    apart, symbols_apart = (np.array(each)[:, None] - np.array(each)[None] for each in (amplitudes, sent))
    moves, sums = np.square(apart).sum(axis=2), np.abs(symbols_apart).sum(axis=2)
    assert np.all(moves <= sums + 1e-12)
    assert moves.max() <= bound.replacement * (1 + 1e-12)
    assert moves.max() > 0.5 * bound.replacement


def test_bounds_by_hand() -> None:
    """d = 2: products 1/2, sqrt(2)/2, 1/2 of (1, 1) / sqrt(2), and w sqrt(2) with its label."""
    moments = energy_sensitivity(Signal(features=2, classes=4, moments=True, label_weight=0.5), 1.0, 4.0)
    assert moments.removal == pytest.approx(1.0 + math.sqrt(0.5) + 0.5 * math.sqrt(2.0), rel=1e-12)
    samples = energy_sensitivity(Signal(features=9, classes=4, label_weight=0.5), 9.0, 9.0)  # inputs in [0, 1]^9
    assert (samples.removal, samples.replacement) == (9.5, 10.0)
    paper = sensitivity_of(scenario("workers.encoder=scale", "workers.centre=none", "privacy.sensitivity=paper"), 9, 4)
    assert (paper.removal, paper.replacement) == (13.0, 13.0)
    assert pilot_energy(scenario(), 9, 4) == 0.0


@pytest.mark.parametrize("moments", [False, True])
def test_neighbours_move_what_is_sent_within_the_bound(moments: bool) -> None:
    """Everybody sends, then one worker's sample is another, or it is silent: q times the bound, and not far below."""
    features = 4
    inputs = np.array([*some_samples(features)[:12]], dtype=np.float32) * np.float32(1 - 1e-6)
    labels = np.arange(12) % 2
    dataset = DataSet(
        name="neighbours",
        train_inputs=inputs,
        train_labels=labels,
        test_inputs=inputs[:0],
        test_labels=labels[:0],
        class_names=("a", "b"),
        image_shape=None,
        clipped_values=0,
    )
    found = scenario("radio.scheduled=12", *(MOMENTS if moments else ()))
    bound = sensitivity_of(found, features, 2)
    senders = RootSenders.of(make_sender(found, dataset, torch.device("cpu")))
    phases = torch.from_numpy(np.random.default_rng(1).uniform(0, 2 * np.pi, (1, 12, 1)))
    weights = torch.polar(torch.full((1, 12, 1), math.sqrt(1 / 12), dtype=torch.float64), phases)
    count = Signal.of(found.workers, features, 2).symbols
    own = senders.mix(torch.arange(12)[None], weights, [count])
    silent = weights.clone()
    silent[0, 0] = 0.0
    removed = float((own - senders.mix(torch.arange(12)[None], silent, [count])).square().sum()) * 12
    assert 0.99 * bound.removal < removed <= bound.removal
    moved = []
    for other in range(1, 12):
        index = torch.arange(12)[None].clone()
        index[0, 0] = other
        moved.append(float((own - senders.mix(index, weights, [count])).square().sum()) * 12)
    assert 0.5 * bound.replacement < max(moved) <= bound.replacement


@pytest.mark.parametrize("changes", [(), MOMENTS, ("mixing.policy=dirmix", "mixing.alpha=1")])
@pytest.mark.parametrize("adjacency", ["remove-one", "replace-one"])
def test_the_power_of_a_target_spends_it(changes: tuple[str, ...], adjacency: str) -> None:
    """mu^2 of the worst worker is its sum of beta q ||a||^2 over sigma^2 / 2; delta by another formula."""
    found = scenario(*changes, f"privacy.adjacency={adjacency}", "radio.max_participations=10")
    tally = rehearse(found, 5, 2)
    bound = tally.sensitivity.removal if adjacency == "remove-one" else tally.sensitivity.replacement
    setting = AirSetting.of(found, 5, 2, placed_distances(found))
    draws = draw_slots(setting, range(40)).numpy()
    spent = np.bincount(
        draws.scheduled_workers.ravel(), (draws.power_scale_watts[:, None] * draws.ratios).ravel(), minlength=12
    )
    mu = math.sqrt(spent.max() * bound / (NOISE_WATTS / 2))
    stated = tally.privacy
    assert exact_delta(stated.epsilon, mu) == pytest.approx(1e-3, rel=1e-6)
    assert stated.epsilon <= 2.0
    # Nobody's ten slots are received with more than planned; with equal shares they are all received with that.
    planned = 10 * setting.private_received_watts
    assert exact_delta(2.0, math.sqrt(planned * bound / (NOISE_WATTS / 2))) == pytest.approx(1e-3, rel=1e-6)
    assert spent.max() <= planned * (1 + 1e-9)
    if "mixing.alpha=1" not in changes:
        assert spent.max() == pytest.approx(planned, rel=1e-9)


def test_amplitude_errors_take_their_margin() -> None:
    """At most 2 dB above: the planned power is that much below, and what was drawn keeps the target."""
    exact, off = scenario(), scenario("air.amplitude_error_db=2")
    bound = sensitivity_of(exact, 5, 2)
    assert private_received_watts(exact, bound) == pytest.approx(10**0.2 * private_received_watts(off, bound), rel=1e-9)
    assert planned_design(off, bound, received_watts=1.0).gain_bound == pytest.approx(10**0.2)
    assert rehearse(off, 5, 2).privacy.epsilon <= 2.0


def test_energies_cost_power_by_the_ratio_of_the_bounds() -> None:
    """private-mnist: 1.25 in phase without pilots, and 1,024 / sqrt(2) + 1 - 1 / sqrt(2) + 0.5 sqrt(1,024) here."""
    private = Scenario.preset("private-mnist")
    energy = sensitivity_of(private.with_overrides(ENERGY), 1024, 10)
    assert sensitivity_of(private, 1024, 10).removal == pytest.approx(1.25)
    assert energy.removal == pytest.approx(1024 / math.sqrt(2) + 1 - 1 / math.sqrt(2) + 16)


def test_phases_are_uniform_and_new_in_every_block() -> None:
    found = scenario("air.resync_seconds=8e-6", "radio.slots=500", "mixing.power=max")
    setting = AirSetting.of(found, 5, 2, placed_distances(found))
    drawn = draw_slots(setting, range(500))
    assert drawn.gains is not None
    (seats,) = drawn.gains.parts
    gain = drawn.gains.of(seats).numpy()
    assert np.abs(gain) == pytest.approx(1.0)
    blocks = gain.reshape(-1, gain.shape[2]).T  # 3 symbols of 2 uses fit into a block
    assert len(blocks) == 3
    for phases in np.angle(blocks):
        assert stats.kstest(phases, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-4
        assert stats.kstest(phases, stats.uniform(-np.pi * 2 / 3, 4 / 3 * np.pi).cdf).pvalue < 1e-4
    for one, other in pairwise(blocks):  # 1,500 products of independent turns
        assert abs((one * other.conj()).mean()) < 4 / math.sqrt(1500)


def test_seats_that_follow_channels_get_no_credit() -> None:
    hidden = ("privacy.adversary=release", "privacy.accountant=pld", "mixing.policy=dirmix", "mixing.alpha=10")
    assert not follows_worker(scenario(*hidden))
    followed = scenario(*hidden, "mixing.assignment=max-min")
    assert follows_worker(followed)
    assert planned_design(followed, sensitivity_of(followed, 5, 2), received_watts=1e-18).gains_tell_schedule


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("workers.bits=4", "workers.bits = 4: must be 0"),
        ("workers.centre=private", 'workers.centre = "private": must be "none", "own" or "public"'),
        ("air.antennas=4", "air.antennas = 4: must be 1"),
        ("air.waveform=ofdm", "air.waveform = 'ofdm': must be 'single-carrier'"),
        ("air.resync_seconds=2e-6", "air.resync_seconds = 2e-06: leaves blocks of 1.59 symbols"),
    ],
)
def test_what_does_not_go_with_it_is_refused_in_one_line(change: str, told: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        scenario(change)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_coins_and_an_eavesdropper_are_accounted_for() -> None:
    """A schedule by coins has beta / 3 in every slot of a worker; an eavesdropper is granted the weakest gain."""
    coins = scenario("radio.schedule=poisson", "mixing.power=fixed", "mixing.power_scale_watts=3e-16")
    check_privacy_target(coins)
    tally = rehearse(coins, 5, 2)
    assert tally.ledger.received_watts == pytest.approx(1e-16 * tally.ledger.participations, rel=1e-9)
    heard = scenario("privacy.adversary=eavesdropper", "privacy.accountant=rdp", "privacy.epsilon=50")
    assert rehearse(heard, 5, 2).privacy.epsilon <= 50
