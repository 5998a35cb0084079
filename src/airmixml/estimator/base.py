"""What the estimators share: their parameters, and the way from rows to what the server receives.

What needs torch is imported by ``fit`` and ``predict``: who imports an estimator should not wait for it.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from airmixml.arrays import is_series, per_input
from airmixml.data import DataSet, LabelCode, OneHot, RowFormat, declare_bounds, warn_of_clipping
from airmixml.estimator import spending
from airmixml.estimator.checks import bounds_by_name, declared_pair, holders_of, warn_of_measured
from airmixml.messages import AirMixError, ScenarioError, hide_values, shown
from airmixml.registry import naming_objects
from airmixml.scenario import Air, Learner, Mixing, Privacy, Radio, Scenario, Speed, Workers
from airmixml.scenario.rules import Choice
from airmixml.scenario.tables import TABLES
from airmixml.streams import Secret, Streams
from airmixml.workers import Population, RowEncoder, encode, keeps_pixels
from airmixml.workers.encoder import scales_inputs, sends_inputs_unchanged
from airmixml.workers.loading import class_code
from airmixml.workers.population import HOLDINGS_CHAPTER, gather_rows

_MODES: Final = ("protection", "simulation")
_RECIPES: Final = ("private", "paper")
_KEY: Final = re.compile(r"\b(?:workers|radio|mixing|privacy|learner)\.(\w+)")

_Table = TypeVar("_Table", Workers, Radio, Mixing, Privacy, Learner)
_Estimator = TypeVar("_Estimator")


class ReceivedMixtures(NamedTuple):
    """What the edge server received; it holds no sample of any worker."""

    inputs: NDArray[np.float32]  #: slots x features
    labels: NDArray[np.float32]  #: slots x classes, targets or labels


@dataclass(kw_only=True, eq=False, repr=False)  # which sets every parameter as it is given
class AirMixEstimator(BaseEstimator):  # type: ignore[misc]
    """The parameters of all estimators; one that is None takes the value of the recipe's preset."""

    epsilon: float | None = 1.0
    input_bounds: tuple[ArrayLike, ArrayLike] | Mapping[str, tuple[float, float]] | None = None
    recipe: str = "private"
    delta: float | None = None
    adversary: Any = None
    accountant: Any = None
    adjacency: str | None = None
    sensitivity: str | None = None
    encoder: Any = None
    features: int | None = None
    centre: str | None = None
    centre_share: float | None = None
    norm: str | None = None
    clip_norm: float | None = None
    constant: float | None = None
    sends: Any = None
    label_code: str | None = None
    label_weight: float | None = None
    bits: int | None = None
    rows_bound: float | None = None
    max_rows: int | None = None
    max_participations: int | None = None
    alpha: float | None = None
    policy: Any = None
    scheduled: int | None = None
    schedule: Any = None
    slots: int | None = None
    assignment: Any = None
    power: Any = None
    fading: Any = None
    rician_k: float | None = None
    path_loss: Any = None
    path_loss_exponent: float | None = None
    noise_dbm: float | None = None
    max_power_dbm: float | None = None
    noise: Any = None
    arithmetic: str | None = None
    modulus_bits: int | None = None
    sum_range: float | None = None
    above_thermal_db: float | None = None
    mask_degree: int | None = None
    mask_share: float | None = None
    most_absent: float | None = None
    colluders: int | None = None
    air: str | Air | None = None
    model: Any = None
    loss: str | None = None
    shrinkage: float | None = None
    rounds: int | str | None = None
    hidden_units: Sequence[int] | None = None
    image_shape: tuple[int, ...] | None = None
    filters: Sequence[int] | None = None
    kernel_size: int | None = None
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    device: str = "cpu"
    mode: str = "protection"
    ledger: str | Path | None = None
    random_state: int | np.random.RandomState | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.mode == "protection"
        return tags

    @property
    def _protected(self) -> bool:
        return self.mode != "simulation"

    def fit(self, X: ArrayLike, y: ArrayLike, worker: ArrayLike | None = None) -> Self:
        """Mix the rows of ``X`` (samples x features) and their labels ``y`` over the air and train on the mixtures.

        Labels are classes (samples), 0 and 1 where several may hold at once (samples x labels), or targets (samples, or
        samples x targets). ``worker`` (samples) says who holds each row, if one may hold several: the guarantee is then
        one for a worker with all its rows. In protection neither an error nor its cause quotes a value of a row.
        """
        return hide_values(lambda: self._try(X, y, worker), "look at the data themselves", hide=self._protected)

    def _try(self, X: ArrayLike, y: ArrayLike, worker: ArrayLike | None) -> Self:
        """Fit; what is wrong with a scenario's key is said of the parameter that sets it."""
        try:
            return self._fit(X, y, worker)
        except AirMixError as problem:
            problem.args = (_KEY.sub(_parameter, str(problem)),)
            problem.public = _KEY.sub(_parameter, problem.public)
            raise

    def _fit(self, X: ArrayLike, y: ArrayLike, worker: ArrayLike | None) -> Self:
        raise NotImplementedError

    @naming_objects()
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
        from airmixml.edge import simulate, train
        from airmixml.radio.tally import placed_distances

        if self.mode not in _MODES:
            raise ScenarioError(f"mode = {shown(self.mode)}: must be one of {', '.join(_MODES)}")
        protected = self._protected
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        holders, names_of_workers = (None, ()) if worker is None else holders_of(worker, len(labels))
        count = len(labels) if holders is None else int(holders.max()) + 1
        task = OneHot.task if code is None else code.task
        scenario = self._scenario(count, seed, task, several=worker is not None, inputs=inputs.shape[1])
        workers = scenario.workers
        rows = self._row_encoder(workers, inputs.shape[1], seed)
        code = class_code(workers, len(names)) if code is None else code
        warn_of_measured(inputs, rows.row_format.lower, rows.row_format.upper)
        scaled, clipped = rows.scale(inputs)
        unit, shortened = encode(workers, scaled, image_shape=self.image_shape, streams=Streams(seed))
        dataset = DataSet(
            name="X",
            train_inputs=unit,
            train_labels=labels,
            test_inputs=unit[:0],
            test_labels=labels[:0],
            class_names=names,
            image_shape=self.image_shape if keeps_pixels(workers) else None,
            clipped_values=clipped,
            clipped_samples=shortened,
            code=code,
        )
        if not protected:
            warn_of_clipping(dataset.clipped_values, inputs.size, "input_bounds")
        secret = Secret() if protected else None
        picking = Streams(seed, secret).generator("data", HOLDINGS_CHAPTER)
        holdings = None if holders is None else gather_rows(holders, count, workers.max_rows, picking)
        distance_metres = placed_distances(scenario)
        population = Population(distance_metres=distance_metres, sample_index=np.arange(count), holdings=holdings)
        speed = Speed(device=self.device)
        settle = None
        if self.ledger is not None:
            dimensions = dataset.input_dim, dataset.label_dim
            settle = spending.reserve_fit(self.ledger, scenario, dimensions, names_of_workers, self.mode)
        mixtures = simulate(scenario, dataset=dataset, population=population, speed=speed, secret=secret)
        mixtures.report.before_the_draw = protected
        trained = train(mixtures, speed=speed)  # and rounds, if the recipe has any
        if settle is not None:
            settle(mixtures)
        # Scores in float64 do not depend on how many rows are scored together.
        self.model_, self._link = trained.model.cpu().double(), scenario.score_link
        self.privacy_ = mixtures.report.privacy
        self.statements_ = mixtures.report.statements
        self.privacy_against_server_ = mixtures.report.privacy_against_server
        self.mixtures_ = ReceivedMixtures(mixtures.inputs.cpu().numpy(), mixtures.labels.cpu().numpy())
        if protected:
            kept = {"of_rows": worker is None, "ledger": self.ledger is not None}
            self.joint_privacy_ = spending.PROTECTED_FITS.with_fit(scenario, self.statements_, **kept)
        else:
            self.energy_joules_ = mixtures.report.energy_joules
            self.clipped_values_ = dataset.clipped_values
            self.clipped_samples_ = mixtures.dataset.clipped_samples
        self.encoder_ = workers
        self._rows = replace(rows, private_mean=mixtures.dataset.private_mean)

    def _predicted(self, X: ArrayLike, code: LabelCode | None) -> NDArray[np.float64]:
        """Return what the model predicts for clean rows, by the code of its labels; samples x outputs."""
        import torch

        from airmixml.edge import class_scores, predicted

        inputs = validate_data(self, X, reset=False)
        scores = class_scores(self.model_, torch.from_numpy(self._rows.encode(inputs)).double())
        return np.asarray(predicted(scores, self._link, code).numpy())

    def _scenario(
        self, samples: int, seed: int, task: str = OneHot.task, *, several: bool = False, inputs: int = 0
    ) -> Scenario:
        """Return the recipe's preset for so many workers (of several rows each), with the parameters that are given."""
        if self.recipe not in _RECIPES:
            raise ScenarioError(f"recipe = {shown(self.recipe)}: must be one of {', '.join(_RECIPES)}")
        private = "private-table" if self.image_shape is None else "private-images"
        preset = Scenario.preset("paper-iris" if self.recipe == "paper" else private)
        if self.air is not None:
            preset = replace(preset, air=self.air) if isinstance(self.air, Air) else preset.on_air(self.air)
        given: dict[str, Any] = {"dataset": "X", "count": samples, "train_samples": samples, "holding": "dealt"}
        given |= {"input_lower": (), "input_upper": (), "task": task, "worker_column": "worker" if several else ""}
        if self.clip_norm is not None and self.encoder is None and sends_inputs_unchanged(preset.workers):
            given["encoder"] = "clip"
        if self.encoder is None and preset.workers.encoder == "cells" and is_series(self.image_shape):
            given["encoder"] = "windows"
        workers = self._table(preset.workers, **given)
        power = {"power": "max"} if self.epsilon is None and self.power is None else {}
        epsilon = {"epsilon": 1.0} if self.epsilon is None else {}
        bounded = task != OneHot.task or not sends_inputs_unchanged(workers)
        sensitivity = {"sensitivity": "encoder"} if self.sensitivity is None and bounded else {}
        learner = {"loss": "squared"} if task != OneHot.task and self.loss is None else {}
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

    def _table(self, preset: _Table, **given: Any) -> _Table:
        """Return the preset's table with the parameters that are named as its keys are, and what is given."""
        keys = {entry.name for entry in fields(preset)} & {entry.name for entry in fields(AirMixEstimator)}
        chosen = {key: _plain(value) for key in keys if (value := getattr(self, key)) is not None}
        return replace(preset, **chosen | given)

    def _row_encoder(self, workers: Workers, features: int, seed: int) -> RowEncoder:
        """Return what turns rows into what is sent, but for a mean that is estimated over the air."""
        if self.image_shape is not None and math.prod(self.image_shape) != features:
            raise ScenarioError(f"image_shape = {shown(self.image_shape)}: must hold the {features} features of X")
        lower, upper = self._bounds(features) if scales_inputs(workers) else (None, None)
        row_format = RowFormat(width=features, lower=lower, upper=upper, image_shape=self.image_shape)
        return RowEncoder(workers=workers, seed=seed, row_format=row_format)

    def _bounds(self, features: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the declared lower and upper bound of each feature."""
        given = self.input_bounds
        if isinstance(given, Mapping):
            given = bounds_by_name(given, getattr(self, "feature_names_in_", None))
        lower, upper = declared_pair("input_bounds", given, "feature", " (units, ranges of a sensor)", "X")
        below, above = (per_input(bounds, self.image_shape) for bounds in (lower, upper))
        return declare_bounds(below, above, count=features, names=("input_bounds[0]", "input_bounds[1]"))


def documented(estimator: type[_Estimator]) -> type[_Estimator]:
    """Write what the parameters mean that are keys of a scenario in the place of ``{keys}`` in a docstring."""
    text, keys = estimator.__doc__ or "", {key.name: key for table in TABLES.values() for key in fields(table)}
    lines = []
    for each in fields(AirMixEstimator):
        if each.name in keys and f" {each.name}: " not in text:
            rule, doc = keys[each.name].metadata["rule"], keys[each.name].metadata["doc"]
            words = getattr(rule.options, "own", rule.options) if isinstance(rule, Choice) else ()
            lines.append(f"{each.name}: {doc} ({' | '.join(words)})." if words else f"{each.name}: {doc}.")
    estimator.__doc__ = text.replace("{keys}", "\n        ".join(lines))
    return estimator


def _parameter(key: re.Match[str]) -> str:
    """Return the name of the parameter that sets a scenario's key; the key, where none does."""
    return key[1] if key[1] in {entry.name for entry in fields(AirMixEstimator)} else key[0]


def _plain(value: Any) -> Any:
    """Return an array as a list; the scenario's rules judge whatever else it is."""
    return value.tolist() if isinstance(value, np.ndarray) else value
