"""Gradient inversion: an informed adversary's estimate of one worker's sample from all that it sent.

All other samples are known and subtracted. In round r a gradient of rank one is left, G_r = c_r x e_r^T + noise, with
e_r = softmax(W_r^T x + b) - l, which is negative in the right class alone; of slots of moments Y = x x^T + noise and
P = w x l^T + noise. For every class that l may be, the x is looked for that all of them together make likeliest,
rounds weighted by their precisions, and mean and covariance of public samples as what was known before. The first
estimate is P l and the column of the class in -G_1, both along x. Models get sharper from round to round, and what does
not fit a sharp one has no slope to follow: so rounds are taken in a few at a time. The likeliest class is named.

The noise is drawn at the level of the run, as that of other informed attacks.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from scipy.optimize import minimize

from airmixml.arrays import Doubles
from airmixml.attacks.informed import LARGEST_PRECISION, Precision, precisions_of, server_precision
from airmixml.attacks.isolating_listener import alone, isolated_precision
from airmixml.attacks.server_attacks import Reconstruction, ServerFindings, principal_directions, recognise
from airmixml.attacks.target import Outcome, Target, no_sample
from airmixml.attacks.watched import Round, ServerView
from airmixml.scenario import Scenario

_CHAPTER: Final = 10**9 + 4  # far beyond the chapters of slots
_WORKERS: Final = 100
_STEPS: Final = 20  # for each number of rounds
_LEAST_VARIANCE: Final = 1e-12
_TINY: Final = 1e-30


@dataclass(frozen=True, kw_only=True)
class InversionFindings(ServerFindings):
    """What inversion shows of the workers that it was tried on."""

    kind: ClassVar[str] = "inversion"
    informed: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True, eq=False)
class Residual:
    """What is left of all slots when all other samples are subtracted, in units of what is sent.

    Precisions are A^2, of the noise on each number; 0 where nothing was sent.
    """

    moments: float  # precision of the slots of moments; 0 where there are none
    squares: Doubles  # Y; features x features
    products: Doubles  # P; features x classes
    rounds: Doubles  # precision of each round
    gradients: Doubles  # G; features x rounds x classes


class Inversion:
    """Hears workers of a run, each by itself, and estimates their samples."""

    def __init__(self, view: ServerView) -> None:
        data, signal, rounds = view.dataset, view.signal, view.rounds
        self._rounds: tuple[Round, ...] = rounds
        self._moments, self._norm = signal.moments, view.scenario.workers.clip_norm
        self._codes = signal.label_weight * data.label_code.coded(np.arange(signal.classes)).astype(np.float64)
        self._weights = np.stack([each.told.weights for each in rounds], axis=1)  # features x rounds x classes
        self._biases = np.stack([each.told.biases for each in rounds])
        self._clips, self._units = (
            np.array(each) for each in zip(*((r.told.clip, r.unit) for r in rounds), strict=True)
        )
        self._mean, variances, self._directions = principal_directions(data.test_inputs.astype(np.float64))
        self._variances = np.maximum(variances, _LEAST_VARIANCE)

    def hear(self, sample: Doubles, label: int, precisions: Doubles, generator: np.random.Generator) -> Residual:
        """Draw what is left of a sample that is sent with these precisions, in slots of moments and in each round."""
        capped, shape = precisions.clip(max=LARGEST_PRECISION), (len(sample), len(self._codes))
        deviations, gradients = 1.0 / np.sqrt(np.maximum(capped, _TINY)), []
        for each, deviation in zip(self._rounds, deviations[1:], strict=True):
            errors, factor = each.sent(sample[None], np.array([label]))
            gradients.append(factor[0] * np.outer(sample, errors[0]) + deviation * generator.standard_normal(shape))
        squares, products = np.outer(sample, sample), np.outer(sample, self._codes[label])
        if self._moments:
            noise = deviations[0] * generator.standard_normal(squares.shape)
            squares += (noise + noise.T) / 2.0  # a product of two numbers is sent once, and stands in two places
            products += deviations[0] * generator.standard_normal(shape)
        return Residual(
            moments=float(capped[0]) if self._moments else 0.0,
            squares=squares,
            products=products,
            rounds=capped[1:],
            gradients=np.stack(gradients, axis=1),
        )

    def invert(self, residual: Residual) -> tuple[Doubles, Doubles]:
        """Return the likeliest x, shape features, and how likely each class is, in logarithms; shape classes."""
        first = residual.rounds[0] * self._units[0] * residual.gradients[:, 0].T
        found = residual.moments * self._codes @ residual.products.T - first
        found *= self._norm / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), _TINY)
        taken, every = 0, len(self._rounds)
        while taken < every:
            taken = min(max(1, 2 * taken), every)
            found = self._climb(found, residual, taken)
        likely, _ = self.log_likelihood(found, residual, every)
        return found[likely.argmax()], likely

    def _climb(self, start: Doubles, residual: Residual, taken: int) -> Doubles:
        """Return likelier estimates by the slots of moments and the first rounds; classes x features."""
        known = self._norm**2 * (residual.moments + residual.rounds[:taken].sum())
        units = self._directions / np.sqrt(known + 1.0 / self._variances)  # in which all directions are about as steep

        def lacking(steps: Doubles) -> tuple[float, Doubles]:
            likely, slope = self.log_likelihood(start + steps.reshape(start.shape) @ units.T, residual, taken)
            return -float(likely.sum()), -(slope @ units).ravel()

        best = minimize(lacking, np.zeros(start.size), jac=True, method="L-BFGS-B", options={"maxiter": _STEPS})
        return np.asarray(start + best.x.reshape(start.shape) @ units.T)

    def log_likelihood(self, found: Doubles, residual: Residual, taken: int) -> tuple[Doubles, Doubles]:
        """Return the logarithm of likelihood and prior of an estimate for each class, and its slope.

        Of estimates (classes x features) by the slots of moments and the first rounds; shapes classes, and as found.
        """
        away = (found - self._mean) @ self._directions / self._variances
        lengths, codes = np.square(found).sum(axis=1), self._codes
        likely = -(np.square(away) * self._variances).sum(axis=1) / 2.0
        slope = -away @ self._directions.T
        if residual.moments:
            squares, products = found @ residual.squares, codes @ residual.products.T
            of_codes = np.square(codes).sum(axis=1)
            matched = ((squares + products) * found).sum(axis=1)
            likely += residual.moments * (matched - lengths * (lengths + of_codes) / 2.0)
            slope += residual.moments * (2.0 * squares + products - (2.0 * lengths + of_codes)[:, None] * found)
        # Of each class and round: v = c x e^T, and A^2 (<G, v> - |v|^2 / 2), where a clipped |v| is S.
        weights, gradients = (each[:, :taken].reshape(len(each), -1) for each in (self._weights, residual.gradients))
        shape = (len(found), taken, len(codes))
        scores = (found @ weights).reshape(shape) + self._biases[:taken]
        powers = np.exp(scores - scores.max(axis=2, keepdims=True))
        guess = powers / powers.sum(axis=2, keepdims=True)
        errors, along = guess - np.eye(len(codes))[:, None], (found @ gradients).reshape(shape)
        of_errors, matched = np.square(errors).sum(axis=2), (along * errors).sum(axis=2)
        squared = np.maximum(lengths[:, None] * of_errors, _TINY)
        free, precision, units = self._clips[:taken] ** 2 > squared, residual.rounds[:taken], self._units[:taken]
        factors = units * np.where(free, 1.0, self._clips[:taken] / np.sqrt(squared))
        likely += (precision * (factors * matched - factors**2 * squared / 2.0)).sum(axis=1)
        by_matched = precision * factors
        by_squared = -precision * np.where(free, factors**2 / 2.0, factors * matched / (2.0 * squared))
        by_errors = by_matched[..., None] * along + (2.0 * by_squared * lengths[:, None])[..., None] * errors
        by_scores = guess * (by_errors - (guess * by_errors).sum(axis=2, keepdims=True))
        slope += (by_matched[..., None] * errors).reshape(len(found), -1) @ gradients.T
        slope += by_scores.reshape(len(found), -1) @ weights.T
        slope += (2.0 * by_squared * of_errors).sum(axis=1)[:, None] * found
        return likely, slope


@dataclass(frozen=True)
class InversionAttack:
    """The attack of one adversary on a hundred workers, those who hold the examples first."""

    adversary: str
    about: str
    precision: Precision
    findings: ClassVar[type[InversionFindings]] = InversionFindings

    def refusal(self, scenario: Scenario) -> str:
        if scenario.workers.several_rows:
            return no_sample(scenario)
        return "" if scenario.has_rounds else "no gradients are sent"

    def run(self, target: Target) -> Outcome:
        view, context = target.view, target.context
        workers, generator = target.some_workers(_WORKERS, _CHAPTER)
        held_index, data, member = view.held_index[workers], view.dataset, alone(workers, len(view.held_index))
        precisions = precisions_of(view, self.precision, member, len(workers), context.speed)
        inversion, found = Inversion(view), []
        for number, row in enumerate(held_index.tolist()):
            context.progress("inversion", number, len(workers))
            sample, label = data.train_inputs[row].astype(np.float64), int(data.train_labels[row])
            found.append(inversion.invert(inversion.hear(sample, label, precisions[:, number], generator)))
        context.progress("inversion", len(workers), len(workers))
        inputs, labels = (np.array(each, dtype=np.float32) for each in zip(*found, strict=True))
        made = Reconstruction(inputs=inputs, labels=labels)
        findings, seen = recognise(made, target.held, held_index, target.decoder, target.reader)
        originals, examples = target.held.train_inputs[target.examples], seen.pop("samples")[: len(target.examples)]
        arrays = {"originals": originals, "examples": examples, **seen, "held_rows": held_index}
        return Outcome(findings=InversionFindings(**vars(findings)), arrays=arrays)


SERVER: Final = InversionAttack(
    "server", "the sample behind the gradients of one worker, all others known", server_precision
)
EVERYONE: Final = InversionAttack(
    "everyone", "the same by an adversary who receives each worker separately, without noise", isolated_precision
)
