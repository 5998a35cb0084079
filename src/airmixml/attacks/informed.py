"""Informed attacks: the adversary that differential privacy grants, which knows all samples but one.

It knows schedule, ratios, channels and, as a listener, phases. Its target (a worker's sample; a row with all its
copies; a person with several rows) sends one vector v with an amplitude a_t in slot t. All else is subtracted. Of white
Gaussian noise of variance s_t^2 everything that is left to know is

    z = sum_t a_t y_t / s_t^2 / A^2 = v + noise of variance 1 / A^2 on every symbol,    A^2 = sum_t a_t^2 / s_t^2,

so that an adversary is its precision A^2. Rounds of gradients are more slots, each with a vector of its own
(``watched``): there A^2 <v_c, v_c'> stands for its sum over all of them. The likeliest candidate has the largest
<z, v_c> - |v_c|^2 / 2: no attack names more. Only products of noise and candidates are drawn, which have the covariance
<v_c, v_c'> / A^2. A sample is told from silence by mu = A |v|.

Of the release the schedule is hidden, unless all send in each slot: only there it is informed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.special import ndtri

from airmixml.arrays import Doubles, Integers
from airmixml.attacks.eavesdropper import arrivals, listener_of
from airmixml.attacks.isolating_listener import alone, isolated_precision
from airmixml.attacks.measured import FALSE_POSITIVES, Findings, Measured, counted
from airmixml.attacks.sample_symbols import Samples
from airmixml.attacks.target import Outcome, Target, fits, not_overheard
from airmixml.attacks.watched import Heard, Round, ServerView
from airmixml.scenario import Scenario, Speed
from airmixml.streams import Streams
from airmixml.workers import within_declared
from airmixml.workers.moments import Moments
from airmixml.workers.signal import payload_of

_CHAPTER: Final = 10**9 + 3  # far beyond the chapters of slots
_TARGETS: Final = 100
_DECOYS: Final = 50
_PANEL: Final = 500  # public samples of which each target has its decoys
_TRIALS: Final = 20  # of each target
LARGEST_PRECISION: Final = 1e9  # where nothing hides a worker: symbols are numbers of single precision

Precision = Callable[[Heard, Integers, int, Speed], Doubles]
"""A^2 of vectors, each sent by the workers whose entry is its number (-1: by none); shape targets."""


def server_precision(heard: Heard, member: Integers, targets: int, _speed: Speed) -> Doubles:
    """Return what the server knows of vectors: the shares of their workers add up, slot by slot."""
    found, first = np.zeros(targets), 0
    for draws in heard.draws:
        slot, seat = np.nonzero(member[draws.scheduled_workers] >= 0)
        who = member[draws.scheduled_workers[slot, seat]]
        shares = csr_matrix((draws.ratios[slot, seat], (slot, who)), shape=(len(draws), targets))
        found += shares.power(2).T @ heard.weights[first : first + len(draws)]
        first += len(draws)
    return found


def listener_precision(heard: Heard, member: Integers, targets: int, speed: Speed) -> Doubles:
    """Return the same of the eavesdropper, who knows all phases: complex amplitudes add up."""
    found = torch.zeros(targets, dtype=torch.float64)
    for arrival in arrivals(heard.setting, listener_of(heard), heard.numbers, speed):
        who = torch.from_numpy(member[arrival.draws.scheduled_workers])
        sums = torch.zeros(())
        for seats, turned in arrival:
            parts = torch.view_as_real(turned.cpu())  # slots x seats x pieces x 2
            places = who[:, seats].masked_fill(who[:, seats] < 0, targets)[..., None, None].expand_as(parts)
            empty = parts.new_zeros((len(parts), targets + 1, *parts.shape[2:]))
            sums = sums + empty.scatter_add(1, places, parts)
        # Noise of power 1 on a complex symbol is of variance 1 / 2 along any phase.
        found += 2.0 * sums[:, :targets].square().sum(dim=3).mean(dim=2).sum(dim=0)
    return found.numpy()


def precisions_of(view: ServerView, precision: Precision, member: Integers, targets: int, speed: Speed) -> Doubles:
    """Return A^2 of the slots of a run and of each round; kinds of slots x targets."""
    return np.stack([precision(heard, member, targets, speed) for heard in (view, *view.rounds)])


@dataclass(frozen=True, kw_only=True)
class Informed:
    """How often targets of one kind were found."""

    attacked: int
    trials: int  # of all of them together, each with noise of its own
    copies: int  # the most workers that hold one of them
    candidates: int  # samples among which the right one is looked for
    named: float  # share of the trials in which it was named
    hits: float  # share in which it was detected, at 1 % false alarms
    mu_median: float  # distance of present and absent in standard deviations of the noise
    mu_largest: float

    def measured(self, whom: str) -> list[Measured]:
        """Return how often it was named and detected.

        Draws of the noise are no more names than there are targets: which candidate is likeliest depends on these. To
        be detected at 1 % does not.
        """
        of = "worker" if whom == "worker" else "row"
        named = counted(
            f"names a {whom} among {self.candidates}", self.named, self.attacked, 1.0 / self.candidates, of=of
        )
        found = counted(f"detects a {whom}", self.hits, self.trials, FALSE_POSITIVES, of=of, from_silence=True)
        return [named, found]


@dataclass(frozen=True, kw_only=True)
class InformedFindings(Findings):
    """What was found of workers, and of rows or, where workers hold several, of people, with all their copies."""

    kind: ClassVar[str] = "informed"
    informed: ClassVar[bool] = True

    worker: Informed
    row: Informed | None = None
    person: Informed | None = None

    def measured(self) -> list[Measured]:
        every = {"worker": self.worker, "row": self.row, "person": self.person}
        return [each for whom, found in every.items() if found is not None for each in found.measured(whom)]

    def among(self, _held: int) -> int:
        return self.worker.candidates


@dataclass(frozen=True, kw_only=True, eq=False)
class Targets:
    """Vectors that are looked for."""

    member: Integers  # which of them each worker sends, -1 for none; shape workers
    candidates: Integers  # numbers in ``Candidates``, the right one last; targets x candidates

    def __len__(self) -> int:
        return len(self.candidates)

    @property
    def copies(self) -> Integers:
        """How many workers send each; shape targets."""
        return np.bincount(self.member[self.member >= 0], minlength=len(self))


class Candidates:
    """Whom to look for, and among what: samples of the pool and public ones, or of several rows sums of these."""

    def __init__(self, view: ServerView, generator: np.random.Generator) -> None:
        data, population = view.dataset, view.transmission.population
        self._generator, self._workers = generator, view.scenario.workers
        inputs = np.concatenate([data.train_inputs, data.test_inputs])
        self.data = replace(
            data,
            train_inputs=within_declared(self._workers, inputs),
            train_labels=np.concatenate([data.train_labels, data.test_labels]),
            holders=None,
        )
        public = generator.permutation(len(data.test_inputs))[:_PANEL]
        of_rows = population.holdings is None and len(public) >= _DECOYS
        self._public = data.train_samples + public if of_rows else None
        self._signal, self._rounds = view.signal, view.rounds
        held, count, holdings = population.sample_index, len(population.sample_index), population.holdings
        workers = generator.permutation(count)[:_TARGETS]
        items = held[workers] if len(np.unique(held)) == count else generator.permutation(np.unique(held))[:_TARGETS]
        self._every = np.arange(len(inputs) if holdings is None else len(holdings.rows))
        self.targets = {
            "worker": self._among(alone(workers, count), held[workers]),
            "row" if holdings is None else "person": self._among(alone(items, int(held.max()) + 1)[held], items),
        }
        self._rows: tuple[Integers, Doubles] | None = None
        if holdings is not None:
            codes = self.data.label_code.coded(self.data.train_labels)
            as_moments = replace(self._workers, sends="moments")
            sums = payload_of(as_moments, self.data.train_inputs, codes, holdings)
            assert isinstance(sums, Moments)
            self._rows = holdings.rows, sums.row_weights.astype(np.float64)

    def products(self, some: Integers, precisions: Doubles) -> Doubles:
        """Return A^2 <v_c, v_c'> of candidates, added up over all kinds of slots; candidates x candidates.

        Precisions are those of the slots of the run, then of each round.
        """
        capped = precisions.clip(max=LARGEST_PRECISION)
        found = capped[0] * self.gram(some)
        for each, precision in zip(self._rounds, capped[1:], strict=True):
            found += precision * self.gram(some, each)
        return np.asarray(found)

    def gram(self, some: Integers, of_round: Round | None = None) -> Doubles:
        """Return the products <v_c, v_c'> of what candidates send; candidates x candidates."""
        rows, weights = some[:, None], np.ones((len(some), 1))
        if self._rows is not None:
            rows, weights = self._rows[0][some], self._rows[1][some]
        different, place = np.unique(rows, return_inverse=True)
        inputs, labels = self.data.train_inputs[different], self.data.train_labels[different]
        sums = np.zeros((len(some), len(different)))
        each = weights if of_round is None else weights > 0.0  # a sum of gradients is shortened by its own length
        np.add.at(sums, (np.arange(len(some))[:, None], place.reshape(rows.shape)), each)
        if of_round is not None:
            return of_round.gram(inputs, labels, sums)
        samples = Samples.of(self._signal, self.data.label_code, torch.device("cpu"), inputs, labels)
        exact = replace(samples, inputs=samples.inputs.double(), codes=samples.codes.double())
        return np.asarray(sums @ exact.times(exact).numpy() @ sums.T)

    def _among(self, member: Integers, right: Integers) -> Targets:
        """Draw decoys for each target: public samples, or where these are few, and for people, any others."""
        found = []
        for one in right.tolist():
            others = self._every[self._every != one] if self._public is None else self._public
            found.append([*self._generator.choice(others, min(_DECOYS, len(others)), replace=False), one])
        return Targets(member=member, candidates=np.array(found, dtype=np.int64))


def play(heard: Doubles, trials: int, generator: np.random.Generator) -> tuple[float, float, float]:
    """Look the last of the candidates up, and say whether it is there, in so many draws of the noise.

    Takes A^2 <v_c, v_c'>, candidates x candidates. Returns how often it is named, how often it is detected, and its
    distance mu from silence.
    """
    values, vectors = np.linalg.eigh(heard)
    noise = generator.standard_normal((trials, len(heard))) @ (vectors * np.sqrt(values.clip(0.0))).T
    scores = heard[-1] + noise - np.diag(heard) / 2.0
    mu = float(np.sqrt(heard[-1, -1]))
    generator.standard_normal(trials)  # unused; without them the draws of later targets would change
    there = mu + noise[:, -1] / mu if mu else generator.standard_normal(trials)  # a worker that never sent
    named = float((scores.argmax(axis=1) == len(heard) - 1).mean())
    return named, float((there > ndtri(1.0 - FALSE_POSITIVES)).mean()), mu


@dataclass(frozen=True)
class InformedAttack:
    """The attack of one adversary on a hundred workers, and on as many rows and people."""

    adversary: str
    about: str
    precision: Precision
    refusal: Callable[[Scenario], str] = fits
    findings: ClassVar[type[InformedFindings]] = InformedFindings

    def run(self, target: Target) -> Outcome:
        """Attack; only the schedule, the gains and the noise of the run count, not what it drew of the noise."""
        progress, name = target.context.progress, f"informed {self.adversary}"
        progress(name, 0, 1)
        view, generator = target.view, Streams(target.scenario.seed).generator("eavesdropper", _CHAPTER)
        candidates = Candidates(view, generator)
        found = {}
        for whom, some in candidates.targets.items():
            precisions = precisions_of(view, self.precision, some.member, len(some), target.context.speed).T
            played = (
                play(candidates.products(numbers, heard), _TRIALS, generator)
                for numbers, heard in zip(some.candidates, precisions, strict=True)
            )
            named, hits, mu = zip(*played, strict=True)
            found[whom] = Informed(
                attacked=len(some),
                trials=_TRIALS * len(some),
                copies=int(some.copies.max()),
                candidates=some.candidates.shape[1],
                named=float(np.mean(named)),
                hits=float(np.mean(hits)),
                mu_median=float(np.median(mu)),
                mu_largest=max(mu),
            )
        progress(name, 1, 1)
        return Outcome(findings=InformedFindings(**found))


def _hidden(scenario: Scenario) -> str:
    return "" if scenario.all_send else "who sent is hidden; release attacks without a schedule"


SERVER: Final = InformedAttack(
    "server", "the likeliest of 51 samples for a worker, a row or a person, all others known", server_precision
)
RELEASE: Final = InformedAttack(
    "release", "the same without a schedule, where all workers send in each slot", server_precision, _hidden
)
EAVESDROPPER: Final = InformedAttack(
    *("eavesdropper", "the same by a listener who knows the schedule and all phases"),
    *(listener_precision, not_overheard),
)
EVERYONE: Final = InformedAttack(
    "everyone", "the same by an adversary who receives each worker separately, without noise", isolated_precision
)
