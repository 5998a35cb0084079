"""The noise and the masks that a scenario's workers add to what they send: how much of each, and what that hides.

All are variances of a real symbol, in watts as received from a worker whose gain is as planned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from airmixml.arrays import db_to_ratio, dbm_to_watts, ratio_to_db, torch
from airmixml.impairments.fading import silent_share, weakest_gain
from airmixml.masks import rules
from airmixml.masks.graph import (
    MOST_ROUNDS,
    NEIGHBOURS_FAILURE,
    Honest,
    MaskGraph,
    connected_degree,
    draw_graph,
    who_is_left,
)
from airmixml.messages import PrivacyError, ScenarioError
from airmixml.privacy.design import binomial_quantile
from airmixml.radio.air import air_of
from airmixml.scenario import Privacy, Scenario
from airmixml.streams import Secret, Streams

_LEAST_MASK_SHARE, _MOST_MASK_SHARE = 0.1, 0.999
_ROUNDING: Final = 1e-9
_SETTLED_DIGITS: Final = 6
_SEED_BYTES: Final = 32
_HEARS_THE_SUM: Final = ("server", "release")
_ENOUGH_IN_SUM: Final = 100.0  # times the receiver's noise, which then matters to nobody
_MORE_ABSENT: Final = 1e-6  # probability with which more are absent in some slot than ``enough_absent`` allows for
_STEPS: Final = 100
COLLUDING_SHARE: Final = 0.01
"""Of delta: the probability with which more colluders than assumed, as many as a design withstands, expose a worker."""
_CONVERTER_RANGE: Final = 6.0  # deviations of what it adds to which a worker's converter reaches
_HEADROOM_DB: Final = 10.0  # of the farthest worker's mean power: noise has peaks


@dataclass(frozen=True, kw_only=True, eq=False)
class Masking:
    """What each worker of a slot adds to its own vector."""

    own_watts: float = 1.0  # s^2, of its own noise, new in every symbol and never revealed
    pair_watts: float = 0.0  # e^2, of each mask that it shares with a neighbour
    self_watts: float = 0.0  # of its self mask, revealed unless it is called absent; 0 where nothing is recovered
    graph: MaskGraph | None  # who shares masks with whom; None without masks
    honest: Honest  # who is left of a slot without colluders and absent workers

    @property
    def added_watts(self) -> float:
        """Of all that a worker adds."""
        masks = 0.0 if self.graph is None else self.graph.degree * self.pair_watts
        return self.own_watts + masks + self.self_watts

    def rounded_watts(self, bits: int) -> float:
        """Return that of what a converter of so many bits makes of all that a worker adds; 0 where there is none."""
        if not bits:
            return 0.0
        from airmixml.impairments.hardware import gaussian_rounding  # here: it needs torch

        return self.added_watts * gaussian_rounding(bits, _CONVERTER_RANGE).error_variance

    @property
    def hidden_watts(self) -> float:
        """1 / (S^-1)_ii: of the noise that hides a worker from somebody who hears all workers separately."""
        return (1.0 - _ROUNDING) / self.honest.inverse(self.own_watts, self.pair_watts)

    @property
    def in_words(self) -> str:
        if self.graph is None:
            return "its own noise"
        among = f"{self.honest.count:,} honest workers"
        masks = f"masks shared with at least {self.honest.neighbours:,} of them"
        return f"the noise of {among} and {masks}{self.honest.assumption}"


def masking_of(scenario: Scenario, secret: Secret | None = None) -> Masking | None:
    """Return what workers add to hide themselves, in watts; None where other noise does."""
    masking: Masking | None = scenario.privacy.noise_kind.masking(scenario, secret)
    return masking


def choose_masking(scenario: Scenario, secret: Secret | None = None) -> Masking:
    """Return how strong noise and masks are that hide workers; with a ``secret``, on the graph of a protected run."""
    privacy, seats = scenario.privacy, scenario.radio.scheduled
    unit = _unit_masking(privacy, seats, scenario.seed, mask_share_of(scenario))
    above_thermal = db_to_ratio(privacy.above_thermal_db) * dbm_to_watts(scenario.radio.noise_dbm) / 2.0 / seats
    if privacy.above_thermal_db == 0.0:
        most_watts = dbm_to_watts(scenario.radio.max_power_dbm - _HEADROOM_DB)
        above_thermal = most_watts * weakest_gain(scenario) / unit.added_watts
        if not privacy.noise_kind.masked and privacy.adversary in _HEARS_THE_SUM:
            # Everybody's noise is in the sum: a signal that it hides is far above a worker's own, and needs the power.
            above_thermal = min(above_thermal, _ENOUGH_IN_SUM * dbm_to_watts(scenario.radio.noise_dbm) / 2.0 / seats)
    watts = {name: above_thermal * getattr(unit, name) for name in ("own_watts", "pair_watts", "self_watts")}
    if secret is None or unit.graph is None:
        return replace(unit, **watts)
    masking = any_masking(scenario, secret)
    watts["pair_watts"] *= masking.honest.inverse_per_pair / unit.honest.inverse_per_pair
    return replace(masking, **watts)


def honest_with(scenario: Scenario, colluders: int) -> tuple[Honest, str]:
    """Return who is left in the graph and by the rules as planned if so many workers collude, and what to know then.

    Masks count for nothing where the graph may be cut, or where colluders can have two lists signed or hold the shares
    of both secrets. If more collude than planned, that holds on any graph that the rules admit, for all slots together
    with a probability of ``COLLUDING_SHARE`` of delta at most.
    """
    graph, privacy, seats = any_masking(scenario).graph, scenario.privacy, scenario.radio.scheduled
    absent, planned = math.ceil(privacy.most_absent * seats), min(privacy.colluders, seats - 1)
    alone = Honest(count=max(seats - colluders - absent, 1))
    if graph is None:
        return alone, ""
    failure, room = NEIGHBOURS_FAILURE, 0.0
    if colluders > planned:
        failure = min(failure, COLLUDING_SHARE * privacy.delta / (MOST_ROUNDS * scenario.slots_on_air))
        room = graph.eigenvalue_room
    if absent:
        agreed = rules.quorum_and_threshold(graph, planned, absent)
        if not rules.keep_one_secret(graph, *agreed, colluders, failure):
            return alone, "they can get both secrets of a worker: own noise alone counts"
    honest = alone if colluders + absent > seats - 2 else who_is_left(graph, colluders, absent, failure)
    cut = honest.is_cut or honest.gap <= room
    return (alone, "the graph of masks may be cut: own noise alone counts") if cut else (honest, "")


def noise_left(masking: Masking, scenario: Scenario, colluders: int) -> tuple[dict[str, Any], str]:
    """Return the noise, as of ``facts.WorkersNoise``, that so many colluders leave, and what to know of it."""
    honest, note = honest_with(scenario, colluders)
    hidden_watts = 1.0 / honest.inverse(masking.own_watts, masking.pair_watts)
    if masking.self_watts:  # all that is left to a worker that is called absent though it sent
        hidden_watts = min(hidden_watts, masking.own_watts + masking.self_watts)
    return {"in_sum_watts": 2.0 * honest.count * masking.own_watts, "alone_watts": 2.0 * hidden_watts}, note


@lru_cache(maxsize=16)
def most_withstood(scenario: Scenario) -> int | None:
    """Return how many colluders who do not know the graph leave every worker its masks, at most; None: no masks.

    Their own noise hides nobody, which ``honest_with`` counts.
    """
    masking = any_masking(scenario)
    if masking.graph is None:
        return None
    seats = masking.graph.seats
    most = rules.most_recoverable(seats, lambda colluders: not honest_with(scenario, colluders)[1])
    return max(most, min(scenario.privacy.colluders, seats - 1))


def informed_with(scenario: Scenario) -> tuple[int, str] | None:
    """Return how many colluders who know the graph leave a worker its own noise alone, and how; None: no such graph."""
    graph, privacy = any_masking(scenario).graph, scenario.privacy
    if graph is None or graph.complete:
        return None
    if not privacy.most_absent:
        return graph.fewest_sharing(graph.degree), "all neighbours of one worker: only its own noise hides it"
    seats = graph.seats
    agreed = rules.quorum_and_threshold(
        graph, min(privacy.colluders, seats - 1), math.ceil(privacy.most_absent * seats)
    )
    return rules.fewest_who_know(
        graph, *agreed
    ), "they get enough shares of both secrets of one worker: only its own noise hides it"


def any_masking(scenario: Scenario, secret: Secret | None = None) -> Masking:
    """Return graph and honest workers of a run, with masks of any strength; refuse a graph that may be cut.

    With a ``secret`` they are those of a protected run.
    """
    privacy, seats = scenario.privacy, scenario.radio.scheduled
    masking = _unit_masking(privacy, seats, scenario.seed, _LEAST_MASK_SHARE)
    if secret is None or masking.graph is None:
        return masking
    # Drawn from the secret: the public seed decides nothing.
    streams, degree = Streams(scenario.seed, secret), masking.graph.degree
    colluders, absent = min(privacy.colluders, seats - 1), math.ceil(privacy.most_absent * seats)
    for chapter in range(MOST_ROUNDS):
        seed = int.from_bytes(streams.generator("masks", chapter).bytes(_SEED_BYTES), "little")
        graph = draw_graph(seats, degree, seed)
        honest = who_is_left(graph, colluders, absent)
        alike = graph.second_eigenvalue <= masking.graph.second_eigenvalue + masking.graph.eigenvalue_room
        if alike and not honest.is_cut:
            return replace(masking, graph=graph, honest=honest)
    raise PrivacyError(
        f"privacy.mask_degree = {degree}: of {MOST_ROUNDS} graphs that the run drew each may be cut; must be higher, "
        "or 0, which takes one that suits"
    )


@lru_cache(maxsize=16)
def _unit_masking(privacy: Privacy, seats: int, seed: int, share: float) -> Masking:
    """Return what workers add per watt of their own noise."""
    colluders = min(privacy.colluders, seats - 1)
    if not privacy.noise_kind.masked:
        return Masking(graph=None, honest=Honest(count=seats - colluders))
    absent = math.ceil(privacy.most_absent * seats)
    taken_out = colluders + absent
    if seats < 2:
        raise PrivacyError(
            f'radio.scheduled = {seats}: must be at least 2 for privacy.noise = "masked": workers hide each other'
        )
    if colluders > seats - 2 and not absent:
        raise PrivacyError(
            f"privacy.colluders = {privacy.colluders}: so many leave fewer than two of the {seats:,} workers of a "
            f"slot, who hide each other; must be at most {seats - 2:,}, or schedule more workers"
        )
    degree = privacy.mask_degree or rules.recovering_degree(seats, colluders, absent)
    graph = draw_graph(seats, degree, seed)
    if absent and not rules.is_recoverable(seats, graph.degree, colluders, absent):
        raise PrivacyError(
            f"privacy.most_absent = {privacy.most_absent:g}: {absent:,} of the {seats:,} workers of a slot, whose "
            f"masks the others could not recover; must be at most {_most_recoverable_share(privacy, graph):g}, "
            "or raise privacy.mask_degree"
        )
    honest = who_is_left(graph, colluders, absent)
    if honest.is_cut:
        who = f"{taken_out:,} colluding or absent workers" if taken_out else "chance"
        least, enough = (
            min(each(seats, colluders, absent), seats - 1) for each in (connected_degree, rules.recovering_degree)
        )
        raise PrivacyError(
            f"privacy.mask_degree = {degree}: {who} may cut the graph of masks, and a worker's own noise alone would "
            f"hide it; must be at least {least + least % 2}, or 0, which takes {enough}"
        )
    # Of (S^-1)_ii the share that masks are to have: 1 / (|H| s^2) and c / e^2 in the proportion 1 - share to share.
    pair_watts = honest.inverse_per_pair * honest.count * (1.0 - share) / share
    masking = Masking(pair_watts=pair_watts, graph=graph, honest=honest)
    if not absent:
        return masking
    # A worker that is called absent but did send has its masks revealed: its self mask must hide it as well.
    return replace(masking, self_watts=max(masking.hidden_watts - masking.own_watts, 0.0))


def most_recoverable_share(scenario: Scenario) -> float:
    """Return the largest ``privacy.most_absent`` at which workers can agree on a list and recover masks; 0: none."""
    graph = any_masking(scenario).graph
    return 0.0 if graph is None else _most_recoverable_share(scenario.privacy, graph)


def _most_recoverable_share(privacy: Privacy, graph: MaskGraph) -> float:
    seats, colluders = graph.seats, min(privacy.colluders, graph.seats - 1)

    def works(absent: int) -> bool:
        if not privacy.mask_degree:  # then the degree grows with them
            return rules.is_recoverable(seats, seats - 1, colluders, absent)
        return (
            rules.is_recoverable(seats, graph.degree, colluders, absent)
            and not who_is_left(graph, colluders, absent).is_cut
        )

    return math.floor(1e4 * rules.most_recoverable(seats, works) / seats) / 1e4  # which stands for no more


def mask_share_of(scenario: Scenario) -> float:
    """Return the share that is asked for, or the one that leaves least noise in the sum."""
    if not scenario.privacy.noise_kind.masked or scenario.privacy.mask_share:
        return scenario.privacy.mask_share
    best = 1.0 - 1.0 / times_the_noise(scenario.radio.scheduled, gain_error_of(scenario, absences=True))
    return min(max(best, _LEAST_MASK_SHARE), _MOST_MASK_SHARE)


def times_the_noise(workers: int, gain_error: float) -> float:
    """Return 1 + sqrt(N) g: the deviation of the noise in the sum, over that with exact gains, at the same privacy.

    g is the deviation of the workers' gains over their mean, in phase: only the real part of what arrives is used.
    Workers add noise of variance s^2 and k masks of variance e^2 each. Privacy fixes

        1 / (N s^2) + 1 / (k e^2) = 1 / sigma_0^2,

    of which masks are to have the share w: N s^2 = sigma_0^2 / (1 - w) and k e^2 = sigma_0^2 / w. In the sum a mask of
    workers i and j leaves (x_i - x_j) of itself, of mean square 2 g^2, and there are k N / 2 masks. With r = sqrt(N) g
    the variance of own noise and residual masks is

        sigma_0^2 (1 / (1 - w) + r^2 / w),    least at w = r / (1 + r), where it is sigma_0^2 (1 + r)^2.

    Large masks leave more behind, small ones hide less, so that more own noise must. (s^2 g^2 N is left out, and so are
    self masks, which recovery adds: they leave r^2 sigma_0^2 more.)
    """
    return 1.0 + math.sqrt(workers) * gain_error


def gain_error_of(scenario: Scenario, *, absences: bool = False) -> float:
    """Return the deviation of the workers' gains over their mean, in phase; 0 on the ideal air.

    With ``absences``, absent workers whose masks nobody recovers count as gains of 0.
    """
    spread, silent = air_of(scenario).spread(scenario)
    if absences and silent and not scenario.privacy.most_absent:
        spread = (spread + silent) / (1.0 - silent)
    return math.sqrt(spread)


def above_thermal_db_of(scenario: Scenario, masking: Masking) -> float:
    """Return the workers' own noise in the sum of a slot over the receiver's, as ``privacy.above_thermal_db``."""
    thermal_watts = dbm_to_watts(scenario.radio.noise_dbm)
    return float(ratio_to_db(2.0 * scenario.radio.scheduled * masking.own_watts / thermal_watts))


def with_masks_settled(scenario: Scenario) -> Scenario:
    """Return the scenario with the degree, the share and the level that it would choose by itself written out."""
    masking = masking_of(scenario)
    if masking is None:
        return scenario
    level = round(above_thermal_db_of(scenario, masking), _SETTLED_DIGITS) or 10.0**-_SETTLED_DIGITS  # 0 would choose
    privacy = replace(scenario.privacy, above_thermal_db=level)
    if masking.graph is not None:
        degree = masking.graph.degree + masking.graph.degree % 2  # everybody with everybody may be odd
        share = round(mask_share_of(scenario), _SETTLED_DIGITS)
        privacy = replace(privacy, mask_degree=degree, mask_share=share)
    return replace(scenario, privacy=privacy)


def enough_absent(scenario: Scenario, least: int = 0, chance: float | None = None) -> float:
    """Return a ``privacy.most_absent`` in whole per cent that is enough for ``least``, and for this chance."""
    seats, slots = scenario.radio.scheduled, scenario.slots_on_air
    chance = silent_share(scenario) if chance is None else chance
    most = max(least, binomial_quantile(_MORE_ABSENT / slots, seats, chance) if chance else 0)
    return math.ceil(most / seats * _STEPS) / _STEPS


def rules_of(scenario: Scenario, masking: Masking) -> rules.Rules | None:
    """Return what a slot's workers insist on, deviations as received in sqrt(watts); None: nothing is recovered."""
    seats, most_absent = scenario.radio.scheduled, scenario.privacy.most_absent
    if masking.graph is None or not most_absent:
        return None
    return rules.choose_rules(
        masking.graph,
        colluders=min(scenario.privacy.colluders, seats - 1),
        absent=math.ceil(most_absent * seats),
        mask_deviation=math.sqrt(masking.pair_watts),
        self_deviation=math.sqrt(masking.self_watts),
    )


def check_recoverable(scenario: Scenario, masking: Masking, sending: torch.Tensor, slots: range) -> None:
    """Refuse slots in which more are absent than workers reveal masks of; ``sending`` is slots x seats."""
    graph, agreed, seats = masking.graph, rules_of(scenario, masking), sending.shape[1]
    if graph is None or agreed is None:
        return
    absent = ~sending
    counts = absent.sum(dim=1)
    most, lost = int(counts.max()), 0
    recovered = most <= agreed.most_absent
    if recovered and not graph.complete:
        neighbours = torch.zeros_like(absent, dtype=torch.int64)
        for after in torch.from_numpy(graph.successors).to(absent.device):
            neighbours += absent[:, after]
            neighbours[:, after] += absent
        shares = graph.degree - neighbours  # of each one's secret, held by those who are present
        needed = sending | (shares > 0)  # nobody asks for masks between two who are absent
        fewest, lost = int(torch.where(needed, shares, graph.degree).min()), int((neighbours * sending).max())
        recovered = lost <= agreed.most_absent_neighbours and fewest >= agreed.threshold
        lost = max(lost, graph.degree - fewest)
    if not recovered:
        least = max(most, math.ceil(lost / graph.degree * seats))
        whose = ", too many of them neighbours of one worker" if lost else ""
        raise ScenarioError(
            f"privacy.most_absent = {scenario.privacy.most_absent:g}: {most:,} of the {seats:,} workers of slot "
            f"{slots[int(counts.argmax())]} are absent{whose}, so that nothing is recovered; must be at least "
            f"{enough_absent(scenario, least):g}, or raise privacy.mask_degree"
        )


def check_recovered(scenario: Scenario, masking: Masking, sending: torch.Tensor, slots: range) -> None:
    """Refuse the same, and slots in which masks stay that nobody recovers: one of them spoils a sum of integers."""
    absent = int((~sending).sum(dim=1).max())
    if absent and not scenario.privacy.most_absent:
        raise ScenarioError(
            f"privacy.most_absent = 0: {absent:,} of the {sending.shape[1]:,} workers of a slot are absent, and one "
            "mask that is not recovered spoils a sum of integers; must be at least "
            f"{enough_absent(scenario, absent):g}"
        )
    check_recoverable(scenario, masking, sending, slots)
