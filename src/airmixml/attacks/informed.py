"""Informed attacks: the adversary that differential privacy grants, which knows all samples but one.

It knows schedule, ratios, channels and, as a listener, phases. Whose sample it looks for (a worker's; a row's with all
its copies; that of a person with several rows) sends one vector v with an amplitude a_t in slot t, the sum over copies.
All else is subtracted. Of white Gaussian noise of variance s_t^2 everything that is left to know is

    z = sum_t a_t y_t / s_t^2 / A^2 = v + noise of variance 1 / A^2 on every symbol,    A^2 = sum_t a_t^2 / s_t^2,

so that an adversary is its precision A^2. The likeliest of several candidates has the largest <z, v_c> - |v_c|^2 / 2:
no attack names more. Noise enters by its products with the candidates alone, which have the covariance <v_c, v_c'> /
A^2: that is what is drawn, so that no vector of half a million products is formed. Two candidates at a distance of
D = A |v - v'| are distinguished with probability Phi(D / 2), and a sample from silence by mu = A |v|.

Of the release the schedule is hidden, unless all send in each slot. To sum over all schedules is out of reach: there
the others of a slot are Gaussian with the mean and covariance of the samples that are really held (``crowd``).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import ndtri

from airmixml.attacks.crowd import crowd_of
from airmixml.attacks.heard_apart import alone, heard_precision
from airmixml.attacks.informed_findings import Informed, InformedFindings
from airmixml.attacks.inner_products import InnerProducts, Samples
from airmixml.attacks.likelihood import score
from airmixml.attacks.linkage import FALSE_POSITIVES, hit_rate
from airmixml.attacks.listener_attacks import hear_release
from airmixml.attacks.overheard import arrivals, listener_of
from airmixml.attacks.server_view import ServerView
from airmixml.attacks.target import Outcome, Target
from airmixml.radio.senders import RowSums
from airmixml.scenario import Scenario, Speed
from airmixml.streams import Streams
from airmixml.workers import Holdings, Signal, within_declared

_CHAPTER: Final = 10**9 + 3  # far beyond the chapters of slots
_TARGETS: Final = 100
_DECOYS: Final = 50
_PANEL: Final = 500  # public samples of which each target has its decoys
_TRIALS: Final = 20  # of each target
_LARGEST_PRECISION: Final = 1e9  # where nothing hides a worker: symbols are numbers of single precision

Precision = Callable[[ServerView, NDArray[np.int64], int, Speed], NDArray[np.float64]]
"""A^2 of vectors, each sent by the workers whose entry is its number (-1: by none); shape targets."""


def server_precision(view: ServerView, member: NDArray[np.int64], targets: int, _speed: Speed) -> NDArray[np.float64]:
    """Return what the server knows of vectors: the shares of their workers add up, slot by slot."""
    found, first = np.zeros(targets), 0
    for draws in view.draws:
        slot, seat = np.nonzero(member[draws.scheduled_workers] >= 0)
        who = member[draws.scheduled_workers[slot, seat]]
        shares = csr_matrix((draws.ratios[slot, seat], (slot, who)), shape=(len(draws), targets))
        found += shares.power(2).T @ view.matrix.weights[first : first + len(draws)]
        first += len(draws)
    return found


def listener_precision(view: ServerView, member: NDArray[np.int64], targets: int, speed: Speed) -> NDArray[np.float64]:
    """Return the same of the eavesdropper, who knows all phases: complex amplitudes add up."""
    found = torch.zeros(targets, dtype=torch.float64)
    for arrival in arrivals(view.transmission, listener_of(view), speed=speed):
        who = torch.from_numpy(member[arrival.draws.scheduled_workers])
        sums = torch.zeros(())
        for seats, turned in arrival.weights:
            parts = torch.view_as_real(turned.cpu())  # slots x seats x pieces x 2
            places = who[:, seats].masked_fill(who[:, seats] < 0, targets)[..., None, None].expand_as(parts)
            empty = parts.new_zeros((len(parts), targets + 1, *parts.shape[2:]))
            sums = sums + empty.scatter_add(1, places, parts)
        # Noise of power 1 on a complex symbol is of variance 1 / 2 along any phase.
        found += 2.0 * sums[:, :targets].square().sum(dim=3).mean(dim=2).sum(dim=0)
    return found.numpy()


def everyone_precision(view: ServerView, member: NDArray[np.int64], targets: int, _speed: Speed) -> NDArray[np.float64]:
    """Return the same of everyone, who hears each worker separately."""
    return heard_precision(view, member, targets)


@dataclass(frozen=True, kw_only=True, eq=False)
class Targets:
    """Vectors that are looked for.

    Attributes:
        member: which of them each worker sends, -1 for none; shape workers.
        candidates: numbers of the candidates in ``Candidates``, the right one last; targets x candidates.
    """

    member: NDArray[np.int64]
    candidates: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.candidates)

    @property
    def copies(self) -> NDArray[np.int64]:
        """How many workers send each; shape targets."""
        return np.bincount(self.member[self.member >= 0], minlength=len(self))


class Candidates:
    """Whom to look for, and among what: samples of the pool and public ones, or of several rows sums of these."""

    def __init__(self, view: ServerView, generator: np.random.Generator) -> None:
        """Choose workers, rows and people, and decoys for each of them."""
        data, population = view.dataset, view.transmission.population
        self._generator, self._workers = generator, view.transmission.scenario.workers
        inputs = np.concatenate([data.train_inputs, data.test_inputs])
        self.data = replace(
            data, train_inputs=within_declared(self._workers, inputs), holders=None,
            train_labels=np.concatenate([data.train_labels, data.test_labels]),
        )  # fmt: skip
        public = generator.permutation(len(data.test_inputs))[:_PANEL]
        self._public = data.train_samples + public
        self._signal = Signal.of(self._workers, data.input_dim, data.label_dim)
        held, count = population.sample_index, len(population.sample_index)
        workers = generator.permutation(count)[:_TARGETS]
        items = held[workers] if len(np.unique(held)) == count else generator.permutation(np.unique(held))[:_TARGETS]
        self.targets: dict[str, Targets] = {}
        self.precisions: dict[bytes, NDArray[np.float64]] = {}  # of members, as far as they are known
        self._rows: RowSums | None = None
        if population.holdings is None:
            self.targets["worker"] = self._among_rows(alone(workers, count), held[workers])
            self.targets["row"] = self._among_rows(_holders(held, items), items)
        else:
            holdings, row = self._changed_rows(population.holdings, items)
            self.targets["worker"] = self._among_people(alone(workers, count), held[workers], population.holdings)
            self.targets["row"] = Targets(member=_holders(held, items), candidates=row)
            self.targets["person"] = self._among_people(_holders(held, items), items, population.holdings)
            codes = torch.from_numpy(self.data.label_code.coded(self.data.train_labels))
            self._rows = RowSums.of(
                holdings, torch.from_numpy(self.data.train_inputs), codes, self._workers, self._signal
            )

    def gram(self, some: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the products <v_c, v_c'> of candidates; candidates x candidates."""
        rows, weights = some[:, None], np.ones((len(some), 1))
        if self._rows is not None:
            rows, weights = self._rows.index[some].numpy(), self._rows.weights[some].double().numpy()
        different, place = np.unique(rows, return_inverse=True)
        inner = InnerProducts(self._signal, self.data.label_code, torch.device("cpu"))
        samples = inner.prepare(self.data.train_inputs[different], self.data.train_labels[different])
        exact = Samples(inputs=samples.inputs.double(), codes=samples.codes.double())
        sums = np.zeros((len(some), len(different)))
        np.add.at(sums, (np.arange(len(some))[:, None], place.reshape(rows.shape)), weights)
        return np.asarray(sums @ inner.between(exact, exact).numpy() @ sums.T)

    def _decoys(self, others: NDArray[np.int64], most: int) -> NDArray[np.int64]:
        return self._generator.choice(others, most, replace=False)

    def _among_rows(self, member: NDArray[np.int64], rows: NDArray[np.int64]) -> Targets:
        """Decoys are public samples; where there are few, others of the pool too."""
        pool = np.arange(len(self.data.train_inputs))
        others = [self._public if len(self._public) >= _DECOYS else pool[pool != row] for row in rows.tolist()]
        most = min(_DECOYS, len(others[0]))
        found = [[*self._decoys(some, most), row] for some, row in zip(others, rows.tolist(), strict=True)]
        return Targets(member=member, candidates=np.array(found, dtype=np.int64))

    def _among_people(self, member: NDArray[np.int64], people: NDArray[np.int64], holdings: Holdings) -> Targets:
        """Decoys are what other people hold."""
        every = np.arange(len(holdings.rows))
        most = min(_DECOYS, len(every) - 1)
        found = [[*self._decoys(every[every != person], most), person] for person in people.tolist()]
        return Targets(member=member, candidates=np.array(found, dtype=np.int64))

    def _changed_rows(self, holdings: Holdings, people: NDArray[np.int64]) -> tuple[Holdings, NDArray[np.int64]]:
        """Return the holdings and, after them, those of people with decoys in the place of one row; their numbers."""
        own = [self._generator.choice(np.flatnonzero(holdings.present[person])) for person in people.tolist()]
        taken = holdings.rows[people, own]
        rows = self._among_rows(np.zeros(0, dtype=np.int64), taken).candidates[:, :-1]
        changed = np.repeat(holdings.rows[people][:, None, :], rows.shape[1], axis=1)
        np.put_along_axis(changed, np.array(own)[:, None, None], rows[:, :, None], axis=2)
        present = np.repeat(holdings.present[people], rows.shape[1], axis=0)
        numbers = len(holdings.rows) + np.arange(rows.size).reshape(rows.shape)
        joined = Holdings(
            rows=np.concatenate([holdings.rows, changed.reshape(rows.size, -1)]),
            present=np.concatenate([holdings.present, present]),
        )
        return joined, np.concatenate([numbers, people[:, None]], axis=1)


def _holders(held: NDArray[np.int64], items: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which of the items each worker holds, -1 for none; shape workers."""
    return alone(items, int(max(held.max(), items.max())) + 1)[held]


@dataclass(frozen=True, kw_only=True)
class Played:
    """What ``play`` gave; see ``Informed``."""

    named: float
    hits: float
    advantage: float
    mu: float


def play(gram: NDArray[np.float64], precision: float, trials: int, generator: np.random.Generator) -> Played:
    """Look the last of the candidates up, and say whether it is there, in so many draws of the noise."""
    heard = min(precision, _LARGEST_PRECISION) * gram
    values, vectors = np.linalg.eigh(heard)
    noise = generator.standard_normal((trials, len(heard))) @ (vectors * np.sqrt(values.clip(0.0))).T
    scores = heard[-1] + noise - np.diag(heard) / 2.0
    mu = float(np.sqrt(heard[-1, -1]))
    nothing = generator.standard_normal(trials)
    there = mu + noise[:, -1] / mu if mu else generator.standard_normal(trials)  # a worker that never sent
    return Played(
        named=float((scores.argmax(axis=1) == len(heard) - 1).mean()),
        hits=float((there > ndtri(1.0 - FALSE_POSITIVES)).mean()),
        advantage=float((there > mu / 2.0).mean() - (nothing > mu / 2.0).mean()),
        mu=mu,
    )


@dataclass(frozen=True)
class InformedAttack:
    """The attack of one adversary on a hundred workers, and on as many rows and people."""

    adversary: str
    about: str
    precision: Precision
    findings: ClassVar[type[InformedFindings]] = InformedFindings

    def refusal(self, _scenario: Scenario) -> str:
        """Return nothing: it fits every scenario."""
        return ""

    def run(self, target: Target) -> Outcome:
        """Attack; only the schedule, the gains and the noise of the run count, not what it drew of the noise."""
        progress, name = target.context.progress, f"informed {self.adversary}"
        progress(name, 0, 1)
        view, generator = target.view, Streams(target.scenario.seed).generator("eavesdropper", _CHAPTER)
        candidates = Candidates(view, generator)
        speed = target.context.speed
        found = {whom: self.find(view, candidates, some, generator, speed) for whom, some in candidates.targets.items()}
        progress(name, 1, 1)
        return Outcome(findings=InformedFindings(**found))

    def find(
        self, view: ServerView, candidates: Candidates, some: Targets, generator: np.random.Generator, speed: Speed
    ) -> Informed:
        """Return how often targets of one kind are found."""
        # A row that one worker alone holds is that worker, and a person's rows lie where the person is.
        key = some.member.tobytes()
        if key not in candidates.precisions:
            candidates.precisions[key] = self.precision(view, some.member, len(some), speed)
        precision = candidates.precisions[key]
        each = [
            play(candidates.gram(numbers), float(heard), _TRIALS, generator)
            for numbers, heard in zip(some.candidates, precision, strict=True)
        ]
        return Informed(
            attacked=len(some), trials=_TRIALS * len(some), copies=int(some.copies.max()),
            candidates=some.candidates.shape[1],
            named=float(np.mean([one.named for one in each])), hits=float(np.mean([one.hits for one in each])),
            advantage=float(np.mean([one.advantage for one in each])),
            mu_median=float(np.median([one.mu for one in each])), mu_largest=max(one.mu for one in each),
        )  # fmt: skip


class InformedRelease(InformedAttack):
    """The same of mixtures without a schedule, which says nothing only where all workers send in each slot."""

    def refusal(self, scenario: Scenario) -> str:
        """Return why it does not fit: a slot of workers with several rows each, of whom it is unknown who sent."""
        hidden = scenario.workers.several_rows and not _all_send(scenario)
        return "workers hold several rows each, and who sent is hidden" if hidden else ""

    def find(
        self, view: ServerView, candidates: Candidates, some: Targets, generator: np.random.Generator, speed: Speed
    ) -> Informed:
        """Return the same, by what was received in this run where the schedule is hidden."""
        scenario, data, everyone = view.transmission.scenario, view.dataset, view.held_index
        if _all_send(scenario):
            return super().find(view, candidates, some, generator, speed)
        received = hear_release(view, speed)
        signal = Signal.of(scenario.workers, data.input_dim, data.label_dim)
        crowd = crowd_of(received, signal, data.label_code, data.train_inputs[everyone], data.train_labels[everyone])

        panel, place = np.unique(some.candidates[:, :-1], return_inverse=True)
        held, absent = (
            crowd.prepare(candidates.data.train_inputs[rows], candidates.data.train_labels[rows])
            for rows in (some.candidates[:, -1], panel)
        )
        taking_part = min(1.0, received.amplitudes.taking_part * float(some.copies.mean()))
        scores = score(crowd, held, absent, replace(received.amplitudes, taking_part=taking_part))
        decoys = scores.decoys[place].reshape(len(some), -1)
        return Informed(
            attacked=len(some), trials=len(some), copies=int(some.copies.max()), candidates=some.candidates.shape[1],
            named=float((scores.held > decoys.max(axis=1)).mean()),
            hits=hit_rate(scores.held, scores.decoys, FALSE_POSITIVES),
            advantage=float((scores.held > 0.0).mean() - (scores.decoys > 0.0).mean()),
        )  # fmt: skip


def _all_send(scenario: Scenario) -> bool:
    return scenario.radio.schedule == "fixed" and scenario.radio.scheduled >= scenario.workers.count


SERVER: Final = InformedAttack(
    "server", "the likeliest of 51 samples for a worker, a row or a person, all others known", server_precision
)
RELEASE: Final = InformedRelease(
    "release", "the same without a schedule, unless all workers send in each slot", server_precision
)
EAVESDROPPER: Final = InformedAttack(
    "eavesdropper", "the same by a listener who knows the schedule and all phases", listener_precision
)
EVERYONE: Final = InformedAttack(
    "everyone", "the same by an adversary who receives each worker separately, without noise", everyone_precision
)
INFORMED: Final = {each.adversary: each for each in (SERVER, RELEASE, EAVESDROPPER, EVERYONE)}
