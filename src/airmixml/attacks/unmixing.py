"""Attacks without a model: nearest neighbours of whitened mixtures, and unmixing those that share a sample.

Mixtures of images share a mean and a few large components; whitening by their second moments leaves of one sample what
points nowhere else. Where few workers send with hardly any noise, a nearest neighbour tells more than a likelihood
ratio.

Slots whose whitened mixtures are more alike than any two unrelated ones would be are joined, as attacks on InstaHide do
(Carlini et al. 2021, "Is private learning possible with instance encoding?"), and what each group shares is solved
for: noise that hides a sample in one slot averages out in a group.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from airmixml.arrays import Doubles, Integers
from airmixml.attacks.eavesdropper import align_phase
from airmixml.attacks.inference import Scores
from airmixml.attacks.sample_symbols import NUMBERS_AT_ONCE, blocks_of

FALSE_LINKS: Final = 0.01
_LEAST_SHARE: Final = 1e-3
_PAIRS_LOOKED_AT: Final = 1 << 18
_TAIL: Final = (0.95, 0.995)
_RAISE: Final = 1.25
_ROUNDS: Final = 20
_POWER_ITERATIONS: Final = 12


def in_parts(mixtures: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the mixtures, or their real and imaginary parts where they are complex; each slots x d, real."""
    return (mixtures.real, mixtures.imag) if mixtures.is_complex() else (mixtures,)


def unit_length(rows: torch.Tensor) -> torch.Tensor:
    """Return rows scaled to length 1, rows of zeros as they are; same shape, real or complex."""
    lengths: torch.Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / lengths.clamp_min(1e-30)


def whiten(mixtures: torch.Tensor, whitening: torch.Tensor) -> torch.Tensor:
    """Return the mixtures whitened and scaled to length 1; slots x directions, real or complex."""
    parts = [part @ whitening for part in in_parts(mixtures)]
    return unit_length(torch.complex(*parts) if mixtures.is_complex() else parts[0])


def whitening_of(mixtures: torch.Tensor) -> torch.Tensor:
    """Return V diag(w)^(-1/2) of the mixtures' second moments; d x directions.

    The mean, which is the largest component of samples that are never negative, in any scale and phase, becomes one
    direction among many. Directions with less than a thousandth of the second component's power are left out, for
    they hold rounding or nothing. Every slot (slots x d, real or complex) counts alike, however loud it was.
    """
    symbols = mixtures.shape[1]
    moments = torch.zeros((symbols, symbols), dtype=torch.float64, device=mixtures.device)
    for part in in_parts(unit_length(mixtures)):
        moments += (part.T @ part).double()
    power: torch.Tensor
    power, directions = torch.linalg.eigh(moments / len(mixtures))  # ascending
    kept = power > _LEAST_SHARE * power[-2:][0].clamp_min(1e-30)
    whitening: torch.Tensor = directions[:, kept] / power[kept].sqrt()
    return whitening.to(mixtures.real.dtype)


def score_neighbours(
    mixtures: torch.Tensor,
    held: torch.Tensor,
    decoys: torch.Tensor,
    whitening: torch.Tensor,
    numbers_at_once: int = NUMBERS_AT_ONCE,
) -> tuple[Scores, Integers]:
    """Return every candidate's correlation with its nearest mixture, and the held candidate nearest to each mixture.

    Correlations are of whitened vectors at the best scale and phase, for the attacker knows neither.
    Mixtures are slots x d, real or complex; candidates are samples x d, and the whitening d x directions.
    """
    candidates = whiten(torch.cat([held, decoys]).to(mixtures.real.dtype), whitening)
    best = torch.full((len(candidates),), -torch.inf, dtype=candidates.dtype, device=mixtures.device)
    nearest = []
    for some in blocks_of(len(mixtures), len(candidates), numbers_at_once):
        likeness = correlations(mixtures[some], whitening, candidates)
        best = torch.maximum(best, likeness.amax(dim=0))
        nearest.append(likeness[:, : len(held)].argmax(dim=1))
    scores = best.double().cpu().numpy()
    return Scores(held=scores[: len(held)], decoys=scores[len(held) :]), torch.cat(nearest).cpu().numpy()


def nearest_sample(mixtures: torch.Tensor, samples: torch.Tensor, whitening: torch.Tensor) -> Integers:
    """Return the row of ``samples`` that correlates most with each mixture, both whitened; shape mixtures."""
    theirs = whiten(samples, whitening)
    kind = torch.complex64 if mixtures.is_complex() else theirs.dtype
    found = [
        correlations(mixtures[some].to(kind), whitening, theirs).argmax(dim=1)
        for some in blocks_of(len(mixtures), len(theirs))
    ]
    return np.asarray(torch.cat(found).cpu().numpy())


def correlations(mixtures: torch.Tensor, whitening: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Return correlations with unit candidates (candidates x directions), at the best phase; slots x candidates."""
    products = [part @ candidates.T for part in in_parts(whiten(mixtures, whitening))]
    return torch.hypot(*products) if len(products) == 2 else products[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class Unmixed:
    """What was found in the mixtures."""

    estimates: torch.Tensor  # what the slots of each group share, in an unknown scale; groups x d, real
    group_of_slot: Integers  # -1 for those that were like no other; slots


def unmix(mixtures: torch.Tensor, *, seed: int = 0) -> Unmixed:
    """Group slots that share a dominating sample and solve each group for it; time grows with the square of the slots.

    Mixtures are slots x d, real or complex; the seed picks the pairs that show how like unrelated slots are.
    """
    whitened = whiten(mixtures, whitening_of(mixtures))
    group_of_slot = _grow(whitened, *_join(whitened, joining_threshold(whitened, seed)))
    return Unmixed(estimates=_solve_groups(mixtures, whitened, group_of_slot), group_of_slot=group_of_slot)


def joining_threshold(whitened: torch.Tensor, seed: int) -> float:
    """Return the correlation that a hundredth of a pair among all unrelated slots is expected to exceed.

    Correlations rho of independent directions in k dimensions have -ln(1 - rho^2) with an exponential tail, of rate
    (k - 1) / 2 for real and k - 1 for complex vectors. Its rate here is taken between two quantiles of pairs picked at
    random, and the tail is drawn on from the upper one; so samples that are alike (k is small then) raise the
    threshold. Pairs that do share a sample raise it too, where they are more than lie beyond the upper quantile.
    Whitened slots are unit vectors, real or complex; slots x directions.
    """
    slots = len(whitened)
    if slots < 2:
        return 1.0
    rng = np.random.default_rng(seed)
    ones = rng.integers(slots, size=_PAIRS_LOOKED_AT)
    others = (ones + rng.integers(1, slots, size=_PAIRS_LOOKED_AT)) % slots
    products = [
        (whitened[ones[some]].conj() * whitened[others[some]]).sum(dim=1)
        for some in blocks_of(_PAIRS_LOOKED_AT, whitened.shape[1])
    ]
    squares = torch.cat(products).abs().square().clamp(max=1.0 - 1e-7)
    low, high = np.quantile(-np.log1p(-squares.double().cpu().numpy()), _TAIL)
    length = (high - low) / math.log((1.0 - _TAIL[0]) / (1.0 - _TAIL[1]))
    pairs = slots * (slots - 1) / 2.0
    level = high + length * max(0.0, math.log((1.0 - _TAIL[1]) * pairs / FALSE_LINKS))
    return math.sqrt(-math.expm1(-level))


def _find_links(
    whitened: torch.Tensor, threshold: float, numbers_at_once: int = NUMBERS_AT_ONCE
) -> tuple[Integers, Integers, Doubles]:
    """Return the pairs of slots whose correlation exceeds the threshold, and that; three arrays as long as links."""
    parts = in_parts(whitened)
    pairs, values = [], []
    for here in blocks_of(len(whitened), len(whitened), numbers_at_once):
        first = here.start
        likeness = parts[0][here] @ parts[0][first:].T  # pairs with an earlier slot were looked at
        if len(parts) == 2:
            likeness += parts[1][here] @ parts[1][first:].T
            across = parts[0][here] @ parts[1][first:].T - parts[1][here] @ parts[0][first:].T
            likeness = torch.hypot(likeness, across)
        found = (likeness > threshold).triu(diagonal=1).nonzero(as_tuple=True)
        pairs.append(torch.stack(found).cpu().numpy() + first)
        values.append(likeness[found].double().cpu().numpy())
    rows, columns = np.concatenate(pairs, axis=1)
    return rows, columns, np.concatenate(values)


def _join(whitened: torch.Tensor, threshold: float) -> tuple[Integers, Doubles]:
    """Return the group of each slot, -1 for slots alone, and the correlation that it takes to join it; slots each.

    Groups are the connected components of slots whose correlation exceeds the threshold. Slots of one sample are all
    alike, so a component with less than half of its pairs linked is a chain of samples that are alike (the many ones
    among handwritten digits): in it the threshold is raised, step by step, until it has fallen into groups.
    """
    slots = len(whitened)
    rows, columns, likeness = _find_links(whitened, threshold)
    # In -ln(1 - rho^2), where a step is as large near a correlation of 1 as elsewhere.
    level_of_link = -np.log1p(-(np.minimum(likeness, 1.0 - 1e-7) ** 2))
    level_of_slot = np.full(slots, max(-math.log1p(-(min(threshold, 1.0 - 1e-7) ** 2)), 1e-6))
    while True:
        kept = level_of_link >= level_of_slot[rows]
        rows, columns, level_of_link = rows[kept], columns[kept], level_of_link[kept]
        component = _components(slots, rows, columns)
        size = np.bincount(component)
        links = np.bincount(component[rows], minlength=len(size))
        chained = links < size * (size - 1) / 4.0
        if not chained.any():
            break
        level_of_slot[chained[component]] *= _RAISE
    shared = size[component] > 1
    group_of_slot = np.full(slots, -1, dtype=np.int64)
    group_of_slot[shared] = np.unique(component[shared], return_inverse=True)[1]
    return group_of_slot, np.sqrt(-np.expm1(-level_of_slot))


def _components(nodes: int, rows: Integers, columns: Integers) -> Integers:
    """Return the number of the connected component of each node, given the links' two ends; nodes."""
    graph = coo_array((np.ones(len(rows), dtype=bool), (rows, columns)), shape=(nodes, nodes))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def _grow(whitened: torch.Tensor, group_of_slot: Integers, correlation_needed: Doubles) -> Integers:
    """Return the groups once what they share has drawn in more slots, and groups that share the same; slots.

    Two noisy slots of a sample may be too unlike to be joined when each is like the mean of ten others.
    """
    group_of_slot = group_of_slot.copy()
    for _ in range(_ROUNDS):
        alone = np.flatnonzero(group_of_slot < 0)
        groups = int(group_of_slot.max(initial=-1)) + 1
        if not groups:
            break
        shared, _, grouped = _shared_directions(whitened, group_of_slot)
        needed_by_group = np.zeros(groups)
        np.maximum.at(needed_by_group, group_of_slot[grouped], correlation_needed[grouped])
        rows, columns, likeness = _find_links(shared, float(needed_by_group.min()))
        same = likeness > np.maximum(needed_by_group[rows], needed_by_group[columns])
        if same.any():
            merged = _components(groups, rows[same], columns[same])
            group_of_slot[grouped] = merged[group_of_slot[grouped]]
            continue
        likeness, closest = _closest_groups(whitened[torch.from_numpy(alone).to(whitened.device)], shared)
        joins = likeness > np.maximum(correlation_needed[alone], needed_by_group[closest])
        if not joins.any():
            break
        group_of_slot[alone[joins]] = closest[joins]
    return group_of_slot


def _closest_groups(whitened: torch.Tensor, shared: torch.Tensor) -> tuple[Doubles, Integers]:
    """Return the largest correlation of each slot with a group's direction, and the group; slots each."""
    found = []
    for some in blocks_of(len(whitened), len(shared)):
        products = whitened[some].conj() @ shared.T
        found.append((products.abs() if products.is_complex() else products).max(dim=1))
    likeness, groups = (torch.cat(each).cpu().numpy() for each in zip(*found, strict=True))
    return likeness.astype(np.float64), groups


def _shared_directions(whitened: torch.Tensor, group_of_slot: Integers) -> tuple[torch.Tensor, torch.Tensor, Integers]:
    """Return the direction whose multiples fit the slots of each group best, the weight of each slot, and which slots.

    Shares and phases differ from slot to slot, so each slot is c_t x plus a rest: by turns c_t is the slot's product
    with what the group's slots add up to, and x that sum weighted by c_t (power iteration). Shapes are groups x
    directions, grouped slots, grouped slots.
    """
    grouped = np.flatnonzero(group_of_slot >= 0)
    group = torch.from_numpy(group_of_slot[grouped]).to(whitened.device)
    mine = whitened[torch.from_numpy(grouped).to(whitened.device)]
    first = torch.from_numpy(np.unique(group_of_slot[grouped], return_index=True)[1]).to(whitened.device)
    shared, weights = mine[first], mine.new_zeros(len(grouped))
    for _ in range(_POWER_ITERATIONS):
        weights = (mine.conj() * shared[group]).sum(dim=1)
        shared = unit_length(torch.zeros_like(shared).index_add_(0, group, weights[:, None] * mine))
    return shared, weights, grouped


def _solve_groups(mixtures: torch.Tensor, whitened: torch.Tensor, group_of_slot: Integers) -> torch.Tensor:
    """Return the real vector that the slots of each group share; groups x d.

    The weights come from whitened slots, where what others sent is smallest, and add up the slots as received.
    """
    shared, weights, grouped = _shared_directions(whitened, group_of_slot)
    group = torch.from_numpy(group_of_slot[grouped]).to(mixtures.device)
    received = mixtures[torch.from_numpy(grouped).to(mixtures.device)]
    added = mixtures.new_zeros((len(shared), mixtures.shape[1])).index_add_(0, group, weights[:, None] * received)
    if added.is_complex():
        return align_phase(added)
    return torch.where(added.sum(dim=1, keepdim=True) < 0.0, -added, added)
