"""Analog frames by hand, sums that float32 adds up exactly, and models through an emulated air."""

from __future__ import annotations

import math

import numpy as np
import pytest

from airmixml import Scenario, simulate
from airmixml.deploy.air import MOST_WORKERS, SumOnAir
from airmixml.deploy.baseband import AnalogKind
from airmixml.deploy.compiling import planned_for
from airmixml.deploy.lab import Lab, try_out
from airmixml.deploy.learning import Teacher
from airmixml.deploy.server import Carry
from airmixml.deploy.wire import Type, unpacked
from airmixml.errors import ProtocolError, ScenarioError
from airmixml.streams import Streams
from airmixml.workers import deploy, load_dataset

AGREED = {"sends": "moments", "cost": 0, "releases": 1}
CODE = AnalogKind(**AGREED, numbers=200, norm=2.0, watts=4e-12, limit_watts=1e-3, workers=64, receiver_watts=3e-13)
SEED = bytes(32)
MASKED = ("privacy.noise=masked", "privacy.adversary=everyone")


def without(*absent: int) -> Carry:
    """A network on which these workers agree to a round, and then never send."""

    def network(content: bytes) -> list[bytes]:
        message = unpacked(content)
        return [] if message.sender in absent and message.type in (Type.FRAME, Type.SAMPLES) else [content]

    return network


def vectors(workers: int, numbers: int, norm: float) -> np.ndarray:
    drawn = np.random.default_rng(3).standard_normal((workers, numbers))
    return norm * drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def test_a_sample_is_a_number_times_its_amplitude_in_phase() -> None:
    (vector,) = vectors(1, 200, 2.0)
    frame = CODE.samples(vector, SEED)
    assert frame.dtype == np.complex64
    assert not frame.imag.any()
    step = 2.0**-34  # 2e-6 * 2.0 is below 2^-17, and 64 workers leave 17 of 23 bits
    assert frame.real / step == pytest.approx(np.rint(2e-6 * vector / step), abs=1e-9)
    through = CODE.samples(vector, SEED, gain=1e-4)
    assert through.real == pytest.approx(100.0 * frame.real, rel=1e-6)


@pytest.mark.parametrize("workers", [1, 2, 64, 100, MOST_WORKERS])
def test_float32_adds_up_all_frames_without_rounding_in_any_order(workers: int) -> None:
    code = AnalogKind(**AGREED, numbers=50, norm=2.0, watts=4.0, limit_watts=1e3, workers=workers, own_watts=0.3)
    sent = vectors(workers, 50, 2.0)
    frames = [code.samples(each, number.to_bytes(32, "little")) for number, each in enumerate(sent)]
    exact = np.sum(np.array(frames, dtype=np.complex128), axis=0)
    for order in (frames, frames[::-1]):
        total = np.zeros(50, dtype=np.complex64)
        for frame in order:
            total += frame
        assert np.array_equal(total, exact)


def test_the_mean_of_a_sum_is_that_of_the_vectors() -> None:
    sent = vectors(3, 200, 2.0)
    total = sum(CODE.samples(each, SEED) for each in sent)
    mean, variance = CODE.mean(SumOnAir((0, 1, 2), total))
    assert mean == pytest.approx(sent.mean(axis=0), abs=2.0**-34 / 6e-6 * 1.5)
    rounding = 3 * 2.0**-68 / 12.0
    assert variance == pytest.approx((3e-13 / 2.0 + rounding) / 6e-6**2)


def test_noise_is_of_the_agreed_variance_and_new_for_every_seed() -> None:
    code = AnalogKind(**AGREED, numbers=20_000, norm=1.0, watts=1.0, limit_watts=10.0, workers=2, own_watts=0.09)
    frames = [code.samples(np.zeros(20_000), bytes([each] * 32)).real for each in range(2)]
    for frame in frames:
        assert np.var(frame) == pytest.approx(0.09, rel=0.1)
    assert abs(np.mean(frames[0] * frames[1])) < 0.09 * 10.0 / math.sqrt(20_000)
    total = SumOnAir((0, 1), sum(frames).astype(np.complex64))
    assert code.mean(total)[1] == pytest.approx(2 * 0.09 / 4.0, rel=1e-6)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (
            {"gain": 1e-10},
            "arrive with -84.0 dBm through a gain of 1e-10, and the power limit of this worker is 0.0 dBm",
        ),
        ({"gain": 0.0}, "the power limit of this worker"),
        ({"gain": math.nan}, "the power limit of this worker"),
        ({"vector": np.zeros(199)}, "vector of 199 numbers: must have 200"),
        ({"vector": np.ones(200)}, "a norm of at most 2"),
        ({"vector": np.full(200, np.nan)}, "a norm of at most 2"),
    ],
)
def test_what_the_owner_did_not_agree_to_is_refused(changed: dict[str, object], reason: str) -> None:
    given = {"vector": vectors(1, 200, 2.0)[0], "seed": SEED} | changed
    with pytest.raises(ProtocolError, match=reason):
        CODE.samples(**given)


def test_noise_above_the_power_limit_is_refused() -> None:
    code = AnalogKind(**AGREED, numbers=4, norm=1.0, watts=1.0, limit_watts=2.0, workers=2, own_watts=2.5)
    with pytest.raises(ProtocolError, match="a slot would have to arrive with 34"):
        code.samples(np.zeros(4), SEED)


def test_more_workers_than_float32_adds_up_exactly_are_refused() -> None:
    with pytest.raises(ProtocolError, match=r'must be 1 to 4,096 .* use privacy\.arithmetic = "integers"'):
        AnalogKind(**AGREED, numbers=4, norm=1.0, watts=1.0, limit_watts=2.0, workers=MOST_WORKERS + 1)


TABLE = Scenario.preset("private-table").with_overrides("workers.centre=public", "learner.rounds=0")


def table(workers: int, *changes: str) -> Scenario:
    return planned_for(TABLE.with_overrides(*changes), workers, public=True)


@pytest.mark.parametrize(
    "changes",
    [
        (),
        ("learner.rounds=2",),
        ("privacy.noise=workers", "privacy.adversary=everyone"),
    ],
)
def test_without_noise_the_air_gives_the_sums_of_a_simulation(changes: tuple[str, ...]) -> None:
    """The simulation's own clean sums, which the lab has no part in; noise is made so small that it does not count."""
    scenario = table(20, "mixing.power=fixed", "mixing.power_scale_watts=1e-9", "radio.noise_dbm=-300", *changes)
    if scenario.privacy.noise == "workers":
        scenario = scenario.with_overrides("privacy.above_thermal_db=0.001")
    dataset = load_dataset(scenario.workers, Streams(scenario.seed))
    population = deploy(scenario.workers, dataset, Streams(scenario.seed))
    mixtures = simulate(scenario, dataset=dataset, population=population)
    told = iter(each.told for each in mixtures.rounds)
    lab = Lab(scenario, dataset, population)
    sums = [each.mean for each in lab.run(lambda _: next(told))]
    payloads = lab.payloads
    assert len(sums) == scenario.slots_on_air
    slots, rounds = sums[: scenario.radio.slots], sums[scenario.radio.slots :]
    for found, inputs, labels in zip(slots, mixtures.inputs.numpy(), mixtures.labels.numpy(), strict=True):
        clean = np.concatenate([inputs, scenario.workers.label_weight * labels])
        assert found == pytest.approx(clean, abs=2e-4)
    for found, sent in zip(rounds, mixtures.rounds, strict=True):
        payloads[1].broadcast(sent.told)
        expected = sent.gradient.mT.flatten().numpy() * payloads[1].unit
        assert found == pytest.approx(expected, abs=2e-4)


def test_a_model_is_trained_through_the_air_though_a_worker_is_silent() -> None:
    scenario = table(24, "privacy.epsilon=1000", "learner.rounds=2")
    dataset = load_dataset(scenario.workers, Streams(scenario.seed))
    population = deploy(scenario.workers, dataset, Streams(scenario.seed))
    lab = Lab(scenario, dataset, population)
    teacher = Teacher(lab.contract, dataset)
    sums = lab.run(teacher.tell, network=without(7))
    assert [each.present for each in sums] == [tuple(each for each in range(24) if each != 7)] * 3
    assert [len(each.present) for each in sums] == [23] * 3
    assert teacher.learned(sums).history.final_accuracy > 0.85


def test_a_trial_puts_air_and_simulation_side_by_side() -> None:
    trial = try_out(table(24, "privacy.epsilon=1000"))
    assert trial.trained.history.final_accuracy == pytest.approx(trial.simulated.history.final_accuracy, abs=0.05)
    assert set(trial.seconds) == {"start", "training"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (("privacy.noise=receiver",), "hub hears every frame"),
        (("privacy.noise=workers", "privacy.adversary=server"), "hub hears every frame"),
    ],
)
def test_protection_by_the_receivers_noise_is_refused_on_an_emulated_air(changes: tuple[str, ...], reason: str) -> None:
    with pytest.raises(ScenarioError, match=reason):
        planned_for(TABLE.with_overrides(*changes), 24)
    table(24, *changes)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (("air.preset=lab",), "air.preset"),
        (("radio.schedule=poisson", "workers.count=100"), "radio.schedule"),
        (("mixing.policy=dirmix",), "mixing.policy"),
        (MASKED, "privacy.noise"),
        ((*MASKED, "privacy.arithmetic=integers"), "radio.link"),
    ],
)
def test_what_complex_baseband_does_not_carry_is_refused(changes: tuple[str, ...], key: str) -> None:
    with pytest.raises(ScenarioError, match=f"{key} = .*: must be"):
        table(24, *changes)
