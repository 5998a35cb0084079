"""Rounds of gradients as adversaries hear them: all of them together, with the models that were broadcast.

A round is one more slot: its precision A^2 is that of any other slot (``informed``), but what a sample sends in it
follows from the model W that all were told, v = S / C clip(x e^T), e = softmax(W^T x + b) - l. Noise is new in every
slot, so logarithms of likelihoods add up over all of them, and so do the products A^2 <v_c, v_c'> of candidates.

Adversaries that know no sample gain nothing: a round is one more sum over all its workers, and says of a single one
what any sum does.
"""

from collections import deque
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from airmixml.arrays import Doubles, Integers, Singles
from airmixml.data import OneHot
from airmixml.edge.descents import run_rounds
from airmixml.radio.draws import AirSetting, SlotDraws
from airmixml.radio.mixtures import MixtureBlock
from airmixml.radio.transmission import RoundsOnAir
from airmixml.scenario import Scenario
from airmixml.workers.payloads import Broadcast

_SHORTEST = 1e-30


@dataclass(frozen=True, kw_only=True, eq=False)
class Round:
    """One round as the server sees it: slots in which a sample sends what follows from the model."""

    setting: AirSetting
    numbers: range  # of the slots
    draws: list[SlotDraws]  # ratios as workers were really received
    weights: Doubles  # 1 / (variance of the noise on a symbol at the server); shape slots
    told: Broadcast  # the model and the clip that all workers were told
    unit: float  # S / C

    @property
    def scenario(self) -> Scenario:
        return self.setting.scenario

    def sent(self, inputs: Singles | Doubles, labels: Integers) -> tuple[Doubles, Doubles]:
        """Return e of samples, samples x classes, and what x e^T is multiplied with before it is sent; samples."""
        errors = self.told.errors(inputs, OneHot(len(self.told.biases)).coded(labels))
        lengths = np.linalg.norm(inputs.astype(np.float64), axis=1) * np.linalg.norm(errors, axis=1)
        return errors, self._shortened(lengths, 1.0)

    def gram(self, inputs: Singles, labels: Integers, held: Doubles) -> Doubles:
        """Return the products <v_c, v_c'> of what candidates send; candidates x candidates.

        Rows have these inputs (rows x features) and classes; ``held`` says which of them each candidate has, candidates
        x rows. The gradients of its rows are added up and shortened together.
        """
        exact, (errors, factors) = inputs.astype(np.float64), self.sent(inputs, labels)
        workers = self.scenario.workers
        if workers.several_rows:  # the gradient of each row is shortened before their sum is
            errors = errors * (factors / self.unit)[:, None]
        products = held @ ((exact @ exact.T) * (errors @ errors.T)) @ held.T
        factors = self._shortened(
            np.sqrt(np.maximum(np.diag(products), 0.0)), workers.rows_bound if workers.several_rows else 1.0
        )
        return np.asarray(factors[:, None] * products * factors)

    def _shortened(self, lengths: Doubles, rows: float) -> Doubles:
        return self.unit / rows * np.minimum(1.0, rows * self.told.clip / np.maximum(lengths, _SHORTEST))


class WatchedRounds(RoundsOnAir):
    """Runs rounds and keeps what an adversary needs of each."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.heard: list[Round] = []

    def watched(self, *first: Any) -> list[Round]:
        """Run all rounds from a first solution, if there is one, and return what was heard."""
        deque(run_rounds(self, *first), maxlen=0)
        return self.heard

    def send(self, told: Broadcast) -> Any:
        received, block = super().send(told), self.last
        slots = range(block.first_slot, block.first_slot + block.slots)
        draws, weights = as_heard(block), weights_of(block, self.setting.scenario)
        self.heard.append(
            Round(
                setting=self.setting, numbers=slots, draws=[draws], weights=weights, told=told, unit=self.payload.unit
            )
        )
        return received


def as_heard(block: MixtureBlock) -> SlotDraws:
    """Return the draws of a block, with the shares that workers have in what the server made of its reception.

    Where the server divided by the mean gain d, a share is multiplied with the mean of Re(g / d) over the slot.
    """
    gains, divisor = block.drawn.gains, block.divisor
    if gains is None or divisor is None:
        return block.draws
    frame = gains.draws.frame
    lengths = torch.tensor(frame.lengths, dtype=torch.float64, device=divisor.device)
    turned = ((some, (gains.of(some) / divisor[:, None, :]).real.expand(-1, -1, frame.pieces)) for some in gains.parts)
    shares = [block.drawn.ratios[:, some] * (real @ (lengths / lengths.sum())) for some, real in turned]
    return replace(block.draws, ratios=torch.cat(shares, dim=1).cpu().numpy())


def weights_of(block: MixtureBlock, scenario: Scenario) -> Doubles:
    """Return 1 / (variance of the noise on a symbol) of each slot of a block; shape slots."""
    noise = scenario.privacy.noise_kind
    weights = 1.0 / block.noise_variance.cpu().numpy()
    if block.divisor is not None and not noise.brought:  # the mean gain was divided out of the noise
        weights = block.draws.power_scale_watts * 2.0 / noise.in_sum_watts(scenario)
        weights = weights * block.divisor.abs().square().mean(dim=1).cpu().numpy()
    return np.where(np.isfinite(weights), weights, 0.0)  # a slot of a Poisson schedule in which nobody sent
