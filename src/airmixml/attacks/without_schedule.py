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

from airmixml.attacks.label_inference import LabelInference, PropertyInference, infer_shares, infer_slot_labels
from airmixml.attacks.linkage import Linkage, link_candidates
from airmixml.attacks.overheard import Overheard, align_phase, overhear
from airmixml.attacks.public_knowledge import Decoder
from airmixml.attacks.server_view import ServerView
from airmixml.attacks.unmixing import Recovery, Unmixed, fitted_psnr_db, judge_recovery, purest_slots, unmix
from airmixml.attacks.whitening import unit_length, whitening_of
from airmixml.errors import ScenarioError
from airmixml.radio.draws import SlotDraws
from airmixml.scenario import Speed
from airmixml.streams import Streams
from airmixml.workers import DataSet

__all__ = ["ListenerFindings", "attack_as_eavesdropper", "attack_released", "too_few_slots"]

SLOTS_COMPARED: Final = 100_000
SLOTS_OVERHEARD: Final = 20_000
SLOTS_UNMIXED: Final = 10_000
CANDIDATES: Final = 2_000
EXAMPLES: Final = 10
_FEWEST_SLOTS: Final = 20
_CANDIDATES_CHAPTER: Final = 10**9  # far beyond the chapters of slots
_TINY: Final = 1e-30
_NUMBERS_AT_ONCE: Final = 1 << 24


@dataclass(frozen=True, kw_only=True, eq=False)
class ListenerFindings:
    """What was found without a schedule.

    Attributes:
        linkage: known samples told from samples that nobody holds.
        recovery: samples unmixed.
        slot_labels: class of the worker that dominates a slot.
        shares: classes of the population; None where too little was received.
        groups_identified: unmixed groups that are most like the very sample that dominates them, of all that are held.
        identified: the same of the ``examples``.
        held_samples: different samples that workers hold.
        examples: the clearest slots as received, decoded; examples x inputs.
        example_index: row of the pool that dominates each of them; examples.
        example_psnr_db: likeness of the two at the best scale; examples.
    """

    linkage: Linkage
    recovery: Recovery
    slot_labels: LabelInference
    shares: PropertyInference | None
    groups_identified: int
    identified: int
    held_samples: int
    examples: NDArray[np.float32]
    example_index: NDArray[np.int64]
    example_psnr_db: NDArray[np.float64]

    def _by_chance(self, identified: int, trials: int) -> float:
        """Return the probability that so many, or more, are identified by guessing among all that is held."""
        return float(binom.sf(identified - 1, trials, 1.0 / self.held_samples))

    def to_dict(self) -> dict[str, Any]:
        """Return the figures without the pictures."""
        return {
            "linkage": self.linkage.to_dict(),
            "unmixing": {
                **self.recovery.to_dict(),
                "identified": self.groups_identified,
                "p_value": self._by_chance(self.groups_identified, self.recovery.estimates),
            },
            "slot_labels": self.slot_labels.to_dict(),
            "shares": None if self.shares is None else self.shares.to_dict(),
            "clearest_slots": {
                "looked_at": len(self.examples),
                "identified": self.identified,
                "p_value": self._by_chance(self.identified, len(self.examples)),
                "psnr_db": float(np.median(self.example_psnr_db)),
            },
        }


def too_few_slots(slots: int) -> str:
    """Return why mixtures of so many slots cannot be compared with each other; empty if they can."""
    count = "1 slot" if slots == 1 else f"{slots} slots"
    return f"{count}: fewer than {_FEWEST_SLOTS} cannot be compared" if slots < _FEWEST_SLOTS else ""


def attack_released(view: ServerView, held: DataSet, decoder: Decoder) -> ListenerFindings:
    """Attack the mixtures as they are released, without schedule and ratios.

    Args:
        view: its mixtures alone are looked at; the schedule serves to judge what was found.
        held: the data, not encoded.
        decoder: from what is sent to what is held.
    """
    mixtures = view.received[:, : view.inputs] / float(view.scale[0])
    labels = (view.received[:, view.inputs :].double().cpu().numpy()) / view.scale[view.inputs :]
    return _attack(
        mixtures,
        labels,
        _dominating(view.draws),
        view,
        held,
        decoder,
        clearness=_distance_from_mean(mixtures),
        slot_weights=_label_weights(view),
        known_scale=True,
    )


def attack_as_eavesdropper(
    view: ServerView, held: DataSet, decoder: Decoder, *, speed: Speed
) -> tuple[Overheard, ListenerFindings]:
    """Attack what an eavesdropper beside the farthest worker receives, without schedule, ratios and channels.

    Args:
        view: says who sent what with which power.
        held: the data, not encoded.
        decoder: from what is sent to what is held.
        speed: device and threads.
    """
    transmission = view.transmission
    heard = overhear(
        transmission.scenario, view.dataset, transmission.population, most_slots=SLOTS_OVERHEARD, speed=speed
    )
    findings = _attack(
        heard.inputs,
        heard.labels.double().cpu().numpy(),
        heard.loudest_worker,
        view,
        held,
        decoder,
        clearness=heard.received.abs().square().sum(dim=1),
        slot_weights=None,
        known_scale=False,
    )
    return heard, findings


def _attack(
    mixtures: torch.Tensor,
    labels: NDArray[np.float64],
    dominating_worker: NDArray[np.int64],
    view: ServerView,
    held: DataSet,
    decoder: Decoder,
    *,
    clearness: torch.Tensor,
    slot_weights: NDArray[np.float64] | None,
    known_scale: bool,
) -> ListenerFindings:
    device, sent = mixtures.device, view.dataset
    held_index = view.held_index
    looked_at = purest_slots(mixtures, SLOTS_COMPARED)
    chosen = mixtures[torch.from_numpy(looked_at).to(device)]
    dominating = np.where(dominating_worker >= 0, held_index[dominating_worker], -1)
    candidates = _candidates(held_index, view.transmission.scenario.seed)
    private = torch.from_numpy(sent.train_inputs[candidates]).to(device)
    public = torch.from_numpy(sent.test_inputs[:CANDIDATES]).to(device)
    place = np.full(sent.train_samples, -1)
    place[candidates] = np.arange(len(candidates))
    linkage = link_candidates(
        chosen, private, public, dominating=np.where(dominating >= 0, place[dominating], -1)[looked_at]
    )
    unmixed = unmix(mixtures, most_slots=SLOTS_UNMIXED, seed=view.transmission.scenario.seed)
    everyone = np.unique(held_index)
    everything = torch.from_numpy(sent.train_inputs[everyone]).to(device)
    recovery = judge_recovery(unmixed.estimates, everything, torch.from_numpy(sent.test_inputs).to(device))
    true_labels = sent.train_labels[held_index]
    true_shares = np.bincount(true_labels, minlength=sent.label_dim) / len(true_labels)
    try:
        shares = infer_shares(labels, true_shares, slot_weights=slot_weights, known_scale=known_scale)
    except ScenarioError:  # too little was received to know even the scale
        shares = None
    clearest = clearness.topk(min(EXAMPLES, len(mixtures))).indices
    pictures = mixtures[clearest]
    single = align_phase(pictures) if pictures.is_complex() else pictures
    example_index = dominating[clearest.cpu().numpy()]
    truth = torch.from_numpy(sent.train_inputs[example_index]).to(device)
    whitening = whitening_of(chosen)
    found = everyone[_most_alike(single, everything, whitening)]
    found_in_groups = everyone[_most_alike(unmixed.estimates, everything, whitening)]
    return ListenerFindings(
        linkage=linkage,
        recovery=recovery,
        slot_labels=infer_slot_labels(labels, np.where(dominating_worker >= 0, true_labels[dominating_worker], -1)),
        shares=shares,
        groups_identified=int((found_in_groups == _dominating_groups(unmixed, dominating)).sum()),
        identified=int((found == example_index).sum()),
        held_samples=len(everyone),
        examples=decoder.decode(_as_bright(single, truth).cpu().numpy()),
        example_index=example_index,
        example_psnr_db=fitted_psnr_db(single, truth).cpu().numpy(),
    )


def _dominating(draws: list[SlotDraws]) -> NDArray[np.int64]:
    """Return the worker with the largest share of each slot, -1 where nobody sent; shape slots."""
    parts = []
    for each in draws:
        seat = each.ratios.argmax(axis=1)[:, None]
        worker = np.take_along_axis(each.scheduled_workers, seat, axis=1)
        share = np.take_along_axis(each.ratios, seat, axis=1)
        parts.append(np.where(share > 0.0, worker, -1)[:, 0])
    return np.concatenate(parts)


def _candidates(held_index: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Return some of the samples that are held, each once; rows of the pool."""
    held = np.unique(held_index)
    order = Streams(seed).generator("eavesdropper", _CANDIDATES_CHAPTER).permutation(len(held))
    return np.sort(held[order[:CANDIDATES]])


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


def _most_alike(estimates: torch.Tensor, samples: torch.Tensor, whitening: torch.Tensor) -> NDArray[np.int64]:
    """Return the row of ``samples`` that correlates most with each estimate, both whitened; shape estimates."""
    theirs = unit_length(samples @ whitening)
    ours = unit_length(estimates.to(theirs.dtype) @ whitening)
    at_once = max(1, _NUMBERS_AT_ONCE // len(theirs))
    found = [(ours[first : first + at_once] @ theirs.T).argmax(dim=1) for first in range(0, len(ours), at_once)]
    return np.asarray(torch.cat(found).cpu().numpy()) if found else np.zeros(0, dtype=np.int64)


def _label_weights(view: ServerView) -> NDArray[np.float64]:
    """Return 1 / variance of a slot's labels about the population's shares: its noise, and who was drawn; slots."""
    noise = 1.0 / np.maximum(view.matrix.weights, _TINY) / view.scale[-1] ** 2
    return np.asarray(1.0 / (noise + np.concatenate([np.square(each.ratios).sum(axis=1) for each in view.draws])))


def _distance_from_mean(mixtures: torch.Tensor) -> torch.Tensor:
    return (mixtures - mixtures.mean(dim=0)).square().sum(dim=1)


def _as_bright(estimates: torch.Tensor, samples: torch.Tensor) -> torch.Tensor:
    """Return the estimates with the offset and scale that fit the samples best: only to be looked at; same shape."""
    ours = estimates - estimates.mean(dim=1, keepdim=True)
    theirs = samples - samples.mean(dim=1, keepdim=True)
    factor = (ours * theirs).sum(dim=1) / ours.square().sum(dim=1).clamp_min(_TINY)
    return factor.clamp_min(0.0)[:, None] * ours + samples.mean(dim=1, keepdim=True)
