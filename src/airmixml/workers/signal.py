"""The symbols that a worker sends in a slot: how many there are, how large they can be together, and what they cost.

A worker sends its encoded input x (d numbers) beside its label l with ||l|| <= 1, weighted by w: the vector (x, w l).
Or it sends their products, (svec(x x^T), w x l^T), every product of two different numbers once, times sqrt(2): then
||svec(x x^T)|| = ||x||^2. The privacy guarantee rests on what an encoder declares: two bounds that hold for every
input, on ||x||^2 (what a removal moves) and on ||x - x'||^2 (what a replacement moves).
"""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

import numpy as np

from airmixml.arrays import Singles
from airmixml.errors import ScenarioError, private
from airmixml.registries import PAYLOADS
from airmixml.scenario import Radio, Workers
from airmixml.scenario.air import SYMBOLS_PER_SECOND
from airmixml.workers.encoder import FLOAT_BYTES, HARD_OPERATION, encoder_of, scales_inputs
from airmixml.workers.encoding import bound_norms

# Inputs that were encoded elsewhere may be beyond their bounds by what float32 rounds.
_ROUNDING_ABOVE: Final = 1.0 + 1e-5
_UNIT_ROUNDOFF: Final = 2.0**-53


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


def declared_bounds(workers: Workers, features: int) -> tuple[float, float]:
    """Return the bounds on ||x||^2 and on ||x - x'||^2 of what leaves the encoder with that many numbers.

    Inputs in [0, 1]^d give d for both. A norm of at most C gives C^2 and, where no number is negative and so no two
    inputs point apart, 2 C^2; else 4 C^2.
    """
    encoder = encoder_of(workers)
    if not encoder.bounds_norm:
        return float(features), float(features)
    square = workers.clip_norm**2
    squared_norm, squared_distance = square, (2.0 if _never_negative(workers) else 4.0) * square
    if encoder.keeps_inputs and workers.norm == "clip" and workers.centre == "none":
        return min(squared_norm, float(features)), min(squared_distance, float(features))
    return squared_norm, squared_distance


def input_range(workers: Workers) -> tuple[float, float]:
    """Return the least and the largest number that may leave the encoder."""
    if not encoder_of(workers).bounds_norm:
        return 0.0, 1.0
    return (0.0 if _never_negative(workers) else -workers.clip_norm), workers.clip_norm


def within_declared(workers: Workers, inputs: Singles) -> Singles:
    """Return encoded inputs (samples x numbers), each within what is declared; refuse those that are far beyond it.

    An input beyond it by rounding alone is shortened by itself: what becomes of one must not depend on others.
    """
    features = inputs.shape[1]
    squared_norm, squared_distance = declared_bounds(workers, features)
    squares = np.einsum("ij,ij->i", inputs, inputs, dtype=np.float64)
    longest, least = float(squares.max(initial=0.0)), float(inputs.min(initial=0.0))
    if longest > squared_norm * _ROUNDING_ABOVE:
        raise ScenarioError(
            f"dataset: an input has {private(f'the squared norm {longest:.4g}', 'a larger squared norm')}: must be at "
            f"most {squared_norm:.4g}, which the scenario's encoder declares; encode the inputs first "
            "(airmixml.workers.encode)"
        )
    if squared_distance < 2.0 * squared_norm:  # it is each number that is bounded, but for the constant
        inputs = _within_cube(workers, inputs)
    if squared_distance < 4.0 * squared_norm and least < 0.0:
        raise ScenarioError(
            "dataset: an input is negative, but the scenario's encoder declares that none is; encode the inputs first "
            "(airmixml.workers.encode)"
        )
    # Squared norms are added up again where rounding could decide.
    rounding = 2.0 * (features + 2) * _UNIT_ROUNDOFF
    near = np.flatnonzero(squares > squared_norm * (1.0 - rounding)).tolist()
    long = [row for row in near if math.fsum(np.square(inputs[row], dtype=np.float64)) > squared_norm]
    if squared_norm >= features or not long:
        return inputs
    kept = inputs.copy()
    kept[long] = bound_norms(replace(workers, norm="clip"), inputs[long])[0]
    return kept


def _within_cube(workers: Workers, inputs: Singles) -> Singles:
    """Return the inputs with no number above 1, where none is far above it or negative; samples x numbers."""
    body = inputs[:, :-1] if workers.constant else inputs
    low, high = float(body.min(initial=0.0)), float(body.max(initial=0.0))
    if low < 0.0 or high > _ROUNDING_ABOVE:
        raise ScenarioError(
            f"dataset: inputs {private(f'reach from {low:.4g} to {high:.4g}', 'reach too far')}: must lie between 0 "
            f"and 1, which the encoder {workers.encoder} declares; scale them by public bounds first"
        )
    return inputs if high <= 1.0 else np.hstack([np.minimum(body, np.float32(1.0)), inputs[:, body.shape[1] :]])


def _never_negative(workers: Workers) -> bool:
    return encoder_of(workers).never_negative and workers.centre == "none"
