"""The attacks without a schedule: on mixtures as they are released, and as an eavesdropper receives them.

Likelihood ratios tell whether a known sample took part, and which one lies behind a slot; so do nearest neighbours,
which are better where few send without noise. Unmixing joins slots that share a sample. Neighbours and unmixing work on
the purest slots, those that look least like the mean of all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.arrays import ImageShape, Integers, Singles
from airmixml.attacks.eavesdropper import align_phase, overhear
from airmixml.attacks.inference import (
    ClassShares,
    Identified,
    LabelInference,
    Linkage,
    Scores,
    better_of,
    count_loudest,
    identified,
    infer_labels,
    infer_shares,
    link,
    places_among,
)
from airmixml.attacks.likelihood import Received, averaged, background_of, hear_release, log_ratios_by_level, score
from airmixml.attacks.measured import Findings, Measured, counted, detected, told_apart
from airmixml.attacks.target import Outcome, ServerView, Target, no_sample, not_overheard
from airmixml.attacks.unmixing import Unmixed, nearest_sample, score_neighbours, unit_length, unmix, whitening_of
from airmixml.data import DataSet
from airmixml.scenario import Scenario, Speed
from airmixml.streams import Streams
from airmixml.workers import input_range

_METHODS: Final = 2  # likelihood ratios and nearest neighbours, of which the better one is judged


@dataclass(frozen=True, kw_only=True)
class Unmixing:
    """Groups of slots that share a sample (``estimates``), and how many lead to that sample among all held."""

    estimates: int = 0
    identified: int = 0
    p_value: float = 1.0


def _named(what: str, found: Identified, guessing: float) -> Measured:
    shown = f"{found.identified:,} of {found.looked_at:,}"
    how: dict[str, Any] = {"shown": shown, "p_value": found.p_value, "of": "", "identifies": True}
    return counted(what, found.identified / found.looked_at, found.looked_at, guessing, **how)


@dataclass(frozen=True, kw_only=True)
class ListenerFindings(Findings):
    """What was found without a schedule, in figures."""

    kind: ClassVar[str] = "listener"

    linkage: Linkage  # known samples told from samples that nobody holds
    unmixing: Unmixing
    slot_labels: LabelInference | None = None  # of the worker that dominates a slot, where a label is sent by itself
    shares: ClassShares | None = None  # classes of the population; None where too little was received
    clearest_slots: Identified
    beside: Identified | None = None  # slots in which the worker nearby was loudest; None where no worker is nearby
    loudest: Identified | None = None  # of the ten received most strongly those that score among the first ten
    loudest_hundred: Identified | None = None  # none are looked at where all are received alike
    image_shape: ImageShape = None
    decoys_alike: bool = True  # whether samples that nobody holds are drawn like those that are held

    @property
    def _detected(self) -> Measured:
        linkage = self.linkage
        known = linkage.private_candidates, linkage.public_candidates, linkage.false_positive_rate, _METHODS
        return detected(linkage.hit_rate, *known, alike=self.decoys_alike)

    def measured(self) -> list[Measured]:
        linkage, held = self.linkage, self.linkage.private_candidates
        auc = told_apart(linkage.auc, linkage.auc_chance_deviation, _METHODS, alike=self.decoys_alike)
        named = {"names the sample in a slot": self.clearest_slots, "names its neighbour": self.beside}
        found = [_named(what, each, 1.0 / held) for what, each in named.items() if each and each.looked_at]
        for each in (self.loudest, self.loudest_hundred):
            if each and each.looked_at:
                found.append(_named("picks strongest workers", each, each.looked_at / held))
        if groups := self.unmixing.estimates:
            unmixed = Identified(looked_at=groups, identified=self.unmixing.identified, p_value=self.unmixing.p_value)
            found.append(_named("unmixes similar slots", unmixed, 1.0 / held))
        main = Measured(
            what="names a slot's main worker",
            rate=linkage.reidentified,
            guessing=linkage.reidentified_chance,
            p_value=linkage.reidentified_p_value,
            p_if_half=1.0,
            of="",
        )
        return [auc, self._detected, *found, main]


_EXAMPLES: Final = 10
_HUNDRED: Final = 100
_FEW_SLOTS: Final = 50
_CANDIDATES_CHAPTER: Final = 10**9  # far beyond the chapters of slots
_TINY: Final = 1e-30


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicSamples:
    """Samples that nobody's secret is in: some to learn from how samples vary, others (``decoys``) to compare with."""

    inputs: Singles  # encoded; samples x features
    labels: Integers
    decoys: Singles
    decoy_labels: Integers
    alike: bool  # whether decoys are drawn like the samples that are held

    @classmethod
    def of(cls, sent: DataSet, everyone: Integers, enough: int) -> Self:
        """Take decoys from the pool, where it leaves enough that nobody holds, or else every other public sample."""
        inputs, labels = sent.test_inputs, sent.test_labels
        free = np.setdiff1d(np.arange(sent.train_samples), everyone)
        decoys, decoy_labels = sent.train_inputs[free], sent.train_labels[free]
        if len(free) < enough:
            decoys, decoy_labels = inputs, labels
            if len(inputs) > 1:  # a decoy that was learned from would be part of the background
                inputs, labels, decoys, decoy_labels = inputs[::2], labels[::2], inputs[1::2], labels[1::2]
        alike = len(free) >= enough or not sent.own_test
        return cls(inputs=inputs, labels=labels, decoys=decoys, decoy_labels=decoy_labels, alike=alike)


def candidates_of(everyone: Integers, seed: int, most: int) -> Integers:
    """Return some of the samples that are held; rows of the pool."""
    order = Streams(seed).generator("eavesdropper", _CANDIDATES_CHAPTER).permutation(len(everyone))
    return np.sort(everyone[order[:most]])


def look_up(
    received: Received,
    view: ServerView,
    public: PublicSamples,
    candidates: Integers,
    most_decoys: int,
    mixtures: Integers,
) -> tuple[Scores, Integers, Integers]:
    """Score candidates (rows of the pool), and look the sample of some mixtures up among all that are held.

    Returns the scores, the place of each mixture's likeliest candidate, and the rows of the pool named in some.
    """
    sent, classes, amplitudes = view.dataset, received.classes, received.amplitudes
    everyone, wanted = np.unique(view.held_index), np.unique(mixtures // classes)
    background = background_of(received, view.signal, sent.label_code, public.inputs, public.labels)
    decoys = background.prepare(public.decoys[:most_decoys], public.decoy_labels[:most_decoys])
    ratios: dict[int, torch.Tensor] = {}
    nearest: list[torch.Tensor] = []
    everyone_scored = len(candidates) == len(everyone)

    def likeliest(found: torch.Tensor, rows: Integers) -> torch.Tensor:
        """Return the place of the largest ratio (samples x slots), or of each class its own; classes x slots."""
        if classes == 1:
            return found.argmax(dim=0, keepdim=True)
        labels = torch.from_numpy(sent.train_labels[rows]).to(found.device)
        others = (found.masked_fill((labels != each)[:, None], -torch.inf) for each in range(classes))
        return torch.stack([each.argmax(dim=0) for each in others])

    def note(slots: slice, found: torch.Tensor) -> None:
        nearest.append(likeliest(found, candidates).T.flatten())
        for slot in range(slots.start, slots.start + found.shape[1]):
            if everyone_scored and slot in wanted:
                ratios[slot] = found[:, slot - slots.start]

    held = background.prepare(sent.train_inputs[candidates], sent.train_labels[candidates])
    scores = score(background, held, decoys, amplitudes, note)
    if not everyone_scored and len(wanted):
        every: Any = background.prepare(sent.train_inputs[everyone], sent.train_labels[everyone])
        for slot in wanted.tolist():
            b, c = background.products(every, slice(slot, slot + 1))
            ratios[slot] = averaged(log_ratios_by_level(b, c, amplitudes), amplitudes)[:, 0]
    places = {slot: likeliest(found[:, None], everyone)[:, 0] for slot, found in ratios.items()}
    named = [everyone[int(places[row // classes][row % classes])] for row in mixtures.tolist()]
    return scores, torch.cat(nearest).cpu().numpy(), np.array(named, dtype=np.int64)


@dataclass(frozen=True)
class ListenerAttack:
    """An attack without a schedule on what one adversary hears, with a limit to the slots and samples looked at."""

    adversary: str
    about: str
    hear: Callable[[ServerView, Speed], Received]
    overhears: bool = False  # whether it receives signals of its own
    slots_compared: int = 100_000
    slots_unmixed: int = 10_000
    candidates: int = 2_000
    pairs_compared: int = 1 << 27  # of candidates and slots, where that is more
    findings: ClassVar[type[ListenerFindings]] = ListenerFindings

    def refusal(self, scenario: Scenario) -> str:
        return no_sample(scenario.workers) or (not_overheard(scenario) if self.overhears else "")

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
        sent_in = looked_at[dominating[looked_at] >= 0]
        _, first_of_each = np.unique(dominating[sent_in], return_index=True)  # the first slot that a sample dominates
        clearest = sent_in[np.sort(first_of_each)][:_EXAMPLES]
        nearby = np.flatnonzero(strongest == received.beside)

        most = max(self.candidates, self.pairs_compared // len(received.symbols))
        candidates = candidates_of(everyone, seed, most)
        clear = np.concatenate([clearest, nearby])
        scores, likeliest, names = look_up(received, view, public, candidates, most, clear)
        by_sample = np.zeros(sent.train_samples)
        np.add.at(by_sample, held_index, received.strength)
        strength = by_sample[candidates]

        def inputs_of(rows: Integers) -> torch.Tensor:
            return torch.from_numpy(sent.train_inputs[rows]).to(device)

        everything, decoys = inputs_of(everyone), torch.from_numpy(public.decoys).to(device)
        # Few mixtures do not tell what mixtures have in common; public samples do, about. Decoys must not be among
        # these: whitened by themselves they would look unlike any mixture, and all others as if they took part.
        common = chosen if len(chosen) >= _FEW_SLOTS else torch.from_numpy(public.inputs).to(device)
        whitening = whitening_of(common)

        def named(by_likelihood: Integers, rows: Integers) -> Identified:
            by_neighbour = everyone[nearest_sample(mixtures[rows], everything, whitening)]
            return better_of(
                *(identified(names, dominating[rows], len(everyone)) for names in (by_likelihood, by_neighbour))
            )

        unmixing = Unmixing()
        if len(mixtures) >= _FEW_SLOTS:
            unmixed = unmix(chosen[: self.slots_unmixed], seed=seed)
            shared = everyone[nearest_sample(unmixed.estimates, everything, whitening)]
            groups = identified(shared, _dominating_groups(unmixed, dominating[looked_at]), len(everyone))
            unmixing = Unmixing(estimates=len(shared), identified=groups.identified, p_value=groups.p_value)
        few = candidates_of(everyone, seed, self.candidates)
        neighbours, nearest = score_neighbours(chosen, inputs_of(few), decoys[: self.candidates], whitening)
        linkages = (
            link(scores, likeliest, places_among(candidates, dominating), method="likelihood"),
            link(neighbours, nearest, places_among(few, dominating[looked_at]), method="likeness"),
        )
        slot_labels = shares = None
        if received.labels.shape[1]:
            labels = sent.train_labels[held_index]
            slot_labels = infer_labels(received.labels, np.where(strongest >= 0, labels[strongest], -1))
            found = infer_shares(received.labels, slot_weights=received.label_weights, known_scale=received.known_scale)
            shares = None if found is None else ClassShares.of(found, labels)
        findings = ListenerFindings(
            linkage=max(linkages, key=lambda each: each.auc),
            unmixing=unmixing,
            slot_labels=slot_labels,
            shares=shares,
            clearest_slots=named(names[: len(clearest)], clearest),
            beside=None if received.beside is None else named(names[len(clearest) :], nearby),
            loudest=count_loudest(scores.held, strength, _EXAMPLES),
            loudest_hundred=count_loudest(scores.held, strength, _HUNDRED),
            image_shape=target.held.image_shape,
            decoys_alike=public.alike,
        )
        arrays: dict[str, NDArray[Any]] = {
            **pictures_of(target, mixtures[clearest], dominating[clearest]),
            "held_rows": candidates,
            "held_scores": scores.held,
            "held_strength": strength,
            "decoy_scores": scores.decoys,
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


def _dominating_groups(unmixed: Unmixed, dominating: Integers) -> Integers:
    """Return the sample that dominates most slots of each group; shape groups."""
    joined = unmixed.group_of_slot >= 0
    pairs, counts = np.unique(
        np.stack([unmixed.group_of_slot[joined], dominating[: len(joined)][joined]]), axis=1, return_counts=True
    )
    order = np.argsort(counts, kind="stable")  # of equal groups the last entry stays, the one of the largest count
    found = np.full(len(unmixed.estimates), -1)
    found[pairs[0, order]] = pairs[1, order]
    return found


def pictures_of(target: Target, received: torch.Tensor, rows: Integers) -> dict[str, Singles]:
    """Return received samples (samples x inputs, real or complex), decoded, beside what the rows of the pool hold.

    They are shown without their phase, and with mean and spread of the originals: the scale that fits best would show
    noise as an empty page. The sum of a signed sample does not tell its sign; the truth does.
    """
    truth = torch.from_numpy(target.view.dataset.train_inputs[rows]).to(received.device)
    single = align_phase(received) if received.is_complex() else received
    if input_range(target.scenario.workers)[0] < 0.0:
        single = single * torch.where((single * truth).sum(dim=1, keepdim=True) < 0.0, -1.0, 1.0)
    ours, theirs = (each - each.mean(dim=1, keepdim=True) for each in (single, truth))
    factor = (theirs.square().sum(dim=1) / ours.square().sum(dim=1).clamp_min(_TINY)).sqrt()
    bright = factor[:, None] * ours + truth.mean(dim=1, keepdim=True)
    return {"originals": target.held.train_inputs[rows], "examples": target.decoder.decode(bright.cpu().numpy())}


RELEASE: Final = ListenerAttack(
    "release", "likelihood ratios of known samples given the mixtures, and unmixing those that share one", hear_release
)
EAVESDROPPER: Final = ListenerAttack(
    "eavesdropper", "the same with what a receiver beside the farthest worker overhears", overhear, overhears=True
)
