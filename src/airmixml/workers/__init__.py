"""Who holds what: data sets, scaling by declared bounds, and workers placed with one sample each."""

from airmixml.workers.bounds import declare_bounds
from airmixml.workers.dataset import DataSet
from airmixml.workers.encoders import declared_bounds, encode
from airmixml.workers.loading import load_dataset
from airmixml.workers.placement import place_workers
from airmixml.workers.population import Population, deploy
from airmixml.workers.scaling import scale_to_unit

__all__ = [
    "DataSet",
    "Population",
    "declare_bounds",
    "declared_bounds",
    "deploy",
    "encode",
    "load_dataset",
    "place_workers",
    "scale_to_unit",
]
