"""What mixtures tell without a schedule: as they are released, or as an eavesdropper receives them.

Nearest neighbours tell whether a known sample took part; unmixing joins slots that share a sample. Both work on the
purest slots, those that look least like the mean of all.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.attacks.image_quality import fitted_psnr_db, judge_recovery
from airmixml.attacks.label_inference import infer_labels, infer_shares, tell_populations_apart
from airmixml.attacks.linkage import correlations, link_candidates
from airmixml.attacks.listener_findings import (
    ClassShares,
    ClearestSlots,
    Identified,
    ListenerFindings,
    Unmixing,
    by_chance,
)
from airmixml.attacks.overheard import align_phase, overhear
from airmixml.attacks.public_knowledge import Decoder
from airmixml.attacks.server_view import ServerView
from airmixml.attacks.unmixing import Unmixed, unmix
from airmixml.attacks.whitening import unit_length, whitening_of
from airmixml.data import DataSet
from airmixml.errors import ScenarioError
from airmixml.scenario import Speed
from airmixml.streams import Streams
from airmixml.workers import input_range

SLOTS_COMPARED: Final = 100_000
SLOTS_OVERHEARD: Final = 20_000
SLOTS_UNMIXED: Final = 10_000
CANDIDATES: Final = 2_000
EXAMPLES: Final = 10
_FEW_SLOTS: Final = 50
_CANDIDATES_CHAPTER: Final = 10**9  # far beyond the chapters of slots
_TINY: Final = 1e-30
_NUMBERS_AT_ONCE: Final = 1 << 24


@dataclass(frozen=True, kw_only=True, eq=False)
class Heard:
    """What was found without a schedule, and what was seen of it.

    Attributes:
        findings: the figures.
        examples: the clearest slots as received, each dominated by another sample, decoded; examples x inputs.
        example_index: row of the pool that dominates each of them (slots in which nobody sent are none); examples.
        held_samples: different samples that workers hold.
    """

    findings: ListenerFindings
    examples: NDArray[np.float32]
    example_index: NDArray[np.int64]
    held_samples: int


def attack_released(view: ServerView, decoder: Decoder) -> Heard:
    """Attack the mixtures as they are released, without schedule and ratios.

    Args:
        view: its mixtures alone are looked at; the schedule serves to judge what was found.
        decoder: from what is sent to what is held.
    """
    labels, mixtures = view.labels.double().cpu().numpy(), view.released
    by_class = len(labels[0]) == 0
    weights = view.matrix.weights.repeat(view.dataset.label_dim if by_class else 1)
    label_weight = view.transmission.scenario.workers.label_weight if by_class else 1.0
    received = _Received(
        mixtures=mixtures,
        dominating_worker=_dominating(view, by_class=by_class)[: len(mixtures)],
        noise_energy=mixtures.shape[1] / np.maximum(weights[: len(mixtures)] * label_weight**2, _TINY),
        labels=labels,
        slot_weights=None if by_class else _label_weights(view),
    )
    return _attack(received, view, decoder)


def attack_as_eavesdropper(view: ServerView, decoder: Decoder, *, speed: Speed) -> Heard:
    """Attack what an eavesdropper beside the farthest worker receives, without schedule, ratios and channels.

    Args:
        view: says who sent what with which power.
        decoder: from what is sent to what is held.
        speed: device and threads.
    """
    sent = view.transmission
    heard = overhear(sent.scenario, view.dataset, sent.population, most_slots=SLOTS_OVERHEARD, speed=speed)
    received = _Received(
        mixtures=heard.inputs,
        dominating_worker=heard.loudest_worker,
        labels=heard.labels.double().cpu().numpy(),
        known_scale=False,
        beside=heard.listener.beside_worker,
    )
    return _attack(received, view, decoder)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Received:
    """Mixtures as an adversary received them.

    Attributes:
        mixtures: of inputs; slots x inputs, real or complex.
        dominating_worker: who is strongest in each, -1 for nobody; slots.
        labels: mixtures of labels; slots x classes, or no column where no label is sent by itself.
        noise_energy: expected ||noise||^2 of each mixture, where slots differ in it; slots.
        slot_weights: how well the labels of each slot were received; slots. None: all alike.
        known_scale: whether mixtures come in the scale in which they were sent.
        beside: the worker that the adversary stands beside; None for none.
    """

    mixtures: torch.Tensor
    dominating_worker: NDArray[np.int64]
    labels: NDArray[np.float64]
    noise_energy: NDArray[np.float64] | None = None
    slot_weights: NDArray[np.float64] | None = None
    known_scale: bool = True
    beside: int | None = None

    @property
    def promise(self) -> torch.Tensor:
        """How much energy of a slot is not along the mean of all, over that of its noise; slots.

        A mixture of many is like the mean in some scale; one sample alone is not.
        """
        mean: torch.Tensor = unit_length(self.mixtures.mean(dim=0, keepdim=True))[0]
        along = (self.mixtures @ mean.conj()).abs().square()
        away: torch.Tensor = self.mixtures.abs().square().sum(dim=1) - along
        return away if self.noise_energy is None else away / torch.from_numpy(self.noise_energy).to(away)


def _attack(received: _Received, view: ServerView, decoder: Decoder) -> Heard:
    sent, held_index, seed = view.dataset, view.held_index, view.transmission.scenario.seed
    mixtures, device = received.mixtures, received.mixtures.device
    dominating = np.where(received.dominating_worker >= 0, held_index[received.dominating_worker], -1)
    everyone = np.unique(held_index)
    everything = torch.from_numpy(sent.train_inputs[everyone]).to(device)
    decoys = torch.from_numpy(_decoys(sent, everyone)).to(device)
    promise = received.promise.masked_fill(torch.from_numpy(dominating < 0).to(device), -torch.inf)
    order = promise.argsort(descending=True)
    looked_at = order[:SLOTS_COMPARED].cpu().numpy()
    chosen = mixtures[order[:SLOTS_COMPARED]]
    # Few mixtures do not tell what mixtures have in common; public samples do, about.
    whitening = whitening_of(chosen if len(chosen) >= _FEW_SLOTS else decoys)
    candidates = _candidates(everyone, seed)
    place = np.full(sent.train_samples, -1)
    place[candidates] = np.arange(len(candidates))
    linkage = link_candidates(
        chosen,
        torch.from_numpy(sent.train_inputs[candidates]).to(device),
        decoys[:CANDIDATES],
        dominating=np.where(dominating >= 0, place[dominating], -1)[looked_at],
        whitening=whitening,
    )
    unmixed = unmix(chosen[:SLOTS_UNMIXED], seed=seed) if len(mixtures) >= _FEW_SLOTS else None
    estimates = mixtures.real[:0] if unmixed is None else unmixed.estimates
    groups = np.zeros(0, dtype=np.int64) if unmixed is None else _dominating_groups(unmixed, dominating[looked_at])
    clearest = _first_of_each(looked_at, dominating)[:EXAMPLES]
    clear, example_index = mixtures[torch.from_numpy(clearest).to(device)], dominating[clearest]
    truth = torch.from_numpy(sent.train_inputs[example_index]).to(device)
    single = align_phase(clear) if clear.is_complex() else clear
    if input_range(view.transmission.scenario.workers)[0] < 0.0:  # its sum does not tell which way round it is
        single = single * torch.where((single * truth).sum(dim=1, keepdim=True) < 0.0, -1.0, 1.0)
    psnr_db = fitted_psnr_db(single, truth).cpu().numpy()

    def identify(mixed: torch.Tensor, right: NDArray[np.int64]) -> tuple[int, float]:
        """Return how many mixtures are most like the right one of all samples that are held, and its p-value."""
        found = int((everyone[_most_alike(mixed, everything, whitening)] == right).sum())
        return found, by_chance(found, len(right), len(everyone))

    grouped, grouped_p_value = identify(estimates, groups)
    named, named_p_value = identify(clear, example_index)
    beside = None
    if received.beside is not None:
        slots = np.flatnonzero(received.dominating_worker == received.beside)
        known, known_p_value = identify(mixtures[torch.from_numpy(slots).to(device)], dominating[slots])
        beside = Identified(looked_at=len(slots), identified=known, p_value=known_p_value)
    true_labels, has_labels = sent.train_labels[held_index], received.labels.shape[1] > 0
    strongest = np.where(dominating >= 0, true_labels[received.dominating_worker], -1)
    findings = ListenerFindings(
        linkage=linkage,
        unmixing=Unmixing(
            **vars(judge_recovery(estimates, everything, decoys)), identified=grouped, p_value=grouped_p_value
        ),
        slot_labels=infer_labels(received.labels, strongest) if has_labels else None,
        shares=_shares(received, true_labels) if has_labels else None,
        clearest_slots=ClearestSlots(
            looked_at=len(clearest),
            identified=named,
            p_value=named_p_value,
            psnr_db=float(np.median(psnr_db)) if len(psnr_db) else 0.0,
        ),
        beside=beside,
        beside_worker=received.beside,
    )
    return Heard(
        findings=findings,
        examples=decoder.decode(_as_bright(single, truth).cpu().numpy()),
        example_index=example_index,
        held_samples=len(everyone),
    )


def _first_of_each(slots: NDArray[np.int64], dominating: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return of every sample the first slot that it dominates, in the order given, none for nobody; slots."""
    sent = slots[dominating[slots] >= 0]
    _, first = np.unique(dominating[sent], return_index=True)
    return np.asarray(sent[np.sort(first)])


def _shares(received: _Received, true_labels: NDArray[np.int64]) -> ClassShares | None:
    """Return the classes of the population; None where there is one slot, or too little was received to know any."""
    classes = received.labels.shape[1]
    true_shares = np.bincount(true_labels, minlength=classes) / len(true_labels)
    try:
        found = infer_shares(
            received.labels, true_shares, slot_weights=received.slot_weights, known_scale=received.known_scale
        )
    except ScenarioError:
        return None
    return ClassShares(
        shares=tuple(found.shares.tolist()),
        standard_errors=tuple(found.standard_errors.tolist()),
        true_shares=tuple(found.true_shares.tolist()),
        distance=found.distance,
        prior_distance=found.prior_distance,
        told_from_equal=tell_populations_apart(found, np.full(classes, 1.0 / classes), true_shares),
    )


def _dominating(view: ServerView, *, by_class: bool = False) -> NDArray[np.int64]:
    """Return the worker with the largest share of each slot, or of each class in a slot, -1 for none; rows."""
    labels = view.dataset.train_labels[view.held_index]
    parts = []
    for draws in view.draws:
        scheduled, ratios = draws.scheduled_workers, draws.ratios
        if by_class:
            classes = view.dataset.label_dim
            scheduled, ratios = scheduled.repeat(classes, axis=0), ratios.repeat(classes, axis=0)
            ratios = np.where(labels[scheduled] == np.tile(np.arange(classes), len(draws))[:, None], ratios, 0.0)
        seat = ratios.argmax(axis=1)[:, None]
        worker, share = (np.take_along_axis(part, seat, axis=1)[:, 0] for part in (scheduled, ratios))
        parts.append(np.where(share > 0.0, worker, -1))
        if by_class and sum(map(len, parts)) >= len(view.released):
            break
    return np.concatenate(parts)


def _decoys(sent: DataSet, everyone: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return samples that nobody holds: of the same pool, where that leaves enough of them, or else public ones."""
    free = np.setdiff1d(np.arange(sent.train_samples), everyone)
    return sent.train_inputs[free] if len(free) >= CANDIDATES else sent.test_inputs


def _candidates(everyone: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Return some of the samples that are held; rows of the pool."""
    order = Streams(seed).generator("eavesdropper", _CANDIDATES_CHAPTER).permutation(len(everyone))
    return np.sort(everyone[order[:CANDIDATES]])


def _dominating_groups(unmixed: Unmixed, dominating: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sample that dominates most slots of each group; shape groups."""
    joined = unmixed.group_of_slot >= 0
    pairs, counts = np.unique(
        np.stack([unmixed.group_of_slot[joined], dominating[: len(joined)][joined]]), axis=1, return_counts=True
    )
    order = np.argsort(counts, kind="stable")  # of equal groups the last entry stays, the one of the largest count
    found = np.full(len(unmixed.estimates), -1)
    found[pairs[0, order]] = pairs[1, order]
    return found


def _most_alike(mixtures: torch.Tensor, samples: torch.Tensor, whitening: torch.Tensor) -> NDArray[np.int64]:
    """Return the row of ``samples`` that correlates most with each mixture, both whitened; shape mixtures."""
    theirs = unit_length(samples @ whitening)
    kind = torch.complex64 if mixtures.is_complex() else theirs.dtype
    at_once = max(1, _NUMBERS_AT_ONCE // len(theirs))
    found = [
        correlations(mixtures[first : first + at_once].to(kind), whitening, theirs).argmax(dim=1)
        for first in range(0, len(mixtures), at_once)
    ]
    return np.asarray(torch.cat(found).cpu().numpy()) if found else np.zeros(0, dtype=np.int64)


def _label_weights(view: ServerView) -> NDArray[np.float64]:
    """Return 1 / variance of a slot's labels about the population's shares: its noise, and who was drawn; slots."""
    noise = 1.0 / np.maximum(view.matrix.weights, _TINY) / view.transmission.scenario.workers.label_weight**2
    return np.asarray(1.0 / (noise + np.concatenate([np.square(each.ratios).sum(axis=1) for each in view.draws])))


def _as_bright(estimates: torch.Tensor, samples: torch.Tensor) -> torch.Tensor:
    """Return the estimates with the offset and scale that fit the samples best: only to be looked at; same shape."""
    ours = estimates - estimates.mean(dim=1, keepdim=True)
    theirs = samples - samples.mean(dim=1, keepdim=True)
    factor = (ours * theirs).sum(dim=1) / ours.square().sum(dim=1).clamp_min(_TINY)
    return factor.clamp_min(0.0)[:, None] * ours + samples.mean(dim=1, keepdim=True)
