"""All slots of a scenario, rounds of gradients included: the models in between decide what is sent in them."""

from collections import deque
from pathlib import Path

import torch

from airmixml.data import DataSet
from airmixml.edge.rounds import run_rounds
from airmixml.edge.training import collected_from, solve_collected
from airmixml.progress import Progress, silent
from airmixml.radio.rounds import RoundsOnAir
from airmixml.radio.transmission import Mixtures, open_air, simulate_family
from airmixml.registries import names_objects
from airmixml.scenario import RunContext, Scenario, Speed
from airmixml.streams import Secret
from airmixml.workers import Population, settle


@names_objects
def simulate(
    scenario: Scenario,
    *,
    dataset: DataSet | None = None,
    population: Population | None = None,
    speed: Speed | None = None,
    data_dir: Path | None = None,
    progress: Progress = silent,
    secret: Secret | None = None,
) -> Mixtures:
    """Run the mixup part of Algorithm 1: deploy the workers, run all slots, gather what the server receives.

    In rounds of gradients the server broadcasts the models that the scenario's descent gives; what it told and received
    is in ``rounds`` of the mixtures, and ``train`` makes the model of it without sending anything again.

    Args:
        scenario: what to run.
        dataset: the data to use instead of the one that the scenario names.
        population: who holds which sample of ``dataset`` where, instead of a random deployment.
        speed: device, block size and threads; they do not change the result.
        data_dir: folder to look for MNIST in.
        progress: told how many slots are done.
        secret: what noise and schedule are drawn from where real data are protected, instead of the scenario's seed.
    """
    context = RunContext(speed=speed or Speed(), data_dir=data_dir, progress=progress, secret=secret)
    if dataset is None:
        scenario = settle(scenario, data_dir=data_dir, progress=progress)
    else:
        scenario = scenario.settled(dataset.train_samples, dataset.held_dim)
    if scenario.workers.sends != "gradients":
        (mixtures,) = simulate_family([scenario], dataset=dataset, population=population, context=context)
        if scenario.learner.rounds:
            first = solve_collected(mixtures, collected_from(mixtures))
            deque(run_rounds(RoundsOnAir.of(mixtures, context), *first), maxlen=0)
        return mixtures
    on_air = RoundsOnAir.alone(open_air([scenario], dataset, population, context), context)
    deque(run_rounds(on_air), maxlen=0)
    received = torch.stack([each.gradient.mT.flatten().float() for each in on_air.rounds])
    return Mixtures(**vars(on_air.transmission()), inputs=received, labels=received[:, :0])
