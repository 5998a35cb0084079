"""AirMixML as scikit-learn estimators: a row of ``X`` is the private sample of one worker, or one of several.

What needs torch is imported by ``fit`` and ``predict``: who imports an estimator should not wait for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from airmixml.data import (
    Bounded,
    DataSet,
    LabelCode,
    OneHot,
    RowFormat,
    Signs,
    declare_bounds,
    declare_target_bounds,
    warn_of_clipping,
)
from airmixml.data.labels import look_measured, number_holders
from airmixml.errors import ScenarioError
from airmixml.privacy import PrivacyStatement, gaussian_epsilon
from airmixml.privacy.gaussian import RowLedger
from airmixml.scenario import Learner, Mixing, Privacy, Radio, Scenario, Speed, Workers
from airmixml.shapes import is_series, per_input
from airmixml.streams import Secret, Streams
from airmixml.wording import shown
from airmixml.workers import (
    Encoder,
    Population,
    RowEncoder,
    encode,
    keeps_pixels,
    scales_inputs,
    sends_inputs_unchanged,
)
from airmixml.workers.holdings import gather_rows
from airmixml.workers.loading import class_code
from airmixml.workers.population import HOLDINGS_CHAPTER

if TYPE_CHECKING:
    from airmixml.radio import AirReport

_MODES: Final = ("protection", "simulation")
_RECIPES: Final = ("private", "paper")
_ROWS: Final = RowLedger()

_Table = TypeVar("_Table", Workers, Radio, Mixing, Privacy, Learner)


class ReceivedMixtures(NamedTuple):
    """What the edge server received; it holds no sample of any worker.

    Attributes:
        inputs: slots x features.
        labels: slots x classes, targets or labels.
    """

    inputs: NDArray[np.float32]
    labels: NDArray[np.float32]


@dataclass(kw_only=True, eq=False, repr=False)  # which sets every parameter as it is given
class AirMixEstimator(BaseEstimator):
    """What the estimators share: their parameters, and the way from rows to what the server receives.

    A parameter that is None takes the value of the recipe's preset.
    """

    epsilon: float | None = 1.0
    input_bounds: tuple[ArrayLike, ArrayLike] | None = None
    recipe: str = "private"
    delta: float | None = None
    adversary: str | None = None
    accountant: str | None = None
    adjacency: str | None = None
    sensitivity: str | None = None
    encoder: str | Encoder | None = None
    features: int | None = None
    centre: str | None = None
    centre_share: float | None = None
    norm: str | None = None
    clip_norm: float | None = None
    constant: float | None = None
    sends: str | None = None
    label_code: str | None = None
    label_weight: float | None = None
    bits: int | None = None
    rows_bound: float | None = None
    max_rows: int | None = None
    max_participations: int | None = None
    alpha: float | None = None
    policy: str | None = None
    scheduled: int | None = None
    schedule: str | None = None
    slots: int | None = None
    assignment: str | None = None
    fading: str | None = None
    rician_k: float | None = None
    path_loss_exponent: float | None = None
    noise_dbm: float | None = None
    max_power_dbm: float | None = None
    model: str | None = None
    loss: str | None = None
    shrinkage: float | None = None
    hidden_units: Sequence[int] | None = None
    image_shape: tuple[int, ...] | None = None
    filters: Sequence[int] | None = None
    kernel_size: int | None = None
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    device: str = "cpu"
    mode: str = "protection"
    random_state: int | np.random.RandomState | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.mode == "protection"
        return tags

    def _mix_and_train(
        self,
        inputs: NDArray[Any],
        labels: NDArray[Any],
        names: tuple[str, ...],
        code: LabelCode | None = None,
        worker: ArrayLike | None = None,
    ) -> None:
        """Send the rows (samples x features) over the air, train on what is received, and keep what may be kept.

        Labels are class numbers, or samples x outputs with the code by which they are sent; each has a name. ``worker``
        says who holds each row, if one may hold several.
        """
        from airmixml.edge import train
        from airmixml.radio import simulate
        from airmixml.radio.rehearsal import placed_distances

        if self.mode not in _MODES:
            raise ScenarioError(f"mode = {shown(self.mode)}: must be one of {', '.join(_MODES)}")
        protected = self.mode == "protection"
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        holders = None if worker is None else _holders(worker, len(labels))
        count = len(labels) if holders is None else int(holders.max()) + 1
        task = OneHot.task if code is None else code.task
        scenario = self._scenario(count, seed, task, several=worker is not None, inputs=inputs.shape[1])
        workers = scenario.workers
        code = class_code(workers, len(names)) if code is None else code
        dataset = replace(self._dataset(inputs, labels, names, workers, seed), code=code)
        if not protected:
            warn_of_clipping(dataset.clipped_values, inputs.size, "input_bounds")
        secret = Secret() if protected else None
        picking = Streams(seed, secret).generator("data", HOLDINGS_CHAPTER)
        holdings = None if holders is None else gather_rows(holders, count, workers.max_rows, picking)
        distance_metres = placed_distances(scenario)
        population = Population(distance_metres=distance_metres, sample_index=np.arange(count), holdings=holdings)
        speed = Speed(device=self.device)
        mixtures = simulate(scenario, dataset=dataset, population=population, speed=speed, secret=secret)
        mixtures.report.before_the_draw = protected
        trained = train(mixtures, speed=speed)
        # Scores in float64 do not depend on how many rows are scored together.
        self.model_ = trained.model.cpu().double()
        self.privacy_ = mixtures.report.privacy
        self.statements_ = mixtures.report.statements
        self.privacy_against_server_ = mixtures.report.privacy_against_server
        self.mixtures_ = ReceivedMixtures(mixtures.inputs.cpu().numpy(), mixtures.labels.cpu().numpy())
        if protected:
            self.joint_privacy_ = _state_jointly(np.ascontiguousarray(inputs), mixtures.report, worker)
        else:
            self.energy_joules_ = mixtures.report.energy_joules
            self.clipped_values_ = dataset.clipped_values
            self.clipped_samples_ = mixtures.dataset.clipped_samples
        self.encoder_ = workers
        self._rows = replace(
            self._row_encoder(workers, inputs.shape[1], seed), private_mean=mixtures.dataset.private_mean
        )

    def _predicted(self, X: ArrayLike, code: LabelCode | None) -> NDArray[np.float64]:
        """Return what the model predicts for clean rows, by the code of its labels; samples x outputs."""
        import torch

        from airmixml.edge import class_scores, predicted

        inputs = validate_data(self, X, reset=False)
        scores = class_scores(self.model_, torch.from_numpy(self._rows.encode(inputs)).double())
        return np.asarray(predicted(scores, code).numpy())

    def _scenario(
        self, samples: int, seed: int, task: str = OneHot.task, *, several: bool = False, inputs: int = 0
    ) -> Scenario:
        """Return the recipe's preset for so many workers (of several rows each), with the parameters that are given."""
        if self.recipe not in _RECIPES:
            raise ScenarioError(f"recipe = {shown(self.recipe)}: must be one of {', '.join(_RECIPES)}")
        preset = Scenario.preset(self._preset())
        given: dict[str, Any] = {"dataset": "X", "count": samples, "train_samples": samples, "holding": "dealt"}
        given |= {"input_lower": (), "input_upper": (), "task": task, "worker_column": "worker" if several else ""}
        learner: dict[str, Any] = {}
        if self.clip_norm is not None and self.encoder is None and sends_inputs_unchanged(preset.workers):
            given["encoder"] = "clip"
        if self.encoder is None and preset.workers.encoder == "cells" and is_series(self.image_shape):
            given["encoder"] = "windows"
        workers = self._table(preset.workers, **given)
        power = {"power": "max"} if self.epsilon is None else {}
        epsilon = {"epsilon": 1.0} if self.epsilon is None else {}
        bounded = task != OneHot.task or not sends_inputs_unchanged(workers)
        sensitivity = {"sensitivity": "encoder"} if self.sensitivity is None and bounded else {}
        if task != OneHot.task and self.loss is None:
            learner["loss"] = "squared"
        scheduled = {} if self.scheduled is None else {"scheduled": min(self.scheduled, samples)}
        return replace(
            preset,
            name=type(self).__name__,
            seed=seed,
            workers=workers,
            radio=self._table(preset.radio, **scheduled),
            mixing=self._table(preset.mixing, **power),
            privacy=self._table(preset.privacy, **epsilon, **sensitivity),
            learner=self._table(preset.learner, **learner),
        ).settled(samples, inputs)

    def _preset(self) -> str:
        """Return the preset of the recipe."""
        if self.recipe == "paper":
            return "paper-iris"
        if self.image_shape is not None:
            return "private-images"
        return "private-table"

    def _table(self, preset: _Table, **given: Any) -> _Table:
        """Return the preset's table with the parameters that are named as its keys are, and what is given."""
        keys = {entry.name for entry in fields(preset)} & {entry.name for entry in fields(AirMixEstimator)}
        chosen = {key: _plain(value) for key in keys if (value := getattr(self, key)) is not None}
        return replace(preset, **chosen | given)

    def _dataset(
        self,
        inputs: NDArray[Any],
        labels: NDArray[Any],
        class_names: tuple[str, ...],
        workers: Workers,
        seed: int,
    ) -> DataSet:
        features = inputs.shape[1]
        if self.image_shape is not None and math.prod(self.image_shape) != features:
            raise ScenarioError(f"image_shape = {shown(self.image_shape)}: must hold the {features} features of X")
        scaled, clipped = self._row_encoder(workers, features, seed).scale(inputs)
        unit, shortened = encode(workers, scaled, image_shape=self.image_shape, streams=Streams(seed))
        return DataSet(
            name="X",
            train_inputs=unit,
            train_labels=labels,
            test_inputs=unit[:0],
            test_labels=labels[:0],
            class_names=class_names,
            image_shape=self.image_shape if keeps_pixels(workers) else None,
            clipped_values=clipped,
            clipped_samples=shortened,
        )

    def _row_encoder(self, workers: Workers, features: int, seed: int) -> RowEncoder:
        """Return what turns rows into what is sent, but for a mean that is estimated over the air."""
        lower, upper = self._bounds(features) if scales_inputs(workers) else (None, None)
        row_format = RowFormat(width=features, lower=lower, upper=upper, image_shape=self.image_shape)
        given = None if isinstance(self.encoder, str) else self.encoder
        return RowEncoder(workers=workers, seed=seed, row_format=row_format, given=given)

    def _bounds(self, features: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the declared lower and upper bound of each feature."""
        if self.input_bounds is None:
            raise ScenarioError(
                "input_bounds = None: must be a pair (lower, upper), each a number or one number per feature; declare "
                "what you know beforehand (units, ranges of a sensor): bounds measured on X would leak it"
            )
        try:
            lower, upper = (np.atleast_1d(np.asarray(bound, dtype=np.float64)) for bound in self.input_bounds)
        except (TypeError, ValueError):
            given = shown(self.input_bounds)
            raise ScenarioError(f"input_bounds = {given}: must be a pair (lower, upper) of numbers") from None
        names = {"lower_name": "input_bounds[0]", "upper_name": "input_bounds[1]"}
        below, above = (per_input(bounds.tolist(), self.image_shape) for bounds in (lower, upper))
        return declare_bounds(below, above, features=features, **names)


@dataclass(kw_only=True, eq=False, repr=False)
class AirMixClassifier(ClassifierMixin, AirMixEstimator):
    """Classifier trained at the edge on over-the-air mixtures of the rows of ``X``.

    Each row is held by one worker, placed at random in a 500 m square; ``fit`` can be told which rows are one worker's.
    The channel adds up what they send and the receiver's noise hides them; the server trains on the sums alone.

    Only ``epsilon`` and ``input_bounds`` need a thought. Every parameter that is None is the recipe's.

    Parameters:
        epsilon: privacy target of each worker, or None to send with maximum power, which protects nobody.
        input_bounds: (lower, upper) of the inputs, each a number or one number per feature. They are declared, not
            measured, because measuring them would leak private data; values outside are clipped.
        recipe: "private" (the presets ``private-table`` and, with ``image_shape``, ``private-images``: all workers send
            moments in one slot, the target holds against the server, a linear model in closed form) or "paper" (the
            preset ``paper-iris``: many slots of a few samples, the paper's bound, a network).
        delta: the target's delta; None takes a tenth of 1 / samples with the private recipe.
        adversary: whom the target is against: "release" (sees all mixtures, knows no schedule), "server" or
            "eavesdropper" (ten metres from a worker; others need a scenario).
        accountant: the bound by which it is met: "paper-loose" (Proposition 2 of the paper), "paper-tight", "rdp",
            "pld" or, against the server, "gdp".
        adjacency: "replace-one" or "remove-one".
        sensitivity: "paper" (d_X + d_Y) or "encoder" (what the encoder declares, which allows more power); None takes
            "encoder" where the encoder bounds a norm.
        encoder: what a worker computes of its row: a name that `airmix plugins` lists, "onnx:FILE",
            "torchscript:FILE", or an object of one's own (``airmixml.workers.Encoder``, ``TorchEncoder``).
        features: numbers that a feature encoder makes of a row (0: its own choice).
        centre: what is subtracted from the features: "none", "own", "public", "private" or "refined".
        centre_share: of the last two, the share of the privacy target that is spent on it.
        norm: "clip" or "unit", all rows brought to ``clip_norm``.
        clip_norm: largest Euclidean norm of an encoded row that is sent.
        constant: share of the amplitude that an appended constant takes; moments need it to know means.
        sends: "samples", or "moments" for the learners in closed form.
        label_code: "one-hot", or "centred" for moments of classes, which takes less noise.
        label_weight: amplitude of the label's symbols beside that of the input's.
        bits: bits per symbol (0: analog).
        rows_bound: where a worker holds several rows, its sum is shortened to the norm of so many.
        max_rows: most rows of a worker that enter (0: all).
        max_participations: most slots that one worker may send in (0: any number).
        alpha: dispersion of the mixing ratios; small: one worker dominates, large: equal shares.
        policy: "dirmix", "nonmix" or "equalmix".
        scheduled: workers per slot (at most all; 0: all).
        schedule: "fixed", or "poisson": each worker by its own coin.
        slots: number of mixtures.
        assignment: "random" or "max-min".
        fading: "none", "rayleigh" or "rician" with ``rician_k``.
        rician_k: Rician factor K.
        path_loss_exponent: n.
        noise_dbm: receiver noise power.
        max_power_dbm: power limit of each worker.
        model: "mlp", with ``image_shape`` "cnn", or in closed form "ridge" and "lda".
        loss: of the networks: "cross-entropy", "squared" or "brier".
        shrinkage: of the learners in closed form: the assumed noise level, as a multiple of the known one.
        hidden_units: sizes of the hidden dense layers.
        image_shape: a row as (height, width), (channels, height, width) or, for a series, (channels, 1, time).
        filters: filters of each convolution of the cnn.
        kernel_size: side of those filters.
        epochs: passes over the mixtures.
        batch_size: mixtures per step.
        learning_rate: Adam's step size.
        device: "cpu" or "cuda".
        mode: "protection": noise and schedule come from the operating system's entropy and are forgotten, and the
            fitted object holds only what the privacy statements cover. "simulation": everything follows from
            ``random_state``, for studies with data that are public anyway.
        random_state: seed; in protection only of what is public (the encoder's features, the network's start).

    Attributes:
        classes_: class labels; for several labels at once their numbers.
        privacy_: the privacy statement of the fit, on the powers really used.
        statements_: what every accountant certifies against every adversary for the same fit.
        privacy_against_server_: what the server, who knows the schedule, can learn of the worst worker.
        energy_joules_: in simulation, energy that all workers together spent.
        joint_privacy_: in protection, what all protected fits of this process together reveal of a row of ``X`` to the
            server, exactly: cross-validation, a grid search and repeated fits each release the same rows again.
            Rows are the same where all their numbers are: other columns, units or processes (``n_jobs``) of the same
            people count for themselves, so that it is then a lower bound.
        mixtures_: what the server received (inputs, labels).
        clipped_values_: in simulation, input values that lay outside ``input_bounds``.
        clipped_samples_: in simulation, rows that were shortened to ``clip_norm``.
        encoder_: the scenario's workers table, with the encoder that ``predict`` applies too.
        model_: the trained model.
    """

    def fit(self, X: ArrayLike, y: ArrayLike, worker: ArrayLike | None = None) -> Self:
        """Mix the rows of ``X`` (samples x features) and their classes ``y`` over the air and train on the mixtures.

        Where several labels may hold at once, ``y`` is samples x labels of 0 and 1. ``worker`` (samples) says who holds
        each row, if one may hold several: the guarantee is then one for a worker with all its rows.
        """
        shape = np.asarray(y).shape
        several = len(shape) == 2 and shape[1] > 1
        inputs, classes = validate_data(self, X, y, multi_output=several)
        check_classification_targets(classes)
        if several:
            if type_of_target(classes) != "multilabel-indicator" or not np.isin(classes, (0, 1)).all():
                raise ValueError("y has several columns: must hold 0 and 1 alone, one column for each label")
            self.classes_ = np.arange(classes.shape[1])
            self._signs: Signs | None = Signs(classes.shape[1])
            names = tuple(f"label {number + 1}" for number in self.classes_)
            self._mix_and_train(inputs, classes.astype(np.int64), names, self._signs, worker)
            return self
        self.classes_, labels, counts = np.unique(classes, return_inverse=True, return_counts=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y holds 1 class (n_samples = {len(labels)}): must hold at least 2 classes")
        if look_measured(counts, numeric=classes.dtype.kind in "iuf", fractional=False):
            raise ValueError(
                f"y holds {len(self.classes_)} different values in {len(labels)} samples, as measured values do: must "
                "be classes; to predict numbers use AirMixRegressor"
            )
        self._signs = None
        names = tuple(str(name) for name in self.classes_)
        self._mix_and_train(inputs, labels.astype(np.int64), names, worker=worker)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each class for clean rows; samples x classes.

        For several labels at once: the probability that each holds; samples x labels.
        """
        check_is_fitted(self)
        return self._predicted(X, self._signs)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most likely class of each clean row (samples), or 0 and 1 for each label (samples x labels)."""
        probabilities = self.predict_proba(X)
        if self._signs is not None:
            return np.asarray(probabilities > 0.5, dtype=np.int64)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])


@dataclass(kw_only=True, eq=False, repr=False)
class AirMixRegressor(RegressorMixin, AirMixEstimator):
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
        inputs, targets = validate_data(self, X, y, multi_output=True, y_numeric=True)
        self._flat = np.ndim(targets) == 1
        table = np.asarray(targets, dtype=np.float64).reshape(len(targets), -1)
        self._code = Bounded(*self._target_bounds(table.shape[1]))
        names = tuple(f"target {number + 1}" for number in range(table.shape[1]))
        self._mix_and_train(inputs, table, names, self._code, worker)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the targets of clean rows, within their bounds; samples, or samples x targets."""
        check_is_fitted(self)
        found = self._predicted(X, self._code)
        return found[:, 0] if self._flat else found

    def _target_bounds(self, targets: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return the declared lower and upper bound of each target."""
        if self.target_bounds is None:
            raise ScenarioError(
                "target_bounds = None: must be a pair (lower, upper), each a number or one number per target; declare "
                "what you know beforehand, such as (0, 120) for an age: bounds measured on y would leak it"
            )
        try:
            lower, upper = (np.atleast_1d(np.asarray(bound, dtype=np.float64)).tolist() for bound in self.target_bounds)
        except (TypeError, ValueError):
            given = shown(self.target_bounds)
            raise ScenarioError(f"target_bounds = {given}: must be a pair (lower, upper) of numbers") from None
        return declare_target_bounds(lower, upper, targets=targets, names=("target_bounds[0]", "target_bounds[1]"))


def _holders(worker: ArrayLike, samples: int) -> NDArray[np.int64]:
    """Return the number of the worker that holds each row; shape samples."""
    given = np.asarray(worker)
    if given.shape != (samples,):
        raise ScenarioError(
            f"worker has the shape {shown(given.shape)}: must be ({samples},), the worker of each row of X"
        )
    return number_holders(given, "worker")


def _state_jointly(inputs: NDArray[Any], report: AirReport, worker: ArrayLike | None = None) -> PrivacyStatement:
    """Return what this and all earlier protected fits reveal together of a row that was in most of them.

    Where ``worker`` says who holds each row, it is a worker with all its rows, known by its name. Rows count as the
    same where all their numbers are, as float32; other columns of the same people are not recognised.
    """
    names = [row.tobytes() for row in inputs.astype(np.float32) + np.float32(0.0)]  # -0.0 becomes 0.0
    if worker is not None:
        names += [
            f"worker {name:g}".encode() if isinstance(name, Real) else f"worker {name}".encode()
            for name in np.unique(np.asarray(worker)).tolist()
        ]
    fits, squared_mu = _ROWS.add(names, report.squared_mu())
    alone, delta = report.privacy_against_server, report.scenario.privacy.delta
    held = "rows" if worker is None else "workers"
    together = f"{fits} protected fit{'s' if fits > 1 else ''} of the same {held} in this process: mu^2 add up"
    epsilon = gaussian_epsilon(math.sqrt(squared_mu), delta)
    return replace(alone, epsilon=epsilon, delta=delta, unit=held[:-1], why=together)


def _plain(value: Any) -> Any:
    """Return an array as a list; the scenario's rules judge whatever else it is."""
    return value.tolist() if isinstance(value, np.ndarray) else value
