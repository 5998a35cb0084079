"""Who holds what: data sets, scaling by declared bounds, and workers placed with one sample each."""

from airmixml.workers.bounds import declare_bounds
from airmixml.workers.cost import WorkerCost, worker_cost
from airmixml.workers.dataset import DataSet
from airmixml.workers.encoders import declared_bounds, encode, encoded_dim, finish_encoding, input_range, keeps_pixels
from airmixml.workers.loading import load_dataset
from airmixml.workers.placement import place_coordinates, place_workers
from airmixml.workers.population import Population, deploy
from airmixml.workers.scaling import scale_to_unit
from airmixml.workers.signal import SYMBOLS_PER_SECOND, Signal

__all__ = [
    "SYMBOLS_PER_SECOND",
    "DataSet",
    "Population",
    "Signal",
    "WorkerCost",
    "declare_bounds",
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
    "scale_to_unit",
    "worker_cost",
]
