"""The edge server: learners, training on mixtures, scores on clean data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.registry import import_late

if TYPE_CHECKING:
    from airmixml.edge.adam import soft_cross_entropy
    from airmixml.edge.fitting import train_model, train_stack
    from airmixml.edge.learners import (
        ClosedForm,
        LearnerModel,
        TrainedModel,
        TrainingHistory,
        build_model,
        class_scores,
        predicted,
    )
    from airmixml.edge.received import Received, learn_from
    from airmixml.edge.training import Learned, learn, simulate, train

__all__ = ["ClosedForm", "Learned", "LearnerModel", "TrainedModel", "TrainingHistory", "build_model", "class_scores"]
__all__ += ["Received", "learn", "learn_from", "predicted", "simulate", "soft_cross_entropy", "train"]
__all__ += ["train_model", "train_stack"]

__getattr__ = import_late(__name__)
