"""Sizing before anything is sent: is the privacy target feasible, what does it cost, and which design serves it best.

The paper's Remark 1 says that less noise or a stricter target means less power, and its Remark 2 that a larger alpha
gives a better signal at a strict target: plans of scenarios that differ in these say by how much. No data is read, but
for public tables that are known by name; of the inputs only a mean and a deviation are assumed.
"""

from __future__ import annotations

import math
from dataclasses import replace
from operator import truediv
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.arrays import Doubles, ratio_to_db, watts_to_dbm
from airmixml.messages import AirMixError, PrivacyError, ScenarioError
from airmixml.planning.account import state_slots
from airmixml.planning.known_inputs import InputMoments, KnownInputs
from airmixml.planning.multipliers import noise_multipliers
from airmixml.planning.planned import Plan, Recommendation, changed_keys, sent_at_once
from airmixml.planning.sizing import ExpectedSignal, Sizing, plan_masks
from airmixml.privacy import Design, facts
from airmixml.progress import Progress, silent
from airmixml.radio.air import air_of, expected_noise
from airmixml.radio.centring import CentringSlot, averaged_numbers, plan_centring
from airmixml.radio.draws import AirSetting, draw_slots, slots_of_rounds
from airmixml.radio.learnable import check_learnable
from airmixml.radio.mixing import TransmitPower
from airmixml.radio.privacy_target import (
    plan_row_privacy,
    private_received_watts,
    row_statements,
    target_question,
)
from airmixml.radio.slot_totals import DecibelHistogram
from airmixml.radio.system import planned_design
from airmixml.registries import ADVERSARIES
from airmixml.scenario import Air, Scenario
from airmixml.workers import encoded_dim
from airmixml.workers.population import planned_holding

_REHEARSED_SLOTS: Final = 2048
REHEARSED_ROUNDS: Final = 4  # of which each stands for as many
_LONGEST_SECONDS: Final = 3600.0  # on the air, where nothing else is asked for


def make_plan(
    scenario: Scenario,
    input_dim: int,
    label_dim: int,
    moments: InputMoments,
    *,
    held_dim: int | None = None,
    max_air_seconds: float | None = None,
    alternatives: bool = True,
    named: bool = True,
    progress: Progress = silent,
) -> Plan:
    """Return the plan of a scenario.

    Args:
        scenario: its privacy target sets the power, whatever ``mixing.power`` says.
        input_dim: d_X.
        label_dim: d_Y.
        moments: what is assumed of an input symbol.
        held_dim: columns of a table before they are encoded; None where inputs are no rows of a table.
        max_air_seconds: most time on the air that may be recommended; None takes an hour or the scenario's own.
        alternatives: also look for a better design for a closed-form learner, which takes most of the time.
        named: whether the data are those that the scenario names; a public table is then read to check what is better.
        progress: told how many tables or splits were tried.
    """
    aired = replace(scenario, mixing=replace(scenario.mixing, power="dp"))
    known = KnownInputs((input_dim, label_dim), moments, held_dim, named)
    sizing = Sizing(aired, known)
    plan = _costs(sizing)
    try:
        if plan.feasible:
            check_learnable(AirSetting.of(aired, *known.dimensions, sizing.distance_metres))
    except ScenarioError as problem:
        plan = replace(plan, feasible=False, verdict=str(problem))
    if not (alternatives and plan.feasible and scenario.learner.closed_form):
        return plan
    from airmixml.planning.trials import trial_of  # here: other plans need no learner

    # What to send is searched as for real numbers, from which the noise of enough bits differs by 1 %.
    given = scenario if scenario.privacy.noise_kind.real else _with_real_numbers(scenario)
    limit = max(plan.air_seconds, _LONGEST_SECONDS) if max_air_seconds is None else max_air_seconds
    try:
        sent = sent_at_once(given)
    except ScenarioError as problem:
        return replace(plan, note=f"kept: workers cannot all send moments in one slot: {problem}")
    trial = trial_of(sent, known, progress)
    search = None if trial is None else trial.search(limit)
    best_dim = input_dim
    if search is not None:
        design = search.best.design
        sent = design.applied_to(sent)
        best_dim = design.features + int(given.workers.constant > 0.0) if design.features else input_dim
    elif given.workers.task == "classification":
        # No quieter label was better in benchmarks/check_plan.py, whatever the target.
        sent = replace(sent, workers=replace(sent.workers, label_weight=1.0))
    if held_dim is not None:
        best_dim = encoded_dim(sent.workers, held_dim)
    overrides, instead = changed_keys(given, sent), plan
    if overrides:
        how: dict[str, Any] = {"held_dim": held_dim, "alternatives": False, "named": named}
        try:
            instead = make_plan(scenario.with_overrides(*overrides), best_dim, label_dim, moments, **how)
        except AirMixError as problem:  # what suits real numbers may not suit integers
            return replace(plan, note=f"kept: {problem}")
    if not instead.feasible or (overrides and instead.air_seconds > limit):
        why = "that is longer on the air than --max-air-seconds" if instead.feasible else instead.verdict
        return replace(plan, note=f"kept: all workers could send moments in one slot, but {why}")
    found = Recommendation(overrides=overrides, max_air_seconds=limit, rehearsal=search)
    return replace(plan, recommended=found, of_recommended=None if instead is plan else instead)


def _costs(sizing: Sizing) -> Plan:
    """Return what a design takes and brings, without others."""
    scenario, known = sizing.scenario, sizing.known
    if not scenario.privacy.noise_kind.real:
        return _with_integers(_costs(replace(sizing, scenario=_with_real_numbers(scenario))), sizing)
    sensitivity = sizing.system.sensitivity
    try:
        received_watts = private_received_watts(scenario, sensitivity)
        setting = AirSetting.of(scenario, *known.dimensions, sizing.distance_metres)
    except PrivacyError as problem:
        return Plan(name=scenario.name, air=scenario.air, feasible=False, verdict=str(problem))
    drawn = draw_slots(setting, range(scenario.radio.slots)[:_REHEARSED_SLOTS])
    draws = drawn.numpy()
    round_joules, round_watts, round_limited = _in_rounds(sizing)
    slot_joules = sizing.system.joules_per_watt * float(draws.power_watts.sum(axis=1).mean())
    joules = scenario.radio.slots * slot_joules + round_joules + sizing.system.acquisition_joules
    averaged = averaged_numbers(scenario.workers, known.dimensions[0], known.held_dim)
    mean_slot = plan_centring(scenario, averaged, sizing.distance_metres)
    joules += 0.0 if mean_slot is None else float(mean_slot.energy_joules.sum())
    # Of noise and masks, which are the same in every symbol, powers are told as radiated on average over a slot.
    told = setting.radiated_share if scenario.privacy.noise_kind.brought else 1.0
    mean_watts = np.zeros(0) if mean_slot is None else mean_slot.power_watts
    sending = np.concatenate([told * draws.power_watts[draws.ratios > 0.0], round_watts, mean_watts])
    if not len(sending):
        raise ScenarioError(air_of(scenario).nobody_sent)
    limited_share, beta = float(np.concatenate([draws.limited, round_limited]).mean()), draws.power_scale_watts
    strongest_watts = received_watts
    if draws.limited.all():  # then no slot is as loud as privacy would allow
        shares = scenario.radio.schedule_kind.largest_shares(scenario, drawn.ratios)
        strongest_watts = float((drawn.power_scale_watts * shares**2).max())
    design = planned_design(scenario, sensitivity, received_watts=received_watts)
    strongest = replace(design, received_watts=tuple(each * strongest_watts for each in sizing.system.strengths))
    power_dbm = _power_dbm(scenario, sending)
    privacy, asked = scenario.privacy, target_question(scenario)
    stated = state_slots(asked, design, mean_slot, better=True)
    return Plan(
        name=scenario.name,
        air=scenario.air,
        dimensions=known.dimensions,
        feasible=True,
        rounds=sizing.system.about_rounds or None,
        uplink=_uplink(sizing, mean_slot),
        air_seconds=sizing.system.air_seconds + (0.0 if mean_slot is None else mean_slot.seconds),
        frame=sizing.frame(),
        masks=plan_masks(sizing, received_watts),
        verdict=_verdict(scenario, design, limited_share, power_dbm),
        receiver=stated.receiver_in_words,
        if_better=stated.if_better,
        withstands=stated.withstands,
        if_withstood=stated.if_withstood,
        noise_multipliers=noise_multipliers(strongest, privacy.adjacency, asked.delta, sizing.system.rounds),
        received_watts=strongest_watts,
        power_scale_watts=float(np.median(beta)),
        power_dbm=power_dbm,
        energy_joules=joules,
        worker_energy_joules=joules / scenario.workers.count,
        attenuation_db=_attenuation_db(scenario, setting.radiated_share * draws.power_watts[draws.ratios > 0.0]),
        limited_share=limited_share,
        **_signal(sizing, beta, draws.ratios),
        row=plan_row_privacy(
            scenario,
            planned_holding(scenario),
            lambda copies: row_statements(scenario, design, copies, mean_slot),
        ),
    )


def _signal(sizing: Sizing, power_scale_watts: Doubles, ratios: Doubles) -> dict[str, Any]:
    """Return the SNR of slots with these beta and ratios; what follows from the data alone is left out."""
    scenario, workers = sizing.scenario, sizing.scenario.workers
    public = ExpectedSignal.of_public(scenario) if sizing.known.named else None
    expected = public or ExpectedSignal.of(workers, sizing.system.signal, sizing.known.moments)
    found: dict[str, Any] = {"snr_is_least": (public is None and workers.sends == "moments") or None}
    if workers.several_rows:  # how long the sum of several rows is, and how large a target, nobody knows before
        return found
    for name, energies in (("snr_inputs_db", expected.inputs), ("snr_labels_db", expected.labels)):
        if energies is expected.inputs or workers.task == "classification":
            slots = DecibelHistogram()  # steps of 0.1 dB, in which a run counts its slots
            ratio = 2.0 * power_scale_watts / expected_noise(scenario).total_watts
            slots.add(torch.from_numpy(ratio * expected.mixed(ratios, energies)))
            found[name] = slots.quantile_db(0.5)
    return found


def _in_rounds(sizing: Sizing) -> tuple[float, Doubles, NDArray[np.bool_]]:
    """Return what all workers spend in all rounds, the powers of those who send, and which of some were limited."""
    scenario, rounds = sizing.scenario, sizing.system.rounds
    if not rounds:
        return 0.0, np.zeros(0), np.zeros(0, dtype=np.bool_)
    setting = AirSetting.of(scenario, *sizing.known.dimensions, sizing.distance_metres, in_rounds=True)
    draws = draw_slots(setting, slots_of_rounds(scenario)[:REHEARSED_ROUNDS]).numpy()
    told, times = setting.radiated_share if scenario.privacy.noise_kind.brought else 1.0, -(-rounds // len(draws))
    joules = rounds * setting.joules_per_watt * float(draws.power_watts.sum(axis=1).mean())
    return joules, np.tile(told * draws.power_watts[draws.ratios > 0.0], times), np.repeat(draws.limited, times)


def _uplink(sizing: Sizing, mean_slot: CentringSlot | None = None) -> dict[str, int]:
    """Return the symbols for the mean, of each other slot and of all with rounds, and how often workers send."""
    averaged = 0 if mean_slot is None else mean_slot.features
    return {
        "symbols_for_mean": averaged,
        "symbols_per_slot": sizing.system.symbols_on_air,
        "uplink_symbols": sizing.system.uplink_symbols + averaged,
        "reachable": sizing.scenario.slots_on_air + (mean_slot is not None),
    }


def _power_dbm(scenario: Scenario, sent_watts: Doubles) -> TransmitPower:
    return TransmitPower(
        median=float(watts_to_dbm(np.median(sent_watts))),
        largest=float(watts_to_dbm(sent_watts.max())),
        limit=scenario.radio.max_power_dbm,
    )


def _attenuation_db(scenario: Scenario, radiated_watts: Doubles) -> float:
    """Return how far below ``air.min_power_dbm`` the median worker sends on average over a slot; nan: not below it."""
    if math.isinf(scenario.air.min_power_dbm) or not len(radiated_watts):
        return math.nan
    below = scenario.air.min_power_dbm - float(watts_to_dbm(np.median(radiated_watts)))
    return below if below > 0.0 else math.nan


def _with_real_numbers(scenario: Scenario) -> Scenario:
    """Return the same scenario whose workers send real numbers in Gaussian noise, on the ideal air."""
    return replace(
        scenario,
        radio=replace(scenario.met.radio, link="analog"),
        air=Air(),
        privacy=replace(scenario.privacy, arithmetic="real", modulus_bits=0, sum_range=0.0),
    )


def _with_integers(real: Plan, sizing: Sizing) -> Plan:
    """Return what a scenario of integers takes, from the same scenario with real numbers."""
    scenario, system, sensitivity = sizing.scenario, sizing.system, sizing.system.sensitivity
    radio, privacy = scenario.radio, scenario.privacy
    real = replace(real, air=scenario.air)
    try:
        received_watts = private_received_watts(scenario, sensitivity, sizing.distance_metres)
    except PrivacyError as problem:
        return replace(real, feasible=False, verdict=str(problem), masks=None)
    sums = scenario.privacy.noise_kind.sums(scenario, sensitivity)
    assert sums is not None
    if not real.feasible:
        return real
    sent_watts = system.link.planned_watts(scenario, received_watts, sizing.path_gain**2)
    joules = system.acquisition_joules
    for each, slots in ((system, radio.slots), *([(system.of_rounds, system.rounds)] if system.rounds else [])):
        assert each.integers is not None
        watts = system.link.planned_watts(system.scenario, each.integers.received_watts, sizing.path_gain**2)
        joules += each.joules_per_watt * slots * radio.scheduled * float(watts.mean())
    real_noise = expected_noise(_with_real_numbers(scenario)).total_watts / 2.0 / real.power_scale_watts
    present = (1.0 - scenario.met.air.absent) * (1.0 - system.link.lost_share(system))
    better_db = float(ratio_to_db(real_noise / (sums.mixture_variance / present)))
    design = planned_design(scenario, sensitivity, received_watts=received_watts)
    power_dbm = _power_dbm(scenario, sent_watts)
    return replace(
        real,
        verdict=_verdict(scenario, design, 0.0, power_dbm),
        noise_multipliers=noise_multipliers(design, privacy.adjacency, privacy.delta, system.rounds),
        received_watts=received_watts if system.link.on_air else math.nan,
        power_scale_watts=received_watts * radio.scheduled**2 if system.link.on_air else math.nan,
        power_dbm=power_dbm,
        energy_joules=joules,
        worker_energy_joules=joules / scenario.workers.count,
        limited_share=0.0,
        snr_inputs_db=real.snr_inputs_db + better_db,
        snr_labels_db=real.snr_labels_db + better_db,
        masks=None,
        if_withstood=target_question(scenario).if_withstood(design),
        integers=sums.to_dict(),
        link=system.link.to_dict(system),
        air_seconds=system.air_seconds,
        rounds=system.about_rounds if system.rounds else None,
        uplink=_uplink(sizing),
        row=real.row and replace(real.row, statements=tuple(row_statements(scenario, design, real.row.copies))),
    )


def _verdict(scenario: Scenario, design: Design, limited_share: float, power: TransmitPower) -> str:
    privacy = scenario.privacy
    target = f"epsilon = {privacy.epsilon:g} by {privacy.accountant} against {privacy.adversary}"
    if privacy.noise_kind.brought:
        return f"{target} is met by {design.fact(facts.WorkersNoise).by}, whatever anybody receives"
    sent, bounds = design.fact(facts.Transmitters), design.fact(facts.ImperfectAir).of_kinds(len(design.counts))
    if sent.weakest_gain > 0.0 and not design.says(facts.PowerTells):
        margin_db = 10.0 * math.log10(
            sent.limit_watts * sent.weakest_gain / max(map(truediv, design.received_watts, bounds))
        )
        if margin_db < 1e-6:
            return f"{target} is met with less power than it allows: more would reach the limit and reveal the schedule"
        below_db = round(power.limit, 1) - round(power.largest, 1)  # as both are shown
        return f"{target} is met; the largest power is {below_db:.1f} dB below the limit"
    lowered = f"lowers the power in {limited_share:.1%} of the slots"
    limit = f"the power limit {lowered if limited_share else 'may lower the power of a slot'}, which"
    if ADVERSARIES.load(privacy.adversary).knows_schedule:
        return f"{target} is met; {limit} only adds privacy"
    return f"{target} is met, but without credit for sampling: {limit} reveals who was scheduled"
