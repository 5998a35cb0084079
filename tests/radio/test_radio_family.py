"""Scenarios that share their draws: simulated side by side, each gets what it would get alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from airmixml import Scenario, ScenarioError, Speed, simulate
from airmixml.data import DataSet
from airmixml.impairments.fading import PathLoss
from airmixml.radio.draws import check_family, draws_key
from airmixml.radio.tally import Tally, rehearse, rehearse_family
from airmixml.radio.transmission import Mixtures, simulate_family
from airmixml.registries import PATH_LOSSES
from airmixml.scenario import RunContext
from airmixml.scenario.toml import all_keys
from airmixml.workers import Population

POWERS = (
    ("mixing.power=dp", "privacy.epsilon=30"),
    ("mixing.power=dp", "privacy.epsilon=1e4", "privacy.delta=0.001"),
    ("mixing.power=dp", "privacy.epsilon=100", "privacy.accountant=rdp"),
    ("mixing.power=max",),
    ("mixing.power=fixed", "mixing.power_scale_watts=2e-8"),
    ("mixing.power=fixed", "mixing.power_scale_watts=1e-13", "learner.epochs=3", "name=other"),
)
AIRS = (
    ("mixing.alpha=1",),
    ("mixing.alpha=1", "radio.fading=rayleigh", "mixing.assignment=max-min"),
    ("radio.fading=rician", "mixing.policy=nonmix", "radio.max_participations=130"),
)


def family_of(*changes: str, powers: Sequence[tuple[str, ...]] = POWERS) -> list[Scenario]:
    """500 slots are several chapters, the last of them short."""
    base = Scenario().with_overrides("workers.count=12", "radio.scheduled=3", "radio.slots=500", *changes)
    return [base.with_overrides(*power) for power in powers]


def assert_equal_tallies(one: Tally, other: Tally) -> None:
    """To the last bit."""
    assert one.energy_joules == other.energy_joules
    assert np.array_equal(one.worker_energy_joules, other.worker_energy_joules)
    assert (one.slots, one.limited_slots) == (other.slots, other.limited_slots)
    assert one.largest_power_watts == other.largest_power_watts
    assert np.array_equal(one.power_dbm.counts, other.power_dbm.counts)
    assert np.array_equal(one.ledger.received_watts, other.ledger.received_watts)
    assert one.design == other.design
    assert one.privacy == other.privacy
    assert one.privacy_against_server == other.privacy_against_server


def assert_equal_mixtures(one: Mixtures, other: Mixtures) -> None:
    assert one.scenario == other.scenario
    assert torch.equal(one.inputs, other.inputs)
    assert torch.equal(one.labels, other.labels)
    assert_equal_tallies(one.report, other.report)
    assert np.array_equal(one.report.snr_db.counts, other.report.snr_db.counts)
    assert torch.equal(one.examples.inputs, other.examples.inputs)
    assert np.array_equal(one.examples.draws.power_watts, other.examples.draws.power_watts)


@pytest.mark.parametrize("air", AIRS[1:], ids=["rayleigh-max-min", "rician-nonmix"])
def test_each_of_a_family_gets_what_it_would_get_alone(
    air: tuple[str, ...], small_dataset: DataSet, small_population: Population
) -> None:
    """Also with another member in front, whose powers are the ones drawn first."""
    speed = Speed(block_slots=150, threads=1)
    context = RunContext(speed=speed)
    scenarios = family_of(*air)
    alone = [
        simulate(scenario, dataset=small_dataset, population=small_population, speed=speed) for scenario in scenarios
    ]
    assert 0 < alone[4].report.limited_slots < 500
    assert alone[5].report.limited_slots == 0
    energies = [mixtures.report.energy_joules for mixtures in alone]
    assert len(set(energies)) == len(energies)
    for first in (0, 3, 5):
        order = [*range(first, len(scenarios)), *range(first)]
        family = simulate_family(
            [scenarios[number] for number in order], dataset=small_dataset, population=small_population, context=context
        )
        for number, mixtures in zip(order, family, strict=True):
            assert_equal_mixtures(mixtures, alone[number])


def test_each_of_a_family_of_iris_gets_what_it_would_get_alone() -> None:
    """With the data and the places of the workers drawn too."""
    base = Scenario.preset("paper-iris").with_overrides("radio.slots=200", "mixing.alpha=1", "seed=3")
    scenarios = [base, base.with_overrides("privacy.epsilon=100"), base.with_overrides("mixing.power=max")]
    for scenario, mixtures in zip(scenarios, simulate_family(scenarios), strict=True):
        assert_equal_mixtures(mixtures, simulate(scenario))


def test_twice_the_amplitude_is_half_the_noise(small_dataset: DataSet, small_population: Population) -> None:
    """What the members of a family receive differs in nothing but the size of one and the same noise."""
    scenarios = family_of(
        powers=[("mixing.power=fixed", f"mixing.power_scale_watts={watts}") for watts in (1e-15, 4e-15)]
    )
    weak, strong = simulate_family(scenarios, dataset=small_dataset, population=small_population)
    assert torch.equal(weak.examples.clean_inputs, strong.examples.clean_inputs)
    for name in ("inputs", "labels"):
        clean = getattr(weak.examples, f"clean_{name}")
        noises = [(getattr(mixtures.examples, name) - clean).numpy() for mixtures in (weak, strong)]
        assert np.abs(noises[0]).min() > 0.0
        assert noises[0] == pytest.approx(2.0 * noises[1], rel=1e-3, abs=1e-5)
    # The power of a mixture is sent by its workers: four times as much, and none is limited.
    assert strong.report.energy_joules == pytest.approx(4.0 * weak.report.energy_joules, rel=1e-12, abs=0)
    assert strong.report.limited_slots == 0


@pytest.mark.parametrize("air", AIRS, ids=["plain", "rayleigh-max-min", "rician-nonmix"])
def test_a_rehearsed_family_is_that_of_single_rehearsals(air: tuple[str, ...]) -> None:
    scenarios = family_of(*air)
    for scenario, tally in zip(scenarios, rehearse_family(scenarios, 3, 2), strict=True):
        assert tally.scenario == scenario
        assert tally.slots == 500
        assert_equal_tallies(tally, rehearse(scenario, 3, 2))


def test_a_rehearsed_family_costs_what_the_simulated_one_does() -> None:
    base = Scenario.preset("paper-iris").with_overrides("radio.slots=300", "mixing.alpha=1")
    scenarios = [base, base.with_overrides("mixing.power=max"), base.with_overrides("privacy.epsilon=50")]
    for tally, mixtures in zip(rehearse_family(scenarios, 4, 3), simulate_family(scenarios), strict=True):
        assert tally.energy_joules == pytest.approx(mixtures.report.energy_joules, rel=1e-12, abs=0)
        assert tally.limited_slots == mixtures.report.limited_slots


class Constant(PathLoss):
    about = "the same loss everywhere"

    def loss_db(self, distance_metres: np.ndarray) -> np.ndarray:
        return np.full(distance_metres.shape, 70.0)


# Another value for every key of a scenario with three scheduled workers.
SHARED_DRAWS = (
    "name=other",
    "mixing.power=max",
    "mixing.power_scale_watts=2e-13",
    "privacy.epsilon=6",
    "privacy.delta=0.02",
    "privacy.adversary=server",
    "privacy.accountant=pld",
    "privacy.adjacency=remove-one",
    "privacy.sensitivity=encoder",
    "privacy.colluders=1",
    "privacy.eavesdropper_noise_dbm=-100",
    "privacy.eavesdropper_distance_metres=20",
    "privacy.eavesdropper_antennas=2",
    "learner.model=cnn",
    "learner.hidden_units=8",
    "learner.filters=4",
    "learner.kernel_size=3",
    "learner.pool_size=3",
    "learner.loss=brier",
    "learner.shrinkage=2",
    "learner.epochs=7",
    "learner.batch_size=16",
    "learner.learning_rate=0.01",
    "learner.adam_beta1=0.5",
    "learner.adam_beta2=0.9",
    "learner.rounds_share=0.5",
    "learner.gradient_clip=0.3",
    "learner.temperature=2",
    "learner.rounds_step=9",
    "learner.descent=adam",
    "privacy.noise=workers",
    "privacy.above_thermal_db=20",
    "privacy.mask_degree=8",
    "privacy.mask_share=0.5",
    "privacy.most_absent=0.1",
)
OTHER_DRAWS = (
    "seed=1",
    "workers.dataset=digits",
    "workers.count=13",
    "workers.train_samples=50",
    "workers.side_metres=100",
    "workers.min_distance_metres=2",
    "workers.holding=dealt",
    "workers.encoder=clip",
    "workers.clip_norm=2",
    "workers.centre_share=0.2",
    "workers.label_weight=0.5",
    "workers.bits_range=2",
    "workers.input_lower=0",
    "workers.input_upper=10",
    "workers.feature_columns=a,b",
    "workers.label_column=class",
    "workers.shape=2,2",
    "workers.max_rows=3",
    "workers.rows_bound=2",
    "workers.skew=0.5",
    "workers.rows_per_worker=2",
    "radio.slots=501",
    "radio.scheduled=4",
    "radio.slot_seconds=0.002",
    f"radio.path_loss={PATH_LOSSES.add(Constant())}",
    "radio.path_loss_exponent=3",
    "radio.unit_path_loss_db=-30",
    "radio.fading=rayleigh",
    "radio.rician_k=5",
    "radio.noise_dbm=-110",
    "radio.max_power_dbm=20",
    "radio.max_participations=200",
    "mixing.policy=equalmix",
    "mixing.alpha=2",
    "mixing.prior=0.5,0.25,0.25",
    "mixing.assignment=max-min",
)


# Refused for a scenario of classes and samples.
OF_OTHER_TASKS = ("workers.worker_column=person", "workers.label_columns=a,b", "workers.label_code=centred")
OF_OWN_FILES = ("workers.classes=a,b", "workers.unknown_labels=absent")
OF_DIGITAL_LINKS = ("radio.link=digital", *(f"{key}=" for key in all_keys() if key.startswith("link.")))
OF_TABLES = (
    "workers.categories={a = ['b']}",
    "workers.missing=fill",
    "workers.fill={a = 1.0}",
    "workers.decimal=comma",
)
OF_MOMENTS = ("learner.rounds=3",)
OF_INTEGERS = ("privacy.arithmetic=integers", "privacy.modulus_bits=20", "privacy.sum_range=8")
# These are nothing without an encoder that bounds a norm, or need another policy.
CLIPPING = ("workers.encoder=clip", "workers.clip_norm=0.5", "privacy.sensitivity=encoder", "learner.model=ridge")
OTHER_DRAWS_OF_AN_ENCODER = (
    "workers.features=3",
    "workers.centre=own",
    "workers.norm=unit",
    "workers.constant=0.5",
    "workers.sends=moments",
    "workers.bits=4",
    "workers.task=regression",
    "workers.target_lower=0",
    "workers.target_upper=9",
    "radio.schedule=poisson",
)


def test_every_key_is_on_one_of_the_three_lists() -> None:
    lists = (
        *SHARED_DRAWS,
        *OTHER_DRAWS,
        *OTHER_DRAWS_OF_AN_ENCODER,
        *OF_OTHER_TASKS,
        *OF_OWN_FILES,
        *OF_TABLES,
        *OF_DIGITAL_LINKS,
        *OF_INTEGERS,
        *OF_MOMENTS,
    )
    named = [change.partition("=")[0] for change in lists]
    assert sorted(named) == sorted(key for key in all_keys() if not key.startswith("air."))


def test_integers_share_draws_with_nothing_else() -> None:
    real = Scenario.preset("trustless-iris")
    whole = real.with_overrides("privacy.arithmetic=integers")
    assert len({draws_key(each) for each in (real, whole, whole.with_overrides("privacy.epsilon=2"))}) == 3


@pytest.mark.parametrize("change", ["air.absent=0.1", "air.phase_error_radians=0.1", "air.preset=line-of-sight"])
def test_an_air_decides_the_draws_and_so_do_power_and_target_on_it(change: str) -> None:
    (base,) = family_of(powers=[()])
    aired = base.with_overrides(change)
    louder = aired.with_overrides("privacy.epsilon=7")
    assert len({draws_key(base), draws_key(aired), draws_key(louder)}) == 3
    assert draws_key(aired) == draws_key(aired.with_overrides("learner.epochs=3"))
    # Keys that only say how something is done do nothing by themselves.
    assert draws_key(base.with_overrides("air.roll_off=0.5")) == draws_key(base)


@pytest.mark.parametrize("change", SHARED_DRAWS)
def test_power_privacy_learner_and_name_leave_the_draws_alone(change: str) -> None:
    (base,) = family_of(powers=[()])
    changed = base.with_overrides(change)
    assert changed != base
    assert draws_key(changed) == draws_key(base)
    check_family([base, changed])


@pytest.mark.parametrize("change", OF_OTHER_TASKS)
def test_what_other_tasks_need_is_refused_for_classes(change: str) -> None:
    (base,) = family_of(powers=[()])
    with pytest.raises(ScenarioError, match=r"^workers\.(label_columns|sends) = "):
        base.with_overrides(change)


@pytest.mark.parametrize("change", OTHER_DRAWS_OF_AN_ENCODER)
def test_what_an_encoder_does_makes_a_family_of_its_own(change: str) -> None:
    encoder = ("workers.encoder=dct",) if change.startswith("workers.features") else ()
    (base,) = family_of(*CLIPPING, *encoder, "mixing.policy=equalmix", powers=[()])
    odd = base.with_overrides(change)
    assert draws_key(odd) != draws_key(base)
    with pytest.raises(ScenarioError, match="differs from airmix in more than power, privacy and learner"):
        check_family([base, odd])


@pytest.mark.long
@pytest.mark.parametrize(
    "change",
    [
        ("workers.sends=moments", "workers.constant=0.5"),
        ("workers.centre=own", "workers.norm=unit"),
        ("workers.sends=moments", "workers.bits=4"),
        ("radio.schedule=poisson", "mixing.policy=equalmix", "privacy.adjacency=remove-one", "privacy.accountant=pld"),
    ],
    ids=["moments", "centred", "rounded", "poisson"],
)
def test_a_family_with_an_encoder_gets_what_each_would_get_alone(
    change: tuple[str, ...], small_dataset: DataSet, small_population: Population
) -> None:
    """Also where the default learner and sensitivity would be refused."""
    base = Scenario().with_overrides("workers.count=12", "radio.scheduled=3", "radio.slots=150", *CLIPPING, *change)
    half = replace(small_dataset, train_inputs=small_dataset.train_inputs / 4)
    scenarios = [base.with_overrides(*power) for power in (("privacy.epsilon=30",), ("privacy.epsilon=300",))]
    speed = Speed(block_slots=40, threads=1)
    context = RunContext(speed=speed)
    family = simulate_family(scenarios, dataset=half, population=small_population, context=context)
    for scenario, mixtures in zip(scenarios, family, strict=True):
        assert_equal_mixtures(mixtures, simulate(scenario, dataset=half, population=small_population, speed=speed))


@pytest.mark.parametrize("change", OTHER_DRAWS)
def test_all_else_makes_a_family_of_its_own(change: str) -> None:
    (base,) = family_of(powers=[()])
    odd = base.with_overrides(change, "name=odd")
    assert draws_key(odd) != draws_key(base)
    for refuse in (
        simulate_family,
        lambda scenarios: rehearse_family(scenarios, 4, 3),
    ):
        with pytest.raises(ScenarioError) as refusal:
            refuse([base, base.with_overrides("mixing.power=max"), odd])
        assert str(refusal.value) == (
            "odd: differs from airmix in more than power, privacy and learner; simulate it apart"
        )
