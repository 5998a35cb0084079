"""The attacks without a schedule: on mixtures as they are released, and as an eavesdropper receives them.

Likelihood ratios tell whether a known sample took part, and which one lies behind a slot; so does likeness, which is
better where few send without noise. Unmixing joins slots that share a sample. Likeness and unmixing work on the purest
slots, those that look least like the mean of all.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binom

from airmixml.attacks.image_quality import fitted_psnr_db, judge_recovery
from airmixml.attacks.label_inference import (
    LabelInference,
    infer_labels,
    infer_shares,
    tell_populations_apart,
    total_variation,
)
from airmixml.attacks.likeness import most_alike, score_likeness
from airmixml.attacks.linkage import link
from airmixml.attacks.listener_findings import ClassShares, ClearestSlots, Identified, ListenerFindings
from airmixml.attacks.naming import Naming, PublicSamples, better_of, candidates_of, count_loudest, places_among
from airmixml.attacks.overheard import align_phase, overhear
from airmixml.attacks.received import Amplitudes, Received, strongest_workers
from airmixml.attacks.server_view import SEVERAL_ROWS, ServerView
from airmixml.attacks.target import Outcome, Target
from airmixml.attacks.unmixing import Unmixed, unmix
from airmixml.attacks.whitening import unit_length, whitening_of
from airmixml.errors import ScenarioError
from airmixml.scenario import Scenario, Speed
from airmixml.workers import input_range

_EXAMPLES: Final = 10
_HUNDRED: Final = 100
_FEW_SLOTS: Final = 50
_TINY: Final = 1e-30


def hear_release(view: ServerView, _speed: Speed) -> Received:
    """Return the mixtures as they are released, without schedule and ratios."""
    mixtures, label_weight = view.released, view.transmission.scenario.workers.label_weight
    weights, worker_labels = view.matrix.weights, view.dataset.train_labels[view.held_index]
    if view.labels.shape[1]:
        classes, precision = 1, weights
        # Variance of a slot's labels about the population's shares: its noise, and who was drawn.
        drawn = np.concatenate([np.square(each.ratios).sum(axis=1) for each in view.draws])
        label_weights = 1.0 / (1.0 / np.maximum(weights, _TINY) / label_weight**2 + drawn)
    else:
        classes, label_weights = view.dataset.label_dim, None
        precision = weights.repeat(classes)[: len(mixtures)] * label_weight**2
    first_slots = accumulate(map(len, view.draws), initial=0)
    strongest = [
        strongest_workers(draws.scheduled_workers, draws.ratios, worker_labels, classes)
        for first_slot, draws in zip(first_slots, view.draws, strict=False)
        if first_slot * classes < len(mixtures)
    ]
    slots = len(view.symbols)
    strength = np.zeros(view.transmission.scenario.workers.count)
    for first_slot, draws in zip(accumulate(map(len, view.draws), initial=0), view.draws, strict=False):
        precise = weights[first_slot : first_slot + len(draws), None]
        here = slice(0, max(0, slots - first_slot))
        np.add.at(strength, draws.scheduled_workers[here], (np.square(draws.ratios) * precise)[here])
    some = np.square(view.draws[0].ratios)
    return Received(
        symbols=view.symbols,
        noise=1.0 / np.maximum(weights[:slots], _TINY),
        crowd=float(some.sum(axis=1).mean()),
        amplitudes=Amplitudes.of(some, len(strength), alike=slots == 1),
        strength=strength,
        mixtures=mixtures,
        labels=view.labels.double().cpu().numpy(),
        strongest_worker=np.concatenate(strongest)[: len(mixtures)],
        noise_energy=mixtures.shape[1] / np.maximum(precision, _TINY),
        label_weights=label_weights,
    )


@dataclass(frozen=True)
class ListenerAttack:
    """An attack without a schedule on what one adversary hears, with a limit to the slots and samples looked at."""

    adversary: str
    about: str
    hear: Callable[[ServerView, Speed], Received]
    slots_compared: int = 100_000
    slots_unmixed: int = 10_000
    candidates: int = 2_000
    pairs_compared: int = 1 << 27  # of candidates and slots, where that is more
    findings: ClassVar[type[ListenerFindings]] = ListenerFindings

    def refusal(self, scenario: Scenario) -> str:
        """Return why it does not fit: what workers of several rows send is no sample."""
        return SEVERAL_ROWS if scenario.workers.several_rows else ""

    def run(self, target: Target) -> Outcome:
        """Attack what the adversary received; who sent what serves to judge what was found.

        Examples are the clearest slots in which somebody sent, each dominated by another sample, decoded.
        """
        progress = target.context.progress
        progress(self.adversary, 0, 2)
        view, held, workers = target.view, target.held, target.scenario.workers
        received = self.hear(view, target.context.speed)
        progress(self.adversary, 1, 2)
        sent, held_index, strongest = view.dataset, view.held_index, received.strongest_worker
        mixtures, device = received.mixtures, received.mixtures.device
        dominating = np.where(strongest >= 0, held_index[strongest], -1)
        everyone = np.unique(held_index)

        def inputs_of(rows: NDArray[np.int64]) -> torch.Tensor:
            return torch.from_numpy(sent.train_inputs[rows]).to(device)

        everything = inputs_of(everyone)
        most = max(self.candidates, self.pairs_compared // len(received.symbols))
        public = PublicSamples.of(sent, everyone, self.candidates)
        decoys = torch.from_numpy(public.decoys).to(device)
        promise = _promise(received).masked_fill(torch.from_numpy(dominating < 0).to(device), -torch.inf)
        order = promise.argsort(descending=True)[: self.slots_compared]
        chosen, looked_at = mixtures[order], order.cpu().numpy()
        clearest = _first_of_each(looked_at, dominating)[:_EXAMPLES]
        nearby = np.flatnonzero(strongest == received.beside)
        naming = Naming(
            received, view, public, everyone, candidates=candidates_of(everyone, target.scenario.seed, most), most=most
        )
        found = naming.look_up(np.concatenate([clearest, nearby]))

        def identified(named: NDArray[np.int64], right: NDArray[np.int64]) -> Identified:
            right_ones = int((named == right).sum())
            by_guessing = float(binom.sf(right_ones - 1, len(right), 1.0 / len(everyone)))
            return Identified(looked_at=len(right), identified=right_ones, p_value=by_guessing)

        estimates, groups = mixtures.real[:0], np.zeros(0, dtype=np.int64)
        if len(mixtures) >= _FEW_SLOTS:
            unmixed = unmix(chosen[: self.slots_unmixed], seed=target.scenario.seed)
            estimates, groups = unmixed.estimates, _dominating_groups(unmixed, dominating[looked_at])
        # Few mixtures do not tell what mixtures have in common; public samples do, about.
        whitening = whitening_of(chosen if len(chosen) >= _FEW_SLOTS else decoys)
        grouped = identified(everyone[most_alike(estimates, everything, whitening)], groups)
        recovery = judge_recovery(estimates, everything, decoys)
        clear, shown = mixtures[clearest], dominating[clearest]
        truth = inputs_of(shown)
        named = better_of(
            identified(found.named[: len(clearest)], shown),
            identified(everyone[most_alike(clear, everything, whitening)], shown),
        )
        single = right_way_round(clear, truth, signed=input_range(workers)[0] < 0.0)
        psnr_db = fitted_psnr_db(single, truth).cpu().numpy()
        beside = None
        if received.beside is not None:
            beside = better_of(
                identified(found.named[len(clearest) :], dominating[nearby]),
                identified(everyone[most_alike(mixtures[nearby], everything, whitening)], dominating[nearby]),
            )
        by_model = link(found.scores, found.nearest, naming.places_of(dominating), method="likelihood")
        few = candidates_of(everyone, target.scenario.seed, self.candidates)
        likeness, nearest = score_likeness(chosen, inputs_of(few), decoys[: self.candidates], whitening)
        by_likeness = link(likeness, nearest, places_among(few, dominating[looked_at]), method="likeness")
        slot_labels, shares = _labels_and_shares(received, sent.train_labels[held_index])
        findings = ListenerFindings(
            linkage=max((by_model, by_likeness), key=lambda each: each.auc),
            unmixing=replace(recovery, identified=grouped.identified, p_value=grouped.p_value),
            slot_labels=slot_labels,
            shares=shares,
            clearest_slots=ClearestSlots(**vars(named), psnr_db=float(np.median(psnr_db)) if len(psnr_db) else 0.0),
            beside=beside,
            loudest=count_loudest(found.scores.held, naming.strength, _EXAMPLES),
            loudest_hundred=count_loudest(found.scores.held, naming.strength, _HUNDRED),
            image_shape=held.image_shape,
            beside_worker=received.beside,
        )
        examples = target.decoder.decode(as_bright(single, truth).cpu().numpy())
        progress(self.adversary, 2, 2)
        pictures = {"originals": held.train_inputs[shown], "examples": examples}
        alike = {"likeness_rows": few, "likeness_held": likeness.held, "likeness_decoys": likeness.decoys}
        return Outcome(findings=findings, arrays={**pictures, **naming.arrays(found.scores), **alike})


def _promise(received: Received) -> torch.Tensor:
    """Return how much energy of a slot is not along the mean of all, over that of its noise; slots.

    A mixture of many is like the mean in some scale; one sample alone is not.
    """
    mixtures = received.mixtures
    mean: torch.Tensor = unit_length(mixtures.mean(dim=0, keepdim=True))[0]
    away: torch.Tensor = mixtures.abs().square().sum(dim=1) - (mixtures @ mean.conj()).abs().square()
    return away if received.noise_energy is None else away / torch.from_numpy(received.noise_energy).to(away)


def _first_of_each(slots: NDArray[np.int64], dominating: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return of every sample the first slot that it dominates, in the order given, none for nobody; slots."""
    sent = slots[dominating[slots] >= 0]
    _, first = np.unique(dominating[sent], return_index=True)
    return np.asarray(sent[np.sort(first)])


def right_way_round(clear: torch.Tensor, truth: torch.Tensor, *, signed: bool) -> torch.Tensor:
    """Return received samples without their phase; the sum of a signed one does not tell its sign, the truth does."""
    single = align_phase(clear) if clear.is_complex() else clear
    return single * torch.where((single * truth).sum(dim=1, keepdim=True) < 0.0, -1.0, 1.0) if signed else single


def _labels_and_shares(
    received: Received, worker_labels: NDArray[np.int64]
) -> tuple[LabelInference | None, ClassShares | None]:
    """Return the labels of the slots and the classes of the population; None where no labels are sent."""
    if not received.labels.shape[1]:
        return None, None
    strongest = received.strongest_worker
    slot_labels = infer_labels(received.labels, np.where(strongest >= 0, worker_labels[strongest], -1))
    return slot_labels, _shares(received, worker_labels)


def _shares(received: Received, worker_labels: NDArray[np.int64]) -> ClassShares | None:
    """Return the classes of the population; None where there is one slot, or too little was received to know any."""
    classes = received.labels.shape[1]
    true_shares = np.bincount(worker_labels, minlength=classes) / len(worker_labels)
    equal_shares = np.full(classes, 1.0 / classes)
    try:
        found = infer_shares(received.labels, slot_weights=received.label_weights, known_scale=received.known_scale)
    except ScenarioError:
        return None
    return ClassShares(
        shares=tuple(found.shares.tolist()),
        standard_errors=tuple(found.standard_errors.tolist()),
        true_shares=tuple(true_shares.tolist()),
        distance=total_variation(found.shares, true_shares),
        prior_distance=total_variation(equal_shares, true_shares),
        told_from_equal=tell_populations_apart(found, equal_shares, true_shares),
    )


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


def as_bright(estimates: torch.Tensor, samples: torch.Tensor) -> torch.Tensor:
    """Return the estimates with mean and spread of the samples: only to be looked at; same shape.

    The scale that fits best would show noise as an empty page.
    """
    ours = estimates - estimates.mean(dim=1, keepdim=True)
    theirs = samples - samples.mean(dim=1, keepdim=True)
    factor = (theirs.square().sum(dim=1) / ours.square().sum(dim=1).clamp_min(_TINY)).sqrt()
    return factor[:, None] * ours + samples.mean(dim=1, keepdim=True)


RELEASE: Final = ListenerAttack(
    "release", "likelihood ratios of known samples given the mixtures, and unmixing those that share one", hear_release
)
EAVESDROPPER: Final = ListenerAttack(
    "eavesdropper", "the same with what a receiver beside the farthest worker overhears", overhear
)
