"""What adversaries hold when a run is over: every mixture, who went into it with which share, and all rounds.

Of rounds of gradients they hold the models that were broadcast too. A round is one more slot: its precision A^2 is that
of any other slot (``informed``), but what a sample sends in it follows from the model W that all were told,
v = S / C clip(x e^T), e = softmax(W^T x + b) - l. Noise is new in every slot, so logarithms of likelihoods add up over
all of them, and so do the products A^2 <v_c, v_c'> of candidates.

Adversaries that know no sample gain nothing: a round is one more sum over all its workers, and says of a single one
what any sum does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final, Self

import numpy as np
import torch
from scipy.sparse import coo_array, csr_array

from airmixml.arrays import Doubles, Integers, Singles, find_device, physical_memory_bytes
from airmixml.attacks.sample_symbols import Layout, layout_of, numbers_in
from airmixml.data import DataSet, OneHot
from airmixml.edge.training import run_observed
from airmixml.messages import ScenarioError
from airmixml.radio.draws import AirSetting, MixtureBlock, SlotDraws
from airmixml.radio.rounds import RoundsOnAir
from airmixml.radio.transmission import Transmission, open_air
from airmixml.scenario import RunContext, Scenario
from airmixml.scenario.consistency import require_classes
from airmixml.streams import Streams
from airmixml.workers import Signal, encoded_dim, load_dataset
from airmixml.workers.payloads import Broadcast

NUMBERS_KEPT: Final = 1 << 24
_COPIES: Final = 7  # of the table of all workers, from the first block solved for to the last picture compared
_BYTES_PER_SHARE: Final = 60
_SLOTS_BY_CLASS: Final = 2000
_SHORTEST = 1e-30


class MixingMatrix:
    """A with A_ti = sqrt(w_t) q_ti: the shares of all workers, each slot weighted (w_t) by how well it was heard.

    Attributes:
        heard: sum_t w_t q_ti^2 of each worker, the diagonal of A^T A; shape workers.
        mix: returns A X, slots x columns, for samples X of shape workers x columns.
        collect: returns A^T Y, workers x columns, for mixtures Y of shape slots x columns.
    """

    def __init__(self, shares: csr_array, weights: Doubles, device: torch.device) -> None:
        self.slots, self.workers = map(int, shares.shape)
        weighted = csr_array(shares.multiply(np.sqrt(weights)[:, None]))
        squares = weighted.copy()
        squares.data **= 2
        self.heard: Doubles = np.asarray(squares.sum(axis=0)).ravel()
        self.mix, self.collect = _product(weighted, device), _product(csr_array(weighted.T), device)

    @classmethod
    def of(cls, draws: Sequence[SlotDraws], workers: int, weights: Doubles, device: torch.device) -> Self:
        """Return the matrix of consecutive draws; a seat that nobody took leaves no entry."""
        if not draws:
            return cls(csr_array((0, workers)), weights, device)
        scheduled = np.concatenate([each.scheduled_workers for each in draws])
        ratios = np.concatenate([each.ratios for each in draws])
        slot, seat = np.nonzero(ratios)
        entries = (ratios[slot, seat], (slot, scheduled[slot, seat]))
        return cls(csr_array(coo_array(entries, shape=(len(ratios), workers))), weights, device)


def _product(matrix: csr_array, device: torch.device) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the product with a block of columns by ``embedding_bag``: threaded on a CPU, the same call on a GPU."""
    columns, starts = (
        torch.from_numpy(part.astype(np.int64)).to(device) for part in (matrix.indices, matrix.indptr[:-1])
    )
    values = torch.from_numpy(matrix.data.astype(np.float32)).to(device)
    bag = torch.nn.functional.embedding_bag
    return partial(bag, columns, offsets=starts, mode="sum", per_sample_weights=values)


@dataclass(frozen=True, kw_only=True, eq=False)
class Heard:
    """Slots in each of which a sample sends the same: those of a run that are no rounds, or one round.

    On an air that is not ideal the ratios of ``draws`` are those with which workers were really received: Re(q g / d),
    where the server divided by d, in the mean over the slot.
    """

    setting: AirSetting
    numbers: range  # of the slots
    draws: list[SlotDraws]  # schedule, ratios and powers, block by block
    weights: Doubles  # 1 / (variance of the noise on a symbol at the server); shape slots

    @property
    def scenario(self) -> Scenario:
        return self.setting.given


@dataclass(frozen=True, kw_only=True, eq=False)
class Round(Heard):
    """One round as the server sees it: a sample sends what follows from the model."""

    told: Broadcast  # the model and the clip that all workers were told
    unit: float  # S / C

    @classmethod
    def of(cls, block: MixtureBlock, on_air: RoundsOnAir) -> Self:
        setting = on_air.setting
        return cls(
            setting=setting,
            numbers=range(block.first_slot, block.first_slot + block.slots),
            draws=[as_heard(block)],
            weights=weights_of(block, setting.scenario),
            told=on_air.told,
            unit=on_air.payload.unit,
        )

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


@dataclass(frozen=True, kw_only=True, eq=False)
class ServerView(Heard):
    """All slots as the server sees them."""

    transmission: Transmission  # what was sent, with the data as they are sent and who holds which
    layout: Layout  # which numbers of a worker are looked at
    received: torch.Tensor  # mixtures of those numbers; slots x numbers, on the device
    symbols: torch.Tensor  # all symbols of the first slots, as sent; slots x symbols
    matrix: MixingMatrix  # shares, each slot weighted by 1 / (noise variance)
    rounds: tuple[Round, ...] = ()  # of gradients, which are not among the slots above

    @cached_property
    def released(self) -> torch.Tensor:
        """Mixtures of inputs; slots x inputs, or of moments those of each class: (slots classes) x inputs."""
        signal = self.signal
        if not signal.moments:
            return self.received[:, : signal.features]
        products = self.symbols[:, signal.input_symbols :] / signal.label_weight
        return rows_of_classes(products, signal.features, signal.classes)

    @property
    def labels(self) -> torch.Tensor:
        """Mixtures of labels; slots x classes, none of moments, which send no label by itself."""
        signal = self.signal
        return self.received[:, self.received.shape[1] if signal.moments else signal.features :] / signal.label_weight

    @property
    def signal(self) -> Signal:
        return self.setting.signal

    @property
    def dataset(self) -> DataSet:
        return self.transmission.dataset

    @property
    def held_index(self) -> Integers:
        """Row of the training pool that each worker holds; shape workers."""
        return self.transmission.population.sample_index

    def holders_of(self, rows: Integers) -> Integers:
        """Return the first worker that holds each of these rows of the pool; shape rows."""
        order = np.argsort(self.held_index, kind="stable")
        return np.asarray(order[np.searchsorted(self.held_index, rows, sorter=order)])


def watch(scenario: Scenario, *, context: RunContext | None = None) -> ServerView:
    """Run all slots of the scenario in a context (device, threads, progress), and return what the server then holds."""
    context = context or RunContext()
    require_classes(scenario.workers, "an attack", single_rows=False)
    device, streams = find_device(context.speed.device), Streams(scenario.seed)
    dataset = load_dataset(scenario.workers, streams, data_dir=context.data_dir, progress=context.progress)
    # A constant is appended only once a private mean is known, so its place counts already here.
    held_dim = dataset.held_dim or dataset.input_dim
    signal = Signal.of(scenario.workers, encoded_dim(scenario.workers, held_dim), dataset.label_dim)
    _check_memory(scenario, signal, device)
    air = open_air([scenario], dataset, None, context)
    layout = layout_of(signal, air.dataset, device)
    received, whole, weights, draws = list[torch.Tensor](), list[torch.Tensor](), list[Doubles](), list[SlotDraws]()
    kept, rounds = slots_kept(_SLOTS_BY_CLASS, signal.symbols), list[Round]()

    def see(block: MixtureBlock, on_air: RoundsOnAir | None) -> None:
        if on_air is not None:
            rounds.append(Round.of(block, on_air))
            return
        received.append(layout.received(block))
        if signal.moments and block.first_slot < kept:
            symbols = torch.cat([block.inputs, signal.label_weight * block.labels], dim=1)
            whole.append(symbols[: kept - block.first_slot].float())
        draws.append(as_heard(block))
        weights.append(weights_of(block, scenario))

    transmission = run_observed(air, see, context)
    everything = torch.cat(received) if received else torch.zeros((0, signal.features), device=device)
    weighted = np.concatenate([np.zeros(0), *weights])
    return ServerView(
        setting=air.settings[0],
        numbers=range(len(weighted)),
        draws=draws,
        weights=weighted,
        transmission=transmission,
        layout=layout,
        received=everything,
        symbols=torch.cat(whole) if whole else everything,
        matrix=MixingMatrix.of(draws, scenario.workers.count, weighted, device),
        rounds=tuple(rounds),
    )


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


def _check_memory(scenario: Scenario, signal: Signal, device: torch.device) -> None:
    """Refuse what does not fit rather than be killed half-way."""
    slots, workers, numbers = scenario.radio.slots, scenario.workers.count, numbers_in(signal)
    on_device = 4 * numbers * (2 * slots + _COPIES * workers) + _BYTES_PER_SHARE * slots * scenario.seats
    needs = [(on_device, torch.cuda.mem_get_info(device)[0], str(device))] if device.type == "cuda" else []
    on_host = on_device if device.type == "cpu" else 4 * numbers * _COPIES * workers
    for needed, available, place in [*needs, (on_host, physical_memory_bytes(), "this machine")]:
        if needed > available:
            raise ScenarioError(
                f"radio.slots = {slots}: to attack all {workers} workers at once needs {needed / 1e9:.0f} GB of memory "
                f"and {place} has {available / 1e9:.0f} GB; attack a run of fewer slots or workers"
            )


def slots_kept(slots: int, symbols: int) -> int:
    """Return how many slots of so many symbols are looked at, since all are kept in memory; at least one."""
    return max(1, min(slots, NUMBERS_KEPT // symbols))


def rows_of_classes(labels: torch.Tensor, features: int, classes: int) -> torch.Tensor:
    """Return products with labels (slots x features classes) as mixtures of each class; (slots classes) x features."""
    return labels.reshape(-1, features, classes).transpose(1, 2).reshape(-1, features)
