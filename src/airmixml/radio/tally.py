"""What the draws of a transmission decide by themselves: energy, power, who sent how often, and so the privacy.

No symbol is looked at, so a plan can be tallied without data.
"""

from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from airmixml.arrays import Doubles, Integers
from airmixml.doors import ACCOUNTANTS, ADVERSARIES
from airmixml.errors import PrivacyError
from airmixml.impairments.gains import never_exceeded
from airmixml.privacy import (
    ADJACENCIES,
    Antennas,
    Design,
    Drawn,
    Fact,
    ImperfectAir,
    Ledger,
    PowerTells,
    PrivacyStatement,
    SofterShares,
    Transmitters,
    state_privacy,
)
from airmixml.privacy.copies import together
from airmixml.privacy.rounded_noise import SHARE_FOR_TAILS, Rounding
from airmixml.radio.centring import plan_centring, with_centring
from airmixml.radio.draws import SlotTensors
from airmixml.radio.histograms import DecibelHistogram, SlotStrengths
from airmixml.radio.integer_sums import integer_sums_of
from airmixml.radio.power import largest_shares
from airmixml.radio.privacy_target import (
    adversary_named,
    asked_received_watts,
    joules_per_watt,
    largest_received_watts,
    planned_design,
    sensitivity_of,
    slot_seconds,
    slots_target,
    symbols_on_air,
)
from airmixml.radio.row_privacy import row_statement, row_statements
from airmixml.radio.row_shifts import shifts_of_rows
from airmixml.radio.weakest_channel import weakest_gain
from airmixml.scenario import Scenario
from airmixml.sums import Sums, as_tensor
from airmixml.units import watts_to_dbm
from airmixml.workers import Signal

_EXACT: Final = ("server", "gdp")
_SILENT_WATTS: Final = 1e-300


class _Spent(NamedTuple):
    """What workers spent, slot after slot and seat after seat; each has the shape seats of all slots."""

    who: torch.Tensor
    power_watts: torch.Tensor
    received_watts: torch.Tensor  # beta q^2
    took_part: torch.Tensor
    server_watts: torch.Tensor | None = None  # beta q^2 sum_a |h_a|^2 / |h|^2, where the server has several antennas


class Tally:
    """Adds up the draws of one transmission, block by block, in constant memory.

    ``received_watts`` is what ``AirSetting.private_received_watts`` has; without it that is computed again. ``holding``
    is the row of the data that each worker holds; ``rows`` adds up what rows on several workers spend. That of a
    ``part`` of the slots keeps what each worker spent in each slot, so that merging the parts adds it up in the
    order of the slots: the sums are then those of one tally of all slots, to the last bit.
    """

    def __init__(
        self,
        scenario: Scenario,
        input_dim: int,
        label_dim: int,
        distance_metres: Doubles | None = None,
        *,
        received_watts: float | None = None,
        averaged: int | None = None,
        holding: Integers | None = None,
        part: bool = False,
    ) -> None:
        self.scenario = scenario
        self.rows = shifts_of_rows(holding, part=part)
        self._spent: list[_Spent] | None = [] if part else None
        self.before_the_draw = False  # whether statements hold for any schedule, and so say nothing of the drawn one
        self.slots = 0
        workers = scenario.workers.count
        # Of each worker: energy in joules, beta q^2 added up, slots it took part in.
        self._energy, self._received = (torch.zeros(workers, dtype=torch.float64) for _ in range(2))
        # The last once more with all antennas of the server, where it has several.
        self._at_server = torch.zeros(workers if scenario.air.antennas > 1 else 0, dtype=torch.float64)
        self._antenna_gain = torch.ones((), dtype=torch.float64)  # the largest of any seat
        self._participations = torch.zeros(workers, dtype=torch.int64)
        self._largest_power = torch.zeros((), dtype=torch.float64)
        self._limited = torch.zeros((), dtype=torch.int64)
        self.power_dbm = DecibelHistogram()
        self.sensitivity = sensitivity_of(scenario, input_dim, label_dim)
        self.signal = Signal.of(scenario.workers, input_dim, label_dim)
        self.joules_per_watt = joules_per_watt(scenario, self.signal, self.sensitivity)
        # Of noise and masks, which are the same in every symbol, powers are told as radiated on average over a slot.
        by_plan = scenario.privacy.noise != "receiver"
        self.told_share = self.joules_per_watt / slot_seconds(scenario, self.signal) if by_plan else 1.0
        if averaged is None:
            averaged = input_dim - (1 if scenario.workers.constant else 0)  # the constant needs no averaging
        self.centring = None if distance_metres is None else plan_centring(scenario, averaged, distance_metres)
        if self.centring is not None:
            power_watts = torch.from_numpy(self.centring.power_watts)
            self._energy += torch.as_tensor(self.centring.energy_joules)
            self._largest_power = power_watts.max()
            self._count_power(power_watts)
        self._strengths = SlotStrengths()
        # Of an air that is not ideal: strengths as planned, and the largest of gains, of sent over received power.
        self._planned_strengths = None if scenario.air.is_ideal else SlotStrengths("planned_strengths")
        self._gain_peak, self._sent_excess = (torch.ones((), dtype=torch.float64) for _ in range(2))
        if received_watts is None:
            received_watts = asked_received_watts(scenario, self.sensitivity, distance_metres)
        # beta max q^2 as planned, where the power limit binds nobody; what the limit does tells the schedule anyway.
        self._asked_watts = None if scenario.mixing.power == "max" else largest_received_watts(scenario, received_watts)
        self._planned = planned_design(
            scenario, self.sensitivity, received_watts=received_watts, floor=weakest_gain(scenario, distance_metres)
        )
        self._gain_bound = self._planned.fact(ImperfectAir).gain_bound
        # Where channels err, what arrived at the chosen antenna does not tell what was sent, or what others received.
        self._sent_failure = 0.0 if never_exceeded(scenario) else scenario.air.gain_failure

    def add_draws(self, draws: SlotTensors) -> None:
        """Take consecutive slots into account."""
        device, who = draws.ratios.device, draws.scheduled_workers.flatten()
        if self._energy.device != device:
            self._energy, self._received = self._energy.to(device), self._received.to(device)
            self._participations, self._limited = self._participations.to(device), self._limited.to(device)
            self._largest_power, self._antenna_gain = self._largest_power.to(device), self._antenna_gain.to(device)
            self._at_server = self._at_server.to(device)
        self.slots += len(draws)
        self._limited += draws.limited.sum()
        # A worker that brings its own noise is hidden by it however softly or loudly both arrive: the plan counts.
        by_plan = draws.planned_ratios is not None
        ratios = draws.ratios if draws.planned_ratios is None else draws.planned_ratios
        squares = ratios.square()
        received_watts = squares * draws.power_scale_watts[:, None]
        strengths = draws.power_scale_watts * largest_shares(self.scenario, ratios) ** 2
        if draws.gains is not None:
            # A gain may differ from piece to piece: no part of a worker's vector arrives more strongly than this.
            peaks = torch.ones_like(ratios) if by_plan else draws.gains.peaks
            planned = strengths
            received_watts = received_watts * peaks
            by_share = (
                squares
                if self.scenario.radio.schedule == "fixed"
                else largest_shares(self.scenario, ratios)[:, None] ** 2
            )
            if self._planned.says(SofterShares) and self._asked_watts is not None and not by_plan:
                # Somebody else in a seat might have sent with all of its share.
                planned = torch.full_like(planned, self._asked_watts)
                by_share = self._asked_watts / draws.power_scale_watts[:, None]
            strengths = draws.power_scale_watts * (by_share * peaks).amax(dim=1)
            at_most = peaks.clamp(min=self._gain_bound if self._sent_failure else 1.0)
            sent = draws.power_scale_watts * (by_share * at_most).amax(dim=1)
            self._add_planned(planned, sent / strengths.clamp(min=_SILENT_WATTS), peaks[draws.ratios > 0.0])
        by_coin = self.scenario.radio.schedule == "poisson"
        took_part = (
            (draws.ratios > 0.0).flatten()
            if by_coin or draws.gains is not None
            else torch.ones_like(who, dtype=torch.bool)
        )
        server_watts = None
        if draws.antenna_gain is not None:
            at_antennas, of_gains = draws.antenna_gain, received_watts
            if self._sent_failure:
                # What errs is the channel to one antenna; those of the others are not drawn, so the bound stands in.
                at_antennas = at_antennas.clamp(min=float(self.scenario.air.antennas))
                of_gains = squares * draws.power_scale_watts[:, None] * self._gain_bound
            server_watts = (of_gains * at_antennas).flatten()
            self._antenna_gain = torch.maximum(self._antenna_gain, draws.antenna_gain.max())
        self._spend(_Spent(who, draws.power_watts.flatten(), received_watts.flatten(), took_part, server_watts))
        if self.rows is not None:
            at_server = () if server_watts is None else (server_watts.view_as(received_watts),)
            self.rows.add(draws.scheduled_workers, received_watts, draws.power_watts, *at_server)
        power_watts = draws.power_watts if self.told_share == 1.0 else self.told_share * draws.power_watts
        self._largest_power = torch.maximum(self._largest_power, power_watts.max())
        self._count_power(power_watts)
        self._strengths.add(strengths)

    def _add_planned(self, strengths: torch.Tensor, excess: torch.Tensor, peaks: torch.Tensor) -> None:
        """Take into account planned strengths, sent over received power (both slots), and gains of senders."""
        assert self._planned_strengths is not None
        self._planned_strengths.add(strengths)
        self._gain_peak, self._sent_excess = (
            torch.cat([values.flatten(), largest.to(values.device)[None]]).max()
            for values, largest in ((peaks, self._gain_peak), (excess, self._sent_excess))
        )

    def _spend(self, spent: _Spent) -> None:
        """Add what each of these workers spent, in this order; of a part, keep it."""
        if self._spent is not None:
            self._spent.append(spent)
            return
        # Not by a histogram over all workers: the time of a block must not grow with those who are silent.
        self._energy.index_add_(0, spent.who, spent.power_watts, alpha=self.joules_per_watt)
        self._received.index_add_(0, spent.who, spent.received_watts)
        self._participations.index_add_(0, spent.who, spent.took_part.long())
        if spent.server_watts is not None:
            self._at_server.index_add_(0, spent.who, spent.server_watts)

    def sums(self) -> Sums:
        """Return what adds up over the parts of a run, for ``merge``: of a part alone."""
        parts = zip(_Spent._fields, zip(*(self._spent or ()), strict=True), strict=True)
        spent = {name: torch.cat(part).cpu().numpy() for name, part in parts if part[0] is not None}
        if self.scenario.workers.count < 1 << 31:
            spent["who"] = spent["who"].astype(np.int32)  # it is sent once for every seat of every slot
        return {
            **spent,
            "slots": np.array([self.slots, self.limited_slots]),
            "largest_power_watts": np.array(self.largest_power_watts),
            "antenna_gain": self._antenna_gain.cpu().numpy(),
            **self.power_dbm.sums("power_dbm"),
            **self._strengths.sums(),
            **self._planned_sums(),
            **({} if self.rows is None else self.rows.sums()),
        }

    def _planned_sums(self) -> Sums:
        if self._planned_strengths is None:
            return {}
        peaks = np.array([float(self._gain_peak), float(self._sent_excess)])
        return {**self._planned_strengths.sums(), "gain_peaks": peaks}

    def merge(self, sums: Sums) -> None:
        """Take the next part of the slots into account."""
        who, *rest = (as_tensor(sums[name]) for name in _Spent._fields if name in sums)
        self._spend(_Spent(who.long(), *rest))
        slots, limited = sums["slots"].tolist()
        self.slots += slots
        self._limited += limited
        self._largest_power = self._largest_power.clamp(min=float(sums["largest_power_watts"]))
        self._antenna_gain = self._antenna_gain.clamp(min=float(sums["antenna_gain"]))
        self.power_dbm.merge("power_dbm", sums)
        self._strengths.merge(sums)
        if self.rows is not None:
            self.rows.merge(sums)
        if self._planned_strengths is not None:
            self._planned_strengths.merge(sums)
            peak, excess = sums["gain_peaks"].tolist()
            self._gain_peak, self._sent_excess = self._gain_peak.clamp(min=peak), self._sent_excess.clamp(min=excess)

    def _count_power(self, power_watts: torch.Tensor) -> None:
        """Count the powers of those who do send."""
        self.power_dbm.add(power_watts * 1e3)
        self.power_dbm.discard_zeros((power_watts == 0.0).sum())

    @property
    def worker_energy_joules(self) -> Doubles:
        """What each worker spent, the slot for the mean included; shape workers."""
        return self._energy.cpu().numpy()

    @property
    def largest_power_watts(self) -> float:
        """The largest power that any worker sent with."""
        return float(self._largest_power)

    @property
    def limited_slots(self) -> int:
        """In how many slots P_max forced the power below what was asked."""
        return int(self._limited)

    @property
    def ledger(self) -> Ledger:
        """What each worker spent of its privacy against the server, which has all its antennas."""
        received = self._at_server if len(self._at_server) else self._received
        return Ledger.of(self._participations.cpu().numpy(), received.cpu().numpy())

    @property
    def energy_joules(self) -> float:
        """Total energy, tau sum P, or less where symbols are known to be smaller than 1."""
        return float(self.worker_energy_joules.sum())

    @property
    def air_seconds(self) -> float:
        """How long all slots take together."""
        centring = 0.0 if self.centring is None else self.centring.seconds
        return centring + self.slots * slot_seconds(self.scenario, self.signal)

    @property
    def symbols_per_slot(self) -> int:
        """Symbols that a slot takes on the air: data, pilots, guards, and those without data."""
        return symbols_on_air(self.scenario, self.signal)

    @property
    def design(self) -> Design:
        """What was really sent, for the accountants.

        On an imperfect air that is with the gains that were drawn, the worst piece of a slot counting for all of it.
        Where statements say nothing of what was drawn, and in a Poisson schedule, in which silent workers have gains
        that nobody drew, the bound on gains stands in for them.
        """
        received_watts, counts = self._strengths.kinds()
        gain_peak = float(self._gain_peak)
        sent_bound = max(gain_peak, self._gain_bound) if self._sent_failure else gain_peak
        sent = replace(self._planned.fact(Transmitters), loudness=sent_bound, failure=self._sent_failure)
        facts: list[Fact] = [PowerTells()] if self.limited_slots else []
        if self._planned_strengths is not None and (self.before_the_draw or self._planned.sampling == "poisson"):
            planned_watts, counts = self._planned_strengths.kinds()
            received_watts = tuple(self._gain_bound * value for value in planned_watts)
        else:
            sent = replace(sent, excess=float(self._sent_excess))
            facts += [] if self._planned_strengths is None else [ImperfectAir(gain_bound=gain_peak)]
        antennas = self._planned.fact(Antennas) if self.before_the_draw else Antennas(gain=float(self._antenna_gain))
        facts += [sent, replace(antennas, failure=self._sent_failure if len(self._at_server) else 0.0)]
        if not self.before_the_draw:
            facts.append(
                Drawn(
                    received_watts=float(self._received.max()),
                    participations=int(self.ledger.participations[self.ledger.received_watts.argmax()]),
                    server_watts=float(self._at_server.max()) if len(self._at_server) else None,
                    sent_watts=sent_bound * float(self.worker_energy_joules.max()) / self.joules_per_watt,
                )
            )
        return replace(self._planned, received_watts=received_watts, counts=counts).stating(*facts)

    @property
    def privacy(self) -> PrivacyStatement:
        """What the scenario's accountant gives against its adversary, for the powers really used."""
        target = self.scenario.privacy
        return self._state(target.adversary, target.accountant)

    @property
    def privacy_against_server(self) -> PrivacyStatement:
        """What the server, who knows the schedule, can learn of the worst worker; exact."""
        return self._state(*_EXACT)

    def privacy_of_a_row(self, copies: int, adversary: str = _EXACT[0]) -> PrivacyStatement:
        """What an adversary can learn of a row, or a person, that so many workers hold; see ``row_statement``."""
        return row_statement(self.scenario, self.design, adversary, copies, self.centring, self._joined(copies))

    def privacy_of_rows(self) -> list[PrivacyStatement]:
        """What each adversary can learn of a row on as many workers as any row is; see ``row_statements``."""
        copies = self.row_copies
        return row_statements(self.scenario, self.design, copies, self.centring, self._joined(copies))

    def _joined(self, copies: int) -> Design | None:
        """Return all workers with the worst row as one worker, as the slots were drawn; None where that is not told."""
        if self.rows is None or self.before_the_draw or copies != self.row_copies:
            return None
        joined = together(self.design, copies)
        sent_watts = self.rows.watts(1, self.worker_energy_joules / self.joules_per_watt)
        at_server = self.rows.watts(2, self._at_server.cpu().numpy()).max() if len(self._at_server) else None
        loudness = joined.fact(Transmitters).loudness
        assert loudness is not None
        return joined.stating(
            replace(
                joined.fact(Drawn),
                received_watts=float(self.rows.watts(0, self._received.cpu().numpy()).max()),
                server_watts=None if at_server is None else float(at_server),
                sent_watts=loudness * float(sent_watts.max()),
            )
        )

    @property
    def row_copies(self) -> int:
        """On how many workers a row of the data lies, at most."""
        return 1 if self.rows is None else int(self.rows.copies.max())

    @property
    def statements(self) -> list[PrivacyStatement]:
        """The scenario's own statement, the exact one against the server, then those of every other pair.

        Last come the first two once more, for the other kind of neighbours.
        """
        target = self.scenario.privacy
        first = [(target.adversary, target.accountant), _EXACT]
        every = product(ADVERSARIES.names, ACCOUNTANTS.names)
        design, stated = self.design, []
        for adversary, accountant in dict.fromkeys([*first, *every]):
            try:
                stated.append(self._state(adversary, accountant, design=design))
            except PrivacyError:  # an accountant that cannot treat this adversary has nothing to say
                if (adversary, accountant) == first[0]:
                    raise
        other = next(adjacency for adjacency in ADJACENCIES if adjacency != target.adjacency)
        for adversary, accountant in dict.fromkeys(first):
            with suppress(PrivacyError):
                stated.append(self._state(adversary, accountant, other, design))
        return stated

    def worker_epsilons(self) -> Doubles:
        """Return what the server can learn of each worker, exactly; shape workers."""
        adjacency, rounding = self.scenario.privacy.adjacency, self._rounding
        noise_watts, delta = self._planned.in_workers_noise().noise_watts, slots_target(self.scenario)[1]
        if rounding is not None:  # tails are cut as for the worst worker, which serves the others too
            noise_watts /= rounding.squared_tilt(self.privacy_against_server.epsilon, delta)
            delta *= 1.0 - SHARE_FOR_TAILS
        spent = partial(
            self.ledger.epsilons,
            noise_watts=noise_watts,
            sensitivity=self.sensitivity.squared_move(adjacency, "none"),
        )
        if self.centring is not None and self.centring.exact:
            return spent(delta=self.scenario.privacy.delta, spent_mu=self.centring.mu(adjacency))
        for_the_mean = 0.0 if self.centring is None else self.centring.epsilon(_EXACT[0], adjacency)
        return for_the_mean + spent(delta=delta)

    @property
    def _rounding(self) -> Rounding | None:
        """What all slots of the worst worker are beside a Gaussian mechanism, where workers send integers."""
        adversary = adversary_named(_EXACT[0], self.scenario)
        return adversary.mechanism(self.design, self.scenario.privacy.adjacency).rounding

    def _composed_tilt(self) -> float:
        """Return by how much mu^2 grows where vectors are rounded, for sums with the losses of other runs."""
        return 1.0 if self._rounding is None else self._rounding.composed_tilt(self.scenario.privacy.delta)

    def worker_squared_mu(self) -> Doubles:
        """Return mu^2 of each worker against the server, the slot for the mean included; shape workers."""
        adjacency = self.scenario.privacy.adjacency
        losses = self.ledger.losses(
            noise_watts=self._planned.in_workers_noise().noise_watts,
            sensitivity=self.sensitivity.squared_move(adjacency, "none"),
        )
        losses *= self._composed_tilt()
        return losses + (0.0 if self.centring is None else self.centring.mu(adjacency) ** 2)

    def row_squared_mu(self) -> Doubles | None:
        """Return the same of each row that workers hold, of all its workers together; None where none is on two."""
        if self.rows is None:
            return None
        adjacency = self.scenario.privacy.adjacency
        received_watts = self.rows.watts(2 if len(self._at_server) else 0, self.ledger.received_watts)
        losses = Ledger.of(self.rows.copies, received_watts).losses(
            noise_watts=self._planned.in_workers_noise().noise_watts,
            sensitivity=self.sensitivity.squared_move(adjacency, "none"),
        )
        mean_mu = 0.0 if self.centring is None else self.centring.mu(adjacency)
        return losses * self._composed_tilt() + (self.rows.copies * mean_mu) ** 2

    def squared_mu(self, adversary: str = _EXACT[0]) -> float:
        """Return mu^2 of the worst worker against somebody who knows the schedule, the slot for the mean included.

        All slots are one Gaussian mechanism, and so are several transmissions of the same data: their mu^2 add up.
        """
        adjacency = self.scenario.privacy.adjacency
        mean_mu = 0.0 if self.centring is None else self.centring.mu(adjacency)
        total = adversary_named(adversary, self.scenario).mechanism(self.design, adjacency).total
        return total * self._composed_tilt() + mean_mu**2

    def _state(
        self, adversary: str, accountant: str, adjacency: str = "", design: Design | None = None
    ) -> PrivacyStatement:
        scenario, target = self.scenario, self.scenario.privacy
        adjacency = adjacency or target.adjacency
        asked_for = (adversary, accountant, adjacency) == (target.adversary, target.accountant, target.adjacency)
        statement = state_privacy(
            design or self.design,
            adversary_named(adversary, scenario),
            accountant,
            adjacency=adjacency,
            delta=slots_target(scenario)[1],
            target_epsilon=target.epsilon if scenario.mixing.power == "dp" and asked_for else None,
        )
        return with_centring(statement, self.centring)

    def to_dict(self) -> dict[str, Any]:
        """Return the tally as plain values for JSON."""
        energy, largest_dbm = self.worker_energy_joules, float(watts_to_dbm(self.largest_power_watts))
        integers = integer_sums_of(self.scenario, self.sensitivity)
        return {
            "slots": self.slots,
            "symbols_per_slot": self.symbols_per_slot,
            "air_seconds": self.air_seconds,
            "energy_joules": self.energy_joules,
            "worker_energy_joules": {
                "mean": float(energy.mean()),
                "median": float(np.median(energy)),
                "largest": float(energy.max()),
            },
            "power_dbm": {
                "median": min(self.power_dbm.quantile_db(0.5), largest_dbm),
                "largest": largest_dbm,
                "limit": self.scenario.radio.max_power_dbm,
            },
            "power_limited_slots": self.limited_slots,
            **({} if integers is None else {"integers": integers.to_dict()}),
            "privacy": [statement.to_dict() for statement in self.statements],
            "ledger": self.ledger.summary(self.worker_epsilons()),
        }
