"""The classifier, of classes or of several labels that may hold at once, and the regressor, of targets."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted

from airmixml.data import Bounded, Signs, declare_bounds
from airmixml.data.labels import DeclaredClasses, look_measured
from airmixml.estimator.base import AirMixEstimator, documented
from airmixml.estimator.checks import as_given, declared_pair, validated
from airmixml.messages import DataError, ScenarioError, shown


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class AirMixClassifier(ClassifierMixin, AirMixEstimator):  # type: ignore[misc]
    """Classifier trained at the edge on over-the-air mixtures of the rows of ``X``.

    Each row is held by one worker, placed at random in a 500 m square; ``fit`` can be told which rows are one worker's.
    The channel adds up what they send and the receiver's noise hides them; the server trains on the sums alone.

    Set only ``epsilon``, ``input_bounds`` and ``classes``. Every other parameter that is None is the recipe's. Where a
    parameter names a thing of a registry (``adversary``, ``policy``, ``noise``, ``model`` and others), it takes an
    object of your own as well (docs/extending.md).

    Parameters:
        epsilon: privacy target of each worker, or None to send with maximum power, which protects nobody.
        input_bounds: (lower, upper) of the inputs, each a number or one number per feature, or (lower, upper) of each
            column of a DataFrame by its name. They are declared: to measure them would leak private data. Values
            outside are clipped.
        classes: all class labels that there may be. They are declared, not read from ``y``, where one that a single row
            has reveals that row; None reads them from ``y``, in simulation only. Where several labels
            may hold at once they are the columns of ``y``.
        unknown_labels: what becomes of a row whose label is not among ``classes``: "refuse" it before anything is sent,
            or "absent": its worker sends zeros.
        recipe: "private" (the presets ``private-table`` and, with ``image_shape``, ``private-images``: all workers send
            moments in one slot, the target holds against the server, a linear model in closed form) or "paper" (the
            preset ``paper-iris``: many slots of a few samples, the paper's bound, a network).
        delta: the target's delta; None takes a tenth of 1 / samples with the private recipe.
        adversary: whom the target is against: "release" (sees all mixtures, knows no schedule), "server" or
            "eavesdropper" (ten metres from a worker; others need a scenario), or with ``noise`` of the workers
            "everyone" (hears each worker separately and without noise).
        sensitivity: "paper" (d_X + d_Y) or "encoder" (what the encoder declares, which allows more power); None takes
            "encoder" where the encoder bounds a norm.
        encoder: what a worker computes of its row: a name that `airmix plugins` lists, "onnx:FILE", a
            ``torch.nn.Module``, or an object of one's own (``airmixml.workers.Encoder``).
        scheduled: workers per slot (at most all; 0: all).
        power: what sets it: "dp" (the privacy target), "max" or an object (``airmixml.radio.mixing.PowerPolicy``);
            None takes the first, or the second without ``epsilon``.
        air: what lies between workers and server: a name that `airmix airs` lists, such as "campus", or an ``Air``,
            whose ``also`` takes impairments of your own.
        rounds: slots of clipped gradients after the moments; 0 for none, "auto" for as many as suit the rows.
        image_shape: a row as (height, width), (channels, height, width) or, for a series, (channels, 1, time).
        device: "cpu" or "cuda".
        mode: "protection": noise and schedule come from the operating system's entropy and are forgotten, and the
            fitted object holds only what the privacy statements cover. "simulation": everything follows from
            ``random_state``, for studies with data that are public anyway.
        ledger: file of budgets that last (``airmix ledger create``): a fit that would pass the budget of a worker is
            refused before anything is sent, and what it spends is kept there. ``fit`` must be told who holds each row.
        random_state: seed; in protection only of what is public (the encoder's features, the network's start).
        {keys}

    Attributes:
        classes_: class labels, in sorted order; for several labels at once their numbers.
        privacy_: the privacy statement of the fit, on the powers really used.
        statements_: what every accountant certifies against every adversary for the same fit.
        privacy_against_server_: what the server, who knows the schedule, can learn of the worst worker.
        joint_privacy_: in protection, what all protected fits of this process reveal together about a row that was in
            each, to the server or, where ``adversary`` says so, to everyone. Cross-validation, a grid search and
            repeated fits release rows again. Every fit counts in full, by its settings alone, so that this is an upper
            bound; a ledger has the sharp number. Fits in other processes (``n_jobs``) are counted there.
        energy_joules_: in simulation, energy that all workers together spent.
        mixtures_: what the server received (inputs, labels).
        clipped_values_: in simulation, input values that lay outside ``input_bounds``.
        clipped_samples_: in simulation, rows that were shortened to ``clip_norm``.
        encoder_: the scenario's workers table, with the encoder that ``predict`` applies too.
        model_: the trained model.
    """

    classes: ArrayLike | None = None
    unknown_labels: str = "refuse"

    def _fit(self, X: ArrayLike, y: ArrayLike, worker: ArrayLike | None) -> Self:
        shape = np.asarray(y).shape
        if len(shape) == 2 and shape[1] > 1:
            return self._fit_labels(X, y, worker)
        given = y if self.classes is None or y is None else as_given(y)
        inputs, classes = validated(self, X, given, protected=self._protected)
        declared = self._declared(np.asarray(y).dtype.kind)
        if declared is None:
            check_classification_targets(classes)
            self.classes_, labels, counts = np.unique(classes, return_inverse=True, return_counts=True)
            if len(self.classes_) < 2:
                raise ValueError(f"y holds 1 class (n_samples = {len(labels)}): must hold at least 2 classes")
            if look_measured(counts, numeric=classes.dtype.kind in "iuf", fractional=False):
                raise ValueError(
                    f"y holds {len(self.classes_)} different values in {len(labels)} samples, as measured values do: "
                    "must be classes; to predict numbers use AirMixRegressor"
                )
        else:
            self.classes_ = np.asarray(declared.names)
            labels = declared.numbers(classes.tolist(), "y")
        self._signs: Signs | None = None
        names = tuple(str(name) for name in self.classes_)
        self._mix_and_train(inputs, labels.astype(np.int64), names, worker=worker)
        return self

    def _fit_labels(self, X: ArrayLike, y: ArrayLike, worker: ArrayLike | None) -> Self:
        if self.classes is not None:
            raise ScenarioError(f"classes = {shown(self.classes)}: must be None where y has a column for each label")
        inputs, classes = validated(self, X, y, protected=self._protected, multi_output=True)
        if type_of_target(classes) != "multilabel-indicator" or not np.isin(classes, (0, 1)).all():
            raise DataError("y has several columns: must hold 0 and 1 alone, one column for each label")
        self.classes_ = np.arange(classes.shape[1])
        self._signs = Signs(classes.shape[1])
        names = tuple(f"label {number + 1}" for number in self.classes_)
        self._mix_and_train(inputs, classes.astype(np.int64), names, self._signs, worker)
        return self

    def _declared(self, kind: str) -> DeclaredClasses | None:
        """Return the declared classes, in sorted order as scikit-learn has them; None where ``y`` is to say them.

        ``kind`` is that of the values of ``y``, for an example.
        """
        if self.unknown_labels not in ("refuse", "absent"):
            raise ScenarioError(f"unknown_labels = {shown(self.unknown_labels)}: must be one of refuse, absent")
        if self.classes is not None:
            names = tuple(np.unique(np.asarray(self.classes)).tolist())
            absent, rule = self.unknown_labels == "absent", 'unknown_labels="absent"'
            return DeclaredClasses(names=names, absent=absent, key="classes", rule=rule)
        if self._protected or self.unknown_labels == "absent":
            example = {"i": "[0, 1]", "u": "[0, 1]", "f": "[0, 1]", "b": "[False, True]"}.get(kind, '["no", "yes"]')
            raise ScenarioError(
                f"classes = None: must be declared in protection; add classes={example}, with all labels that there "
                "may be: a class found in y reveals that some row has it"
            )
        return None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each class for clean rows; samples x classes.

        For several labels at once: the probability that each holds; samples x labels.
        """
        check_is_fitted(self, "model_")
        return self._predicted(X, self._signs)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most likely class of each clean row (samples), or 0 and 1 for each label (samples x labels)."""
        probabilities = self.predict_proba(X)
        if self._signs is not None:
            return np.asarray(probabilities > 0.5, dtype=np.int64)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])


@dataclass(kw_only=True, eq=False, repr=False)
class AirMixRegressor(RegressorMixin, AirMixEstimator):  # type: ignore[misc]
    """Regression trained at the edge on over-the-air sums of the rows of ``X`` and their targets.

    Parameters and attributes are those of ``AirMixClassifier``, without its classes, and:

    Parameters:
        target_bounds: (lower, upper) of the targets, each a number or one number per target. Like ``input_bounds`` they
            are declared: targets outside are clipped, and predictions stay inside.
    """

    target_bounds: tuple[ArrayLike, ArrayLike] | None = None

    def _fit(self, X: ArrayLike, y: ArrayLike, worker: ArrayLike | None) -> Self:
        inputs, targets = validated(self, X, y, protected=self._protected, multi_output=True, y_numeric=True)
        self._flat = np.ndim(targets) == 1
        table = np.asarray(targets, dtype=np.float64).reshape(len(targets), -1)
        given = declared_pair("target_bounds", self.target_bounds, "target", ", such as (0, 120) for an age", "y")
        names = ("target_bounds[0]", "target_bounds[1]")
        bounds = declare_bounds(*given, count=table.shape[1], names=names, what="target")
        self._code = Bounded(*(tuple(each.tolist()) for each in bounds))
        outputs = tuple(f"target {number + 1}" for number in range(table.shape[1]))
        self._mix_and_train(inputs, table, outputs, self._code, worker)
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
