"""What a worker does to its row, for an export: scaling before the encoder, centre, norm and constant after it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
import torch
from torch import nn

from airmixml.arrays import Singles
from airmixml.data import RowFormat
from airmixml.data.dataset import as_stored
from airmixml.errors import PluginError
from airmixml.scenario import Workers
from airmixml.streams import Streams
from airmixml.workers.encoder import GraphPart, encoder_of
from airmixml.workers.encoding import ROUNDING_MARGIN, RowEncoder, public_means

_SHORTEST: Final = 1e-30

OnBatch = Callable[[torch.Tensor], torch.Tensor]


class Steps(nn.Module):
    """Functions of a batch, one after the other, as one module that can be exported."""

    def __init__(self, *steps: OnBatch) -> None:
        super().__init__()
        self._steps = steps

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        for step in self._steps:
            batch = step(batch)
        return batch


def scaling(rows: RowFormat, shape: tuple[int, ...]) -> Steps:
    """Return what scales raw rows to [0, 1] in float64, as ``scale_to_unit`` does, and gives them a shape."""
    steps: list[OnBatch] = []
    if rows.lower is not None and rows.upper is not None:
        lower, upper = map(torch.from_numpy, as_stored(np.dtype(np.float32), rows.lower, rows.upper))

        def scale(batch: torch.Tensor) -> torch.Tensor:
            inside = torch.minimum(torch.maximum(batch.double(), lower), upper)
            return ((inside - lower) / (upper - lower)).float()

        steps.append(scale)
    if shape:
        steps.append(lambda batch: batch.reshape(-1, *shape))
    return Steps(*steps)


def _centre(mean: Singles | None, *, own: bool = False) -> OnBatch:
    """Less a mean, or less its own mean, or as it is."""
    if mean is None:
        return lambda batch: batch - batch.mean(dim=1, keepdim=True) if own else batch
    known = torch.from_numpy(mean)
    return lambda batch: batch - known


def _bound_norm(workers: Workers) -> OnBatch:
    """Do what ``bound_norms`` does."""
    norm = workers.clip_norm * ROUNDING_MARGIN
    least = _SHORTEST if workers.norm == "unit" else norm
    return lambda batch: batch * (norm / batch.square().sum(dim=1, keepdim=True).sqrt().clamp(min=least))


def _append_constant(workers: Workers) -> OnBatch:
    share, last = float(np.sqrt(1.0 - workers.constant**2)), workers.constant * workers.clip_norm * ROUNDING_MARGIN
    return lambda batch: torch.cat([batch * share, torch.full_like(batch[:, :1], last)], dim=1)


def encoder_part(rows: RowEncoder) -> GraphPart:
    """Return the part that computes the encoder's features, or say that there is none."""
    workers, shape = rows.workers, rows.row_format.image_shape
    generator = Streams(rows.seed).generator("encoder")
    part = encoder_of(workers).graph(workers, rows.row_format.width, shape, generator)
    if part is None:
        raise _no_graph(workers, "graph")
    if isinstance(part, GraphPart):
        return part
    return GraphPart(part if isinstance(part, nn.Module) else Steps(part), ())


def after_encoder(rows: RowEncoder) -> Steps:
    """Return what is done to the encoder's features: centre, mixing, norm and constant."""
    workers, encoder, streams = rows.workers, encoder_of(rows.workers), Streams(rows.seed)
    steps: list[OnBatch] = [lambda batch: batch.flatten(1)]
    if not encoder.bounds_norm:
        return Steps(*steps)
    unseen = np.zeros((1, rows.row_format.width), dtype=np.float32)
    first, second = public_means(workers, unseen, rows.row_format.image_shape, streams)
    mixing = None
    if encoder.after_centring(workers, streams.generator("encoder")) is not None:
        mixing = encoder.graph_after_centring(workers, rows.row_format.width, streams.generator("encoder"))
        if mixing is None:
            raise _no_graph(workers, "graph_after_centring")
    mixed, bound = [] if mixing is None else [mixing], _bound_norm(workers)
    if workers.centre == "refined":  # of rows less a public mean that were only shortened; they are mixed afterwards
        shorten = _bound_norm(replace(workers, norm="clip"))
        steps += [_centre(first if mixed else second), shorten, _centre(rows.private_mean), *mixed, bound]
    else:
        if mixed:
            steps += [_centre(first, own=workers.centre in ("own", "private")), *mixed]
        steps += [_centre(second, own=workers.centre == "own"), bound]
        if rows.private_mean is not None:
            steps += [_centre(rows.private_mean), bound]
    return Steps(*steps, *([_append_constant(workers)] if workers.constant else []))


def _no_graph(workers: Workers, method: str) -> PluginError:
    return PluginError(
        f'workers.encoder = "{workers.encoder}": cannot be exported, since it has no {method}; see docs/extending.md'
    )
