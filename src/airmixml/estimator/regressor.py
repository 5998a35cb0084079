"""The regressor: of one target or several, between declared bounds."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from airmixml.data import Bounded, declare_target_bounds
from airmixml.estimator.base import AirMixEstimator
from airmixml.estimator.checks import declared_pair, validated


@dataclass(kw_only=True, eq=False, repr=False)
class AirMixRegressor(RegressorMixin, AirMixEstimator):  # type: ignore[misc]
    """Regression trained at the edge on over-the-air sums of the rows of ``X`` and their targets.

    Parameters and attributes are those of ``AirMixClassifier``, without its classes, and:

    Parameters:
        target_bounds: (lower, upper) of the targets, each a number or one number per target. Like ``input_bounds`` they
            are declared: targets outside are clipped, and predictions stay inside.
    """

    target_bounds: tuple[ArrayLike, ArrayLike] | None = None

    def fit(self, X: ArrayLike, y: ArrayLike, worker: ArrayLike | None = None) -> Self:
        """Mix the rows of ``X`` (samples x features) and their targets ``y`` (samples, or samples x targets).

        ``worker`` (samples) says who holds each row, if one may hold several: the guarantee is then one for a worker
        with all its rows.
        """
        return self._hiding_values(lambda: self._fit(X, y, worker))

    def _fit(self, X: ArrayLike, y: ArrayLike, worker: ArrayLike | None) -> Self:
        inputs, targets = validated(self, X, y, protected=self._protected, multi_output=True, y_numeric=True)
        self._flat = np.ndim(targets) == 1
        table = np.asarray(targets, dtype=np.float64).reshape(len(targets), -1)
        example, bounds = ", such as (0, 120) for an age", ("target_bounds[0]", "target_bounds[1]")
        lower, upper = declared_pair("target_bounds", self.target_bounds, "target", example, "y")
        self._code = Bounded(*declare_target_bounds(lower, upper, targets=table.shape[1], names=bounds))
        names = tuple(f"target {number + 1}" for number in range(table.shape[1]))
        self._mix_and_train(inputs, table, names, self._code, worker)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the targets of clean rows, within their bounds; samples, or samples x targets."""
        check_is_fitted(self, "model_")
        found = self._predicted(X, self._code)
        return found[:, 0] if self._flat else found
