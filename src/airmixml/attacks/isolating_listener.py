"""The isolating listener: it hears every worker separately, perfectly and without noise, and knows all other samples.

In a slot worker i sends sqrt(beta) q v_i + n_i + sum_j m_ij. S = s^2 I + e^2 L is the covariance of all honest workers'
noise and masks (``masks.graph``). All other samples, which no claim hides, are subtracted. In the row (S^-1)_i
of all workers' signals v_i then has noise of variance 1 / (beta q^2 (S^-1)_ii) on every symbol, and there is nothing
more to know. A vector that several workers send, with shares q over the seats, has q' S^-1 q in the place of
q^2 (S^-1)_ii. Precisions of several slots add up, for slots of one worker are heard to be its own.

Colluders' noise and masks are known, and so are the masks of those whom a server that lies calls absent: they are taken
out, chosen without regard to the graph.

The likelihood ratio of a sample is exp((v . y - ||v||^2 / 2) / variance). It says whether a worker sends a known
sample, and the likeliest of many samples held names the worker's.
"""

import math
from collections.abc import Iterator
from functools import partial
from typing import ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import diags_array
from scipy.sparse.linalg import cg

from airmixml.arrays import Doubles, Integers
from airmixml.attacks.eavesdropper import unrounded
from airmixml.attacks.listener_attacks import ListenerFindings, PublicSamples, candidates_of, pictures_of
from airmixml.attacks.measured import Identified, Linkage, Scores
from airmixml.attacks.sample_symbols import Layout, Moments, Samples, Symbols, blocks_of
from airmixml.attacks.target import Outcome, Target, no_sample
from airmixml.attacks.watched import Heard, ServerView
from airmixml.messages import PrivacyError
from airmixml.radio.draws import draw_slots, suitable_block
from airmixml.radio.masking import Masking
from airmixml.radio.transmission import make_sender
from airmixml.scenario import Scenario, Speed
from airmixml.streams import Streams

# Far beyond the chapters of slots.
_NOISE_CHAPTER: Final = 10**9
_COLLUDERS_CHAPTER: Final = 10**9 + 1
_CHAPTER: Final = 10**9 + 2
_COLUMNS_AT_ONCE: Final = 64
_MOST_STEPS: Final = 500
_CLOSE: Final = 1e-12
_WORKERS_HEARD: Final = 100
_DECOYS: Final = 2_000
_CANDIDATES: Final = 10_000
_SAMPLES_AT_ONCE: Final = 4096
_LEAST_VARIANCE: Final = 1e-9  # symbols are numbers of single precision
_LEAST_PRECISION: Final = 1e-20  # of a worker that never sends


def alone(workers: Integers, count: int) -> Integers:
    """Return for each of ``count`` workers its place among these, -1 for others: every one a target of its own."""
    member = np.full(count, -1)
    member[workers] = np.arange(len(workers))
    return member


def isolated_precision(heard: Heard, member: Integers, targets: int, _speed: Speed | None = None) -> Doubles:
    """Return 1 / (variance of the noise on a symbol of v) for vectors that one or several workers send; shape targets.

    ``member`` says which of them each worker sends, -1 for others. Infinite where nothing hides a worker.
    """
    setting, masking, found = heard.setting, heard.setting.hiding, np.zeros(targets)
    if masking is None:
        for draws in heard.draws:
            sent = member[np.unique(draws.scheduled_workers[draws.ratios > 0.0])]
            found[sent[sent >= 0]] = math.inf
        return found
    patterns: dict[tuple[bytes, bytes], int] = {}
    strengths = list[tuple[int, int, float]]()
    at_once = suitable_block(setting)
    for first in range(0, len(heard.numbers), at_once):
        drawn = draw_slots(setting, heard.numbers[first : first + at_once])
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
    inverse = _inverse_of_patterns(heard.scenario, masking, each)
    for number, pattern, watts in strengths:
        found[number] += watts * inverse[pattern]
    return found


def _inverse_of_patterns(scenario: Scenario, masking: Masking, patterns: list[tuple[Integers, Doubles]]) -> Doubles:
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
            found[some] = (vectors * inverse_times(masking, honest, vectors)).sum(axis=0)
    return found


def inverse_times(masking: Masking, honest: NDArray[np.bool_], vectors: Doubles) -> Doubles:
    """Return S^-1 x, the best filters for what workers send with x; both are seats x columns.

    Vectors are 0 where a seat is not honest. 1 is an eigenvector of S with eigenvalue s^2. What of x is left beside it
    has eigenvalues of about e^2 k alone, and conjugate gradients solve for it in a few steps.
    """
    if masking.graph is None:
        return vectors / masking.own_watts
    kept, found = vectors[honest], np.zeros_like(vectors)
    means = kept.mean(axis=0)
    away = kept - means
    if masking.graph.complete:
        found[honest] = means / masking.own_watts + away / (masking.own_watts + len(kept) * masking.pair_watts)
        return found
    adjacency = masking.graph.adjacency[honest][:, honest]
    degrees = np.asarray(adjacency.sum(axis=1))
    covariance = diags_array(masking.own_watts + masking.pair_watts * degrees) - masking.pair_watts * adjacency
    solved = np.empty_like(away)
    for column, target in enumerate(away.T):
        solved[:, column], unsolved = cg(covariance, target, rtol=_CLOSE, maxiter=_MOST_STEPS)
        if unsolved:
            raise PrivacyError(
                "privacy.mask_degree: the graph of honest workers is nearly cut; raise it, or set it to 0"
            )
    found[honest] = means / masking.own_watts + solved
    return found


def _each_alone(view: ServerView, workers: Integers) -> Iterator[tuple[torch.Tensor, float]]:
    """Yield what is heard of one worker after the other, in units of what it holds (1 x symbols), and its variance."""
    scenario, device = view.scenario, view.received.device
    sender = make_sender(unrounded(scenario), view.dataset, device)
    noise = Streams(scenario.seed).generator("eavesdropper-noise", _NOISE_CHAPTER)
    precision = isolated_precision(view, alone(workers, scenario.workers.count), len(workers))
    index, whole = torch.from_numpy(view.held_index[workers]).to(device), torch.ones((1, 1), dtype=torch.float64)
    for place, variance in enumerate((1.0 / np.maximum(precision, _LEAST_PRECISION)).tolist()):
        sent = sender.weighted_sum(index[None, place, None], whole.to(device)).float()
        normals = torch.from_numpy(noise.standard_normal(sent.shape, dtype=np.float32)).to(device)
        yield sent + math.sqrt(variance) * normals, variance


def _log_ratios(heard: Symbols, variance: float, some: Samples) -> Doubles:
    """Return the logarithms of samples' likelihood ratios; shape samples."""
    parts = [some.some(rows) for rows in blocks_of(len(some), 1, _SAMPLES_AT_ONCE)]
    found = [heard.times(part)[:, 0].double() - part.energy.double() / 2.0 for part in parts]
    return torch.cat(found).cpu().numpy() / max(variance, _LEAST_VARIANCE)


class EveryoneAttack:
    """Hears a hundred workers, those who hold the examples first; of these the sample is looked up among many held."""

    adversary: ClassVar[str] = "everyone"
    about: ClassVar[str] = "likelihood ratios of what one worker sends, heard by itself, all other samples known"
    findings: ClassVar[type[ListenerFindings]] = ListenerFindings
    refusal = staticmethod(no_sample)

    def run(self, target: Target) -> Outcome:
        """Attack; examples are what is heard of the workers who hold them, decoded."""
        progress, view, held = target.context.progress, target.view, target.held
        sent, signal, held_index, everyone = view.dataset, view.signal, view.held_index, np.unique(view.held_index)
        (workers, _), few = target.some_workers(_WORKERS_HEARD, _CHAPTER), len(target.examples)
        public = PublicSamples.of(sent, everyone, _DECOYS)
        samples = partial(Samples.of, signal, sent.label_code, view.received.device)
        decoys = samples(public.decoys[:_DECOYS], public.decoy_labels[:_DECOYS])
        known = np.union1d(target.examples, candidates_of(everyone, target.scenario.seed, _CANDIDATES))
        candidates, own = (
            samples(sent.train_inputs[rows], sent.train_labels[rows]) for rows in (known, held_index[workers])
        )
        layout = Moments(signal) if signal.moments else Layout(signal)
        held_scores, decoy_scores, named, seen = list[float](), [], [], []
        for number, (heard, variance) in enumerate(_each_alone(view, workers)):
            progress(self.adversary, number, len(workers))
            log_ratios = partial(_log_ratios, Symbols(heard, signal), variance)
            mine = decoys.some(slice(number, None, len(workers)))
            held_scores += log_ratios(own.some(slice(number, number + 1))).tolist()
            if len(mine):
                decoy_scores.append(log_ratios(mine))
            if number < few:
                named.append(known[log_ratios(candidates).argmax()])
                seen.append(layout.read(heard)[0])
        progress(self.adversary, len(workers), len(workers))
        scores = Scores(held=np.array(held_scores), decoys=np.concatenate(decoy_scores))
        findings = ListenerFindings(
            linkage=Linkage.of(scores, "likelihood"),
            clearest_slots=Identified.of(np.array(named), target.examples, len(known)),
            image_shape=held.image_shape,
            decoys_alike=public.alike,
        )
        pictures = pictures_of(target, torch.from_numpy(np.concatenate(seen)), target.examples)
        kept = {"held_rows": held_index[workers], "held_scores": scores.held, "decoy_scores": scores.decoys}
        return Outcome(findings=findings, arrays={**pictures, **kept})


EVERYONE: Final = EveryoneAttack()
