"""Where samples come from: named data sets, a user's own files; scaling by declared bounds."""

from airmixml.data.catalogue import CATALOGUE, KnownDataSet
from airmixml.data.dataset import DataSet, RawData
from airmixml.data.scaling import declare_bounds, scale_to_unit

__all__ = ["CATALOGUE", "DataSet", "KnownDataSet", "RawData", "declare_bounds", "scale_to_unit"]
