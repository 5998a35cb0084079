"""From raw rows to what the workers of a finished run would send: the first half of every prediction."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Singles
from airmixml.data import RowFormat, scale_to_unit
from airmixml.doors import ENCODERS
from airmixml.scenario import Workers
from airmixml.streams import Streams
from airmixml.workers.encoding import encode, encode_centred

_LARGEST: Final = 1e30  # of numbers without bounds: their sums stay within float32, where an infinite one would be sent


@dataclass(frozen=True, kw_only=True, eq=False)
class RowEncoder:
    """Scales raw rows by the declared bounds and encodes them as the workers of one run did.

    Attributes:
        workers: the run's table.
        seed: the run's; it decides the encoder's features, which are public.
        row_format: what a raw row looks like.
        private_mean: the mean that was estimated over the air, where the run has one.
        given: the encoder itself, where it was given as an object.
    """

    workers: Workers
    seed: int
    row_format: RowFormat
    private_mean: Singles | None = None
    given: Any = None

    def scale(self, rows: NDArray[Any]) -> tuple[Singles, int]:
        """Return rows (samples x numbers) as the encoder takes them, and how many values were outside the bounds."""
        if self.row_format.lower is None or self.row_format.upper is None:
            return np.clip(rows, -_LARGEST, _LARGEST).astype(np.float32), 0
        return scale_to_unit(rows, self.row_format.lower, self.row_format.upper)

    def encode(self, rows: NDArray[Any]) -> Singles:
        """Return what a network takes of raw rows (samples x numbers); samples x features."""
        if self.given is not None and self.workers.encoder not in ENCODERS:  # as in a process that was sent this object
            ENCODERS.add(self.given)
        scaled, _ = self.scale(rows)
        shape, streams = self.row_format.image_shape, Streams(self.seed)
        encoded, _ = encode(self.workers, scaled, image_shape=shape, streams=streams)
        if self.private_mean is None:
            return encoded
        return encode_centred(self.workers, encoded - self.private_mean, streams)[0]
