"""Central DP-SGD with Opacus: a trusted curator holds all samples, and the adversary sees the model.

The same linear softmax on the same features as federated learning over the air, trained in the field's usual way:
Poisson batches, per-sample clipping, Gaussian noise.
"""

import math
import warnings
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Final

import numpy as np
import torch
from torch import nn

from airmixml.compare.baselines.shared import score
from airmixml.compare.methods import Exposure, Method, Outcome, Work
from airmixml.compare.ours import CLIP_NORM, samples_scenario, state_both
from airmixml.data import DataSet
from airmixml.edge.closed_form import linear_model
from airmixml.privacy import Design, PrivacyStatement, Release, Sensitivity, calibrate_power, state_privacy
from airmixml.scenario import Privacy
from airmixml.streams import Streams
from airmixml.workers import Population

# Fixed for all data sets, chosen like those of federated learning: on held-out training images of MNIST.
_BATCHES_PER_EPOCH: Final = 12
_EPOCHS: Final = 20
_LEARNING_RATE: Final = 0.1


class DpSgd(Method):
    """Central DP-SGD of the linear softmax on the scenario's features; the curator is trusted, no radio is used."""

    about = "central DP-SGD (Opacus) of that linear softmax; a trusted curator holds all samples"

    def run(self, work: Work) -> Outcome:
        """Train with the noise that keeps the target against an adversary who sees the model."""
        scenario = samples_scenario(work.scenario)
        dataset, population = work.load(scenario.workers)
        design = calibrate_dp_sgd(scenario.privacy, population.count)
        model = _train(design, dataset, population, work)
        stated = state_both(scenario, partial(state_dp_sgd, design, scenario.privacy))
        return Outcome(accuracy=score(model, dataset), privacy=stated, exposure=Exposure.of_curator())

    def missing(self) -> str:
        """Return whether the library is."""
        return "" if find_spec("opacus") is not None else "needs Opacus: pip install airmixml[dp-sgd]"


def calibrate_dp_sgd(privacy: Privacy, workers: int) -> Design:
    """Return the training as Poisson-sampled Gaussian mechanisms with the least noise that keeps the target.

    The noise has variance 1 (half of 2 W); ``received_watts`` is the square of clip norm over noise deviation.
    """
    unit = Design(
        workers=workers,
        scheduled=max(1, workers // _BATCHES_PER_EPOCH),
        received_watts=(1.0,),
        counts=(_EPOCHS * _BATCHES_PER_EPOCH,),
        sensitivity=Sensitivity(removal=1.0, replacement=4.0),
        noise_watts=2.0,
        sampling="poisson",
    )
    factor = calibrate_power(
        unit, Release(), "pld", adjacency=privacy.adjacency, epsilon=privacy.epsilon, delta=privacy.delta
    )
    return unit.scaled(factor)


def state_dp_sgd(design: Design, privacy: Privacy, adjacency: str) -> PrivacyStatement:
    """Return what holds against an adversary who sees the model after every step, but not the batches."""
    stated = state_privacy(design, Release(), "pld", adjacency=adjacency, delta=privacy.delta)
    knows = "the model after every step; the curator, who is trusted, sees all samples"
    return replace(stated, adversary="model", knows=knows, noise_watts_per_symbol=0.0)


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


DP_SGD = DpSgd()
