"""The server's attacks: reconstruct every worker's sample at once, then see how like it is and who is recognised.

Mixtures, schedule and shares are known. The received mixtures are Y = A X + noise with a known A, so this is linear
algebra. Three ways to solve it:

- ``least-squares`` uses nothing else. Where slots are fewer than workers it is the solution nearest to the public mean.
- ``non-negative`` also knows the range of the numbers that are sent.
- ``prior`` knows how samples vary: with mean and covariance of public samples it is the best linear estimate there is
  (Wiener filter), which keeps what is smooth and common and drops what noise would drown.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binom, chi2

from airmixml.arrays import Doubles, ImageShape, Integers, Singles
from airmixml.attacks.measured import Findings, LabelInference, Measured, counted, infer_labels
from airmixml.attacks.target import Decoder, Outcome, Reader, Target, no_sample
from airmixml.attacks.watched import MixingMatrix, ServerView
from airmixml.data import DataSet
from airmixml.messages import ScenarioError
from airmixml.progress import Progress, silent
from airmixml.scenario import Scenario
from airmixml.workers import input_range

RECONSTRUCTIONS: Final = ("least-squares", "non-negative", "prior")
# A block of so many columns stays in the cache of a CPU while random rows of it are added up.
_COLUMNS_ON_CPU: Final = 112
_COLUMNS_ON_GPU: Final = 1024
# Directions are left out in which even the worker heard best would be known no better than by this part of what was
# known before.
_NOTHING_TO_LEARN: Final = 1e-3
_COPY_DB: Final = 10.0
# A perfect copy has no error; what float32 cannot tell apart counts as one.
_SMALLEST_ERROR: Final = 1e-12
_TINY: Final = 1e-30
_WEAKEST: Final = 1e-30


@dataclass(frozen=True, kw_only=True, eq=False)
class Reconstruction:
    """What the server makes of all workers."""

    inputs: Singles  # encoded; workers x inputs
    labels: Singles  # shares of the classes; workers x classes


def reconstruct(view: ServerView, method: str, *, progress: Progress = silent) -> Reconstruction:
    """Recover all workers' samples from what the server holds, by one of ``RECONSTRUCTIONS``."""
    if method not in RECONSTRUCTIONS:
        raise ScenarioError(f"method = {method!r}: must be one of {', '.join(RECONSTRUCTIONS)}")
    if refusal := (_no_range if method == "non-negative" else no_sample)(view.scenario):
        raise ScenarioError(f"method = {method!r}: cannot be used, {refusal}")
    public = view.layout.numbers_of(view.dataset.test_inputs, view.dataset.test_labels)
    if method == "prior":
        numbers = _with_prior(view, public, progress)
    else:
        numbers = _without_prior(view, public.mean(axis=0), method, progress)
    inputs, labels = view.layout.read(numbers)
    return Reconstruction(inputs=inputs, labels=labels)


def _blocks(method: str, columns: int, device: torch.device, progress: Progress) -> Iterator[slice]:
    """Yield so many columns in blocks that are solved for together."""
    width = _COLUMNS_ON_GPU if device.type == "cuda" else _COLUMNS_ON_CPU
    for first in range(0, columns, width):
        progress(method, first, columns)
        yield slice(first, first + width)
    progress(method, columns, columns)


def _no_range(scenario: Scenario) -> str:
    """Return why nothing is known of the range of the numbers that are sent; empty if something is."""
    workers = scenario.workers
    if workers.sends == "moments":
        return "products are sent, not numbers of a known range"
    negative = workers.bits or input_range(workers)[0] < 0.0
    return no_sample(scenario) or ("what the encoder sends may be negative" if negative else "")


def _without_prior(view: ServerView, mean: Doubles, method: str, progress: Progress) -> torch.Tensor:
    """Solve for every number by itself; returns workers x numbers."""
    matrix, device, workers = view.matrix, view.received.device, view.scenario.workers
    centre, root = torch.from_numpy(mean).float().to(device), _root_weights(view)
    most = [input_range(workers)[1]] * view.dataset.input_dim + [workers.label_weight] * view.dataset.label_dim
    found = torch.empty((matrix.workers, len(mean)), device=device)
    for columns in _blocks(method, len(mean), device, progress):
        mixtures = view.received[:, columns] * root
        public = centre[columns].expand(matrix.workers, -1).contiguous()
        surplus, ridge = mixtures - matrix.mix(public), torch.zeros_like(centre[columns])
        solved = centre[columns] + solve_least_squares(matrix, surplus, ridge=ridge)
        if method == "non-negative":
            solved = solve_non_negative(matrix, mixtures, torch.tensor(most[columns], device=device), start=solved)
        found[:, columns] = solved
    return found


def _with_prior(view: ServerView, public: Doubles, progress: Progress) -> torch.Tensor:
    """Solve along the principal directions of public samples, each with the ridge that its variance asks for.

    With v ~ N(m, U diag(s) U^T) and white noise the posterior mean is a ridge regression of ridge 1 / s_k along every
    direction k by itself. Returns workers x numbers.
    """
    matrix, device = view.matrix, view.received.device
    mean, variances, directions = principal_directions(public)
    learnable = np.flatnonzero(variances * float(matrix.heard.max(initial=0.0)) > _NOTHING_TO_LEARN)[::-1].copy()
    found = torch.from_numpy(mean).float().to(device).expand(matrix.workers, -1).contiguous()
    surplus = view.received * _root_weights(view) - matrix.mix(found)
    for columns in _blocks("prior", len(learnable), device, progress):
        some = learnable[columns]
        basis = torch.from_numpy(directions[:, some]).float().to(device)
        ridge = torch.from_numpy(1.0 / variances[some]).float().to(device)
        found.addmm_(solve_least_squares(matrix, surplus @ basis, ridge=ridge), basis.T)
    return found


def solve_least_squares(
    matrix: MixingMatrix,
    mixtures: torch.Tensor,
    *,
    ridge: torch.Tensor,
    iterations: int = 100,
    tolerance: float = 1e-5,
) -> torch.Tensor:
    """Minimise ||A X - Y||^2 + sum_k ridge_k ||X_k||^2 by conjugate gradients; returns X, workers x columns.

    SciPy's iterative solvers take one right-hand side at a time and know no GPU. Here every column is a problem of its
    own that shares the products with A, the sparse matrix of shares, which are what costs time.

    Without a ridge this tends to the solution of least norm where slots are fewer than workers.
    Elsewhere there is but one solution as a rule, and steps are made in units of how well each worker was heard: one
    on the border may be heard ten thousand times worse than another, and would take hundreds of iterations.

    Rows of Y (slots x columns) are weighted as those of A. A column stops when its gradient is by ``tolerance`` smaller
    than that of zero; what rounding leaves of it has no curvature to follow where slots are fewer than workers.
    """
    # Received powers span 60 orders of magnitude and float32 squares 38: every column is brought to about 1.
    strength = min(max(float(matrix.heard.max(initial=0.0)), _WEAKEST), 1.0 / _WEAKEST)
    target = matrix.collect(mixtures) / strength
    size = target.abs().amax(dim=0).clamp_min(_TINY)
    target /= size
    ridge = ridge / strength

    def normal(samples: torch.Tensor) -> torch.Tensor:
        return matrix.collect(matrix.mix(samples)) / strength + ridge * samples

    found, gradient = torch.zeros_like(target), target.clone()
    units = torch.ones((1, 1), device=target.device)
    if matrix.slots >= matrix.workers:  # a weak ridge would take long to bring back what other units let stray
        heard = torch.from_numpy(matrix.heard / strength).float().to(target.device)[:, None]
        diagonal = heard + ridge if bool((ridge > 0.0).any()) else heard
        units = torch.where(diagonal > 0.0, 1.0 / diagonal.clamp_min(_TINY), 1.0)
    scaled = gradient * units
    direction = scaled
    squares = (gradient * scaled).sum(dim=0)
    enough = tolerance**2 * (target.square() * units).sum(dim=0)
    moving = squares > enough
    for _ in range(iterations):
        if not bool(moving.any()):
            break
        image = normal(direction)
        curvature = (direction * image).sum(dim=0)
        # A column that is done stays where it is, whichever others it is solved with.
        moving &= curvature > 0.0
        length = torch.where(moving, squares / curvature, 0.0)
        found.addcmul_(direction, length)
        gradient.addcmul_(image, -length)
        scaled = gradient * units
        shorter = (gradient * scaled).sum(dim=0)
        direction = torch.addcmul(scaled, direction, shorter / squares.clamp_min(_TINY))
        squares = shorter
        moving &= squares > enough
    return found * size


def solve_non_negative(
    matrix: MixingMatrix, mixtures: torch.Tensor, most: torch.Tensor, *, start: torch.Tensor, iterations: int = 100
) -> torch.Tensor:
    """Minimise ||A X - Y||^2 with 0 <= X <= most (shape columns) by accelerated projected gradients; returns X.

    A has no negative entry, so diag(A^T A 1) is above A^T A: its inverse is a step of each worker's own that is never
    too long, however loud others are (Beck and Teboulle 2009, FISTA; De Pierro 1995 for the diagonal).
    """
    ones = torch.ones((matrix.workers, 1), device=start.device)
    curvature = matrix.collect(matrix.mix(ones)).clamp_min(_TINY)
    found = ahead = start.clamp(min=0.0).minimum(most)
    momentum = 1.0
    for _ in range(iterations):
        downhill = matrix.collect(mixtures - matrix.mix(ahead))
        following = (ahead + downhill / curvature).clamp(min=0.0).minimum(most)
        faster = (1.0 + math.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        found, ahead = following, following + (momentum - 1.0) / faster * (following - found)
        momentum = faster
    return found


def principal_directions(public: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    """Return mean, variances (ascending) and directions of public samples, shrunk where these are few.

    One sample says nothing of how samples vary: all variances are 0 then.
    """
    if len(public) < 2:
        return public.mean(axis=0), np.zeros(public.shape[1]), np.eye(public.shape[1])
    from sklearn.covariance import LedoitWolf

    model = LedoitWolf().fit(public)
    variances, directions = np.linalg.eigh(model.covariance_)
    return model.location_, np.maximum(variances, 0.0), directions


def _root_weights(view: ServerView) -> torch.Tensor:
    return torch.from_numpy(np.sqrt(view.weights)).float().to(view.received.device)[:, None]


@dataclass(frozen=True, kw_only=True)
class ServerFindings(Findings):
    """What a reconstruction shows of the workers, over all of them."""

    kind: ClassVar[str] = "server"

    psnr_db: float  # likeness to the original; median
    recognised: int  # workers whose class a reader trained on public samples reads from the reconstruction
    recognised_share: float
    guessing: float  # how often always naming the most frequent class is right
    p_value: float  # of so many recognised by guessing
    explained: float  # part of how samples differ from the mean of all the others' that was found out; 1 is everything
    copied: int  # workers whose sample was recovered with a tenth of the error of the public mean, or less
    copied_share: float
    copied_p_value: float  # of so many copies or more, were each as likely as one of the wrong worker
    labels: LabelInference  # classes inferred from the label symbols instead
    image_shape: ImageShape
    reader_accuracy: float  # how often the reader reads clean samples
    explained_p_value: float  # of so much by guessing

    def measured(self) -> list[Measured]:
        labels, workers = self.labels, self.labels.inferred
        copies: dict[str, Any] = {"shown": f"{self.copied:,} of {workers:,}", "of": "", "identifies": True}
        copies["p_value"], seen = self.copied_p_value, max(0.0, self.explained)
        return [
            counted("reads a sample's class", self.recognised_share, workers, self.guessing, p_value=self.p_value),
            counted("infers a label", labels.accuracy, workers, labels.baseline, p_value=labels.p_value),
            counted("recovers samples almost exactly", self.copied_share, workers, 0.0, **copies),
            counted("sees how samples differ", seen, 0, 0.0, p_value=self.explained_p_value, of=""),
        ]

    @property
    def strength(self) -> tuple[float, ...]:
        """The share; of equal ones how much was seen."""
        return *super().strength, self.explained


def recognise(
    reconstruction: Reconstruction, held: DataSet, held_index: Integers, decoder: Decoder, reader: Reader
) -> tuple[ServerFindings, dict[str, NDArray[Any]]]:
    """Compare what was recovered with what the workers hold, not encoded: rows ``held_index`` of the pool.

    Returns the figures, and by worker: decoded ``samples`` (workers x inputs), ``psnr_db``, and whether the class was
    ``recognised``.
    """
    samples, workers = decoder.decode(reconstruction.inputs), len(held_index)
    originals, labels = held.train_inputs[held_index], held.train_labels[held_index]
    public_mean = held.test_inputs.mean(axis=0)
    psnr_db = peak_signal_to_noise_db(originals, samples)
    recognised = reader.read(samples) == labels
    inferred = infer_labels(reconstruction.labels, labels)
    copied = count_copies(originals, samples, public_mean)
    explained = explained_share(originals, samples, public_mean)
    # The next worker in the list holds another sample, except for samples that several workers hold.
    by_chance = count_copies(np.roll(originals, 1, axis=0), samples, public_mean)
    findings = ServerFindings(
        psnr_db=float(np.median(psnr_db)),
        recognised=int(recognised.sum()),
        recognised_share=float(recognised.mean()),
        guessing=inferred.baseline,
        p_value=float(binom.sf(int(recognised.sum()) - 1, workers, inferred.baseline)),
        explained=explained,
        copied=copied,
        copied_share=copied / workers,
        copied_p_value=float(binom.sf(copied - 1, workers, min(1.0, (by_chance + 1) / workers))),
        labels=inferred,
        image_shape=held.image_shape,
        reader_accuracy=reader.accuracy,
        explained_p_value=explained_by_chance(explained, len(np.unique(held_index)), held.test_inputs),
    )
    return findings, {"samples": samples, "psnr_db": psnr_db.astype(np.float32), "recognised": recognised}


def peak_signal_to_noise_db(originals: Singles, recovered: Singles) -> Doubles:
    """Return -10 log10 of each sample's mean squared error, for values in [0, 1]; shape samples."""
    errors = np.square(originals - recovered).mean(axis=1, dtype=np.float64)
    return np.asarray(-10.0 * np.log10(np.maximum(errors, _SMALLEST_ERROR)))


def count_copies(originals: Singles, recovered: Singles, public_mean: Singles) -> int:
    """Return how many samples were recovered with at most a tenth of the error that the public mean has."""
    gain_db = peak_signal_to_noise_db(originals, recovered) - peak_signal_to_noise_db(originals, public_mean[None])
    return int(np.sum(gain_db >= _COPY_DB))


def explained_share(originals: Singles, recovered: Singles, public_mean: Singles) -> float:
    """Return 1 - squared error / that of guessing every sample as the mean of all the others; at most 1.

    What is the same for all workers, such as their mean, is about nobody. One alone is guessed as the public mean.
    Originals and recovered samples are workers x inputs.
    """
    truth = originals.astype(np.float64)
    others = len(truth) - 1
    guess = (truth.sum(axis=0) - truth) / others if others else public_mean[None]
    left_open = float(np.square(truth - guess).sum())
    return 1.0 - float(np.square(truth - recovered).sum()) / left_open if left_open else 0.0


def explained_by_chance(explained: float, samples: int, public: Singles) -> float:
    """Return the p-value of that share, were so many independent samples recovered without knowing them.

    No guess is nearer than the mean of all, whose squared error is about a chi-squared number, scaled, of as many
    degrees as all samples have directions (Satterthwaite): (trace C)^2 / trace C^2 each, of the public covariance C.
    """
    away = public.astype(np.float64) - public.mean(axis=0)
    small = away @ away.T if len(away) < away.shape[1] else away.T @ away  # both have the same eigenvalues
    squares = float(np.square(small).sum())
    degrees = samples * (float(np.trace(small)) ** 2 / squares if squares else 1.0)
    return float(chi2.cdf((1.0 - explained) * degrees, degrees))


@dataclass(frozen=True)
class ServerAttack:
    """One method of ``reconstruct``."""

    method: str
    about: str
    refusal: Callable[[Scenario], str] = no_sample
    adversary: ClassVar[str] = "server"
    findings: ClassVar[type[ServerFindings]] = ServerFindings

    def run(self, target: Target) -> Outcome:
        """Reconstruct all workers; examples are what was recovered of the first worker that holds each of them."""
        view, reader = target.view, target.reader
        found = reconstruct(view, self.method, progress=target.context.progress)
        findings, seen = recognise(found, target.held, view.held_index, target.decoder, reader)
        examples = seen.pop("samples")[view.holders_of(target.examples)]
        originals = target.held.train_inputs[target.examples]
        return Outcome(findings=findings, arrays={"originals": originals, "examples": examples, **seen})


LEAST_SQUARES: Final = ServerAttack("least-squares", "solve for all samples, each slot weighted by its noise")
NON_NEGATIVE: Final = ServerAttack("non-negative", "the same within the range of what workers send", _no_range)
PRIOR: Final = ServerAttack("prior", "the same with mean and covariance of public samples (Wiener filter)")
