"""The likelihood ratio of a known sample: how much likelier a reception is if one worker sent it than if none did.

A slot is the sum of many workers' v. To an adversary who tests one sample the rest is nearly Gaussian, with covariance

    S = g C + s^2 I,

C the second moments of what is sent (about its mean where phases are in line), g the sum of the squared amplitudes and
s^2 the noise. Of half a million products x x^T, C has the rank of the public samples, and by Woodbury S^-1 needs only
products of two samples' symbols. A worker that sends v with amplitude a moves the mean by a v. With b = v^H S^-1 y and
c = v^T S^-1 v the ratio is

    exp(a b - a^2 c / 2)                    of real y, whose phases are in line;
    exp(-a^2 c) I_0(2 a |b|)                of complex y and a phase that may be any, over which is averaged.

By Neyman and Pearson no test of one slot is better, as far as the background is Gaussian. A worker that may send in a
slot with probability p, and with amplitudes of known shares, has the mean of these ratios and of 1. Logarithms of slots
add up; where a worker has one amplitude in all slots, they add up for each level first.
"""

import math
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final, Self

import numpy as np
import torch

from airmixml.arrays import Doubles, Integers, Singles
from airmixml.attacks.measured import Scores
from airmixml.attacks.sample_symbols import NUMBERS_AT_ONCE, Layout, Moments, Samples, Symbols, blocks_of, times
from airmixml.attacks.watched import ServerView
from airmixml.data import LabelCode
from airmixml.scenario import Speed
from airmixml.workers import Signal

_TINY: Final = 1e-30
# The loud ones are few and far apart: they have levels of their own.
_SHARES_BELOW: Final = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0)
_ALIKE: Final = 1.1


@dataclass(frozen=True, kw_only=True, eq=False)
class Amplitudes:
    """How strongly a worker that sends is received: places and ratios are unknown, their distribution is not."""

    taking_part: float  # probability that a worker sends in a slot
    levels: tuple[float, ...]  # amplitudes, in units of what is sent
    shares: tuple[float, ...]  # how many of those who send are received with each level
    alike: bool  # whether a worker has the same amplitude in all its slots

    @classmethod
    def of(cls, squared: Doubles, workers: float, *, alike: bool) -> Self:
        """Sum up squared amplitudes, 0 for those who do not send (slots x scheduled), of a run of so many workers."""
        sent = np.sort(squared[squared > 0.0])
        if not len(sent):
            return cls(taking_part=0.0, levels=(0.0,), shares=(1.0,), alike=True)
        ends = np.unique(np.rint(len(sent) * np.array(_SHARES_BELOW)).astype(int))
        parts = [sent[first:last] for first, last in pairwise(ends)]
        if sent[-1] <= _ALIKE * sent[0]:
            parts = [sent]
        return cls(
            taking_part=min(1.0, len(sent) / len(squared) / workers),
            levels=tuple(math.sqrt(part.mean()) for part in parts),
            shares=tuple(len(part) / len(sent) for part in parts),
            alike=alike or len(parts) == 1,
        )

    def log_ratios(self, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        """Return ``log_ratios`` of each level for a worker that sends with probability p; levels x their shape."""
        found = torch.stack([log_ratios(b, c, level) for level in self.levels])
        p = self.taking_part
        if p >= 1.0:
            return found
        found += math.log(p) if p else -math.inf
        return torch.logaddexp(found, found.new_tensor(math.log1p(-p)))

    def averaged(self, by_level: torch.Tensor) -> torch.Tensor:
        """Return logarithms of ratios averaged over the levels, their first axis."""
        shares = torch.tensor(self.shares, dtype=by_level.dtype, device=by_level.device).log()
        found: torch.Tensor = torch.logsumexp(by_level + shares.reshape(-1, *[1] * (by_level.dim() - 1)), dim=0)
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Received:
    """Mixtures as an adversary without a schedule received them.

    ``symbols`` are all that was sent. ``mixtures`` are of inputs: where moments are sent, every slot counts as many as
    there are classes, for the products of inputs and label are, class by class, mixtures of the inputs of that class's
    workers.

    """

    symbols: torch.Tensor  # slots x symbols, real where phases were turned to be in line, or else complex
    noise: Doubles  # variance of the noise on a symbol, E |n|^2; slots
    total_power: float | None  # sum of the squared amplitudes in a slot; None where only the energy tells it
    amplitudes: Amplitudes  # of a worker that sends
    strength: Doubles  # of all that each worker sent, over the noise: truth, which is not known; workers
    mixtures: torch.Tensor  # of inputs; rows x inputs, real or complex. Rows are slots, or slots and classes
    strongest_worker: Integers  # in each mixture, -1 for nobody; rows
    noise_energy: Doubles | None = None  # expected ||noise||^2 of each mixture, where slots differ; rows
    beside: int | None = None  # the worker that the adversary stands beside

    @property
    def classes(self) -> int:
        """Rows of a slot."""
        return len(self.mixtures) // len(self.symbols)


def hear_release(view: ServerView, _speed: Speed | None = None) -> Received:
    """Return the mixtures as they are released, without schedule and ratios."""
    mixtures, slots, moments = view.released, len(view.symbols), view.signal.moments
    classes = view.signal.classes if moments else 1
    weights, label_weight = view.weights[:slots], view.scenario.workers.label_weight
    scheduled, ratios = (
        np.concatenate([getattr(draws, name) for draws in view.draws])[:slots]
        for name in ("scheduled_workers", "ratios")
    )
    squares, some = np.square(ratios), np.square(view.draws[0].ratios)
    strength = np.zeros(view.scenario.workers.count)
    np.add.at(strength, scheduled, squares * weights[:, None])
    noise = 1.0 / np.maximum(weights, _TINY)
    precision = weights.repeat(classes) * (label_weight**2 if moments else 1.0)
    return Received(
        symbols=view.symbols,
        noise=noise,
        total_power=float(some.sum(axis=1).mean()),
        amplitudes=Amplitudes.of(some, len(strength), alike=slots == 1),
        strength=strength,
        mixtures=mixtures,
        strongest_worker=strongest_workers(scheduled, ratios, view.dataset.train_labels[view.held_index], classes),
        noise_energy=mixtures.shape[1] / np.maximum(precision, _TINY),
    )


def strongest_workers(scheduled: Integers, strength: Doubles, labels: Integers, classes: int) -> Integers:
    """Return whose strength (slots x scheduled) is largest in each slot, -1 where all are 0; (slots classes).

    More than one class says that the workers of each class, by ``labels`` of all workers, are a mixture of their own.
    """
    if classes > 1:
        mine = labels[scheduled][:, None, :] == np.arange(classes)[:, None]
        strength = np.where(mine, strength[:, None, :], 0.0).reshape(-1, strength.shape[1])
        scheduled = scheduled.repeat(classes, axis=0)
    seat = strength.argmax(axis=1)[:, None]
    worker, largest = (np.take_along_axis(part, seat, axis=1)[:, 0] for part in (scheduled, strength))
    return np.where(largest > 0.0, worker, -1)


MOST_EXPLICIT: Final = 1024
_MOST_PUBLIC: Final = 5000
_SAMPLES_AT_ONCE: Final = 4096


def background_of(
    received: Received, signal: Signal, label_code: LabelCode, inputs: Singles, labels: Integers
) -> "Background":
    """Learn the filter S^-1 for every slot from public samples: encoded inputs (samples x features) and classes."""
    if signal.moments and signal.symbols > MOST_EXPLICIT:
        return ProductBackground(received, signal, label_code, inputs[:_MOST_PUBLIC], labels[:_MOST_PUBLIC])
    return SymbolBackground(received, Moments(signal) if signal.moments else Layout(signal), inputs, labels)


def background_power(received: Received, symbols_energy: float) -> torch.Tensor:
    """Return g of each slot: as known, or from its energy, E ||y||^2 = g E ||v||^2 + s^2 symbols; slots."""
    noise = torch.from_numpy(received.noise)
    if received.total_power is not None:
        return torch.full_like(noise, received.total_power)
    symbols = received.symbols.shape[1]
    energy = torch.cat(
        [received.symbols[some].abs().double().square().sum(dim=1).cpu() for some in blocks_of(len(noise), symbols)]
    )
    return ((energy - symbols * noise) / max(symbols_energy, 1e-30)).clamp_min(0.0)


class SymbolBackground:
    """The background of few symbols, slot by slot: C = U diag(p) U^T."""

    def __init__(self, received: Received, layout: Layout, inputs: Singles, labels: Integers) -> None:
        from sklearn.covariance import ledoit_wolf

        self.slots, self.device, self._layout = len(received.symbols), received.symbols.device, layout
        public = layout.numbers_of(inputs, labels)
        # Where nobody turned the phases, sums have no mean.
        mean = np.zeros(public.shape[1]) if received.symbols.is_complex() else public.mean(axis=0)
        # With few public samples C is drawn towards a multiple of I (Ledoit and Wolf 2004).
        about = public - mean
        covariance = ledoit_wolf(about, assume_centered=True)[0] if len(about) > 1 else about.T @ about
        powers, directions = np.linalg.eigh(covariance)
        kind: dict[str, Any] = {"dtype": torch.float32, "device": self.device}
        self._directions, self._mean = torch.tensor(directions, **kind), torch.tensor(mean, **kind)
        gain = background_power(received, float(powers.clip(0.0).sum()))
        noise = torch.from_numpy(received.noise)
        scale = noise[:, None] + gain[:, None] * torch.from_numpy(powers.clip(0.0))
        self._weights = (1.0 / scale).to(**kind)
        self._alike = bool((self._weights == self._weights[:1]).all())
        turned = (received.symbols - self._mean) @ self._directions.to(received.symbols.dtype)
        self._filtered = turned * self._weights

    def prepare(self, inputs: Singles, labels: Integers) -> torch.Tensor:
        """Return v less its mean, along U; candidates x symbols."""
        parts = [
            torch.from_numpy(self._layout.numbers_of(inputs[some], labels[some])).float().to(self.device) - self._mean
            for some in blocks_of(len(inputs), 1, _SAMPLES_AT_ONCE)
        ]
        return torch.cat(parts) @ self._directions

    def products(self, candidates: torch.Tensor, slots: slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Return b = v^H S^-1 y and c = v^T S^-1 v; candidates x slots each, c of all slots: candidates x 1."""
        weights = self._weights[:1] if self._alike else self._weights[slots]
        return times(candidates, self._filtered[slots].T), candidates.square() @ weights.T


class ProductBackground:
    """The background of many products, the same in all slots but for what is received.

    S^-1 = (I - V^T (n s^2 / g I + K)^-1 V) / s^2 with the n public samples' v as rows of V and K = V V^T. About their
    mean m, every product with a v is that less the mean over public samples.
    """

    def __init__(
        self, received: Received, signal: Signal, label_code: LabelCode, inputs: Singles, labels: Integers
    ) -> None:
        self.slots, self.device = len(received.symbols), received.symbols.device
        self.prepare = partial(Samples.of, signal, label_code, self.device)
        self._symbols = Symbols(received.symbols, signal)
        self._centred = not received.symbols.is_complex()
        self._public = self.prepare(inputs, labels)
        kernel = self._public.times(self._public)
        self._means: torch.Tensor | float = kernel.mean(dim=0) if self._centred else 0.0
        self._mean: torch.Tensor | float = kernel.mean() if self._centred else 0.0
        centred = self._about_mean(kernel)
        self._noise = float(received.noise.mean())
        gain = float(background_power(received, float(centred.diagonal().mean())).mean())
        ridge = self._noise * len(kernel) / max(gain, 1e-30)
        lower = torch.linalg.cholesky(centred.double() + ridge * torch.eye(len(kernel), device=self.device))
        identity = torch.eye(len(kernel), dtype=torch.float64, device=self.device)
        self._half = torch.linalg.solve_triangular(lower, identity, upper=False).float()  # L^-1
        heard = self._symbols.times(self._public)
        self._heard_mean = heard.mean(dim=0) - self._mean if self._centred else 0.0
        self._solved = times(self._half.T, times(self._half, self._heard_about_mean(heard, kernel)))

    def products(self, candidates: Samples, slots: slice) -> tuple[torch.Tensor, torch.Tensor]:
        parts = [
            self._products(candidates.some(some), slots) for some in blocks_of(len(candidates), 1, _SAMPLES_AT_ONCE)
        ]
        b, c = (torch.cat(part) for part in zip(*parts, strict=True))
        return b, c

    def _products(self, some: Samples, slots: slice) -> tuple[torch.Tensor, torch.Tensor]:
        kernel = some.times(self._public)
        about = self._about_mean(kernel)
        heard = self._heard_about_mean(self._symbols.times(some, slots), kernel, slots)
        b = heard - times(about, self._solved[:, slots])
        own = some.energy
        if self._centred:
            own = own - 2.0 * kernel.mean(dim=1) + self._mean
        c = own - (about @ self._half.T).square().sum(dim=1)
        return b / self._noise, c.clamp_min(1e-9)[:, None] / self._noise

    def _about_mean(self, kernel: torch.Tensor) -> torch.Tensor:
        """Return (v - m) . (v' - m); samples x public."""
        return kernel - kernel.mean(dim=1, keepdim=True) - self._means + self._mean if self._centred else kernel

    def _heard_about_mean(self, heard: torch.Tensor, kernel: torch.Tensor, slots: slice = slice(None)) -> torch.Tensor:
        """Return (v - m) . (y - m), given v . y and the products with public samples; samples x slots."""
        if not self._centred:
            return heard
        mean = torch.as_tensor(self._heard_mean)
        return heard - kernel.mean(dim=1, keepdim=True) - mean[slots]


Background = SymbolBackground | ProductBackground


def log_ratios(b: torch.Tensor, c: torch.Tensor, level: float) -> torch.Tensor:
    """Return the logarithm of the ratio for one amplitude; shape of b and c, b real or complex."""
    if not b.is_complex():
        return level * b - level**2 / 2.0 * c
    argument = 2.0 * level * b.abs()
    found: torch.Tensor = torch.special.i0e(argument).log() + argument - level**2 * c
    return found


def score(
    background: Background, held: Any, decoys: Any, amplitudes: Amplitudes, numbers_at_once: int = NUMBERS_AT_ONCE
) -> Scores:
    """Return the scores of candidates over all slots, in blocks.

    What of the background lies where public samples never do is unknown to its model. Decoys show how much there is:
    sent by nobody, they would have E |b|^2 / c = 1. Slots in which they have more are taken to be as much noisier.
    """
    everybody = (held, decoys)
    levels = len(amplitudes.levels) if amplitudes.alike else 1
    totals = [torch.zeros((levels, len(part)), dtype=torch.float64, device=background.device) for part in everybody]
    for slots in blocks_of(background.slots, len(held) + len(decoys), numbers_at_once):
        products = [background.products(part, slots) for part in everybody]
        b, c = products[1]
        noisier = (b.abs().square() / c.clamp_min(1e-30)).mean(dim=0).clamp_min(1.0)
        for total, (b, c) in zip(totals, products, strict=True):
            by_level = amplitudes.log_ratios(b / noisier, c / noisier)
            total.add_((by_level if amplitudes.alike else amplitudes.averaged(by_level)[None]).double().sum(dim=2))
    found = [amplitudes.averaged(total) if amplitudes.alike else total[0] for total in totals]
    return Scores(held=found[0].cpu().numpy(), decoys=found[1].cpu().numpy())
