"""What a worker does: it holds a sample somewhere in the square, encodes it, and sends symbols of it."""

from airmixml.workers.cost import WorkerCost, worker_cost
from airmixml.workers.encoders import declared_bounds, encode, encoded_dim, finish_encoding, input_range, keeps_pixels
from airmixml.workers.loading import load_dataset
from airmixml.workers.population import Population, deploy, place_coordinates, place_workers
from airmixml.workers.signal import SYMBOLS_PER_SECOND, Signal

__all__ = [
    "SYMBOLS_PER_SECOND",
    "Population",
    "Signal",
    "WorkerCost",
    "declared_bounds",
    "deploy",
    "encode",
    "encoded_dim",
    "finish_encoding",
    "input_range",
    "keeps_pixels",
    "load_dataset",
    "place_coordinates",
    "place_workers",
    "worker_cost",
]
