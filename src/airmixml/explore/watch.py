"""One slot, step by step: who sends what with which share and power, and what arrives at the antenna and elsewhere.

The slot is that of the run with the same seed: same places, samples, schedule, ratios, powers and noise.
"""

from functools import lru_cache
from threading import Lock
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.arrays import Doubles, ratio_to_db, watts_to_dbm
from airmixml.attacks.eavesdropper import Listener, align_phase, overhear_chapters
from airmixml.data import DataSet, known_dataset
from airmixml.messages import ScenarioError
from airmixml.planning.known_inputs import data_dimensions
from airmixml.radio.draws import MixtureBlock
from airmixml.radio.transmission import Transmission, open_air
from airmixml.scenario import RunContext, Scenario, Speed
from airmixml.scenario.toml import finite
from airmixml.streams import SLOTS_PER_CHAPTER, Streams
from airmixml.workers import Signal, place_coordinates

MOST_WORK: Final = 400_000_000  # symbols x seats of a chapter: about a second
_MOST_PLACES: Final = 2_000
_MOST_SENDERS: Final = 12
_MOST_SYMBOLS: Final = 1_024


_LOCK: Final = Lock()


@lru_cache(maxsize=4)  # so that dragging takes no time
def _first_slots(scenario: Scenario) -> tuple[Transmission, MixtureBlock, Doubles]:
    """Return the first slots of a scenario, with the places of its workers in metres; shape workers x 2.

    Refuse those that take long, or whose data are not on every machine.
    """
    workers, radio = scenario.workers, scenario.radio
    known = known_dataset(workers.dataset)
    if known is None or known.published is not None:
        shown = "a slot is shown with samples that come with the package; choose iris, digits, breast-cancer or wine"
        raise ScenarioError(f'workers.dataset = "{workers.dataset}": {shown}')
    signal = Signal.of(workers, *data_dimensions(scenario, None, None))
    if signal.symbols * radio.scheduled * min(radio.slots, SLOTS_PER_CHAPTER) > MOST_WORK:
        much = f"with {signal.symbols:,} symbols each: too much for a picture; schedule fewer, or send fewer features"
        raise ScenarioError(f"radio.scheduled = {radio.scheduled:,} {much}")
    air = open_air([scenario], None, None, RunContext(speed=Speed(threads=1)))
    block = next(air.blocks(range(min(radio.slots, SLOTS_PER_CHAPTER))))[0]
    sent = Transmission(
        scenario=scenario, dataset=air.dataset, population=air.population, report=air.new_reports()[0], examples=block
    )
    placement = Streams(scenario.seed).generator("placement")
    return sent, block, place_coordinates(workers.count, workers.side_metres, placement)


def show(scenario: Scenario, slot: int, place_metres: tuple[float, float] | None) -> dict[str, Any]:
    """Return all that a page draws of one slot, as plain values.

    The eavesdropper is at a place in metres from the server, or at its own.
    """
    with _LOCK:
        sent, block, places = _first_slots(scenario)
    dataset, population = sent.dataset, sent.population
    if not 0 <= slot < block.slots:
        raise ScenarioError(f"slot = {slot + 1}: must be from 1 to {block.slots}")
    draws, privacy = block.draws, scenario.privacy
    # The scenario's own eavesdropper stands beyond the farthest worker.
    far = places[int(np.hypot(*places.T).argmax())]
    own = np.asarray(far * (1.0 + privacy.eavesdropper_distance_metres / max(float(np.hypot(*far)), 1e-9)))
    place = own if place_metres is None else np.asarray(place_metres, dtype=np.float64)
    listener = Listener.at(scenario, places, place)
    *_, (received, _, heard) = overhear_chapters(sent, listener, slot + 1, Speed(threads=1))
    signal = Signal.of(scenario.workers, dataset.input_dim, dataset.label_dim)
    workers, ratios = draws.scheduled_workers[slot], draws.ratios[slot]
    sending = np.flatnonzero(ratios > 0.0)
    few = sending[:_MOST_PLACES]
    shown = sending[np.argsort(-ratios[sending], kind="stable")][:_MOST_SENDERS]
    samples = population.sample_index[workers]
    held = population.holdings is None
    senders = [
        {
            "worker": int(workers[seat]),
            "place": places[workers[seat]].round(1).tolist(),
            "distance_metres": float(population.distance_metres[workers[seat]]),
            "ratio": float(ratios[seat]),
            "channel_db": float(ratio_to_db(draws.magnitude[slot, seat] ** 2)),
            "power_dbm": float(watts_to_dbm(sent.report.told_share * draws.power_watts[slot, seat])),
            "heard_db": float(ratio_to_db(max(heard[slot, seat], 1e-30))),
            "input": _numbers(dataset.train_inputs[samples[seat]]) if held else [],
            "label": _label(dataset, int(samples[seat])) if held else "",
        }
        for seat in shown
    ]
    at_listener = align_phase(received[slot : slot + 1])[0]
    total = float(heard[slot].sum())
    plain: dict[str, Any] = finite(
        {
            "slot": slot + 1,
            "slots": block.slots,
            "all_slots": scenario.radio.slots,
            "side_metres": scenario.workers.side_metres,
            "places": places[:_MOST_PLACES].round(1).tolist(),
            "workers": scenario.workers.count,
            "scheduled": [  # for the map; of very many the first
                {"worker": int(worker), "place": places[worker].round(1).tolist(), "ratio": float(ratio)}
                for worker, ratio in zip(workers[few], ratios[few], strict=True)
            ],
            "sending": len(sending),
            "senders": senders,
            "sends": scenario.workers.sends,
            "noise": privacy.noise,
            "on_air": scenario.radio.link_kind.on_air,
            "shape": list(dataset.image_shape) if dataset.image_shape else None,
            "classes": list(dataset.class_names),
            "power_scale_watts": float(draws.power_scale_watts[slot]),
            "limited": bool(draws.limited[slot]),
            "clean": _numbers(block.clean_inputs[slot]),
            "received": _numbers(block.inputs[slot]),
            "clean_labels": _numbers(block.clean_labels[slot]),
            "received_labels": _numbers(block.labels[slot]),
            "snr_db": float(ratio_to_db(max(float(block.snr[0, slot]), 1e-30))),
            "eavesdropper": {
                "place": place.round(2).tolist(),
                "nearest_metres": float(np.hypot(*(places - place).T).min()),
                "inputs": _numbers(at_listener[: signal.input_symbols]),
                "snr_db": float(ratio_to_db(max(total, 1e-30))),
                "loudest": int(workers[int(heard[slot].argmax())]),
                "loudest_share": float(heard[slot].max() / total) if total else 0.0,
                "noise_dbm": privacy.eavesdropper_noise_dbm,
                "antennas": privacy.eavesdropper_antennas,
            },
        }
    )
    return plain


def _label(dataset: DataSet, sample: int) -> str:
    label, names = dataset.train_labels[sample], dataset.class_names
    of_class = np.ndim(label) == 0 and np.issubdtype(np.asarray(label).dtype, np.integer) and label >= 0
    return names[int(label)] if of_class else ""


def _numbers(values: NDArray[Any] | torch.Tensor) -> list[float]:
    """Return the first numbers with as many digits as a picture shows."""
    array = values.cpu().numpy() if isinstance(values, torch.Tensor) else values
    return [float(f"{value:.4g}") for value in np.asarray(array, dtype=np.float64)[:_MOST_SYMBOLS]]
