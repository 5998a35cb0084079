"""The edge server: networks, training on mixtures, scores on clean data."""

from airmixml.edge.fitting import class_scores
from airmixml.edge.loss import soft_cross_entropy
from airmixml.edge.models import build_model
from airmixml.edge.training import (
    TrainedModel,
    TrainingHistory,
    learn_from_stream,
    train,
    train_model,
    train_seeds,
    train_stack,
)

__all__ = [
    "TrainedModel",
    "TrainingHistory",
    "build_model",
    "class_scores",
    "learn_from_stream",
    "soft_cross_entropy",
    "train",
    "train_model",
    "train_seeds",
    "train_stack",
]
