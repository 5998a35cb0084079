"""The symbols that a worker sends in a slot: how many there are, how large they can be together, and what they cost.

A worker sends its encoded input x (d numbers) beside its label l with ||l|| <= 1, weighted by w: the vector (x, w l).
Or it sends their products, from which a server that sees only sums can learn: (svec(x x^T), w x l^T). The matrix x x^T
is symmetric, so every product of two different numbers is sent once, times sqrt(2): then ||svec(x x^T)|| = ||x||^2. A
worker with several rows sends the sum of their products, shortened to what a single row's norm can be.
"""

from dataclasses import asdict, dataclass
from typing import Any, Self

from airmixml.registries import PAYLOADS
from airmixml.scenario import Radio, Workers
from airmixml.scenario.air import SYMBOLS_PER_SECOND
from airmixml.workers.encoder import FLOAT_BYTES, HARD_OPERATION, encoder_of, scales_inputs


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
    features = encoder.feature_count(workers, input_dim)
    cost = encoder.cost(workers, input_dim)
    operations, constant_bytes = cost.multiply_accumulates, cost.constant_bytes
    if workers.centre in ("public", "private", "refined"):
        constant_bytes += FLOAT_BYTES * features
    if workers.centre != "none":
        operations += 2 * features
    if encoder.bounds_norm:
        operations += 2 * features + 2 * HARD_OPERATION
    operations += signal.operations
    return WorkerCost(
        multiply_accumulates=(2 * input_dim if scales_inputs(workers) else 0) + operations,  # two to scale each input
        constant_bytes=constant_bytes,
        working_bytes=FLOAT_BYTES * (input_dim + features + cost.working_numbers),
        symbols=signal.symbols,
    )
