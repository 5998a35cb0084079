"""What a worker's samples cost it: multiply-accumulates and memory, for sizing a microcontroller.

Counts follow the arithmetic, sample by sample, as ``FeatureCost`` says. Working memory holds the image and the features
at once. Products are formed one symbol at a time while sending, so they need no memory of their own.
"""

from dataclasses import asdict, dataclass

from airmixml.scenario import Workers
from airmixml.workers.encoder import FLOAT_BYTES, HARD_OPERATION, encoder_of
from airmixml.workers.signal import Signal


@dataclass(frozen=True, kw_only=True)
class WorkerCost:
    """Cost of one sample on the worker.

    Attributes:
        multiply_accumulates: to encode it and to form all symbols once.
        constant_bytes: filters, signs and tables, which can lie in flash memory.
        working_bytes: memory that the encoding needs besides.
        symbols: numbers that are sent per slot.
    """

    multiply_accumulates: int
    constant_bytes: int
    working_bytes: int
    symbols: int

    def to_dict(self) -> dict[str, int]:
        """Return the cost as plain values for JSON."""
        return asdict(self)


def worker_cost(workers: Workers, input_dim: int, signal: Signal) -> WorkerCost:
    """Return what one sample of ``input_dim`` numbers costs a worker that sends the given signal."""
    encoder = encoder_of(workers)
    features = encoder.feature_count(workers, input_dim)
    cost = encoder.cost(workers, input_dim)
    operations, constant_bytes = cost.multiply_accumulates, cost.constant_bytes
    if workers.centre in ("public", "private"):
        constant_bytes += FLOAT_BYTES * features
    if workers.centre != "none":
        operations += 2 * features
    if encoder.bounds_norm:
        operations += 2 * features + 2 * HARD_OPERATION
    if signal.moments:
        operations += signal.input_symbols + signal.features
    if signal.bits:
        operations += 3 * signal.symbols
    return WorkerCost(
        multiply_accumulates=2 * input_dim + operations,  # two to scale each input
        constant_bytes=constant_bytes,
        working_bytes=FLOAT_BYTES * (input_dim + features + cost.working_numbers),
        symbols=signal.symbols,
    )
