"""The privacy of a transmission whose slots were drawn: what each adversary can learn of workers and rows.

A rehearsal is a transmission without data: who is scheduled, with which ratios and powers, tallied as the real one.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from typing import Any, Final, Self

import numpy as np
import torch

from airmixml.arrays import Doubles, Integers, in_order, watts_to_dbm
from airmixml.data import DataSet
from airmixml.messages import PluginError, PrivacyError, shown
from airmixml.privacy import ADJACENCIES, Design, Ledger, PrivacyStatement, facts, state_privacy
from airmixml.privacy.adversaries import Everyone
from airmixml.privacy.facts import COMPOSED_EPSILON, COMPOSED_SHARE, SHARE_FOR_TAILS
from airmixml.privacy.statements import together, with_any_schedule
from airmixml.progress import Progress, silent
from airmixml.radio.draws import (
    AirSetting,
    MixtureBlock,
    check_family,
    draw_slots,
    in_blocks,
    slots_of_rounds,
    suitable_block,
)
from airmixml.radio.mixing import TransmitPower
from airmixml.radio.privacy_target import row_statement, row_statements, slots_target
from airmixml.radio.slot_totals import DecibelHistogram, SlotTotals
from airmixml.radio.system import adversary_named
from airmixml.registries import ACCOUNTANTS, ADVERSARIES
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.workers import Population, place_workers

_EXACT: Final = ("server", "gdp")


class Tally(SlotTotals):
    """What the slots of one transmission add up to, and the privacy that follows."""

    before_the_draw = False  # whether statements hold for any schedule, and so say nothing of the drawn one

    @property
    def design(self) -> Design:
        """What was really sent, for the accountants.

        On an imperfect air that is with the gains that were drawn, the worst piece of a slot counting for all of it; or
        with the bound on gains, where statements say nothing of the draw, or silent workers have gains that nobody
        drew.
        """
        self.check_limit()
        received_watts, counts = self._strengths.kinds()
        planned, at_server = self._planned.with_rounds(self.rounds), self._watts_at_server
        gain_peak = float(self._largest["gain"])
        sent_bound = max(gain_peak, self.system.gain_bound) if self._sent_failure else gain_peak
        sent = replace(self._planned.fact(facts.Transmitters), loudness=sent_bound, failure=self._sent_failure)
        stated: list[facts.Fact] = [facts.PowerTells()] if self.limited_slots else []
        if self._planned_strengths is not None and (self.before_the_draw or self._planned.sampling == "poisson"):
            in_rounds = planned.fact(facts.ImperfectAir).in_rounds
            received_watts, counts = self._planned_strengths.kinds(self.system.gain_bound, in_rounds)
        else:
            sent = replace(sent, excess=float(self._largest["sent_excess"]))
            stated += [] if self._planned_strengths is None else [facts.ImperfectAir(gain_bound=gain_peak)]
        antennas = replace(planned.fact(facts.Antennas), failure=0.0 if at_server is None else self._sent_failure)
        if not self.before_the_draw:
            antennas = replace(antennas, gain=float(self._largest["antenna_gain"]), in_rounds=())
        stated += [sent, antennas]
        if not self.before_the_draw:
            stated.append(
                facts.Drawn(
                    received_watts=float(self._workers["received"].max()),
                    participations=int(self.ledger.participations[self.ledger.received_watts.argmax()]),
                    server_watts=None if at_server is None else float(at_server.max()),
                    sent_watts=sent_bound * float(self.worker_energy_joules.max()) / self.system.joules_per_watt,
                )
            )
        return replace(planned, received_watts=received_watts, counts=counts).stating(*stated)

    def check_limit(self) -> None:
        """Refuse a schedule that let a worker send more often than it says: no epsilon would hold."""
        limit, most = self._planned.fact(facts.OwnSchedule).most, int(self._workers["sent"].max())
        if most > limit > 0:
            raise PluginError(
                f"radio.schedule = {shown(self.scenario.radio.schedule)}: a worker sends in {most} slots, and its "
                f"most_participations says {limit}; must be at least {most}"
            )

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
        joined, at_server = together(self.design, copies), self._watts_at_server
        sent_watts = self.rows.watts(1, self.worker_energy_joules / self.system.joules_per_watt)
        loudness = joined.fact(facts.Transmitters).loudness
        assert loudness is not None
        return joined.stating(
            replace(
                joined.fact(facts.Drawn),
                received_watts=float(self.rows.watts(0, self.of_workers("received")).max()),
                server_watts=None if at_server is None else float(self.rows.watts(2, at_server).max()),
                sent_watts=loudness * float(sent_watts.max()),
            )
        )

    @property
    def statements(self) -> list[PrivacyStatement]:
        """The scenario's own statement, the exact one against the server, other pairs; then for other neighbours."""
        return self._answers()[0]

    def _answers(self) -> tuple[list[PrivacyStatement], dict[str, str]]:
        """Return the statements, and of each adversary without any why there is none."""
        target = self.scenario.privacy
        first = [(target.adversary, target.accountant), _EXACT]
        every = product(ADVERSARIES.names, ACCOUNTANTS.names)
        design, stated, unstated = self.design, [], dict[str, str]()
        for adversary, accountant in dict.fromkeys([*first, *every]):
            try:
                stated.append(self._state(adversary, accountant, design=design))
            except PrivacyError as problem:  # an accountant that cannot treat this adversary has nothing to say
                if (adversary, accountant) == first[0]:
                    raise
                if adversary != Everyone.name or design.says(facts.WorkersNoise):
                    unstated.setdefault(adversary, str(problem))
        other = next(adjacency for adjacency in ADJACENCIES if adjacency != target.adjacency)
        for adversary, accountant in dict.fromkeys(first):
            with suppress(PrivacyError):
                stated.append(self._state(adversary, accountant, other, design))
        covered = {each.adversary for each in stated}
        return stated, {adversary: why for adversary, why in unstated.items() if adversary not in covered}

    def worker_epsilons(self) -> Doubles:
        """Return what the server can learn of each worker, exactly; shape workers."""
        delta, server = slots_target(self.scenario)[1], self.privacy_against_server
        adjacency, failure = server.adjacency, server.gain_failure
        # Tails are cut as for the worst worker, which serves the others too.
        spent = partial(self.ledger.epsilons, **self._as_gaussian(server.epsilon, delta, SHARE_FOR_TAILS))
        if self.system.integers is not None:
            delta *= 1.0 - SHARE_FOR_TAILS
        if self.centring is not None and self.centring.exact:
            return spent(delta=self.scenario.privacy.delta - failure, spent_mu=self._mean_mu)
        for_the_mean = 0.0 if self.centring is None else self.centring.epsilon(_EXACT[0], adjacency)
        return for_the_mean + spent(delta=delta - failure)

    def _as_gaussian(self, epsilon: float, delta: float, share: float, copies: Integers | int = 1) -> dict[str, Any]:
        """Return what ``Ledger.losses`` takes; of integers as ``GaussianSlots.widened`` has them."""
        adjacency, noise_watts = self.scenario.privacy.adjacency, self._planned.in_workers_noise().noise_watts
        known = {"noise_watts": noise_watts, "sensitivity": self.sensitivity.squared_move(adjacency, "none")}
        if self.system.integers is None:
            return known
        slots = adversary_named(_EXACT[0], self.scenario).mechanism(self.design, adjacency)
        cut = epsilon, delta, share
        noise_watts /= max(slots.squared_tilts(*cut))
        return {**known, "noise_watts": noise_watts, "most": copies**2 * slots.widened(*cut).total}

    @property
    def _mean_mu(self) -> float:
        """mu of the slot for the mean; 0 where there is none."""
        return 0.0 if self.centring is None else self.centring.mu(self.scenario.privacy.adjacency)

    def _squared_mu(self, ledger: Ledger, copies: Integers | int = 1) -> Doubles:
        """Return mu^2 of all other slots against the server, as a ledger has them; shape of the ledger."""
        # What is rounded counts for more where losses are added to those of other runs.
        delta = self.scenario.privacy.delta
        return ledger.losses(**self._as_gaussian(COMPOSED_EPSILON, delta, COMPOSED_SHARE, copies))

    def worker_squared_mu(self) -> Doubles:
        """Return mu^2 of each worker against the server, the slot for the mean included; shape workers."""
        return self._squared_mu(self.ledger) + self._mean_mu**2

    def row_squared_mu(self) -> Doubles | None:
        """Return the same of each row that workers hold, of all its workers together; None where none is on two."""
        if self.rows is None:
            return None
        received_watts = self.rows.watts(2 if "at_server" in self._workers else 0, self.ledger.received_watts)
        copies = self.rows.copies
        return self._squared_mu(Ledger(copies, received_watts), copies) + (copies * self._mean_mu) ** 2

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
            target_epsilon=target.epsilon if scenario.mixing.power_policy.keeps_target and asked_for else None,
            better=asked_for,
        )
        if self.centring is None:
            return with_any_schedule(statement, design or self.design, adversary_named(adversary, scenario))
        return self.centring.added_to(statement)

    @property
    def transmit_power(self) -> TransmitPower:
        """Powers of all that sent, in dBm."""
        largest = float(watts_to_dbm(self.largest_power_watts))
        median = min(self.power_dbm.quantile_db(0.5), largest)
        return TransmitPower(median=median, largest=largest, limit=self.scenario.radio.max_power_dbm)

    def to_dict(self) -> dict[str, Any]:
        """Return the tally as plain values for JSON."""
        energy, (stated, unstated) = self.worker_energy_joules, self._answers()
        integers, link = self.system.integers, self.system.link.to_dict(self.system)
        return {
            "slots": self.slots,
            "symbols_per_slot": self.system.symbols_on_air,
            "air_seconds": self.air_seconds,
            "energy_joules": self.energy_joules,
            "worker_energy_joules": {
                "mean": float(energy.mean()),
                "median": float(np.median(energy)),
                "largest": float(energy.max()),
            },
            "power_dbm": asdict(self.transmit_power),
            "power_limited_slots": self.limited_slots,
            **({"rounds": rounds} if (rounds := self.system.about_rounds) else {}),
            **({} if integers is None else {"integers": integers.to_dict()}),
            **({} if link is None else {"link": link}),
            "privacy": [each.to_dict() for each in stated],
            "unstated": unstated,
            "ledger": self.ledger.summary(self.worker_epsilons()),
        }


class AirReport(Tally):
    """Adds up the blocks of one transmission: their draws, and how well the mixtures were received."""

    def __init__(self, setting: AirSetting, dataset: DataSet, *, holding: Integers | None = None) -> None:
        averaged = None if dataset.private_mean is None else len(dataset.private_mean)
        super().__init__(setting, averaged=averaged, holding=holding)
        self.snr_db = DecibelHistogram()
        self.input_snr_db = DecibelHistogram()
        self.label_snr_db = DecibelHistogram()
        self._input_share = self.signal.input_symbols / self.signal.symbols
        self._sums = torch.zeros(2, dtype=torch.float64)  # of the noise variance, and of squared shares
        self._received_slots = 0  # without those of rounds

    @classmethod
    def of(cls, scenario: Scenario, dataset: DataSet, population: Population) -> Self:
        """Return the report of a scenario before its first slot."""
        return cls(AirSetting.of(scenario, dataset.input_dim, dataset.label_dim, population.distance_metres), dataset)

    def add(self, block: MixtureBlock) -> None:
        self.add_draws(block.drawn)
        self._received_slots += block.slots
        sums = [block.noise_variance.sum(), block.drawn.ratios.square().sum()]
        self._sums = self._sums.to(block.snr.device) + torch.stack(sums)
        self.input_snr_db.add(block.snr[0])
        self.label_snr_db.add(block.snr[1])
        share = self._input_share
        self.snr_db.add(share * block.snr[0] + (1.0 - share) * block.snr[1])

    @property
    def noise_variance(self) -> float:
        """Mean over the slots of the variance of the noise on an input symbol: sigma_n^2 / (2 beta), or as measured."""
        return float(self._sums[0]) / self._received_slots

    @property
    def variance_share(self) -> float:
        """How much of the variance of the N workers' samples the mixtures' own variance is; see ``Schedule``."""
        radio, square_share = self.scenario.radio, float(self._sums[1]) / self._received_slots
        share: float = radio.schedule_kind.varying_share(square_share, radio.scheduled, self.scenario.workers.count)
        return share

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "snr_db": self.snr_db.quantile_db(0.5),
            "snr_inputs_db": self.input_snr_db.quantile_db(0.5),
            "snr_labels_db": self.label_snr_db.quantile_db(0.5),
        }


def rehearse(
    scenario: Scenario, input_dim: int, label_dim: int, *, progress: Progress = silent, holding: Integers | None = None
) -> Tally:
    """Return the tally that ``simulate`` with that seed has, without data."""
    (tally,) = rehearse_family([scenario], input_dim, label_dim, progress=progress, holding=holding)
    return tally


def rehearse_family(
    scenarios: Sequence[Scenario],
    input_dim: int,
    label_dim: int,
    *,
    progress: Progress = silent,
    holding: Integers | None = None,
) -> list[Tally]:
    """Rehearse scenarios that differ only in power, privacy target and learner; all else is drawn once."""
    check_family(scenarios)
    distance_metres = placed_distances(scenarios[0])
    settings = [AirSetting.of(scenario, input_dim, label_dim, distance_metres) for scenario in scenarios]
    tallies = [Tally(each, holding=holding) for each in settings]
    first, every = settings[0], range(settings[0].scenario.radio.slots)
    for draws in in_order(partial(draw_slots, first), in_blocks(every, suitable_block(first))):
        for each, tally in zip(settings, tallies, strict=True):
            tally.add_draws(draws if each is first else draws.powered_as(each))
        progress("rehearsal", tallies[0].slots, len(every))
    for tally in tallies:
        if tally.system.rounds:  # one after the other, as they are sent
            setting = AirSetting.of(tally.scenario, input_dim, label_dim, distance_metres, in_rounds=True)
            for slot in slots_of_rounds(tally.scenario):
                tally.add_draws(draw_slots(setting, range(slot, slot + 1)), of_rounds=True)
    return tallies


def placed_distances(scenario: Scenario) -> Doubles:
    """Return how far from the server the seed places each worker; shape workers."""
    workers = scenario.workers
    return place_workers(
        workers.count, workers.side_metres, workers.min_distance_metres, Streams(scenario.seed).generator("placement")
    )
