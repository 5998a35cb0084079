"""Where samples come from: named data sets, a user's own files; scaling by declared bounds."""

from airmixml.data.dataset import (
    DataSet,
    KnownDataSet,
    RawData,
    RowFormat,
    declare_bounds,
    known_dataset,
    scale_to_unit,
    warn_of_clipping,
)
from airmixml.data.labels import Bounded, Centred, LabelCode, OneHot, Signs

__all__ = ["Bounded", "Centred", "DataSet", "KnownDataSet", "LabelCode", "OneHot", "RawData", "RowFormat", "Signs"]
__all__ += ["declare_bounds", "known_dataset", "scale_to_unit", "warn_of_clipping"]
