"""What a worker does to its scaled input before it sends it.

The encoder computes features; then a centre is subtracted, the norm bounded, and a constant may be appended. Nothing is
measured on private samples. The privacy guarantee rests on what an encoder declares: two bounds that hold for every
input, on ||x||^2 (what a removal moves) and on ||x - x'||^2 (what a replacement moves).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import ImageShape, Singles, in_order, in_words, is_series
from airmixml.data import RowFormat, scale_to_unit
from airmixml.data.embedded import are_public, public_images
from airmixml.messages import PluginError, ScenarioError, private, shown
from airmixml.registries import ENCODERS
from airmixml.scenario import Workers
from airmixml.streams import Streams
from airmixml.workers.encoder import Encoder, encoder_of

_TRIED_ROWS: Final = 8
_TRIED_ALONE: Final = (1, 5)
_ROWS_AT_ONCE: Final = 512
# float32 may round a norm up by less than this.
ROUNDING_MARGIN: Final = 1.0 - 1e-6


def for_each_block(work: Callable[[slice], None], rows: int, rows_at_once: int) -> None:
    """Call ``work`` with slices that cover all rows, on several threads."""
    for _ in in_order(work, [slice(first, first + rows_at_once) for first in range(0, rows, rows_at_once)]):
        pass


def encode(
    workers: Workers,
    unit_inputs: Singles,
    *,
    image_shape: ImageShape = None,
    streams: Streams | None = None,
    device: str = "cpu",
) -> tuple[Singles, int]:
    """Return what the scenario's encoder makes of inputs in [0, 1], samples x features, and how many it clipped.

    Where the mean is estimated over the air it is not known yet: the features are of bounded norm, uncentred or less a
    public mean, and ``encode_centred`` is to follow. The stream "encoder" draws what is random in an encoder;
    ``image_shape`` is the shape of an input, where it is an image or a series (``airmixml.arrays``). Features are
    computed on the torch ``device`` where the encoder can.
    """
    encoder, streams = encoder_of(workers), streams or Streams(0)
    _check_shape(workers, image_shape)
    if workers.encoder not in ENCODERS.own:
        _check_rows_alone(workers, unit_inputs.shape[1], image_shape, streams)
    features = _features(workers, unit_inputs, image_shape, streams, device)
    counted = encoder.feature_count(workers, unit_inputs.shape[1])
    if not encoder.bounds_norm:
        if features.shape[1] != counted:
            raise _contradiction(workers, f"{features.shape[1:]} features, not as many as feature_count says")
        return features, 0
    first, second = public_means(workers, unit_inputs, image_shape, streams)
    mix = _after_centring(workers, streams)

    def finish(rows: Singles) -> tuple[Singles, int]:
        if workers.centre == "refined":  # mixed when all of the mean is known
            return bound_norms(replace(workers, norm="clip"), _less(rows, second if mix is None else first))
        if mix is not None:
            rows = mix(_less(rows, first, own=workers.centre in ("own", "private")))
        rows = _less(rows, second, own=workers.centre == "own")
        if rows.shape[1:] != (counted,):
            raise _contradiction(workers, f"{rows.shape[1:]} features, not as many as feature_count says")
        return (bound_norms if workers.centre == "private" else finish_encoding)(workers, rows)

    return _in_blocks(finish, features)


def _in_blocks(finish: Callable[[Singles], tuple[Singles, int]], features: Singles) -> tuple[Singles, int]:
    """Return what becomes of features of bounded norm (samples x numbers), block by block, and how many it clipped."""
    begun, clipped = finish(features[:_ROWS_AT_ONCE])
    if len(features) <= _ROWS_AT_ONCE:
        return begun, clipped
    found, counts = np.empty((len(features), begun.shape[1]), dtype=np.float32), list[int]()

    def work(block: slice) -> None:
        found[block], count = finish(features[block])
        counts.append(count)

    for_each_block(work, len(features), _ROWS_AT_ONCE)
    return found, sum(counts)


def public_means(
    workers: Workers, unit_inputs: Singles, image_shape: ImageShape, streams: Streams
) -> tuple[Singles | None, Singles | None]:
    """Return the public means that are subtracted before and after ``after_centring``; None where there is none.

    They are means over public images, or the middle of the declared bounds, and do not depend on the private inputs.
    """
    if workers.centre not in ("public", "refined"):
        return None, None
    if image_shape is None or len(image_shape) != 2:  # public images are grey
        public = np.full((1, unit_inputs.shape[1]), 0.5, dtype=np.float32)
    elif workers.dataset == "digits" or are_public(unit_inputs, image_shape):
        raise ScenarioError(
            f'workers.centre = "{workers.centre}": its constants are means of scikit-learn\'s digits, which are the '
            'private data here; use workers.centre = "own"'
        )
    else:
        public = public_images(image_shape)
    features = _features(workers, public, image_shape, streams)
    mean = features.mean(axis=0, dtype=np.float64).astype(np.float32)
    mix = _after_centring(workers, streams)
    if mix is None:
        return None, mean
    return mean, mix(features - mean).mean(axis=0, dtype=np.float64).astype(np.float32)


def _less(features: Singles, mean: Singles | None, *, own: bool = False) -> Singles:
    """Return features less a mean, or each sample less its own; samples x features."""
    if mean is not None:
        return features - mean
    return features - features.mean(axis=1, keepdims=True) if own else features


def _check_shape(workers: Workers, image_shape: ImageShape) -> None:
    """Refuse inputs that are not what the encoder looks at."""
    series = is_series(image_shape)

    def suits(encoder: Encoder) -> bool:
        of_rows = not (encoder.needs_images or encoder.needs_series)
        return of_rows or (image_shape is not None and encoder.needs_series == series)

    if suits(encoder_of(workers)):
        return
    wanted = "series, channels over time" if encoder_of(workers).needs_series else "images"
    there = "the data set has none"
    if image_shape is not None:
        there = f"an input is {'a series' if series else 'an image'} of {in_words(image_shape)}"
    others = ", ".join(name for name in ENCODERS.own if suits(ENCODERS.load(name)))
    raise ScenarioError(
        f'workers.encoder = "{workers.encoder}": needs {wanted}, but {there}; use one of {others}, or declare '
        "workers.shape"
    )


def _features(
    workers: Workers, unit_inputs: Singles, image_shape: ImageShape, streams: Streams, device: str = "cpu"
) -> Singles:
    """Return what the encoder computes, in the range that it declares; samples x features."""
    encoder = encoder_of(workers)
    if encoder.keeps_inputs:
        return np.asarray(unit_inputs, dtype=np.float32)
    where = {"device": device} if encoder.takes_device else {}
    found = encoder.features(workers, unit_inputs, image_shape, streams.generator("encoder"), **where)
    try:
        features = np.asarray(found, dtype=np.float32)
    except (TypeError, ValueError):
        features = np.empty(0, dtype=np.float32)
    if features.ndim != 2 or len(features) != len(unit_inputs):
        raise _contradiction(workers, "something other than an array of samples x features")
    low, high = float(features.min(initial=0.0)), float(features.max(initial=0.0))
    if not np.isfinite([low, high]).all():  # the least of numbers with a NaN among them is NaN
        raise _contradiction(workers, "features that are not finite")
    if low < 0.0 and (encoder.never_negative or not encoder.bounds_norm):
        which = private(f"the feature {low:.4g}", "a negative feature")
        raise _contradiction(workers, f"{which}, but declares that none is negative")
    if high > 1.0 and not encoder.bounds_norm:
        which = private(f"the feature {high:.4g}", "a larger feature")
        raise _contradiction(workers, f"{which}: must be at most 1 where no norm is bounded")
    return features


def _after_centring(workers: Workers, streams: Streams) -> Callable[[Singles], Singles] | None:
    encoder = encoder_of(workers)
    return None if encoder.keeps_inputs else encoder.after_centring(workers, streams.generator("encoder"))


def _check_rows_alone(workers: Workers, inputs: int, image_shape: ImageShape, streams: Streams) -> None:
    """Try random rows, and refuse features that chance or other rows decide: no bound on them would hold."""
    rows = np.random.default_rng(0).random((_TRIED_ROWS, inputs), dtype=np.float32)
    tried = (rows, rows, *(rows[[row]] for row in _TRIED_ALONE))
    together, again, *alone = (_features(workers, some, image_shape, streams) for some in tried)
    if not np.array_equal(together, again):
        raise _contradiction(workers, "other features for the same inputs", "export it in evaluation mode")
    # Each feature by itself: a large one that is the same for all rows must not hide what others do to a small one.
    allowed = 1e-3 * np.ptp(together, axis=0) + 1e-5 * np.abs(together).max(axis=0)
    if (np.abs(np.concatenate(alone) - together[list(_TRIED_ALONE)]) > allowed + 1e-30).any():
        raise _contradiction(workers, "a row other features among other rows than alone")


def _contradiction(workers: Workers, what: str, mend: str = "correct that encoder") -> PluginError:
    return PluginError(f'workers.encoder = "{workers.encoder}": gives {what}; {mend}')


def encode_centred(workers: Workers, features: Singles, streams: Streams) -> tuple[Singles, int]:
    """Return what ``encode`` gave, less a mean estimated over the air, encoded, and how many were shortened."""
    mix = _after_centring(workers, streams) if workers.centre == "refined" else None
    return _in_blocks(lambda rows: finish_encoding(workers, rows if mix is None else mix(rows)), features)


def finish_encoding(workers: Workers, features: Singles) -> tuple[Singles, int]:
    """Return centred features with their norm bounded and the constant appended, and how many were shortened."""
    bounded, shortened = bound_norms(workers, features)
    if not workers.constant:
        return bounded, shortened
    share = np.float32(np.sqrt(1.0 - workers.constant**2))
    last = np.full((len(bounded), 1), workers.constant * workers.clip_norm * ROUNDING_MARGIN, dtype=np.float32)
    return np.hstack([bounded * share, last]), shortened


def bound_norms(workers: Workers, inputs: Singles) -> tuple[Singles, int]:
    """Return the inputs (samples x features) within the declared norm, or all of that norm, and how many it shortened.

    ``norm = "clip"`` shortens those that are longer, and ``norm = "unit"`` brings all to it.
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", inputs, inputs, dtype=np.float64))
    norm = workers.clip_norm * ROUNDING_MARGIN
    if workers.norm == "unit":
        factors = np.where(lengths > 0.0, norm / np.maximum(lengths, 1e-300), 0.0)
        return np.asarray(inputs * factors[:, None], dtype=np.float32), 0
    long = lengths > norm
    if not long.any():
        return inputs, 0
    clipped = inputs.copy()
    clipped[long] = inputs[long] * (norm / lengths[long])[:, None]  # in float64: the factor may be tiny
    return clipped, int(long.sum())


def keeps_pixels(workers: Workers) -> bool:
    """Whether an image is still an image when it leaves the encoder."""
    return encoder_of(workers).keeps_inputs and not workers.constant


def encoded_dim(workers: Workers, input_dim: int) -> int:
    """Return d, how many numbers the encoder makes of an input."""
    count = encoder_of(workers).feature_count(workers, input_dim)
    if not isinstance(count, (int, float, np.number)):
        raise _contradiction(workers, f"feature_count = {shown(count)}, which is no number")
    return count + (1 if workers.constant else 0)


# Inputs that were encoded elsewhere may be beyond their bounds by what float32 rounds.
_ROUNDING_ABOVE: Final = 1.0 + 1e-5
_UNIT_ROUNDOFF: Final = 2.0**-53


def declared_bounds(workers: Workers, features: int) -> tuple[float, float]:
    """Return the bounds on ||x||^2 and on ||x - x'||^2 of what leaves the encoder with that many numbers.

    Inputs in [0, 1]^d give d for both. A norm of at most C gives C^2 and, where no number is negative and so no two
    inputs point apart, 2 C^2; else 4 C^2.
    """
    encoder = encoder_of(workers)
    if not encoder.bounds_norm:
        return float(features), float(features)
    square = workers.clip_norm**2
    squared_norm, squared_distance = square, (2.0 if _never_negative(workers) else 4.0) * square
    if encoder.keeps_inputs and workers.norm == "clip" and workers.centre == "none":
        return min(squared_norm, float(features)), min(squared_distance, float(features))
    return squared_norm, squared_distance


def input_range(workers: Workers) -> tuple[float, float]:
    """Return the least and the largest number that may leave the encoder."""
    if not encoder_of(workers).bounds_norm:
        return 0.0, 1.0
    return (0.0 if _never_negative(workers) else -workers.clip_norm), workers.clip_norm


def within_declared(workers: Workers, inputs: Singles) -> Singles:
    """Return encoded inputs (samples x numbers), each within what is declared; refuse those that are far beyond it.

    An input beyond it by rounding alone is shortened by itself: what becomes of one must not depend on others.
    """
    features = inputs.shape[1]
    squared_norm, squared_distance = declared_bounds(workers, features)
    squares = np.einsum("ij,ij->i", inputs, inputs, dtype=np.float64)
    longest, least = float(squares.max(initial=0.0)), float(inputs.min(initial=0.0))
    if longest > squared_norm * _ROUNDING_ABOVE:
        raise ScenarioError(
            f"dataset: an input has {private(f'the squared norm {longest:.4g}', 'a larger squared norm')}: must be at "
            f"most {squared_norm:.4g}, which the scenario's encoder declares; encode the inputs first "
            "(airmixml.workers.encode)"
        )
    if squared_distance < 2.0 * squared_norm:  # it is each number that is bounded, but for the constant
        inputs = _within_cube(workers, inputs)
    if squared_distance < 4.0 * squared_norm and least < 0.0:
        raise ScenarioError(
            "dataset: an input is negative, but the scenario's encoder declares that none is; encode the inputs first "
            "(airmixml.workers.encode)"
        )
    # Squared norms are added up again where rounding could decide.
    rounding = 2.0 * (features + 2) * _UNIT_ROUNDOFF
    near = np.flatnonzero(squares > squared_norm * (1.0 - rounding)).tolist()
    long = [row for row in near if math.fsum(np.square(inputs[row], dtype=np.float64)) > squared_norm]
    if squared_norm >= features or not long:
        return inputs
    kept = inputs.copy()
    kept[long] = bound_norms(replace(workers, norm="clip"), inputs[long])[0]
    return kept


def _within_cube(workers: Workers, inputs: Singles) -> Singles:
    """Return the inputs with no number above 1, where none is far above it or negative; samples x numbers."""
    body = inputs[:, :-1] if workers.constant else inputs
    low, high = float(body.min(initial=0.0)), float(body.max(initial=0.0))
    if low < 0.0 or high > _ROUNDING_ABOVE:
        raise ScenarioError(
            f"dataset: inputs {private(f'reach from {low:.4g} to {high:.4g}', 'reach too far')}: must lie between 0 "
            f"and 1, which the encoder {workers.encoder} declares; scale them by public bounds first"
        )
    return inputs if high <= 1.0 else np.hstack([np.minimum(body, np.float32(1.0)), inputs[:, body.shape[1] :]])


def _never_negative(workers: Workers) -> bool:
    return encoder_of(workers).never_negative and workers.centre == "none"


_LARGEST: Final = 1e30  # of numbers without bounds: their sums stay within float32, where an infinite one would be sent


@dataclass(frozen=True, kw_only=True, eq=False)
class RowEncoder:
    """Scales raw rows by the declared bounds and encodes them as the workers of one run did."""

    workers: Workers  #: the run's table
    seed: int  #: the run's; it decides the encoder's features, which are public
    row_format: RowFormat  #: what a raw row looks like
    private_mean: Singles | None = None  #: the mean that was estimated over the air, where the run has one

    def scale(self, rows: NDArray[Any]) -> tuple[Singles, int]:
        """Return rows (samples x numbers) as the encoder takes them, and how many values were outside the bounds."""
        if self.row_format.lower is None or self.row_format.upper is None:
            return np.clip(rows, -_LARGEST, _LARGEST).astype(np.float32), 0
        return scale_to_unit(rows, self.row_format.lower, self.row_format.upper)

    def encode(self, rows: NDArray[Any]) -> Singles:
        """Return what a network takes of raw rows (samples x numbers); samples x features."""
        scaled, _ = self.scale(rows)
        shape, streams = self.row_format.image_shape, Streams(self.seed)
        encoded, _ = encode(self.workers, scaled, image_shape=shape, streams=streams)
        if self.private_mean is None:
            return encoded
        return encode_centred(self.workers, encoded - self.private_mean, streams)[0]
