"""The attacks without a schedule: on mixtures as they are released, and as an eavesdropper receives them.

Likelihood ratios tell whether a known sample took part, and which one lies behind a slot; so do nearest neighbours,
which are better where few send without noise. Unmixing joins slots that share a sample. Neighbours and unmixing work on
the purest slots, those that look least like the mean of all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.attacks.eavesdropper import overhear
from airmixml.attacks.identification import (
    Identification,
    PublicSamples,
    better_of,
    candidates_of,
    count_loudest,
    identified,
    pictures_of,
    places_among,
)
from airmixml.attacks.label_inference import ClassShares, LabelInference, infer_labels, infer_shares
from airmixml.attacks.linkage import link
from airmixml.attacks.listener_findings import Identified, ListenerFindings, Unmixing
from airmixml.attacks.nearest_neighbours import nearest_sample, score_neighbours, unit_length, whitening_of
from airmixml.attacks.receptions import Received, hear_release
from airmixml.attacks.server_view import SEVERAL_ROWS, ServerView
from airmixml.attacks.target import Outcome, Target
from airmixml.attacks.unmixing import Unmixed, unmix
from airmixml.scenario import Scenario, Speed

_EXAMPLES: Final = 10
_HUNDRED: Final = 100
_FEW_SLOTS: Final = 50


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
        progress, seed = target.context.progress, target.scenario.seed
        progress(self.adversary, 0, 2)
        view, received = target.view, self.hear(target.view, target.context.speed)
        progress(self.adversary, 1, 2)
        sent, held_index, strongest = view.dataset, view.held_index, received.strongest_worker
        mixtures, device = received.mixtures, received.mixtures.device
        dominating = np.where(strongest >= 0, held_index[strongest], -1)
        everyone = np.unique(held_index)
        public = PublicSamples.of(sent, everyone, self.candidates)
        promise = _promise(received).masked_fill(torch.from_numpy(dominating < 0).to(device), -torch.inf)
        order = promise.argsort(descending=True)[: self.slots_compared]
        chosen, looked_at = mixtures[order], order.cpu().numpy()
        clearest = _first_of_each(looked_at, dominating)[:_EXAMPLES]
        nearby = np.flatnonzero(strongest == received.beside)

        most = max(self.candidates, self.pairs_compared // len(received.symbols))
        candidates = candidates_of(everyone, seed, most)
        identification = Identification(received, view, public, everyone, candidates=candidates, most=most)
        found = identification.look_up(np.concatenate([clearest, nearby]))

        def inputs_of(rows: NDArray[np.int64]) -> torch.Tensor:
            return torch.from_numpy(sent.train_inputs[rows]).to(device)

        everything, decoys = inputs_of(everyone), torch.from_numpy(public.decoys).to(device)
        # Few mixtures do not tell what mixtures have in common; public samples do, about.
        whitening = whitening_of(chosen if len(chosen) >= _FEW_SLOTS else decoys)

        def named(by_likelihood: NDArray[np.int64], rows: NDArray[np.int64]) -> Identified:
            by_neighbour = everyone[nearest_sample(mixtures[rows], everything, whitening)]
            return better_of(
                *(identified(names, dominating[rows], len(everyone)) for names in (by_likelihood, by_neighbour))
            )

        unmixing = Unmixing()
        if len(mixtures) >= _FEW_SLOTS:
            unmixed = unmix(chosen[: self.slots_unmixed], seed=seed)
            names = everyone[nearest_sample(unmixed.estimates, everything, whitening)]
            groups = identified(names, _dominating_groups(unmixed, dominating[looked_at]), len(everyone))
            unmixing = Unmixing(estimates=len(names), identified=groups.identified, p_value=groups.p_value)
        few = candidates_of(everyone, seed, self.candidates)
        neighbours, nearest = score_neighbours(chosen, inputs_of(few), decoys[: self.candidates], whitening)
        linkages = (
            link(found.scores, found.nearest, places_among(candidates, dominating), method="likelihood"),
            link(neighbours, nearest, places_among(few, dominating[looked_at]), method="likeness"),
        )
        slot_labels, shares = _labels_and_shares(received, sent.train_labels[held_index])
        findings = ListenerFindings(
            linkage=max(linkages, key=lambda each: each.auc),
            unmixing=unmixing,
            slot_labels=slot_labels,
            shares=shares,
            clearest_slots=named(found.named[: len(clearest)], clearest),
            beside=None if received.beside is None else named(found.named[len(clearest) :], nearby),
            loudest=count_loudest(found.scores.held, identification.strength, _EXAMPLES),
            loudest_hundred=count_loudest(found.scores.held, identification.strength, _HUNDRED),
            image_shape=target.held.image_shape,
            beside_worker=received.beside,
        )
        arrays = {
            **pictures_of(target, mixtures[clearest], dominating[clearest]),
            **identification.arrays(found.scores),
            "likeness_rows": few,
            "likeness_held": neighbours.held,
            "likeness_decoys": neighbours.decoys,
        }
        progress(self.adversary, 2, 2)
        return Outcome(findings=findings, arrays=arrays)


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


def _labels_and_shares(
    received: Received, worker_labels: NDArray[np.int64]
) -> tuple[LabelInference | None, ClassShares | None]:
    """Return the labels of the slots and the classes of the population; None where no labels are sent, or too few."""
    if not received.labels.shape[1]:
        return None, None
    strongest = received.strongest_worker
    slot_labels = infer_labels(received.labels, np.where(strongest >= 0, worker_labels[strongest], -1))
    shares = infer_shares(received.labels, slot_weights=received.label_weights, known_scale=received.known_scale)
    return slot_labels, None if shares is None else ClassShares.of(shares, worker_labels)


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


RELEASE: Final = ListenerAttack(
    "release", "likelihood ratios of known samples given the mixtures, and unmixing those that share one", hear_release
)
EAVESDROPPER: Final = ListenerAttack(
    "eavesdropper", "the same with what a receiver beside the farthest worker overhears", overhear
)
