"""What a worker sends in a slot: the symbols, how large they can be together, what they cost; and the sums of many.

A worker sends its encoded input x (d numbers) beside its label l with ||l|| <= 1, weighted by w: the vector (x, w l).
Or it sends their products, (svec(x x^T), w x l^T), every product of two different numbers once, times sqrt(2): then
||svec(x x^T)|| = ||x||^2.

``Payload.vectors`` is the reference: NumPy alone, so that a device computes what a simulation adds up. A payload that
says no more is added up by ``stream``: a few workers at a time, each with its own vector. Kinds that are used much have
a ``weighted_sum`` of their own.

Sums before noise is added are computed so that rounding never lets one worker move them too far.
Rounding differs between the sums with and without a worker, in every partial sum after it. In float32 that adds up: in
the worst case a removal moved the sum of 60,000 workers by 1.0014 times the declared sensitivity, that of 10^7 by 1.21.

The bound. Let n workers send q_i v_i, with q_i ||v_i|| at most D, the sensitivity. Whatever the order of additions, if
no number passes through more than m of them, and r other roundings, the computed sum is sum_i (1 + e_i) q_i v_i in
every component, |e_i| <= (m + r) u / (1 - (m + r) u) for the unit roundoff u (Higham 2002, section 4.2). So it is off
by a vector of norm at most (m + r) u n D, and two sums differ by at most (1 + 2 (m + r) u n) D. In float64, u is 2^-53,
and blocks of at most B = 4096 workers that are added up one after the other make m = B + n / B: this is
1 + 6e-8 at 60,000 workers, 1 + 1e-6 at 10^6 and 1 + 1.5e-5 at 10^7. What is above 1 every worker takes off by sending
that much more softly (``rounding_backoff``). A sum stays in float64 until the noise is on it: to round it before would
move it by as much as float32 sums do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Integers, Singles, torch
from airmixml.messages import ScenarioError
from airmixml.registries import PAYLOADS
from airmixml.scenario import Radio, Workers
from airmixml.scenario.air import SYMBOLS_PER_SECOND
from airmixml.workers.encoder import FLOAT_BYTES, HARD_OPERATION, encoder_of
from airmixml.workers.encoding import declared_bounds

Vectors = NDArray[np.floating]

NUMBERS_AT_ONCE: Final = 1 << 25
"""Bounds the memory: so many numbers of products or Gram matrices are formed at once."""

STREAMED_AT_ONCE: Final = 1 << 16  #: The same of several short slots whose vectors are formed one by one

BLOCK: Final = 4096  #: So many workers are added up at once, so that no number passes through many more additions

_UNIT_ROUNDOFF: Final = 2.0**-53
# Products, square roots of shares, weights of labels and of rows: each is rounded once.
_OTHER_ROUNDINGS: Final = 8
_LEAST: Final = 0.9


@dataclass(frozen=True, kw_only=True)
class Signal:
    """Layout and bounds of what one worker sends."""

    features: int  #: d, numbers in an encoded input
    classes: int  #: d_Y, numbers in a label (classes, targets or labels)
    moments: bool = False  #: whether products are sent instead of the sample
    label_weight: float = 1.0  #: w
    bits: int = 0  #: bits per symbol; 0 where symbols are not rounded
    #: whether two labels may point to opposite sides, as targets and signs do and one-hot labels do not
    signed: bool = False
    several_rows: bool = False  #: whether what is sent may be the shortened sum of several rows' products
    #: whether a class is sent as its one-hot vector less the mean of all, brought to norm 1
    centred_labels: bool = False
    payload: str = ""  #: name of what is sent; empty for samples and moments

    @classmethod
    def of(cls, workers: Workers, features: int, classes: int) -> Self:
        """Return the signal of a scenario's workers whose encoded inputs have ``features`` numbers."""
        return cls(
            features=features,
            classes=classes,
            moments=bool(PAYLOADS.load(workers.sends).moments),
            label_weight=workers.label_weight,
            bits=workers.bits,
            signed=workers.task != "classification" or workers.label_code == "centred",
            centred_labels=workers.label_code == "centred",
            several_rows=workers.several_rows,
            payload="" if workers.sends in ("samples", "moments") else workers.sends,
        )

    @property
    def kind(self) -> Any:
        """The payload that is sent, which knows its layout and bounds."""
        return PAYLOADS.load(self.payload or ("moments" if self.moments else "samples"))

    @property
    def input_symbols(self) -> int:
        """Symbols that carry the input: d, or the d (d + 1) / 2 different products of two of its numbers."""
        return int(self.kind.layout(self)[0])

    @property
    def label_symbols(self) -> int:
        """Symbols that carry the label: one per class, or one per class and number of the input."""
        return int(self.kind.layout(self)[1])

    @property
    def symbols(self) -> int:
        """All symbols of a slot."""
        return sum(self.kind.layout(self))

    @property
    def operations(self) -> int:
        """Multiply-accumulates of a worker that forms all symbols once and, with few bits, rounds them."""
        return int(self.kind.operations(self)) + (3 * self.symbols if self.bits else 0)

    @property
    def downlink_bits(self) -> int:
        """What the server broadcasts before each slot."""
        return int(self.kind.downlink_bits(self))

    def largest_squared_norm(self, squared_norm: float) -> float:
        """Return the bound on ||v||^2 of what is sent, for inputs with ||x||^2 <= ``squared_norm``."""
        return float(self.kind.largest_squared_norm(self, squared_norm))

    def largest_squared_distance(self, squared_norm: float, squared_distance: float) -> float:
        """Return the bound on ||v - v'||^2 of what two samples send, given those on ||x||^2 and on ||x - x'||^2.

        Rounded symbols and shortened sums of many short rows keep the norm alone, so two of them may point anywhere.
        """
        if self.bits or self.several_rows:
            return 4.0 * self.largest_squared_norm(squared_norm)
        return float(self.kind.largest_squared_distance(self, squared_norm, squared_distance))

    def slot_seconds(self, radio: Radio) -> float:
        """Return tau, or the time that the symbols need at the paper's rate where that is longer."""
        return max(radio.slot_seconds, self.symbols / SYMBOLS_PER_SECOND)


@dataclass(frozen=True, kw_only=True)
class WorkerCost:
    """Cost of one sample on the worker, for sizing a microcontroller; counted as ``FeatureCost`` says.

    Working memory holds the image and the features at once. Products are formed one symbol at a time while sending, so
    they need no memory of their own.
    """

    multiply_accumulates: int  #: to encode it and to form all symbols once
    constant_bytes: int  #: filters, signs and tables, which can lie in flash memory
    working_bytes: int  #: memory that the encoding needs besides
    symbols: int  #: numbers that are sent per slot

    def to_dict(self) -> dict[str, int]:
        """Return the cost as plain values for JSON."""
        return asdict(self)


def worker_cost(workers: Workers, input_dim: int, signal: Signal) -> WorkerCost:
    """Return what one sample of ``input_dim`` numbers costs a worker that sends the given signal."""
    encoder = encoder_of(workers)
    features, cost = encoder.feature_count(workers, input_dim), encoder.cost(workers, input_dim)
    scaling = 2 * input_dim if encoder.scales_inputs else 0
    centring = 2 * features if workers.centre != "none" else 0
    bounding = 2 * features + 2 * HARD_OPERATION if encoder.bounds_norm else 0
    stored_means = features if workers.centre in ("public", "private", "refined") else 0
    return WorkerCost(
        multiply_accumulates=scaling + cost.multiply_accumulates + centring + bounding + signal.operations,
        constant_bytes=cost.constant_bytes + FLOAT_BYTES * stored_means,
        working_bytes=FLOAT_BYTES * (input_dim + features + cost.working_numbers),
        symbols=signal.symbols,
    )


class Places(NamedTuple):
    """Where weights fall that differ within a slot: on pieces, one after the other."""

    lengths: Sequence[int]  #: symbols of each piece
    in_slot: int = 0  #: how many workers send in the slot, where these are some; 0: these


class Part(NamedTuple):
    """So many symbols of a vector, and the norm of ``numbers`` of them, by which they are rounded; 0: never rounded."""

    symbols: int
    norm: float
    numbers: int


class Payload:
    """Vectors of bounded norm, and their sums."""

    signal: Signal  #: layout and bounds
    norm: float  #: largest of an encoded input
    device: str | torch.device  #: that sums are added up on
    protects: bool  #: whether the data are real: then sums are float64, and nothing is modelled
    models_rounding: bool  #: whether errors of converters are left to the receiver's noise

    if TYPE_CHECKING:  # kinds and tables have them; a wrapper has those of the inner payload
        pool_size: Any  #: samples of the pool, or holdings of several rows
        parts: Any  #: how the symbols are rounded where they are (``workers.bits``): a ``Part`` each
        largest_symbols: Any  #: the largest amplitude that each sample is sent with, or a bound; samples, float64
        squared_lengths: Any  #: ||v||^2 of what each sample sends, or a bound on it; samples, float64
        unit: Any  #: gradients alone: what one is multiplied with before it is sent

        def broadcast(self, told: Any) -> None:
            """Gradients alone: take the model and the clip of the next round, a ``payloads.Broadcast``."""

    def vectors(self, index: Integers) -> Vectors:
        """Return what workers with these samples of the pool send; workers x symbols."""
        raise NotImplementedError

    def weighted_sum(self, index: torch.Tensor, weights: torch.Tensor, places: Places | None = None) -> torch.Tensor:
        """Return sum_i w_i v_i of workers with these samples; slots x symbols.

        Samples are slots x workers. Weights are slots x workers and nowhere negative; or, where there are ``places``,
        slots x workers x pieces (or x 1) of any sign. In float64 where data are protected, or so many send that float32
        would let one move the sum too far.
        """
        return self.stream(index, weights, places)

    def weighted_sums(
        self, index: torch.Tensor, weights: torch.Tensor, factors: torch.Tensor, places: Places
    ) -> torch.Tensor:
        """Return sum_i w_ip f_ik v_i for each k, factors slots x workers x any number; number x slots x symbols."""
        each = (weights * factor[:, :, None] for factor in factors.unbind(dim=2))
        return torch.stack([self.weighted_sum(index, weighted, places) for weighted in each])

    def stream(self, index: torch.Tensor, weights: torch.Tensor, places: Places | None = None) -> torch.Tensor:
        """Form every worker's vector and add them up, in float64; arguments and result as of ``weighted_sum``.

        In parts that follow from the signal alone: then blocks of any size round alike. Several short slots at once on
        an air that is not ideal; slot by slot where rounding draws as it goes.
        """
        workers_at_once = max(1, min(BLOCK, NUMBERS_AT_ONCE // self.signal.symbols))
        backoff = rounding_backoff(self.workers_in_slot(index, places), workers_at_once)
        weights, lengths = self._in_pieces(weights, places)
        weights = backoff * weights.double()
        total = torch.zeros((len(weights), self.signal.symbols), dtype=torch.float64, device=self.device)
        several = places is not None and self.in_any_order
        slots_at_once = max(1, STREAMED_AT_ONCE // (index.shape[1] * self.signal.symbols)) if several else 1
        on_symbols = torch.tensor(lengths, device=weights.device)
        for slots in (slice(first, first + slots_at_once) for first in range(0, len(weights), slots_at_once)):
            for some in (slice(first, first + workers_at_once) for first in range(0, index.shape[1], workers_at_once)):
                sent, here = self.sent(index[slots, some], slots, some), weights[slots, some]
                if slots_at_once > 1:
                    total[slots] += (sent * here.repeat_interleave(on_symbols, dim=2)).sum(dim=1)
                    continue
                pieces = zip(torch.split(sent[0], lengths, dim=1), here[0].unbind(dim=1), strict=True)
                total[slots] += torch.cat([weight @ piece for piece, weight in pieces])
        return total

    def sent(self, index: torch.Tensor, slots: slice, some: slice) -> torch.Tensor:
        """Return the vectors of some workers of slots, both counted from the first added up; slots x workers x symbols.

        ``index`` has their samples, slots x workers.
        """
        vectors = torch.from_numpy(self.vectors(index.flatten().cpu().numpy())).to(self.device).double()
        return vectors.view(*index.shape, -1)

    def workers_in_slot(self, index: torch.Tensor, places: Places | None) -> int:
        """Return how many workers send in a slot of which these, slots x workers, are added up."""
        return (places is not None and places.in_slot) or index.shape[1]

    def _in_pieces(self, weights: torch.Tensor, places: Places | None) -> tuple[torch.Tensor, list[int]]:
        """Return weights of every piece, slots x workers x pieces, and how many symbols each has."""
        if places is None:
            return weights[:, :, None], [self.signal.symbols]
        return weights, list(places.lengths) if weights.shape[2] > 1 else [self.signal.symbols]

    @property
    def in_any_order(self) -> bool:
        """Whether blocks of slots may be added up in any order, and several at once; rounding draws as it goes."""
        return not self.signal.bits

    @property
    def largest_norm(self) -> float:
        """The norm that no vector exceeds."""
        return math.sqrt(self.signal.largest_squared_norm(self.norm**2))


@dataclass(kw_only=True, eq=False)
class PoolPayload(Payload):
    """A kind of payload, made of the encoded inputs (samples x features) and labels (samples x outputs) of a pool."""

    about: ClassVar[str]  #: what it is, in one line
    moments: ClassVar[bool] = False  #: whether it is the products that learners in closed form solve from
    products: ClassVar[bool] = False  #: whether what is sent of a row are products of its numbers
    tabled: ClassVar[bool] = True  #: whether vectors are so short that those of the whole pool are laid out once
    signal: Signal
    norm: float
    inputs: Singles
    labels: Singles
    device: str | torch.device = "cpu"
    protects: bool = False
    models_rounding: bool = False

    @cached_property
    def pool_size(self) -> int:
        return len(self.inputs)

    @staticmethod
    def layout(signal: Signal) -> tuple[int, int]:
        """Return how many symbols carry the input, and how many the label."""
        return signal.features, signal.classes

    @staticmethod
    def largest_squared_norm(signal: Signal, squared_norm: float) -> float:
        """Return the bound on ||v||^2 for ||x||^2 <= ``squared_norm`` and ||l|| <= 1; of samples ||x||^2 + w^2."""
        return squared_norm + signal.label_weight**2

    @staticmethod
    def largest_squared_distance(signal: Signal, squared_norm: float, squared_distance: float) -> float:
        """Return the bound on ||v - v'||^2, from bounds on ||x||^2 and on ||x - x'||^2.

        Of samples: ||x - x'||^2 + 2 w^2, the labels being different at worst, or + 4 w^2 where they can be opposite.
        """
        return squared_distance + (4.0 if signal.signed else 2.0) * signal.label_weight**2

    @staticmethod
    def operations(signal: Signal) -> int:
        """Return the multiply-accumulates of a worker that forms all symbols once; of samples none."""
        return 0

    @staticmethod
    def downlink_bits(signal: Signal) -> int:
        """Return how much the server broadcasts before each slot; of samples nothing."""
        return 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Holdings:
    """The rows of the pool that each worker holds, padded to the same number."""

    rows: Integers  #: holdings x most rows of one; 0 where there is none
    present: NDArray[np.bool_]  #: whether there is one; holdings x most rows of one

    @property
    def sizes(self) -> Integers:
        """How many rows each holding has; shape holdings."""
        return np.asarray(self.present.sum(axis=1))


def payload_of(
    workers: Workers, inputs: Singles, labels: Singles, holdings: Holdings | None = None, **how: Any
) -> Payload:
    """Return the payload of encoded inputs and coded labels (rows x numbers each), of workers with one row or more."""
    signal = Signal.of(workers, inputs.shape[1], labels.shape[1])
    norm = math.sqrt(declared_bounds(workers, inputs.shape[1])[0])
    if holdings is not None:
        present = holdings.present.astype(np.float32)
        how |= {"rows": holdings.rows, "present": present, "rows_bound": workers.rows_bound}
    payload: Payload = signal.kind(signal=signal, norm=norm, inputs=inputs, labels=labels, **how)
    return payload


def rounding_backoff(workers: int, block: int = BLOCK) -> float:
    """Return what the shares of so many workers are multiplied with, so that rounding is covered; just below 1."""
    additions = min(workers, block) + -(-workers // block)
    factor = 1.0 - 2.0 * (additions + _OTHER_ROUNDINGS) * _UNIT_ROUNDOFF * workers
    if factor < _LEAST:
        raise ScenarioError(
            f"radio.scheduled = {workers}: what rounding may add to the sum of so many can no longer be covered; "
            "schedule fewer workers at once"
        )
    return factor
