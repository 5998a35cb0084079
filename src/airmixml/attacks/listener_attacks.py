"""The attacks without a schedule: on mixtures as they are released, and as an eavesdropper receives them.

Likelihood ratios tell whether a known sample took part, and which one lies behind a slot; nearest neighbours of
whitened mixtures tell the first better where few send without noise. Mixtures of images share a mean and a few large
components; whitening by their second moments leaves of one sample what points nowhere else. Samples are named from the
purest slots, those that look least like the mean of all.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import normalize

from airmixml.arrays import ImageShape, Integers, Singles
from airmixml.attacks.eavesdropper import align_phase, overhear
from airmixml.attacks.likelihood import Background, Received, background_of, hear_release, score
from airmixml.attacks.measured import Findings, Identified, Linkage, Measured, Scores
from airmixml.attacks.sample_symbols import NUMBERS_AT_ONCE, blocks_of
from airmixml.attacks.target import Outcome, Target, no_sample, not_overheard
from airmixml.attacks.watched import ServerView
from airmixml.data import DataSet
from airmixml.scenario import Scenario, Speed
from airmixml.streams import Streams
from airmixml.workers import input_range

_METHODS: Final = 2  # likelihood ratios and nearest neighbours, of which the better one is judged
_LEAST_SHARE: Final = 1e-3


@dataclass(frozen=True, kw_only=True)
class ListenerFindings(Findings):
    """What was found without a schedule, in figures."""

    kind: ClassVar[str] = "listener"

    linkage: Linkage  # known samples told from samples that nobody holds
    clearest_slots: Identified
    beside: Identified | None = None  # slots in which the worker nearby was loudest; None where no worker is nearby
    loudest: Identified | None = None  # of the ten received most strongly those that score among the first ten
    image_shape: ImageShape = None
    decoys_alike: bool = True  # whether samples that nobody holds are drawn like those that are held

    def measured(self) -> list[Measured]:
        held = self.linkage.private_candidates
        named = {
            "names the sample in a slot": (self.clearest_slots, 1.0 / held),
            "names its neighbour": (self.beside, 1.0 / held),
            "picks strongest workers": (self.loudest, self.loudest.looked_at / held if self.loudest else 0.0),
        }
        found = [each.measured(what, guess) for what, (each, guess) in named.items() if each and each.looked_at]
        return [*self.linkage.measured(_METHODS, alike=self.decoys_alike), *found]


_EXAMPLES: Final = 10
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


def _likeliest(
    background: Background, received: Received, sent: DataSet, everyone: Integers, mixtures: Integers
) -> Integers:
    """Return which of all samples that are held, rows of the pool, is likeliest to lie behind each of some mixtures.

    Where slots have a mixture for each class, that is one of its class.
    """
    every: Any = background.prepare(sent.train_inputs[everyone], sent.train_labels[everyone])
    named, labels = np.zeros(len(mixtures), dtype=np.int64), sent.train_labels[everyone]
    for slot in np.unique(mixtures // received.classes).tolist():
        b, c = background.products(every, slice(slot, slot + 1))
        found = received.amplitudes.averaged(received.amplitudes.log_ratios(b, c))[:, 0].cpu().numpy()
        for place in np.flatnonzero(mixtures // received.classes == slot):
            among = labels == mixtures[place] % received.classes if received.classes > 1 else True
            named[place] = everyone[np.where(among, found, -np.inf).argmax()]
    return named


@dataclass(frozen=True)
class ListenerAttack:
    """An attack without a schedule on what one adversary hears, with a limit to the slots and samples looked at."""

    adversary: str
    about: str
    hear: Callable[[ServerView, Speed], Received]
    refusal: Callable[[Scenario], str] = no_sample
    slots_compared: int = 100_000
    candidates: int = 2_000
    pairs_compared: int = 1 << 27  # of candidates and slots, where that is more
    findings: ClassVar[type[ListenerFindings]] = ListenerFindings

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
        most = max(self.candidates, self.pairs_compared // len(received.symbols))
        candidates = candidates_of(everyone, seed, most)
        background = background_of(received, view.signal, sent.label_code, public.inputs, public.labels)
        held = background.prepare(sent.train_inputs[candidates], sent.train_labels[candidates])
        absent = background.prepare(public.decoys[:most], public.decoy_labels[:most])
        scores = score(background, held, absent, received.amplitudes)
        by_sample = np.zeros(sent.train_samples)
        np.add.at(by_sample, held_index, received.strength)

        def inputs_of(rows: Integers) -> torch.Tensor:
            return torch.from_numpy(sent.train_inputs[rows]).to(device)

        # Few mixtures do not tell what mixtures have in common; public samples do, about. Decoys must not be among
        # these: whitened by themselves they would look unlike any mixture, and all others as if they took part.
        common = chosen if len(chosen) >= _FEW_SLOTS else torch.from_numpy(public.inputs).to(device)
        decoys, whitening = torch.from_numpy(public.decoys[: self.candidates]).to(device), whitening_of(common)

        def named(rows: Integers) -> Identified:
            correlations = _correlations(mixtures[rows], inputs_of(everyone), whitening)
            nearest = torch.cat([each.argmax(dim=1) for each in correlations]).cpu().numpy()
            names = _likeliest(background, received, sent, everyone, rows), everyone[nearest]
            first, second = (Identified.of(each, dominating[rows], len(everyone)) for each in names)
            return first.or_better(second)

        few = candidates_of(everyone, seed, self.candidates)
        neighbours = score_neighbours(chosen, inputs_of(few), decoys, whitening)
        linkages = Linkage.of(scores, "likelihood"), Linkage.of(neighbours, "likeness")
        findings = ListenerFindings(
            linkage=max(linkages, key=lambda each: each.auc),
            clearest_slots=named(clearest),
            beside=None if received.beside is None else named(np.flatnonzero(strongest == received.beside)),
            loudest=Identified.of_loudest(scores.held, by_sample[candidates], _EXAMPLES),
            image_shape=target.held.image_shape,
            decoys_alike=public.alike,
        )
        arrays: dict[str, NDArray[Any]] = {
            **pictures_of(target, mixtures[clearest], dominating[clearest]),
            "held_rows": candidates,
            "held_scores": scores.held,
            "decoy_scores": scores.decoys,
        }
        progress(self.adversary, 2, 2)
        return Outcome(findings=findings, arrays=arrays)


def _in_parts(mixtures: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the mixtures, or their real and imaginary parts where they are complex; each slots x d, real."""
    return (mixtures.real, mixtures.imag) if mixtures.is_complex() else (mixtures,)


def _whiten(mixtures: torch.Tensor, whitening: torch.Tensor) -> torch.Tensor:
    """Return the mixtures whitened and scaled to length 1; slots x directions, real or complex."""
    parts = [part @ whitening for part in _in_parts(mixtures)]
    return normalize(torch.complex(*parts) if mixtures.is_complex() else parts[0], eps=_TINY)


def whitening_of(mixtures: torch.Tensor) -> torch.Tensor:
    """Return V diag(w)^(-1/2) of the mixtures' second moments; d x directions.

    The mean, which is the largest component of samples that are never negative, in any scale and phase, becomes one
    direction among many. Directions with less than a thousandth of the second component's power are left out, for
    they hold rounding or nothing. Every slot (slots x d, real or complex) counts alike, however loud it was.
    """
    symbols = mixtures.shape[1]
    moments = torch.zeros((symbols, symbols), dtype=torch.float64, device=mixtures.device)
    for part in _in_parts(normalize(mixtures, eps=_TINY)):
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
) -> Scores:
    """Return every candidate's correlation with its nearest mixture.

    Correlations are of whitened vectors at the best scale and phase, for the attacker knows neither.
    Mixtures are slots x d, real or complex; candidates are samples x d, and the whitening d x directions.
    """
    every = _correlations(mixtures, torch.cat([held, decoys]), whitening, numbers_at_once)
    scores = reduce(torch.maximum, (each.amax(dim=0) for each in every)).double().cpu().numpy()
    return Scores(held=scores[: len(held)], decoys=scores[len(held) :])


def _correlations(
    mixtures: torch.Tensor, candidates: torch.Tensor, whitening: torch.Tensor, numbers_at_once: int = NUMBERS_AT_ONCE
) -> Iterator[torch.Tensor]:
    """Yield correlations of some mixtures with all candidates, both whitened, at the best phase; slots x candidates."""
    theirs = _whiten(candidates.to(mixtures.real.dtype), whitening)
    for some in blocks_of(len(mixtures), len(theirs), numbers_at_once):
        products = [part @ theirs.T for part in _in_parts(_whiten(mixtures[some], whitening))]
        yield torch.hypot(*products) if len(products) == 2 else products[0]


def _promise(received: Received) -> torch.Tensor:
    """Return how much energy of a slot is not along the mean of all, over that of its noise; slots.

    A mixture of many is like the mean in some scale; one sample alone is not.
    """
    mixtures = received.mixtures
    mean: torch.Tensor = normalize(mixtures.mean(dim=0, keepdim=True), eps=_TINY)[0]
    away: torch.Tensor = mixtures.abs().square().sum(dim=1) - (mixtures @ mean.conj()).abs().square()
    return away if received.noise_energy is None else away / torch.from_numpy(received.noise_energy).to(away)


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
    "release", "likelihood ratios and nearest neighbours of known samples, given the mixtures", hear_release
)
EAVESDROPPER: Final = ListenerAttack(
    *("eavesdropper", "the same with what a receiver beside the farthest worker overhears", overhear),
    refusal=lambda scenario: no_sample(scenario) or not_overheard(scenario),
)
