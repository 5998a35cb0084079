"""The eavesdropper: a listener beside the worker farthest from the server, which sends loudest.

It receives symbol by symbol in complex baseband: every worker of a slot with the power that is sent, the path loss from
its own place and a phase of its own, so that it adds up vectors where the server adds up amplitudes. On an imperfect
air it hears the same transmitters and clocks, with their gains on top of its phases; what the gain of a channel to the
server does, it does not hear, but is granted.

Noise and masks of workers reach it with their signals, and masks do not cancel there. With complex gains w_i it
receives

    y = sum_i w_i (sqrt(beta) q_i v_i + n_i + sum_j m_ij) + thermal noise,

and of one symbol, in units of the thermal noise, real and imaginary part together have the noise covariance

    M = I / 2 + s^2 sum_i w_i w_i' + e^2 sum_(i, j) (w_i - w_j)(w_i - w_j)',

w_i a vector of two numbers, (i, j) the masks. No mask is formed: a listener who knows M turns y into (2 M)^(-1/2) y,
whose noise is circular and of power 1, and loses nothing. It is granted self masks, and the masks of absent workers
where they are recovered. Sums over the masks of very large slots are replaced by their mean over graphs, as in
``radio.transmitters``.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
import torch

from airmixml.arrays import Doubles, dbm_to_watts, find_device, using_threads
from airmixml.attacks.likelihood import Amplitudes, Received, strongest_workers
from airmixml.attacks.watched import Heard, ServerView, rows_of_classes, slots_kept
from airmixml.impairments.fading import draw_phase, draw_shadowing
from airmixml.impairments.frame import frame_of
from airmixml.impairments.gains import SeatGains
from airmixml.radio.draws import AirSetting, SlotDraws, SlotTensors, draw_slots
from airmixml.radio.masking import Masking, masking_of
from airmixml.radio.transmission import Transmission, make_sender
from airmixml.randomness.slot_words import slot_words
from airmixml.scenario import Scenario, Speed
from airmixml.streams import SLOTS_PER_CHAPTER, Streams
from airmixml.workers import place_coordinates
from airmixml.workers.signal import Payload, Places

_ALIKE: Final = 0.1
_MOST_DIFFERENCES: Final = 1 << 28


@dataclass(frozen=True, kw_only=True, eq=False)
class Listener:
    """An eavesdropper at its place."""

    beside_worker: int  # the worker that it stands next to
    power_gain: Doubles  # from each worker, all antennas together, without fading, at most 1; workers
    noise_watts: float  # per complex symbol

    @classmethod
    def of(cls, scenario: Scenario, places_metres: Doubles) -> Self:
        """Place the scenario's eavesdropper beyond the worker farthest from the server, on the line from the server.

        Its antennas are combined in favour of every worker at once, which is more than it can do: each then hears
        that many times the power. The workers stand at ``places_metres``; workers x 2.
        """
        privacy = scenario.privacy
        from_server_metres = np.hypot(places_metres[:, 0], places_metres[:, 1])
        beside = int(from_server_metres.argmax())
        outwards = places_metres[beside] / from_server_metres[beside] if from_server_metres[beside] else np.eye(2)[0]
        return cls.at(scenario, places_metres, places_metres[beside] + privacy.eavesdropper_distance_metres * outwards)

    @classmethod
    def at(cls, scenario: Scenario, places_metres: Doubles, place_metres: Doubles) -> Self:
        """Place the scenario's eavesdropper anywhere, in metres east and north of the server; shape 2."""
        privacy = scenario.privacy
        distance_metres = np.hypot(*(places_metres - place_metres).T)
        beside = int(distance_metres.argmin())
        distance_metres = np.maximum(distance_metres, scenario.workers.min_distance_metres)
        gain = scenario.radio.path_loss_kind.gain(scenario.radio, distance_metres)
        gain = gain * draw_shadowing(scenario, len(gain), to_listener=True)
        return cls(
            beside_worker=beside,
            power_gain=np.minimum(privacy.eavesdropper_antennas * gain**2, 1.0),
            noise_watts=dbm_to_watts(privacy.eavesdropper_noise_dbm),
        )


def listener_of(heard: Heard) -> Listener:
    """Return the eavesdropper of a run, at its place."""
    scenario, workers = heard.scenario, heard.scenario.workers
    placement = Streams(scenario.seed).generator("placement")
    return Listener.of(scenario, place_coordinates(workers.count, workers.side_metres, placement))


def overhear(view: ServerView, speed: Speed | None = None, most_slots: int = 20_000) -> Received:
    """Return what an eavesdropper beside the farthest worker receives in the first slots, in units of its noise.

    Memory follows ``most_slots``; where moments are sent, each class of a slot counts as one.
    """
    scenario, dataset, signal = view.scenario, view.dataset, view.signal
    listener, workers = listener_of(view), scenario.workers.count
    classes = signal.classes if signal.moments else 1
    slots = slots_kept(min(max(1, most_slots // classes), scenario.radio.slots), signal.symbols)
    labels, strength = dataset.train_labels[view.held_index], np.zeros(workers)
    parts, strongest, heard = [], [], []
    for part, draws, heard_watts in overhear_chapters(view.transmission, listener, slots, speed):
        parts.append(part)
        heard.append(heard_watts)
        strongest.append(strongest_workers(draws.scheduled_workers, heard_watts, labels, classes))
        np.add.at(strength, draws.scheduled_workers, heard_watts)
    symbols = torch.cat(parts)
    if signal.moments:
        mixtures = rows_of_classes(symbols[:, signal.input_symbols :], signal.features, classes)
    else:
        mixtures = symbols[:, : signal.features]
    every_watts = np.concatenate(heard)
    return Received(
        symbols=symbols,
        noise=np.ones(slots),
        total_power=float(every_watts.sum(axis=1).mean()) if scenario.privacy.noise_kind.brought else None,
        amplitudes=Amplitudes.of(every_watts, workers, alike=_heard_alike(view, every_watts)),
        strength=strength,
        mixtures=mixtures,
        strongest_worker=np.concatenate(strongest),
        beside=listener.beside_worker,
    )


def _heard_alike(view: ServerView, heard_watts: Doubles) -> bool:
    """Return whether the scenario lets a worker sound alike in all slots: equal shares of a power that stays."""
    scenario, first = view.scenario, view.draws[0]
    steady = scenario.radio.fading == "none" and scenario.air.is_ideal
    shares, scales = first.ratios[first.ratios > 0.0], first.power_scale_watts[np.isfinite(first.power_scale_watts)]
    return len(heard_watts) == 1 or bool(
        steady and len(shares) and np.ptp(shares) < _ALIKE * shares.min() and np.ptp(scales) < _ALIKE * scales.min()
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Arrival:
    """How the workers of some slots arrive at a listener."""

    slots: range  # their numbers
    draws: SlotDraws
    gains: SeatGains | None  # of an imperfect air; None where it is ideal
    weights: torch.Tensor  # complex gains of what workers hold, in units of the noise, before those of the air
    filters: torch.Tensor | None = None  # that whiten what workers add; None where they add nothing
    heard_watts: Doubles  # power of each scheduled worker over that of the noise; slots x scheduled

    def __iter__(self) -> Iterator[tuple[slice, torch.Tensor]]:
        """Yield seats, and the complex weights with which they arrive; slots x seats x pieces, or x 1."""
        for seats in [slice(0, self.weights.shape[1])] if self.gains is None else self.gains.parts:
            turned = self.weights[:, seats, None]
            if self.gains is not None:
                turned = turned * self.gains.of(seats).to(turned.device)
            if self.filters is not None:
                turned = turned_by(self.filters.to(turned.device), turned)
            yield seats, turned


def arrivals(setting: AirSetting, listener: Listener, every: range, speed: Speed | None = None) -> Iterator[Arrival]:
    """Yield, chapter by chapter of the run's own draws, how workers arrive at a listener in slots of these numbers."""
    scenario, device = setting.scenario, find_device((speed or Speed()).device)
    streams, masking = Streams(scenario.seed), masking_of(scenario)
    for first in range(0, len(every), SLOTS_PER_CHAPTER):
        numbers = every[first : first + SLOTS_PER_CHAPTER]
        drawn = draw_slots(setting, numbers)
        draws, scheduled = drawn.numpy(), drawn.scheduled_workers.numpy()
        phase_radians = draw_phase(numbers, scheduled.shape[1], slot_words(streams, "eavesdropper")).numpy()
        power_gain = listener.power_gain[scheduled]
        if scenario.radio.fading != "none":
            source = slot_words(streams, "eavesdropper-fading")
            fading = scenario.radio.fading_kind.draw(scenario.radio, numbers, scheduled.shape[1], source).numpy()
            power_gain = np.minimum(power_gain * fading**2, 1.0)  # nobody receives more than was sent
        heard_watts, turn = power_gain * draws.power_watts / listener.noise_watts, np.exp(1j * phase_radians)
        weights = torch.from_numpy(np.sqrt(heard_watts) * turn).to(device)
        if masking is None and drawn.gains is not None:
            heard_watts = heard_watts * drawn.gains.peaks.numpy()
        arrival = Arrival(slots=numbers, draws=draws, gains=drawn.gains, weights=weights, heard_watts=heard_watts)
        if masking is not None:
            per_sent = torch.from_numpy(np.sqrt(power_gain / listener.noise_watts) / draws.magnitude * turn)
            arrival = _with_added(masking, drawn, replace(arrival, weights=per_sent), device)
        yield arrival


def _with_added(masking: Masking, drawn: SlotTensors, sent: Arrival, device: torch.device) -> Arrival:
    """Return how workers arrive that add noise and masks, where the weights of ``sent`` are of what the server gets."""
    planned = drawn.planned_ratios
    assert planned is not None
    # What a worker sends more softly than planned it sends with softer noise and masks.
    added = replace(sent, weights=sent.weights * (drawn.ratios / planned).nan_to_num(nan=0.0))
    noise = OverheardNoise(masking, added.weights.shape[1])
    for seats, turned in added:
        noise.add(turned, drawn.ratios[:, seats] > 0.0)
    weights = added.weights * drawn.power_scale_watts[:, None].sqrt() * planned
    white = replace(sent, weights=weights.to(device), filters=noise.filters())
    heard_watts = torch.cat([turned.abs().square().mean(dim=2) for _, turned in white], dim=1)
    return replace(white, heard_watts=heard_watts.cpu().numpy())


def overhear_chapters(
    sent: Transmission, listener: Listener, slots: int | None = None, speed: Speed | None = None
) -> Iterator[tuple[torch.Tensor, SlotDraws, Doubles]]:
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
    for arrival in arrivals(setting, listener, range(scenario.radio.slots)[:slots], speed):
        draws = arrival.draws
        noise = Streams(scenario.seed).generator("eavesdropper-noise", arrival.slots.start // SLOTS_PER_CHAPTER)
        with using_threads(speed.threads):
            sample_index = torch.from_numpy(population.sample_index[draws.scheduled_workers]).to(device)
            parts = [part.float() for part in _mix(setting, sender, sample_index, arrival)]
            # Slot by slot, so that fewer slots are the first of more.
            normals = noise.standard_normal((len(draws), 2, parts[0].shape[1]), dtype=np.float32)
            standard = torch.from_numpy(normals).to(device)
            received = torch.complex(*parts) + math.sqrt(0.5) * torch.complex(standard[:, 0], standard[:, 1])
        yield received, draws, arrival.heard_watts


def unrounded(scenario: Scenario) -> Scenario:
    """Return a scenario of moments without rounding, which would differ between real and imaginary part."""
    if scenario.workers.sends != "moments":
        return scenario
    return scenario.changed(workers={"bits": 0, "bits_range": 0.0}, air={"dac_bits": 0})


def _mix(setting: AirSetting, sender: Payload, sample_index: torch.Tensor, arrival: Arrival) -> list[torch.Tensor]:
    """Return real and imaginary part of the sum with complex weights; slots x symbols each."""
    lengths = frame_of(setting.scenario.air, setting.signal.symbols).lengths
    places = Places(lengths, sample_index.shape[1])
    mixed: list[torch.Tensor] = []
    for seats, turned in arrival:
        shares = (turned.real.contiguous(), turned.imag.contiguous())
        some = [sender.weighted_sum(sample_index[:, seats], part, places) for part in shares]
        mixed = some if not mixed else [total + more for total, more in zip(mixed, some, strict=True)]
    return mixed


class OverheardNoise:
    """Adds up, seats by seats, what decides the covariance M of the noise."""

    def __init__(self, masking: Masking, seats: int) -> None:
        self._masking, self._seats = masking, seats
        self._recovers = masking.self_watts > 0.0
        self._squares = self._sum = self._sending = torch.zeros(())
        self._over_masks: torch.Tensor | None = None

    def add(self, weights: torch.Tensor, sending: torch.Tensor) -> None:
        """Take seats into account: complex gains w (slots x seats x pieces), 0 for those who do not send, and who does.

        Gains are of what is received at the server as planned, over the root of the thermal noise per complex symbol.
        """
        parts = torch.view_as_real(weights).transpose(1, 2)  # slots x pieces x seats x 2
        self._squares = self._squares + parts.transpose(2, 3) @ parts
        self._sum = self._sum + parts.sum(dim=2)
        self._sending = self._sending + sending.sum(dim=1)
        graph = self._masking.graph
        if graph is None or graph.complete or weights.shape[1] < self._seats:
            return
        if weights.shape[0] * weights.shape[2] * len(graph.successors) * self._seats > _MOST_DIFFERENCES:
            return
        self._over_masks = torch.zeros_like(self._squares)
        for after in torch.from_numpy(graph.successors).to(weights.device):
            apart = parts - parts[:, :, after]
            if self._recovers:
                apart = apart * (sending & sending[:, after])[:, None, :, None]
            self._over_masks += apart.transpose(2, 3) @ apart

    def covariance(self) -> torch.Tensor:
        """Return M; slots x pieces x 2 x 2."""
        masking, graph = self._masking, self._masking.graph
        total = torch.eye(2).to(self._squares) / 2.0 + masking.own_watts * self._squares
        if graph is None:
            return total
        over_masks = self._over_masks
        if over_masks is None:
            sharing = self._sending[:, None, None, None] if self._recovers else self._seats
            crossed = self._sum[..., :, None] * self._sum[..., None, :]
            over_masks = graph.degree / (self._seats - 1) * (sharing * self._squares - crossed)
        return total + masking.pair_watts * over_masks

    def filters(self) -> torch.Tensor:
        """Return (2 M)^(-1/2), by which what is received becomes white; slots x pieces x 2 x 2."""
        values, vectors = torch.linalg.eigh(self.covariance())
        white: torch.Tensor = (vectors * (2.0 * values).rsqrt()[..., None, :]) @ vectors.transpose(2, 3)
        return white


def turned_by(filters: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return gains (slots x seats x pieces, or x 1) behind the filters (slots x pieces x 2 x 2); complex."""
    both = torch.einsum("tpab,tspb->tspa", filters, torch.view_as_real(weights).expand(-1, -1, filters.shape[1], -1))
    return torch.complex(both[..., 0], both[..., 1])


def align_phase(received: torch.Tensor) -> torch.Tensor:
    """Return Re(exp(-j theta) y) of each slot, theta estimated from y alone; slots x symbols.

    A worker sends real symbols s, so y = a exp(j phi) s + n has its energy along one line of the complex plane. The
    real part's energy is (sum |y|^2 + Re(exp(-2j theta) sum y^2)) / 2, largest at theta = arg(sum y^2) / 2, which is
    phi or phi + pi. Samples that are never negative settle which: their sum must be positive. The unit is any.
    """
    half_turn = torch.angle(received.square().sum(dim=1)) / 2.0
    turned = (received * torch.polar(torch.ones_like(half_turn), -half_turn)[:, None]).real
    return torch.where(turned.sum(dim=1, keepdim=True) < 0.0, -turned, turned)
