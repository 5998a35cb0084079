"""Learning: all slots of a scenario are run, rounds of gradients included, and a model is made of what they give."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch

from airmixml.arrays import as_tensor
from airmixml.data import DataSet
from airmixml.edge.closed_form import (
    MomentsCollector,
    ReceivedMoments,
    Solution,
    linear_model,
    probability_factor,
    solve,
)
from airmixml.edge.descents import run_rounds
from airmixml.edge.learners import TrainedModel, TrainingHistory, build_model, class_scores, leading_score, note_scores
from airmixml.files import ResultStore
from airmixml.messages import ScenarioError
from airmixml.progress import Progress, silent
from airmixml.radio.draws import MixtureBlock
from airmixml.radio.rounds import RoundsOnAir
from airmixml.radio.transmission import Air, Mixtures, Transmission, open_air, run_here, simulate_family
from airmixml.registry import naming_objects
from airmixml.scenario import Learner, RunContext, Scenario, Speed
from airmixml.streams import Secret
from airmixml.workers import Population, Signal, settle

if TYPE_CHECKING:
    from airmixml.edge.fitting import Checkpoint

_SLOTS_AT_ONCE: Final = 4096


@naming_objects()
def train(
    mixtures: Mixtures, *, speed: Speed | None = None, progress: Progress = silent, checkpoint: Checkpoint | None = None
) -> TrainedModel:
    """Train the scenario's learner on simulated mixtures (Algorithm 1, lines 15 to 17) and score it on clean data."""
    scenario, dataset, inputs, labels = mixtures.scenario, mixtures.dataset, mixtures.inputs, mixtures.labels
    context = RunContext(speed=speed or Speed(), progress=progress, secret=mixtures.secret)
    if scenario.workers.sends == "gradients":
        return last_of(run_rounds(RoundsOnAir.of(mixtures, context)), dataset)
    if scenario.learner.closed_form:
        return solve_and_score(mixtures, collected_from(mixtures), context)
    from airmixml.edge.fitting import train_model  # here: a closed form needs none of what moves a network

    learner, seed = scenario.learner, scenario.seed
    return train_model(
        learner, dataset, inputs, labels, seed=seed, speed=speed, progress=progress, checkpoint=checkpoint
    )


@dataclass(frozen=True, kw_only=True)
class Learned:
    """What was sent over the air, what was learned from it, and how long both took."""

    transmission: Transmission  #: of a network the ``Mixtures`` that it was trained on
    trained: TrainedModel
    over_the_air_seconds: float
    training_seconds: float


def learn(
    scenario: Scenario,
    *,
    dataset: DataSet,
    population: Population | None = None,
    context: RunContext | None = None,
    checkpoint: Checkpoint | None = None,
    kept: ResultStore | None = None,
) -> Learned:
    """Run all slots and learn from them; ``checkpoint`` and ``kept`` hold what is finished of an interrupted run."""
    (learned,) = learn_family(
        [scenario], dataset=dataset, population=population, context=context, checkpoints=[checkpoint], kept=kept
    )
    return learned


def learn_family(
    scenarios: Sequence[Scenario],
    *,
    dataset: DataSet,
    population: Population | None = None,
    context: RunContext | None = None,
    checkpoints: Sequence[Checkpoint | None] | None = None,
    kept: ResultStore | None = None,
) -> Iterator[Learned]:
    """Run all slots of scenarios that share their draws at once, then yield what each learns, one after the other.

    Each learns what ``learn`` would give it alone, to the last bit, and takes its part of the time on the air. The
    learners are all in closed form, or all networks, each with a checkpoint of its own.
    """
    context, started = context or RunContext(), time.perf_counter()
    for each in scenarios:  # only to refuse data that do not suit the learner before the slots are run
        build_model(each.learner, dataset.input_dim, dataset.label_dim, dataset.image_shape)
    if scenarios[0].workers.sends == "gradients":
        for each in scenarios:  # from a model of zeros on
            started = time.perf_counter()
            on_air = RoundsOnAir.alone(open_air([each], dataset, population, context), context, kept)
            trained = last_of(run_rounds(on_air), on_air.air.dataset)
            seconds, sent_alone = time.perf_counter() - started, on_air.transmission()
            yield Learned(transmission=sent_alone, trained=trained, over_the_air_seconds=seconds, training_seconds=0.0)
        return
    sent: Sequence[Transmission]
    collectors: list[MomentsCollector] = []
    if scenarios[0].learner.closed_form:
        air = open_air(scenarios, dataset, population, context)
        collectors = [collector_for(each, air.dataset) for each in scenarios]
        sent = run_here(air, lambda number, block: collectors[number].add(block.inputs, block.labels), context)
    else:
        sent = simulate_family(scenarios, dataset=dataset, population=population, context=context)
    air_seconds = (time.perf_counter() - started) / len(scenarios)
    for number, received in enumerate(sent):
        sent_at = time.perf_counter()
        if isinstance(received, Mixtures):
            checkpoint = None if checkpoints is None else checkpoints[number]
            trained = train(received, speed=context.speed, progress=context.progress, checkpoint=checkpoint)
        else:
            trained = solve_and_score(received, collectors[number], context, kept)
        yield Learned(
            transmission=received,
            trained=trained,
            over_the_air_seconds=air_seconds,
            training_seconds=time.perf_counter() - sent_at,
        )


def collector_for(scenario: Scenario, dataset: DataSet) -> MomentsCollector:
    """Return what adds up the scenario's slots for a learner in closed form."""
    workers = scenario.workers
    signal = Signal.of(workers, dataset.input_dim, dataset.label_dim)
    # Less a mean of their own no row is zero, which would stay zero; in the middle of the bounds some may be.
    all_of_one_norm = workers.norm == "unit" and workers.centre_on_air
    squared_norm = workers.clip_norm**2 if all_of_one_norm else 0.0
    return MomentsCollector(signal, constant=workers.constant * workers.clip_norm, squared_norm=squared_norm)


Observe = Callable[[MixtureBlock, RoundsOnAir | None], None]
"""Looks at each block when it is received; with the rounds on the air, at what they have just told and received."""


def run_observed(air: Air, observe: Observe, context: RunContext) -> Transmission:
    """Run all slots of a scenario with the rounds that follow them, or that they are, and learn what these need."""
    first: tuple[Solution, ReceivedMoments] | tuple[()] = ()
    scenario = air.settings[0].given
    if scenario.workers.sends == "gradients":
        sent, on_air = None, RoundsOnAir.alone(air, context)
    else:
        collector = collector_for(scenario, air.dataset) if scenario.learner.rounds else None

        def receive(_number: int, block: MixtureBlock) -> None:
            if collector is not None:
                collector.add(block.inputs, block.labels)
            observe(block, None)

        (sent,) = run_here(air, receive, context)
        if collector is None:
            return sent
        # The models that are broadcast follow from what was received.
        on_air, first = RoundsOnAir.of(sent, context), solve_collected(sent, collector)
    for done, _ in enumerate(run_rounds(on_air, *first)):
        if done:
            observe(on_air.last, on_air)
    return sent or on_air.transmission()


def solve_collected(transmission: Transmission, collector: MomentsCollector) -> tuple[Solution, ReceivedMoments]:
    """Return the linear model that the collected slots give, and their moments: what rounds start from."""
    report = transmission.report
    return solve_sums(transmission.scenario, collector, report.noise_variance, report.variance_share)


def solve_sums(
    scenario: Scenario, collector: MomentsCollector, noise_variance: float, variance_share: float
) -> tuple[Solution, ReceivedMoments]:
    """Return the same of slots from anywhere; the two numbers are those of ``MomentsCollector.moments``."""
    if not scenario.workers.payload_kind.moments and variance_share == 0.0:
        raise ScenarioError(
            f"radio.scheduled = {scenario.radio.scheduled}: every slot is the same sum of all samples, "
            'from which nothing can be learned; schedule fewer workers, or use workers.sends = "moments"'
        )
    moments = collector.moments(noise_variance, variance_share, about_zero=scenario.radio.schedule_kind.by_coin)
    return solve(scenario.learner, moments), moments


def collected_from(mixtures: Mixtures) -> MomentsCollector:
    """Return the sums of mixtures that are already there."""
    collector = collector_for(mixtures.scenario, mixtures.dataset)
    parts = (torch.split(each, _SLOTS_AT_ONCE) for each in (mixtures.inputs, mixtures.labels))
    for inputs, labels in zip(*parts, strict=True):
        collector.add(inputs, labels)
    return collector


def solve_and_score(
    transmission: Transmission, collector: MomentsCollector, context: RunContext, kept: ResultStore | None = None
) -> TrainedModel:
    """Return the classifier that the collected slots give, then the rounds, and its accuracy on the clean test set."""
    dataset, learner = transmission.dataset, transmission.scenario.learner
    solved, moments = solve_collected(transmission, collector)
    if learner.rounds:
        on_air = RoundsOnAir.of(transmission, context, kept)
        return last_of(run_rounds(on_air, solved, moments), dataset)
    return score_solved(learner, dataset, solved, moments)


def score_solved(learner: Learner, dataset: DataSet, solved: Solution, moments: ReceivedMoments) -> TrainedModel:
    """Return the solved model with probabilities, and its accuracy on the clean test set."""
    scored, (weights, biases) = last_of([solved], dataset), solved
    if getattr(learner.model_kind, "gives_probabilities", False):
        return scored
    factor = probability_factor(learner, weights, biases, moments)
    return replace(scored, model=linear_model(factor * weights, factor * biases), probability_factor=factor)


def last_of(solutions: Iterable[Solution], dataset: DataSet) -> TrainedModel:
    """Return the last of the models, with the leading score of each, and all of the last and of each class."""
    history, curve = TrainingHistory(), list[float]()
    test_inputs, truth = as_tensor(dataset.test_inputs), as_tensor(dataset.test_labels)
    for solution in solutions:
        model = linear_model(*solution)
        if len(truth):
            outputs = class_scores(model, test_inputs)
            curve += leading_score(dataset, outputs, truth).tolist()
    if curve:
        note_scores(history, dataset, curve, outputs)
        history.class_names += dataset.class_names
    if history.test_accuracy:
        right = outputs.argmax(dim=1) == truth
        # NaN for a class that no test sample has.
        history.class_accuracy += [float(right[truth == each].double().mean()) for each in range(dataset.label_dim)]
    return TrainedModel(model=model, history=history)


@naming_objects()
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
