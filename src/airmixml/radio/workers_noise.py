"""Noise that workers bring: their own, that and masks, and either of them on integers.

A scenario whose workers send integers has a step, bits and noise that keep its target. A digital link carries residues
as packets. On an analog one, which adds up and does not reduce modulo 2^b, they are sent as bit planes: one symbol of
constant power for each bit, all workers of a slot at once. On the ideal air gains are right, and the power is such that
one number is wrong in a hundred runs. Planes tell more than the sum, but nothing that separate residues do not tell. So
every adversary is stated to learn what one learns who hears each worker alone: with masks the sum of the honest
workers, without masks a worker's own integers with its own noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from airmixml.arrays import torch
from airmixml.integers.encoding import grid_margin
from airmixml.integers.integer_noise import WRAP_FAILURE, IntegerNoise, SumTarget, fitted, mu_per_step
from airmixml.masks.graph import Honest
from airmixml.messages import ScenarioError, as_set
from airmixml.privacy import Design, Sensitivity, certified_epsilon, facts
from airmixml.privacy.adversaries import Everyone
from airmixml.privacy.design import slots_per_round
from airmixml.privacy.facts import Rounding
from airmixml.privacy.gaussian import bracket_root
from airmixml.radio.air import Noise, Reception, air_of, signal_power
from airmixml.radio.masking import (
    Masking,
    any_masking,
    check_recovered,
    choose_masking,
    honest_with,
    most_withstood,
    noise_left,
)
from airmixml.scenario import Air, Mixing, Privacy, Radio, Scenario, Workers
from airmixml.streams import Secret, Streams

_fitted: Final = lru_cache(maxsize=64)(fitted)
_EXACT: Final = 1e-8  # of the target, and of the shares of mu^2
_WIDEST: Final = 3.0  # by how much, as a logarithm, shares may differ from those that the scenario gives
_AS_UNIFORM: Final = 1e8  # masks over own noise that leave nothing but the sum


@dataclass(frozen=True, kw_only=True)
class IntegerSums:
    """Sums of integers modulo 2^b over the workers of a slot."""

    noise: IntegerNoise  # code (step, bits) and noise of each worker
    honest: Honest  # who is left of a slot without colluders and absent workers
    masked: bool  # whether masks hide all but the sum
    received_watts: float  # of a worker's bit, at the server; 1 where bits are sent as packets
    # Largest number of a sum that does not wrap around, over the root mean square of a sum of equal vectors; 0 where
    # none does, whatever the data.
    assumed_range: float = 0.0

    @property
    def carriers(self) -> int:
        """Workers whose noise hides a worker."""
        return self.honest.count if self.masked else 1

    @property
    def step_mu(self) -> float:
        """mu of one step in one number."""
        return mu_per_step(self.carriers * self.noise.variance_per_worker)

    @property
    def hidden_variance(self) -> float:
        """Variance of Gaussian noise that would hide as much, but for rounding, in the units of a worker's vector."""
        return (self.noise.code.step / self.step_mu) ** 2

    @property
    def mixture_variance(self) -> float:
        """Variance of noise and rounding in a number of the mean over all workers; of fewer it is as much larger."""
        return self.noise.sum_variance / self.noise.workers**2

    @property
    def symbols(self) -> int:
        """Of a slot on the air: one for each bit of each number."""
        return self.noise.code.bits * self.noise.code.numbers

    def as_masking(self, scenario: Scenario) -> Masking:
        """Return noise and masks on real numbers that hide as much from an isolating listener, but for rounding."""
        own_watts = self.received_watts * self.noise.variance_per_worker * self.noise.code.step**2
        masking = any_masking(scenario)
        return replace(masking, own_watts=own_watts, pair_watts=_AS_UNIFORM * own_watts, self_watts=0.0)

    def left_with(self, scenario: Scenario, colluders: int) -> tuple[IntegerSums, str]:
        """Return the same sums if so many workers collude, and what to know about that."""
        if not self.masked:
            return self, ""
        honest, note = honest_with(scenario, colluders)
        return replace(self, honest=honest, masked=not honest.is_cut), note

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.noise.to_dict(),
            "carriers": self.carriers,
            "noise_in_steps": math.sqrt(self.noise.workers * self.noise.variance_per_worker),
            "rounding_share": 1.0 - self.noise.noise_variance / self.noise.sum_variance,
            "assumed_range": self.assumed_range,
            "wrap_failure": WRAP_FAILURE,
        }

    @property
    def in_words(self) -> str:
        if not self.masked:
            return "its own Skellam noise on integers"
        masks = f"masks that are uniform modulo 2^{self.noise.code.bits}{self.honest.assumption}"
        return f"the Skellam noise of {self.honest.count:,} honest workers on integers, and {masks}"


def fit_sums(scenario: Scenario, sensitivity: Sensitivity, *, masked: bool) -> tuple[IntegerSums, ...]:
    """Return the sums that keep the target of a scenario whose workers send integers, with masks or without.

    Where gradients follow moments there are sums of both, which share mu^2 as ``rounds_share`` says. In slots that
    every worker sends in, Theorem 2 then states the target itself. In others the worst worker's slots of both kinds are
    no sum of its worst of each, and shares grow or shrink together until the statement is the target.
    """
    rounds, slots = scenario.learner.rounds, scenario.radio.slots
    share = scenario.rounds_share if rounds else 0.0
    kinds = [(slots, sensitivity.numbers, 1.0 - share), (rounds, sensitivity.in_rounds, share)][: 2 if rounds else 1]
    honest = any_masking(scenario).honest
    whole = _schedule(scenario, sensitivity, tuple(count for count, _, _ in kinds))
    rounded = sum(_schedule(scenario, sensitivity, (count,)).participations * numbers for count, numbers, _ in kinds)

    def sums_with(part: float) -> tuple[IntegerSums, ...]:
        return tuple(
            _sums_of(scenario, sensitivity, honest, masked, count, numbers, part * share, rounded)
            for count, numbers, share in kinds
        )

    def excess(log_part: float) -> float:
        sums = sums_with(math.exp(log_part))
        watts = tuple(sums[0].hidden_variance / each.hidden_variance for each in sums)
        design = replace(whole, received_watts=watts, facts=(fact_of(scenario, sums, 1.0),))
        return _stated(scenario, design) / scenario.privacy.epsilon - 1.0

    if not rounds or -_EXACT < excess(0.0) <= 0.0:
        return sums_with(1.0)
    return sums_with(math.exp(bracket_root(excess, -_WIDEST, _WIDEST, tolerance=_EXACT)[0]))


def fact_of(scenario: Scenario, sums: tuple[IntegerSums, ...], received_watts: float) -> facts.WorkersNoise:
    """Return what hides a worker whose vectors are received that strongly in slots of the first kind."""
    return facts.WorkersNoise(
        alone_watts=2.0 * received_watts * sums[0].hidden_variance,
        by=sums[0].in_words,
        failure=min(1.0, scenario.slots_on_air * sums[0].honest.failure) if sums[0].masked else 0.0,
        rounding=Rounding(
            step_mu=tuple(each.step_mu for each in sums), numbers=tuple(each.noise.code.numbers for each in sums)
        ),
    )


def _stated(scenario: Scenario, design: Design) -> float:
    """Return the epsilon that a design of integers is stated with, against anybody."""
    mechanism = Everyone().mechanism(design, scenario.privacy.adjacency)
    return certified_epsilon("gdp", mechanism, scenario.privacy.delta)


def _schedule(scenario: Scenario, sensitivity: Sensitivity, counts: tuple[int, ...]) -> Design:
    radio, most = scenario.radio, scenario.radio.max_participations
    return Design(
        workers=scenario.workers.count,
        scheduled=radio.scheduled,
        received_watts=(1.0,) * len(counts),
        counts=counts,
        sensitivity=sensitivity,
        noise_watts=1.0,
        max_participations=most,
        slots_per_round=slots_per_round(radio.slots, most) if most and len(counts) > 1 else 0,
    )


def _sums_of(
    scenario: Scenario,
    sensitivity: Sensitivity,
    honest: Honest,
    masked: bool,
    slots: int,
    numbers: int,
    share: float,
    rounded: int,
) -> IntegerSums:
    """Return the sums of one kind of slots, with so many numbers each, which have that share of mu^2."""
    privacy, radio = scenario.privacy, scenario.radio
    target = SumTarget(
        numbers=numbers,
        norm=math.sqrt(sensitivity.removal),
        workers=radio.scheduled,
        carriers=honest.count if masked else 1,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        distance=math.sqrt(sensitivity.squared_move(privacy.adjacency, "none") / sensitivity.removal),
        participations=_schedule(scenario, sensitivity, (slots,)).participations,
        sums=slots,
        share=share,
        rounded=rounded,
    )
    noise = _fitted(target, privacy.modulus_bits, privacy.sum_range)
    return IntegerSums(
        noise=noise,
        honest=honest,
        masked=masked,
        received_watts=radio.link_kind.received_watts(scenario, noise.code.bits * numbers * slots),
        assumed_range=privacy.sum_range,
    )


_MOST_FORMED: Final = 1 << 27  # numbers of all workers of all slots of a simulation: some seconds
_NUMBERS_AT_ONCE: Final = 1 << 22
_PROBED_WORKERS: Final = 256


class OwnNoise(Noise):
    """Gaussian noise of each worker, on every symbol that it sends."""

    about = "the workers' own noise"
    rests_on = "workers' noise"
    trusted = "workers draw their noise"
    brought = True

    def on_integers(self, privacy: Privacy) -> Noise:
        return _INTEGERS[self.masked]

    def check(self, workers: Workers, radio: Radio, air: Air, mixing: Mixing, privacy: Privacy) -> None:
        super().check(workers, radio, air, mixing, privacy)
        noise = f'privacy.noise = "{privacy.noise}"'
        own_centres, some_power = '"none", "own" or "public"', '"dp" or "fixed"'
        unrecovered = 0.0 if self.masked else privacy.most_absent
        for key, value, must, refused, why in (
            ("radio.schedule", radio.schedule, '"fixed"', not radio.schedule_kind.uniform, ": all must know who sends"),
            ("workers.centre", workers.centre, own_centres, workers.centre_on_air, ""),
            ("mixing.power", mixing.power, some_power, mixing.power_policy.follows_channels, ", which needs power too"),
            ("privacy.most_absent", privacy.most_absent, "0", bool(unrecovered), ", which has no masks"),
            ("air.waveform", air.waveform, '"single-carrier"', air.waveform != "single-carrier", ""),
            ("air.peak_power_dbm", air.peak_power_dbm, "inf", math.isfinite(air.peak_power_dbm), ""),
        ):
            if refused:
                raise ScenarioError(f"{key} = {as_set(value)}: must be {must} for {noise}{why}")
        shared = mixing.policy in ("dirmix", "equalmix")  # others may leave workers without a share
        if not shared or 0.0 in mixing.prior:
            told = "mixing.prior with a share of 0" if shared else f'mixing.policy = "{mixing.policy}"'
            raise ScenarioError(f'{told}: workers without a share would hide nobody; use mixing.policy = "equalmix"')
        if privacy.mask_degree % 2 or privacy.mask_degree > radio.scheduled > 0:
            raise ScenarioError(
                f"privacy.mask_degree = {privacy.mask_degree}: must be an even number, at most radio.scheduled = "
                f"{radio.scheduled}, who share masks; or 0"
            )
        if radio.fading != "none" and math.isinf(air.truncation_db):
            raise ScenarioError(
                f'radio.fading = "{radio.fading}": needs air.truncation_db for {noise}, which would take any power in '
                "a fade; -10, say"
            )

    def trust(self, privacy: Privacy, adversary: str) -> str:
        return self.trusted

    def in_sum_watts(self, scenario: Scenario) -> float:
        """Return the receiver's own, and that of the workers, which falls on the real part alone; masks cancel."""
        masking = self.masking(scenario)
        brought = 0.0 if masking is None else 2.0 * scenario.radio.scheduled * masking.own_watts
        return self.drawn_watts(scenario) + brought

    def masking(self, scenario: Scenario, secret: Secret | None = None) -> Masking | None:
        return choose_masking(scenario, secret)

    def probes(self, scenario: Scenario, data_symbols: int) -> int:
        return air_of(scenario).probes(data_symbols)

    def facts(self, scenario: Scenario, sensitivity: Sensitivity, received_watts: float) -> Iterator[facts.Fact]:
        masking = self.masking(scenario)
        assert masking is not None
        stated = facts.WorkersNoise(
            in_sum_watts=2.0 * masking.honest.count * masking.own_watts,
            alone_watts=2.0 * masking.hidden_watts,
            by=masking.in_words,
            failure=min(1.0, scenario.slots_on_air * masking.honest.failure),  # colluders sit elsewhere in each
        )
        if (most := most_withstood(scenario)) is not None:
            left, _ = noise_left(masking, scenario, most)
            stated = replace(stated, withstands=most, if_withstood=replace(stated, **left))
        yield stated


class MaskedNoise(OwnNoise):
    """The same, and masks that pairs of workers share: one adds what the other subtracts."""

    about = "the workers' own noise, and masks that cancel in the sum"
    rests_on = "noise and masks"
    trusted = "all workers but the stated colluders draw noise and keep keys; X25519 and ChaCha20 hold"
    masked = True

    def check_secret(self, scenario: Scenario, secret: Secret) -> None:
        any_masking(scenario, secret)

    def trust(self, privacy: Privacy, adversary: str) -> str:
        some = f" but {privacy.colluders:,}, chosen without knowing the graph of masks,"
        return self.trusted.replace(" but the stated colluders", some if privacy.colluders else "")


class _NoiseOnIntegers(OwnNoise):
    """Skellam noise of workers that send integers: the server has the mean over them modulo 2^b.

    Rounding is formed for each worker where data are protected or few; else the errors of all together are drawn as
    what they nearly are, Gaussian, and that protects nobody.
    """

    about = "the workers' own noise on integers"
    real = False
    masking = Noise.masking

    def check(self, workers: Workers, radio: Radio, air: Air, mixing: Mixing, privacy: Privacy) -> None:
        super().check(workers, radio, air, mixing, privacy)
        integers = 'privacy.arithmetic = "integers"'
        for key, value, must in (
            ("mixing.policy", mixing.policy, "equalmix"),
            ("mixing.prior", list(mixing.prior), []),
            ("mixing.power", mixing.power, "dp"),
            ("radio.fading", radio.fading, "none"),
            ("workers.bits", workers.bits, 0),
            ("privacy.accountant", privacy.accountant, "gdp"),
            ("privacy.sensitivity", privacy.sensitivity, "encoder"),
            ("privacy.mask_share", privacy.mask_share, 0.0),
            ("privacy.above_thermal_db", privacy.above_thermal_db, 0.0),
        ):
            if value != must:
                raise ScenarioError(f"{key} = {as_set(value)}: must be {as_set(must)} for {integers}")
        if privacy.modulus_bits == 1:
            raise ScenarioError("privacy.modulus_bits = 1: must be 2 to 62, or 0 for as many as it takes")

    def all_sums(self, scenario: Scenario, sensitivity: Sensitivity) -> tuple[IntegerSums, ...]:
        return fit_sums(scenario, sensitivity, masked=self.masked) if sensitivity.numbers else ()

    def rounded(self, moves: Sensitivity, symbols: int, in_rounds: int = 0) -> Sensitivity:
        apart = math.sqrt(moves.replacement) + grid_margin(max(symbols, in_rounds)) * math.sqrt(moves.removal)
        return Sensitivity(removal=moves.removal, replacement=apart**2, numbers=symbols, in_rounds=in_rounds)

    def symbols_on_air(self, scenario: Scenario, sensitivity: Sensitivity, data_symbols: int) -> int:
        sums = self.sums(scenario, sensitivity)
        return super().symbols_on_air(scenario, sensitivity, data_symbols) if sums is None else sums.symbols

    def needed_watts(self, scenario: Scenario, sensitivity: Sensitivity, floor: float | None = None) -> float | None:
        sums = self.sums(scenario, sensitivity)
        if sums is not None and floor is not None:
            scenario.radio.link_kind.check_sums(scenario, sums, floor)
        return None if sums is None else sums.received_watts

    def facts(self, scenario: Scenario, sensitivity: Sensitivity, received_watts: float) -> Iterator[facts.Fact]:
        if sums := self.all_sums(scenario, sensitivity):
            watts = received_watts or sums[0].received_watts
            stated = fact_of(scenario, sums, watts)
            if (most := most_withstood(scenario)) is not None:
                left = tuple(each.left_with(scenario, most)[0] for each in sums)
                stated = replace(stated, withstands=most, if_withstood=fact_of(scenario, left, watts))
            yield stated
        else:  # of vectors that nothing is known of: nobody sends
            yield facts.WorkersNoise(alone_watts=self.stated_watts(scenario))

    def receive(
        self, setting: Any, arrival: Any, drawn: Any, normals: torch.Tensor, place: torch.Tensor | None
    ) -> Reception:
        scenario, secret, sums = setting.scenario, setting.secret, setting.integers
        noise, streams = sums.noise, Streams(scenario.seed, secret)
        sending = drawn.ratios > 0.0
        if self.masked:
            check_recovered(scenario, any_masking(scenario, secret), sending, arrival.slots)
        formed = secret is not None or scenario.slots_on_air * noise.workers * noise.code.numbers <= _MOST_FORMED
        received, vectors = [], arrival.payload.vectors
        seats = zip(arrival.index.cpu().numpy(), sending.cpu().numpy(), strict=True)
        for slot, (everybody, there), clean in zip(arrival.slots, seats, arrival.clean, strict=True):
            generator, samples = streams.generator("integers", slot), everybody[there]
            present = len(samples)
            if not present:
                raise ScenarioError(
                    f"air.absent = {scenario.air.absent:g}: of slot {slot} nothing arrived; must be less"
                )
            if formed:
                at_once = max(1, _NUMBERS_AT_ONCE // noise.code.numbers)
                blocks = (vectors(samples[first : first + at_once]) for first in range(0, len(samples), at_once))
                total = noise.sum_of(blocks, generator, absent=len(there) - present, simulated=secret is None)
            else:
                exact = present * clean.double().cpu().numpy()
                probed = vectors(samples[:_PROBED_WORKERS])
                total = noise.modelled_sum(exact, probed, generator, absent=len(there) - present)
            received.append(torch.from_numpy(total / present))
        variance = sums.mixture_variance * noise.workers / sending.sum(dim=1).double()
        return Reception(
            clean=arrival.clean,
            received=torch.stack(received).to(arrival.clean.device),
            noise_variance=variance,
            snr=signal_power(arrival.clean, setting.signal.input_symbols) / variance,
        )


class _MaskedOnIntegers(_NoiseOnIntegers, MaskedNoise):
    """The same with masks that are uniform modulo 2^b."""


_INTEGERS: Final = {each.masked: each for each in (_NoiseOnIntegers(), _MaskedOnIntegers())}
