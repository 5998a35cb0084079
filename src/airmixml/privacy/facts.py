"""Privacy facts: what each stage of a run says about a worker's privacy, and how often that fails.

A stage states the facts that it knows, and a ``Design`` lists them. An adversary asks for those that it sees. A kind
that is not listed is as its defaults say: there is nothing of it. A new mechanism adds a kind of fact, and says there
what it reveals and what becomes of it where powers change.

Slots of integers are Gaussian mechanisms but for their tails, of which a share of delta takes care. Vectors that are
rounded at random to integers, in noise of which one step in one number has mu = m, are at distance s mu-GDP up to a
total variation distance of d eta on either side (Theorem 2 of docs/trust.md), with

    mu = s m (e^(G m) - 1) / (G m),    G = m - Phi^-1(eta),

so that delta grows by (1 + e^epsilon) d eta. Sums compose: mu^2 add up, and so do the d eta.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Self

from scipy.special import ndtri_exp

SHARE_FOR_TAILS: Final = 1e-3
"""Of delta: what is set aside for tails, in which rounding may tell more."""

COMPOSED_SHARE: Final = 1e-9
"""The same for losses that are to be added up with those of other runs, whatever epsilon comes out (up to 200)."""

COMPOSED_EPSILON: Final = 200.0
_ROUNDING_MARGIN: Final = 1e-13
_LARGEST_EXPONENT: Final = 350.0  # of what can be squared


def tilt(step_mu: float, log_cut: float) -> float:
    """Return (e^(G m) - 1) / (G m), m = ``step_mu``, eta = exp(``log_cut``); infinite where too large to matter."""
    exponent = (step_mu - float(ndtri_exp(log_cut))) * step_mu
    return math.expm1(exponent) / exponent * (1.0 + _ROUNDING_MARGIN) if exponent < _LARGEST_EXPONENT else math.inf


def log_cut(numbers: int, epsilon: float, delta: float, share: float = SHARE_FOR_TAILS) -> float:
    """Return ln eta with (1 + e^epsilon) d eta = the share of delta that is set aside."""
    assumed = max(epsilon, 0.0)
    return math.log(share * delta / numbers) - assumed - math.log1p(math.exp(-assumed))


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """What makes sums of integers other than Gaussian, of each kind of slots."""

    step_mu: tuple[float, ...]  # m, of a single step in a single number
    numbers: tuple[int, ...]  # d, that are rounded in one slot

    def times(self, copies: int) -> "Rounding":
        """Return that of so many workers."""
        return replace(self, numbers=tuple(copies * each for each in self.numbers))

    def squared_tilts(self, log_cut: float) -> tuple[float, ...]:
        """Return by how much mu^2 of a slot of each kind is larger than without rounding, eta = exp(``log_cut``)."""
        return tuple(tilt(each, log_cut) ** 2 for each in self.step_mu)


@dataclass(frozen=True, kw_only=True)
class Fact:
    """What one stage says; each kind can be made without arguments and then says nothing."""

    def reveals_schedule(self, colluders: int) -> str:
        """Return what tells an adversary with so many colluders who was scheduled, in words; empty: nothing does."""
        return ""

    def scaled(self, factor: float) -> Self:
        """Return the fact where ``factor`` times the power is received."""
        return self

    def of_copies(self, copies: int, factor: float) -> Self:
        """Return the fact where one worker sends what so many do: ``factor`` times the power, at most."""
        return self


@dataclass(frozen=True, kw_only=True)
class WorkersNoise(Fact):
    """Noise that workers bring. With it all powers are as planned: too large a gain raises noise and signal alike.

    Powers are per complex symbol, as if they were received. An isolating listener hears every worker alone, without
    noise of its own. Where workers send integers, which ``rounding`` tells, no receiver's noise and no hidden schedule
    counts: a sum hides no more than what each worker brings.
    """

    alone_watts: float = 0.0  # what hides a worker from an isolating listener
    in_sum_watts: float = 0.0  # what honest workers add to the receiver's; 0 where gains decide how much arrives
    by: str = ""  # what it is, in words
    failure: float = 0.0  # probability with which it is less
    rounding: Rounding | None = None  # of integers: what the noise leaves out, of each slot
    #: Colluders, chosen without knowing who shares masks with whom, who expose no worker, at most; None: no masks.
    withstands: int | None = None
    if_withstood: "WorkersNoise | None" = None  # the same if so many do collude

    def reveals_schedule(self, colluders: int) -> str:
        if self.rounding is not None:
            return "sums of integers are accounted for one by one"
        told = self.in_sum_watts and colluders > 0
        return "workers who hide each other know who sends, and some of them collude" if told else ""

    def of_copies(self, copies: int, factor: float) -> Self:
        """Return the fact where each of the copies is rounded."""
        return self if self.rounding is None else replace(self, rounding=self.rounding.times(copies))


@dataclass(frozen=True, kw_only=True)
class ImperfectAir(Fact):
    """An air that is not ideal: a worker may be received or heard with up to ``gain_bound`` times the planned power.

    ``Design.received_watts`` contains the bound; after a run it is what was drawn.
    """

    gain_bound: float = 1.0
    #: Bounds on the mean gain of a worker in the first, the first two ... rounds, which are the last kind of slots;
    #: empty where gains have ``gain_bound`` alone.
    in_rounds: tuple[float, ...] = ()
    gain_failure: float = 0.0  # probability with which some worker is received more strongly

    def of_copies(self, copies: int, factor: float) -> Self:
        return replace(self, gain_failure=min(copies * self.gain_failure, 1.0))

    def of_kinds(self, kinds: int) -> tuple[float, ...]:
        """Return the bound of each of so many kinds of slots."""
        return (*[self.gain_bound] * (kinds - 1), self.in_rounds[-1] if self.in_rounds else self.gain_bound)


@dataclass(frozen=True, kw_only=True)
class Antennas(Fact):
    """Several antennas of the server, of which mixtures come from one.

    With all of them it has up to ``gain`` times the power of a worker in the mixtures, which is not contained in
    ``Design.received_watts``; infinite where nothing bounds that.
    """

    gain: float = 1.0
    in_rounds: tuple[float, ...] = ()  # the same in the mean of the first, the first two ... rounds, as of an air
    count: int = 1  # how many the server is assumed to have
    many: float = 0.0  # the same gain if it had many (``evaluation.MANY_ANTENNAS``); 0: as many times that of each
    failure: float = 0.0  # after a run, probability with which ``Drawn.server_watts`` is exceeded all the same

    def of_copies(self, copies: int, factor: float) -> Self:
        return replace(self, failure=min(copies * self.failure, 1.0))


@dataclass(frozen=True, kw_only=True)
class Transmitters(Fact):
    """What workers send, for an adversary with a receiver of its own."""

    weakest_gain: float = 0.0  # power gain of the weakest channel of a scheduled worker; 0 where fading has no floor
    limit_watts: float = math.inf  # the workers' power limit
    excess: float = 1.0  # how many times more was sent than the received power tells, where gains are below 1
    loudness: float | None = None  # after a run, how many times the planned power was sent; None: the gain bound
    failure: float = 0.0  # after a run, probability with which some worker exceeds that

    def of_copies(self, copies: int, factor: float) -> Self:
        return replace(self, limit_watts=factor * self.limit_watts, failure=min(copies * self.failure, 1.0))


@dataclass(frozen=True, kw_only=True)
class Drawn(Fact):
    """What is known only after a run, of the worker with the largest of each."""

    # Not given is not known, and hides nobody.
    received_watts: float = math.inf  # sum over its slots of beta q^2
    participations: int = 0  # slots of that worker
    server_watts: float | None = None  # the first with all antennas of the server; None: ``Antennas.gain`` times that
    sent_watts: float = math.inf  # sum over its slots of its transmit power

    def scaled(self, factor: float) -> Self:
        server = None if self.server_watts is None else factor * self.server_watts
        return replace(self, received_watts=factor * self.received_watts, server_watts=server)

    def of_copies(self, copies: int, factor: float) -> Self:
        return replace(self, sent_watts=factor * self.sent_watts)


@dataclass(frozen=True, kw_only=True)
class OthersInSeats(Fact):
    """Another worker in a seat may be received more softly, or not at all, by what it can send or by its errors."""

    loudest: float = 0.0  # no worker is received with more than this times the planned power in any seat
    turned: bool = False  # whether it has a phase or a clock of its own, so that both of them move a mixture


@dataclass(frozen=True, kw_only=True)
class Revealed(Fact):
    """Something received may depend on who was scheduled, which spoils a hidden schedule."""

    why: ClassVar[str]
    to_colluders: ClassVar[bool] = False  # alone

    def reveals_schedule(self, colluders: int) -> str:
        return self.why if colluders > 0 or not self.to_colluders else ""


class PowerTells(Revealed):
    """Received power depends on who was scheduled, since the power limit may bind."""

    why = "received power may tell who was scheduled"


class GainsTell(Revealed):
    """What an imperfect air does to a seat depends on who sits there."""

    why = "what the air does to a signal may tell who was scheduled"


class SharesTell(Revealed):
    """Anybody's share may depend on who was scheduled."""

    why = "shares may depend on who was scheduled"


@dataclass(frozen=True, kw_only=True)
class OwnSchedule(Revealed):
    """A schedule of which nothing is known but in how many slots a worker sends at most."""

    why = "nothing is assumed of how the schedule is drawn"
    most: int = 0  # slots; 0: the schedule is drawn as the design says


class RanksTell(Revealed):
    """A worker's share tells how its channel ranks among those of the slot (max-min)."""

    why = "the ratios of colluding workers tell of the others' channels"
    to_colluders = True
