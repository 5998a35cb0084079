"""Linear learners in closed form that know the noise: from sums over all slots to a classifier, without epochs.

A server that sees only noisy sums can still have first and second moments of what the workers hold. Samples give them
through the covariance of the mixtures, less the noise's known variance; moments are received as such. The noise that is
left in the second moments is symmetric, with a known deviation. It would blow up what is solved for along directions in
which the data hardly vary; what it does to the eigenvalues is known too, and is undone. Nothing is tuned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, Self

import torch

from airmixml.messages import PluginError, ScenarioError, shown
from airmixml.privacy.gaussian import bracket_root
from airmixml.registries import LEARNERS
from airmixml.scenario import Learner
from airmixml.workers import Signal
from airmixml.workers.moments import unpack_symmetric

if TYPE_CHECKING:
    from torch import nn

_RAREST_CLASS: Final = 1e-3
_ROUNDING_FLOOR: Final = 1e-10
_SMALLEST: Final = 1e-300
_SOFTEST: Final = 1e-3


Spectrum = tuple[torch.Tensor, torch.Tensor]
"""Eigenvalues (d) and eigenvectors (d x d) of a symmetric matrix."""
Solution = tuple[torch.Tensor, torch.Tensor]
"""Weights (features x outputs) and biases (outputs) of a linear model, float64."""


@dataclass(frozen=True, kw_only=True)
class ReceivedMoments:
    """What is known of the workers' inputs x and labels l, per worker, with its noise.

    Tensors may have an axis before those named here: one entry for each of several runs (``several_runs``).
    """

    second: torch.Tensor  # E[x x^T], or of what differs between samples the covariance; d x d, float64
    cross: torch.Tensor  # E[x l^T], or the covariance; d x classes
    input_mean: torch.Tensor  # E[x], to be subtracted before the two above apply; d (0 where they hold as they are)
    label_mean: torch.Tensor  # E[l], likewise; classes
    noise_edge: float  # how large an eigenvalue the noise in ``second`` can make by itself
    constant: float = 0.0  # the value of the last input where that is the same for all; 0 where there is none
    signed: bool = False  # whether labels are targets or signs, not one-hot vectors, whose numbers add up to 1
    cross_deviation: float = 0.0  # of the noise on each number of ``cross``

    @property
    def class_shares(self) -> torch.Tensor:
        """Share of each class, by the moment of labels with the constant, or by label mixtures; else all are equal."""
        if self.constant:
            return self.cross[-1] / self.constant
        return (
            self.label_mean if self.label_mean.any() else torch.full_like(self.label_mean, 1.0 / len(self.label_mean))
        )

    @cached_property
    def spectrum(self) -> Spectrum:
        """Eigenvalues and eigenvectors of ``second``, which take longest; computed once."""
        values, vectors = torch.linalg.eigh(self.second)
        return values, vectors

    def with_cross(self, cross: torch.Tensor) -> Self:
        """Return the same with another ``cross``; what is known of ``second`` is kept."""
        other = replace(self, cross=cross)
        vars(other).update({name: found for name, found in vars(self).items() if name == "spectrum"})
        return other


class MomentsCollector:
    """Adds up slots in memory that does not grow with them, and makes moments of the sums.

    ``constant`` is what workers append to their input, if they do; ``squared_norm`` that of all inputs, if they have
    one.
    """

    def __init__(self, signal: Signal, *, constant: float = 0.0, squared_norm: float = 0.0) -> None:
        self._signal, self._constant, self._squared_norm, self._slots = signal, constant, squared_norm, 0
        self._sums: torch.Tensor | float = 0.0
        self._products: torch.Tensor | float = 0.0

    def add(self, inputs: torch.Tensor, labels: torch.Tensor) -> None:
        """Take slots x symbols of inputs and labels into account; several runs stand between the two axes."""
        self._slots += len(inputs)
        self._sums = self._sums + torch.cat([part.sum(dim=0, dtype=torch.float64) for part in (inputs, labels)], dim=-1)
        if not self._signal.moments:
            self._products = self._products + (inputs.T @ torch.cat([inputs, labels], dim=1)).double()

    def moments(self, noise_variance: float, variance_share: float, *, about_zero: bool = False) -> ReceivedMoments:
        """Return the moments, given the noise variance, and how much of the samples' variance that of mixtures is.

        ``about_zero``: the latter is about zero, as where every worker sends by its own coin.
        """
        mean = torch.as_tensor(self._sums) / self._slots
        if self._signal.moments:
            return self._of_moments(mean, math.sqrt(noise_variance / self._slots))
        return self._of_mixtures(mean, noise_variance, variance_share, about_zero)

    def _of_moments(self, mean: torch.Tensor, deviation: float) -> ReceivedMoments:
        """Slots carry moments: their mean is what is wanted, with symmetric Gaussian noise of known largest eigenvalue.

        Off the diagonal the noise has variance s^2 / 2, so its eigenvalues fill a half circle of radius s sqrt(2 d).
        """
        size, classes, symbols = self._signal.features, self._signal.classes, self._signal.input_symbols
        second = unpack_symmetric(mean[..., :symbols], size)
        cross = mean[..., symbols:].reshape(*mean.shape[:-1], size, classes)
        if (self._signal.bits or self._signal.several_rows) and self._constant:
            softer = self._softer(second, cross)
            second, cross, deviation = second / softer, cross / softer, deviation / softer
        cross_deviation = deviation / self._signal.label_weight
        if self._signal.centred_labels:
            second, cross = one_hot_moments(second, cross, constant=self._constant, squared_norm=self._squared_norm)
            cross_deviation *= math.sqrt(1.0 - 1.0 / classes)
        return ReceivedMoments(
            second=second,
            cross=cross,
            input_mean=mean.new_zeros(size),
            label_mean=mean.new_zeros(classes),
            noise_edge=deviation * math.sqrt(2.0 * size),
            constant=self._constant,
            signed=self._signal.signed and not self._signal.centred_labels,
            cross_deviation=cross_deviation,
        )

    def _softer(self, second: torch.Tensor, cross: torch.Tensor) -> float:
        """Return how much more softly rounded vectors and sums of rows were sent than a row's own products.

        It is seen in what should be known: the constant times all numbers of a one-hot label, or the constant's square.
        """
        if not self._signal.signed and not self._signal.several_rows:
            return float(cross[-1].sum()) / self._constant
        seen = second[-1, -1] / self._constant**2 if self._signal.signed else cross[-1].sum() / self._constant
        # Several rows may add up to more than one, never to less than nothing; noise alone must not turn signs.
        return max(float(seen), _SOFTEST)

    def _of_mixtures(
        self, mean: torch.Tensor, noise_variance: float, variance_share: float, about_zero: bool
    ) -> ReceivedMoments:
        """Slots carry mixtures: their covariance, less that of the noise, over the share that is kept, is the samples'.

        The covariance of T independent slots with eigenvalues near v errs by up to v (2 g + g^2), g = sqrt(d / T)
        (Marchenko and Pastur 1967), where v is that of the noise and, on average, of the mixtures themselves.
        """
        size = self._signal.features
        covariance = torch.as_tensor(self._products) / self._slots - torch.outer(mean[:size], mean)
        second = covariance[:, :size]
        level = max(float(second.diagonal().mean()), noise_variance)
        moved = torch.outer(mean[:size], mean) if about_zero else torch.zeros_like(covariance)
        return ReceivedMoments(
            second=(second - noise_variance * torch.eye(size).to(second)) / variance_share - moved[:, :size],
            cross=covariance[:, size:] / variance_share - moved[:, size:],
            input_mean=mean[:size],
            label_mean=mean[size:],
            noise_edge=level * (2.0 * math.sqrt(size / self._slots) + size / self._slots) / variance_share,
            signed=self._signal.signed,
        )


def one_hot_moments(
    second: torch.Tensor, cross: torch.Tensor, *, constant: float, squared_norm: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return E[x x^T] (d x d) and E[x l^T] for one-hot labels (d x classes), of those received with centred labels.

    A class sent as its one-hot vector less 1 / K, over sqrt(1 - 1 / K), has norm 1 like the one-hot vector itself, but
    all of it tells classes apart: at the same sensitivity the moments that matter arrive with (1 - 1 / K) of the
    noise's variance, half of it for two classes. What was left out is E[x] / K, and the moments of x with the constant,
    its last number, hold that. Other sums are known without noise: centred labels add up to 0, the constant's square is
    public, and where all inputs are brought to one norm, the trace of their second moments is its square.
    """
    size, classes = cross.shape[-2:]
    known = second.clone()
    known[..., -1, -1] = constant**2
    if squared_norm:
        others = known.diagonal(dim1=-2, dim2=-1)[..., :-1]
        others += (squared_norm - constant**2 - others.sum(dim=-1, keepdim=True)) / (size - 1)
    centred = (cross - cross.mean(dim=-1, keepdim=True)) * math.sqrt(1.0 - 1.0 / classes)
    return known, centred + (known[..., -1] / constant / classes)[..., None]


def solve(learner: Learner, moments: ReceivedMoments) -> Solution:
    """Return the linear model of the scenario's learner."""
    solved: Solution = LEARNERS.make(learner.model).solve(learner, moments)
    if learner.model not in LEARNERS.own:
        wanted = (moments.cross.shape, (*moments.cross.shape[:-2], moments.cross.shape[-1]))
        shapes = tuple(getattr(each, "shape", None) for each in solved) if isinstance(solved, tuple) else ()
        if shapes != wanted:
            known = [str(tuple(each)) for each in shapes if each is not None]
            told = f"shapes {', '.join(known)}" if known and len(known) == len(shapes) else shown(solved)
            raise PluginError(
                f"learner.model = {shown(learner.model)}: its solve returns {told}; must return weights and biases, "
                f"tensors of shapes {' and '.join(str(tuple(each)) for each in wanted)}"
            )
    return solved


def ridge(learner: Learner, moments: ReceivedMoments) -> Solution:
    """Least squares from inputs to labels."""
    # Of one-hot labels, which add up to 1, only differences matter.
    cross = moments.cross if moments.signed else moments.cross - moments.cross.mean(dim=-1, keepdim=True)
    edge = learner.shrinkage * moments.noise_edge
    weights = (_solve_cautiously if moments.signed else _solve_denoised)(moments.spectrum, edge, cross)
    return weights, moments.label_mean - moments.input_mean @ weights


def lda(learner: Learner, moments: ReceivedMoments) -> Solution:
    """Linear discriminants: classes as Gaussian clouds of one shape around their own means."""
    shares = moments.class_shares.clamp(min=_RAREST_CLASS / moments.cross.shape[1])
    kept = len(moments.cross) - (1 if moments.constant else 0)
    means = moments.cross[:kept] / shares
    within = moments.second[:kept, :kept] - (means * shares) @ means.T
    weights = _solve_denoised(torch.linalg.eigh(within), learner.shrinkage * moments.noise_edge, means)
    biases = shares.log() - 0.5 * (means * weights).sum(dim=0) - moments.input_mean[:kept] @ weights
    if not moments.constant:
        return weights, biases
    # The constant is an input like any other: its weight takes the bias.
    return torch.vstack([weights, (biases / moments.constant)[None]]), torch.zeros_like(biases)


def _solve_denoised(spectrum: Spectrum, edge: float, right: torch.Tensor) -> torch.Tensor:
    """Solve for W, second W = right, with the eigenvalues that ``second`` had before the noise; R is the edge.

    Symmetric noise whose own eigenvalues fill a half circle of radius R moves an eigenvalue v > R / 2 to
    v + R^2 / (4 v) (Benaych-Georges and Nadakuditi 2011). So an observed l > R stood for (l + sqrt(l^2 - R^2)) / 2, and
    of those below nothing is known but that they were at most R / 2.
    """
    above = spectrum[0].clamp(min=edge)
    # The square of the edge itself may be rounded to a hair less than that of a number.
    return _solve_in(spectrum, (above + (above.square() - edge**2).clamp(min=0.0).sqrt()) / 2.0, right)


def _solve_cautiously(spectrum: Spectrum, edge: float, right: torch.Tensor) -> torch.Tensor:
    """Solve for W, second W = right, for labels whose scale matters: an eigenvalue v counts as sqrt(v^2 + R^2).

    The most likely of classes stays the same when all scores are too large, but a target that is too large is wrong. So
    directions that cannot be told from the noise, whose radius is R, are shrunk rather than taken for as large as they
    may be. Chosen on five public tables at epsilon 1, 3 and 10, among it, v + c R and v + (c R)^2 / v.
    """
    return _solve_in(spectrum, (spectrum[0].clamp(min=0.0).square() + edge**2).sqrt(), right)


def _solve_in(spectrum: Spectrum, values: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Divide by the values along the eigenvectors; the spectrum has the eigenvalues before they were mended."""
    observed, vectors = spectrum
    # Where nothing regularises, directions in which nothing varies stay unused rather than divide by rounding.
    values = values.maximum((observed.abs().amax(dim=-1, keepdim=True) * _ROUNDING_FLOOR).clamp(min=_SMALLEST))
    return torch.matmul(vectors, (vectors.mT @ right) / values[..., None])


def linear_model(weights: torch.Tensor, biases: torch.Tensor) -> nn.Sequential:
    """Return the classifier as a network of one layer, so that it is saved, loaded and scored like any other."""
    from torch import nn  # here: a plan solves without

    layer = nn.Linear(weights.shape[0], weights.shape[1], dtype=torch.float32)
    with torch.no_grad():
        layer.weight.copy_(weights.T)
        layer.bias.copy_(biases)
    if not all(torch.isfinite(parameter).all() for parameter in layer.parameters()):
        raise ScenarioError("learner.shrinkage: leaves nothing that can be solved; raise it, or the power")
    return nn.Sequential(layer)


_CAUTION: Final = 2.0  # deviations of the noise in V
_LEAST_WITHIN: Final = 0.15
_PROBES: Final = 4
_FEATURES_OF_ONE_PROBE: Final = 300  # from so many on, one averages over enough of them
_ROUNDING: Final = 1e-9
_RAREST_SHARE: Final = 0.02
_MOST_CLASSES: Final = 1000
_MOST_DRAWS: Final = 512
_FEWEST_DRAWS: Final = 4
_NUMBERS: Final = 4_000_000
_LOG_FACTORS: Final = (-6.0, 8.0)
_LOG_TOLERANCE: Final = 1e-6


def probability_factor(
    learner: Learner, weights: torch.Tensor, biases: torch.Tensor, moments: ReceivedMoments
) -> float:
    """Return the factor of all scores of what the learner solved, so that their softmax gives probabilities.

    Least squares gives scores near 0 and 1, whose softmax hardly tells classes apart. They are multiplied by the
    one factor that makes their softmax most likely under what the moments imply: classes as Gaussian clouds of one
    covariance, and so scores s = W^T x + b that are normal around m_c = W^T mu_c + b with the covariance V = W^T
    Sigma W. The order of the classes stays.

    Weights are fitted to the noisy moments, so they fit the noise too, and scores seem to tell classes apart better
    than they do. Three things that are known are set against that. A class's own score m_cc is larger by s_c^2
    tr(dW_c / dG_c) over its share, for noise of deviation s_c in the moments G with the labels (Stein 1981); the
    trace is found by solving once more with random signs added. V is too small, so two standard deviations are
    added: W^T E W varies by s W^T W along each direction, for symmetric noise E of deviation s on its diagonal. And
    in no direction less than ``_LEAST_WITHIN`` of the scores' variance counts as that within classes. docs/guide.md
    has what it gains.
    """
    classes = weights.shape[1]
    if moments.signed or classes > _MOST_CLASSES:
        return 1.0
    shares, means, covariance = score_clouds(weights, biases, moments)
    means = means - torch.diag(_optimism(learner, weights, moments) / shares)
    # Fixed points in place of the normal distribution: the same for all factors, so that they are compared alike.
    draws = max(_FEWEST_DRAWS, min(_MOST_DRAWS, _NUMBERS // classes**2))
    standard = torch.randn((draws, classes), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    centred = means - shares @ means
    around = standard @ _root(covariance, (centred.T * shares) @ centred).T
    scores = means[:, None, :] + around  # true class x draws x class
    every = torch.arange(classes)

    def slope(log_factor: float) -> float:
        """How the mean loss -ln p of the true class grows with the factor; it is convex in it."""
        expected = (torch.softmax(math.exp(log_factor) * scores, dim=-1) * scores).sum(dim=-1)
        return -float(shares @ (scores[every, :, every] - expected).mean(dim=1))

    return math.exp(bracket_root(slope, *_LOG_FACTORS, tolerance=_LOG_TOLERANCE)[0])


def _optimism(learner: Learner, weights: torch.Tensor, moments: ReceivedMoments) -> torch.Tensor:
    """Return s_c^2 tr(dW_c / dG_c) of each class, what the noise adds to a class's own score; shape classes."""
    deviation, signs = moments.cross_deviation, torch.Generator().manual_seed(0)
    found = torch.zeros(weights.shape[1], dtype=torch.float64)
    probes = 1 if len(weights) >= _FEATURES_OF_ONE_PROBE else _PROBES
    for _ in range(probes if deviation else 0):
        probe = (2.0 * torch.randint(0, 2, weights.shape, generator=signs) - 1.0).to(moments.cross)
        moved, _ = solve(learner, moments.with_cross(moments.cross + deviation * probe))
        found += deviation * (probe * (moved - weights)).sum(dim=0).cpu() / probes
    return found


def _root(within: torch.Tensor, between: torch.Tensor) -> torch.Tensor:
    """Return R with R R^T = the scores' covariance within classes, nowhere too small a share of all; classes x classes.

    Along each direction that within and between classes share (canonical variates) the share within is at least
    ``_LEAST_WITHIN``: noise can make it vanish, and scores would then count as certain.
    """
    values, vectors = torch.linalg.eigh((within + within.T) / 2.0 + between)
    used = values > values.max().clamp(min=_SMALLEST) * _ROUNDING
    root, inverse = vectors[:, used] * values[used].sqrt(), vectors[:, used] / values[used].sqrt()
    shares, turned = torch.linalg.eigh(inverse.T @ ((within + within.T) / 2.0) @ inverse)
    found = torch.zeros_like(within)
    found[:, : int(used.sum())] = root @ (turned * shares.clamp(min=_LEAST_WITHIN).sqrt())
    return found


def score_clouds(
    weights: torch.Tensor, biases: torch.Tensor, moments: ReceivedMoments
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return shares of the classes (classes), mean scores of each (classes x classes), and the scores' covariance."""
    cross, weights, biases = moments.cross.cpu(), weights.cpu(), biases.cpu()
    shares = moments.class_shares.cpu().clamp(min=_RAREST_SHARE / moments.cross.shape[1])
    shares = shares / shares.sum()
    apart = weights.T @ (cross / shares)  # scores x classes, from where the moments are taken
    means = apart.T + (weights.T @ moments.input_mean.cpu() + biases)
    covariance = weights.T @ moments.second.cpu() @ weights - (apart * shares) @ apart.T
    deviation = moments.noise_edge / math.sqrt(2.0 * len(cross))
    return shares, means, covariance + _CAUTION * deviation * (weights.T @ weights)
