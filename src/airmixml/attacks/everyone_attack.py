"""The attack of everyone: each worker is heard separately and without noise, and all other samples are known.

What is known of a worker is then its vector in Gaussian noise (``heard_apart``), none where workers bring none. The
likelihood ratio of a sample is exp((v . y - ||v||^2 / 2) / variance). It says whether a worker sends a known sample,
and the likeliest of many samples held names the worker's.
"""

from typing import ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binom

from airmixml.attacks.heard_apart import alone, heard_precision
from airmixml.attacks.image_quality import Recovery, fitted_psnr_db
from airmixml.attacks.inner_products import InnerProducts, Samples, Symbols
from airmixml.attacks.layouts import Layout, Moments
from airmixml.attacks.likelihood import Scores
from airmixml.attacks.linkage import link
from airmixml.attacks.listener_attacks import as_bright, right_way_round
from airmixml.attacks.listener_findings import ClearestSlots, ListenerFindings
from airmixml.attacks.naming import PublicSamples, candidates_of
from airmixml.attacks.overheard import unrounded
from airmixml.attacks.server_view import SEVERAL_ROWS, ServerView
from airmixml.attacks.target import Outcome, Target
from airmixml.attacks.whitening import blocks_of
from airmixml.radio.senders import make_sender
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.workers import Signal, input_range

_CHAPTER: Final = 10**9 + 2  # far beyond the chapters of slots
_NOISE_CHAPTER: Final = 10**9
_WORKERS_HEARD: Final = 100
_DECOYS: Final = 2_000
_CANDIDATES: Final = 10_000
_SAMPLES_AT_ONCE: Final = 4096
_LEAST_VARIANCE: Final = 1e-9  # symbols are numbers of single precision
_LEAST_PRECISION: Final = 1e-20  # of a worker that never sends
_FOR_NOBODY: Final = np.zeros(0, dtype=np.int64)


class _Apart:
    """What is heard of one worker after the other."""

    def __init__(self, view: ServerView, workers: NDArray[np.int64]) -> None:
        scenario, dataset = view.transmission.scenario, view.dataset
        self.device, self._view, self._workers = view.received.device, view, workers
        self._sender = make_sender(unrounded(scenario), dataset, self.device)
        self._noise = Streams(scenario.seed).generator("eavesdropper-noise", _NOISE_CHAPTER)
        precision = heard_precision(view, alone(workers, scenario.workers.count), len(workers))
        self.variance = 1.0 / np.maximum(precision, _LEAST_PRECISION)
        self.signal = Signal.of(scenario.workers, dataset.input_dim, dataset.label_dim)
        self.inner = InnerProducts(self.signal, dataset.label_code, self.device)

    def hear(self, number: int) -> torch.Tensor:
        """Return what is heard of a worker, in units of what it holds; 1 x symbols. To be asked in order."""
        index = torch.from_numpy(self._view.held_index[self._workers[[number]]][None]).to(self.device)
        sent = self._sender.weighted_sum(index, torch.ones((1, 1), dtype=torch.float64, device=self.device)).float()
        normals = torch.from_numpy(self._noise.standard_normal(sent.shape, dtype=np.float32)).to(self.device)
        heard: torch.Tensor = sent + float(np.sqrt(self.variance[number])) * normals
        return heard

    def log_ratios(self, number: int, heard: torch.Tensor, some: Samples) -> NDArray[np.float64]:
        """Return the logarithms of samples' likelihood ratios; shape samples."""
        symbols, found = Symbols(heard, self.signal), []
        for rows in blocks_of(len(some), 1, _SAMPLES_AT_ONCE):
            part = some.some(rows)
            found.append(symbols.times(part)[:, 0].double() - self.inner.energy(part).double() / 2.0)
        return torch.cat(found).cpu().numpy() / max(float(self.variance[number]), _LEAST_VARIANCE)


class EveryoneAttack:
    """Hears a hundred workers, those who hold the examples first; of these the sample is looked up among many held."""

    adversary: ClassVar[str] = "everyone"
    about: ClassVar[str] = "likelihood ratios of what one worker sends, heard by itself, all other samples known"
    findings: ClassVar[type[ListenerFindings]] = ListenerFindings

    def refusal(self, scenario: Scenario) -> str:
        """Return why it does not fit: what workers of several rows send is no sample."""
        return SEVERAL_ROWS if scenario.workers.several_rows else ""

    def run(self, target: Target) -> Outcome:
        """Attack; examples are what is heard of the workers who hold them, decoded."""
        progress, view, held = target.context.progress, target.view, target.held
        sent, held_index, everyone = view.dataset, view.held_index, np.unique(view.held_index)
        workers, few = _choose(view, target.examples), len(target.examples)
        public = PublicSamples.of(sent, everyone, _DECOYS)
        apart = _Apart(view, workers)
        decoys = apart.inner.prepare(public.decoys[:_DECOYS], public.decoy_labels[:_DECOYS])
        known = np.union1d(target.examples, candidates_of(everyone, target.scenario.seed, _CANDIDATES))
        candidates = apart.inner.prepare(sent.train_inputs[known], sent.train_labels[known])
        own = apart.inner.prepare(sent.train_inputs[held_index[workers]], sent.train_labels[held_index[workers]])
        layout = Moments(apart.signal) if apart.signal.moments else Layout(apart.signal)
        held_scores, decoy_scores, named, seen = list[float](), [], [], []
        for number in range(len(workers)):
            progress(self.adversary, number, len(workers))
            heard = apart.hear(number)
            mine = decoys.some(slice(number, None, len(workers)))
            held_scores += apart.log_ratios(number, heard, own.some(slice(number, number + 1))).tolist()
            if len(mine):
                decoy_scores.append(apart.log_ratios(number, heard, mine))
            if number < few:
                named.append(known[apart.log_ratios(number, heard, candidates).argmax()])
                seen.append(layout.read(heard)[0])
        progress(self.adversary, len(workers), len(workers))
        scores = Scores(held=np.array(held_scores), decoys=np.concatenate(decoy_scores))
        right = int((np.array(named) == target.examples).sum())
        single, truth = (torch.from_numpy(each) for each in (np.concatenate(seen), sent.train_inputs[target.examples]))
        single = right_way_round(single, truth, signed=input_range(target.scenario.workers)[0] < 0.0)
        findings = ListenerFindings(
            linkage=link(scores, _FOR_NOBODY, _FOR_NOBODY, method="likelihood"),
            unmixing=Recovery(gain_db=0.0),
            slot_labels=None,
            shares=None,
            clearest_slots=ClearestSlots(
                looked_at=few,
                identified=right,
                p_value=float(binom.sf(right - 1, few, 1.0 / len(known))),
                psnr_db=float(np.median(fitted_psnr_db(single, truth).cpu().numpy())),
            ),
            beside=None,
            image_shape=held.image_shape,
        )
        pictures = {
            "originals": held.train_inputs[target.examples],
            "examples": target.decoder.decode(as_bright(single, truth).numpy()),
        }
        kept = {"held_rows": held_index[workers], "held_scores": scores.held, "decoy_scores": scores.decoys}
        return Outcome(findings=findings, arrays={**pictures, **kept, "held_variance": apart.variance})


def _choose(view: ServerView, examples: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the workers who hold the examples, then others; shape at most a hundred, or the examples."""
    order = np.argsort(view.held_index, kind="stable")
    first = order[np.searchsorted(view.held_index, examples, sorter=order)]
    generator = Streams(view.transmission.scenario.seed).generator("eavesdropper", _CHAPTER)
    others = generator.permutation(np.setdiff1d(np.arange(len(view.held_index)), first))
    return np.concatenate([first, others[: max(0, _WORKERS_HEARD - len(first))]])


EVERYONE: Final = EveryoneAttack()
