"""Who transmits when (Algorithm 1, line 5): one class for each kind of schedule, behind the registry ``SCHEDULES``.

With a limit on a worker's participations the slots are cut into rounds. In a round no worker sends twice: the seats of
all its slots together are one uniform sample without replacement. Rounds are independent of each other, and there are
no more of them than the limit. A limit of T gives rounds of one slot, the paper's schedule.

A schedule sees neither data nor channels. Of ours it is known how they are drawn, so that they hide workers from an
adversary who does not see them. One's own says only in how many slots a worker sends at most: every adversary is taken
to know it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar, Final

import numpy as np
from scipy.special import bdtr

from airmixml.arrays import Doubles, Integers, own_numbers, torch
from airmixml.messages import PluginError, ScenarioError
from airmixml.privacy.design import binomial_quantile, slots_per_round
from airmixml.privacy.facts import Fact, OwnSchedule
from airmixml.radio.mixing import draw_ratios
from airmixml.randomness.slot_words import PhiloxWords, SlotWords, draw_schedule
from airmixml.scenario import Radio, Scenario

_SMALLEST_DELTA: Final = 1e-15
# More workers than there are seats would toss heads in a slot with this probability: over 10^12 slots, the most there
# are, far below the smallest delta that a scenario with a Poisson schedule may ask for.
_NO_SEAT_LEFT: Final = 1e-30


class Schedule:
    """|N_t| different workers in each slot, by a rule of one's own."""

    about: str
    sampling: ClassVar[str] = "without-replacement"  # how the workers of a slot are drawn, if they are
    by_coin: ClassVar[bool] = False  # whether chance decides how many workers send, each with the share 1 / |N_t|
    uniform: ClassVar[bool] = False  # whether |N_t| are drawn, any set of them as likely as any other

    def pick(self, slots: Integers, scheduled: int, workers: int, chances: Callable[[int], Doubles]) -> Integers:
        """Return the numbers (from 0) of those who send in these slots, all different in each; slots x scheduled.

        ``chances(n)`` are uniform random numbers, slots x n, the same ones whenever a slot is drawn.
        """
        raise NotImplementedError

    def most_participations(self, slots: int, scheduled: int, workers: int) -> int:
        """Return the most slots of a run of so many in which any worker sends: privacy statements rest on it."""
        raise NotImplementedError

    def check(self, tables: Any) -> None:
        """Refuse what a schedule cannot keep; ``tables`` are those of a scenario."""
        tables.must_be("radio.max_participations", 0, f"for {_set(tables.radio)}, which has a limit of its own")
        if tables.workers.count and tables.radio.scheduled:
            self._most(tables.radio, tables.workers.count)

    def facts(self, scenario: Scenario) -> tuple[Fact, ...]:
        """Return what it says of privacy."""
        return (OwnSchedule(most=self._most(scenario.radio, scenario.workers.count)),)

    def seats(self, scenario: Scenario) -> int:
        """Return the most workers that may transmit in a slot."""
        return scenario.radio.scheduled

    def seats_with_gains(self, scenario: Scenario) -> int:
        """Return the seats of a slot whose gains must be bounded."""
        return scenario.radio.scheduled

    def draw(self, scenario: Scenario, slots: range, source: SlotWords) -> torch.Tensor:
        """Draw the workers of these slots; slots x seats."""

        def chances(count: int) -> Doubles:
            return np.asarray(source.uniforms(slots, count).cpu(), dtype=np.float64)

        scheduled, workers = scenario.radio.scheduled, scenario.workers.count
        numbers = np.arange(slots.start, slots.stop)
        found = own_numbers(
            lambda: self.pick(numbers, scheduled, workers, chances),
            (len(slots), scheduled),
            lambda who: (
                ((who >= 0) & (who < workers) & (who == np.floor(who))).all(axis=1)
                & (np.diff(np.sort(who, axis=1)) > 0).all(axis=1)
            ),
            f"radio.schedule = {type(self).__name__}: its pick must return slots x scheduled whole numbers from 0 "
            f"to {workers - 1}, all different in a slot",
        )
        return torch.from_numpy(found.astype(np.int64)).to(source.device)

    def shares(
        self, scenario: Scenario, magnitude: torch.Tensor, slots: range, source: SlotWords, dealing: SlotWords
    ) -> torch.Tensor:
        """Draw the ratios of these slots and deal them out to workers with these channels; slots x seats."""
        mixing, drawn = scenario.mixing, draw_ratios(scenario.mixing, scenario.radio.scheduled, slots, source)
        dealt: torch.Tensor = mixing.assignment_kind.deal(mixing, drawn, magnitude, slots, dealing)
        return dealt

    def largest_shares(self, scenario: Scenario, ratios: torch.Tensor) -> torch.Tensor:
        """Return the largest share of each slot; shape slots."""
        return ratios.amax(dim=1)

    def varying_share(self, square_share: float, scheduled: int, workers: int) -> float:
        """Return how much of a worker's variation a slot carries: variance of the mixture over that of the samples.

        Of N workers drawn without replacement with shares that add up to 1 it is (sum_i q_i^2 - 1 / N) N / (N - 1);
        ``square_share`` is the mean of sum_i q_i^2, ``scheduled`` |N_t|.
        """
        if workers == 1:
            return 0.0
        # Equal shares of all leave nothing but rounding.
        left = (square_share - 1.0 / workers) * workers / (workers - 1)
        return left if left > 1e-9 * square_share else 0.0

    def _most(self, radio: Radio, workers: int) -> int:
        """Return the limit; refuse a schedule that cannot state one, since no epsilon would follow."""
        needed = -(-radio.slots * radio.scheduled // workers)
        try:
            most = self.most_participations(radio.slots, radio.scheduled, workers)
        except (TypeError, ValueError, NotImplementedError):
            most = 0
        if isinstance(most, bool) or not isinstance(most, (int, np.integer)) or most < needed:
            raise PluginError(
                f"radio.schedule = {type(self).__name__}: its most_participations must return in how many slots one "
                f"worker sends at most, a whole number of at least {needed} here; return slots if no limit holds"
            )
        return int(most)


class FixedSize(Schedule):
    """|N_t| of N, uniformly, without replacement; where participations are limited, in rounds."""

    about = "exactly |N_t| workers per slot, drawn at random"
    uniform = True

    def check(self, tables: Any) -> None:
        """Nothing is refused."""

    def facts(self, scenario: Scenario) -> tuple[Fact, ...]:
        return ()

    def draw(self, scenario: Scenario, slots: range, source: SlotWords) -> torch.Tensor:
        radio, workers = scenario.radio, scenario.workers.count
        if radio.scheduled == workers:
            # Everybody sends in every slot, and shares are dealt out at random: the order says nothing.
            return torch.arange(workers, device=source.device).expand(len(slots), workers)
        if not radio.max_participations:
            return draw_schedule(slots, radio.scheduled, workers, source)
        length = slots_per_round(radio.slots, radio.max_participations)
        rounds = range(slots.start // length, (slots.stop - 1) // length + 1)
        draw = _draw_rounds if isinstance(source, PhiloxWords) else _draw_rounds.__wrapped__  # secrets are not kept
        drawn = draw(rounds, length, radio.scheduled, workers, source)
        offset = slots.start - rounds.start * length
        return drawn[offset : offset + len(slots)]


class Poisson(FixedSize):
    """Each worker by a coin of its own. As many as that would be are drawn; seats that nobody takes stay silent."""

    about = "each worker by its own coin, |N_t| on average"
    sampling = "poisson"
    by_coin = True
    uniform = False

    def check(self, tables: Any) -> None:
        mixing, delta, poisson = tables.mixing, tables.privacy.delta, f"for {_set(tables.radio)}"
        if mixing.policy != "equalmix" or mixing.prior:
            raise ScenarioError(
                f'{_set(tables.radio)}: needs mixing.policy = "equalmix" without a prior; with a number of '
                "workers that chance decides, each sends with the share 1 / radio.scheduled"
            )
        power = f'must be "dp" or "fixed" {poisson}; the power must not depend on who sends'
        tables.must(not mixing.power_policy.follows_channels, "mixing.power", power)
        seats = f"must be at least {_SMALLEST_DELTA:g} {poisson}, whose slots have seats for all but the rarest tosses"
        tables.must(delta == 0.0 or delta >= _SMALLEST_DELTA, "privacy.delta", seats)
        tables.must_be("radio.max_participations", 0, f"{poisson}, which keeps no limit")

    def seats(self, scenario: Scenario) -> int:
        return max(1, binomial_quantile(_NO_SEAT_LEFT, scenario.workers.count, scenario.sampling_rate))

    def seats_with_gains(self, scenario: Scenario) -> int:
        return scenario.workers.count

    def draw(self, scenario: Scenario, slots: range, source: SlotWords) -> torch.Tensor:
        return draw_schedule(slots, self.seats(scenario), scenario.workers.count, source)

    def shares(
        self, scenario: Scenario, magnitude: torch.Tensor, slots: range, source: SlotWords, dealing: SlotWords
    ) -> torch.Tensor:
        """Draw which seats are taken: Binomial(N, |N_t| / N) of them."""
        seats = scenario.seats
        chances = _chances_to_be_fewer(scenario.workers.count, scenario.sampling_rate, seats)
        fewer = torch.tensor(chances, dtype=torch.float64, device=source.device)
        taken = torch.searchsorted(fewer, source.uniforms(slots, 1))
        return (torch.arange(seats, device=source.device) < taken).double().div_(scenario.radio.scheduled)

    def largest_shares(self, scenario: Scenario, ratios: torch.Tensor) -> torch.Tensor:
        return ratios.new_full((len(ratios),), 1.0 / scenario.radio.scheduled)

    def varying_share(self, square_share: float, scheduled: int, workers: int) -> float:
        """Return (1 - r) / |N_t| for a coin of rate r, of E[x x^T], mean and all.

        How many tossed heads is nobody's to know, so that does not enter.
        """
        return (1.0 - scheduled / workers) / scheduled


def _set(radio: Radio) -> str:
    return f'radio.schedule = "{radio.schedule}"'


@lru_cache(maxsize=8)
def _chances_to_be_fewer(workers: int, rate: float, seats: int) -> tuple[float, ...]:
    """Return P(Binomial(N, rate) <= n) for n below the seats."""
    return tuple(bdtr(np.arange(seats), workers, rate).tolist())


@lru_cache(maxsize=2)
def _draw_rounds(rounds: range, length: int, scheduled: int, workers: int, source: SlotWords) -> torch.Tensor:
    """Draw whole rounds, kept because a long one serves many blocks of slots; (rounds length) x scheduled."""
    return draw_schedule(rounds, length * scheduled, workers, source).reshape(len(rounds) * length, scheduled)
