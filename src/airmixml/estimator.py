"""AirMixML as a scikit-learn classifier: every row of ``X`` is the private sample of one worker."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, NamedTuple, Self, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from airmixml.data import DataSet, declare_bounds, scale_to_unit, warn_of_clipping
from airmixml.edge import class_scores, train
from airmixml.errors import ScenarioError
from airmixml.privacy import PrivacyStatement, gaussian_epsilon
from airmixml.privacy.gaussian import RowLedger
from airmixml.radio import AirReport, simulate
from airmixml.radio.rehearsal import placed_distances
from airmixml.scenario import Learner, Mixing, Privacy, Radio, Scenario, Speed, Workers
from airmixml.streams import Secret, Streams
from airmixml.wording import shown
from airmixml.workers import Population, encode, encode_centred, keeps_pixels, sends_inputs_unchanged
from airmixml.workers.loading import class_code

_MODES: Final = ("protection", "simulation")
_RECIPES: Final[dict[str, Callable[[object], str]]] = {
    "private": lambda image_shape: "private-table" if image_shape is None else "private-images",
    "paper": lambda _: "paper-iris",
}
_ROWS: Final = RowLedger()

_Table = TypeVar("_Table", Workers, Radio, Mixing, Privacy, Learner)


class ReceivedMixtures(NamedTuple):
    """What the edge server received; it holds no sample of any worker.

    Attributes:
        inputs: slots x features.
        labels: slots x classes.
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
    encoder: str | None = None
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
    image_shape: tuple[int, int] | None = None
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

    def _mix_and_train(self, inputs: NDArray[Any], labels: NDArray[np.int64], class_names: tuple[str, ...]) -> None:
        """Send the rows (samples x features) over the air, train on what is received, and keep what may be kept."""
        if self.mode not in _MODES:
            raise ScenarioError(f"mode = {shown(self.mode)}: must be one of {', '.join(_MODES)}")
        protected = self.mode == "protection"
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        scenario = self._scenario(len(labels), seed)
        workers = scenario.workers
        dataset = self._dataset(inputs, labels, class_names, workers, seed)
        if not protected:
            warn_of_clipping(dataset.clipped_values, inputs.size, "input_bounds")
        population = Population(distance_metres=placed_distances(scenario), sample_index=np.arange(len(labels)))
        speed = Speed(device=self.device)
        secret = Secret() if protected else None
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
            self.joint_privacy_ = _state_jointly(np.ascontiguousarray(inputs), mixtures.report)
        else:
            self.energy_joules_ = mixtures.report.energy_joules
            self.clipped_values_ = dataset.clipped_values
            self.clipped_samples_ = mixtures.dataset.clipped_samples
        self.encoder_ = workers
        self._seed, self._private_mean = seed, mixtures.dataset.private_mean

    def _scores(self, X: ArrayLike) -> torch.Tensor:
        """Return the model's scores of clean rows; samples x outputs."""
        check_is_fitted(self)
        inputs = validate_data(self, X, reset=False)
        scaled, _ = scale_to_unit(inputs, *self._bounds(inputs.shape[1]))
        unit, _ = encode(self.encoder_, scaled, image_shape=self.image_shape, streams=Streams(self._seed))
        if self._private_mean is not None:
            unit, _ = encode_centred(self.encoder_, unit - self._private_mean, Streams(self._seed))
        return class_scores(self.model_, torch.from_numpy(unit).double())

    def _scenario(self, samples: int, seed: int) -> Scenario:
        """Return the recipe's preset for so many workers, with the parameters that are given."""
        if self.recipe not in _RECIPES:
            raise ScenarioError(f"recipe = {shown(self.recipe)}: must be one of {', '.join(_RECIPES)}")
        preset = Scenario.preset(_RECIPES[self.recipe](self.image_shape))
        given: dict[str, Any] = {"dataset": "X", "count": samples, "train_samples": samples, "holding": "dealt"}
        given |= {"input_lower": (), "input_upper": ()}
        if self.clip_norm is not None and self.encoder is None and sends_inputs_unchanged(preset.workers):
            given["encoder"] = "clip"
        workers = self._table(preset.workers, **given)
        power = {"power": "max"} if self.epsilon is None else {}
        epsilon = {"epsilon": 1.0} if self.epsilon is None else {}
        unchanged = self.sensitivity is None and not sends_inputs_unchanged(workers)
        sensitivity = {"sensitivity": "encoder"} if unchanged else {}
        scheduled = {} if self.scheduled is None else {"scheduled": min(self.scheduled, samples)}
        return replace(
            preset,
            name=type(self).__name__,
            seed=seed,
            workers=workers,
            radio=self._table(preset.radio, **scheduled),
            mixing=self._table(preset.mixing, **power),
            privacy=self._table(preset.privacy, **epsilon, **sensitivity),
            learner=self._table(preset.learner),
        ).settled(samples)

    def _table(self, preset: _Table, **given: Any) -> _Table:
        """Return the preset's table with the parameters that are named as its keys are, and what is given."""
        keys = {entry.name for entry in fields(preset)} & {entry.name for entry in fields(AirMixEstimator)}
        chosen = {key: _plain(value) for key in keys if (value := getattr(self, key)) is not None}
        return replace(preset, **chosen | given)

    def _dataset(
        self,
        inputs: NDArray[Any],
        labels: NDArray[np.int64],
        class_names: tuple[str, ...],
        workers: Workers,
        seed: int,
    ) -> DataSet:
        features = inputs.shape[1]
        if self.image_shape is not None and math.prod(self.image_shape) != features:
            raise ScenarioError(f"image_shape = {shown(self.image_shape)}: must hold the {features} features of X")
        scaled, clipped = scale_to_unit(inputs, *self._bounds(features))
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
            code=class_code(workers, len(class_names)),
        )

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
        return declare_bounds(lower.tolist(), upper.tolist(), features=features, **names)


@dataclass(kw_only=True, eq=False, repr=False)
class AirMixClassifier(ClassifierMixin, AirMixEstimator):
    """Classifier trained at the edge on over-the-air mixtures of the rows of ``X``.

    Each row is held by one worker, placed at random in a 500 m square. The channel adds up what they send and the
    receiver's noise hides them; the server trains on the sums alone.

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
        encoder: what a worker computes of its row; `airmix plugins` lists the names.
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
        image_shape: (height, width) of the rows as images.
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
        classes_: class labels.
        privacy_: the privacy statement of the fit, on the powers really used.
        statements_: what every accountant certifies against every adversary for the same fit.
        privacy_against_server_: what the server, who knows the schedule, can learn of the worst worker.
        energy_joules_: in simulation, energy that all workers together spent.
        joint_privacy_: in protection, what all protected fits of this process together reveal of a row of ``X`` to the
            server, exactly: cross-validation, a grid search and repeated fits each release the same rows again.
            Other processes (``n_jobs``) count for themselves.
        mixtures_: what the server received (inputs, labels).
        clipped_values_: in simulation, input values that lay outside ``input_bounds``.
        clipped_samples_: in simulation, rows that were shortened to ``clip_norm``.
        encoder_: the scenario's workers table, with the encoder that ``predict`` applies too.
        model_: the trained model.
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Mix the rows of ``X`` (samples x features) and their classes ``y`` over the air and train on the mixtures."""
        inputs, classes = validate_data(self, X, y)
        check_classification_targets(classes)
        self.classes_, labels = np.unique(classes, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y holds 1 class (n_samples = {len(labels)}): must hold at least 2 classes")
        self._mix_and_train(inputs, labels.astype(np.int64), tuple(str(name) for name in self.classes_))
        return self

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each class for clean rows; samples x classes."""
        return np.asarray(torch.softmax(self._scores(X), dim=1).numpy())

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most likely class of each clean row; samples."""
        most_likely = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[most_likely])


def _state_jointly(inputs: NDArray[Any], report: AirReport) -> PrivacyStatement:
    """Return what this and all earlier protected fits reveal together of a row that was in most of them."""
    rows = (row.tobytes() for row in inputs)
    fits, squared_mu = _ROWS.add(rows, report.squared_mu())
    alone, delta = report.privacy_against_server, report.scenario.privacy.delta
    together = f"{fits} protected fit{'s' if fits > 1 else ''} of the same rows in this process: mu^2 add up"
    epsilon = gaussian_epsilon(math.sqrt(squared_mu), delta)
    return replace(alone, epsilon=epsilon, delta=delta, unit="row", why=together)


def _plain(value: Any) -> Any:
    """Return an array as a list; the scenario's rules judge whatever else it is."""
    return value.tolist() if isinstance(value, np.ndarray) else value
