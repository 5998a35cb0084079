"""What a worker does: it holds a sample somewhere in the square, encodes it, and sends symbols of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.lazy import import_late

if TYPE_CHECKING:
    from airmixml.workers.encoder import Encoder, FeatureCost, encoder_of, sends_inputs_unchanged
    from airmixml.workers.encoding import (
        declared_bounds,
        encode,
        encode_centred,
        encoded_dim,
        finish_encoding,
        input_range,
        keeps_pixels,
    )
    from airmixml.workers.holdings import Holdings
    from airmixml.workers.loading import load_dataset
    from airmixml.workers.population import Population, deploy, place_coordinates, place_workers
    from airmixml.workers.settling import settle
    from airmixml.workers.signal import SYMBOLS_PER_SECOND, Signal, WorkerCost, worker_cost

__all__ = ["SYMBOLS_PER_SECOND", "Encoder", "FeatureCost", "Holdings", "Population", "Signal", "WorkerCost"]
__all__ += ["declared_bounds", "deploy", "encode", "encode_centred", "encoded_dim", "encoder_of", "finish_encoding"]
__all__ += [
    "input_range",
    "keeps_pixels",
    "load_dataset",
    "place_coordinates",
    "place_workers",
    "sends_inputs_unchanged",
]
__all__ += ["sends_inputs_unchanged", "settle"]
__all__ += ["worker_cost"]

# Late, so that checking a scenario imports the encoder that it names and no NumPy.
__getattr__ = import_late(
    __name__,
    {
        ".encoder": ("Encoder", "FeatureCost", "encoder_of", "sends_inputs_unchanged"),
        ".encoding": (
            *("declared_bounds", "encode", "encode_centred", "encoded_dim"),
            *("finish_encoding", "input_range", "keeps_pixels"),
        ),
        ".holdings": ("Holdings",),
        ".loading": ("load_dataset",),
        ".population": ("Population", "deploy", "place_coordinates", "place_workers"),
        ".settling": ("settle",),
        ".signal": ("SYMBOLS_PER_SECOND", "Signal", "WorkerCost", "worker_cost"),
    },
)
