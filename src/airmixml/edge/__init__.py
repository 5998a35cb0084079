"""The edge server: learners, training on mixtures, scores on clean data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.lazy import import_late

if TYPE_CHECKING:
    from airmixml.edge.fitting import TrainingHistory, build_model, class_scores
    from airmixml.edge.learners import ClosedForm, LearnerModel
    from airmixml.edge.losses import soft_cross_entropy
    from airmixml.edge.scoring import predicted
    from airmixml.edge.simulation import simulate
    from airmixml.edge.sources import Received, Source, learn_from
    from airmixml.edge.training import Learned, TrainedModel, learn, train, train_model, train_seeds, train_stack

__all__ = ["ClosedForm", "Learned", "LearnerModel", "TrainedModel", "TrainingHistory", "build_model", "class_scores"]
__all__ += ["Received", "Source", "learn", "learn_from", "predicted", "simulate", "soft_cross_entropy", "train"]
__all__ += ["train_model", "train_seeds", "train_stack"]

__getattr__ = import_late(
    __name__,
    {
        ".fitting": ("TrainingHistory", "build_model", "class_scores"),
        ".learners": ("ClosedForm", "LearnerModel"),
        ".losses": ("soft_cross_entropy",),
        ".scoring": ("predicted",),
        ".simulation": ("simulate",),
        ".sources": ("Received", "Source", "learn_from"),
        ".training": ("Learned", "TrainedModel", "learn", "train", "train_model", "train_seeds", "train_stack"),
    },
)
