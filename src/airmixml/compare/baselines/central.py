"""Methods with a trusted curator, who holds all encoded rows; the adversary sees what the curator publishes.

No radio is used. The rows are encoded as in the scenario, a mean that it estimates over the air included, so that no
method wins by its features. A method spends what is left of the target on Gaussian mechanisms, which compose exactly.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Final

import numpy as np
import torch
from torch import nn

from airmixml.compare.baselines import pool_tensors, score, scored
from airmixml.compare.methods import Exposure, Method, Outcome, Work, slow_on_a_cpu
from airmixml.compare.ours import CLIP_NORM, LEARNING_RATE, ROUNDS, one_slot, raw_rows, samples_scenario, state_both
from airmixml.data import DataSet, known_dataset
from airmixml.edge.closed_form import linear_model
from airmixml.privacy import (
    Adversary,
    Design,
    PrivacyStatement,
    Release,
    Sensitivity,
    Server,
    calibrate_power,
    state_privacy,
)
from airmixml.radio.centring import centre_privately
from airmixml.scenario import Privacy, Scenario, Speed
from airmixml.streams import Streams
from airmixml.workers import Population

# Of workers who give all samples in secret to a curator, who is the server.
_EXPOSURE: Final = Exposure(server=math.inf, eavesdropper=None, everyone=math.inf, rests_on="trusted curator")
_FAILURE: Final = 0.05  # rho of AdaSSP's paper
_MOST_NUMBERS: Final = 20_000_000  # that logistic regression is fitted to unless asked for
# Of DP-SGD, fixed for all data sets, chosen like those of federated learning: on held-out training images of MNIST.
_BATCHES_PER_EPOCH: Final = 12
_EPOCHS: Final = 20
_LEARNING_RATE: Final = 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class Curator:
    """What a trusted curator holds and may spend."""

    scenario: Scenario  # what is compared at
    dataset: DataSet  # encoded pool and test set
    inputs: torch.Tensor  # what all workers hold; rows x d, float64
    labels: torch.Tensor  # one-hot; rows x classes
    mu: float  # of all Gaussian mechanisms together that act on norms of at most 1, the slot for a mean left aside
    total_mu: float  # the same with it

    @classmethod
    def of(cls, work: Work) -> "Curator":
        """Return the curator of the workers that are compared."""
        scenario = one_slot(work.scenario)
        workers = replace(scenario.workers, sends="samples", label_code="one-hot", bits=0)
        if workers.centre == "private":
            workers = replace(workers, centre="own")
        scenario = replace(scenario, workers=workers, privacy=replace(scenario.privacy, accountant="gdp"))
        dataset, population = work.load(workers)
        dataset = centre_privately([scenario], dataset, population)
        inputs, labels = pool_tensors(dataset, torch.device("cpu"))
        held = torch.from_numpy(population.sample_index)
        total = calibrated_mu(scenario.privacy, population.count)
        rest = 1.0 - workers.centre_share if workers.centre_on_air else 1.0
        return cls(
            scenario=scenario,
            dataset=dataset,
            inputs=inputs[held].double(),
            labels=labels[held].double(),
            mu=math.sqrt(rest) * total,
            total_mu=total,
        )


def calibrated_mu(privacy: Privacy, workers: int) -> float:
    """Return mu of a mechanism with sensitivity 1 to a removal (2 to a replacement) that keeps the target exactly."""
    (squared_mu,) = _calibrated(_design(workers, 1.0), Server(), "gdp", privacy).received_watts
    return math.sqrt(squared_mu)


def state_curator(privacy: Privacy, workers: int, mu: float, adjacency: str) -> PrivacyStatement:
    """Return what holds against an adversary who sees what the curator publishes."""
    return _state(_design(workers, mu), Server(), "gdp", privacy, "what is published", adjacency)


def _calibrated(unit: Design, adversary: Adversary, accountant: str, privacy: Privacy) -> Design:
    """Return the mechanisms with the least noise that keeps the target."""
    epsilon, delta = privacy.epsilon, privacy.delta
    factor = calibrate_power(unit, adversary, accountant, adjacency=privacy.adjacency, epsilon=epsilon, delta=delta)
    return unit.scaled(factor)


def _state(
    design: Design, adversary: Adversary, accountant: str, privacy: Privacy, knows: str, adjacency: str
) -> PrivacyStatement:
    stated = state_privacy(design, adversary, accountant, adjacency=adjacency, delta=privacy.delta)
    knows = f"{knows}; the curator, who is trusted, sees all samples"
    return replace(stated, adversary="model", knows=knows, noise_watts_per_symbol=0.0)


def _design(workers: int, mu: float) -> Design:
    """Return one Gaussian mechanism on a sum of vectors of norm at most 1, with noise of variance 1 / mu^2."""
    return Design(
        workers=workers,
        scheduled=workers,
        received_watts=(mu**2,),
        counts=(1,),
        sensitivity=Sensitivity(removal=1.0, replacement=4.0),
        noise_watts=2.0,
    )


class Central(Method):
    """A linear classifier without bias that a curator learns; ``weights`` returns it, d x classes.

    ``steps``: it takes many steps over all rows, which is slow for many of them on a CPU.
    """

    def __init__(self, about: str, weights: Callable[[Curator], torch.Tensor], *, steps: bool = False) -> None:
        self.about, self._weights, self._steps = about, weights, steps

    def run(self, work: Work) -> Outcome:
        curator = Curator.of(work)
        weights = self._weights(curator)
        state = partial(state_curator, curator.scenario.privacy, len(curator.inputs), curator.total_mu)
        model = linear_model(weights, torch.zeros(weights.shape[1], dtype=weights.dtype))
        stated = state_both(curator.scenario, state)
        return Outcome(**score(model, curator.dataset), privacy=stated, exposure=_EXPOSURE)

    def skipped(self, scenario: Scenario, speed: Speed) -> str:
        return slow_on_a_cpu(scenario, speed) if self._steps else ""


def _adassp(curator: Curator) -> torch.Tensor:
    rng, delta = Streams(curator.scenario.seed).generator("noise"), curator.scenario.privacy.delta
    return adaptive_ridge(curator.inputs, curator.labels, curator.mu, delta, rng)


def adaptive_ridge(
    inputs: torch.Tensor, labels: torch.Tensor, mu: float, delta: float, rng: np.random.Generator
) -> torch.Tensor:
    """Return the weights, d x classes, from rows x d and rows x classes, both of norm at most 1.

    Least squares from sufficient statistics with noise and a ridge that adapts to them (Wang 2018, Alg. 2): there is
    noise on the smallest eigenvalue of X^T X, on X^T X (symmetric, as in Analyze Gauss) and on X^T Y. The ridge covers
    what it can do to the smallest eigenvalue. In the paper the three share epsilon and delta equally; here they share
    mu^2, which is exact and kinder to it.

    ``mu`` is that of the three Gaussian mechanisms together, ``delta`` for the margin on the smallest eigenvalue.
    """
    size = inputs.shape[1]
    deviation = math.sqrt(3.0) / mu
    second, cross = inputs.T @ inputs, inputs.T @ labels
    smallest = float(torch.linalg.eigvalsh(second)[0]) + deviation * float(rng.standard_normal())
    smallest = max(smallest - math.sqrt(math.log(6.0 / delta)) * deviation, 0.0)
    needed = math.sqrt(size * math.log(2.0 * size**2 / _FAILURE)) * deviation
    upper = torch.from_numpy(np.triu(rng.standard_normal((size, size))))
    noisy = second + deviation * (upper + upper.triu(1).T)
    noisy_cross = cross + deviation * torch.from_numpy(rng.standard_normal(tuple(cross.shape)))
    ridge = max(needed - smallest, 0.0) * torch.eye(size, dtype=second.dtype)
    solution: torch.Tensor = torch.linalg.lstsq(noisy + ridge, noisy_cross).solution
    return solution


def _dp_logistic(curator: Curator) -> torch.Tensor:
    """Softmax regression on the scenario's features by noisy full gradients: DP-SGD whose batch is all rows.

    For a few hundred or thousand rows whole batches cost nothing and need no luck with sampling: every step is a
    Gaussian mechanism, and all steps together are one, accounted for exactly. Steps and rate are those of federated
    learning.
    """
    rows, labels = curator.inputs, curator.labels
    deviation = CLIP_NORM * math.sqrt(ROUNDS) / curator.mu / len(rows)
    weights = torch.zeros((rows.shape[1], labels.shape[1]), dtype=torch.float64)
    adam, average = torch.optim.Adam([weights], lr=LEARNING_RATE), torch.zeros_like(weights)
    lengths = rows.norm(dim=1)
    for step in range(ROUNDS):
        errors = torch.softmax(rows @ weights, dim=1) - labels
        norms = errors.norm(dim=1) * lengths
        errors = errors * (CLIP_NORM / norms.clamp(min=CLIP_NORM))[:, None]
        noise = Streams(curator.scenario.seed).generator("noise", step).standard_normal(tuple(weights.shape))
        weights.grad = rows.T @ errors / len(rows) + deviation * torch.from_numpy(noise)
        adam.step()
        if step >= ROUNDS // 2:
            average += weights
    return average


class Logistic(Method):
    """scikit-learn's logistic regression on standardised raw inputs: what a linear model reaches without privacy."""

    about = "scikit-learn on all raw rows: no privacy"

    def run(self, work: Work) -> Outcome:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        scenario = work.scenario
        dataset, population = work.load(raw_rows(scenario.workers))
        held = population.sample_index
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        model.fit(dataset.train_inputs[held], dataset.train_labels[held])

        def state(adjacency: str) -> PrivacyStatement:
            return replace(state_curator(scenario.privacy, len(held), 1.0, adjacency), epsilon=math.inf)

        return Outcome(
            **scored(dataset, model.predict(dataset.test_inputs)),
            privacy=state_both(scenario, state, targeted=False),
            exposure=_EXPOSURE,
        )

    def skipped(self, scenario: Scenario, speed: Speed) -> str:
        known = known_dataset(scenario.workers.dataset)
        numbers = scenario.workers.count * (1 if known is None else known.input_dim)
        return "takes long on so many inputs: name it in --methods" if numbers > _MOST_NUMBERS else ""


class DpSgd(Method):
    """Central DP-SGD with Opacus, of the linear softmax of federated learning on the same features.

    It is trained in the field's usual way: Poisson batches, per-sample clipping, Gaussian noise.
    """

    about = "DP-SGD (Opacus) of a linear model"

    def run(self, work: Work) -> Outcome:
        scenario = samples_scenario(work.scenario)
        dataset, population = work.load(scenario.workers)
        design = calibrate_dp_sgd(scenario.privacy, population.count)
        model = _train(design, dataset, population, work)
        knows = "the model after every step"
        stated = state_both(scenario, partial(_state, design, Release(), "pld", scenario.privacy, knows))
        return Outcome(**score(model, dataset), privacy=stated, exposure=_EXPOSURE)

    def missing(self) -> str:
        return "" if find_spec("opacus") is not None else "needs Opacus: pip install airmixml[dp-sgd]"


def calibrate_dp_sgd(privacy: Privacy, workers: int) -> Design:
    """Return the training as Poisson-sampled Gaussian mechanisms with the least noise that keeps the target.

    The noise has variance 1 (half of 2 W); ``received_watts`` is the square of clip norm over noise deviation.
    """
    steps, batch = _EPOCHS * _BATCHES_PER_EPOCH, max(1, workers // _BATCHES_PER_EPOCH)
    unit = replace(_design(workers, 1.0), scheduled=batch, counts=(steps,), sampling="poisson")
    return _calibrated(unit, Release(), "pld", privacy)


def _train(design: Design, dataset: DataSet, population: Population, work: Work) -> nn.Module:
    """Train the linear softmax on what all workers hold; each worker's copy is a sample of its own."""
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    streams, steps, device = Streams(work.scenario.seed), design.slots, work.device
    inputs, labels = (torch.from_numpy(each).to(device) for each in (dataset.train_inputs, dataset.train_labels))
    layer = nn.Linear(dataset.input_dim, dataset.label_dim, device=device)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    # Norms from the layer's inputs and errors, without forming any sample's gradient: ten times faster here.
    model = GradSampleModuleFastGradientClipping(layer, max_grad_norm=CLIP_NORM, use_ghost_clipping=True)
    noise = torch.Generator(device=device).manual_seed(int(streams.generator("noise").integers(2**63 - 1)))
    optimiser = DPOptimizerFastGradientClipping(
        torch.optim.Adam(model.parameters(), lr=_LEARNING_RATE),
        noise_multiplier=1.0 / math.sqrt(design.received_watts[0]),
        max_grad_norm=CLIP_NORM,
        expected_batch_size=design.scheduled,
        generator=noise,
    )
    loss = DPLossFastGradientClipping(model, optimiser, nn.CrossEntropyLoss())
    rate = design.scheduled / design.workers
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Full backward hook")
        for step in range(steps):
            work.context.progress("dp-sgd", step, steps)
            chosen = np.flatnonzero(streams.generator("training", step).random(population.count) < rate)
            held = torch.from_numpy(population.sample_index[chosen]).to(device)
            optimiser.zero_grad()
            loss(model(inputs[held]), labels[held]).backward()
            optimiser.step()
    work.context.progress("dp-sgd", steps, steps)
    return linear_model(layer.weight.detach().T.cpu(), layer.bias.detach().cpu())


ADASSP = Central("least squares from noisy moments (AdaSSP)", _adassp)
DP_LOGISTIC = Central("logistic regression, noisy gradients", _dp_logistic, steps=True)
DP_SGD, LOGISTIC = DpSgd(), Logistic()
