"""What somebody makes of mixtures who knows no schedule: whoever gets them, or an eavesdropper with its own receiver.

Nearest neighbours tell whether a known sample took part; unmixing joins slots that share a sample. Both work on the
purest slots, those that look least like the mean of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binom

from airmixml.attacks.label_inference import (
    LabelInference,
    PropertyInference,
    infer_shares,
    infer_slot_labels,
    tell_populations_apart,
)
from airmixml.attacks.linkage import Linkage, correlations, link_candidates
from airmixml.attacks.overheard import Overheard, align_phase, overhear
from airmixml.attacks.public_knowledge import Decoder
from airmixml.attacks.recovery import Recovery, fitted_psnr_db, judge_recovery
from airmixml.attacks.server_view import ServerView
from airmixml.attacks.unmixing import Unmixed, unmix
from airmixml.attacks.whitening import unit_length, whitening_of
from airmixml.data import DataSet
from airmixml.errors import ScenarioError
from airmixml.scenario import Speed
from airmixml.streams import Streams
from airmixml.workers import input_range


@dataclass(frozen=True, kw_only=True, eq=False)
class ListenerFindings:
    """What was found without a schedule.

    Attributes:
        linkage: known samples told from samples that nobody holds.
        recovery: samples unmixed.
        slot_labels: class of the worker that dominates a slot; None where no label is sent by itself.
        shares: classes of the population; None where too little was received.
        groups_identified: unmixed groups that are most like the very sample that dominates them, of all that are held.
        identified: the same of the ``examples``.
        beside: slots in which the worker nearby was loudest, and in how many its sample is found; None without any.
        held_samples: different samples that workers hold.
        examples: the clearest slots as received, each dominated by another sample, decoded; examples x inputs.
        example_index: row of the pool that dominates each of them (slots in which nobody sent are none); examples.
        example_psnr_db: likeness of the two at the best scale; examples.
    """

    linkage: Linkage
    recovery: Recovery
    slot_labels: LabelInference | None
    shares: PropertyInference | None
    groups_identified: int
    identified: int
    beside: tuple[int, int] | None
    held_samples: int
    examples: NDArray[np.float32]
    example_index: NDArray[np.int64]
    example_psnr_db: NDArray[np.float64]

    def _by_chance(self, identified: int, trials: int) -> float:
        """Return the probability that so many, or more, are identified by guessing among all that is held."""
        return float(binom.sf(identified - 1, trials, 1.0 / self.held_samples))

    @staticmethod
    def _shares(shares: PropertyInference) -> dict[str, Any]:
        """Return the classes of the population, and how surely they are told from equal shares."""
        equal = np.full(len(shares.true_shares), 1.0 / len(shares.true_shares))
        told = tell_populations_apart(shares, equal, shares.true_shares)
        return {**shares.to_dict(), "told_from_equal": told.to_dict()}

    def to_dict(self) -> dict[str, Any]:
        """Return the figures without the pictures."""
        return {
            "linkage": self.linkage.to_dict(),
            "unmixing": {
                **self.recovery.to_dict(),
                "identified": self.groups_identified,
                "p_value": self._by_chance(self.groups_identified, self.recovery.estimates),
            },
            "slot_labels": None if self.slot_labels is None else self.slot_labels.to_dict(),
            "shares": None if self.shares is None else self._shares(self.shares),
            "clearest_slots": {
                "looked_at": len(self.examples),
                "identified": self.identified,
                "p_value": self._by_chance(self.identified, len(self.examples)),
                "psnr_db": float(np.median(self.example_psnr_db)) if len(self.example_psnr_db) else 0.0,
            },
            "beside": None
            if self.beside is None
            else {
                "looked_at": self.beside[0],
                "identified": self.beside[1],
                "p_value": self._by_chance(self.beside[1], self.beside[0]),
            },
        }


SLOTS_COMPARED: Final = 100_000


SLOTS_OVERHEARD: Final = 20_000


SLOTS_UNMIXED: Final = 10_000


CANDIDATES: Final = 2_000


EXAMPLES: Final = 10


_FEW_SLOTS: Final = 50


_CANDIDATES_CHAPTER: Final = 10**9  # far beyond the chapters of slots


_TINY: Final = 1e-30


_NUMBERS_AT_ONCE: Final = 1 << 24


def attack_released(view: ServerView, decoder: Decoder) -> ListenerFindings:
    """Attack the mixtures as they are released, without schedule and ratios.

    Args:
        view: its mixtures alone are looked at; the schedule serves to judge what was found.
        decoder: from what is sent to what is held.
    """
    labels, mixtures = view.labels.double().cpu().numpy(), view.released
    by_class = len(labels[0]) == 0
    dominating = _dominating(view, by_class=by_class)[: len(mixtures)]
    weights = view.matrix.weights.repeat(view.dataset.label_dim if by_class else 1)
    label_weight = view.transmission.scenario.workers.label_weight if by_class else 1.0
    noise_energy = mixtures.shape[1] / np.maximum(weights[: len(mixtures)] * label_weight**2, _TINY)
    heard = _Heard(mixtures=mixtures, dominating_worker=dominating, noise_energy=noise_energy)
    true_labels = view.dataset.train_labels[view.held_index]
    return _attack(
        heard,
        view,
        decoder,
        slot_labels=None
        if by_class
        else infer_slot_labels(labels, np.where(dominating >= 0, true_labels[dominating], -1)),
        shares=None if by_class else _shares(labels, view, slot_weights=_label_weights(view), known_scale=True),
    )


def attack_as_eavesdropper(view: ServerView, decoder: Decoder, *, speed: Speed) -> tuple[Overheard, ListenerFindings]:
    """Attack what an eavesdropper beside the farthest worker receives, without schedule, ratios and channels.

    Args:
        view: says who sent what with which power.
        decoder: from what is sent to what is held.
        speed: device and threads.
    """
    transmission = view.transmission
    heard = overhear(
        transmission.scenario, view.dataset, transmission.population, most_slots=SLOTS_OVERHEARD, speed=speed
    )
    labels, loudest = heard.labels.double().cpu().numpy(), heard.loudest_worker
    true_labels = view.dataset.train_labels[view.held_index]
    has_labels = labels.shape[1] > 0
    findings = _attack(
        _Heard(
            mixtures=heard.inputs, dominating_worker=loudest, noise_energy=None, beside=heard.listener.beside_worker
        ),
        view,
        decoder,
        slot_labels=infer_slot_labels(labels, np.where(loudest >= 0, true_labels[loudest], -1)) if has_labels else None,
        shares=_shares(labels, view, slot_weights=None, known_scale=False) if has_labels else None,
    )
    return heard, findings


@dataclass(frozen=True, kw_only=True, eq=False)
class _Heard:
    """Mixtures of inputs as somebody received them.

    Attributes:
        mixtures: slots x inputs, real or complex.
        dominating_worker: who is strongest in each, -1 for nobody; slots.
        noise_energy: expected ||noise||^2 of each, where slots differ in it; slots.
        beside: the worker that somebody stands beside; -1 for none.
    """

    mixtures: torch.Tensor
    dominating_worker: NDArray[np.int64]
    noise_energy: NDArray[np.float64] | None
    beside: int = -1

    @property
    def promise(self) -> torch.Tensor:
        """How much energy of a slot is not along the mean of all, over that of its noise; slots.

        A mixture of many is like the mean in some scale; one sample alone is not.
        """
        mean: torch.Tensor = unit_length(self.mixtures.mean(dim=0, keepdim=True))[0]
        along = (self.mixtures @ mean.conj()).abs().square()
        away: torch.Tensor = self.mixtures.abs().square().sum(dim=1) - along
        return away if self.noise_energy is None else away / torch.from_numpy(self.noise_energy).to(away)


def _attack(
    heard: _Heard,
    view: ServerView,
    decoder: Decoder,
    *,
    slot_labels: LabelInference | None,
    shares: PropertyInference | None,
) -> ListenerFindings:
    sent, held_index, seed = view.dataset, view.held_index, view.transmission.scenario.seed
    mixtures, device = heard.mixtures, heard.mixtures.device
    dominating = np.where(heard.dominating_worker >= 0, held_index[heard.dominating_worker], -1)
    everyone = np.unique(held_index)
    everything = torch.from_numpy(sent.train_inputs[everyone]).to(device)
    decoys = torch.from_numpy(_decoys(sent, everyone)).to(device)
    promise = heard.promise.masked_fill(torch.from_numpy(dominating < 0).to(device), -torch.inf)
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
    purest = chosen[:SLOTS_UNMIXED]
    unmixed = unmix(purest, most_slots=SLOTS_UNMIXED, seed=seed) if len(mixtures) >= _FEW_SLOTS else None
    estimates = mixtures.real[:0] if unmixed is None else unmixed.estimates
    groups = np.zeros(0, dtype=np.int64) if unmixed is None else _dominating_groups(unmixed, dominating[looked_at])
    clearest = _first_of_each(looked_at, dominating)[:EXAMPLES]
    clear, example_index = mixtures[torch.from_numpy(clearest).to(device)], dominating[clearest]
    truth = torch.from_numpy(sent.train_inputs[example_index]).to(device)
    single = align_phase(clear) if clear.is_complex() else clear
    if input_range(view.transmission.scenario.workers)[0] < 0.0:  # its sum does not tell which way round it is
        single = single * torch.where((single * truth).sum(dim=1, keepdim=True) < 0.0, -1.0, 1.0)
    return ListenerFindings(
        linkage=linkage,
        recovery=judge_recovery(estimates, everything, decoys),
        slot_labels=slot_labels,
        shares=shares,
        groups_identified=int((everyone[_most_alike(estimates, everything, whitening)] == groups).sum()),
        identified=int((everyone[_most_alike(clear, everything, whitening)] == example_index).sum()),
        beside=_identify_beside(heard, dominating, everyone, everything, whitening),
        held_samples=len(everyone),
        examples=decoder.decode(_as_bright(single, truth).cpu().numpy()),
        example_index=example_index,
        example_psnr_db=fitted_psnr_db(single, truth).cpu().numpy(),
    )


def _first_of_each(slots: NDArray[np.int64], dominating: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return of every sample the first slot that it dominates, in the order given, none for nobody; slots."""
    sent = slots[dominating[slots] >= 0]
    _, first = np.unique(dominating[sent], return_index=True)
    return np.asarray(sent[np.sort(first)])


def _identify_beside(
    heard: _Heard,
    dominating: NDArray[np.int64],
    everyone: NDArray[np.int64],
    everything: torch.Tensor,
    whitening: torch.Tensor,
) -> tuple[int, int] | None:
    """Return in how many slots the worker nearby was loudest, and in how many of them its sample is found."""
    if heard.beside < 0:
        return None
    slots = np.flatnonzero(heard.dominating_worker == heard.beside)
    found = _most_alike(heard.mixtures[torch.from_numpy(slots).to(heard.mixtures.device)], everything, whitening)
    return len(slots), int((everyone[found] == dominating[slots]).sum())


def _shares(
    labels: NDArray[np.float64], view: ServerView, *, slot_weights: NDArray[np.float64] | None, known_scale: bool
) -> PropertyInference | None:
    """Return the classes of the population; None where there is one slot, or too little was received to know any."""
    true_labels = view.dataset.train_labels[view.held_index]
    true_shares = np.bincount(true_labels, minlength=view.dataset.label_dim) / len(true_labels)
    try:
        return infer_shares(labels, true_shares, slot_weights=slot_weights, known_scale=known_scale)
    except ScenarioError:
        return None


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
        np.stack([unmixed.group_of_slot[joined], dominating[unmixed.slots[joined]]]), axis=1, return_counts=True
    )
    order = np.argsort(counts, kind="stable")  # of equal groups the last entry stays, the one of the largest count
    found = np.full(len(unmixed.estimates), -1)
    found[pairs[0, order]] = pairs[1, order]
    return found


def _most_alike(mixtures: torch.Tensor, samples: torch.Tensor, whitening: torch.Tensor) -> NDArray[np.int64]:
    """Return the row of ``samples`` that correlates most with each mixture, both whitened; shape mixtures."""
    theirs = unit_length(samples @ whitening)
    at_once = max(1, _NUMBERS_AT_ONCE // len(theirs))
    found = [
        correlations(mixtures[first : first + at_once].to(_type_of(mixtures, theirs)), whitening, theirs).argmax(dim=1)
        for first in range(0, len(mixtures), at_once)
    ]
    return np.asarray(torch.cat(found).cpu().numpy()) if found else np.zeros(0, dtype=np.int64)


def _type_of(mixtures: torch.Tensor, samples: torch.Tensor) -> torch.dtype:
    return torch.complex64 if mixtures.is_complex() else samples.dtype


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
