"""What a worker's own converter does to its symbols, and what is left of it in a sum over many workers.

A worker scales its vector v so that its largest symbol is the outermost level of its converter, and lets the amplifier
undo that: the step is max |v_k| / (2^(b-1) - 1). A vector that rounding has lengthened is sent more softly, so that the
declared norm holds.

To round the products of many workers one must form every one of them. Where levels lie close, the errors of a
worker are uniform and independent of its symbols (Widrow and Kollar 2008), and the sum over workers of q_i g_i e_i
is Gaussian of variance sum_i q_i^2 |g_i|^2 step_i^2 / 12. That is used where the root mean square of a
worker's symbols is at least ``STEPS_PER_DEVIATION`` steps, and all symbols of a run are more than ``FEW_NUMBERS``; else
every symbol is rounded. Samples, and the symbols of protected data, are always rounded.

With OFDM converter and amplifier see the sum of many subcarriers, which is Gaussian: both become a gain and an error
that spreads over all symbols (Bussgang).
"""

import math
from typing import Final, NamedTuple

import torch

from airmixml.data import DataSet
from airmixml.impairments.converters import gaussian_rounding, round_to_levels, rounding_variance
from airmixml.impairments.peaks import clipped_gaussian, gaussian_peak, peak_amplitude
from airmixml.scenario import Scenario
from airmixml.units import ratio_to_db
from airmixml.workers import Signal

STEPS_PER_DEVIATION: Final = 16.0
FEW_NUMBERS: Final = 1 << 26
_SAMPLED: Final = 4096


class Distortion(NamedTuple):
    """What transmitters do to their vectors v, besides what is computed symbol by symbol: a v + e.

    Attributes:
        factor: a; slots x seats.
        variance: that of e on the real part of every symbol; slots x seats.
        circular: whether e has an imaginary part of the same variance.
    """

    factor: torch.Tensor
    variance: torch.Tensor
    circular: bool


def rounded_to_own_peak(vectors: torch.Tensor, bits: int) -> torch.Tensor:
    """Return vectors rounded to levels that end at the largest symbol of each; rows x symbols."""
    return round_to_levels(vectors, vectors.abs().amax(dim=1, keepdim=True), bits)


def largest_product(inputs: torch.Tensor, labels: torch.Tensor, label_weight: float) -> torch.Tensor:
    """Return the largest symbol of (svec(x x^T), w x l^T) without forming it; rows, float64.

    It is the square of the largest number, or sqrt(2) times its product with the next, or that with a label.
    """
    leading = inputs.abs().topk(min(2, inputs.shape[1]), dim=1).values.double()
    largest, next_one = leading[:, 0], leading[:, -1]
    of_inputs = largest * torch.maximum(largest, math.sqrt(2.0) * next_one) if leading.shape[1] > 1 else largest**2
    return torch.maximum(of_inputs, label_weight * largest * labels.abs().amax(dim=1).double())


def distort(
    scenario: Scenario,
    symbols: int,
    squared_lengths: torch.Tensor,
    largest_symbols: torch.Tensor,
    power_watts: torch.Tensor,
    *,
    models_rounding: bool,
    largest_norm: float,
) -> Distortion | None:
    """Return gain and error that stand for transmitters which are not computed symbol by symbol; None: there are none.

    Squared lengths and largest symbols of what workers send, and their powers, are slots x seats.
    """
    air = scenario.air
    if air.waveform == "ofdm":
        return _distort_waveform(scenario, squared_lengths / symbols, symbols, power_watts, largest_norm)
    if not models_rounding:
        return None
    variance = rounding_variance(largest_symbols, air.dac_bits)
    # Who is longer after rounding sends more softly.
    longer = (squared_lengths + symbols * variance).clamp(min=math.ulp(0.0)).sqrt()
    factor = (largest_norm / longer).clamp(max=1.0)
    return Distortion(factor, factor.square() * variance, circular=False)


def _distort_waveform(
    scenario: Scenario, mean_squares: torch.Tensor, symbols: int, power_watts: torch.Tensor, largest_norm: float
) -> Distortion | None:
    air, limits = scenario.air, peak_amplitude(scenario, power_watts)
    if not air.dac_bits and limits is None:
        return None
    factor, error = torch.ones_like(mean_squares), torch.zeros_like(mean_squares)
    if air.dac_bits:
        # Real and imaginary part each have half the power, and levels that reach the expected largest amplitude.
        model = gaussian_rounding(air.dac_bits, math.sqrt(2.0 * gaussian_peak(symbols)))
        # Levels that lie far apart lengthen a vector, and who is longer after rounding sends more softly.
        longer = (symbols * mean_squares * (model.gain**2 + model.error_variance)).clamp(min=math.ulp(0.0)).sqrt()
        softer = (largest_norm / longer).clamp(max=1.0)
        factor, error = factor * model.gain * softer, error + model.error_variance * softer.square()
    if limits is not None:
        # The rounded waveform is taken for Gaussian again.
        power = factor.square() + error
        gain, clipped = clipped_gaussian(limits.square() / (mean_squares * power).clamp(min=1e-300))
        factor, error = factor * gain, error * gain.square() + power * clipped
    return Distortion(factor, error * mean_squares / 2.0, circular=True)


def peak_to_average_db(scenario: Scenario, signal: Signal, dataset: DataSet) -> dict[str, float]:
    """Return median and largest, over some samples, of the largest power over the mean power of what a worker sends.

    Of symbols, before any of them is clipped, as single rows are sent; pulses between symbols are not looked at. The
    waveform of OFDM is Gaussian whatever it carries.
    """
    if scenario.air.waveform == "ofdm":
        peak_db = float(ratio_to_db(gaussian_peak(signal.symbols)))
        return {"median": peak_db, "largest": peak_db}
    some = slice(0, None, -(-max(1, dataset.train_samples) // _SAMPLED))
    inputs = torch.from_numpy(dataset.train_inputs[some]).double()
    labels = torch.from_numpy(dataset.label_code.coded(dataset.train_labels[some])).double()
    squares, label_squares = inputs.square().sum(dim=1), labels.square().sum(dim=1) * signal.label_weight**2
    if signal.moments:
        largest = largest_product(inputs, labels, signal.label_weight)
        squared_lengths = squares * (squares + label_squares)
    else:
        largest = torch.cat([inputs, signal.label_weight * labels], dim=1).abs().amax(dim=1)
        squared_lengths = squares + label_squares
    powers, peaks = squared_lengths / signal.symbols, largest.square()
    sending = powers > 0.0
    ratios = peaks[sending] / powers[sending]
    if not len(ratios):
        return {"median": 0.0, "largest": 0.0}
    return {"median": float(ratio_to_db(float(ratios.median()))), "largest": float(ratio_to_db(float(ratios.max())))}
