"""A removal moves a computed sum by no more than the declared sensitivity, however many workers are added up.

Inputs are of the largest norm and alike, which is the worst case: every rounding then goes the same way. Differences of
two sums that lie close together are exact, so that nothing needs a tolerance.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airmixml import Scenario, simulate
from airmixml.data import DataSet
from airmixml.messages import ScenarioError
from airmixml.radio.system import sensitivity_of
from airmixml.radio.transmission import make_sender
from airmixml.streams import Secret, Streams
from airmixml.workers import load_dataset, within_declared
from airmixml.workers.moments import add_up_products
from airmixml.workers.payloads import add_up_rows, mix_samples
from airmixml.workers.signal import BLOCK, Payload, Places, rounding_backoff

UNIT = [0.5, 0.5, 0.5, 0.5]  # of norm 1 to the last bit


def scenario_of(workers: int, *changes: str) -> Scenario:
    return Scenario().with_overrides(
        "workers.dataset=mine.npz",
        f"workers.count={workers}",
        f"radio.scheduled={workers}",
        "mixing.policy=equalmix",
        "privacy.sensitivity=encoder",
        "privacy.delta=0.5",
        "workers.encoder=clip",
        "learner.model=ridge",
        *changes,
    )


def sender_of(scenario: Scenario, *, secret: Secret | None = None, number: float = 0.5) -> Payload:
    dataset = DataSet(
        name="alike",
        train_inputs=np.array([[number] * 4, [-number] * 4], dtype=np.float32),
        train_labels=np.array([0, 1]),
        test_inputs=np.zeros((0, 4), dtype=np.float32),
        test_labels=np.zeros(0, dtype=np.int64),
        class_names=("a", "b"),
        image_shape=None,
        clipped_values=0,
    )
    return make_sender(scenario, dataset, torch.device("cpu"), secret=secret)


def moved(sender: Payload, workers: int, removed: int) -> float:
    """Return by how much the sum moves, over what a single worker declares, when that worker falls silent."""
    index = torch.zeros((2, workers), dtype=torch.int64)
    shares = torch.full((2, workers), 1.0 / workers, dtype=torch.float64)
    shares[1, removed] = 0.0
    with_all, without = sender.weighted_sum(index, shares).double()
    return float((with_all - without).norm()) * workers


SENDERS = [
    (("workers.centre=public", "workers.sends=moments"), None),
    (("workers.centre=public",), None),
    (("workers.centre=public", "workers.bits=8"), Secret()),
]


@pytest.mark.parametrize(("changes", "secret"), SENDERS, ids=("moments", "samples", "rounded samples"))
@pytest.mark.parametrize("removed", [0, 29_999, 59_999])
def test_60000_workers(changes: tuple[str, ...], secret: Secret | None, removed: int) -> None:
    scenario = scenario_of(60_000, *changes)
    declared = math.sqrt(sensitivity_of(scenario, 4, 2).removal)
    assert 0.9 * declared < moved(sender_of(scenario, secret=secret), 60_000, removed) <= declared


def test_float32_would_move_too_far() -> None:
    index, shares = torch.zeros((2, 60_000), dtype=torch.int64), torch.full((2, 60_000), 1 / 60_000)
    shares[1, 0] = 0.0
    with_all, without = mix_samples(torch.tensor([UNIT]), index, shares).double()
    assert float((with_all - without).norm()) * 60_000 > 1.0005


def test_sums_are_float64_where_they_protect() -> None:
    few, many = (torch.zeros((1, count), dtype=torch.int64) for count in (4, 200))
    for changes, secret, index, dtype in (
        ((), None, few, torch.float32),
        ((), Secret(), few, torch.float64),
        ((), None, many, torch.float64),
        (("workers.sends=moments",), None, few, torch.float64),
    ):
        sender = sender_of(scenario_of(index.shape[1], "workers.centre=public", *changes), secret=secret)
        assert sender.weighted_sum(index, torch.full(index.shape, 1.0 / index.shape[1])).dtype == dtype


@pytest.mark.parametrize("workers", [10**6, pytest.param(10**7, marks=pytest.mark.long)])
def test_many_more_workers(workers: int) -> None:
    table = torch.tensor([[1.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0]], dtype=torch.float64)
    index, shares = torch.zeros((1, workers), dtype=torch.int64), torch.full((1, workers), 1.0 / workers)
    shares = shares.double()
    with_all = mix_samples(table, index, rounding_backoff(workers) * shares)
    shares[0, 0] = 0.0
    distance = float((with_all - mix_samples(table, index, rounding_backoff(workers) * shares)).norm()) * workers
    assert 1.0 - 5e-5 < distance <= float(table.norm())
    assert 0.0 < 1.0 - rounding_backoff(workers) < 2e-5


def test_the_bound_by_hand() -> None:
    # 4096 additions in a block, 15 blocks, 8 other roundings; both of two sums; 60,000 times what one worker moves.
    assert 1.0 - rounding_backoff(60_000) == pytest.approx(2 * (4096 + 15 + 8) * 2.0**-53 * 60_000, rel=1e-6)
    # It is the blocks that keep it small: without them it would be 2 % of the sensitivity at 10^7.
    assert 1.0 - rounding_backoff(10**7) < 2e-5
    assert 1.0 - rounding_backoff(10**7, block=10**7) > 0.02
    assert rounding_backoff(1) == pytest.approx(1.0, abs=1e-14)


def test_more_workers_than_rounding_allows_are_refused() -> None:
    assert rounding_backoff(10**9) > 0.94
    with pytest.raises(ScenarioError, match=r"radio\.scheduled = 3000000000: what rounding may add"):
        rounding_backoff(3 * 10**9)


def test_parts_of_a_slot_are_softened_as_the_whole() -> None:
    """300 workers at once, and in parts of 280 and 20; all are float64."""
    index = torch.arange(300)[None] % 2
    shares = torch.full((1, 300, 1), 1.0 / 300, dtype=torch.float64)
    for changes, secret in (((), None), (("workers.sends=moments",), Secret())):
        sender = sender_of(scenario_of(300, "workers.centre=public", *changes), secret=secret)
        places = Places([sender.signal.symbols], in_slot=300)
        parts = [sender.weighted_sum(index[:, some], shares[:, some], places) for some in (slice(280), slice(280, 300))]
        assert {each.dtype for each in parts} == {torch.float64}
        whole = sender.weighted_sum(index, shares, places)
        assert torch.allclose(parts[0] + parts[1], whole, rtol=1e-14, atol=0.0)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 300), st.integers(0, 2**32 - 1))
@example(150, 30784)  # moves more than the share that was already multiplied
def test_any_vectors_shares_and_order(workers: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((workers, 3)) * 10.0 ** rng.integers(-12, 12, (workers, 1))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) * (1.0 + 1e-15)
    shares = rng.dirichlet(np.full(workers, 10.0 ** rng.uniform(-2, 4)))
    order = rng.permutation(workers)
    index, weights = torch.from_numpy(order)[None], rounding_backoff(workers) * torch.from_numpy(shares)[None]
    with_all = mix_samples(torch.from_numpy(vectors), index, weights)
    silent = weights.clone()
    silent[0, rng.integers(workers)] = 0.0
    distance = float((with_all - mix_samples(torch.from_numpy(vectors), index, silent)).norm())
    assert distance <= shares.max()


def test_sums_over_several_blocks() -> None:
    rng = np.random.default_rng(0)
    rows, shares = rng.random((2 * BLOCK + 5, 2), dtype=np.float32), rng.random(2 * BLOCK + 5)
    expected = [math.fsum(shares * rows[:, column].astype(float)) for column in range(2)]
    assert add_up_rows(shares, rows) == pytest.approx(expected, rel=1e-13)
    index = torch.arange(len(rows))[None].repeat(2, 1)
    weights = torch.from_numpy(np.stack([shares, 2.0 * shares]))
    found = mix_samples(torch.from_numpy(rows).double(), index, weights)
    assert found[0].tolist() == pytest.approx(expected, rel=1e-13)
    assert found[1].tolist() == pytest.approx([2.0 * each for each in expected], rel=1e-13)


@pytest.mark.parametrize("slots", [1, 3])
def test_products(slots: int) -> None:
    rng = np.random.default_rng(1)
    inputs, labels = rng.standard_normal((slots, 7, 3)), rng.random((slots, 7, 2))
    shares = rng.random((slots, 7))
    products, with_labels = add_up_products(*map(torch.from_numpy, (inputs, labels, shares)))
    assert torch.equal(products, products.transpose(1, 2))
    assert products.numpy() == pytest.approx(np.einsum("ti,tia,tib->tab", shares, inputs, inputs), rel=1e-13)
    assert with_labels.numpy() == pytest.approx(np.einsum("ti,tia,tic->tac", shares, inputs, labels), rel=1e-13)


def test_mean_of_60000_alike() -> None:
    rows, held = np.tile(np.array(UNIT, dtype=np.float32), (60_000, 1)), np.full(60_000, 1.0 / 60_000)
    with_all = add_up_rows(rounding_backoff(60_000) * held, rows)
    held[0] = 0.0
    assert 0.9999 < np.linalg.norm(with_all - add_up_rows(rounding_backoff(60_000) * held, rows)) * 60_000 <= 1.0


ABOVE = np.nextafter(np.float32(0.5), np.float32(1.0))  # four of it have a norm of 1 + 1.2e-7


@pytest.mark.parametrize("changes", [(), ("workers.sends=moments",)], ids=("samples", "moments"))
def test_hand_made_inputs_that_rounding_made_too_long(changes: tuple[str, ...]) -> None:
    scenario = scenario_of(4, "workers.centre=public", *changes)
    declared = math.sqrt(sensitivity_of(scenario, 4, 2).removal)
    assert 0.99 * declared < moved(sender_of(scenario, secret=Secret(), number=ABOVE), 4, 0) <= declared


def test_a_hand_made_input_of_exactly_the_declared_norm_and_one_below() -> None:
    workers = scenario_of(4, "workers.centre=public").workers
    rows = np.array([UNIT, [ABOVE] * 4, [0.4] * 4], dtype=np.float32)
    kept = within_declared(workers, rows)
    assert (np.linalg.norm(kept.astype(np.float64), axis=1) <= 1.0).all()
    assert (kept[[0, 2]] == rows[[0, 2]]).all()
    for row in range(3):  # nothing depends on the others
        assert (within_declared(workers, rows[[row]]) == kept[row]).all()


@pytest.mark.parametrize("encoder", ["scale", "clip"])
def test_hand_made_inputs_just_above_1(encoder: str) -> None:
    """A norm of up to 3 declares no more than 4 numbers of up to 1 have."""
    workers = replace(scenario_of(4).workers, encoder=encoder, clip_norm=3.0)
    rows = np.array([[1.0, np.nextafter(np.float32(1.0), np.float32(2.0)), 1.0, 1.0]], dtype=np.float32)
    assert within_declared(workers, rows).tolist() == [[1.0] * 4]
    with pytest.raises(ScenarioError, match=f"from 0 to 2: must lie between 0 and 1, which the encoder {encoder}"):
        within_declared(workers, np.array([[2.0, 0.0, 0.0, 0.0]], dtype=np.float32))


def test_the_slot_for_the_mean_refuses_what_is_longer_than_declared() -> None:
    scenario = Scenario.preset("private-iris").with_overrides("workers.centre=private", "workers.centre_share=0.5")
    dataset = load_dataset(scenario.workers, Streams(0))
    long = replace(dataset, train_inputs=np.asarray(3.0 * dataset.train_inputs, dtype=np.float32))
    with pytest.raises(ScenarioError, match="dataset: an input has the squared norm"):
        simulate(scenario, dataset=long)
