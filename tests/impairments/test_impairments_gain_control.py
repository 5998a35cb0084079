"""Automatic gain from the past: levels by hand, saturation and recovery, and what it costs where slots are uniform."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from airmixml.impairments.frame import Frame
from airmixml.impairments.hardware import causal_levels, first_level
from airmixml.radio.impaired_reception import convert_received
from airmixml.scenario import Air

LAYOUT = ((2, 0), (1, 0), (2, 1), (1, 2))  # length and block of each piece
FRAME = Frame.of([(length, block, 0.0, 0, 0.0) for length, block in LAYOUT], overhead_symbols=0)


def test_levels_follow_the_largest_symbol_of_earlier_blocks() -> None:
    received = torch.tensor([[1.0, -3.0, 2.0, 0.5, -0.5, 4.0], [9.0, 0.0, 0.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    levels = causal_levels(received, FRAME, torch.tensor([5.0, 2.0], dtype=torch.float64), 2.0)
    assert levels[0].tolist() == [5.0, 5.0, 5.0, 6.0, 6.0, 6.0]
    # A first block that saturates is seen at its outermost level.
    assert levels[1].tolist() == [2.0, 2.0, 2.0, 4.0, 4.0, 4.0]


def test_no_level_depends_on_its_own_block_or_a_later_one() -> None:
    rng = np.random.default_rng(2)
    received = torch.from_numpy(rng.standard_normal((3, 6)))
    start = torch.full((3,), 4.0, dtype=torch.float64)
    later = received.clone()
    later[:, 3:] *= 100.0
    before, after = (causal_levels(each, FRAME, start, 2.0) for each in (received, later))
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.equal(before[:, 5], after[:, 5])


def test_a_slot_begins_with_what_is_known_without_data() -> None:
    noise = torch.tensor([0.0, 0.25], dtype=torch.float64)
    assert first_level(2.0, 4096, noise).tolist() == [1.0, 2.0]
    assert first_level(2.0, 100, noise).tolist() == [2.0, 3.0]  # no symbol exceeds the norm


def test_rounding_has_the_step_of_its_block() -> None:
    """Symbols are off by half a step at most where they do not saturate, and the stated noise is step^2 / 12."""
    rng = np.random.default_rng(3)
    received = torch.from_numpy(rng.uniform(-1.0, 1.0, (40, 6)))
    levels = causal_levels(received, FRAME, torch.full((40,), 1.0, dtype=torch.float64), 2.0)
    air = Air(adc_bits=8, adc_gain="causal")
    along, across, least = convert_received(air, received, -received, levels)
    step = levels / 127.0
    inside = received.abs() <= levels
    assert ((along - received).abs() <= step / 2.0 + 1e-12)[inside].all()
    assert torch.equal(across, -along)
    assert torch.as_tensor(least).tolist() == pytest.approx((step.square() / 12.0).mean(dim=1).tolist())
