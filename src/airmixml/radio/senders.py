"""What a scenario's workers send: a payload, with everything around it that changes single vectors."""

import math
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import torch

from airmixml.arrays import Singles
from airmixml.data import DataSet
from airmixml.errors import ScenarioError
from airmixml.radio.transmitters import through_converters
from airmixml.scenario import Scenario, Workers
from airmixml.streams import Secret, Streams
from airmixml.workers import Holdings, Signal, declared_bounds, within_declared
from airmixml.workers.moments import MomentsOfRows, pack_symmetric, unpack_symmetric
from airmixml.workers.payloads import NUMBERS_AT_ONCE, Payload, Rounded, Table

__all__ = ["RowSums", "make_sender", "pack_symmetric", "unpack_symmetric"]

_SHORT_RANGE: Final = 3.0
_RANGE_OF_TWO_BITS: Final = 10.0
_LONG_RANGE: Final = 20.0
_SUM_MARGIN: Final = 1e-5  # what weights in float32 may be rounded up by, many times over
_SHORTEST: Final = 1e-60
_DITHER_CHAPTERS: Final = (1, 3)  # of the stream "encoder": of other payloads, and of gradients


def make_sender(
    scenario: Scenario,
    dataset: DataSet,
    device: torch.device,
    *,
    secret: Secret | None = None,
    holdings: Holdings | None = None,
    in_slot: int = 0,
) -> Payload:
    """Return what the scenario's workers send of the samples of the pool, or of several rows each (``holdings``)."""
    workers, protects = scenario.workers, secret is not None
    signal = Signal.of(workers, dataset.input_dim, dataset.label_dim)
    _check_waveform(scenario, secret)
    if workers.several_rows and holdings is None:
        raise ScenarioError(
            "population: must say which rows each worker holds (Population.holdings), since the scenario's workers "
            "hold several; deploy it with the data"
        )
    inputs = within_declared(workers, dataset.train_inputs)
    labels = dataset.label_code.coded(dataset.train_labels).astype(np.float32)
    given: dict[str, Any] = {
        "signal": signal,
        "norm": math.sqrt(declared_bounds(workers, dataset.input_dim)[0]),
        "inputs": inputs,
        "labels": labels,
        "device": device,
        "protects": protects,
        "in_slot": in_slot,
    }
    payload: Payload
    if holdings is None:
        payload = signal.kind(**given)
    elif signal.moments:
        sums = RowSums.of(holdings, torch.from_numpy(inputs), torch.from_numpy(labels), workers, signal)
        payload = MomentsOfRows(**given, rows=sums.index.numpy(), row_weights=sums.weights.numpy())
    else:
        present = holdings.present.astype(np.float32)
        payload = signal.kind(**given, rows=holdings.rows, present=present, rows_bound=workers.rows_bound)
    if signal.bits:
        dither = _Dither(Streams(scenario.seed, secret), _DITHER_CHAPTERS[workers.sends == "gradients"], device)
        payload = Rounded(payload, _levels_end(signal, workers.bits_range), dither)
    payload = through_converters(scenario, payload)
    return Table(payload) if signal.kind.tabled else payload


@dataclass(frozen=True, kw_only=True, eq=False)
class RowSums:
    """How workers with several rows add up their products: with one weight for all rows of a worker.

    The sum is shortened to the norm that ``workers.rows_bound`` rows can have, then divided by their number: so it has
    no more than the norm that is declared for a single row, whatever rows a worker holds and however many.
    """

    index: torch.Tensor  # rows of the pool of each holding; holdings x most rows
    weights: torch.Tensor  # what each is multiplied with, 0 where there is none; holdings x most rows

    @classmethod
    def of(
        cls, holdings: Holdings, inputs: torch.Tensor, labels: torch.Tensor, workers: Workers, signal: Signal
    ) -> Self:
        """Return the sums of holdings of rows with these inputs (rows x features) and labels (rows x outputs)."""
        index = torch.from_numpy(holdings.rows).to(inputs.device)
        present = torch.from_numpy(holdings.present).to(inputs.device)
        largest = (
            math.sqrt(signal.largest_squared_norm(declared_bounds(workers, inputs.shape[1])[0])) * workers.rows_bound
        )
        most = index.shape[1]
        at_once = max(1, NUMBERS_AT_ONCE // (most * (most + inputs.shape[1] + labels.shape[1])))
        parts = torch.split(index, at_once), torch.split(present, at_once)
        squares = [
            _squared_sum(inputs[rows].double() * there[..., None], labels[rows].double(), signal.label_weight)
            for rows, there in zip(*parts, strict=True)
        ]
        lengths = torch.cat(squares).clamp(min=_SHORTEST).sqrt()
        factors = (largest * (1.0 - _SUM_MARGIN) / lengths).clamp(max=1.0) / workers.rows_bound
        exact = present * factors[:, None]
        rounded = exact.float()
        # Rounded to the side that moves less.
        return cls(index=index, weights=torch.where(rounded > exact, rounded.nextafter(torch.zeros(())), rounded))


def _squared_sum(inputs: torch.Tensor, labels: torch.Tensor, label_weight: float) -> torch.Tensor:
    """Return ||sum_r (svec(x_r x_r^T), w x_r l_r^T)||^2 of each holding, without forming a product of two numbers.

    Two rows have the product (x . x')^2 + w^2 (x . x') (l . l'), so that their Gram matrices are all that is needed.
    Inputs are holdings x rows x features, 0 where there is no row; labels holdings x rows x outputs.
    """
    alike = inputs @ inputs.transpose(1, 2)
    with_labels = alike * (labels @ labels.transpose(1, 2))
    return (alike.square() + label_weight**2 * with_labels).sum(dim=(1, 2))


class _Dither:
    """Numbers that symbols are rounded with: NumPy's where they are secret, or else torch's on the device."""

    def __init__(self, streams: Streams, chapter: int, device: torch.device) -> None:
        self._generator, self._device = streams.generator("encoder", chapter), device
        self._torch: torch.Generator | None = None
        if streams.secret is None:
            self._torch = torch.Generator(device=device).manual_seed(int(self._generator.integers(2**63 - 1)))

    def __call__(self, shape: tuple[int, ...]) -> Singles:
        if self._torch is None:
            return self._generator.random(shape, dtype=np.float32)
        drawn: Singles = torch.rand(shape, device=self._device, generator=self._torch).cpu().numpy()
        return drawn


def _check_waveform(scenario: Scenario, secret: Secret | None) -> None:
    """Refuse to protect data with errors that are modelled as noise, of a size that follows from the data."""
    air = scenario.air
    if secret is None or air.waveform == "single-carrier":
        return
    for name, off in (("peak_power_dbm", math.inf), ("amplifier_saturation_dbm", math.inf), ("dac_bits", 0)):
        value = getattr(air, name)
        if value != off:
            raise ScenarioError(
                f"air.{name} = {value:g}: is modelled as noise with air.waveform = ofdm, for simulations alone; to "
                f"protect data set it to {off:g}, or use single-carrier"
            )


def _levels_end(signal: Signal, bits_range: float) -> float:
    """Return the outermost level over the root mean square of a symbol: what is asked for, or what suits the bits.

    Products have long tails, which must not be cut off unless the levels would lie too far apart; docs/beyond.md has
    the accuracies that this was chosen by.
    """
    if bits_range:
        return bits_range
    if not signal.moments or signal.bits == 1:
        return _SHORT_RANGE
    return _RANGE_OF_TWO_BITS if signal.bits == 2 else _LONG_RANGE
