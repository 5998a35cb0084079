"""What an eavesdropper beside the workers receives, symbol by symbol in complex baseband.

Workers invert their channel to the server, so the one farthest from it sends loudest, and the eavesdropper stands
beside that one. It hears every worker of a slot with the power that is sent, the path loss from its own place and a
phase of its own, for nobody turned a signal towards it: where the server adds up amplitudes, it adds up vectors.

On an imperfect air it hears the same transmitters and clocks: those who are absent not at all, and others with their
gains on top of its own phases. What the gain of a channel to the server does, it does not hear, but is granted.

Noise and masks of workers reach it with their signals. It knows their law, and whitens them (``overheard_noise``).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.attacks.overheard_noise import OverheardNoise, turned_by
from airmixml.attacks.received import Amplitudes, Received, rows_of_classes, slots_kept, strongest_workers
from airmixml.attacks.server_view import ServerView
from airmixml.devices import find_device, using_threads
from airmixml.errors import ScenarioError
from airmixml.impairments.frame import frame_of
from airmixml.impairments.gains import SeatGains
from airmixml.radio.channel import draw_fading, draw_phase
from airmixml.radio.draws import AirSetting, SlotDraws, SlotTensors, draw_slots
from airmixml.radio.masking import Masking, masking_of
from airmixml.radio.path_loss import path_gain
from airmixml.radio.senders import make_sender
from airmixml.radio.transmission import Transmission
from airmixml.randomness.slot_words import slot_words
from airmixml.scenario import Scenario, Speed
from airmixml.streams import SLOTS_PER_CHAPTER, Streams
from airmixml.units import dbm_to_watts
from airmixml.workers import Signal, place_coordinates
from airmixml.workers.payloads import Payload, Places

_ALIKE: Final = 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class Listener:
    """An eavesdropper at its place.

    Attributes:
        beside_worker: the worker that it stands next to.
        power_gain: from each worker, all antennas together, without fading, at most 1; shape workers.
        noise_watts: noise power per complex symbol.
    """

    beside_worker: int
    power_gain: NDArray[np.float64]
    noise_watts: float

    @classmethod
    def of(cls, scenario: Scenario, places_metres: NDArray[np.float64]) -> Self:
        """Place the scenario's eavesdropper beyond the worker farthest from the server, on the line from the server.

        Its antennas are combined in favour of every worker at once, which is more than it can do: each then hears
        that many times the power. The workers stand at ``places_metres``; workers x 2.
        """
        privacy = scenario.privacy
        from_server_metres = np.hypot(places_metres[:, 0], places_metres[:, 1])
        beside = int(from_server_metres.argmax())
        outwards = places_metres[beside] / from_server_metres[beside] if from_server_metres[beside] else np.eye(2)[0]
        place_metres = places_metres[beside] + privacy.eavesdropper_distance_metres * outwards
        return replace(cls.at(scenario, places_metres, place_metres), beside_worker=beside)

    @classmethod
    def at(cls, scenario: Scenario, places_metres: NDArray[np.float64], place_metres: NDArray[np.float64]) -> Self:
        """Place the scenario's eavesdropper anywhere, in metres from the server to the east and to the north; shape 2.

        The workers stand at ``places_metres``; workers x 2.
        """
        privacy, radio = scenario.privacy, scenario.radio
        distance_metres = np.hypot(*(places_metres - place_metres).T)
        beside = int(distance_metres.argmin())
        distance_metres = np.maximum(distance_metres, scenario.workers.min_distance_metres)
        gain = path_gain(distance_metres, radio.path_loss_exponent, radio.unit_path_loss_db)
        return cls(
            beside_worker=beside,
            power_gain=np.minimum(privacy.eavesdropper_antennas * gain**2, 1.0),
            noise_watts=dbm_to_watts(privacy.eavesdropper_noise_dbm),
        )


def listener_of(view: ServerView) -> Listener:
    """Return the eavesdropper of a run, at its place."""
    scenario, workers = view.transmission.scenario, view.transmission.scenario.workers
    placement = Streams(scenario.seed).generator("placement")
    return Listener.of(scenario, place_coordinates(workers.count, workers.side_metres, placement))


def overhear(view: ServerView, speed: Speed | None = None, most_slots: int = 20_000) -> Received:
    """Return what an eavesdropper beside the farthest worker receives in the first slots, in units of its noise.

    Memory follows ``most_slots``; where moments are sent, each class of a slot counts as one.
    """
    if most_slots < 1:
        raise ScenarioError(f"most_slots = {most_slots}: must be at least 1")
    scenario, dataset, workers = view.transmission.scenario, view.dataset, view.transmission.scenario.workers
    listener = listener_of(view)
    signal = Signal.of(workers, dataset.input_dim, dataset.label_dim)
    classes = signal.classes if signal.moments else 1
    slots = slots_kept(min(max(1, most_slots // classes), scenario.radio.slots), signal.symbols)
    labels = dataset.train_labels[view.held_index]
    strength = np.zeros(workers.count)
    parts, strongest, heard = [], [], []
    for part, draws, heard_watts in overhear_chapters(view.transmission, listener, slots, speed):
        parts.append(part)
        heard.append(heard_watts)
        strongest.append(strongest_workers(draws.scheduled_workers, heard_watts, labels, classes))
        np.add.at(strength, draws.scheduled_workers, heard_watts)
    symbols = torch.cat(parts)
    with_labels = symbols[:, signal.input_symbols :]
    if signal.moments:
        mixtures, sent_labels = rows_of_classes(with_labels, signal.features, classes), with_labels[:, :0].real
        sent_labels = sent_labels.repeat_interleave(classes, dim=0)
    else:
        mixtures, sent_labels = symbols[:, : signal.features], align_phase(symbols)[:, signal.features :]
    every_watts = np.concatenate(heard)
    return Received(
        symbols=symbols,
        noise=np.ones(slots),
        crowd=float(every_watts.sum(axis=1).mean()) if scenario.privacy.noise != "receiver" else None,
        amplitudes=Amplitudes.of(every_watts, workers.count, alike=_heard_alike(view, every_watts)),
        strength=strength,
        mixtures=mixtures,
        labels=sent_labels.double().cpu().numpy(),
        strongest_worker=np.concatenate(strongest),
        known_scale=False,
        beside=listener.beside_worker,
    )


def _heard_alike(view: ServerView, heard_watts: NDArray[np.float64]) -> bool:
    """Return whether the scenario lets a worker sound alike in all slots: equal shares of a power that stays."""
    scenario, first = view.transmission.scenario, view.draws[0]
    steady = scenario.radio.fading == "none" and scenario.air.is_ideal
    shares, scales = first.ratios[first.ratios > 0.0], first.power_scale_watts[np.isfinite(first.power_scale_watts)]
    return len(heard_watts) == 1 or bool(
        steady and len(shares) and np.ptp(shares) < _ALIKE * shares.min() and np.ptp(scales) < _ALIKE * scales.min()
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Arrival:
    """How the workers of some slots arrive at a listener.

    Attributes:
        slots: numbers of the slots.
        draws: what they drew.
        weights: complex gains of what workers hold, in units of the noise, and behind the filter that whitens it.
        heard_watts: power with which each scheduled worker is heard in units of the noise power; slots x scheduled.
    """

    slots: range
    draws: SlotDraws
    weights: "_Arriving"
    heard_watts: NDArray[np.float64]


def arrivals(
    sent: Transmission, listener: Listener, slots: int | None = None, speed: Speed | None = None
) -> Iterator[Arrival]:
    """Yield, chapter by chapter of the run's own draws, how workers arrive at a listener in the first slots, or all."""
    scenario, dataset, population = sent.scenario, sent.dataset, sent.population
    device = find_device((speed or Speed()).device)
    setting = AirSetting.of(scenario, dataset.input_dim, dataset.label_dim, population.distance_metres)
    streams, every, masking = Streams(scenario.seed), range(scenario.radio.slots)[:slots], masking_of(scenario)
    for first in range(0, len(every), SLOTS_PER_CHAPTER):
        numbers = every[first : first + SLOTS_PER_CHAPTER]
        drawn = draw_slots(setting, numbers)
        draws, scheduled = drawn.numpy(), drawn.scheduled_workers.numpy()
        phase_radians = draw_phase(numbers, scheduled.shape[1], slot_words(streams, "eavesdropper")).numpy()
        power_gain = listener.power_gain[scheduled]
        if scenario.radio.fading != "none":
            source = slot_words(streams, "eavesdropper-fading")
            fading = draw_fading(scenario.radio, numbers, scheduled.shape[1], source).numpy()
            power_gain = np.minimum(power_gain * fading**2, 1.0)  # nobody receives more than was sent
        turn, filters = np.exp(1j * phase_radians), None
        if masking is None:
            heard_watts = power_gain * draws.power_watts / listener.noise_watts
            weights = torch.from_numpy(np.sqrt(heard_watts) * turn)
        else:
            per_sent = np.sqrt(power_gain / listener.noise_watts) / draws.magnitude * turn
            weights, filters = _weigh_added(masking, drawn, torch.from_numpy(per_sent))
        arriving = _Arriving(weights=weights.to(device), gains=drawn.gains, filters=filters)
        if masking is not None:
            heard_watts = _heard_white(arriving)
        elif drawn.gains is not None:
            heard_watts = heard_watts * drawn.gains.peaks.numpy()
        yield Arrival(slots=numbers, draws=draws, weights=arriving, heard_watts=heard_watts)


def overhear_chapters(
    sent: Transmission, listener: Listener, slots: int | None = None, speed: Speed | None = None
) -> Iterator[tuple[torch.Tensor, SlotDraws, NDArray[np.float64]]]:
    """Yield, chapter by chapter of the run's own draws, what a listener receives in the first slots, or in all.

    Yields y / sigma (slots x symbols, complex), the draws, and the power with which each scheduled worker is heard in
    units of the noise power (slots x scheduled). Of moments the products are as they are before any rounding. Where
    workers bring noise, noise is all that a listener hears of it, and y is whitened.
    """
    scenario, dataset, population = sent.scenario, sent.dataset, sent.population
    speed = speed or Speed()
    device = find_device(speed.device)
    sender = make_sender(unrounded(scenario), dataset, device)
    setting = AirSetting.of(scenario, dataset.input_dim, dataset.label_dim, population.distance_metres)
    for arrival in arrivals(sent, listener, slots, speed):
        draws = arrival.draws
        noise = Streams(scenario.seed).generator("eavesdropper-noise", arrival.slots.start // SLOTS_PER_CHAPTER)
        with using_threads(speed.threads):
            sample_index = torch.from_numpy(population.sample_index[draws.scheduled_workers]).to(device)
            parts = [part.float() for part in _mix(setting, sender, sample_index, arrival.weights)]
            # Slot by slot, so that fewer slots are the first of more.
            normals = noise.standard_normal((len(draws), 2, parts[0].shape[1]), dtype=np.float32)
            standard = torch.from_numpy(normals).to(device)
            received = torch.complex(*parts) + math.sqrt(0.5) * torch.complex(standard[:, 0], standard[:, 1])
        yield received, draws, arrival.heard_watts


def unrounded(scenario: Scenario) -> Scenario:
    """Return a scenario of moments without rounding, which would differ between real and imaginary part."""
    if scenario.workers.sends != "moments":
        return scenario
    workers = replace(scenario.workers, bits=0, bits_range=0.0)
    return replace(scenario, workers=workers, air=replace(scenario.air, dac_bits=0))


def _weigh_added(masking: Masking, drawn: SlotTensors, per_sent: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the weights of what workers hold (slots x scheduled), and the filters that whiten what they add to it.

    ``per_sent`` are gains of what the server should receive.
    """
    planned = drawn.planned_ratios
    assert planned is not None
    # What a worker sends more softly than planned it sends with softer noise and masks.
    added = per_sent * (drawn.ratios / planned).nan_to_num(nan=0.0)
    noise = OverheardNoise(masking, added.shape[1])
    for seats, turned in _Arriving(weights=added, gains=drawn.gains):
        noise.add(turned, drawn.ratios[:, seats] > 0.0)
    return added * drawn.power_scale_watts[:, None].sqrt() * planned, noise.filters()


@dataclass(frozen=True, kw_only=True, eq=False)
class _Arriving:
    """Complex weights with which workers arrive, some seats at a time."""

    weights: torch.Tensor
    gains: SeatGains | None
    filters: torch.Tensor | None = None

    def __iter__(self) -> Iterator[tuple[slice, torch.Tensor]]:
        """Yield seats, and their weights; slots x seats x pieces, or x 1."""
        for seats in [slice(0, self.weights.shape[1])] if self.gains is None else self.gains.parts:
            turned = self.weights[:, seats, None]
            if self.gains is not None:
                turned = turned * self.gains.of(seats).to(turned.device)
            if self.filters is not None:
                turned = turned_by(self.filters.to(turned.device), turned)
            yield seats, turned


def _heard_white(arriving: _Arriving) -> NDArray[np.float64]:
    """Return the power of each worker behind the filters, in the mean over pieces; slots x scheduled."""
    return torch.cat([turned.abs().square().mean(dim=2) for _, turned in arriving], dim=1).cpu().numpy()


def _mix(setting: AirSetting, sender: Payload, sample_index: torch.Tensor, arriving: _Arriving) -> list[torch.Tensor]:
    """Return real and imaginary part of the sum with complex weights; slots x symbols each."""
    lengths = frame_of(setting.scenario.air, setting.signal.symbols).lengths
    places = Places(lengths, None, sample_index.shape[1])
    mixed: list[torch.Tensor] = []
    for seats, turned in arriving:
        shares = (turned.real.contiguous(), turned.imag.contiguous())
        some = [sender.weighted_sum(sample_index[:, seats], part, places) for part in shares]
        mixed = some if not mixed else [total + more for total, more in zip(mixed, some, strict=True)]
    return mixed


def align_phase(received: torch.Tensor) -> torch.Tensor:
    """Return Re(exp(-j theta) y) of each slot, theta as somebody would guess it who knows only y; slots x symbols.

    A worker sends real symbols s, so y = a exp(j phi) s + n has its energy along one line of the complex plane. The
    real part's energy is (sum |y|^2 + Re(exp(-2j theta) sum y^2)) / 2, largest at theta = arg(sum y^2) / 2, which is
    phi or phi + pi. Samples that are never negative settle which: their sum must be positive. The unit is any.
    """
    half_turn = torch.angle(received.square().sum(dim=1)) / 2.0
    turned = (received * torch.polar(torch.ones_like(half_turn), -half_turn)[:, None]).real
    return torch.where(turned.sum(dim=1, keepdim=True) < 0.0, -turned, turned)
