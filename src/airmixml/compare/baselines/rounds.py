"""Rounds in which workers send vectors of bounded norm at once, as gradients of networks are: power, noise, privacy.

The scenario's channel, power limit and privacy target are kept; only what is sent is another. So the power comes from
the same calibration as that of mixtures, and the statements from the same accountants.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from airmixml.compare.adversaries import Exposure
from airmixml.compare.methods import Outcome
from airmixml.compare.ours import exact_accountant, state_both, with_slots
from airmixml.privacy import Design, PrivacyStatement, Sensitivity, facts, state_privacy
from airmixml.radio.channel import draw_fading
from airmixml.radio.masking import masking_of
from airmixml.radio.path_loss import weakest_gain, worker_path_gain
from airmixml.radio.power import check_added_power
from airmixml.radio.power_calibration import private_received_watts
from airmixml.radio.system import adversary_named, planned_design
from airmixml.randomness.slot_words import slot_words
from airmixml.scenario import Mixing, Scenario
from airmixml.streams import Streams
from airmixml.units import db_to_ratio, dbm_to_watts
from airmixml.workers import SYMBOLS_PER_SECOND, Population
from airmixml.workers.gradients import BITS_PER_NUMBER

RECEIVER_NOISE_SHARE: Final = db_to_ratio(-20.0)
"""Receiver noise over what limits a method whose power no privacy target sets: more power would gain nothing."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Rounds:
    """What each round is received with, what it costs, and what it promises.

    Attributes:
        scenario: the target, and who sends when.
        design: what was sent, for the accountants.
        schedule: who sends; rounds x scheduled.
        received_watts: how strongly a vector of norm 1 is received in each round; shape rounds.
        worker_energy_joules: what each worker spends in all rounds; shape workers.
        symbols: numbers in a vector.
        participations: rounds that the worker with the largest loss sends in.
    """

    scenario: Scenario
    design: Design
    schedule: NDArray[np.int64]
    received_watts: NDArray[np.float64]
    worker_energy_joules: NDArray[np.float64]
    symbols: int
    participations: int

    def __len__(self) -> int:
        return len(self.received_watts)

    @property
    def noise_deviation(self) -> NDArray[np.float64]:
        """Deviation of the noise on each number of the *mean* of what is sent; shape rounds.

        The receiver's, and that of the workers where they bring it; their masks cancel.
        """
        half_noise_watts = self.scenario.privacy.noise_kind.in_sum_watts(self.scenario) / 2.0
        return np.asarray(np.sqrt(half_noise_watts / self.received_watts) / self.scenario.radio.scheduled)

    def state(self, adjacency: str, *, against: str = "") -> PrivacyStatement:
        """Return what holds against the scenario's adversary, or the one named, for the powers really used."""
        privacy, name = self.scenario.privacy, against or self.scenario.privacy.adversary
        adversary = adversary_named(name, self.scenario)
        accountant = exact_accountant(name, everybody_sends=self.design.everybody_sends)
        return state_privacy(self.design, adversary, accountant, adjacency=adjacency, delta=privacy.delta)

    def outcome(self, accuracy: float, operations: int) -> Outcome:
        """Return what such rounds gave and cost; ``operations`` are one average worker's, of all rounds."""
        uplink = len(self) * self.symbols
        return Outcome(
            accuracy=accuracy,
            privacy=state_both(self.scenario, self.state),
            exposure=Exposure.of_statements(
                lambda name: self.state(self.scenario.privacy.adjacency, against=name),
                noise=self.scenario.privacy.noise,
            ),
            uplink_symbols=uplink,
            downlink_bits=BITS_PER_NUMBER * uplink,
            slots_per_worker=self.participations,
            air_seconds=uplink / SYMBOLS_PER_SECOND,
            energy_joules=float(self.worker_energy_joules.sum()),
            worker_multiply_accumulates=operations,
        )


def plan_rounds(
    scenario: Scenario, population: Population, *, rounds: int, scheduled: int, symbols: int, norm: float
) -> Rounds:
    """Return rounds with so many scheduled workers, each of which sends a vector of ``symbols`` numbers.

    They keep the scenario's channel, noise, power limit and privacy target, for vectors of a Euclidean norm of at most
    C = ``norm``. Two of them differ by at most 2 C, so a replacement moves a sum by 4 C^2, a removal by C^2. The whole
    target is for them: nothing of it is for a mean estimated over the air.
    """
    distance_metres, mixing = population.distance_metres, Mixing(policy="equalmix", power="dp")
    planned = with_slots(scenario, slots=rounds, scheduled=scheduled, mixing=mixing)
    sensitivity = Sensitivity(removal=norm**2, replacement=4.0 * norm**2)
    asked_watts = private_received_watts(planned, sensitivity, distance_metres)
    source = slot_words(Streams(planned.seed), "schedule")
    schedule = planned.radio.schedule_kind.draw(planned, range(rounds), source).numpy()
    gains = power_gains(planned, distance_metres, schedule)
    limit_watts = dbm_to_watts(planned.radio.max_power_dbm)
    received_watts = np.minimum(asked_watts, limit_watts * gains.min(axis=1))
    power_watts = received_watts[:, None] / gains
    masking = masking_of(planned)
    check_added_power(planned, masking, distance_metres)
    added_watts = 0.0 if masking is None else masking.added_watts
    # A vector of norm C takes C^2 times the energy of one symbol at full amplitude; noise and masks are on all symbols.
    energy_watts = power_watts * min(norm**2, float(symbols)) + added_watts * symbols / gains
    energy, sent_watts, every_received = (
        np.bincount(schedule.ravel(), each.ravel(), population.count)
        for each in (energy_watts, power_watts, np.repeat(received_watts, scheduled))
    )
    participations = int(np.bincount(schedule.ravel())[every_received.argmax()])
    kinds, counts = np.unique(received_watts, return_counts=True)
    floor = weakest_gain(planned, distance_metres)
    design = replace(
        planned_design(planned, sensitivity, received_watts=asked_watts, floor=floor),
        received_watts=tuple(kinds.tolist()),
        counts=tuple(counts.tolist()),
    )
    worst = facts.Drawn(
        received_watts=float(every_received.max()), participations=participations, sent_watts=float(sent_watts.max())
    )
    return Rounds(
        scenario=planned,
        design=design.stating(worst),
        schedule=schedule,
        received_watts=received_watts,
        worker_energy_joules=energy / SYMBOLS_PER_SECOND,
        symbols=symbols,
        participations=participations,
    )


def power_gains(
    scenario: Scenario,
    distance_metres: NDArray[np.float64],
    schedule: NDArray[np.int64] | None = None,
    slots: int = 0,
) -> NDArray[np.float64]:
    """Return |h|^2 of those who send, by default all; slots x scheduled, or 1 x scheduled where all slots are alike.

    Of so many slots, by default the scenario's.
    """
    radio, gains = scenario.radio, worker_path_gain(scenario, distance_metres) ** 2
    sending = gains[None] if schedule is None else gains[schedule]
    if radio.fading == "none":
        return np.asarray(sending)
    fading = draw_fading(
        radio, range(slots or radio.slots), sending.shape[1], slot_words(Streams(scenario.seed), "fading")
    )
    return np.asarray(sending * fading.numpy() ** 2)


def worker_gains(scenario: Scenario, population: Population) -> NDArray[np.float64]:
    """Return |h|^2 of every worker in the one slot in which it sends; shape workers."""
    gains = power_gains(scenario, population.distance_metres, slots=1)
    return np.asarray(gains[0])
