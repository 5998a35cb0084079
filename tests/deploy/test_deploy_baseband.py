"""Analog frames by hand, sums that float32 adds up exactly, masks that cancel, and models through an emulated air."""

from __future__ import annotations

import math

import numpy as np
import pytest

from airmixml import Scenario, settle, simulate
from airmixml.deploy.air import MOST_WORKERS
from airmixml.deploy.analog import check_emulated, for_workers
from airmixml.deploy.baseband import Baseband
from airmixml.deploy.lab import Lab, try_out
from airmixml.deploy.learning import Teacher
from airmixml.deploy.local import Carry
from airmixml.deploy.wire import Type, unpacked
from airmixml.errors import ProtocolError, ScenarioError
from airmixml.streams import Streams
from airmixml.workers import deploy, load_dataset

CODE = Baseband(numbers=200, norm=2.0, watts=4e-12, limit_watts=1e-3, workers=64, receiver_watts=3e-13)
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
    frame = CODE.samples(vector, 1e-12, largest_watts=4e-12, seed=SEED)
    assert frame.dtype == np.complex64
    assert not frame.imag.any()
    step = 2.0**-34  # 2e-6 * 2.0 is below 2^-17, and 64 workers leave 17 of 23 bits
    assert frame.real / step == pytest.approx(np.rint(1e-6 * vector / step), abs=1e-9)
    through = CODE.samples(vector, 1e-12, largest_watts=4e-12, seed=SEED, gain=1e-4)
    assert through.real == pytest.approx(100.0 * frame.real, rel=1e-6)


@pytest.mark.parametrize("workers", [1, 2, 64, 100, MOST_WORKERS])
def test_float32_adds_up_all_frames_without_rounding_in_any_order(workers: int) -> None:
    code = Baseband(numbers=50, norm=2.0, watts=4.0, limit_watts=1e3, workers=workers, own_watts=0.3, mask_watts=9.0)
    sent = vectors(workers, 50, 2.0)
    frames = [
        code.samples(
            each, 4.0, largest_watts=4.0, seed=number.to_bytes(32, "little"), masks=lambda _, n: np.full(n, 9.0)
        )
        for number, each in enumerate(sent)
    ]
    exact = np.sum(np.array(frames, dtype=np.complex128), axis=0)
    for order in (frames, frames[::-1]):
        total = np.zeros(50, dtype=np.complex64)
        for frame in order:
            total += frame
        assert np.array_equal(total, exact)


def test_the_mean_of_a_sum_is_that_of_the_vectors_by_their_shares() -> None:
    sent, watts = vectors(3, 200, 2.0), np.array([4e-12, 1e-12, 1e-12])
    frames = [CODE.samples(each, p, largest_watts=4e-12, seed=SEED) for each, p in zip(sent, watts, strict=True)]
    mean = CODE.mean_of(sum(frames), watts, 4e-12)
    assert mean.vector == pytest.approx(np.array([0.5, 0.25, 0.25]) @ sent, abs=2.0**-34 / 4e-6 * 1.5)
    assert mean.present == pytest.approx(1.0 / (0.5**2 + 2 * 0.25**2))
    rounding = 3 * 2.0**-68 / 12.0
    assert mean.noise_variance == pytest.approx((3e-13 / 2.0 + rounding) / 4e-6**2)


def test_noise_is_of_the_agreed_variance_and_new_for_every_seed() -> None:
    code = Baseband(numbers=20_000, norm=1.0, watts=1.0, limit_watts=10.0, workers=2, own_watts=0.09)
    frames = [code.samples(np.zeros(20_000), 1.0, largest_watts=1.0, seed=bytes([each] * 32)).real for each in range(2)]
    for frame in frames:
        assert np.var(frame) == pytest.approx(0.09, rel=0.1)
    assert abs(np.mean(frames[0] * frames[1])) < 0.09 * 10.0 / math.sqrt(20_000)
    assert code.mean_of(sum(frames).astype(np.complex64), np.ones(2), 1.0).noise_variance == pytest.approx(
        2 * 0.09 / 4.0, rel=1e-6
    )


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"watts": 5e-12, "largest_watts": 5e-12}, "at most the agreed 4e-12 W"),
        ({"watts": 2e-12, "largest_watts": 1e-12}, "must be above 0"),
        ({"watts": 0.0}, "must be above 0"),
        ({"watts": math.nan}, "must be above 0"),
        (
            {"gain": 1e-10},
            "arrive with -90.0 dBm through a gain of 1e-10, and the power limit of this worker is 0.0 dBm",
        ),
        ({"gain": 0.0}, "the power limit of this worker"),
        ({"gain": math.nan}, "the power limit of this worker"),
        ({"vector": np.zeros(199)}, "vector of 199 numbers: must have 200"),
        ({"vector": np.ones(200)}, "a norm of at most 2"),
        ({"vector": np.full(200, np.nan)}, "a norm of at most 2"),
    ],
)
def test_what_the_owner_did_not_agree_to_is_refused(changed: dict[str, object], reason: str) -> None:
    given = {"vector": vectors(1, 200, 2.0)[0], "watts": 1e-12, "largest_watts": 1e-12, "seed": SEED} | changed
    with pytest.raises(ProtocolError, match=reason):
        CODE.samples(**given)


def test_noise_and_masks_above_the_power_limit_are_refused() -> None:
    code = Baseband(numbers=4, norm=1.0, watts=1.0, limit_watts=2.0, workers=2, own_watts=1.0, mask_watts=1.5)
    with pytest.raises(ProtocolError, match="a slot would have to arrive with 34"):
        code.samples(np.zeros(4), 1.0, largest_watts=1.0, seed=SEED)


def test_more_workers_than_float32_adds_up_exactly_are_refused() -> None:
    with pytest.raises(ProtocolError, match=r'must be 1 to 4,096 .* use privacy\.arithmetic = "integers"'):
        Baseband(numbers=4, norm=1.0, watts=1.0, limit_watts=2.0, workers=MOST_WORKERS + 1)


def test_masks_cancel_in_the_sum_and_those_of_absent_workers_are_recovered() -> None:
    """A frame alone is noise, and the sum has no mask in it, of the absent neither."""
    scenario = table(16, *MASKED, "privacy.most_absent=0.2", "privacy.colluders=1")
    dataset = load_dataset(scenario.workers, Streams(scenario.seed))
    population = deploy(scenario.workers, dataset, Streams(scenario.seed))
    lab = Lab(scenario, dataset, population)
    (found,) = lab.run(network=without(3, 11))
    (kind,) = lab.contract.kinds
    present = [each for each in range(16) if each not in (3, 11)]
    assert found.present == tuple(present)
    sent = kind.payload.vectors(np.array(population.sample_index)[present]).mean(axis=0)
    assert found.mean == pytest.approx(sent, abs=7 * math.sqrt(found.variance))
    masks = math.sqrt(kind.mask_watts / kind.largest_watts(0))  # of one frame, in units of a vector
    assert masks > 10 * math.sqrt(found.variance)


TABLE = Scenario.preset("private-table").with_overrides("workers.centre=public", "learner.rounds=0")


def table(workers: int, *changes: str) -> Scenario:
    return settle(for_workers(TABLE, workers).with_overrides(*changes))


SAMPLES = ("workers.sends=samples", "workers.label_code=one-hot", "radio.slots=4", "mixing.policy=dirmix")


@pytest.mark.parametrize(
    "changes",
    [
        (),
        ("learner.rounds=2",),
        (*SAMPLES, "radio.scheduled=5"),
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
    payloads = [each.payload for each in lab.contract.kinds]
    assert len(sums) == scenario.slots_on_air
    slots, rounds = sums[: scenario.radio.slots], sums[scenario.radio.slots :]
    for found, inputs, labels in zip(slots, mixtures.inputs.numpy(), mixtures.labels.numpy(), strict=True):
        clean = np.concatenate([inputs, scenario.workers.label_weight * labels])
        assert found == pytest.approx(clean, abs=2e-4)
    for found, sent in zip(rounds, mixtures.rounds, strict=True):
        payloads[1].broadcast(sent.told)
        expected = sent.gradient.mT.flatten().numpy() * payloads[1].unit
        assert found == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("changes", [(), (*MASKED, "privacy.most_absent=0.1")])
def test_a_model_is_trained_through_the_air_though_a_worker_is_silent(changes: tuple[str, ...]) -> None:
    """With masks, those of the silent worker are recovered by the classes that a deployment runs."""
    scenario = table(24, "privacy.epsilon=1000", "learner.rounds=2", *changes)
    dataset = load_dataset(scenario.workers, Streams(scenario.seed))
    population = deploy(scenario.workers, dataset, Streams(scenario.seed))
    lab = Lab(scenario, dataset, population)
    teacher = Teacher(lab.contract, dataset)
    sums = lab.run(teacher.tell, network=without(7))
    assert [each.present for each in sums] == [tuple(each for each in range(24) if each != 7)] * 3
    assert [each.weight for each in sums] == pytest.approx([23.0] * 3)
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
    scenario = table(24, *changes)
    with pytest.raises(ScenarioError, match=reason):
        check_emulated(scenario, protects=True)
    check_emulated(scenario, protects=False)
    check_emulated(table(24, *MASKED), protects=True)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (("air.preset=lab",), "air.preset"),
        (("radio.schedule=poisson", "workers.count=100"), "radio.schedule"),
        ((*MASKED, "privacy.arithmetic=integers"), "privacy.arithmetic"),
    ],
)
def test_what_complex_baseband_does_not_carry_is_refused(changes: tuple[str, ...], key: str) -> None:
    with pytest.raises(ScenarioError, match=f"{key} = .*: must be"):
        check_emulated(table(24, *changes), protects=False)
