"""Whether features and products fit into memory, asked before any of them is computed."""

from typing import Final

from airmixml.devices import physical_memory_bytes
from airmixml.errors import ScenarioError
from airmixml.scenario import Workers
from airmixml.workers.encoder import FLOAT_BYTES, encoder_of
from airmixml.workers.encoding import encoded_dim
from airmixml.workers.signal import Signal

# Features before and after centring, and as they are sent.
_COPIES_OF_A_SAMPLE: Final = 3
# A slot's sum, its noise, what is received, and its moments in double precision.
_COPIES_OF_A_SLOT: Final = 6


def check_signal_memory(workers: Workers, features: int, label_dim: int) -> None:
    """Refuse what is sent of one encoded sample where a slot of it, or its second moments, fit into no memory."""
    signal = Signal.of(workers, features, label_dim)
    needed, available = FLOAT_BYTES * _COPIES_OF_A_SLOT * signal.symbols, physical_memory_bytes()
    if needed > available:
        raise too_many_numbers(workers, signal, needed, available)


def check_feature_memory(workers: Workers, samples: int, input_dim: int, label_dim: int) -> None:
    """Refuse features of so many samples, or one slot of what is sent of them, that fit into no memory.

    ``input_dim`` counts the numbers of a sample before it is encoded.
    """
    signal = Signal.of(workers, encoded_dim(workers, input_dim), label_dim)
    numbers = _COPIES_OF_A_SAMPLE * samples * signal.features + _COPIES_OF_A_SLOT * signal.symbols
    needed, available = FLOAT_BYTES * numbers, physical_memory_bytes()
    if needed > available:
        raise too_many_numbers(workers, signal, needed, available)


def too_many_numbers(workers: Workers, signal: Signal, needed: float, available: float) -> ScenarioError:
    """Return the error that names the key which makes so many bytes of features or products."""
    size = f"needs {needed / 1e9:.3g} GB of memory and there are {available / 1e9:.3g} GB"
    products = f" ({signal.symbols:,} products in each slot)" if signal.moments else ""
    if encoder_of(workers).takes_features:
        return ScenarioError(f"workers.features = {workers.features}: {size}{products}; choose fewer features")
    if signal.moments:
        less = "choose an encoder with fewer features, such as projection"
        return ScenarioError(f'workers.sends = "moments": {size}{products}; {less}, or send samples')
    return ScenarioError(f"workers.train_samples = {workers.train_samples}: {size}; choose fewer samples")
