"""Identification: the samples behind a reception by their likelihood ratios, judged by the truth."""

from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binom, hypergeom

from airmixml.attacks.eavesdropper import align_phase
from airmixml.attacks.gaussian_background import background_of
from airmixml.attacks.likelihood import averaged, log_ratios_by_level, score
from airmixml.attacks.linkage import Scores
from airmixml.attacks.listener_findings import Identified
from airmixml.attacks.receptions import Received
from airmixml.attacks.server_view import ServerView
from airmixml.attacks.target import Target
from airmixml.data import DataSet
from airmixml.streams import Streams
from airmixml.workers import input_range

_CANDIDATES_CHAPTER: Final = 10**9  # far beyond the chapters of slots
_LARGEST_SHARE: Final = 20
_ALIKE: Final = 1.001
_TINY: Final = 1e-30


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicSamples:
    """Samples that nobody's secret is in: some to learn from how samples vary, others (``decoys``) to compare with.

    Inputs are encoded, samples x features; labels are classes.
    """

    inputs: NDArray[np.float32]
    labels: NDArray[np.int64]
    decoys: NDArray[np.float32]
    decoy_labels: NDArray[np.int64]

    @classmethod
    def of(cls, sent: DataSet, everyone: NDArray[np.int64], enough: int) -> Self:
        """Take decoys from the pool, where it leaves enough that nobody holds, or else every other public sample."""
        inputs, labels = sent.test_inputs, sent.test_labels
        free = np.setdiff1d(np.arange(sent.train_samples), everyone)
        if len(free) >= enough:
            decoys, decoy_labels = sent.train_inputs[free], sent.train_labels[free]
            return cls(inputs=inputs, labels=labels, decoys=decoys, decoy_labels=decoy_labels)
        step = 2 if len(inputs) > 1 else 1  # a decoy that was learned from would be part of the background
        return cls(
            inputs=inputs[::step], labels=labels[::step], decoys=inputs[1::2] if step == 2 else inputs,
            decoy_labels=labels[1::2] if step == 2 else labels,
        )  # fmt: skip


def candidates_of(everyone: NDArray[np.int64], seed: int, most: int) -> NDArray[np.int64]:
    """Return some of the samples that are held; rows of the pool."""
    order = Streams(seed).generator("eavesdropper", _CANDIDATES_CHAPTER).permutation(len(everyone))
    return np.sort(everyone[order[:most]])


@dataclass(frozen=True, kw_only=True, eq=False)
class Named:
    """Scores of all candidates, the likeliest candidate of each mixture, and the samples named in some of them.

    ``nearest`` counts candidates, ``named`` are rows of the pool; shapes mixtures, and mixtures that were looked up.
    """

    scores: Scores
    nearest: NDArray[np.int64]
    named: NDArray[np.int64]


class Identification:
    """One reception, the candidates whose scores are compared, and everyone among whom a sample is looked up."""

    def __init__(
        self,
        received: Received,
        view: ServerView,
        public: PublicSamples,
        everyone: NDArray[np.int64],
        *,
        candidates: NDArray[np.int64],
        most: int,
    ) -> None:
        """Learn the background; candidates and everyone are rows of the pool, ``most`` the number of decoys."""
        self._sent, self._received, self._everyone, self._candidates = view.dataset, received, everyone, candidates
        self._background = background_of(received, view.signal, self._sent.label_code, public.inputs, public.labels)
        self._decoys = self._background.prepare(public.decoys[:most], public.decoy_labels[:most])
        by_sample = np.zeros(self._sent.train_samples)
        np.add.at(by_sample, view.held_index, received.strength)
        self.strength = by_sample[candidates]

    def look_up(self, mixtures: NDArray[np.int64]) -> Named:
        """Score all candidates, and look the sample of some mixtures up among everyone."""
        classes, wanted = self._received.classes, np.unique(mixtures // self._received.classes)
        ratios: dict[int, torch.Tensor] = {}
        nearest: list[torch.Tensor] = []
        everyone_scored = len(self._candidates) == len(self._everyone)

        def note(slots: slice, found: torch.Tensor) -> None:
            nearest.append(self._likeliest(found, self._candidates).T.flatten())
            for slot in range(slots.start, slots.start + found.shape[1]):
                if everyone_scored and slot in wanted:
                    ratios[slot] = found[:, slot - slots.start]

        held = self._background.prepare(*self._of_pool(self._candidates))
        scores = score(self._background, held, self._decoys, self._received.amplitudes, note)
        if not everyone_scored and len(wanted):
            everyone = self._background.prepare(*self._of_pool(self._everyone))
            for slot in wanted.tolist():
                b, c = self._background.products(everyone, slice(slot, slot + 1))
                by_level = log_ratios_by_level(b, c, self._received.amplitudes)
                ratios[slot] = averaged(by_level, self._received.amplitudes)[:, 0]
        likeliest = {slot: self._likeliest(found[:, None], self._everyone)[:, 0] for slot, found in ratios.items()}
        named = [self._everyone[int(likeliest[row // classes][row % classes])] for row in mixtures.tolist()]
        return Named(scores=scores, nearest=torch.cat(nearest).cpu().numpy(), named=np.array(named, dtype=np.int64))

    def arrays(self, scores: Scores) -> dict[str, NDArray[Any]]:
        """Return what AUC and ranks can be computed from again; see docs/attacks.md."""
        return {
            "held_rows": self._candidates,
            "held_scores": scores.held,
            "held_strength": self.strength,
            "decoy_scores": scores.decoys,
        }

    def _of_pool(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        return self._sent.train_inputs[rows], self._sent.train_labels[rows]

    def _likeliest(self, ratios: torch.Tensor, rows: NDArray[np.int64]) -> torch.Tensor:
        """Return the place of the largest ratio (samples x slots), or of each class its own; classes x slots."""
        if self._received.classes == 1:
            return ratios.argmax(dim=0, keepdim=True)
        labels = torch.from_numpy(self._sent.train_labels[rows]).to(ratios.device)
        others = [
            ratios.masked_fill((labels != number)[:, None], -torch.inf) for number in range(self._received.classes)
        ]
        return torch.stack([each.argmax(dim=0) for each in others])


def places_among(candidates: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of rows of the pool among candidates in ascending order, -1 for others; shape of the rows."""
    place = np.searchsorted(candidates, rows).clip(max=len(candidates) - 1)
    return np.where(candidates[place] == rows, place, -1)


def identified(named: NDArray[np.int64], right: NDArray[np.int64], among: int) -> Identified:
    """Return how many names are right; rows of the pool each, guessed among so many."""
    count = int((named == right).sum())
    return Identified(
        looked_at=len(right), identified=count, p_value=float(binom.sf(count - 1, len(right), 1.0 / among))
    )


def better_of(*found: Identified) -> Identified:
    """Return what the better of several methods identified, judged with the truth at hand.

    Its p-value is that of the best of so many (Bonferroni).
    """
    best = max(found, key=lambda each: each.identified)
    return replace(best, p_value=min(1.0, len(found) * best.p_value))


def count_loudest(scores: NDArray[np.float64], strength: NDArray[np.float64], most: int) -> Identified:
    """Return how many of the loudest candidates have as many first places; at most a twentieth are looked at.

    The p-value is hypergeometric. Where all are equally strong nobody is loudest, and none are looked at.
    """
    if strength.max() <= _ALIKE * strength.min():
        return Identified(looked_at=0, identified=0, p_value=1.0)
    count = min(most, len(scores) // _LARGEST_SHARE)
    first, loudest = (set(np.argsort(-each, kind="stable")[:count].tolist()) for each in (scores, strength))
    found = len(first & loudest)
    return Identified(
        looked_at=count, identified=found, p_value=float(hypergeom.sf(found - 1, len(scores), count, count))
    )


def pictures_of(target: Target, received: torch.Tensor, rows: NDArray[np.int64]) -> dict[str, NDArray[np.float32]]:
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
    return {
        "originals": target.held.train_inputs[rows],
        "examples": target.decoder.decode(bright.cpu().numpy()),
    }
