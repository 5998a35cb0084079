"""Sending and learning in one; a stand-in for ``airmixml.edge.learn``, of the same shape, until that is there."""

from __future__ import annotations

import time
from dataclasses import dataclass

from airmixml.data import DataSet
from airmixml.edge import TrainedModel, build_model, learn_from_stream, train
from airmixml.edge.fitting import Checkpoint
from airmixml.radio import simulate
from airmixml.radio.mixtures import Mixtures, Transmission
from airmixml.scenario import CLOSED_FORM_MODELS, RunContext, Scenario
from airmixml.workers import Population


@dataclass(frozen=True, kw_only=True)
class Learned:
    """What was sent, what was learned from it, and how long both took."""

    transmission: Transmission | Mixtures
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
) -> Learned:
    """Send all slots and learn from them: in closed form while they come, else by training on all of them."""
    context, started = context or RunContext(), time.perf_counter()
    # Only to refuse data that do not suit the learner before the slots are run.
    build_model(scenario.learner, dataset.input_dim, dataset.label_dim, dataset.image_shape)
    speed, progress = context.speed, context.progress
    sent: Transmission | Mixtures
    if scenario.learner.model in CLOSED_FORM_MODELS:
        sent, trained = learn_from_stream(
            scenario, dataset=dataset, population=population, speed=speed, progress=progress
        )
        sent_at = time.perf_counter()
    else:
        sent = simulate(scenario, dataset=dataset, population=population, speed=speed, progress=progress)
        sent_at = time.perf_counter()
        trained = train(sent, speed=speed, progress=progress, checkpoint=checkpoint)
    return Learned(
        transmission=sent,
        trained=trained,
        over_the_air_seconds=sent_at - started,
        training_seconds=time.perf_counter() - sent_at,
    )
