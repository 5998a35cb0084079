"""Sizing before anything is sent: is the privacy target feasible, what does it cost, and which design serves it best.

The paper's Remark 1 says that less noise or a stricter target means less power, and its Remark 2 that a larger alpha
gives a better signal at a strict target. Here both are computed: for many alpha, |N_t| and T, at the same privacy.
No data is read, but for public tables that are known by name; of the inputs only a mean and a deviation are assumed.
"""

import math
from dataclasses import asdict, dataclass, field, replace
from operator import truediv
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Doubles
from airmixml.errors import AirMixError, PrivacyError, ScenarioError
from airmixml.notebook import html_facts
from airmixml.output.numbers import joules
from airmixml.planning.learning_noise import DesignScorer
from airmixml.planning.mask_plan import MaskPlan, plan_masks
from airmixml.planning.recommend import Recommendation, changed_keys, recommend
from airmixml.planning.sizing import FramePlan, Sizing
from airmixml.planning.slot_designs import (
    ExpectedSignal,
    InputMoments,
    Option,
    best_options,
    energy_joules,
    other_designs,
    snr_db,
)
from airmixml.privacy import Design, facts, state_privacy
from airmixml.progress import Progress, silent
from airmixml.radio.centring import CentringSlot, plan_centring, with_centring
from airmixml.radio.draws import AirSetting, draw_slots, slots_of_rounds
from airmixml.radio.expected_noise import expected_noise
from airmixml.radio.power import TransmitPower, largest_shares
from airmixml.radio.power_calibration import private_received_watts, slots_target
from airmixml.radio.row_privacy import RowPrivacy, plan_row_privacy, row_statements
from airmixml.radio.scheduling import nobody_sent
from airmixml.radio.system import System, adversary_named, planned_design
from airmixml.radio.tally import Tally, placed_distances, rehearse
from airmixml.registries import ADVERSARIES
from airmixml.scenario import Air, Scenario, keys_in_force
from airmixml.scenario.air_words import titled
from airmixml.units import ratio_to_db, watts_to_dbm
from airmixml.workers import encoded_dim, encoder_of
from airmixml.workers.population import planned_holding

_REHEARSED_SLOTS: Final = 2048
REHEARSED_ROUNDS: Final = 4  # of which each stands for as many
_MOST_SLOTS_DRAWN: Final = 1000


@dataclass(frozen=True, kw_only=True)
class Needed:
    """How much of one quantity the wanted accuracy takes, all others as planned."""

    quantity: str  # workers, epsilon or rounds
    planned: float  # what the recommended design has
    value: float | None  # at which the mean reaches the accuracy; None: at no value tried
    earliest: float | None  # at which the first table reaches it
    latest: float | None  # at which the last one does; None: some never do
    reached: int  # how many tables reach it at some value
    tables: int
    least: float  # the smallest value tried: where ``value`` is that, less may do
    most: float  # the largest value tried
    accuracy_at_most: float  # the mean there
    error_at_most: float  # how much that mean may err by chance


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a scenario asks of its workers, whether that can be had, and what would serve it better."""

    name: str
    air: Air = field(default_factory=Air)
    feasible: bool  # whether some power meets the target
    verdict: str  # why or why not, in words, and what to do
    noise_multiplier: float = math.nan  # noise deviation over the sensitivity of one worker, in the strongest slot
    received_watts: float = math.nan  # beta max q^2 there; of every slot that the power limit does not lower
    power_scale_watts: float = math.nan  # median beta
    power_dbm: TransmitPower | None = None
    # Expected, of all workers together. With fading rare deep fades spend most of it, so that a rehearsal says no more
    # than its order of magnitude.
    energy_joules: float = math.nan
    worker_energy_joules: float = math.nan  # expected, of one worker
    attenuation_db: float = math.nan  # of the median worker that sends, whose transmitter cannot send as softly itself
    limited_share: float = math.nan  # share of the rehearsed slots in which the power limit lowered beta
    snr_inputs_db: float = math.nan  # expected, of the inputs of a mixture, or of their products (``ExpectedSignal``)
    contrast_db: float = math.nan  # expected SNR of what differs between samples; of samples alone
    snr_labels_db: float = math.nan  # expected, of the labels of a mixture, for balanced classes
    options: tuple[Option, ...] = ()  # designs at the same privacy
    best: dict[str, Option] | None = None  # names of goals to the options that serve them best
    recommended: Recommendation | None = None  # for a learner in closed form, what to send instead
    frame: FramePlan | None = None  # what an air that is not ideal makes of a slot
    rounds: dict[str, Any] | None = None  # what rounds take, and the uplink symbols of slots and rounds together
    masks: MaskPlan | None = None  # what workers add to hide themselves, where they do
    integers: dict[str, Any] | None = None  # step, bits and noise, where workers send integers
    link: dict[str, Any] | None = None  # what a digital link takes
    air_seconds: float = math.nan  # of all slots and rounds, where workers send integers
    row: RowPrivacy | None = None  # of a row of the data, where that is not what one worker holds alone
    receiver: str = ""  # what the target assumes of the adversary's receiver, in words
    if_better: dict[str, float | None] = field(default_factory=dict)  # epsilon if that is better
    wanted_accuracy: float = math.nan  # where it was asked what an accuracy takes
    needed: tuple[Needed, ...] | None = None  # the answers (``planning/needed.py``)

    def _repr_html_(self) -> str:
        facts = {"feasible": "yes" if self.feasible else "no", "verdict": self.verdict}
        if self.power_dbm is not None:
            facts |= {
                "noise multiplier": f"{self.noise_multiplier:.4g}",
                "power": f"{self.power_dbm.median:.1f} dBm median, {self.power_dbm.largest:.1f} largest",
                "energy": f"{joules(self.energy_joules)} in total",
                "SNR": f"{self.snr_inputs_db:.1f} dB inputs, {self.snr_labels_db:.1f} dB labels (median slot)",
            }
        return html_facts(f"Plan of {self.title}", facts)

    @property
    def title(self) -> str:
        """Its name, with the air where that is not the ideal one."""
        return titled(self.name, self.air)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values for JSON; what an infeasible target leaves unknown is left out."""
        plain = {
            **asdict(self),
            "air": keys_in_force(self.air),
            "recommended": self.recommended and self.recommended.to_dict(),
            "masks": self.masks and self.masks.to_dict(),
            "row": None,
            **({} if self.row is None else self.row.to_dict()),
        }
        return {
            name: value
            for name, value in plain.items()
            if value not in (None, "", {}) and not (isinstance(value, float) and math.isnan(value))
        }


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
        alternatives: also look for better designs, which takes most of the time.
        named: whether the data are those that the scenario names; a public table is then read to check what is better.
        progress: told how many options were tried.
    """
    given, scenario = scenario, replace(scenario, mixing=replace(scenario.mixing, power="dp"))
    sizing, dimensions = Sizing(scenario, input_dim, label_dim), (input_dim, label_dim)
    if not scenario.privacy.noise_kind.real:
        how: dict[str, Any] = {"held_dim": held_dim, "max_air_seconds": max_air_seconds, "alternatives": alternatives}
        how |= {"named": named}
        real = make_plan(_with_real_numbers(scenario), input_dim, label_dim, moments, **how, progress=progress)
        return _with_integers(real, sizing, held_dim)
    sensitivity = sizing.system.sensitivity
    try:
        received_watts = private_received_watts(scenario, sensitivity)
        setting = AirSetting.of(scenario, input_dim, label_dim, sizing.distance_metres)
    except PrivacyError as problem:
        return Plan(name=scenario.name, air=scenario.air, feasible=False, verdict=str(problem))
    expected = ExpectedSignal.of(scenario.workers, sizing.system.signal, moments)
    raw_moments, moments = moments, moments.encoded(scenario.workers, input_dim)
    drawn = draw_slots(setting, range(scenario.radio.slots)[:_REHEARSED_SLOTS])
    draws = drawn.numpy()
    round_joules, round_watts, round_limited = _in_rounds(sizing)
    joules = energy_joules(sizing, draws.power_watts.sum(axis=1)) + round_joules + sizing.system.acquisition_joules
    averaged = input_dim - (1 if scenario.workers.constant else 0)
    mean_slot = plan_centring(scenario, averaged, sizing.distance_metres)
    joules += 0.0 if mean_slot is None else float(mean_slot.energy_joules.sum())
    # Of noise and masks, which are the same in every symbol, powers are told as radiated on average over a slot.
    told = setting.radiated_share if scenario.privacy.noise_kind.brought else 1.0
    mean_watts = np.zeros(0) if mean_slot is None else mean_slot.power_watts
    sending = np.concatenate([told * draws.power_watts[draws.ratios > 0.0], round_watts, mean_watts])
    if not len(sending):
        raise ScenarioError(nobody_sent(scenario))
    # Signal per slot says little of moments; and coins leave no shares to choose.
    shares_count = alternatives and scenario.workers.sends == "samples" and not scenario.radio.schedule_kind.by_coin
    options = other_designs(sizing, moments, progress) if shares_count else ()
    recommended = None
    if alternatives and scenario.learner.closed_form:
        # Of ||x||^2 the bound is assumed, or what differs between scaled samples.
        bounded = encoder_of(scenario.workers).bounds_norm
        squared_norm = scenario.workers.clip_norm**2 if bounded else input_dim * moments.deviation**2
        scorer = DesignScorer(given, input_dim, label_dim, squared_norm)
        recommended = recommend(scorer, max_air_seconds=max_air_seconds, progress=progress)
        if recommended is not None and held_dim is not None:
            held = held_dim, label_dim, raw_moments
            recommended = _with_searched_design(recommended, given, *held, progress, named=named)
        elif recommended is not None:
            recommended = _with_image_design(recommended, given, dimensions)
    limited_share, beta = float(np.concatenate([draws.limited, round_limited]).mean()), draws.power_scale_watts
    strongest_watts = received_watts
    if draws.limited.all():  # then no slot is as loud as privacy would allow
        strongest_watts = float((drawn.power_scale_watts * largest_shares(scenario, drawn.ratios) ** 2).max())
    design = planned_design(scenario, sensitivity, received_watts=received_watts)
    strongest = replace(design, received_watts=tuple(each * strongest_watts for each in sizing.system.strengths))
    samples = scenario.workers.sends == "samples"
    # How long the sum of several rows is, and how large a target, follows from the data alone.
    single_rows = not scenario.workers.several_rows
    one_hot = single_rows and scenario.workers.task == "classification"
    return Plan(
        name=scenario.name,
        air=scenario.air,
        feasible=True,
        rounds=_about_rounds(sizing) if sizing.system.about_rounds else None,
        frame=sizing.frame(),
        masks=plan_masks(sizing, received_watts),
        verdict=_verdict(scenario, design, limited_share),
        **_receiver(scenario, design, mean_slot),
        noise_multiplier=strongest.noise_multiplier(scenario.privacy.adjacency),
        received_watts=strongest_watts,
        power_scale_watts=float(np.median(beta)),
        power_dbm=_power_dbm(scenario, sending),
        energy_joules=joules,
        worker_energy_joules=joules / scenario.workers.count,
        attenuation_db=_attenuation_db(scenario, setting.radiated_share * draws.power_watts[draws.ratios > 0.0]),
        limited_share=limited_share,
        snr_inputs_db=snr_db(scenario, beta, expected.of_inputs(draws.ratios)) if single_rows else math.nan,
        contrast_db=snr_db(scenario, beta, moments.contrast(draws.ratios)) if samples else math.nan,
        snr_labels_db=snr_db(scenario, beta, expected.of_labels(draws.ratios)) if one_hot else math.nan,
        options=options,
        best=best_options(options),
        recommended=recommended,
        row=plan_row_privacy(
            scenario,
            planned_holding(scenario),
            lambda copies: row_statements(scenario, design, copies, mean_slot),
        ),
    )


def with_own_power(
    plan: Plan, scenario: Scenario, dimensions: tuple[int, int], moments: InputMoments, sent: Tally
) -> Plan:
    """Return the plan with what the scenario's own power takes and brings in place of the planned one.

    Args:
        plan: whose power meets the target, whatever the scenario's own does.
        scenario: whose power policy keeps no target.
        dimensions: d_X and d_Y.
        moments: what is assumed of an input symbol.
        sent: the rehearsal of all slots with the scenario's own power.
    """
    setting = AirSetting.of(scenario, *dimensions, placed_distances(scenario))
    draws = draw_slots(setting, range(scenario.radio.slots)[:_REHEARSED_SLOTS]).numpy()
    expected = ExpectedSignal.of(scenario.workers, sent.system.signal, moments)
    beta, several_rows = draws.power_scale_watts, scenario.workers.several_rows
    one_hot = not several_rows and scenario.workers.task == "classification"
    return replace(
        plan,
        power_dbm=sent.transmit_power,
        energy_joules=sent.energy_joules,
        worker_energy_joules=sent.energy_joules / scenario.workers.count,
        noise_multiplier=sent.design.noise_multiplier(scenario.privacy.adjacency),
        limited_share=sent.limited_slots / scenario.slots_on_air,
        snr_inputs_db=math.nan if several_rows else snr_db(scenario, beta, expected.of_inputs(draws.ratios)),
        snr_labels_db=snr_db(scenario, beta, expected.of_labels(draws.ratios)) if one_hot else math.nan,
    )


def _with_searched_design(
    found: Recommendation,
    scenario: Scenario,
    held_dim: int,
    label_dim: int,
    moments: InputMoments,
    progress: Progress,
    *,
    named: bool,
) -> Recommendation:
    """Return the recommendation with the learner and the encoder that do best on synthetic tables, where they apply."""
    weight = scenario.workers.label_weight
    aired = found.best.sending.applied_to(scenario)
    aired = replace(aired, workers=replace(aired.workers, label_weight=weight))
    from airmixml.planning.design_search import is_searched, search_designs  # here: other plans need no learner

    own_dim = encoded_dim(scenario.workers, held_dim)
    if not is_searched(aired):
        best = found.best.sending.applied_to(scenario)
        more = scenario.learner.rounds or scenario.workers.centre_on_air  # than the slots that were scored
        few = max(aired.radio.slots, scenario.radio.slots) <= _MOST_SLOTS_DRAWN
        return _with_costs(found, scenario, best, (own_dim, label_dim)) if more and few else found
    search = search_designs(aired, held_dim, label_dim, moments, progress, max_air_seconds=found.max_air_seconds)
    if named:
        from airmixml.planning.public_trial import checked_on_public_rows

        search = checked_on_public_rows(search, aired, held_dim, label_dim, moments)
    best = search.best.design.applied_to(aired)
    sending = replace(found.best.sending, label_weight=best.workers.label_weight)
    found = replace(found, rehearsal=search, best=replace(found.best, sending=sending))
    found = replace(found, overrides=changed_keys(scenario, best))
    if aired.radio.slots > _MOST_SLOTS_DRAWN:
        return found
    # With the slot for the mean, and as many symbols as the encoder makes.
    best_dim = encoded_dim(best.workers, held_dim)
    return _with_costs(found, scenario, best, (best_dim, label_dim), own_dim)


def _with_image_design(found: Recommendation, scenario: Scenario, dimensions: tuple[int, int]) -> Recommendation:
    """Return the recommendation with the features and rounds that were best on public images, where they apply."""
    from airmixml.planning.image_designs import search_image_designs

    aired = found.best.sending.applied_to(scenario)
    aired = replace(aired, workers=replace(aired.workers, label_weight=scenario.workers.label_weight))
    search = search_image_designs(aired, dimensions, max_air_seconds=found.max_air_seconds)
    if search is None:
        best = found.best.sending.applied_to(scenario)
        return _with_costs(found, scenario, best, dimensions) if scenario.learner.rounds else found
    best = search.best.design.applied_to(aired)
    sending = replace(found.best.sending, label_weight=best.workers.label_weight)
    found = replace(found, rehearsal=search, best=replace(found.best, sending=sending))
    found = replace(found, overrides=changed_keys(scenario, best))
    constant = int(scenario.workers.constant > 0.0)
    best_dim = search.best.design.features + constant if search.best.design.features else dimensions[0]
    return _with_costs(found, scenario, best, (best_dim, dimensions[1]), own_dim=dimensions[0])


def _with_costs(
    found: Recommendation, own: Scenario, best: Scenario, dimensions: tuple[int, int], own_dim: int = 0
) -> Recommendation:
    """Return it with time on the air and energy of all slots and rounds, by drawing them without data.

    ``dimensions`` are those of the best one's encoded inputs and of labels; ``own_dim`` are the scenario's own inputs,
    where they are others.
    """
    costs = [rehearse(own, own_dim or dimensions[0], dimensions[1]), rehearse(best, *dimensions)]
    first, second = (
        replace(
            option, air_seconds=cost.air_seconds, energy_joules=cost.energy_joules, rounds=cost.scenario.learner.rounds
        )
        for option, cost in zip((found.own, found.best), costs, strict=True)
    )
    return replace(found, own=first, best=second)


def _in_rounds(sizing: Sizing) -> tuple[float, Doubles, NDArray[np.bool_]]:
    """Return what all workers spend in all rounds, the powers of those who send, and which of some were limited."""
    scenario, system, joules = sizing.scenario, sizing.system, 0.0
    watts, limited = np.zeros(0), np.zeros(0, dtype=np.bool_)
    if system.rounds:
        setting = AirSetting.of_rounds(scenario, sizing.input_dim, sizing.label_dim, sizing.distance_metres)
        draws = draw_slots(setting, slots_of_rounds(scenario)[:REHEARSED_ROUNDS]).numpy()
        joules = system.rounds * setting.joules_per_watt * float(draws.power_watts.sum(axis=1).mean())
        told = setting.radiated_share if scenario.privacy.noise_kind.brought else 1.0
        watts = np.tile(told * draws.power_watts[draws.ratios > 0.0], -(-system.rounds // len(draws)))
        limited = np.repeat(draws.limited, -(-system.rounds // len(draws)))
    return joules, watts, limited


def _about_rounds(sizing: Sizing) -> dict[str, Any]:
    """Return what rounds take, beside the symbols of a slot and of all together."""
    system, scenario = sizing.system, sizing.scenario
    averaged = system.signal.features - (scenario.workers.constant > 0.0) if scenario.workers.centre_on_air else 0
    symbols = {"symbols_per_slot": system.symbols_on_air, "uplink_symbols": system.uplink_symbols + averaged}
    reachable = scenario.slots_on_air + scenario.workers.centre_on_air
    return {**system.about_rounds, **symbols, "reachable": reachable}


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


def _with_integers(real: Plan, sizing: Sizing, held_dim: int | None) -> Plan:
    """Return the plan of a scenario of integers from that of the same scenario with real numbers.

    What to send is recommended as for real numbers, from which the noise of enough bits differs by 1 %.
    """
    scenario, system, sensitivity = sizing.scenario, sizing.system, sizing.system.sensitivity
    radio, privacy = scenario.radio, scenario.privacy
    real = replace(real, air=scenario.air)
    try:
        received_watts = private_received_watts(scenario, sensitivity, sizing.distance_metres)
    except PrivacyError as problem:
        return replace(real, feasible=False, verdict=str(problem), masks=None, recommended=None)
    sums = scenario.privacy.noise_kind.sums(scenario, sensitivity)
    assert sums is not None
    if not real.feasible:
        return real
    sent_watts = system.link.planned_watts(scenario, received_watts, sizing.path_gain**2)
    joules = _joules_of_integers(system, sizing.path_gain**2)
    joules += sizing.system.acquisition_joules
    real_noise = expected_noise(_with_real_numbers(scenario)).total_watts / 2.0 / real.power_scale_watts
    present = (1.0 - scenario.met.air.absent) * (1.0 - system.link.lost_share(system))
    better_db = float(ratio_to_db(real_noise / (sums.mixture_variance / present)))
    design = planned_design(scenario, sensitivity, received_watts=received_watts)
    return replace(
        real,
        verdict=_verdict(scenario, design, 0.0),
        noise_multiplier=design.noise_multiplier(privacy.adjacency),
        received_watts=received_watts if system.link.on_air else math.nan,
        power_scale_watts=received_watts * radio.scheduled**2 if system.link.on_air else math.nan,
        power_dbm=_power_dbm(scenario, sent_watts),
        energy_joules=joules,
        worker_energy_joules=joules / scenario.workers.count,
        limited_share=0.0,
        snr_inputs_db=real.snr_inputs_db + better_db,
        contrast_db=real.contrast_db + better_db,
        snr_labels_db=real.snr_labels_db + better_db,
        masks=None,
        integers=sums.to_dict(),
        link=system.link.to_dict(system),
        air_seconds=system.air_seconds,
        rounds=_about_rounds(sizing) if system.rounds else None,
        recommended=real.recommended and _on_link(real.recommended, sizing, held_dim),
        row=real.row and replace(real.row, statements=tuple(row_statements(scenario, design, real.row.copies))),
    )


def _receiver(scenario: Scenario, design: Design, mean_slot: CentringSlot | None) -> dict[str, Any]:
    """Return what the target assumes of its adversary's receiver, and epsilon if that is better."""
    privacy = scenario.privacy
    stated = state_privacy(
        design,
        adversary_named(privacy.adversary, scenario),
        privacy.accountant,
        adjacency=privacy.adjacency,
        delta=slots_target(scenario)[1],
        target_epsilon=privacy.epsilon,
    )
    stated = with_centring(stated, mean_slot)
    return {"receiver": stated.receiver_in_words, "if_better": stated.if_better}


def _joules_of_integers(system: System, power_gain: Doubles) -> float:
    """Return what all workers, whose channels have these power gains, spend in all slots and rounds."""
    spent, radio = 0.0, system.scenario.radio
    for each, slots in ((system, radio.slots), *([(system.of_rounds, system.rounds)] if system.rounds else [])):
        assert each.integers is not None
        watts = system.link.planned_watts(system.scenario, each.integers.received_watts, power_gain)
        spent += each.joules_per_watt * slots * radio.scheduled * float(watts.mean())
    return spent


def _on_link(found: Recommendation, sizing: Sizing, held_dim: int | None) -> Recommendation | None:
    """Return a recommendation with time and energy of integers on their link; None where they take too long."""
    costs = []
    try:
        for scenario in (sizing.scenario, sizing.scenario.with_overrides(*found.overrides)):
            dimension = sizing.input_dim if held_dim is None else encoded_dim(scenario.workers, held_dim)
            system = System.of(scenario, dimension, sizing.label_dim)
            costs.append((system.air_seconds, _joules_of_integers(system, sizing.path_gain**2)))
    except AirMixError:  # what suits real numbers may not suit integers
        return None
    (own_seconds, _), (best_seconds, _) = costs
    if best_seconds > max(own_seconds, found.max_air_seconds):
        return None
    own, best = (
        replace(option, air_seconds=seconds, energy_joules=spent)
        for option, (seconds, spent) in zip((found.own, found.best), costs, strict=True)
    )
    return replace(found, own=own, best=best)


def _verdict(scenario: Scenario, design: Design, limited_share: float) -> str:
    """Return how the target is met, in words."""
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
        return f"{target} is met; even the farthest worker stays {margin_db:.0f} dB below its power limit"
    lowered = f"lowers the power in {limited_share:.1%} of the slots"
    limit = f"the power limit {lowered if limited_share else 'may lower the power of a slot'}, which"
    if ADVERSARIES.load(privacy.adversary).knows_schedule:
        return f"{target} is met; {limit} only adds privacy"
    return f"{target} is met, but without credit for sampling: {limit} reveals who was scheduled"
