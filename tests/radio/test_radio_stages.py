"""Noises and power policies are stages behind registries: those of another package need no change elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airmixml import Scenario
from airmixml.edge import simulate
from airmixml.messages import ScenarioError
from airmixml.planning.account import account_scenario
from airmixml.privacy import Everyone
from airmixml.radio import AirReport
from airmixml.radio.air import Noise, Reception
from airmixml.radio.masking import Masking, choose_masking
from airmixml.radio.mixing import PowerPolicy
from airmixml.radio.workers_noise import OwnNoise
from airmixml.registries import NOISES, POWER_POLICIES
from airmixml.registry import Registry
from airmixml.streams import Secret

FEW = ("workers.dataset=digits", "workers.count=400", "radio.scheduled=20", "radio.slots=60", "workers.encoder=clip")
AGAINST_SERVER = ("privacy.adversary=server", "privacy.accountant=gdp", "privacy.sensitivity=encoder")
FIXED = ("mixing.policy=equalmix", "mixing.power=fixed")


class Louder(Noise):
    """A receiver with three times its noise."""

    about = "three times the receiver's noise"

    def receiver_watts(self, scenario: Scenario, thermal_watts: float) -> float:
        return 3.0 * thermal_watts


class Even(Noise):
    """A receiver that adds 1 to everything, in its own way."""

    about = "1 on every symbol"

    def receive(self, setting: Any, arrival: Any, drawn: Any, normals: Any, place: Any) -> Reception:
        return Reception(clean=arrival.clean, received=arrival.clean + 1.0)


class FourTimes(OwnNoise):
    """Workers that bring four times the noise they would."""

    about = "four times the workers' own noise"

    def masking(self, scenario: Scenario, secret: Secret | None = None) -> Masking | None:
        plain = choose_masking(scenario, secret)
        return replace(plain, own_watts=4.0 * plain.own_watts)


class Half(PowerPolicy):
    about = "half of what the target allows"
    keeps_target = True

    def received_watts(self, scenario: Scenario, private_watts: Callable[[], float]) -> float:
        return private_watts() / 2.0


class Alternating(PowerPolicy):
    """Beta of two sizes in turn."""

    about = "two betas in turn"

    def largest_received_watts(self, scenario: Scenario, received_watts: float) -> float:
        return 2e-13 / float(scenario.radio.scheduled) ** 2

    def power_scale(self, scenario: Scenario, received_watts: float, ratios: Any, largest: Any) -> Any:
        beta = largest.new_full(largest.shape, 1e-13)
        beta[::2] *= 2.0
        return beta


@pytest.fixture(autouse=True)
def another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a package that brings these had been installed."""

    def install(registry: Registry, **things: object) -> None:
        monkeypatch.setitem(vars(registry), "plugins", dict.fromkeys(things))
        for name, thing in things.items():
            monkeypatch.setitem(registry.loaded, name, thing)

    install(NOISES, louder=Louder(), even=Even(), fourfold=FourTimes())
    install(POWER_POLICIES, half=Half(), alternating=Alternating())


def sent(*changes: str) -> tuple[AirReport, float]:
    """Return the report of a run, and the mean square of the noise on its first slots, times beta over sigma^2 / 2."""
    scenario = Scenario().with_overrides(*FEW, *AGAINST_SERVER, *changes)
    mixtures = simulate(scenario)
    few = mixtures.examples
    beta = few.drawn.power_scale_watts[:, None] / 10.0 ** ((scenario.radio.noise_dbm - 30.0) / 10.0) * 2.0
    return mixtures.report, float(((few.inputs - few.clean_inputs).double().square() * beta).mean())


@pytest.mark.parametrize("air", [(), ("air.amplitude_error_db=0.5",)])
def test_a_noise_of_another_package_is_on_the_mixtures_and_in_the_statements(air: tuple[str, ...]) -> None:
    (plain, heard), (louder, louder_heard) = (
        sent(*FIXED, *air, f"privacy.noise={each}") for each in ("receiver", "louder")
    )
    assert heard == pytest.approx(1.0, rel=0.2)
    assert louder_heard == pytest.approx(3.0, rel=0.2)
    assert louder.worker_squared_mu().max() == pytest.approx(plain.worker_squared_mu().max() / 3.0)
    assert louder.noise_variance == pytest.approx(3.0 * plain.noise_variance, rel=0.2)


def test_a_noise_may_put_itself_on_the_sums() -> None:
    mixtures = simulate(Scenario().with_overrides(*FEW, *AGAINST_SERVER, "privacy.noise=even"))
    few = mixtures.examples
    assert (few.inputs - few.clean_inputs).numpy() == pytest.approx(1.0, abs=1e-5)


def test_the_target_allows_as_much_more_power() -> None:
    (plain, _), (louder, heard) = sent(), sent("privacy.noise=louder")
    assert louder.energy_joules == pytest.approx(3.0 * plain.energy_joules)
    assert louder.privacy.epsilon == pytest.approx(plain.privacy.epsilon)
    assert heard == pytest.approx(3.0, rel=0.2)


def test_noise_that_workers_of_another_package_bring_hides_them_from_everyone() -> None:
    equal = (*FIXED, "mixing.power_scale_watts=1e-15", "privacy.above_thermal_db=20")
    (plain, heard), (more, more_heard) = (sent(*equal, f"privacy.noise={each}") for each in ("workers", "fourfold"))
    alone, more_alone = (Everyone().mechanism(each.design, "remove-one").total for each in (plain, more))
    assert more_alone == pytest.approx(alone / 4.0)
    assert heard == pytest.approx(101.0, rel=0.2)
    assert more_heard == pytest.approx(401.0, rel=0.2)
    with pytest.raises(ScenarioError, match=r'^privacy.most_absent = 0.1: must be 0 for privacy.noise = "fourfold"'):
        Scenario().with_overrides(*FIXED, "privacy.noise=fourfold", "privacy.most_absent=0.1")


def test_what_a_receivers_noise_refuses_another_packages_does_too() -> None:
    with pytest.raises(ScenarioError, match=r'^privacy.adversary = "everyone": needs'):
        Scenario().with_overrides("privacy.noise=louder", "privacy.adversary=everyone")
    with pytest.raises(ScenarioError, match=r'^privacy.noise = "louder": must be "masked" or "workers" for'):
        Scenario().with_overrides("privacy.noise=louder", "privacy.arithmetic=integers")
    with pytest.raises(ScenarioError, match=r'must be one of .*"louder".*; did you mean "louder"'):
        Scenario().with_overrides("privacy.noise=louderr")


def test_a_power_policy_of_another_package_plans_with_the_target() -> None:
    (plain, _), (half, _) = sent(), sent("mixing.power=half")
    assert half.energy_joules == pytest.approx(plain.energy_joules / 2.0)
    assert half.worker_squared_mu().max() == pytest.approx(plain.worker_squared_mu().max() / 2.0)
    account = account_scenario(half.scenario, 64, 10)
    stated = next(each for each in account.statements if (each.adversary, each.accountant) == ("server", "gdp"))
    assert half.privacy.epsilon <= stated.epsilon < half.scenario.privacy.epsilon


def test_a_power_policy_of_another_package_sets_beta_slot_by_slot() -> None:
    report, _ = sent("mixing.policy=equalmix", "mixing.power=alternating")
    fixed, _ = sent(*FIXED)
    assert report.energy_joules == pytest.approx(1.5 * fixed.energy_joules, rel=0.05)
    strengths = dict(zip(report.design.received_watts, report.design.counts, strict=True))
    assert sorted(strengths.values()) == [30, 30]
    assert max(strengths) == pytest.approx(2e-13 / 400.0, rel=3e-3)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("radio.schedule=poisson", 'radio.schedule = "poisson": must be "fixed"'),
        ("mixing.power=max", 'mixing.power = "max": must be "dp" or "fixed"'),
        ("mixing.policy=nonmix", 'mixing.policy = "nonmix": workers without a share would hide nobody'),
        ("privacy.mask_degree=3", "privacy.mask_degree = 3: must be an even number"),
        ("privacy.mask_degree=22", "privacy.mask_degree = 22: must be an even number, at most radio.scheduled = 20"),
        ("air.waveform=ofdm", 'air.waveform = "ofdm": must be "single-carrier"'),
        ("air.peak_power_dbm=10", "air.peak_power_dbm = 10: must be inf"),
        ("radio.fading=rayleigh", 'radio.fading = "rayleigh": needs air.truncation_db'),
        ("privacy.sum_range=2", 'privacy.sum_range = 2: must be 0 for privacy.arithmetic = "real"'),
    ],
)
def test_what_masks_refuse_names_the_key(change: str, told: str) -> None:
    sound = (*FEW, *FIXED, "privacy.noise=masked")
    Scenario().with_overrides(*sound)
    with pytest.raises(ScenarioError) as refused:
        Scenario().with_overrides(*sound, change)
    assert str(refused.value).startswith(told)
