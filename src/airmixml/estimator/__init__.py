"""AirMixML as scikit-learn estimators: a row of ``X`` is the private sample of one worker, or one of several."""

from airmixml.estimator.base import AirMixEstimator, ReceivedMixtures
from airmixml.estimator.estimators import AirMixClassifier, AirMixRegressor

__all__ = ["AirMixClassifier", "AirMixEstimator", "AirMixRegressor", "ReceivedMixtures"]
