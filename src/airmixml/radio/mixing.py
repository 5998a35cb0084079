"""What the table ``[mixing]`` decides: shares of a slot, who gets which, and how strongly they are received.

One class for each choice, behind the registries ``RATIOS``, ``ASSIGNMENTS`` and ``POWER_POLICIES``.

Shares see neither workers nor data, and one's own are dealt out in random order. A slot is planned by its largest
share, so privacy statements hold whatever the law of the shares is. Who gets which (Algorithm 1, line 8) may follow
channels, and then tells of the schedule. Power is P = beta q^2 / |h|^2 (Eq. transmit_power), with a policy for beta;
none ever exceeds P_max, whatever a policy asks for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np

from airmixml.arrays import Doubles, dbm_to_watts, own_numbers, torch, watts_to_dbm
from airmixml.impairments.fading import weakest_gain
from airmixml.messages import PluginError, ScenarioError, shown
from airmixml.privacy.facts import Fact, RanksTell, SharesTell
from airmixml.randomness.slot_words import SlotWords, log_gammas
from airmixml.scenario import Mixing, Scenario

_SUMS_WITHIN: Final = 1e-9
_WORDS_PER_GAMMA, _WORDS_PER_FURTHER_ATTEMPT = 3, 2


class Ratios:
    """Shares made of independent uniform numbers."""

    about: str
    exchangeable = False  # whether every order of the shares is equally likely, where there is no prior

    def shares(self, chances: Doubles) -> Doubles:
        """Return shares of at least 0 that sum to 1 in each slot, from uniform numbers; both slots x scheduled."""
        raise NotImplementedError

    def draw(self, mixing: Mixing, prior: torch.Tensor, slots: range, source: SlotWords) -> torch.Tensor:
        """Draw the shares of some slots for a prior of shape scheduled; slots x scheduled."""
        chances = np.asarray(source.uniforms(slots, len(prior)).cpu(), dtype=np.float64)
        found = own_numbers(
            lambda: self.shares(chances),
            chances.shape,
            lambda shares: (shares >= 0.0).all(axis=1) & (np.abs(shares.sum(axis=1) - 1.0) <= _SUMS_WITHIN),
            f"mixing.policy = {type(self).__name__}: its shares must have the shape of the chances, be at least 0 "
            "and sum to 1 in each slot",
        )
        return torch.from_numpy(found).to(source.device)


class DirMix(Ratios):
    """q_t ~ Dirichlet(alpha p)."""

    about = "Dirichlet, with the dispersion mixing.alpha"
    exchangeable = True

    def draw(self, mixing: Mixing, prior: torch.Tensor, slots: range, source: SlotWords) -> torch.Tensor:
        """Draw gamma variates as logarithms, so that alpha = 1e-8 gives one entry of 1 and zeros, not 0/0."""
        per_slot, further = _WORDS_PER_GAMMA * len(prior), _WORDS_PER_FURTHER_ATTEMPT * len(prior)
        logarithms = log_gammas(
            mixing.alpha * prior,
            source.words(slots, per_slot).reshape(len(slots), len(prior), _WORDS_PER_GAMMA),
            lambda places, attempt: source.words_at(slots, further, places, attempt),
        )
        logarithms -= logarithms.amax(dim=1, keepdim=True)
        ratios = logarithms.exp_()
        return ratios.div_(ratios.sum(dim=1, keepdim=True))


class NonMix(Ratios):
    """The limit alpha -> 0."""

    about = "one worker has all"
    exchangeable = True

    def draw(self, mixing: Mixing, prior: torch.Tensor, slots: range, source: SlotWords) -> torch.Tensor:
        upper = (prior / prior.sum()).cumsum(dim=0)[:-1]
        chosen = torch.searchsorted(upper, source.uniforms(slots, 1), right=True)
        return torch.zeros((len(slots), len(prior)), dtype=prior.dtype, device=prior.device).scatter_(1, chosen, 1.0)


class EqualMix(Ratios):
    """The limit alpha -> infinity."""

    about = "the prior's shares, equal ones without"
    exchangeable = True

    def draw(self, mixing: Mixing, prior: torch.Tensor, slots: range, source: SlotWords) -> torch.Tensor:
        return prior.repeat(len(slots), 1)


def draw_ratios(mixing: Mixing, scheduled: int, slots: range, source: SlotWords) -> torch.Tensor:
    """Draw the mixing ratios of the policy; slots x scheduled, not yet assigned to workers."""
    prior = torch.tensor(mixing.prior or (1.0 / scheduled,) * scheduled, dtype=torch.float64)
    drawn: torch.Tensor = mixing.ratios_kind.draw(mixing, prior.to(source.device), slots, source)
    return drawn


class Assignment:
    """Deals the ratios of a slot out by a rule of one's own, which may look at the channels of all who send.

    Another worker in a seat may then change everybody's ratio, so that a hidden schedule hides nobody.
    """

    about: str
    follows_channels: ClassVar[bool] = True  # whether ratios depend on who sends

    def assign(self, ratios: Doubles, magnitude: Doubles, chances: Doubles) -> Doubles:
        """Return the ratios of each slot in the order of its workers.

        ``magnitude`` are their channels' amplitudes, ``chances`` uniform numbers; all have the shape slots x scheduled.
        """
        raise NotImplementedError

    def facts(self) -> tuple[Fact, ...]:
        """Return what it says of privacy."""
        return (SharesTell(),)

    def deal(
        self, mixing: Mixing, ratios: torch.Tensor, magnitude: torch.Tensor, slots: range, source: SlotWords
    ) -> torch.Tensor:
        """Deal the ratios of these slots out; slots x scheduled."""
        chances = source.uniforms(slots, ratios.shape[1])
        given: list[Doubles] = [each.cpu().numpy().copy() for each in (ratios, magnitude, chances)]
        found = own_numbers(
            lambda: self.assign(*given),
            tuple(ratios.shape),
            lambda dealt: np.sort(dealt, axis=1) == np.sort(ratios.cpu().numpy(), axis=1),
            f"mixing.assignment = {type(self).__name__}: its assign must return the ratios of each slot in another "
            "order, slots x scheduled",
        )
        return torch.from_numpy(found).to(ratios.device)


class RandomOrder(Assignment):
    """Any worker may get any ratio."""

    about = "in random order"
    follows_channels = False

    def facts(self) -> tuple[Fact, ...]:
        return ()

    def deal(
        self, mixing: Mixing, ratios: torch.Tensor, magnitude: torch.Tensor, slots: range, source: SlotWords
    ) -> torch.Tensor:
        """Shuffle them; with equal prior shares any order of our ratios is as likely as any other already."""
        if mixing.ratios_kind.exchangeable and not mixing.prior:
            return ratios
        return ratios.gather(1, source.uniforms(slots, ratios.shape[1]).argsort(dim=1))


class MaxMin(Assignment):
    """The stronger a channel, the larger its ratio, so that min_i |h_i|^2 / q_i^2 is as large as it can be.

    Wherever a stronger channel holds a smaller ratio than a weaker one, exchanging the two does not lower it.
    """

    about = "the larger ratio to the stronger channel"

    def facts(self) -> tuple[Fact, ...]:
        """Return that colluders learn how others' channels rank; for all others see ``privacy.adversaries``."""
        return (RanksTell(),)

    def deal(
        self, mixing: Mixing, ratios: torch.Tensor, magnitude: torch.Tensor, slots: range, source: SlotWords
    ) -> torch.Tensor:
        order = magnitude.argsort(dim=1, stable=True)
        return ratios.new_empty(ratios.shape).scatter_(1, order, ratios.sort(dim=1).values)


def wrong_policy(scenario: Scenario, what: str) -> PluginError:
    """Return the refusal of a power policy of another package or of the user, in one line."""
    return PluginError(f"mixing.power = {shown(scenario.mixing.power)}: {what} (docs/extending.md)")


class PowerPolicy:
    """How strongly a slot is to be received: its beta, before the power limit."""

    about: str
    keeps_target = False  # whether the power follows from the scenario's privacy target
    follows_channels = False  # whether beta depends on the channels of those who send, so that only a run tells it

    def in_words(self, scenario: Scenario) -> str:
        """Return what sets the power."""
        return self.about

    def received_watts(self, scenario: Scenario, private_watts: Callable[[], float]) -> float:
        """Return beta max q^2 of every slot where that is planned, at most ``private_watts()``, which keeps the target.

        0 where it is not planned: what a slot reveals then follows from the powers that are drawn.
        """
        return 0.0

    def largest_received_watts(self, scenario: Scenario, received_watts: float) -> float:
        """Return what beta max q^2 of a slot is at most without the power limit; ``received_watts`` is the planned."""
        return received_watts

    def power_scale(
        self, scenario: Scenario, received_watts: float, ratios: torch.Tensor, largest: torch.Tensor
    ) -> torch.Tensor:
        """Return beta, shape slots, from shares q (slots x scheduled) and the largest that the limit allows (slots)."""
        shares: torch.Tensor = scenario.radio.schedule_kind.largest_shares(scenario, ratios)
        return received_watts / shares**2


class LargestPower(PowerPolicy):
    """All that the power limit allows."""

    about = "the workers' power limit"
    follows_channels = True

    def power_scale(
        self, scenario: Scenario, received_watts: float, ratios: torch.Tensor, largest: torch.Tensor
    ) -> torch.Tensor:
        return largest


class PrivatePower(PowerPolicy):
    """The largest power that keeps the privacy target, the same beta max q^2 in every slot (Proposition 2)."""

    about = "the privacy target"
    keeps_target = True

    def in_words(self, scenario: Scenario) -> str:
        privacy = scenario.privacy
        return f"set for epsilon = {privacy.epsilon:g} by {privacy.accountant} against {privacy.adversary}"

    def received_watts(self, scenario: Scenario, private_watts: Callable[[], float]) -> float:
        return private_watts()


class FixedPower(PowerPolicy):
    """The beta that the scenario gives."""

    about = "power_scale_watts"

    def in_words(self, scenario: Scenario) -> str:
        return f"beta = {scenario.mixing.power_scale_watts:g} W"

    def largest_received_watts(self, scenario: Scenario, received_watts: float) -> float:
        mixing = scenario.mixing
        equal_share = max(mixing.prior, default=1.0 / scenario.radio.scheduled)
        largest_share = equal_share if mixing.policy == "equalmix" else 1.0
        return mixing.power_scale_watts * largest_share**2

    def power_scale(
        self, scenario: Scenario, received_watts: float, ratios: torch.Tensor, largest: torch.Tensor
    ) -> torch.Tensor:
        return largest.new_full(largest.shape, scenario.mixing.power_scale_watts)


@dataclass(frozen=True, kw_only=True)
class TransmitPower:
    """Power of a worker that sends in a slot, and the limit on it, in dBm."""

    median: float
    largest: float
    limit: float


@dataclass(frozen=True, kw_only=True)
class PowerControl:
    """Power of one block of slots."""

    power_scale_watts: torch.Tensor  # beta of each slot; shape slots
    power_watts: torch.Tensor  # P of each scheduled worker; slots x scheduled
    limited: torch.Tensor  # whether P_max forced beta below what was asked; shape slots


def largest_power_scale(ratios: torch.Tensor, magnitude: torch.Tensor, max_power_watts: float) -> torch.Tensor:
    """Return P_max min_i |h_i|^2 / q_i^2, the largest beta that the power limit allows, or infinity; shape slots."""
    return max_power_watts / (ratios / magnitude).amax(dim=1).square_()


def transmit_power(power_scale_watts: torch.Tensor, ratios: torch.Tensor, magnitude: torch.Tensor) -> torch.Tensor:
    """Return P = beta q^2 / |h|^2; slots x scheduled."""
    return (ratios / magnitude).square_().mul_(power_scale_watts[:, None])


def control_power(
    scenario: Scenario,
    received_watts: float,
    ratios: torch.Tensor,
    magnitude: torch.Tensor,
    reached: torch.Tensor | None = None,
    weakest: torch.Tensor | None = None,
) -> PowerControl:
    """Choose beta for each slot by the scenario's policy, never above what P_max allows, and each worker's power.

    Ratios q and magnitude abs(h) are slots x scheduled. Where only some channels are good enough (``reached``), beta is
    chosen for those, and the others are silent; where none is, it is that of perfect channels: it must not tell who was
    scheduled. ``weakest`` is the least abs(h) of a slot that has several, at which the power limit must hold.
    """
    if reached is not None:
        some = (reached & (ratios > 0.0)).any(dim=1, keepdim=True)
        shares = (ratios * reached).where(some, ratios)
        strong = magnitude.where(some, 1.0)
        limiting = None if weakest is None else weakest.where(some, 1.0)
        power = control_power(scenario, received_watts, shares, strong, weakest=limiting)
        return replace(power, power_watts=power.power_watts * reached, limited=power.limited & some[:, 0])
    max_power_watts = dbm_to_watts(scenario.radio.max_power_dbm)
    largest = largest_power_scale(ratios, magnitude if weakest is None else weakest, max_power_watts)
    asked = scenario.mixing.power_policy.power_scale(scenario, received_watts, ratios, largest)
    if not isinstance(asked, torch.Tensor) or asked.shape not in (largest.shape, ()):
        told = f"a tensor of shape {tuple(asked.shape)}" if isinstance(asked, torch.Tensor) else shown(asked)
        raise wrong_policy(
            scenario, f"its power_scale returns {told}; must return a tensor of one beta for each slot, {len(largest)}"
        )
    beta = asked.minimum(largest)
    # Rounding may carry the worker that sets the limit a hair above it.
    power_watts = transmit_power(beta, ratios, magnitude).clamp_(max=max_power_watts)
    return PowerControl(power_scale_watts=beta, power_watts=power_watts, limited=asked > largest)


def check_lowest_power(scenario: Scenario, received_watts: float, added_watts: float, radiated: float) -> None:
    """Refuse a lowest power above all that the worker with the weakest channel needs, before anybody sends.

    ``added_watts`` are noise and masks; ``radiated`` is what that worker radiates on average over a slot for a watt.
    """
    policy, lowest_dbm = scenario.mixing.power_policy, scenario.air.lowest_power_dbm
    largest_watts = policy.largest_received_watts(scenario, received_watts)  # 0: not planned
    if math.isinf(lowest_dbm) or policy.follows_channels or not largest_watts:
        return
    needed_dbm = float(watts_to_dbm((largest_watts + added_watts) * radiated))
    if needed_dbm < lowest_dbm:
        raise ScenarioError(
            f"air.min_power_dbm = {scenario.air.min_power_dbm:g}: no worker needs more than {needed_dbm:.1f} dBm on "
            "average over a slot, so nobody could send; lower it, use a looser privacy target, or attenuators "
            "(air.attenuator_db)"
        )


def check_added_power(scenario: Scenario, added_watts: float, distance_metres: Doubles | None = None) -> None:
    """Refuse noise and masks that take more than the power limit of the worker with the weakest channel.

    They are the same in every symbol, so what is radiated on average over a slot is compared with P_max.
    """
    weakest, limit_dbm = weakest_gain(scenario, distance_metres), scenario.radio.max_power_dbm
    needed_dbm = float(watts_to_dbm(added_watts / weakest)) if weakest else math.inf
    if needed_dbm > limit_dbm:
        above_db = scenario.privacy.above_thermal_db - (needed_dbm - limit_dbm)
        raise ScenarioError(
            f"privacy.above_thermal_db = {scenario.privacy.above_thermal_db:g}: noise and masks would take "
            f"{needed_dbm:.1f} dBm of the farthest worker, whose limit is radio.max_power_dbm = {limit_dbm:g}; must be "
            f"at most {above_db:.1f}, or use a larger privacy.mask_share"
        )
