"""What the draws of a transmission add up to: energy, power, who sent how often and how strongly, and rows likewise.

No symbol is looked at, so a plan can be added up without data.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import torch

from airmixml.arrays import Doubles, Integers
from airmixml.privacy import Ledger, facts
from airmixml.radio.centring import CentringSlot, averaged_numbers, plan_centring
from airmixml.radio.draws import AirSetting, SlotTensors
from airmixml.radio.system import System

_SILENT_WATTS: Final = 1e-300


class SlotTotals:
    """Adds up the draws of one transmission, block by block, in constant memory.

    ``averaged`` numbers has the mean that is sent first, if not those of the inputs; ``holding`` is each worker's row.
    """

    def __init__(self, setting: AirSetting, *, averaged: int | None = None, holding: Integers | None = None) -> None:
        self.system, self.scenario = setting, setting.scenario  # the scenario as its link meets the air
        self.signal, self.sensitivity = setting.signal, setting.sensitivity
        self.rows: RowShifts | None = None
        if holding is not None and np.bincount(holding).max() > 1:
            self.rows = RowShifts(holding)
        self.slots = self.rounds = 0  # of all slots, those that were rounds
        scenario, workers = self.scenario, setting.scenario.workers
        # Of each worker: energy in joules, slots that it sent in, beta q^2 added up, and the same with all antennas
        # where the server has several, of slots and of rounds.
        several = scenario.air.antennas > 1 and not setting.noise.brought
        kinds = ("energy", "sent", "received", *(("at_server", "in_rounds") if several else ()))
        self._workers = {kind: torch.zeros(workers.count, dtype=torch.float64) for kind in kinds}
        self._limited = torch.zeros((), dtype=torch.int64)
        # The largest of any seat: transmit power, gain of all antennas, gain on the air, sent over received power.
        starts = {"power": 0.0, "antenna_gain": 1.0, "gain": 1.0, "sent_excess": 1.0}
        self._largest = {name: torch.tensor(start, dtype=torch.float64) for name, start in starts.items()}
        self.power_dbm = DecibelHistogram()
        self._strengths = SlotStrengths()
        # Of an air that is not ideal: strengths as planned.
        self._planned_strengths = None if setting.air.exact else SlotStrengths()
        # beta max q^2 as planned, where the power limit binds nobody; what the limit does tells the schedule anyway.
        policy = scenario.mixing.power_policy
        asked_watts = policy.largest_received_watts(scenario, setting.private_received_watts)
        self._asked_watts: float | None = None if policy.follows_channels else asked_watts
        self._planned = setting.design(setting.private_received_watts)
        # Where channels err, what arrived at the chosen antenna does not tell what was sent, or what others received.
        self._sent_failure = setting.air.sent_failure(scenario)
        self.centring: CentringSlot | None = None
        if workers.centre_on_air:
            numbers = averaged or averaged_numbers(workers, self.signal.features, None)
            self.centring = plan_centring(scenario, numbers, setting.distance_metres)
        if self.centring is not None:
            self._workers["energy"] += torch.as_tensor(self.centring.energy_joules)
            self._count_power(torch.from_numpy(self.centring.power_watts))

    def add_draws(self, draws: SlotTensors, *, of_rounds: bool = False) -> None:
        """Take consecutive slots into account, or those of rounds."""
        system = self.system.of_rounds if of_rounds else self.system
        self.slots += len(draws)
        self._limited = self._limited.to(draws.limited.device) + draws.limited.sum()
        # A worker that brings its own noise is hidden by it however softly or loudly both arrive: the plan counts.
        brought, by_coin = draws.planned_ratios is not None, self.scenario.radio.schedule_kind.by_coin
        ratios = draws.ratios if draws.planned_ratios is None else draws.planned_ratios
        scale_watts = draws.power_scale_watts
        if of_rounds:
            self.rounds += len(draws)
            scale_watts = scale_watts * self.system.counted_in_rounds
        # Who is silent spends nothing. Whose packets are lost was heard: without masks in its own noise alone.
        heard = draws.ratios > 0.0 if self.system.noise.masked else (draws.ratios > 0.0) | (draws.power_watts > 0.0)
        planned_watts = ratios.square() * scale_watts[:, None]
        received_watts = planned_watts = planned_watts * heard if brought else planned_watts
        shares: torch.Tensor = self.scenario.radio.schedule_kind.largest_shares(self.scenario, ratios)
        strengths = scale_watts * shares**2
        if draws.gains is not None:
            # A gain may differ from piece to piece: no part of a worker's vector arrives more strongly than this.
            peaks = torch.ones_like(ratios) if brought else draws.gains.peaks
            received_watts = planned_watts * peaks
            # Another worker in a seat would have its own.
            peaks = peaks.clamp(min=self._planned.fact(facts.OthersInSeats).loudest)
            by_share = shares[:, None] ** 2 if by_coin else ratios.square()
            strengths = self._strengths_with(draws, by_share, peaks, strengths, of_rounds=of_rounds)
        seen = [received_watts, draws.power_watts]
        if draws.antenna_gain is not None:
            at_antennas, of_gains = draws.antenna_gain, received_watts
            if self._sent_failure:
                # What errs is the channel to one antenna; those of the others are not drawn, so the bound stands in.
                at_antennas = at_antennas.clamp(min=float(self.scenario.air.antennas))
                of_gains = planned_watts * self.system.gain_bound
            seen.append(of_gains * at_antennas)
            self._raise("antenna_gain", draws.antenna_gain)
            self._count("in_rounds" if of_rounds else "at_server", draws, seen[-1])
        self._count("energy", draws, system.joules_per_watt * draws.power_watts)
        self._count("received", draws, received_watts)
        all_sent = draws.gains is None and not brought and not by_coin
        self._count("sent", draws, (heard | all_sent).double())
        if self.rows is not None:
            self.rows.add(draws.scheduled_workers, *seen)
        self._count_power(system.link.told_share(system) * draws.power_watts)
        self._strengths.add(strengths, of_rounds=of_rounds)

    def _count(self, kind: str, draws: SlotTensors, of_seats: torch.Tensor) -> None:
        """Add what each seat has to that of its worker; slots x scheduled.

        Not by a histogram over all workers: the time of a block must not grow with those who are silent.
        """
        self._workers[kind] = self._workers[kind].to(of_seats.device)
        self._workers[kind].index_add_(0, draws.scheduled_workers.flatten(), of_seats.flatten())

    def _strengths_with(
        self, draws: SlotTensors, by_share: torch.Tensor, peaks: torch.Tensor, planned: torch.Tensor, *, of_rounds: bool
    ) -> torch.Tensor:
        """Return beta max q^2 of slots with the gains that were drawn, and keep what was planned; shape slots."""
        assert self._planned_strengths is not None
        beta = draws.power_scale_watts
        if self._planned.says(facts.OthersInSeats) and self._asked_watts is not None and draws.planned_ratios is None:
            # Another worker in a seat might have sent with all of its share.
            asked_watts = self._asked_watts * (self.system.round_strength if of_rounds else 1.0)
            planned = torch.full_like(planned, asked_watts)
            by_share = asked_watts / beta[:, None]
        strengths = beta * (by_share * peaks).amax(dim=1)
        at_most = peaks.clamp(min=self.system.gain_bound if self._sent_failure else 1.0)
        sent = beta * (by_share * at_most).amax(dim=1)
        self._planned_strengths.add(planned, of_rounds=of_rounds)
        self._raise("sent_excess", sent / strengths.clamp(min=_SILENT_WATTS))
        self._raise("gain", peaks[draws.ratios > 0.0])
        return strengths

    def _raise(self, name: str, values: torch.Tensor) -> None:
        """Take values of any shape into account for the largest."""
        if values.numel():
            self._largest[name] = torch.maximum(self._largest[name].to(values.device), values.max())

    def _count_power(self, power_watts: torch.Tensor) -> None:
        """Count the powers of those who do send."""
        self._raise("power", power_watts)
        self.power_dbm.add(power_watts[power_watts > 0.0] * 1e3)

    def of_workers(self, kind: str) -> Doubles:
        """Return what each worker has of a kind, on the CPU; shape workers."""
        return np.asarray(self._workers[kind].cpu().numpy())

    @property
    def told_share(self) -> float:
        """What powers of the scenario's own slots are told as, over what they are."""
        return float(self.system.link.told_share(self.system))

    @property
    def worker_energy_joules(self) -> Doubles:
        """What each worker spent, the slot for the mean included; shape workers."""
        return self.of_workers("energy") + self.system.acquisition_joules / self.scenario.workers.count

    @property
    def energy_joules(self) -> float:
        """Total energy, tau sum P, or less where symbols are known to be smaller than 1; with that of acquisition."""
        return float(self.worker_energy_joules.sum())

    @property
    def limited_slots(self) -> int:
        """In how many slots P_max forced the power below what was asked."""
        return int(self._limited)

    @property
    def largest_power_watts(self) -> float:
        return float(self._largest["power"])

    @property
    def _watts_at_server(self) -> Doubles | None:
        """What the server received of each worker with several antennas; shape workers, or None with one antenna.

        Where gains are not drawn for all antennas, those of rounds have two bounds: on each, and on all together.
        """
        if "at_server" not in self._workers:
            return None
        in_rounds, plan = self.of_workers("in_rounds"), self._planned.with_rounds(self.rounds)
        air, antennas = plan.fact(facts.ImperfectAir), plan.fact(facts.Antennas)
        if self._sent_failure and antennas.in_rounds and self._planned_strengths is not None:
            watts, _ = self._planned_strengths.kinds(air.gain_bound, air.in_rounds)
            in_rounds = np.minimum(in_rounds, self.rounds * watts[-1] * antennas.in_rounds[-1])
        return self.of_workers("at_server") + in_rounds

    @property
    def ledger(self) -> Ledger:
        """What each worker spent of its privacy against the server, which has all its antennas."""
        at_server = self._watts_at_server
        received_watts = self.of_workers("received") if at_server is None else at_server
        return Ledger(self.of_workers("sent").astype(np.int64), received_watts)

    def in_all(self, of_slot: Callable[[System], Any]) -> Any:
        """Return what all slots and rounds took together, of which each takes ``of_slot``."""
        return self.system.in_all(of_slot, self.slots - self.rounds, self.rounds)

    @property
    def air_seconds(self) -> float:
        """How long all slots and the acquisition of workers take together."""
        before = self.system.acquisition_seconds + (0.0 if self.centring is None else self.centring.seconds)
        return float(before + self.in_all(lambda each: each.slot_seconds))

    @property
    def row_copies(self) -> int:
        """On how many workers a row of the data lies, at most."""
        return 1 if self.rows is None else int(self.rows.copies.max())

    @property
    def most_sent(self) -> int:
        """In how many slots a worker sends at most, and so how often it must be reachable."""
        return int(self._workers["sent"].max()) + (self.centring is not None)


class RowShifts:
    """Adds up, block by block, what the workers with a row have beyond the sum of what each has alone.

    With amplitudes a_i in a slot they have (sum a_i)^2, which is more than sum a_i^2 only where two of them meet in the
    slot; most slots need no more than a look.
    """

    def __init__(self, holding: Integers) -> None:
        self.holding, self.copies = holding, np.bincount(holding)
        self._row_of = torch.from_numpy(holding)
        self._watts = torch.zeros(3, len(self.copies), dtype=torch.float64)  # received, sent, at all antennas; x rows

    def add(self, who: torch.Tensor, *watts: torch.Tensor) -> None:
        """Take slots into account: who sends, with how much of each kind of watts; each is slots x scheduled."""
        if self._row_of.device != who.device:
            self._row_of, self._watts = self._row_of.to(who.device), self._watts.to(who.device)
        rows, count = self._row_of[who], len(self.copies)
        # NumPy sorts short rows twenty times faster than torch.
        ordered = rows.sort(dim=1).values if rows.is_cuda else torch.from_numpy(np.sort(rows.int().numpy(), axis=1))
        meet = (ordered[:, 1:] == ordered[:, :-1]).any(dim=1)
        if not meet.any():
            return
        rows = rows[meet]
        slots = torch.arange(len(rows), device=who.device)[:, None]
        pairs, place = torch.unique((slots * count + rows).flatten(), return_inverse=True)
        alone = torch.stack([each[meet].flatten() for each in watts])
        shifts, squares = (torch.zeros(len(watts), len(pairs), dtype=torch.float64, device=who.device) for _ in "ab")
        shifts.index_add_(1, place, alone.sqrt())
        squares.index_add_(1, place, alone)
        self._watts[: len(watts)].index_add_(1, pairs % count, shifts.square() - squares)

    def watts(self, kind: int, of_workers: Doubles) -> Doubles:
        """Return sum over slots of (sum a_i)^2 of each row, from that of a_i^2 of workers; ``kind`` as in ``add``."""
        return np.asarray(np.bincount(self.holding, of_workers) + self._watts[kind].cpu().numpy())


# Steps of SlotStrengths; values that differ by rounding alone are one kind.
_STEP_DB: Final = 0.01
_LOWEST_DB: Final = -700.0
_STEPS: Final = 140_000
_SAME: Final = 1e-9


class DecibelHistogram:
    """Counts of values in dB, in steps of 0.1 dB from -600 to 600; zero power falls into the lowest step."""

    def __init__(self) -> None:
        self.counts = torch.zeros(12_000, dtype=torch.int64)

    def add(self, values: torch.Tensor) -> None:
        """Count values of any shape; they are ratios or watts, not in dB yet."""
        step = values.flatten().log10().mul_(100.0).add_(6000.0)
        self.counts = _counted(self.counts, step.clamp_(0.0, len(self.counts) - 0.5).long())

    def quantile_db(self, share: float) -> float:
        """Return the middle of the step below which that share of the values lies."""
        counts = self.counts.cpu().numpy()
        step = int(np.searchsorted(np.cumsum(counts), share * counts.sum()))
        return float(np.linspace(-600.0, 600.0, len(counts) + 1)[min(step, len(counts) - 1)] + 0.05)


class SlotStrengths:
    """Counts of beta max q^2, in steps of 0.01 dB, each at the upper end of its step: the side that hides less."""

    def __init__(self) -> None:
        # Of slots and of rounds apart, since each kind may be exact by itself: of each step, smallest and largest.
        self._counts = [torch.zeros(_STEPS, dtype=torch.int64) for _ in range(2)]
        self._ends = [torch.tensor([math.inf, 0.0], dtype=torch.float64) for _ in range(2)]

    def add(self, received_watts: torch.Tensor, *, of_rounds: bool = False) -> None:
        """Count slots, or those of rounds; shape slots."""
        ends = self._ends[of_rounds].to(received_watts.device)
        smallest, largest = torch.aminmax(received_watts)
        self._ends[of_rounds] = torch.stack([torch.minimum(ends[0], smallest), torch.maximum(ends[1], largest)])
        step = received_watts.log10().mul_(10.0).sub_(_LOWEST_DB).div_(_STEP_DB).ceil_()
        self._counts[of_rounds] = _counted(self._counts[of_rounds], step.clamp_(0, _STEPS - 1).long())

    def kinds(self, gain: float = 1.0, in_rounds: Sequence[float] = ()) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Return the strengths in watts, and how many slots had each; exact where all are equal, or all of rounds.

        With a bound on gains; rounds with one on their mean (the last ``in_rounds``) are one kind, as strong as any is.
        """
        (watts, counts), (more_watts, more_counts) = self._of_kind(0), self._of_kind(1)
        watts, in_all = tuple(gain * each for each in watts), tuple(gain * each for each in more_watts)
        if in_rounds and more_counts:
            in_all, more_counts = (in_rounds[-1] * max(more_watts),), (sum(more_counts),)
        return (*watts, *in_all), (*counts, *more_counts)

    def _of_kind(self, kind: int) -> tuple[tuple[float, ...], tuple[int, ...]]:
        counts, (smallest, largest) = self._counts[kind].cpu().numpy(), self._ends[kind].tolist()
        if not counts.any():
            return (), ()
        if smallest >= largest * (1.0 - _SAME):
            return (largest,), (int(counts.sum()),)
        used = np.nonzero(counts)[0]
        upper_watts = 10.0 ** ((_LOWEST_DB + used * _STEP_DB) / 10.0)
        return tuple(np.minimum(upper_watts, largest).tolist()), tuple(counts[used].tolist())


def _counted(counts: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
    """Return the counts with one more for each step named, on the device of the steps; shape of the counts."""
    return counts.to(steps.device).add_(torch.bincount(steps, minlength=len(counts)))
