"""Classes sent less their mean: what is sent, how far it moves, and that the server gets the one-hot moments back."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from airmixml import Scenario, ScenarioError, simulate
from airmixml.data import Centred
from airmixml.edge.closed_form import MomentsCollector, one_hot_moments
from airmixml.radio.system import sensitivity_of
from airmixml.workers import Signal

TABLE = Scenario.preset("private-iris").with_overrides("workers.norm=unit", "workers.label_code=centred")


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_a_centred_class_has_norm_one_and_adds_up_to_nothing(classes: int) -> None:
    sent = Centred(classes).coded(np.arange(classes)).astype(np.float64)
    norms = np.linalg.norm(sent, axis=1)
    assert norms == pytest.approx(np.ones(classes), abs=1e-6)
    assert norms.max() <= 1.0
    assert sent.sum(axis=1) == pytest.approx(np.zeros(classes), abs=1e-6)
    # Any two differ by sqrt(2 / (1 - 1 / K)): for two classes they are opposite.
    assert np.linalg.norm(sent[0] - sent[1]) == pytest.approx(math.sqrt(2.0 / (1.0 - 1.0 / classes)), rel=1e-6)


def test_without_noise_the_moments_are_those_of_one_hot_labels() -> None:
    rng = np.random.default_rng(2)
    body = rng.standard_normal((200, 4))
    body *= math.sqrt(0.75) / np.linalg.norm(body, axis=1, keepdims=True)
    inputs = np.column_stack([body, np.full(200, 0.5)])
    labels = rng.integers(0, 3, 200)
    second, one_hot = inputs.T @ inputs / 200, inputs.T @ np.eye(3)[labels] / 200
    received = inputs.T @ Centred(3).coded(labels).astype(np.float64) / 200
    known, cross = one_hot_moments(torch.from_numpy(second), torch.from_numpy(received), constant=0.5, squared_norm=1.0)
    assert known.numpy() == pytest.approx(second, abs=1e-12)
    assert cross.numpy() == pytest.approx(one_hot, abs=1e-6)


def test_noise_is_not_believed_where_a_sum_is_known() -> None:
    """Noise on the constant's square, on the trace and on what all classes have in common is removed."""
    noisy = torch.diag(torch.tensor([0.5, 0.7, 0.9], dtype=torch.float64))
    cross = torch.tensor([[0.3, 0.1], [0.2, 0.2], [0.25, 0.75]], dtype=torch.float64)
    known, one_hot = one_hot_moments(noisy, cross, constant=0.5, squared_norm=1.0)
    assert float(known[-1, -1]) == 0.25
    assert float(known.trace()) == pytest.approx(1.0, abs=1e-12)
    assert one_hot[-1].sum() == pytest.approx(0.5, abs=1e-12)  # class shares add up to 1, times the constant
    root = math.sqrt(0.5)
    assert one_hot[0].tolist() == pytest.approx([0.1 * root, -0.1 * root], abs=1e-12)


def test_for_two_classes_noise_has_half_the_variance_at_the_same_sensitivity() -> None:
    """Monte Carlo: deviation of the received class difference, in units of the noise on a symbol (3 sigma: 4 %)."""
    deviations = {}
    for centred in (False, True):
        signal = Signal(features=40, classes=2, moments=True, centred_labels=centred, signed=centred)
        rng, differences = np.random.default_rng(0), []
        for _ in range(100):
            collector = MomentsCollector(signal, constant=0.5)
            noise = torch.from_numpy(rng.standard_normal((1, signal.symbols)))
            collector.add(noise[:, : signal.input_symbols], noise[:, signal.input_symbols :])
            cross = collector.moments(1.0, 1.0).cross
            differences.append((cross[:-1, 0] - cross[:-1, 1]).numpy())
        deviations[centred] = np.std(differences)
    assert deviations[False] == pytest.approx(math.sqrt(2.0), rel=0.04)
    assert deviations[True] == pytest.approx(1.0, rel=0.04)
    one_hot = TABLE.with_overrides("workers.label_code=one-hot")
    assert sensitivity_of(TABLE, 5, 2).removal == sensitivity_of(one_hot, 5, 2).removal


def test_a_run_keeps_its_target_and_learns() -> None:
    mixtures = simulate(TABLE)
    assert mixtures.report.privacy.epsilon == pytest.approx(5.0, rel=1e-6)
    assert isinstance(mixtures.dataset.code, Centred)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("workers.sends=samples", "workers.sends"),
        ("workers.constant=0", "workers.constant"),
        ("workers.bits=4", "workers.bits"),
    ],
)
def test_what_does_not_go_with_it_is_refused(change: str, named: str) -> None:
    with pytest.raises(ScenarioError, match=named):
        TABLE.with_overrides(change)
