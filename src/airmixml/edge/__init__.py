"""The edge server: learners, training on mixtures, scores on clean data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.lazy import import_late

if TYPE_CHECKING:
    from airmixml.edge.fitting import class_scores
    from airmixml.edge.learners import ClosedForm, LearnerModel
    from airmixml.edge.loss import soft_cross_entropy
    from airmixml.edge.models import build_model
    from airmixml.edge.training import (
        Learned,
        TrainedModel,
        TrainingHistory,
        learn,
        train,
        train_model,
        train_seeds,
        train_stack,
    )

__all__ = [
    "ClosedForm",
    "Learned",
    "LearnerModel",
    "TrainedModel",
    "TrainingHistory",
    "build_model",
    "class_scores",
    "learn",
    "soft_cross_entropy",
    "train",
    "train_model",
    "train_seeds",
    "train_stack",
]

_TRAINING = (
    "Learned",
    "TrainedModel",
    "TrainingHistory",
    "learn",
    "train",
    "train_model",
    "train_seeds",
    "train_stack",
)
__getattr__ = import_late(
    __name__,
    {
        "airmixml.edge.fitting": ("class_scores",),
        "airmixml.edge.learners": ("ClosedForm", "LearnerModel"),
        "airmixml.edge.loss": ("soft_cross_entropy",),
        "airmixml.edge.models": ("build_model",),
        "airmixml.edge.training": _TRAINING,
    },
)
