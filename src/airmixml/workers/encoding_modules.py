"""What a worker does to its row, as torch modules: scaling before the encoder, centre, norm and constant after it."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from airmixml.arrays import Singles
from airmixml.data import RowFormat
from airmixml.data.scaling import as_stored
from airmixml.errors import PluginError
from airmixml.scenario import Workers
from airmixml.streams import Streams
from airmixml.workers.encoder import GraphPart, encoder_of
from airmixml.workers.encoding import ROUNDING_MARGIN, RowEncoder, public_means

_SHORTEST = 1e-30


class Scaling(nn.Module):
    """Raw rows to [0, 1] by the declared bounds, in float64 as ``scale_to_unit`` does it; then in the given shape."""

    def __init__(self, rows: RowFormat, shape: tuple[int, ...]) -> None:
        super().__init__()
        self._shape, self._scales = shape, rows.lower is not None and rows.upper is not None
        if rows.lower is not None and rows.upper is not None:
            lower, upper = as_stored(np.dtype(np.float32), rows.lower, rows.upper)
            self.register_buffer("lower", torch.from_numpy(lower))
            self.register_buffer("upper", torch.from_numpy(upper))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return batch x shape."""
        if self._scales:
            lower, upper = self.get_buffer("lower"), self.get_buffer("upper")
            inside = torch.minimum(torch.maximum(rows.double(), lower), upper)
            rows = ((inside - lower) / (upper - lower)).float()
        return rows.reshape(-1, *self._shape) if self._shape else rows


class _Centre(nn.Module):
    """Less a mean, or less its own mean, or as it is."""

    def __init__(self, mean: Singles | None, *, own: bool) -> None:
        super().__init__()
        self._own, self._has_mean = own, mean is not None
        if mean is not None:
            self.register_buffer("mean", torch.from_numpy(mean))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return batch x features."""
        if self._has_mean:
            return features - self.get_buffer("mean")
        return features - features.mean(dim=1, keepdim=True) if self._own else features


class _Norm(nn.Module):
    """What ``bound_norms`` does."""

    def __init__(self, workers: Workers) -> None:
        super().__init__()
        self._unit, self._norm = workers.norm == "unit", workers.clip_norm * ROUNDING_MARGIN

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return batch x features."""
        lengths = features.square().sum(dim=1, keepdim=True).sqrt()
        least = _SHORTEST if self._unit else self._norm
        return features * (self._norm / lengths.clamp(min=least))


class _Constant(nn.Module):
    """The constant that is appended."""

    def __init__(self, workers: Workers) -> None:
        super().__init__()
        self._share = float(np.sqrt(1.0 - workers.constant**2))
        self._last = workers.constant * workers.clip_norm * ROUNDING_MARGIN

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return batch x (features + 1)."""
        return torch.cat([features * self._share, torch.full_like(features[:, :1], self._last)], dim=1)


def encoder_part(rows: RowEncoder) -> GraphPart:
    """Return the part that computes the encoder's features, or say that there is none."""
    workers, shape = rows.workers, rows.row_format.image_shape
    graph = getattr(encoder_of(workers), "graph", None)  # encoders of before may lack it
    generator = Streams(rows.seed).generator("encoder")
    part = None if graph is None else graph(workers, rows.row_format.width, shape, generator)
    if part is None:
        raise _no_graph(workers, "graph")
    return part if isinstance(part, GraphPart) else GraphPart(part, ())


def after_encoder(rows: RowEncoder) -> nn.Sequential:
    """Return what is done to the encoder's features: centre, mixing, norm and constant."""
    workers, encoder, streams = rows.workers, encoder_of(rows.workers), Streams(rows.seed)
    steps: list[Any] = [nn.Flatten()]
    if not encoder.bounds_norm:
        return nn.Sequential(*steps)
    first, second = public_means(workers, rows.row_format.width, rows.row_format.image_shape, streams)
    mixing = None
    if encoder.after_centring(workers, streams.generator("encoder")) is not None:
        width = {"width": rows.row_format.width} if getattr(encoder, "mixes_rows", False) else {}
        mixing = encoder.graph_after_centring(workers, streams.generator("encoder"), **width)
        if mixing is None:
            raise _no_graph(workers, "graph_after_centring")
    if workers.centre == "refined":  # of rows less a public mean that were only shortened; they are mixed afterwards
        public = second if mixing is None else first
        shortened = _Norm(replace(workers, norm="clip"))
        steps += [_Centre(public, own=False), shortened, _Centre(rows.private_mean, own=False)]
        steps += [_Norm(workers)] if mixing is None else [mixing, _Norm(workers)]
    else:
        if mixing is not None:
            steps += [_Centre(first, own=workers.centre in ("own", "private")), mixing]
        steps += [_Centre(second, own=workers.centre == "own"), _Norm(workers)]
        if rows.private_mean is not None:
            steps += [_Centre(rows.private_mean, own=False), _Norm(workers)]
    return nn.Sequential(*steps, *([_Constant(workers)] if workers.constant else []))


def _no_graph(workers: Workers, method: str) -> PluginError:
    return PluginError(
        f'workers.encoder = "{workers.encoder}": cannot be exported, since it has no {method}; see docs/extending.md'
    )
