"""The baseline of the training rows: the networks of the paper and the loop that most people write in PyTorch."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def image_network() -> nn.Sequential:
    """Return the paper's network for 28 x 28 images."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        *(nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 48, 5), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Flatten(),
        *(nn.Linear(48 * 4 * 4, 100), nn.ReLU()),
        *(nn.Linear(100, 100), nn.ReLU()),
        nn.Linear(100, 10),
    )


def iris_network() -> nn.Sequential:
    """Return the paper's network for Iris."""
    return nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 3))


def start(network: nn.Sequential, seed: int) -> nn.Sequential:
    """Set the usual initial values: Glorot-uniform weights, zero biases."""
    generator = torch.Generator().manual_seed(seed)
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.xavier_uniform_(module.weight, generator=generator)
            nn.init.zeros_(module.bias)
    return network


def soft_label_loss(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy with received labels, which may be negative: probabilities count as at least 1e-7."""
    return -(labels * torch.log_softmax(scores, dim=1).clamp(min=math.log(1e-7))).sum(dim=1).mean()


def usual_loop(
    network: nn.Sequential,
    inputs: torch.Tensor,
    labels: torch.Tensor,
    *,
    epochs: int,
    batch_size: int,
    device: str,
    scored: tuple[np.ndarray, np.ndarray] | None = None,
) -> nn.Sequential:
    """Train with a DataLoader, float32 and Adam; ``scored`` are test inputs and classes, scored after every epoch.

    Inputs (slots x input_dim) and labels (slots x label_dim) are on the CPU, as a DataLoader wants them.
    """
    network.to(device)
    on_gpu = device != "cpu"
    order = torch.Generator().manual_seed(0)
    loader = DataLoader(TensorDataset(inputs, labels), batch_size, shuffle=True, generator=order, pin_memory=on_gpu)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    for _ in range(epochs):
        network.train()
        running_loss = torch.zeros((), device=device)
        for some_inputs, some_labels in loader:
            batch, wanted = (part.to(device, non_blocking=True) for part in (some_inputs, some_labels))
            optimiser.zero_grad()
            loss = soft_label_loss(network(batch), wanted)
            loss.backward()
            optimiser.step()
            running_loss += loss.detach() * len(batch)
        running_loss.item()
        if scored is not None:
            accuracy_of(network, *scored)
    return network


def tuned_loop(
    network: nn.Sequential, inputs: torch.Tensor, labels: torch.Tensor, *, epochs: int, batch_size: int, device: str
) -> nn.Sequential:
    """The same with what experts change: everything on the device, batches cut from one shuffle, fused Adam."""
    network.to(device)
    inputs, labels = inputs.to(device), labels.to(device)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
    for _ in range(epochs):
        order = torch.randperm(len(inputs), device=device)
        for chosen in torch.split(order, batch_size):
            optimiser.zero_grad(set_to_none=True)
            soft_label_loss(network(inputs[chosen]), labels[chosen]).backward()
            optimiser.step()
    return network


@torch.no_grad()
def accuracy_of(network: nn.Module, test_inputs: np.ndarray, test_labels: np.ndarray) -> float:
    """Return the share of test samples whose class has the largest score."""
    network.eval()
    device = next(network.parameters()).device
    scores = torch.cat([network(part.to(device)) for part in torch.split(torch.from_numpy(test_inputs), 1000)])
    return float((scores.argmax(dim=1).cpu() == torch.from_numpy(test_labels)).float().mean())
