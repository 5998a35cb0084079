"""The plan of workers that send integers: that of the same workers with real numbers, with what differs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from airmixml.arrays import Doubles
from airmixml.errors import PrivacyError
from airmixml.privacy import facts
from airmixml.radio.expected_noise import expected_noise
from airmixml.radio.integer_sums import integer_sums_of
from airmixml.radio.path_loss import path_gain
from airmixml.radio.power import TransmitPower
from airmixml.radio.privacy_target import joules_per_watt, planned_design, private_received_watts, sensitivity_of
from airmixml.radio.row_privacy import row_statements
from airmixml.scenario import Scenario
from airmixml.units import ratio_to_db, watts_to_dbm
from airmixml.workers import Signal

PlanT = TypeVar("PlanT")
"""``plan.Plan``, which is made of this file's."""


def with_real_numbers(scenario: Scenario) -> Scenario:
    """Return the same scenario whose workers send real numbers in Gaussian noise."""
    return replace(scenario, privacy=replace(scenario.privacy, arithmetic="real", modulus_bits=0, sum_range=0.0))


def with_integers(plan: PlanT, scenario: Scenario, input_dim: int, label_dim: int, distance_metres: Doubles) -> PlanT:
    """Return the plan of a scenario of integers from that of ``with_real_numbers``; distances have the shape workers.

    What to send is recommended as for real numbers, from which the noise of enough bits differs by 1 %.
    """
    radio, sensitivity = scenario.radio, sensitivity_of(scenario, input_dim, label_dim)
    real: Any = plan
    try:
        received_watts = private_received_watts(scenario, sensitivity, distance_metres)
    except PrivacyError as problem:
        return _like(plan, feasible=False, verdict=str(problem), masks=None, recommended=None)
    sums = integer_sums_of(scenario, sensitivity)
    assert sums is not None
    if not real.feasible:
        return plan
    gains = path_gain(distance_metres, radio.path_loss_exponent, radio.unit_path_loss_db) ** 2
    sent_watts = received_watts / gains
    per_watt = joules_per_watt(scenario, Signal.of(scenario.workers, input_dim, label_dim), sensitivity)
    joules = per_watt * radio.slots * radio.scheduled * float(sent_watts.mean())
    real_noise = expected_noise(with_real_numbers(scenario)).total_watts / 2.0 / real.power_scale_watts
    better_db = float(ratio_to_db(real_noise / sums.mixture_variance))
    design = planned_design(scenario, sensitivity, received_watts=received_watts)
    privacy = scenario.privacy
    target = f"epsilon = {privacy.epsilon:g} by {privacy.accountant} against {privacy.adversary}"
    return _like(
        plan,
        verdict=f"{target} is met by {design.fact(facts.WorkersNoise).by}, whatever anybody receives",
        noise_multiplier=design.noise_multiplier(privacy.adjacency),
        received_watts=received_watts,
        power_scale_watts=received_watts * radio.scheduled**2,
        power_dbm=TransmitPower(
            median=float(watts_to_dbm(np.median(sent_watts))),
            largest=float(watts_to_dbm(sent_watts.max())),
            limit=radio.max_power_dbm,
        ),
        energy_joules=joules,
        worker_energy_joules=joules / scenario.workers.count,
        limited_share=0.0,
        snr_inputs_db=real.snr_inputs_db + better_db,
        contrast_db=real.contrast_db + better_db,
        snr_labels_db=real.snr_labels_db + better_db,
        masks=None,
        integers=sums.to_dict(),
        row=real.row and replace(real.row, statements=tuple(row_statements(scenario, design, real.row.copies))),
    )


def _like(plan: PlanT, **changes: Any) -> PlanT:
    made: Any = plan
    changed: PlanT = replace(made, **changes)
    return changed
