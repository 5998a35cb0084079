"""What methods with a trusted curator share: he holds all encoded rows, and the adversary sees what he publishes.

No radio is used. The rows are encoded as in the scenario, a mean that it estimates over the air included, so that no
method wins by its features. A method spends what is left of the target on Gaussian mechanisms, which compose exactly.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import torch

from airmixml.compare.adversaries import Exposure
from airmixml.compare.baselines.federated import pool_tensors, score
from airmixml.compare.methods import Outcome, Work
from airmixml.compare.ours import state_both
from airmixml.data import DataSet
from airmixml.edge.closed_form import linear_model
from airmixml.privacy import Design, PrivacyStatement, Sensitivity, Server, calibrate_power, state_privacy
from airmixml.radio.centring import centre_privately
from airmixml.scenario import Privacy, Scenario
from airmixml.streams import Streams


@dataclass(frozen=True, kw_only=True, eq=False)
class Curator:
    """What a trusted curator holds and may spend.

    Attributes:
        scenario: what is compared at.
        dataset: encoded pool and test set.
        inputs: what all workers hold; rows x d, float64.
        labels: one-hot; rows x classes.
        mu: of all Gaussian mechanisms together that act on norms of at most 1, the slot for a mean left aside.
        total_mu: the same with it.
    """

    scenario: Scenario
    dataset: DataSet
    inputs: torch.Tensor
    labels: torch.Tensor
    mu: float
    total_mu: float

    @classmethod
    def of(cls, work: Work) -> "Curator":
        """Return the curator of the workers that are compared."""
        scenario = work.scenario
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

    @property
    def streams(self) -> Streams:
        """The run's random numbers."""
        return Streams(self.scenario.seed)

    def outcome(self, weights: torch.Tensor) -> Outcome:
        """Return what a linear classifier without bias gave; d x classes."""
        model = linear_model(weights, torch.zeros(weights.shape[1], dtype=weights.dtype))
        state = partial(state_curator, self.scenario.privacy, len(self.inputs), self.total_mu)
        return Outcome(
            accuracy=score(model, self.dataset),
            privacy=state_both(self.scenario, state),
            exposure=Exposure.of_curator(),
        )


def calibrated_mu(privacy: Privacy, workers: int) -> float:
    """Return mu of a mechanism with sensitivity 1 to a removal (2 to a replacement) that keeps the target exactly."""
    unit = _design(workers, 1.0)
    factor = calibrate_power(
        unit, Server(), "gdp", adjacency=privacy.adjacency, epsilon=privacy.epsilon, delta=privacy.delta
    )
    return math.sqrt(factor)


def state_curator(privacy: Privacy, workers: int, mu: float, adjacency: str) -> PrivacyStatement:
    """Return what holds against an adversary who sees what the curator publishes."""
    stated = state_privacy(_design(workers, mu), Server(), "gdp", adjacency=adjacency, delta=privacy.delta)
    knows = "what is published; the curator, who is trusted, sees all samples"
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
