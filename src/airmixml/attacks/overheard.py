"""What an eavesdropper beside the workers receives, symbol by symbol in complex baseband.

Workers invert their channel to the server, so the one farthest from it sends loudest, and the eavesdropper stands
beside that one. It hears every worker of a slot with the power that is sent, the path loss from its own place and a
phase of its own, for nobody turned a signal towards it: where the server adds up amplitudes, it adds up vectors.

On an imperfect air it hears the same transmitters and clocks: those who are absent not at all, and others with their
gains on top of its own phases. What the gain of a channel to the server does, it does not hear, but is granted.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.attacks.server_view import ServerView
from airmixml.devices import find_device, using_threads
from airmixml.errors import ScenarioError
from airmixml.impairments.frame import frame_of
from airmixml.radio.air import mix_samples
from airmixml.radio.channel import draw_fading, draw_phase
from airmixml.radio.draws import AirSetting, SlotDraws, chapter_count, draw_blocks
from airmixml.radio.mixtures import Transmission
from airmixml.radio.path_loss import path_gain
from airmixml.radio.senders import SampleSender, make_sender
from airmixml.randomness.slot_words import slot_words
from airmixml.scenario import Scenario, Speed
from airmixml.streams import SLOTS_PER_CHAPTER, Streams
from airmixml.units import dbm_to_watts
from airmixml.workers import place_coordinates


@dataclass(frozen=True, kw_only=True, eq=False)
class Listener:
    """An eavesdropper at its place.

    Attributes:
        beside_worker: the worker farthest from the server, which it stands next to.
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
        privacy, radio = scenario.privacy, scenario.radio
        from_server_metres = np.hypot(places_metres[:, 0], places_metres[:, 1])
        beside = int(from_server_metres.argmax())
        outwards = places_metres[beside] / from_server_metres[beside] if from_server_metres[beside] else np.eye(2)[0]
        place_metres = places_metres[beside] + privacy.eavesdropper_distance_metres * outwards
        distance_metres = np.hypot(*(places_metres - place_metres).T)
        distance_metres = np.maximum(distance_metres, scenario.workers.min_distance_metres)
        gain = path_gain(distance_metres, radio.path_loss_exponent, radio.unit_path_loss_db)
        return cls(
            beside_worker=beside,
            power_gain=np.minimum(privacy.eavesdropper_antennas * gain**2, 1.0),
            noise_watts=dbm_to_watts(privacy.eavesdropper_noise_dbm),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Received:
    """Mixtures as an adversary without a schedule received them, and the truth that judges what it makes of them.

    Where moments are sent, every slot counts as many as there are classes: the products of inputs and label are, class
    by class, mixtures of the inputs of that class's workers. The products of inputs with each other are left alone.

    Attributes:
        mixtures: of inputs; slots x inputs, real or complex.
        labels: mixtures of labels; slots x classes, or no column where no label is sent by itself.
        strongest_worker: who is strongest in each, -1 for nobody; slots.
        noise_energy: expected ||noise||^2 of each mixture, where slots differ in it; slots.
        label_weights: how well the labels of each slot were received; slots. None: all alike.
        known_scale: whether mixtures come in the scale in which they were sent.
        beside: the worker that the adversary stands beside; None for none.
    """

    mixtures: torch.Tensor
    labels: NDArray[np.float64]
    strongest_worker: NDArray[np.int64]
    noise_energy: NDArray[np.float64] | None = None
    label_weights: NDArray[np.float64] | None = None
    known_scale: bool = True
    beside: int | None = None


def overhear(view: ServerView, speed: Speed | None = None, most_slots: int = 20_000) -> Received:
    """Return what an eavesdropper beside the farthest worker receives in the first slots, in units of its noise.

    Memory follows ``most_slots``; where moments are sent, each class of a slot counts as one.
    """
    if most_slots < 1:
        raise ScenarioError(f"most_slots = {most_slots}: must be at least 1")
    scenario, dataset, workers = view.transmission.scenario, view.dataset, view.transmission.scenario.workers
    placement = Streams(scenario.seed).generator("placement")
    listener = Listener.of(scenario, place_coordinates(workers.count, workers.side_metres, placement))
    classes = dataset.label_dim if workers.sends == "moments" else 1
    slots = min(max(1, most_slots // classes), scenario.radio.slots)
    labels = dataset.train_labels[view.held_index]
    parts, strongest = [], []
    for part, draws, heard_watts in overhear_chapters(view.transmission, listener, chapter_count(slots), speed):
        parts.append(part)
        strongest.append(strongest_workers(draws.scheduled_workers, heard_watts, labels, classes))
    received = torch.cat(parts)[: slots * classes]
    return Received(
        mixtures=received[:, : dataset.input_dim],
        labels=align_phase(received)[:, dataset.input_dim :].double().cpu().numpy(),
        strongest_worker=np.concatenate(strongest)[: slots * classes],
        known_scale=False,
        beside=listener.beside_worker,
    )


def overhear_chapters(
    sent: Transmission, listener: Listener, chapters: int | None = None, speed: Speed | None = None
) -> Iterator[tuple[torch.Tensor, SlotDraws, NDArray[np.float64]]]:
    """Yield, chapter by chapter of the run's own draws, what a listener receives in its slots.

    Yields y / sigma (slots x symbols, complex; of moments: slots and classes x inputs), the draws, and the power with
    which each scheduled worker is heard in units of the noise power (slots x scheduled).
    """
    scenario, dataset, population = sent.scenario, sent.dataset, sent.population
    speed = speed or Speed()
    device = find_device(speed.device)
    sender = make_sender(scenario, dataset, device)
    classes = 1
    if isinstance(sender, SampleSender):
        table = sender.table
    else:  # of moments the products of inputs and label, as they are before any rounding
        table = scenario.workers.label_weight * torch.from_numpy(dataset.train_inputs).to(device)
        classes = dataset.label_dim
    labels = dataset.train_labels[population.sample_index]
    setting = AirSetting.of(scenario, dataset.input_dim, dataset.label_dim, population.distance_metres)
    streams, some = Streams(scenario.seed), None if chapters is None else range(chapters)
    pieces = _piece_of_columns(setting, table.shape[1], classes)
    for chapter, drawn in enumerate(draw_blocks(setting, SLOTS_PER_CHAPTER, chapters=some)):
        draws, slots = drawn.numpy(), range(chapter * SLOTS_PER_CHAPTER, chapter * SLOTS_PER_CHAPTER + len(drawn))
        scheduled = draws.scheduled_workers
        phase_radians = draw_phase(slots, scheduled.shape[1], slot_words(streams, "eavesdropper")).numpy()
        power_gain = listener.power_gain[scheduled]
        if scenario.radio.fading != "none":
            source = slot_words(streams, "eavesdropper-fading")
            fading = draw_fading(scenario.radio, slots, scheduled.shape[1], source).numpy()
            power_gain = np.minimum(power_gain * fading**2, 1.0)  # nobody receives more than was sent
        heard_watts = power_gain * draws.power_watts / listener.noise_watts
        weights = np.sqrt(heard_watts) * np.exp(1j * phase_radians)
        if drawn.gains is not None:
            heard_watts = heard_watts * drawn.gains.peaks.numpy()
        noise = streams.generator("eavesdropper-noise", chapter)
        with using_threads(speed.threads):
            sample_index = torch.from_numpy(population.sample_index[scheduled]).to(device)
            if classes > 1:
                sample_index = sample_index.repeat_interleave(classes, dim=0)
                weights = _by_class(weights, labels[scheduled], classes)
            if drawn.gains is None:
                parts = _mix(table, sample_index, weights, device)
            else:
                mixed = []
                for piece, here in pieces:
                    turned = drawn.gains.in_piece(piece).numpy().repeat(classes, axis=0)
                    mixed.append(_mix(table[:, here], sample_index, weights * turned, device))
                parts = [torch.cat([part[number] for part in mixed], dim=1) for number in range(2)]
            standard = torch.from_numpy(noise.standard_normal((2, *parts[0].shape), dtype=np.float32)).to(device)
            received = torch.complex(*parts) + math.sqrt(0.5) * torch.complex(standard[0], standard[1])
        yield received, draws, heard_watts


def _mix(
    table: torch.Tensor, sample_index: torch.Tensor, weights: NDArray[np.complex128], device: torch.device
) -> list[torch.Tensor]:
    """Return real and imaginary part of the sum of samples with complex weights, slots x scheduled; slots x numbers."""
    parts = (weights.real.copy(), weights.imag.copy())
    return [mix_samples(table, sample_index, torch.from_numpy(part).to(device)) for part in parts]


def _piece_of_columns(setting: AirSetting, columns: int, classes: int) -> list[tuple[int, torch.Tensor]]:
    """Return the pieces of a slot in which numbers of a table are sent, in order, each with its columns.

    Of moments the products of a number with the label are sent one after the other, in the piece of the first of them.
    """
    frame, every = frame_of(setting.scenario.air, setting.signal.symbols), torch.arange(columns)
    first = setting.signal.input_symbols if classes > 1 else 0
    piece = torch.repeat_interleave(torch.tensor(frame.lengths))[first + classes * every]
    return [(number, every[piece == number]) for number in sorted(set(piece.tolist()))]


def strongest_workers(
    scheduled: NDArray[np.int64], strength: NDArray[np.float64], labels: NDArray[np.int64], classes: int
) -> NDArray[np.int64]:
    """Return whose strength (slots x scheduled) is largest in each slot, -1 where all are 0; (slots classes).

    More than one class says that the workers of each class, by ``labels`` of all workers, are a mixture of their own.
    """
    if classes > 1:
        strength = _by_class(strength, labels[scheduled], classes)
        scheduled = scheduled.repeat(classes, axis=0)
    seat = strength.argmax(axis=1)[:, None]
    worker, largest = (np.take_along_axis(part, seat, axis=1)[:, 0] for part in (scheduled, strength))
    return np.where(largest > 0.0, worker, -1)


def _by_class(values: NDArray[Any], labels: NDArray[np.int64], classes: int) -> NDArray[Any]:
    """Return the values of each class's workers, 0 for the others, class after class; (slots classes) x scheduled."""
    mine = labels[:, None, :] == np.arange(classes)[:, None]
    return np.asarray(np.where(mine, values[:, None, :], 0.0).reshape(-1, values.shape[1]))


def align_phase(received: torch.Tensor) -> torch.Tensor:
    """Return Re(exp(-j theta) y) of each slot, theta as somebody would guess it who knows only y; slots x symbols.

    A worker sends real symbols s, so y = a exp(j phi) s + n has its energy along one line of the complex plane. The
    real part's energy is (sum |y|^2 + Re(exp(-2j theta) sum y^2)) / 2, largest at theta = arg(sum y^2) / 2, which is
    phi or phi + pi. Samples that are never negative settle which: their sum must be positive. The unit is any.
    """
    half_turn = torch.angle(received.square().sum(dim=1)) / 2.0
    turned = (received * torch.polar(torch.ones_like(half_turn), -half_turn)[:, None]).real
    return torch.where(turned.sum(dim=1, keepdim=True) < 0.0, -turned, turned)
