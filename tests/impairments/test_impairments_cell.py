"""A cell: shadows, interference, carriers that leak, attenuators, switching, acquisition."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from seats_for_tests import aired, drawn_on

from airmixml import Scenario, ScenarioError
from airmixml.arrays import dbm_to_watts
from airmixml.impairments.fading import deepest_shadow, draw_shadowing, weakest_gain, worker_path_gain
from airmixml.impairments.frame import frame_of
from airmixml.impairments.gains import both
from airmixml.impairments.hardware import leaked, removal_factor
from airmixml.planning import InputMoments, make_plan
from airmixml.radio.air import Noise
from airmixml.radio.system import System
from airmixml.radio.tally import rehearse

SYMBOLS_PER_SECOND = 794_000.0


class TestShadows:
    def test_they_are_log_normal_up_to_three_deviations(self) -> None:
        scenario = Scenario().with_overrides("air.shadowing_db=8")
        decibels = 20.0 * np.log10(draw_shadowing(scenario, 100_000))
        cut = stats.truncnorm(-3.0, 3.0, scale=8.0)
        assert stats.kstest(decibels, cut.cdf).pvalue > 1e-3
        assert np.abs(decibels).max() <= 24.0
        assert deepest_shadow(scenario) == pytest.approx(10.0**-2.4)

    def test_they_are_part_of_every_path_and_of_its_floor(self) -> None:
        plain, shadowed = Scenario(), Scenario().with_overrides("air.shadowing_db=6")
        metres = np.linspace(1.0, 300.0, 4)
        clear = plain.radio.path_loss_kind.gain(plain.radio, metres)
        assert np.array_equal(worker_path_gain(plain, metres), clear)
        assert np.allclose(worker_path_gain(shadowed, metres), clear * draw_shadowing(shadowed, 4))
        assert weakest_gain(shadowed) == pytest.approx(weakest_gain(plain) * 10.0**-1.8)

    def test_workers_invert_them(self) -> None:
        """What arrives is as planned; the power of a worker follows its shadow."""
        plain = aired("mixing.power=fixed", "mixing.power_scale_watts=1e-13", "air.absent=0.01")
        clear, shadowed = drawn_on(plain), drawn_on(plain.with_overrides("air.shadowing_db=6"))
        shadows = torch.from_numpy(draw_shadowing(plain.with_overrides("air.shadowing_db=6"), 200))
        assert torch.equal(clear.ratios, shadowed.ratios)
        of_seats = shadows[clear.scheduled_workers].square()
        assert torch.allclose(shadowed.power_watts * of_seats, clear.power_watts)


class TestInterference:
    def test_it_disturbs_and_does_not_protect(self) -> None:
        plain = aired("mixing.power=max", "radio.noise_dbm=-100")
        disturbed = plain.with_overrides("air.interference_dbm=-97")
        assert Noise().drawn_watts(disturbed) == pytest.approx(dbm_to_watts(-100.0) + dbm_to_watts(-97.0))
        for each in (disturbed, plain):
            assert Noise().stated_watts(each) == pytest.approx(dbm_to_watts(-100.0))
        before, after = (rehearse(each, 4, 3).privacy.epsilon for each in (plain, disturbed))
        assert after == pytest.approx(before)


class TestCarriers:
    def test_many_leave_the_root_of_their_number(self) -> None:
        """Of 50 workers with equal shares and independent phases, sum |c_i|^2 is left on average."""
        drawn = drawn_on(aired("mixing.power=max", "mixing.policy=equalmix", "air.carrier_leakage_db=-20"))
        found = leaked(drawn.gains.scenario.air, drawn.gains.draws, both(drawn.ratios[:, :, None] + 0j), 0.3)
        assert found.shape == (64, 1)
        expected = 50 * 0.02**2 * 0.01 * 0.3
        assert float(found.abs().square().mean()) == pytest.approx(expected, rel=5.0 / math.sqrt(64))

    def test_a_removed_worker_takes_its_carrier_along(self) -> None:
        """A vector of norm R and a carrier of norm sqrt(L) R that points the same way have (1 + sqrt(L)) R together."""
        plain = Scenario.preset("private-iris").settled(100, 4).with_overrides("air.absent=0.01")
        leaking = plain.with_overrides("air.carrier_leakage_db=-20")
        before, after = (System.of(each, 4, 3).sensitivity for each in (plain, leaking))
        assert after.removal / before.removal == pytest.approx(1.1**2)
        assert after.replacement == before.replacement
        assert removal_factor(plain.air) == 1.0
        vector = np.full(7, before.removal**0.5 / 7**0.5)
        carrier = np.full(7, 0.1 * before.removal**0.5 / 7**0.5)
        assert np.linalg.norm(vector + carrier) ** 2 == pytest.approx(after.removal)


class TestAttenuators:
    def test_they_lower_the_lowest_power(self) -> None:
        soft = aired("mixing.power=dp", "privacy.adversary=server", "privacy.accountant=gdp", "privacy.epsilon=0.1")
        with pytest.raises(ScenarioError, match=r"^air.min_power_dbm = 24: must be at most 23, .* air.attenuator_db"):
            soft.with_overrides("air.min_power_dbm=24")
        assert soft.with_overrides("air.min_power_dbm=24", "air.attenuator_db=1").air.lowest_power_dbm == 23.0
        attenuated = soft.with_overrides("air.min_power_dbm=10", "air.attenuator_db=150")
        assert attenuated.air.lowest_power_dbm == -140.0
        assert torch.equal(
            drawn_on(attenuated).power_watts, drawn_on(soft.with_overrides("air.absent=1e-9")).power_watts
        )

    def test_a_plan_says_how_much_attenuation_is_needed(self) -> None:
        """The paper's slots of given length: a worker radiates P all the time, so the median of P is what counts."""
        soft = aired(
            "privacy.adversary=server", "privacy.accountant=gdp", "air.min_power_dbm=10", "air.attenuator_db=150"
        )
        plan = make_plan(soft, 4, 3, InputMoments(mean=0.3, deviation=0.3), alternatives=False)
        assert plan.power_dbm is not None
        assert plan.attenuation_db == pytest.approx(10.0 - plan.power_dbm.median)
        loud = aired("mixing.power=max", "air.min_power_dbm=-150", "privacy.epsilon=1000")
        assert math.isnan(
            make_plan(loud, 4, 3, InputMoments(mean=0.3, deviation=0.3), alternatives=False).attenuation_db
        )


class TestOverhead:
    def test_switching_is_silence_after_every_block(self) -> None:
        plain = aired("air.phase_error_radians=0.1", "air.resync_seconds=2e-4", "air.guard_symbols=3").air
        switching = aired(
            "air.phase_error_radians=0.1",
            "air.resync_seconds=2e-4",
            "air.guard_symbols=3",
            "air.switching_seconds=2e-5",
        ).air
        assert switching.silence_symbols == 3 + 16  # 15.88 symbols
        before, after = frame_of(plain, 1000), frame_of(switching, 1000)
        assert before.overhead_symbols == before.block_count * 4
        assert after.overhead_symbols == after.block_count * 20

    def test_acquiring_workers_takes_time_and_energy_once(self) -> None:
        plain = Scenario.preset("private-iris").settled(100, 4)
        acquired = plain.with_overrides("air.acquisition_symbols=500")
        before, after = (rehearse(each, 4, 3) for each in (plain, acquired))
        seconds = plain.workers.count * 500 / SYMBOLS_PER_SECOND
        assert after.air_seconds - before.air_seconds == pytest.approx(seconds)
        joules = seconds * dbm_to_watts(plain.radio.max_power_dbm)
        assert after.energy_joules - before.energy_joules == pytest.approx(joules)
        assert after.privacy.epsilon == before.privacy.epsilon
        moments = InputMoments(mean=0.3, deviation=0.3)
        plans = [make_plan(each, 4, 3, moments, alternatives=False).energy_joules for each in (plain, acquired)]
        assert plans[1] - plans[0] == pytest.approx(joules)
