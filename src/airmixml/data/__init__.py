"""Where samples come from: named data sets, a user's own files; scaling by declared bounds."""

from airmixml.data.dataset import DataSet, KnownDataSet, RawData, known_dataset
from airmixml.data.scaling import declare_bounds, scale_to_unit, warn_of_clipping

__all__ = ["DataSet", "KnownDataSet", "RawData", "declare_bounds", "known_dataset", "scale_to_unit"]
__all__ += ["warn_of_clipping"]
