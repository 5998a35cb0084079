"""What somebody knows of a worker who hears every worker separately, perfectly and without noise.

In a slot worker i sends sqrt(beta) q v_i + n_i + sum_j m_ij. S = s^2 I + e^2 L is the covariance of all honest workers'
noise and masks (``masks.hidden_noise``). Whoever knows all other samples, which no claim forbids, subtracts them. In
the row (S^-1)_i of everybody's signals v_i then has noise of variance 1 / (beta q^2 (S^-1)_ii) on every symbol, and
there is nothing more to know. A vector that several workers send, with shares q over the seats, has q' S^-1 q in the
place of q^2 (S^-1)_ii. Precisions of several slots add up, for slots of one worker are heard to be its own.

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
_COLUMNS_AT_ONCE: Final = 64
_MOST_STEPS: Final = 500
_CLOSE: Final = 1e-10
_TINY: Final = 1e-300


def alone(workers: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return for each of ``count`` workers its place among these, -1 for others: every one a target of its own."""
    member = np.full(count, -1)
    member[workers] = np.arange(len(workers))
    return member


def heard_precision(view: ServerView, member: NDArray[np.int64], targets: int) -> NDArray[np.float64]:
    """Return 1 / (variance of the noise on a symbol of v) for vectors that one or several workers send; shape targets.

    ``member`` says which of them each worker sends, -1 for others. Infinite where nothing hides a worker.
    """
    scenario, masking = view.transmission.scenario, masking_of(view.transmission.scenario)
    dataset, population, found = view.dataset, view.transmission.population, np.zeros(targets)
    if masking is None:
        sent = [member[np.unique(draws.scheduled_workers[draws.ratios > 0.0])] for draws in view.draws]
        found[np.setdiff1d(np.concatenate(sent), [-1])] = math.inf
        return found
    setting = AirSetting.of(scenario, dataset.input_dim, dataset.label_dim, population.distance_metres)
    patterns: dict[tuple[bytes, bytes], int] = {}
    strengths = list[tuple[int, int, float]]()
    for drawn in draw_blocks(setting, suitable_block(setting)):
        draws, planned = drawn.numpy(), drawn.planned_ratios
        assert planned is not None
        slot, seat = np.nonzero((member[draws.scheduled_workers] >= 0) & (draws.ratios > 0.0))
        # What a worker sends more softly than planned it sends with softer noise and masks.
        amplitude = np.sqrt(draws.power_scale_watts[slot]) * planned.numpy()[slot, seat]
        who = member[draws.scheduled_workers[slot, seat]]
        order = np.lexsort((seat, who, slot))
        starts = np.flatnonzero(np.diff(slot[order] * targets + who[order], prepend=-1))
        for some in np.split(order, starts[1:]) if len(order) else []:
            # Slots in which the same seats send alike are one equation.
            shares = (amplitude[some] / amplitude[some[0]]).round(12)
            number = patterns.setdefault((seat[some].tobytes(), shares.tobytes()), len(patterns))
            strengths.append((int(who[some[0]]), number, float(amplitude[some[0]]) ** 2))
    each = [(np.frombuffer(seats, dtype=np.int64), np.frombuffer(shares)) for seats, shares in patterns]
    inverse = _inverse_of_patterns(scenario, masking, each)
    for number, pattern, watts in strengths:
        found[number] += watts * inverse[pattern]
    return found


def _inverse_of_patterns(
    scenario: Scenario, masking: Masking, patterns: list[tuple[NDArray[np.int64], NDArray[np.float64]]]
) -> NDArray[np.float64]:
    """Return x' S^-1 x, in 1 / watts, of vectors given by their seats and shares, each as if its seats were honest."""
    count = masking.honest.count if masking.graph is None else masking.graph.seats
    found, alike = np.empty(len(patterns)), dict[bytes, list[int]]()
    generator = Streams(scenario.seed).generator("eavesdropper", _COLLUDERS_CHAPTER)
    privacy, order = scenario.privacy, generator.permutation(count)
    out = min(privacy.colluders, count - 1) + math.ceil(privacy.most_absent * count)
    for number, (seats, _) in enumerate(patterns):
        # Seats that were drawn to collude are looked at as if others did in their place.
        alike.setdefault(order[~np.isin(order, seats)][:out].tobytes(), []).append(number)
    for colluding, numbers in alike.items():
        honest = np.ones(count, dtype=np.bool_)
        honest[np.frombuffer(colluding, dtype=order.dtype)] = False
        for some in (numbers[first : first + _COLUMNS_AT_ONCE] for first in range(0, len(numbers), _COLUMNS_AT_ONCE)):
            vectors = np.zeros((count, len(some)))
            for column, number in enumerate(some):
                vectors[patterns[number][0], column] = patterns[number][1]
            found[some] = inverse_form(masking, honest, vectors)
    return found


def inverse_form(masking: Masking, honest: NDArray[np.bool_], vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return x' S^-1 x for vectors over the seats that are 0 where a seat is not honest (seats x columns); columns.

    1 is an eigenvector of S with eigenvalue s^2, so what of x lies along it adds (1'x)^2 / (|H| s^2). What is left has
    eigenvalues of about e^2 k alone, and conjugate gradients solve for it in a few steps.
    """
    if masking.graph is None:
        return np.asarray(np.square(vectors).sum(axis=0) / masking.own_watts)
    kept, count = vectors[honest], int(honest.sum())
    means = kept.mean(axis=0)
    away, along = kept - means, count * np.square(means) / masking.own_watts
    if masking.graph.complete:
        return np.asarray(along + np.square(away).sum(axis=0) / (masking.own_watts + count * masking.pair_watts))
    adjacency = masking.graph.adjacency[honest][:, honest]
    degrees = np.asarray(adjacency.sum(axis=1))
    if count <= _MOST_DENSE:
        laplacian = np.diag(degrees) - adjacency.toarray()
        solved = np.linalg.solve(masking.own_watts * np.eye(count) + masking.pair_watts * laplacian, away)
    else:
        solved = _solved(masking, adjacency, degrees, away)
    return np.asarray(along + (away * solved).sum(axis=0))


def _solved(
    masking: Masking, adjacency: Any, degrees: NDArray[np.float64], target: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return S^-1 x by conjugate gradients, all columns at once; shape of the target, whose columns add up to 0."""
    diagonal = (masking.own_watts / masking.pair_watts + degrees)[:, None]
    found, left = np.zeros_like(target), target.copy()
    direction, energy = left.copy(), np.square(left).sum(axis=0)
    enough = _CLOSE**2 * np.maximum(energy, _TINY)
    for _ in range(_MOST_STEPS):
        image = diagonal * direction - adjacency @ direction
        step = energy / np.maximum((direction * image).sum(axis=0), _TINY)
        found += step * direction
        left -= step * image
        before, energy = energy, np.square(left).sum(axis=0)
        if np.all(energy <= enough):
            return found / masking.pair_watts
        direction = left + energy / np.maximum(before, _TINY) * direction
    raise PrivacyError("privacy.mask_degree: the graph of honest workers is nearly cut; raise it, or set it to 0")
