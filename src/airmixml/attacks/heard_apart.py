"""What somebody knows of a worker who hears every worker separately, perfectly and without noise.

In a slot worker i sends sqrt(beta) q v_i + n_i + sum_j m_ij. S = s^2 I + e^2 L is the covariance of all honest workers'
noise and masks (``masks.hidden_noise``). Whoever knows all other samples, which no claim forbids, subtracts them. In
the row (S^-1)_i of everybody's signals v_i then has noise of variance 1 / (beta q^2 (S^-1)_ii) on every symbol, and
there is nothing more to know. Precisions of several slots add up, for slots of one worker are heard to be its own.

Colluders' noise and masks are known, and so are the masks of those whom a server that lies calls absent: they are taken
out, chosen without regard to the graph.
"""

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.attacks.server_view import ServerView
from airmixml.errors import PrivacyError
from airmixml.radio.draws import AirSetting, draw_blocks, suitable_block
from airmixml.radio.masking import Masking, masking_of
from airmixml.scenario import Scenario
from airmixml.streams import Streams

_COLLUDERS_CHAPTER: Final = 10**9 + 1  # far beyond the chapters of slots
_MOST_DENSE: Final = 1500
_SEATS_AT_ONCE: Final = 64
_MOST_STEPS: Final = 500
_CLOSE: Final = 1e-10
_TINY: Final = 1e-300


def heard_precision(view: ServerView, workers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return 1 / (variance of the noise on a symbol of v_i) for these workers; infinite where nothing hides them."""
    scenario, masking = view.transmission.scenario, masking_of(view.transmission.scenario)
    dataset, population, found = view.dataset, view.transmission.population, np.zeros(len(workers))
    if masking is None:
        heard_of = np.concatenate([np.unique(draws.scheduled_workers[draws.ratios > 0.0]) for draws in view.draws])
        found[np.isin(workers, heard_of)] = math.inf
        return found
    setting = AirSetting.of(scenario, dataset.input_dim, dataset.label_dim, population.distance_metres)
    place = np.full(scenario.workers.count, -1)
    place[workers] = np.arange(len(workers))
    heard = list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]]()
    for drawn in draw_blocks(setting, suitable_block(setting)):
        draws, planned = drawn.numpy(), drawn.planned_ratios
        assert planned is not None
        slot, seat = np.nonzero((place[draws.scheduled_workers] >= 0) & (draws.ratios > 0.0))
        # What a worker sends more softly than planned it sends with softer noise and masks.
        heard_watts = draws.power_scale_watts[slot] * np.square(planned.numpy()[slot, seat])
        heard.append((place[draws.scheduled_workers[slot, seat]], seat, heard_watts))
    who, seats, watts = (np.concatenate(each) for each in zip(*heard, strict=True))
    different, of_seat = np.unique(seats, return_inverse=True)
    np.add.at(found, who, watts * inverse_of_seats(scenario, masking, different)[of_seat])
    return found


def inverse_of_seats(scenario: Scenario, masking: Masking, seats: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return (S^-1)_ii of these seats, in 1 / watts, each as if it were honest."""
    if masking.graph is None:
        return np.full(len(seats), 1.0 / masking.own_watts)
    generator = Streams(scenario.seed).generator("eavesdropper", _COLLUDERS_CHAPTER)
    count, privacy = masking.graph.seats, scenario.privacy
    out = min(privacy.colluders, count - 1) + math.ceil(privacy.most_absent * count)
    found, order = np.empty(len(seats)), generator.permutation(count)
    drawn = np.isin(seats, order[:out])
    # Seats that were drawn to collude are looked at as if others did in their place.
    for some in (drawn, ~drawn):
        if some.any():
            honest = np.ones(count, dtype=np.bool_)
            honest[order[~np.isin(order, seats[some])][:out]] = False
            found[some] = inverse_diagonal(masking, honest, seats[some])
    return found


def inverse_diagonal(masking: Masking, honest: NDArray[np.bool_], seats: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return (S^-1)_ii of some honest seats.

    1 is an eigenvector of S with eigenvalue s^2, so S^-1 e_i = 1 / (|H| s^2) + S^-1 (e_i - 1 / |H|). What is left has
    eigenvalues of about e^2 k alone, and conjugate gradients solve for it in a few steps.
    """
    assert masking.graph is not None
    number = np.cumsum(honest) - 1
    wanted, count = number[seats], int(honest.sum())
    if masking.graph.complete:
        inverse = 1.0 / (masking.own_watts + count * masking.pair_watts)
        return np.full(len(seats), inverse + (1.0 / masking.own_watts - inverse) / count)
    adjacency = masking.graph.adjacency[honest][:, honest]
    degrees = np.asarray(adjacency.sum(axis=1))
    if count <= _MOST_DENSE:
        laplacian = np.diag(degrees) - adjacency.toarray()
        every = np.linalg.inv(masking.own_watts * np.eye(count) + masking.pair_watts * laplacian)
        return np.asarray(np.diag(every)[wanted])
    parts = [
        _solved(masking, adjacency, degrees, wanted[first : first + _SEATS_AT_ONCE])
        for first in range(0, len(wanted), _SEATS_AT_ONCE)
    ]
    return 1.0 / (count * masking.own_watts) + np.concatenate([np.zeros(0), *parts])


def _solved(
    masking: Masking, adjacency: Any, degrees: NDArray[np.float64], wanted: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return e_i' S^-1 (e_i - 1 / |H|) by conjugate gradients, all columns at once; shape wanted."""
    count, columns = len(degrees), np.arange(len(wanted))
    diagonal = (masking.own_watts / masking.pair_watts + degrees)[:, None]
    target = np.full((count, len(wanted)), -1.0 / count)
    target[wanted, columns] += 1.0
    found, left = np.zeros_like(target), target.copy()
    direction, energy = left.copy(), np.square(left).sum(axis=0)
    for _ in range(_MOST_STEPS):
        image = diagonal * direction - adjacency @ direction
        step = energy / np.maximum((direction * image).sum(axis=0), _TINY)
        found += step * direction
        left -= step * image
        before, energy = energy, np.square(left).sum(axis=0)
        if float(energy.max()) <= _CLOSE**2:
            return found[wanted, columns] / masking.pair_watts
        direction = left + energy / np.maximum(before, _TINY) * direction
    raise PrivacyError("privacy.mask_degree: the graph of honest workers is nearly cut; raise it, or set it to 0")
