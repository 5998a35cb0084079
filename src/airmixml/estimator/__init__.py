"""AirMixML as scikit-learn estimators: a row of ``X`` is the private sample of one worker, or one of several."""

from airmixml.estimator.base import AirMixEstimator, ReceivedMixtures
from airmixml.estimator.classifier import AirMixClassifier
from airmixml.estimator.regressor import AirMixRegressor

__all__ = ["AirMixClassifier", "AirMixEstimator", "AirMixRegressor", "ReceivedMixtures"]
