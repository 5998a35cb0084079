"""Gradient inversion: an informed adversary's estimate of one worker's sample from all that it sent.

All other samples are known and subtracted. In round r a gradient of rank one is left, G_r = c_r x e_r^T + noise, with
e_r = softmax(W_r^T x + b) - l, which is negative in the right class alone; of slots of moments Y = x x^T + noise and
P = w x l^T + noise. For every class that l may be, the likeliest x is looked for by turns. With e_r, c_r and |x| as
they follow from the last estimate, everything is a linear observation of x,

    p x = sum_r A_r^2 c_r G_r e_r + A^2 (2 Y x + w P l),    p = sum_r A_r^2 c_r^2 |e_r|^2 + A^2 (2 |x|^2 + w^2 |l|^2),

with noise of variance 1 / p, which the mean and covariance of public samples shrink as they do for the server's
``prior``. That gives the direction; how long x is follows from e_r as well, so that several lengths are tried. First
estimates are the column of the class in the gradients, which lies along -x, and the left factor that all residuals have
in common whatever e_r is, either way round. The likeliest class is named.

The noise is drawn at the level of the run, as that of other informed attacks.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

import numpy as np

from airmixml.arrays import Doubles, Integers
from airmixml.attacks.informed import LARGEST_PRECISION, Precision, precisions_of, server_precision
from airmixml.attacks.isolating_listener import alone, isolated_precision
from airmixml.attacks.reconstruction import Reconstruction, principal_directions
from airmixml.attacks.rounds import Round
from airmixml.attacks.server_attacks import ServerFindings, recognise
from airmixml.attacks.target import Outcome, ServerView, Target, no_sample
from airmixml.scenario import Scenario
from airmixml.streams import Streams

_CHAPTER: Final = 10**9 + 4  # far beyond the chapters of slots
_WORKERS: Final = 100
_TURNS: Final = 20
_STEPS: Final = 12
_CLOSER: Final = 0.6
_LEAST_VARIANCE: Final = 1e-12
_TINY: Final = 1e-30


@dataclass(frozen=True, kw_only=True)
class InversionFindings(ServerFindings):
    """What inversion shows of the workers that it was tried on."""

    kind: ClassVar[str] = "inversion"
    informed: ClassVar[bool] = True
    titles: ClassVar[dict[str, str]] = {"": "Gradient inversion by adversaries who know all samples but one"}


class Residual(Protocol):
    """What is left of slots when all other samples are subtracted, in units of what is sent."""

    def start(self) -> Doubles:
        """Return what lies along x, should the sample be of each class; classes x features."""

    def common(self, length: float) -> Doubles:
        """Return a matrix whose leading direction is that of an x of this length; features x features."""

    def observe(self, found: Doubles, labels: Integers) -> tuple[Doubles, Doubles]:
        """Return what is observed of x times its precision, estimates x features, and the precision; estimates."""

    def log_likelihood(self, found: Doubles, labels: Integers) -> Doubles:
        """Return the logarithm of the likelihood of estimates with these classes, less that of silence; estimates."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OfRound:
    """Of a round: G."""

    round: Round
    precision: float  # A^2, of the noise on each number
    gradient: Doubles  # features x classes

    def start(self) -> Doubles:
        """Return -G, class by class."""
        return -self.precision * self.round.unit * self.gradient.T

    def common(self, _length: float) -> Doubles:
        """Return G G^T."""
        return self.precision * self.gradient @ self.gradient.T

    def observe(self, found: Doubles, labels: Integers) -> tuple[Doubles, Doubles]:
        """Return G e, with the error that each estimate would have."""
        errors, factors = self.round.sent(found, labels)
        pull = self.precision * factors[:, None] * (errors @ self.gradient.T)
        return pull, self.precision * factors**2 * np.square(errors).sum(axis=1)

    def log_likelihood(self, found: Doubles, labels: Integers) -> Doubles:
        """Return A^2 (<G, v> - |v|^2 / 2)."""
        errors, factors = self.round.sent(found, labels)
        matched = factors * ((found @ self.gradient) * errors).sum(axis=1)
        return self.precision * (matched - factors**2 * _squares(found) * _squares(errors) / 2.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class OfMoments:
    """Of slots of moments: Y and P."""

    precision: float
    squares: Doubles  # Y; features x features
    products: Doubles  # P; features x classes
    codes: Doubles  # w l of each class; classes x classes

    def start(self) -> Doubles:
        """Return P l."""
        return self.precision * self.codes @ self.products.T

    def common(self, length: float) -> Doubles:
        """Return Y Y^T as far as Y is of rank one, and P P^T."""
        return self.precision * (length**2 * self.squares + self.products @ self.products.T)

    def observe(self, found: Doubles, labels: Integers) -> tuple[Doubles, Doubles]:
        """Return 2 Y x + w P l: a product of two numbers is sent once, and stands in two places of Y."""
        codes = self.codes[labels]
        pull = 2.0 * found @ self.squares + codes @ self.products.T
        return self.precision * pull, self.precision * (2.0 * _squares(found) + _squares(codes))

    def log_likelihood(self, found: Doubles, labels: Integers) -> Doubles:
        """Return A^2 (<Y, x x^T> + <P, w x l^T> - (|x|^4 + w^2 |x|^2 |l|^2) / 2)."""
        codes, lengths = self.codes[labels], _squares(found)
        matched = ((found @ self.squares + codes @ self.products.T) * found).sum(axis=1)
        return self.precision * (matched - lengths * (lengths + _squares(codes)) / 2.0)


def _squares(vectors: Doubles) -> Doubles:
    return np.asarray(np.square(vectors).sum(axis=1))


class Inversion:
    """Hears workers of a run, each by itself, and estimates their samples."""

    def __init__(self, view: ServerView) -> None:
        data, signal = view.dataset, view.signal
        self._rounds, self._moments, self._norm = view.rounds, signal.moments, view.scenario.workers.clip_norm
        self._codes = signal.label_weight * data.label_code.coded(np.arange(signal.classes)).astype(np.float64)
        self._mean, variances, self._directions = principal_directions(data.test_inputs.astype(np.float64))
        self._variances = np.maximum(variances, _LEAST_VARIANCE)

    def hear(self, sample: Doubles, label: int, precisions: Doubles, generator: np.random.Generator) -> list[Residual]:
        """Draw what is left of a sample that is sent with these precisions, of slots of moments and of each round."""
        precision, *of_rounds = np.minimum(precisions, LARGEST_PRECISION).tolist()
        found: list[Residual] = []
        for each, heard in zip(self._rounds, of_rounds, strict=True):
            if heard:
                errors, factor = each.sent(sample[None], np.array([label]))
                noise = generator.standard_normal((len(sample), len(self._codes))) / math.sqrt(heard)
                sent = factor[0] * np.outer(sample, errors[0])
                found.append(OfRound(round=each, precision=heard, gradient=sent + noise))
        if self._moments and precision:
            noise = generator.standard_normal((len(sample), len(sample))) / math.sqrt(precision)
            on_products = generator.standard_normal((len(sample), len(self._codes))) / math.sqrt(precision)
            squares = np.outer(sample, sample) + (noise + noise.T) / 2.0
            products = np.outer(sample, self._codes[label]) + on_products
            found.append(OfMoments(precision=precision, squares=squares, products=products, codes=self._codes))
        return found

    def invert(self, residuals: Sequence[Residual]) -> tuple[Doubles, Doubles]:
        """Return the likeliest x, shape features, and how likely each class is, in logarithms; shape classes."""
        classes = np.arange(len(self._codes))
        start, common = sum(each.start() for each in residuals), sum(each.common(self._norm) for each in residuals)
        turned = start
        for _ in range(_TURNS):
            turned = turned @ common
            turned = turned / _lengths(turned)
        found, likely = np.tile(self._mean, (len(classes), 1)), np.full(len(classes), -math.inf)
        tried = self._norm * np.concatenate([start / _lengths(start), turned, -turned])
        self._keep_better(found, likely, tried, residuals)
        for step in range(_STEPS):
            change = 0.5 * _CLOSER**step
            observed = [each.observe(found, classes) for each in residuals]
            pull, precision = (sum(part) for part in zip(*observed, strict=True))
            turned = self._shrunk(pull, precision[:, None])
            as_long = turned * (_lengths(found) / _lengths(turned))
            tried = np.concatenate([turned, *(scale * as_long for scale in (1.0 - change, 1.0, 1.0 + change))])
            self._keep_better(found, likely, tried, residuals)
        return found[likely.argmax()], likely

    def _keep_better(self, found: Doubles, likely: Doubles, tried: Doubles, residuals: Sequence[Residual]) -> None:
        """Replace estimates of classes by likelier ones of those tried, some for each class in turn; prior included."""
        classes = np.arange(len(found))
        labels, away = np.resize(classes, len(tried)), (tried - self._mean) @ self._directions
        prior = -(np.square(away) / self._variances).sum(axis=1) / 2.0
        scores = sum((each.log_likelihood(tried, labels) for each in residuals), prior).reshape(-1, len(classes))
        best = scores.argmax(axis=0)
        better = scores[best, classes] > likely
        found[better] = tried.reshape(-1, *found.shape)[best, classes][better]
        likely[better] = scores[best, classes][better]

    def _shrunk(self, pull: Doubles, precision: Doubles) -> Doubles:
        """Return the mean of x given p x and p, as public samples vary; estimates x features."""
        along = (pull - precision * self._mean) @ self._directions
        return np.asarray(self._mean + along / (precision + 1.0 / self._variances) @ self._directions.T)


def _lengths(vectors: Doubles) -> Doubles:
    return np.asarray(np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _TINY))


@dataclass(frozen=True)
class InversionAttack:
    """The attack of one adversary on a hundred workers, those who hold the examples first."""

    adversary: str
    about: str
    precision: Precision
    findings: ClassVar[type[InversionFindings]] = InversionFindings

    def refusal(self, scenario: Scenario) -> str:
        """Return why it does not fit: no gradients are sent, or those of several rows at once."""
        if scenario.workers.several_rows:
            return no_sample(scenario.workers)
        rounds = scenario.learner.rounds or scenario.workers.sends == "gradients"
        return "" if rounds else "no gradients are sent"

    def run(self, target: Target) -> Outcome:
        """Attack one worker after the other."""
        view, context, started = target.view, target.context, time.perf_counter()
        generator = Streams(target.scenario.seed).generator("eavesdropper", _CHAPTER)
        first, count = view.holders_of(target.examples), len(view.held_index)
        others = generator.permutation(np.setdiff1d(np.arange(count), first))
        workers = np.concatenate([first, others])[: max(_WORKERS, len(first))]
        precisions = precisions_of(view, self.precision, alone(workers, count), len(workers), context.speed)
        inversion, found = Inversion(view), []
        for number, row in enumerate(view.held_index[workers].tolist()):
            context.progress("inversion", number, len(workers))
            sample, label = view.dataset.train_inputs[row].astype(np.float64), int(view.dataset.train_labels[row])
            found.append(inversion.invert(inversion.hear(sample, label, precisions[:, number], generator)))
        context.progress("inversion", len(workers), len(workers))
        inputs, labels = (np.array(each, dtype=np.float32) for each in zip(*found, strict=True))
        seconds = time.perf_counter() - started
        made = Reconstruction(method="inversion", inputs=inputs, labels=labels, iterations=_STEPS, seconds=seconds)
        held_index = view.held_index[workers]
        findings, seen = recognise(made, target.held, held_index, target.decoder, target.reader)
        pictures = {
            "originals": target.held.train_inputs[target.examples],
            "examples": seen.pop("samples")[: len(first)],
        }
        return Outcome(
            findings=InversionFindings(**vars(findings)), arrays={**pictures, **seen, "held_rows": held_index}
        )


SERVER: Final = InversionAttack(
    "server", "the sample behind the gradients of one worker, all others known", server_precision
)
EVERYONE: Final = InversionAttack(
    "everyone", "the same by an adversary who receives each worker separately, without noise", isolated_precision
)
