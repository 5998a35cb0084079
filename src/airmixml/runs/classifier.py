"""The model of a finished run as a scikit-learn estimator for raw rows."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from airmixml.arrays import Doubles
from airmixml.data import Bounded
from airmixml.messages import RunFolderError
from airmixml.runs.model_files import StoredModel, read_stored

_ROWS_AT_ONCE: Final = 8192


def load_model(folder: Path | str, *, encoder: Any = None, objects: Iterable[Any] = ()) -> Any:
    """Return the trained model of a finished run folder of one seed: a scikit-learn estimator for raw rows.

    Scaling by the declared bounds, encoder, centre, norm and class names are inside. ``encoder`` and
    ``objects`` (power policies, channels and so on) are what the run was given in Python, where it was given any.
    Classes and labels give a ``RunClassifier``, a regression a ``RunRegressor``.
    """
    stored = read_stored(Path(folder), encoder, objects)
    model = RunRegressor(folder) if isinstance(stored.code, Bounded) else RunClassifier(folder)
    model._take(stored)
    return model


class RunModel(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Predicts from raw rows with the model of a run folder.

    ``load_model`` makes one. It is trained already, by ``airmix run``, and cannot be fitted or cloned; wrapped in
    ``sklearn.frozen.FrozenEstimator`` it can be part of a pipeline, an ensemble or a calibration.

    Attributes:
        n_features_in_: numbers in a raw row.
        feature_names_in_: what the header of the training file called them; absent where there was no header.
        output_names_: the classes, labels or targets, by name.
        encoder_: from raw rows to what the network takes.
        network_: the trained network, in float64.
        scenario_: the run's scenario.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = folder

    def _take(self, stored: StoredModel) -> None:
        self.scenario_, self.code_, self.output_names_ = stored.scenario, stored.code, stored.class_names
        self.link_, self.encoder_, rows = stored.link, stored.encoder, stored.encoder.row_format
        self.n_features_in_ = rows.width
        if rows.feature_names:
            self.feature_names_in_ = np.array(rows.feature_names, dtype=object)
        # Scores in float64 do not depend on how many rows are scored together.
        self.network_ = stored.network.double()

    def fit(self, X: ArrayLike, y: ArrayLike) -> NoReturn:
        """Refuse: a run folder holds a model that is trained."""
        instead = "fit an AirMixClassifier, or run its scenario again; with real data each of these spends epsilon"
        raise RunFolderError(f"{self.folder}: is trained already; {instead}")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "network_")

    def outputs_of(self, rows: NDArray[Any]) -> Doubles:
        """Return probabilities or targets of rows (samples x numbers) that are known to be in order."""
        import torch

        from airmixml.edge import class_scores, predicted

        found = []
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            encoded = np.ascontiguousarray(self.encoder_.encode(rows[start : start + _ROWS_AT_ONCE]))
            scores = class_scores(self.network_, torch.from_numpy(encoded).double())
            found.append(predicted(scores, self.link_, self.code_).numpy())
        return np.concatenate(found)

    def _rows(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self)
        shape = self.encoder_.row_format.image_shape
        if isinstance(X, np.ndarray) and shape is not None and X.shape[1:] == shape:
            X = X.reshape(len(X), -1)
        rows: NDArray[Any] = validate_data(self, X, reset=False, dtype="numeric")
        return rows


class RunClassifier(ClassifierMixin, RunModel):  # type: ignore[misc]
    """Predicts the class of raw rows, or which of several labels hold.

    Attributes:
        classes_: class labels: whole numbers where all are, else the names. Of several labels: their numbers.
    """

    def _take(self, stored: StoredModel) -> None:
        super()._take(stored)
        self.classes_ = class_labels(stored.class_names)
        if self.code_ is not None:
            self.classes_ = np.arange(len(stored.class_names))

    def predict_proba(self, X: ArrayLike) -> Doubles:
        """Return the probability of each class, or that each label holds, for raw rows; samples x classes."""
        return self.outputs_of(self._rows(X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most likely class of each raw row (samples), or 0 and 1 for each label (samples x labels)."""
        return self.decided(self.predict_proba(X))

    def decided(self, likely: Doubles) -> NDArray[Any]:
        """Return what probabilities decide for."""
        if self.code_ is not None:
            return np.asarray(likely > 0.5, dtype=np.int64)
        return np.asarray(self.classes_[likely.argmax(axis=1)])


class RunRegressor(RegressorMixin, RunModel):  # type: ignore[misc]
    """Predicts the targets of raw rows."""

    def predict(self, X: ArrayLike) -> Doubles:
        """Return the targets within their bounds; samples, or samples x targets."""
        found = self.outputs_of(self._rows(X))
        return found[:, 0] if found.shape[1] == 1 else found


def class_labels(names: tuple[str, ...]) -> NDArray[Any]:
    """Return the classes as whole numbers where all their names are such, else as text."""
    if all(name.removeprefix("-").isdecimal() and str(int(name)) == name for name in names):
        return np.array([int(name) for name in names])
    return np.array(names)
