"""What workers send of targets, of several labels and of several rows stays within the sensitivity of their power.

Neighbours are built where the bounds are tight, and searched for by optimisation; all go through the sender of a run.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from airmixml import Scenario
from airmixml.data import Bounded, DataSet, LabelCode, OneHot, Signs
from airmixml.messages import ScenarioError
from airmixml.radio.privacy_target import row_amplitude
from airmixml.radio.system import sensitivity_of
from airmixml.radio.transmission import make_sender
from airmixml.streams import Secret
from airmixml.workers import Holdings, Signal, encode
from airmixml.workers.population import gather_rows
from airmixml.workers.signal import Places

CPU = torch.device("cpu")


def scenario_of(*changes: str) -> Scenario:
    return Scenario().with_overrides(
        "workers.dataset=mine.npz",
        "workers.encoder=clip",
        "workers.centre=public",
        "workers.count=1",
        "radio.scheduled=1",
        "mixing.policy=equalmix",
        "privacy.sensitivity=encoder",
        "learner.model=ridge",
        *changes,
    )


def dataset_of(inputs: NDArray[np.float32], labels: NDArray[np.float64], code: LabelCode) -> DataSet:
    return DataSet(
        name="odd",
        train_inputs=inputs,
        train_labels=labels,
        test_inputs=inputs[:0],
        test_labels=labels[:0],
        class_names=tuple("abcdefghij"[: code.coded(labels[:1]).shape[1]]),
        image_shape=None,
        clipped_values=0,
        code=code,
    )


def sent(scenario: Scenario, dataset: DataSet, holdings: Holdings | None = None) -> NDArray[np.float64]:
    """What a single worker puts on the air, for each sample or holding; x symbols."""
    every = torch.arange(dataset.train_samples if holdings is None else len(holdings.rows))[:, None]
    sender = make_sender(scenario, dataset, CPU, holdings=holdings)
    return np.asarray(sender.weighted_sum(every, torch.ones(every.shape, dtype=torch.float64)).double().numpy())


def largest_squared_distance(vectors: NDArray[np.float64]) -> float:
    gram = vectors @ vectors.T
    norms = np.diag(gram)
    return float((norms[:, None] + norms[None] - 2.0 * gram).max())


CODES = {
    "regression": (Bounded((-1.0,) * 3, (2.0,) * 3), np.array([[2.0, 2, 2], [-1, -1, -1], [0, 1, -1], [99, -99, 0.5]])),
    "multi-label": (Signs(3), np.array([[1.0, 1, 1], [0, 0, 0], [1, 0, 1], [0, 1, 0]])),
}


@pytest.mark.parametrize("task", CODES)
def test_no_built_neighbours_break_the_sensitivity(task: str) -> None:
    """Directions and their opposites, plain rows and the centre itself, each with labels at opposite ends."""
    code, labels = CODES[task]
    rng = np.random.default_rng(3)
    raw = rng.random((6, 4))
    corners = np.vstack([raw, 1.0 - raw, np.eye(4), np.ones((1, 4)), np.zeros((1, 4)), np.full((1, 4), 0.5)])
    for norm, constant, sends, bits, weight, centre in itertools.product(
        ("clip", "unit"), (0.0, 0.5), ("samples", "moments"), (0, 3), (0.4, 1.0), ("public", "none")
    ):
        scenario = scenario_of(
            f"workers.task={task}",
            f"workers.norm={norm}",
            f"workers.constant={constant}",
            f"workers.sends={sends}",
            f"workers.bits={bits}",
            f"workers.label_weight={weight}",
            f"workers.centre={centre}",
        )
        inputs, _ = encode(scenario.workers, corners.astype(np.float32))
        dataset = dataset_of(np.repeat(inputs, 4, axis=0), np.tile(labels, (len(inputs), 1)), code)
        vectors = sent(scenario, dataset)
        sensitivity = sensitivity_of(scenario, dataset.input_dim, 3)
        assert np.square(vectors).sum(axis=1).max() <= sensitivity.removal
        assert largest_squared_distance(vectors) <= sensitivity.replacement
        assert np.abs(vectors).max() <= 1.0


def test_opposite_targets_reach_the_distance_of_samples() -> None:
    """Opposite inputs and opposite labels: 4 C^2 + 4 w^2; where nothing is negative, 2 C^2 + 4 w^2."""
    for centre, rows, by_hand in (
        ("public", [[0.9, 0.5], [0.1, 0.5]], 4 * 0.64 + 4 * 0.25),
        ("none", [[1.0, 0.0], [0.0, 1.0]], 2 * 0.64 + 4 * 0.25),
    ):
        changes = ("workers.clip_norm=0.8", "workers.norm=unit", "workers.label_weight=0.5", "workers.task=regression")
        scenario = scenario_of(*changes, f"workers.centre={centre}")
        inputs, _ = encode(scenario.workers, np.array(rows, dtype=np.float32))
        vectors = sent(scenario, dataset_of(inputs, np.array([[7.0], [0.0]]), Bounded((0.0,), (7.0,))))
        bound = sensitivity_of(scenario, 2, 1)
        assert bound.replacement == pytest.approx(by_hand, rel=1e-12)
        assert bound.removal == pytest.approx(0.64 + 0.25, rel=1e-12)
        assert largest_squared_distance(vectors) == pytest.approx(by_hand, rel=1e-5)
        assert largest_squared_distance(vectors) <= bound.replacement


@pytest.mark.parametrize(("clip_norm", "weight"), [(1.0, 1.0), (1.0, 0.5), (0.5, 1.0), (0.6, 0.9)])
def test_the_worst_pair_of_moments_needs_no_negative_input(clip_norm: float, weight: float) -> None:
    """Opposite labels and x . x' = min(w^2 / 2, C^2): 2 (C^4 + w^2 C^2) + w^4 / 2, or 4 w^2 C^2 for x' = x."""
    cosine = min(weight**2 / 2 / clip_norm**2, 1.0)
    rows = np.array([[1.0, 0.0], [cosine, math.sqrt(1.0 - cosine**2)]], dtype=np.float32)
    scenario = scenario_of(
        "workers.centre=none",
        "workers.norm=unit",
        "workers.sends=moments",
        "workers.task=multi-label",
        f"workers.clip_norm={clip_norm}",
        f"workers.label_weight={weight}",
    )
    inputs, _ = encode(scenario.workers, rows)
    vectors = sent(scenario, dataset_of(inputs, np.array([[1.0, 1.0], [0.0, 0.0]]), Signs(2)))
    bound = sensitivity_of(scenario, 2, 2).replacement
    square = clip_norm**2
    by_hand = 2 * (square**2 + weight**2 * square) + weight**4 / 2 if cosine < 1 else 4 * weight**2 * square
    assert bound == pytest.approx(by_hand, rel=1e-12)
    assert largest_squared_distance(vectors) == pytest.approx(bound, rel=2e-5)
    assert largest_squared_distance(vectors) <= bound


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("weight", [0.3, 1.0])
def test_an_optimiser_finds_the_declared_distance_of_moments_and_nothing_beyond(outputs: int, weight: float) -> None:
    """Any two inputs in the ball and labels in the cube of side 2 / sqrt(targets), by SciPy on the full products."""
    edge = 1.0 / math.sqrt(outputs)

    def squared_distance(numbers: NDArray[np.float64]) -> float:
        x, y, k, m = np.split(numbers, [2, 4, 4 + outputs])
        x, y = (each / max(1.0, float(np.linalg.norm(each))) for each in (x, y))
        k, m = np.clip(k, -edge, edge), np.clip(m, -edge, edge)
        products = np.outer(x, x) - np.outer(y, y)
        return float(np.square(products).sum() + weight**2 * np.square(np.outer(x, k) - np.outer(y, m)).sum())

    rng = np.random.default_rng(outputs)
    starts = rng.normal(size=(6, 4 + 2 * outputs))
    starts[:, 4:] = edge * np.sign(starts[:, 4:])
    found = max(-minimize(lambda n: -squared_distance(n), s, method="Nelder-Mead").fun for s in starts)
    signal = Signal(features=2, classes=outputs, moments=True, label_weight=weight, signed=True)
    bound = signal.largest_squared_distance(1.0, 4.0)
    assert found <= bound * (1.0 + 1e-9)
    assert found > 0.99 * bound


# --- Several rows -----------------------------------------------------------------------------------------------------


def rows_of(rng: np.random.Generator, rows: int, kind: str) -> NDArray[np.float64]:
    """Rows that all point one way, one way and its opposite, many short ones, or anywhere."""
    one = rng.normal(size=4)
    return {
        "alike": np.tile(one, (rows, 1)),
        "opposite": np.outer(rng.choice([-1, 1], rows), one),
        "short": 0.01 * np.tile(one, (rows, 1)),
        "any": rng.normal(size=(rows, 4)) * rng.random((rows, 1)) * 3,
    }[kind]


@given(
    seed=st.integers(0, 10**6),
    bound=st.sampled_from([1.0, 2.5, 7.0]),
    weight=st.sampled_from([0.3, 1.0]),
    bits=st.sampled_from([0, 3]),
    task=st.sampled_from(["classification", "regression", "multi-label"]),
)
@settings(max_examples=40, deadline=None)
def test_no_holding_moves_more_than_a_row_may(seed: int, bound: float, weight: float, bits: int, task: str) -> None:
    rng = np.random.default_rng(seed)
    scenario = scenario_of(
        f"workers.task={task}",
        "workers.sends=moments",
        "workers.worker_column=w",
        f"workers.rows_bound={bound}",
        f"workers.label_weight={weight}",
        f"workers.bits={bits}",
    )
    kinds, sizes = ("alike", "opposite", "short", "any"), rng.integers(1, 40, size=4)
    raw = np.vstack([rows_of(rng, size, kind) for size, kind in zip(sizes, kinds, strict=True)])
    inputs, _ = encode(scenario.workers, (0.5 + raw).astype(np.float32))
    codes: dict[str, LabelCode] = {"classification": OneHot(3), "regression": Bounded((-1.0,) * 3, (1.0,) * 3)}
    code = codes.get(task, Signs(3))
    labels = rng.integers(0, 3, size=len(raw)) if task == "classification" else rng.choice([-1.0, 1.0], (len(raw), 3))
    holdings = gather_rows(np.repeat(np.arange(4), sizes), 4, 0, rng)
    vectors = sent(scenario, dataset_of(inputs, labels, code), holdings)
    sensitivity = sensitivity_of(scenario, 4, 3)
    norms = np.square(vectors).sum(axis=1)
    assert norms.max() <= sensitivity.removal == pytest.approx(1.0 + weight**2)
    assert largest_squared_distance(vectors) <= sensitivity.replacement == pytest.approx(4.0 * (1.0 + weight**2))


@pytest.mark.parametrize("in_pieces", [False, True])
def test_how_many_rows_one_worker_holds_changes_nothing_of_the_others(in_pieces: bool) -> None:
    """Shares leave room for rounding: by how much must not follow from one person's number of rows."""
    rng, workers = np.random.default_rng(3), 300
    code = Signs(2)
    sums = []
    for rows in (1, 200):
        inputs = np.random.default_rng(4).uniform(-0.4, 0.4, (workers + 199, 4)).astype(np.float32)
        labels = np.ones((len(inputs), 2))
        holders = np.concatenate([np.arange(workers), np.zeros(rows - 1, dtype=np.int64)])
        dataset = dataset_of(inputs[: len(holders)], labels[: len(holders)], code)
        scenario = scenario_of(
            "workers.task=multi-label", "workers.label_columns=a,b", "workers.worker_column=p", "workers.sends=moments"
        )
        holdings = gather_rows(holders, workers, 0, rng)
        sender = make_sender(scenario, dataset, CPU, secret=Secret(), holdings=holdings)
        shares = torch.full((1, workers), 1.0 / workers, dtype=torch.float64)
        shares[0, 0] = 0.0  # that worker is silent: all others send what they sent before
        index = torch.arange(workers)[None]
        if in_pieces:
            lengths = [5, sender.signal.symbols - 5]
            sums.append(sender.weighted_sum(index, shares[:, :, None].expand(-1, -1, 2), Places(lengths)))
        else:
            sums.append(sender.weighted_sum(index, shares))
    assert torch.equal(*sums)


def test_what_is_sent_is_the_shortened_sum_by_hand() -> None:
    """Rows e_1 (label 1) and e_1 (label -1), and one e_2: products by NumPy, norm bounded by hand, over the bound."""
    scenario = scenario_of("workers.task=regression", "workers.sends=moments", "workers.worker_column=w")
    inputs = np.array([[1, 0], [1, 0], [0, 0.5]], dtype=np.float32)
    dataset = dataset_of(inputs, np.array([[1.0], [-1.0], [0.5]]), Bounded((-1.0,), (1.0,)))
    holdings = gather_rows(np.array([0, 0, 1]), 2, 0, np.random.default_rng(0))
    two, one = sent(scenario, dataset, holdings)
    # The first adds up to (2, 0, 0 | 0, 0), of norm 2, and is shortened to sqrt(2), the norm of one row.
    assert two == pytest.approx([math.sqrt(2.0), 0, 0, 0, 0], rel=1e-4)
    assert one == pytest.approx([0, 0, 0.25, 0, 0.25], rel=1e-6)
    two, one = sent(scenario.with_overrides("workers.rows_bound=4"), dataset, holdings)
    assert two == pytest.approx([0.5, 0, 0, 0, 0], rel=1e-6)
    assert one == pytest.approx([0, 0, 0.0625, 0, 0.0625], rel=1e-6)


def test_many_short_rows_come_near_the_distance_that_is_declared() -> None:
    """Short rows with opposite labels: their own products vanish beside those with the label, which are opposite."""
    scenario = scenario_of("workers.task=regression", "workers.sends=moments", "workers.worker_column=w")
    inputs = np.tile(np.array([[0.01, 0.0]], dtype=np.float32), (400, 1))
    labels = np.repeat([[1.0], [-1.0]], 200, axis=0)
    holdings = gather_rows(np.repeat([0, 1], 200), 2, 0, np.random.default_rng(0))
    vectors = sent(scenario, dataset_of(inputs, labels, Bounded((-1.0,), (1.0,))), holdings)
    assert largest_squared_distance(vectors) > 0.999 * sensitivity_of(scenario, 2, 1).replacement


@given(seed=st.integers(0, 10**6), bound=st.sampled_from([1.0, 3.0, 10.0]), capped=st.booleans())
@settings(max_examples=20, deadline=None)
def test_one_row_moves_no_more_than_its_share(seed: int, bound: float, capped: bool) -> None:
    """Removed, or replaced by another: shortening never sets two sums farther apart."""
    rng = np.random.default_rng(seed)
    scenario = scenario_of(
        "workers.task=regression",
        "workers.sends=moments",
        "workers.worker_column=w",
        f"workers.rows_bound={bound}",
        f"workers.max_rows={8 if capped else 0}",
        "privacy.adjacency=remove-one",
    )
    size = int(rng.integers(2, 30))
    inputs, _ = encode(scenario.workers, (0.5 + rng.normal(size=(size, 4))).astype(np.float32))
    dataset = dataset_of(inputs, rng.choice([-1.0, 1.0], (size, 1)), Bounded((-1.0,), (1.0,)))
    most = 8 if capped else size
    rows = np.zeros((2, most), dtype=np.int64)
    present = np.zeros((2, most), dtype=bool)
    for holding, held in enumerate((np.arange(size)[:most], np.arange(1, size)[:most])):
        rows[holding, : len(held)], present[holding, : len(held)] = held, True
    with_row, without = sent(scenario, dataset, Holdings(rows=rows, present=present))
    moved = float(np.square(with_row - without).sum())
    assert moved <= row_amplitude(scenario) ** 2 * sensitivity_of(scenario, 4, 1).removal * (1.0 + 1e-6)


def test_rounded_sums_make_no_promise_for_a_row() -> None:
    rounded = scenario_of("workers.sends=moments", "workers.worker_column=w", "workers.rows_bound=5", "workers.bits=2")
    assert row_amplitude(rounded) == 1.0
    assert row_amplitude(rounded.with_overrides("workers.bits=0")) == pytest.approx(0.2)
    assert row_amplitude(rounded.with_overrides("workers.bits=0", "air.dac_bits=8")) == 1.0
    assert row_amplitude(rounded.with_overrides("workers.bits=0", "workers.worker_column=")) == 1.0


def test_a_population_without_holdings_is_refused() -> None:
    scenario = scenario_of("workers.sends=moments", "workers.worker_column=w")
    inputs = np.zeros((2, 2), dtype=np.float32)
    with pytest.raises(ScenarioError, match="which rows each worker holds"):
        sent(scenario, dataset_of(inputs, np.array([0, 1]), OneHot(2)))
