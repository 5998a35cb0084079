"""What a worker does: it holds a sample somewhere in the square, encodes it, and sends symbols of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.registry import import_late

if TYPE_CHECKING:
    from airmixml.scenario.air import SYMBOLS_PER_SECOND
    from airmixml.workers.encoder import (
        Encoder,
        FeatureCost,
        GraphPart,
        encoder_of,
        scales_inputs,
        sends_inputs_unchanged,
    )
    from airmixml.workers.encoders.torch_module import TorchEncoder
    from airmixml.workers.encoding import (
        RowEncoder,
        declared_bounds,
        encode,
        encode_centred,
        encoded_dim,
        finish_encoding,
        input_range,
        keeps_pixels,
        within_declared,
    )
    from airmixml.workers.loading import load_dataset
    from airmixml.workers.population import Population, deploy, place_coordinates, place_workers, settle
    from airmixml.workers.signal import Holdings, Signal, WorkerCost, worker_cost

__all__ = ["SYMBOLS_PER_SECOND", "Encoder", "FeatureCost", "GraphPart", "Holdings", "Population", "RowEncoder"]
__all__ += ["Signal", "TorchEncoder", "WorkerCost", "declared_bounds", "deploy", "encode", "encode_centred"]
__all__ += ["encoded_dim", "encoder_of", "finish_encoding", "input_range", "keeps_pixels", "load_dataset"]
__all__ += ["place_coordinates", "place_workers", "scales_inputs", "sends_inputs_unchanged", "settle"]
__all__ += ["within_declared", "worker_cost"]

# Late, so that checking a scenario imports the encoder that it names and no NumPy.
__getattr__ = import_late(__name__)
