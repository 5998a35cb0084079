"""What arrives on an air that is not ideal, symbol by symbol in complex baseband: the reference for the fast path.

Nothing is held over a piece, expanded or added up in another order here. For every slot, block and symbol the workers'
contributions are written out, each with its own gain at that symbol and, off time, with the pulse itself. Pilots are
symbols as well, each with noise of its own. It shares with the fast path only the draws of the impairments, which it
asks for in pieces of one symbol. It is slow and meant for tests.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import j0

from airmixml.arrays import Doubles, dbm_to_watts
from airmixml.impairments.frame import Frame, frame_of
from airmixml.impairments.gains import SeatDraws, draw_gains
from airmixml.impairments.timing import draw_offsets, smears
from airmixml.radio.air import Noise
from airmixml.radio.draws import AirSetting, SlotTensors
from airmixml.radio.masking import Masking, masking_of
from airmixml.scenario import Air, Scenario
from airmixml.scenario.air import SYMBOLS_PER_SECOND, raised_cosine
from airmixml.workers import declared_bounds

Complex = NDArray[np.complex128]

DATA, BESIDE = -1, -2
_DOUBT = 4.0
_NOBODY = 1e30 + 0.0j


def receive_symbol_by_symbol(
    setting: AirSetting, vectors: Doubles, drawn: SlotTensors, rng: Generator, beside: Frame | None = None
) -> Complex:
    """Return y / (sqrt(beta) mean gain); slots x symbols. Its real part is the mixture, its imaginary part distortion.

    ``vectors`` is what the scheduled workers hold, slots x scheduled x symbols; ``drawn`` who sends with which share.
    The server divides each block, or each cluster of it, by the mean gain that it takes from pilots. Converters and
    peak limits are those of a single carrier, and vectors so short that none exceeds its declared norm once rounded.
    Gains may be drawn together with those at the times of another layout of the slot, ``beside``.
    """
    scenario = setting.scenario
    air, gains = scenario.air, drawn.gains
    assert gains is not None
    frame = frame_of(air, setting.signal.symbols, piece_symbols=1)
    with_pilots, of_pilot, (of_data, _) = with_pilot_symbols(air, frame, beside)
    seats = replace(gains.draws, frame=with_pilots)
    every = draw_gains(scenario, seats).expand(-1, -1, with_pilots.pieces).numpy()
    gain = every[:, :, of_data]
    offsets = np.zeros(gain.shape[:2])
    if smears(air):
        offsets = air.timing_offset_symbols * draw_offsets(seats).numpy()
    shares, amplitudes = drawn.ratios.numpy(), np.sqrt(drawn.power_scale_watts.numpy())
    with np.errstate(divide="ignore"):  # who sends nothing has no limit
        limits = np.sqrt(dbm_to_watts(air.peak_power_dbm) / drawn.power_watts.numpy())
    vectors = np.clip(_rounded_to_own_peak(vectors, air.dac_bits), -limits[:, :, None], limits[:, :, None])
    pilot_amplitude = np.sqrt(setting.pilot_energy / frame.pilot_count / air.pilot_symbols)
    of_pilots = np.minimum(1.0, limits / (pilot_amplitude or 1.0))
    vectors = _amplified(vectors, drawn.power_watts.numpy()[:, :, None], air) + _carriers(setting, seats)
    of_pilots = _amplified(of_pilots * pilot_amplitude, drawn.power_watts.numpy(), air) / (pilot_amplitude or 1.0)
    noise_watts = Noise().drawn_watts(scenario)
    by_poisson = scenario.radio.schedule == "poisson"  # which has no pilots
    pilots = [np.flatnonzero(np.array(frame.pilots) == pilot) for pilot in range(frame.pilot_count)]
    drift = _left_by_drift(scenario, np.array(frame.seconds)) / _left_by_drift(
        scenario, np.array(with_pilots.seconds)[of_pilot == 0].mean()
    )
    received = np.empty((len(shares), frame.pieces), dtype=np.complex128)
    masking, known = masking_of(scenario), np.zeros((len(shares), frame.pieces))
    if drawn.planned_ratios is not None:
        planned = drawn.planned_ratios.numpy()
        kept = np.divide(shares, planned, out=np.zeros_like(shares), where=planned > 0.0)
        sending = kept > 0.0
    for slot, amplitude in enumerate(amplitudes):
        arriving = shares[slot][:, None] * gain[slot] * vectors[slot]  # scheduled x symbols, over sqrt(beta)
        if smears(air):
            arriving = _off_time(arriving, offsets[slot], air.roll_off, frame)
        if masking is not None:
            added, revealed = _formed(masking, sending[slot], frame.pieces, rng)
            adding = kept[slot][:, None] * gain[slot] * added / amplitude
            arriving = arriving + (_off_time(adding, offsets[slot], air.roll_off, frame) if smears(air) else adding)
            there = planned[slot] @ sending[slot]  # whose mean gain the server divides by
            known[slot] = revealed / amplitude / (there or 1.0)
        received[slot] = amplitude * arriving.sum(axis=0) + _noise(rng, noise_watts, frame.pieces)
        if by_poisson:
            received[slot] /= amplitude
            continue
        pulse = np.array([raised_cosine(offset, air.roll_off) for offset in offsets[slot]])
        for pilot, here in enumerate(pilots):  # the data symbols that a pilot is for
            through = (shares[slot] * of_pilots[slot] * pulse) @ every[slot][:, of_pilot == pilot]
            energy = setting.pilot_energy / len(pilots)
            received[slot, here] /= amplitude * _mean_gain(through, amplitude, energy, noise_watts, rng) * drift[here]
    received = _converted(received, air)
    return (_without_mean_pulse(received, air, frame) if smears(air) else received) - known


def with_pilot_symbols(
    air: Air, frame: Frame, beside: Frame | None = None
) -> tuple[Frame, NDArray[np.int_], list[NDArray[np.int_]]]:
    """Return the slot with every symbol of its pilots, and which pilot each is of, or that it is ``DATA``.

    Those for the server come after those from which workers estimate; on subcarriers each cluster is full of them.
    Another layout of the slot, ``beside``, adds its pieces. All are in the order of time; last returned is where that
    has what is data, in the order in which data are sent, and then where it has the pieces beside.
    """
    rows: list[tuple[int, float, int, float, int]] = []  # block, seconds, cluster, hertz, pilot
    clusters, hertz = frame.clusters or (0,) * frame.pieces, frame.hertz or (0.0,) * frame.pieces
    data = list(zip(frame.blocks, frame.seconds, clusters, hertz, strict=True))
    for block in range(frame.block_count):
        clusters_here = dict.fromkeys(
            (cluster, pilot) for (at, _, cluster, _), pilot in zip(data, frame.pilots, strict=True) if at == block
        )
        for cluster, pilot in clusters_here:
            if air.waveform == "single-carrier":
                places = [(air.estimation_pilots + symbol + 0.5, 0.0) for symbol in range(air.pilot_symbols)]
            else:
                grid = air.grid
                first = math.ceil(air.estimation_pilots / grid.subcarriers)
                steps = math.ceil(air.pilot_symbols / grid.subcarriers)
                carriers = range(grid.firsts[cluster], grid.firsts[cluster] + grid.widths[cluster])
                places = [
                    ((first + step + 0.5) * grid.length, grid.hertz(carrier))
                    for step in range(steps)
                    for carrier in carriers
                ]
            rows += [(block, symbols / SYMBOLS_PER_SECOND, cluster, hertz, pilot) for symbols, hertz in places]
        rows += [(*row, DATA) for row in data if row[0] == block]
    if beside is not None:
        clusters, hertz = beside.clusters or (0,) * beside.pieces, beside.hertz or (0.0,) * beside.pieces
        rows += zip(beside.blocks, beside.seconds, clusters, hertz, [BESIDE] * beside.pieces, strict=True)
    order = sorted(range(len(rows)), key=lambda place: rows[place][:2])
    rows = [rows[place] for place in order]
    blocks, seconds, in_clusters, at_hertz, of_pilot = zip(*rows, strict=True)
    whose, places = np.array(of_pilot), np.argsort(order)
    found = [places[whose[places] == kind] for kind in (DATA, BESIDE)]
    return (
        replace(
            frame,
            lengths=tuple((whose == DATA).astype(int).tolist()),
            blocks=blocks,
            seconds=seconds,
            clusters=in_clusters if frame.clusters else (),
            hertz=at_hertz if frame.hertz else (),
        ),
        whose,
        found,
    )


def _left_by_drift(scenario: Scenario, seconds: Doubles | float) -> Doubles:
    """Return E g so long after a resynchronisation, at least a half: E exp(j phi) = exp(-E phi^2 / 2), Jakes' J_0."""
    air, radio = scenario.air, scenario.radio
    variance = (2.0 * np.pi * air.frequency_offset_hz * seconds) ** 2 + 2.0 * np.pi * air.phase_noise_hz * seconds
    direct = radio.rician_k / (1.0 + radio.rician_k) if radio.fading == "rician" else 0.0
    moved = direct + (1.0 - direct) * j0(2.0 * np.pi * air.doppler_hz * seconds)
    return np.maximum(np.exp(-variance / 2.0) * moved, 0.5)


def _rounded_to_own_peak(vectors: Doubles, bits: int) -> Doubles:
    """Return each worker's symbols at the nearest of the 2^b - 1 levels that end at its largest; any x symbols."""
    if not bits:
        return vectors
    step = np.abs(vectors).max(axis=-1, keepdims=True) / (2 ** (bits - 1) - 1)
    return np.asarray(np.round(vectors / step) * step)


def _amplified(symbols: Doubles, power_watts: Doubles, air: Air) -> Complex:
    """Return r / (1 + (r / A)^(2p))^(1 / (2p)), turned by up to so many degrees in saturation; any shape."""
    if math.isinf(air.amplifier_saturation_dbm):
        return symbols.astype(np.complex128)
    twice = 2.0 * air.amplifier_smoothness
    drive = np.abs(symbols) * np.sqrt(power_watts / dbm_to_watts(air.amplifier_saturation_dbm))
    phase = np.deg2rad(air.amplifier_turn_degrees) * drive**2 / (1.0 + drive**2)
    return np.asarray(symbols * (1.0 + drive**twice) ** (-1.0 / twice) * np.exp(1j * phase))


def _carriers(setting: AirSetting, seats: SeatDraws) -> Complex:
    """Return the carrier that each worker leaks, the same in every symbol; slots x scheduled x 1."""
    scenario, signal = setting.scenario, setting.signal
    mean_square = signal.largest_squared_norm(declared_bounds(scenario.workers, signal.features)[0]) / signal.symbols
    size = np.sqrt(10.0 ** (scenario.air.carrier_leakage_db / 10.0) * mean_square)
    return np.asarray(size * np.exp(2j * np.pi * seats.uniforms("carrier-leakage").numpy()))


def _converted(received: Complex, air: Air) -> Complex:
    """Return what the server's two converters make of a slot, whose levels end at its range; slots x symbols."""
    if not air.adc_bits:
        return received
    parts = np.stack([received.real, received.imag])
    end = np.abs(parts).max(axis=(0, 2))
    if air.adc_range:
        end = air.adc_range * np.sqrt((np.abs(received) ** 2).mean(axis=1))
    levels = 2 ** (air.adc_bits - 1) - 1
    step = (end / levels)[:, None]
    rounded = np.clip(np.round(parts / step), -levels, levels) * step
    return np.asarray(rounded[0] + 1j * rounded[1])


def _formed(masking: Masking, sending: NDArray[np.bool_], symbols: int, rng: Generator) -> tuple[Doubles, Doubles]:
    """Draw every worker's noise, masks and self mask; return what each adds, scheduled x symbols, and what is revealed.

    Where masks are recovered that is the sum of those that senders share with the absent, and of senders' self masks.
    """
    shape = (len(sending), symbols)
    added = np.sqrt(masking.own_watts) * rng.standard_normal(shape)
    alone = np.sqrt(masking.self_watts) * rng.standard_normal(shape)
    revealed = sending @ alone
    for one, other in [] if masking.graph is None else masking.graph.edges:
        mask = np.sqrt(masking.pair_watts) * rng.standard_normal(symbols)
        added[one] += mask
        added[other] -= mask
        revealed += (float(sending[one]) - float(sending[other])) * mask
    return added + alone, revealed if masking.self_watts else np.zeros(symbols)


def _mean_gain(through: Complex, amplitude: float, energy: float, noise_watts: float, rng: Generator) -> complex:
    """Return what the server takes for the mean gain from known symbols that share an energy, each with its own noise.

    It trusts what it sees as far as it differs from 1 by more than its noise may do. A block in which nobody seems to
    send is thrown away: divided by a very large number.
    """
    known = np.sqrt(energy / len(through))
    heard = amplitude * known * through + _noise(rng, noise_watts, len(through))
    seen = complex((heard * known).sum() / (amplitude * energy))
    off, squared_error = seen - 1.0, noise_watts / (amplitude**2 * energy)
    if abs(off) ** 2 <= _DOUBT * squared_error:
        taken = 1.0 + 0.0j
    else:
        taken = 1.0 + off * (1.0 - _DOUBT * squared_error / abs(off) ** 2)
    return _NOBODY if abs(taken) ** 2 < min(_DOUBT * squared_error, 0.25) else taken


def _off_time(arriving: Complex, offsets: Doubles, roll_off: float, frame: Frame) -> Complex:
    """Return sum_m rc(m + tau) v_(k+m) of each worker, every block with silence around it; scheduled x symbols."""
    smeared, blocks, longest = np.zeros_like(arriving), np.array(frame.blocks), frame.longest_block
    for worker, offset in enumerate(offsets):
        pulse = np.array([raised_cosine(m + offset, roll_off) for m in range(-longest, longest + 1)])
        for block in range(frame.block_count):
            here = np.flatnonzero(blocks == block)
            apart = here[None, :] - here[:, None]  # from the symbol that listens to the one that is heard
            smeared[worker, here] = pulse[apart + longest] @ arriving[worker, here]
    return smeared


def _without_mean_pulse(received: Complex, air: Air, frame: Frame) -> Complex:
    """Solve each block for the symbols that the mean pulse of workers off time would turn into it; slots x symbols."""
    places = (np.arange(400) + 0.5) / 200.0 - 1.0
    pulse = np.array(
        [
            np.mean([raised_cosine(symbols + air.timing_offset_symbols * place, air.roll_off) for place in places])
            for symbols in range(frame.longest_block)
        ]
    )
    solved, blocks = np.empty_like(received), np.array(frame.blocks)
    for block in range(frame.block_count):
        here = np.flatnonzero(blocks == block)
        solved[:, here] = np.linalg.solve(
            pulse[np.abs(here[None, :] - here[:, None])] / pulse[0], received[:, here].T
        ).T
    return solved


def _noise(rng: Generator, watts: float, count: int) -> Complex:
    """Draw CN(0, watts); shape count."""
    return np.asarray(np.sqrt(watts / 2.0) * (rng.standard_normal(count) + 1j * rng.standard_normal(count)))
