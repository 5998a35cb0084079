"""A learner's network, the values it starts from, and Adam on Eq. (opt) for one network or a stack of them."""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from numpy.typing import NDArray
from torch import nn

from airmixml.arrays import ImageShape
from airmixml.data import DataSet
from airmixml.devices import find_device, physical_memory_bytes, using_threads
from airmixml.edge.adam import Adam
from airmixml.edge.scoring import LEADING, leading_score, test_scores
from airmixml.edge.stack import NetworkStack, can_be_stacked
from airmixml.edge.steps import make_epoch
from airmixml.errors import AirMixError, PluginError, ScenarioError
from airmixml.progress import Progress, silent
from airmixml.registries import LEARNERS
from airmixml.scenario import Learner, Speed
from airmixml.streams import Streams
from airmixml.wording import reason, shown

_SCORED_AT_ONCE = 1000
_FEWEST_SCORED_AT_ONCE = 100
_WORTH_WAKING = 100_000_000
_TRIED_ROWS = 2


class Checkpoint(Protocol):
    """Keeps the state of an interrupted training."""

    def load(self, like: dict[str, Any]) -> dict[str, Any] | None:
        """Return the last saved state, or None; it has the names and shapes of ``like``, the state at the start."""

    def save(self, state: dict[str, Any]) -> None:
        """Keep the state."""


@dataclass(kw_only=True)
class TrainingHistory:
    """Loss on the mixtures and accuracy on the clean test set after each epoch (empty without a test set).

    A learner in closed form has no loss and one accuracy, and that of each class. Tasks without accuracy have a
    ``test_score`` instead (``score_name``), and all ``scores`` of the last epoch (``edge/scoring.py``).
    """

    loss: list[float] = field(default_factory=list)
    test_accuracy: list[float] = field(default_factory=list)
    class_accuracy: list[float] = field(default_factory=list)
    class_names: list[str] = field(default_factory=list)
    score_name: str = "accuracy"
    test_score: list[float] = field(default_factory=list)
    scores: dict[str, float] = field(default_factory=dict)
    predicted: NDArray[Any] | None = field(default=None, compare=False, repr=False)  # test samples (x outputs)

    def rows(self) -> list[dict[str, Any]]:
        """Return the curve as a table: loss and score of each epoch from 1 on, or of each round from 0 on."""
        scored = self.test_accuracy or self.test_score
        columns: dict[str, Sequence[Any]] = {
            "training_loss": self.loss,
            f"test_{self.score_name}": scored,
        }
        present = {name: values for name, values in columns.items() if values}
        steps, first = max(map(len, present.values()), default=0), 0 if self.in_rounds else 1
        step = "round" if self.in_rounds else "epoch"
        return [{step: first + at, **{name: each[at] for name, each in present.items()}} for at in range(steps)]

    @property
    def in_rounds(self) -> bool:
        """Whether what it has scored are the first model and that after each round of gradients."""
        return bool(self.class_names) and len(self.test_accuracy or self.test_score) > 1

    @property
    def final_accuracy(self) -> float:
        """Accuracy of the model after the last epoch: the figure to trust."""
        return self.test_accuracy[-1]

    @property
    def best_accuracy(self) -> float:
        """Accuracy of the best epoch. It is picked on the test set, so it flatters."""
        return max(self.test_accuracy)

    @property
    def best_epoch(self) -> int:
        """Number of the best epoch, counted from 1."""
        return self.test_accuracy.index(self.best_accuracy) + 1


def build_model(learner: Learner, input_dim: int, label_dim: int, image_shape: ImageShape) -> nn.Sequential:
    """Return the learner's network, batch x input_dim to batch x label_dim, its values not set (``initialise``)."""
    with torch.device("meta"):  # torch's own initial values would be drawn from its global random state
        model: nn.Sequential = LEARNERS.make(learner.model).build(learner, input_dim, label_dim, image_shape)
        if learner.model not in LEARNERS.own:
            _check_shapes(learner, model, input_dim, label_dim)
    _check_size(learner, model)
    # Not ``to_empty``: it imports SymPy, which takes longer than a small training.
    for module in model.modules():
        for name, value in list(module.named_parameters(recurse=False)):
            empty = torch.empty(value.shape, dtype=value.dtype)
            setattr(module, name, nn.Parameter(empty, requires_grad=value.requires_grad))
        for name, buffer in list(module.named_buffers(recurse=False)):
            setattr(module, name, torch.empty(buffer.shape, dtype=buffer.dtype))
    return model


def _check_shapes(learner: Learner, model: nn.Module, input_dim: int, label_dim: int) -> None:
    """Refuse what is no network, or one that does not turn inputs into as many scores as there are labels."""
    named = f"learner.model = {shown(learner.model)}"
    if not isinstance(model, nn.Sequential):
        raise PluginError(f"{named}: its build returns {shown(model)}; must return a network, torch.nn.Sequential")
    inputs, wanted = torch.zeros(_TRIED_ROWS, input_dim), (_TRIED_ROWS, label_dim)
    taken = f"inputs of shape {tuple(inputs.shape)}"
    try:
        made = tuple(model(inputs).shape)
    except Exception as problem:  # whatever the layers of a user do
        raise PluginError(f"{named}: its network takes no {taken} ({reason(problem)}); correct its build") from problem
    if made != wanted:
        raise PluginError(f"{named}: its network makes scores of shape {made} of {taken}; must make {wanted}")


def _check_size(learner: Learner, model: nn.Module) -> None:
    """Refuse a network that this machine cannot hold: parameters, gradients and Adam's two moments in float32."""
    needed = 4 * 4 * sum(parameter.numel() for parameter in model.parameters())
    if needed > physical_memory_bytes():
        raise ScenarioError(
            f"learner.hidden_units = {list(learner.hidden_units)}: needs {needed / 1e9:.0f} GB of memory, "
            f"this machine has {physical_memory_bytes() / 1e9:.0f} GB; use smaller layers"
        )


def initialise(model: nn.Module, generator: torch.Generator) -> None:
    """Set Glorot-uniform weights and zero biases, drawn on the CPU so that every device starts from the same point."""
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            nn.init.xavier_uniform_(module.weight, generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif [*module.parameters(recurse=False), *module.buffers(recurse=False)]:
            raise ScenarioError(
                f"learner.model: its network has a layer {type(module).__name__}, for which no initial values are "
                "defined; use layers with values of type Linear and Conv2d only"
            )


def start_network(learner: Learner, dataset: DataSet, seed: int) -> nn.Sequential:
    """Return the learner's network with the initial values of the seed."""
    network = build_model(learner, dataset.input_dim, dataset.label_dim, dataset.image_shape)
    first_draw = int(Streams(seed).generator("training").integers(2**63 - 1))
    initialise(network, torch.Generator().manual_seed(first_draw))
    return network


def fit(
    model: nn.Module,
    learner: Learner,
    datasets: Sequence[DataSet],
    inputs: torch.Tensor,
    labels: torch.Tensor,
    *,
    seeds: Sequence[int],
    speed: Speed | None = None,
    progress: Progress = silent,
    checkpoint: Checkpoint | None = None,
) -> list[TrainingHistory]:
    """Train in place and return each network's history; the order of the mixtures in each epoch follows from the seed.

    Networks of a stack share one data set and one seed, or each has its own. Mixtures are (networks x) slots x symbols.
    """
    speed = speed or Speed()
    streams, device, slots = [Streams(seed) for seed in seeds], find_device(speed.device), inputs.shape[-2]
    model.to(device)
    threads = speed.threads or _useful_threads(model, learner.batch_size, inputs.shape[-1])
    if isinstance(model, nn.Sequential) and can_be_stacked(model):
        model = NetworkStack([model])
    inputs, labels = inputs.to(device).contiguous(), labels.to(device).contiguous()
    test_inputs = _shared_or_stacked([torch.from_numpy(each.test_inputs) for each in datasets]).to(device)
    test_labels = _shared_or_stacked([torch.from_numpy(each.test_labels) for each in datasets]).to(device)
    losses: list[list[float]] = []
    accuracies: list[list[float]] = []
    # cuDNN's repeatable kernels in full float32: two runs of a seed are equal.
    repeatable = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
    # Streams and graphs are made on the current GPU, wherever the tensors are.
    current: AbstractContextManager[object] = torch.cuda.device(device) if device.type == "cuda" else nullcontext()
    with using_threads(threads), repeatable, current:
        optimiser = Adam(model, learner)

        def state(epoch: int) -> dict[str, Any]:
            return {
                "epoch": epoch,
                "epochs": learner.epochs,
                "epoch_steps": -(-slots // learner.batch_size),
                "model": model.state_dict(),
                "moments": optimiser.moments,
                "loss": losses,
                "test_accuracy": accuracies,
                "lowest_score": -math.inf if datasets[0].task == "regression" else 0.0,
            }

        saved = checkpoint.load(state(0)) if checkpoint is not None else None
        if saved is not None:
            model.load_state_dict(saved["model"])
            for moments, kept in zip(optimiser.moments, saved["moments"], strict=True):
                for name, value in kept.items():
                    moments[name].copy_(value)
            losses, accuracies = saved["loss"], saved["test_accuracy"]
        loss_sum = torch.zeros(inputs.shape[:-2], device=device)
        order = torch.zeros((slots,) if len(seeds) == 1 else (len(seeds), slots), dtype=torch.int64, device=device)
        train_epoch = make_epoch(model, optimiser, loss_sum, (inputs, labels), order, learner)
        for epoch in range(0 if saved is None else int(saved["epoch"]), learner.epochs):
            progress("training", epoch, learner.epochs)
            loss_sum.zero_()
            orders = [each.generator("training", epoch + 1).permutation(slots) for each in streams]
            order.copy_(_shared_or_stacked([torch.from_numpy(each) for each in orders]))
            train_epoch()
            losses.append(_finite(loss_sum.double().reshape(-1) / slots, epoch, learner).tolist())
            if test_labels.numel():
                accuracies.append(leading_score(datasets[0], class_scores(model, test_inputs), test_labels).tolist())
            if checkpoint is not None:
                checkpoint.save(state(epoch + 1))
        progress("training", learner.epochs, learner.epochs)
        last = class_scores(model, test_inputs) if test_labels.numel() else None
    histories = []
    for network in range(len(losses[0])):
        history = TrainingHistory(loss=[each[network] for each in losses])
        curve = [each[network] for each in accuracies]
        if last is not None:
            dataset = datasets[network if len(datasets) > 1 else 0]
            note_scores(history, dataset, curve, last[network] if last.dim() == 3 else last)
        histories.append(history)
    return histories


def note_scores(history: TrainingHistory, dataset: DataSet, curve: list[float], outputs: torch.Tensor) -> None:
    """Write down how the task's leading score went, and of the last outputs, test samples x outputs, all others."""
    predicted = dataset.label_code.decoded(outputs.double().cpu().numpy())
    history.predicted = predicted
    if dataset.task == "classification":
        history.test_accuracy += curve
        return
    history.test_score += curve
    history.score_name = LEADING[dataset.task]
    history.scores |= test_scores(dataset.task, predicted, dataset.test_labels, dataset.class_names)


def _shared_or_stacked(parts: list[torch.Tensor]) -> torch.Tensor:
    """Return the one part that all networks share, or networks x part."""
    return parts[0] if len(parts) == 1 else torch.stack(parts)


@torch.no_grad()
def class_scores(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    """Return the class scores of clean inputs, some at a time; (networks x) samples x classes."""
    at_once = _SCORED_AT_ONCE
    if isinstance(model, NetworkStack):
        at_once = max(_FEWEST_SCORED_AT_ONCE, _SCORED_AT_ONCE // model.count)
        inputs = inputs if inputs.dim() == 3 else inputs.unsqueeze(0)
    return torch.cat([model(batch) for batch in torch.split(inputs, at_once, dim=-2)], dim=-2)


def _useful_threads(model: nn.Module, batch_size: int, input_dim: int) -> int:
    """Return one thread for a network whose steps are over sooner than threads can be woken, else torch's number."""
    kernels = [module for module in model.modules() if isinstance(module, nn.Conv2d)]
    used_everywhere = sum(parameter.numel() for module in kernels for parameter in module.parameters())
    used_once = sum(parameter.numel() for parameter in model.parameters()) - used_everywhere
    multiplications = batch_size * (used_once + input_dim * used_everywhere)
    return torch.get_num_threads() if multiplications > _WORTH_WAKING else 1


def _finite(loss: torch.Tensor, epoch: int, learner: Learner) -> torch.Tensor:
    """Return the loss; raise if it went astray in every network, since training on is then in vain."""
    if not torch.isfinite(loss).any():
        raise AirMixError(
            f"training: the loss is {loss[0]:g} in epoch {epoch + 1}; the mixtures are too noisy or "
            f"learner.learning_rate = {learner.learning_rate:g} is too large; raise the power or lower the rate"
        )
    return loss
