"""What a scenario's workers send: a payload, with everything around it that changes single vectors."""

import math
from typing import Final

import numpy as np
import torch

from airmixml.arrays import Singles
from airmixml.data import DataSet
from airmixml.errors import ScenarioError
from airmixml.radio.ideal_air import air_of
from airmixml.scenario import Scenario
from airmixml.streams import Secret, Streams
from airmixml.workers import Holdings, Signal, within_declared
from airmixml.workers.moments import payload_of
from airmixml.workers.payloads import Payload, Rounded, Table

_SHORT_RANGE: Final = 3.0
_RANGE_OF_TWO_BITS: Final = 10.0
_LONG_RANGE: Final = 20.0
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
    payload = payload_of(workers, inputs, labels, holdings, device=device, protects=protects, in_slot=in_slot)
    if signal.bits:
        dither = _Dither(Streams(scenario.seed, secret), _DITHER_CHAPTERS[workers.sends == "gradients"], device)
        payload = Rounded(payload, _levels_end(signal, workers.bits_range), dither)
    payload = air_of(scenario).converted(scenario, payload)
    return Table(payload) if signal.kind.tabled else payload


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
